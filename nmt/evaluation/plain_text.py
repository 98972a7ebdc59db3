"""Checks that text to be scored is plain, neither in subword pieces nor tokenized.

Scores of other text compare with no published ones.
"""

import re
from collections.abc import Sequence

from nmt.errors import InputError, Note, count

# sentencepiece's mark before a word, where it is no part of a bar chart (▁▂▃); subword-nmt's
# mark at the end of a piece that is not the last of its word
_PIECE = re.compile(r"(?:^|\s)▁(?![▁-█])|\S+@@(?:\s|$)")
# A space before a full stop or comma, what Moses escapes, split hyphens
_TOKENIZED = re.compile(r"\S [.,](?:\s|$)|&(?:apos|quot|amp|lt|gt|#91|#93|#124);|@-@|##AT##")
# Of the lines with text. Newstests, captions, parliament and Tatoeba, German and English, have
# at most 0.5%; tokenized TED talks and parliament at least 95%.
_TOKENIZED_SHARE = 0.1


def check_plain_text(
    lines: Sequence[str], name: str, note: Note, *, may_be_tokenized: bool = False
) -> None:
    """Refuses text in pieces; warns where it looks tokenized.

    Args:
        name: of the file, for messages.
        may_be_tokenized: leaves out the warning.
        note: takes the warning.

    Raises:
        InputError: a line still carries the marks of subword pieces.
    """
    tokenized = [number for number, line in enumerate(lines, start=1) if _TOKENIZED.search(line)]
    for number, line in enumerate(lines, start=1):
        if found := _PIECE.search(line):
            raise InputError(
                f"text in subword pieces ({found[0].strip()!r}), {name}:{number}, "
                "join the pieces into plain text"
            )
    if not may_be_tokenized and len(tokenized) > _TOKENIZED_SHARE * sum(
        1 for line in lines if line.strip()
    ):
        share = f"{len(tokenized)} of {count(len(lines), 'line')}, the first is line {tokenized[0]}"
        note(
            f"nmt: warning: {name} looks tokenized ({share}); its scores compare with no others; "
            "give plain text"
        )
