"""Texts of several lines and sentences: cut for the model, and put together again.

What stands between two sentences, line breaks above all, stays as it is.
"""

import re
from collections.abc import Sequence

from nmt.data.tokenizer import Tokenizer
from nmt.documents.cutting import cut_once
from nmt.documents.sentences import split_sentences

Span = tuple[int, int]  # first character and the one after the last, in code points

_LINE = re.compile(r"[^\r\n]*\S[^\r\n]*")
_SHORT = 8  # characters that are not cut, whatever the model takes


def spans(text: str, language: str | None) -> list[Span]:
    """Where the sentences within lines begin and end; blank lines are left out.

    spans("One. Two.\\n\\nThree.", "en") -> [(0, 4), (5, 9), (11, 17)]

    Args:
        language: of the text; None: lines are not cut.
    """
    found = []
    for line in _LINE.finditer(text):
        begin = line.start()
        for part in [line[0]] if language is None else split_sentences(line[0], language):
            if part.strip():
                first = begin + len(part) - len(part.lstrip())
                found.append((first, first + len(part.strip())))
            begin += len(part)
    return found


def parts(text: str, tokenizer: Tokenizer, max_part: int) -> list[str]:
    """A text in parts that the model takes, so that no long one keeps others waiting.

    They are those of `Cutter`; only where there is no space it cuts between characters.
    """
    tag, rest = tokenizer.split_tag(text)
    short = len(text) <= max_part or len(rest) <= _SHORT
    if short or len(tokenizer.encode(text)) <= max_part:
        return [text]
    texts = cut_once(rest)
    if len(texts) == 1:
        texts = [rest[: len(rest) // 2], rest[len(rest) // 2 :]]
    return [part for each in texts for part in parts(tag + each, tokenizer, max_part)]


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
