"""Bundles the web page's files, so that the page shows a translation after two round trips."""

import base64
import hashlib
import re
from dataclasses import dataclass
from importlib import resources

from nmt.evaluation.javascript import exports, joined

_STYLE = re.compile(r'<link rel="stylesheet" href="(\w+\.css)">')
_SCRIPT = re.compile(r'<script src="(\w+)\.js"></script>')
_DYNAMIC = re.compile(r'import\("\./(\w+)\.js"\)')


@dataclass(frozen=True)
class PageFiles:
    """The files and the Content-Security-Policy of the web page.

    Attributes:
        files: a dictionary that maps each URL path to a file's content and media type.
        policy: the value of the Content-Security-Policy header. The policy allows the styles and
            the script in index.html, but nothing from other hosts.
    """

    files: dict[str, tuple[bytes, str]]
    policy: str

    @classmethod
    def read(cls) -> "PageFiles":
        """Reads the source files, inlines styles and scripts in index.html, and bundles modules.

        Each dynamically imported module is bundled in a separate file with the modules that it
        imports. Modules that index.html or an earlier file contains are omitted.
        """
        sources = {
            entry.name: entry.read_text("utf-8")
            for folder in (
                resources.files("nmt.serving") / "page",
                resources.files("nmt.evaluation") / "view",
            )
            for entry in folder.iterdir()
            if entry.is_file()
        }
        modules = {name[:-3]: text for name, text in sources.items() if name.endswith(".js")}
        [entry] = _SCRIPT.findall(sources["index.html"])
        done: set[str] = set()
        script = f'"use strict";\n{joined(modules, entry, done)}'
        style = "".join(sources[name] for name in _STYLE.findall(sources["index.html"]))
        page = _STYLE.sub("", sources["index.html"]).replace(
            "</head>", f"<style>{style}</style></head>"
        )
        page = _SCRIPT.sub(lambda _: f"<script>{script}</script>", page)
        files = {
            "/": (page.encode(), "text/html"),
            "/index.html": (page.encode(), "text/html"),
            "/icon.svg": (sources["icon.svg"].encode(), "image/svg+xml"),
        }
        for name in _DYNAMIC.findall(script):
            text = (
                joined(modules, name, done) + f"export const {exports(modules[name])} = ${name};\n"
            )
            files[f"/{name}.js"] = text.encode(), "text/javascript"
        policy = (
            f"default-src 'none'; script-src 'self' {_hash(script)}; style-src {_hash(style)}; "
            "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        return cls(files, policy)


def _hash(content: str) -> str:
    """Returns the Content-Security-Policy source expression for an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
