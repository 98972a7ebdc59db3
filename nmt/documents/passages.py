"""Splits passages into sentences and joins the translations of the sentences."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from nmt.config import Config
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation, combine
from nmt.documents.sentences import split_sentences

Progress = Callable[[int], object]  # called with the number of newly translated sentences


class Translates(Protocol):
    """The part of the interface of `Translator` that this module uses."""

    tokenizer: Tokenizer
    config: Config

    def n_best(
        self,
        sentences: Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | Sequence[str] = "",
        progress: Progress | None = None,
    ) -> list[list[Translation]]:
        """See `Translator.n_best`."""


class Passage:
    """A line, a paragraph, or a part of a long line.

    For a multilingual model, the text begins with a tag for the target language, such as <2de>. The
    tag is copied to the start of every sentence.

    Args:
        tag: the tag to use if the text does not begin with a tag; may be empty.
        language: language of the text, which determines how the text is split into sentences, or
            None for a text that is a single sentence.

    Attributes:
        sentences: the sentences, each beginning with the tag.
        tag: the tag at the start of every sentence; may be empty.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, tag: str = "", language: str | None = None):
        own, rest = tokenizer.split_tag(text.lstrip().lstrip("\ufeff"))
        self.tag = own or tag
        self._tag_words = words_before(self.tag)
        self._own_words = words_before(own)
        rest = rest if own else text
        if language is None:
            self._sentences, sentences = [rest], [rest]
        else:
            self._sentences = split_sentences(rest, language)
            sentences = [sentence.strip() for sentence in self._sentences]
        self.sentences = [self.tag + sentence for sentence in sentences]

    def joined(self, found: Sequence[Sequence[Translation]]) -> list[Translation]:
        """Joins the n-best translations of the sentences into an n-best list, best first.

        In the word-alignment links, words are numbered within the whole text and its translation.
        """
        before, parts = self._own_words, []
        for sentence, translations in zip(self._sentences, found, strict=True):
            parts.append([self._in_the_text(each, before) for each in translations])
            before += words_before(sentence)
        return combine(parts)

    def _in_the_text(self, found: Translation, before: int) -> Translation:
        """Returns a sentence's translation with alignment links for the whole text.

        Source word indices are converted from positions in the sentence to positions in the text.

        Args:
            before: number of words in the text before the sentence.
        """
        links = [
            (source if source < self._tag_words else source - self._tag_words + before, target)
            for source, target in found.alignment or []
            if source >= self._tag_words or source < self._own_words
        ]
        return found if found.alignment is None else replace(found, alignment=links)


def later(found: Translation, words: int) -> Translation:
    """Returns the translation with `words` added to the source word index of each link."""
    if found.alignment is None:
        return found
    return replace(found, alignment=[(source + words, to) for source, to in found.alignment])


def words_before(text: str) -> int:
    """Returns the number of words in `text` that are followed by white space."""
    return len(f"{text}.".split()) - 1


def translate_passages(
    translator: Translates,
    passages: Sequence[Passage],
    options: SearchOptions | None = None,
    *,
    prefixes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> list[list[list[Translation]]]:
    """Translates the sentences of all passages together.

    Args:
        prefixes: one prefix per passage, for the first sentence of the passage, or None.
        progress: see `Translator.n_best`.

    Returns:
        For each passage, a list with the n-best list of each sentence.
    """
    sentences = [sentence for passage in passages for sentence in passage.sentences]
    forced: str | list[str] = ""
    if prefixes is not None:
        forced = [
            "" if place else prefix
            for passage, prefix in zip(passages, prefixes, strict=True)
            for place in range(len(passage.sentences))
        ]
    found = iter(translator.n_best(sentences, options, prefix=forced, progress=progress))
    return [[next(found) for _ in passage.sentences] for passage in passages]
