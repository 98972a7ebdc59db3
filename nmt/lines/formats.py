"""Lists the output formats of `nmt translate`.

This module imports no slow modules, so that `nmt translate --help` is fast.
"""

from typing import Literal

Format = Literal["text", "jsonl", "html", "xml"]
ABOUT_FORMATS = (
    "jsonl: one JSON object per line, with scores and tokens. html, xml: the input is an HTML or "
    "XML document; its text is translated sentence by sentence, and its tags are kept"
)
