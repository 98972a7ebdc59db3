"""Serves a translator over HTTP through LibreTranslate's API, nmt's own API and a web page."""
