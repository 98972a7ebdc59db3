"""Texts of several lines and sentences: cut for the model, and put together again.

What stands between two sentences, line breaks above all, stays as it is.
"""

import re
from collections.abc import Sequence

Span = tuple[int, int]  # first character and the one after the last, in code points

_LINE = re.compile(r"[^\r\n]*\S[^\r\n]*")
# an end of sentence, with what closes after it, before white space and what is no small letter
_END = re.compile(r"""[.!?…]["'”’»)\]]*(?=\s+[^\s\W\d_a-zß-öø-ÿ]|\s+[\d"'“‘«„(\[¿¡])|[。！？]""")


def spans(text: str, *, sentences: bool) -> list[Span]:
    """Where lines, or the sentences within lines, begin and end; blank ones are left out.

    spans("One. Two.\\n\\nThree.", sentences=True) -> [(0, 4), (5, 9), (11, 17)]
    """
    found = []
    for line in _LINE.finditer(text):
        begin, end = line.span()
        ends = [match.end() for match in _END.finditer(text, begin, end)] if sentences else []
        for stop in [*ends, end]:
            if part := text[begin:stop].strip():
                first = text.index(part, begin)
                found.append((first, first + len(part)))
            begin = stop
    return found


def joined(text: str, sources: Sequence[Span], targets: Sequence[str]) -> tuple[str, list[Span]]:
    """A text with its sentences replaced by their translations, and where those stand in it."""
    parts: list[str] = []
    found: list[Span] = []
    length = after = 0
    for (begin, end), target in zip(sources, targets, strict=True):
        gap = text[after:begin] or (" " if after else "")
        found.append((length + len(gap), length + len(gap) + len(target)))
        parts += [gap, target]
        length, after = found[-1][1], end
    return "".join([*parts, text[after:]]), found
