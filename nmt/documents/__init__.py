"""Texts longer or richer than a sentence: sentence ends, passages, documents, HTML and XML."""
