"""Checks that a text to be scored is neither split into subword pieces nor tokenized.

If a text is split into subword pieces or tokenized, its scores are not comparable with published
scores.
"""

import re
from collections.abc import Sequence

from nmt.errors import InputError, Note, count

# sentencepiece's mark before a word, unless the mark is part of a bar chart (▁▂▃), or subword-nmt's
# mark after each subword except the last of a word
_PIECE = re.compile(r"(?:^|\s)▁(?![▁-█])|\S+@@(?:\s|$)")
# A space before a full stop or comma, an entity written by Moses, or a split hyphen
_TOKENIZED = re.compile(r"\S [.,](?:\s|$)|&(?:apos|quot|amp|lt|gt|#91|#93|#124);|@-@|##AT##")
# Maximum share of lines with marks of tokenization among the non-blank lines. The share is at most
# 0.5% in German and English newstests, captions, debates and Tatoeba, and at least 95% in
# tokenized TED talks and debates.
_TOKENIZED_SHARE = 0.1


def check_plain_text(
    lines: Sequence[str], name: str, note: Note, *, may_be_tokenized: bool = False
) -> None:
    """Raises InputError for text in subword pieces, and warns if the text looks tokenized.

    Args:
        name: the name of the text, for use in messages.
        note: called with a warning if the text looks tokenized.
        may_be_tokenized: whether tokenized text is accepted without a warning.

    Raises:
        InputError: a line contains a marker of subword pieces, such as "@@".
    """
    tokenized = [number for number, line in enumerate(lines, start=1) if _TOKENIZED.search(line)]
    for number, line in enumerate(lines, start=1):
        if found := _PIECE.search(line):
            raise InputError(
                f"Line {number} of {name} is split into subword pieces ({found[0].strip()!r}). "
                "Join the pieces into plain text."
            )
    if not may_be_tokenized and len(tokenized) > _TOKENIZED_SHARE * sum(
        1 for line in lines if line.strip()
    ):
        share = f"{len(tokenized)} of {count(len(lines), 'line')}, first in line {tokenized[0]}"
        note(
            f"nmt: warning: {name} looks tokenized ({share}). Its scores are not comparable with "
            "other scores. Use plain text."
        )
