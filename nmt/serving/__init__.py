"""A translator behind HTTP: the calls of LibreTranslate, ours, and the page."""
