"""Lists the output formats of `nmt translate`.

This module imports no slow modules, so that the help of `nmt translate` appears quickly.
"""

from typing import Literal

Format = Literal["text", "jsonl", "html", "xml"]
ABOUT_FORMATS = (
    "jsonl writes one JSON object per line, with scores and tokens. html and xml expect an HTML or "
    "XML document as input, translate its text sentence by sentence, and keep its tags"
)
