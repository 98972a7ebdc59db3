"""Splits texts into sentences and joins the translations of the sentences.

Whitespace between sentences, including line breaks, is preserved.
"""

import re
from collections.abc import Sequence

from nmt.data.tokenizer import Tokenizer
from nmt.documents.cutting import cut_once
from nmt.documents.sentences import split_sentences

Span = tuple[int, int]  # start and end (exclusive), in code points

_LINE = re.compile(r"[^\r\n]*\S[^\r\n]*")
_LINE_END = re.compile(r"[\r\n]")
_SHORT = 8  # texts of at most this number of characters are never cut


def spans(text: str, language: str | None) -> list[Span]:
    """Returns the span of each sentence in a text.

    A sentence ends at a line break, even without a period. Blank lines are skipped.

    Args:
        language: the language of the text, or None to treat each line as one sentence.
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
    """Cuts a text into parts that are short enough for the model.

    The parts are queued separately, so that a long text does not block other requests. Unlike
    `Cutter`, this function may cut between two characters if the text contains no spaces.
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
    """Replaces the sentences of a text with their translations.

    If a translation is empty, the space that would separate the translation from the rest of its
    line is omitted.

    Returns:
        The new text, and the span of each translation in the new text.
    """
    parts: list[str] = []
    found: list[Span] = []
    length = after = 0
    is_bare = False  # whether the line contains no translation yet
    for (begin, end), target in zip(sources, targets, strict=True):
        gap = text[after:begin] or (" " if after else "")
        if not after or _LINE_END.search(gap):
            is_bare = True
        elif is_bare or not target:
            gap = ""
        is_bare = is_bare and not target
        found.append((length + len(gap), length + len(gap) + len(target)))
        parts += [gap, target]
        length, after = found[-1][1], end
    return "".join([*parts, text[after:]]), found
