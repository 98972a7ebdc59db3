"""Splits text, documents, HTML and XML into sentences, and joins their translations."""
