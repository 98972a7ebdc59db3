"""Cuts texts to the model's length: at ends of sentences, else at spaces, else between tokens."""

import re
from collections.abc import Iterable, Sequence

from nmt.data.tokenizer import Tokenizer
from nmt.errors import ArgumentError, count

_SENTENCE_ENDS = re.compile(r"""(?:(?<=[.!?…])|(?<=[.!?…]["'”’»)\]]))\s+|(?<=[。！？])""")


def listed(texts: Iterable[str], name: str) -> list[str]:
    """Several texts as a list.

    Raises:
        ArgumentError: they are something else, as one text is, or one of them is; `name` is that
            of the parameter.
    """
    try:
        found = None if isinstance(texts, str | bytes) else list(texts)
    except TypeError:  # nothing to go through
        found = None
    if found is None:
        raise ArgumentError(
            f"{{}} where several texts are expected, {{{name}}}, give a list", type(texts).__name__
        )
    for number, text in enumerate(found, start=1):
        refuse_no_text(text, name, f" (number {number})")
    return found


def refuse_no_text(text: str, name: str, which: str = "") -> None:
    """Raises ArgumentError for what is no text; `name` is that of the parameter."""
    if not isinstance(text, str):
        kind = type(text).__name__
        raise ArgumentError(f"{{}} where a text is expected, {{{name}}}{which}, give a text", kind)


class Cutter:
    """From texts to token ids in parts that a model can take.

    Args:
        max_part: most tokens of a part, its end symbol not counted.
    """

    def __init__(self, tokenizer: Tokenizer, max_part: int):
        self.tokenizer, self.max_part = tokenizer, max_part

    def cut(self, sentences: Sequence[str]) -> list[list[list[int]]]:
        """Token ids, without end symbols, of the parts of each sentence; [] if it is blank."""
        texts = [self.tokenizer.normalize(sentence) for sentence in sentences]
        return list(map(self._parts, texts, self.tokenizer.encode_batch(texts)))

    def _parts(self, text: str, ids: list[int]) -> list[list[int]]:
        """The ids of `text` in one part, or in several if they are too many."""
        if len(ids) <= self.max_part:
            return [ids] if ids else []
        tag, rest = self.tokenizer.split_tag(text)  # every part needs it: <2de> for one
        texts = cut_once(rest)
        tag_ids = self.tokenizer.encode(tag)
        room = self.max_part - len(tag_ids)
        if room < len(tag_ids):
            return [ids[i : i + self.max_part] for i in range(0, len(ids), self.max_part)]
        if texts == [rest]:
            ids = self.tokenizer.encode(rest)
            return [tag_ids + ids[i : i + room] for i in range(0, len(ids), room)]
        encoded = self.tokenizer.encode_batch(texts := [tag + each for each in texts])
        return [
            part
            for each, part_ids in zip(texts, encoded, strict=True)
            for part in self._parts(each, part_ids)
        ]

    def prefixes(self, prefix: str | Sequence[str], n: int) -> list[list[int]]:
        """Token ids of the prefixes of n translations."""
        texts = [prefix] * n if isinstance(prefix, str) else listed(prefix, "prefix")
        if len(texts) != n:
            found = count(n, "sentence"), count(len(texts), "prefix").replace("xs", "xes")
            raise ArgumentError("{} but {}, {prefix}, give one for each", *found)
        different = list(dict.fromkeys(texts))
        ids = dict(zip(different, self.tokenizer.encode_batch(different), strict=True))
        longest = max(map(len, ids.values()), default=0)
        if longest > self.max_part:
            raise ArgumentError(
                "{} tokens, the model takes {}, {prefix}, shorten it", longest, self.max_part
            )
        return [ids[text] for text in texts]


def cut_once(text: str) -> list[str]:
    """A text at its ends of sentences, else at the space nearest its middle, else whole."""
    texts = [each for each in _SENTENCE_ENDS.split(text) if each.strip()]
    return texts if len(texts) > 1 else _halves(text)


def _halves(text: str) -> list[str]:
    """Two parts, split at the space nearest the middle; one if there is no space inside.

    Spaces at both ends of the text are dropped.

    "to be or not" -> ["to be", "or not"]
    """
    text = text.strip(" ")
    middle = len(text) // 2
    spaces = [at for at in (text.rfind(" ", 0, middle), text.find(" ", middle)) if at > 0]
    if not spaces:
        return [text]
    at = min(spaces, key=lambda at: abs(at - middle))
    return [text[:at], text[at + 1 :]]
