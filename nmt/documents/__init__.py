"""Sentence splitting, passages, documents, HTML and XML."""
