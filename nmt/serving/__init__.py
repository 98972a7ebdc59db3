"""Serves a translator over HTTP, with LibreTranslate's API, an API of nmt, and a web page."""
