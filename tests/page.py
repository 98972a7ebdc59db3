"""Parses an HTML page for tests."""

import json
import re
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "path"}


class Page(HTMLParser):
    """The parts of a page that tests check."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert not self.open, "unclosed elements"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag][-1] += data

    @property
    def text(self) -> str:
        return self.texts["html"][0]

    @property
    def rows(self) -> list[list[str]]:
        """Returns the cells of all table rows."""
        html = self.rawdata_of_body
        rows = re.findall(r"<tr>(.*?)</tr>", html, re.S)
        return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in rows]

    def feed(self, data: str):
        self.rawdata_of_body = data
        super().feed(data)

    @property
    def charts(self) -> list[dict]:
        scripts = [attributes for tag, attributes in self.tags if tag == "script"]
        ids = [attributes.get("id") for attributes in scripts]
        return json.loads(self.texts["script"][ids.index("data-of-charts")])

    @property
    def data(self) -> str:
        """Returns the content of the JSON script."""
        scripts = [attributes for tag, attributes in self.tags if tag == "script"]
        return self.texts["script"][scripts.index({"type": "application/json"})]
