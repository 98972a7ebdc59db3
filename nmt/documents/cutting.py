"""Splits overlong texts into parts at sentence ends, at spaces or between tokens."""

from collections.abc import Iterable, Mapping, Sequence

from nmt.data.tokenizer import Tokenizer
from nmt.documents.sentences import split_sentences
from nmt.errors import ArgumentError, count
from nmt.model.special_ids import UNK_ID

_SHOWN = 60  # maximum number of characters of a prefix in a message


def listed(texts: Iterable[str], name: str, others: str = "") -> list[str]:
    """Converts `texts` to a list, and checks that all items are strings.

    Args:
        name: the parameter's name for error messages.
        others: the text that an error message inserts before "a list of strings", such as
            "a string or ".

    Raises:
        ArgumentError: `texts` is a string, a set, a mapping or not iterable, or one of its items
            is not a string.
    """
    try:
        is_other = isinstance(texts, str | bytes | set | frozenset | Mapping)
        found = None if is_other else list(texts)
    except TypeError:  # not iterable
        found = None
    if found is None:
        raise ArgumentError(
            f"{{{name}}} must be {others}a list of strings, not {{}}.", type(texts).__name__
        )
    for number, text in enumerate(found, start=1):
        refuse_no_text(text, name, f"Item {number} of ")
    return found


def refuse_no_text(text: str, name: str, which: str = "") -> None:
    """Raises ArgumentError if `text` is not a string.

    The error message contains `which` and `name`.
    """
    if not isinstance(text, str):
        raise ArgumentError(f"{which}{{{name}}} must be a string, not {{}}.", type(text).__name__)


class Cutter:
    """Converts texts to token ids, and splits long texts into parts of limited length.

    Args:
        max_part: the maximum length of a part in tokens, excluding EOS.
    """

    def __init__(self, tokenizer: Tokenizer, max_part: int):
        self.tokenizer, self.max_part = tokenizer, max_part

    def cut(self, sentences: Sequence[str]) -> list[list[list[int]]]:
        """Returns the token ids of each sentence's parts, without EOS.

        An empty sentence has no parts.
        """
        texts = [self.tokenizer.normalize(sentence) for sentence in sentences]
        return list(map(self._parts, texts, self.tokenizer.encode_batch(texts)))

    def _parts(self, text: str, ids: list[int]) -> list[list[int]]:
        """Returns the token ids of `text`, split into parts of at most `max_part` tokens."""
        if len(ids) <= self.max_part:
            return [ids] if ids else []
        tag, rest = self.tokenizer.split_tag(text)  # such as <2de>; every part needs it
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
        """Returns the token ids of n prefixes, which are all equal if `prefix` is a string.

        Raises:
            ArgumentError: the number of prefixes is not n, a prefix exceeds `max_part` tokens, or
                the vocabulary lacks a character of a prefix.
        """
        texts = [prefix] * n if isinstance(prefix, str) else listed(prefix, "prefix")
        if len(texts) != n:
            raise ArgumentError(
                "{prefix} has {} for {}. Provide one string, or one per sentence.",
                count(len(texts), "string"),
                count(n, "sentence"),
            )
        different = list(dict.fromkeys(texts))
        ids = dict(zip(different, self.tokenizer.encode_targets(different), strict=True))
        if long := [text for text in different if len(ids[text]) > self.max_part]:
            raise ArgumentError(
                '{prefix} "{}" has {} tokens, more than the maximum length of {}. Shorten it.',
                long[0] if len(long[0]) <= _SHOWN else f"{long[0][:_SHOWN]}…",
                len(ids[long[0]]),
                self.max_part,
            )
        if unknown := [text for text in different if UNK_ID in ids[text]]:
            raise ArgumentError(
                "{prefix} {} contains a character that is not in the model's vocabulary. Remove "
                "the character.",
                unknown[0],
            )
        return [ids[text] for text in texts]


def cut_once(text: str) -> list[str]:
    """Splits a text into sentences, or splits a single sentence at the space nearest its middle.

    If `split_sentences` finds a single sentence, sentences may begin with a lowercase letter.
    """
    for ignore_case in (False, True):
        sentences = split_sentences(text, ignore_case=ignore_case)
        stripped = [each.strip() for each in sentences if each.strip()]
        if len(stripped) > 1:
            return stripped
    return _halves(text)


def _halves(text: str) -> list[str]:
    """Strips a text and, if it contains a space, splits it at the space nearest its middle.

    For example, "to be or not" becomes ["to be", "or not"].
    """
    text = text.strip(" ")
    middle = len(text) // 2
    spaces = [at for at in (text.rfind(" ", 0, middle), text.find(" ", middle)) if at > 0]
    if not spaces:
        return [text]
    at = min(spaces, key=lambda at: abs(at - middle))
    return [text[:at], text[at + 1 :]]
