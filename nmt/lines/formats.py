"""Lists the output formats of `nmt translate`. Has no slow imports, because the help uses it."""

from typing import Literal

Format = Literal["text", "jsonl", "html", "xml"]
ABOUT_FORMATS = (
    "jsonl: an object per line, with scores and tokens. html, xml: the input is such a document; "
    "its text is translated sentence by sentence, its tags are kept"
)
