"""Whole documents: paragraphs are kept, and translated sentence by sentence.

A paragraph is a line. What stands before its first word, the indentation of a list for one, stays;
so do blank lines. Text whose lines end in the middle of sentences has to be joined first.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nmt.data.tokenizer import Tokenizer
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation, combine
from nmt.documents.cutting import listed
from nmt.documents.passages import Passage, Progress, Translates, later
from nmt.errors import ArgumentError, count

# white space of any width and marks of byte order, but for what a reader takes for a line end
_INDENTATION = re.compile(r"(?:[^\S\r\n\v\f\x1c-\x1e\x85\u2028\u2029]|\ufeff)*")


class Document:
    """A document as sentences to translate, and what their translations make.

    Args:
        language: that it is in, such as "de", to split it into sentences by.

    Attributes:
        paragraphs: each line; all have the tag that the document begins with, or their own.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, language: str):
        tag = tokenizer.split_tag(text)[0]
        self._lines = text.split("\n")
        self.paragraphs = [Passage(line.strip(), tokenizer, tag, language) for line in self._lines]

    @property
    def sentences(self) -> list[str]:
        """What to translate: the sentences of all paragraphs."""
        return [each for paragraph in self.paragraphs for each in paragraph.sentences]

    def joined(self, found: Sequence[Sequence[Translation]]) -> list[Translation]:
        """The n-th best translations of `sentences`, put together, best first.

        Their texts have as many lines as the document; links count words through all lines.
        """
        rest, before, of_lines = iter(found), 0, []
        for line, paragraph in zip(self._lines, self.paragraphs, strict=True):
            joined = paragraph.joined([next(rest) for _ in paragraph.sentences])
            of_lines.append([later(each, before) for each in joined])
            before += len(line.split())
        return [
            replace(whole, text="\n".join(self._texts(of_lines, rank)))
            for rank, whole in enumerate(combine(of_lines))
        ]

    def _texts(self, of_lines: list[list[Translation]], rank: int) -> Iterator[str]:
        for line, best in zip(self._lines, of_lines, strict=True):
            yield indentation(line) + best[min(rank, len(best) - 1)].text


def indentation(line: str) -> str:
    """What stands before the first word; a byte order mark is dropped, as it is everywhere."""
    return _INDENTATION.match(line)[0].replace("\ufeff", "") if line.strip() else ""  # type: ignore[index]


def translate_documents(
    translator: Translates,
    texts: Sequence[str],
    options: SearchOptions | None = None,
    *,
    prefix: str | Sequence[str] = "",
    progress: Progress | None = None,
) -> list[list[Translation]]:
    """The n-best translations of each document; see `Document` and `Translator.n_best`.

    Args:
        prefix: how the translations begin, all of them or each its own.

    Raises:
        ArgumentError: as `Translator.n_best`; prefixes, but not as many as documents.
    """
    language = translator.config.data.source_language
    documents = [Document(text, translator.tokenizer, language) for text in texts]
    prefixes = [prefix] * len(texts) if isinstance(prefix, str) else listed(prefix, "prefix")
    if len(prefixes) != len(texts):
        found = count(len(texts), "document"), len(prefixes)
        raise ArgumentError("{} but {} prefixes, {prefix}, give one for each", *found)
    sentences = [sentence for document in documents for sentence in document.sentences]
    forced = [
        "" if place else first
        for document, first in zip(documents, prefixes, strict=True)
        for place in range(len(document.sentences))
    ]
    best = iter(translator.n_best(sentences, options, prefix=forced, progress=progress))
    return [document.joined([next(best) for _ in document.sentences]) for document in documents]
