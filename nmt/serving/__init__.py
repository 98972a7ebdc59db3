"""Serves a translator over HTTP: LibreTranslate's calls, our own, and the web page."""
