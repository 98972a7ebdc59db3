"""Splits passages into sentences and joins the translations of the sentences."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from nmt.config import Config
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.engine import Progress
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation, combine
from nmt.documents.sentences import split_sentences


class Translates(Protocol):
    """The members of `Translator` that this module uses."""

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


class HasSentences(Protocol):
    """A text that has been split into sentences."""

    @property
    def sentences(self) -> list[str]:
        """The sentences to translate, in the order of the text."""


class Passage:
    """A text to translate, which is a line, a paragraph, or a part of a long line.

    If the model is multilingual, the text begins with a target-language tag, such as <2de>. The
    target-language tag is copied to the start of every sentence.

    Args:
        tag: the target-language tag to use if the text does not begin with one, or "" for no tag.
        language: the language of the text, which determines how the text is split into sentences.
            If `language` is None, the whole text is treated as a single sentence.

    Attributes:
        sentences: the passage's sentences, each with the target-language tag at its start.
        tag: the target-language tag at the start of every sentence, or "" if there is no tag.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, tag: str = "", language: str | None = None):
        text = text.replace("\ufeff", "")  # not part of a word
        own, rest = tokenizer.split_tag(text.lstrip())
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
        """Joins the n-best translations of the sentences into an n-best list for the passage.

        In word alignments, source words are numbered from the start of the passage, and target
        words are numbered from the start of the passage's translation.
        """
        before, parts = self._own_words, []
        for sentence, translations in zip(self._sentences, found, strict=True):
            parts.append([self._in_the_text(each, before) for each in translations])
            before += words_before(sentence)
        return combine(parts)

    def _in_the_text(self, found: Translation, before: int) -> Translation:
        """Returns the translation; its alignment counts source words from the text's start.

        Args:
            found: the translation of a sentence, with source words numbered from the start of the
                sentence.
            before: the number of words in the text before the sentence.
        """
        links = [
            (source if source < self._tag_words else source - self._tag_words + before, target)
            for source, target in found.alignment or []
            if source >= self._tag_words or source < self._own_words
        ]
        return found if found.alignment is None else replace(found, alignment=links)


def later(found: Translation, words: int) -> Translation:
    """Returns the translation, with `words` added to each source index of its alignment."""
    if found.alignment is None:
        return found
    return replace(found, alignment=[(source + words, to) for source, to in found.alignment])


def words_before(text: str) -> int:
    """Returns the number of words in `text` that are followed by white space."""
    return len(f"{text}.".split()) - 1


def translate_passages(
    translator: Translates,
    passages: Sequence[HasSentences],
    options: SearchOptions | None = None,
    *,
    prefixes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> list[list[list[Translation]]]:
    """Translates the sentences of all passages in a single call of `Translator.n_best`.

    Args:
        passages: passages, or objects that consist of several passages.
        prefixes: one prefix per passage, which applies to the first sentence of the passage. If
            `prefixes` is None, no prefixes are used.
        progress: see `Translator.n_best`.

    Returns:
        One list per passage, which contains the n-best list of each of the passage's sentences.
    """
    of_passages = [passage.sentences for passage in passages]
    sentences = [sentence for each in of_passages for sentence in each]
    forced: str | list[str] = ""
    if prefixes is not None:
        forced = [
            "" if place else prefix
            for each, prefix in zip(of_passages, prefixes, strict=True)
            for place in range(len(each))
        ]
    found = iter(translator.n_best(sentences, options, prefix=forced, progress=progress))
    return [[next(found) for _ in each] for each in of_passages]
