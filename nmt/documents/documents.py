"""Translates whole documents sentence by sentence and preserves their paragraphs.

Each line of a document is one paragraph. Indentation and blank lines are preserved. If a document
contains line breaks within sentences, join the lines of each paragraph before translation.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nmt.data.tokenizer import Tokenizer
from nmt.decoding.engine import Progress
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation, combine
from nmt.documents.cutting import listed
from nmt.documents.passages import Passage, Translates, later, translate_passages
from nmt.errors import ArgumentError, count

# byte order marks, and white space other than line breaks
_INDENTATION = re.compile(r"(?:[^\S\r\n\v\f\x1c-\x1e\x85\u2028\u2029]|\ufeff)*")


class Document:
    """Splits a document into sentences and joins their translations.

    Args:
        language: the language of the text, such as "de". It determines where sentences end.

    Attributes:
        paragraphs: one `Passage` per line of the document. A target-language tag at the start of
            the document also applies to all lines without a tag.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, language: str):
        text = text.replace("\ufeff", "")  # byte order marks
        tag = tokenizer.split_tag(text.lstrip())[0]
        self._lines = text.split("\n")
        self.paragraphs = [Passage(line.strip(), tokenizer, tag, language) for line in self._lines]

    @property
    def sentences(self) -> list[str]:
        """The sentences of all paragraphs, in document order."""
        return [each for paragraph in self.paragraphs for each in paragraph.sentences]

    def joined(self, found: Sequence[Sequence[Translation]]) -> list[Translation]:
        """Joins the n-best translations of `sentences` into an n-best list for the document.

        Each translation has as many lines as the document. In word alignments, words are numbered
        from the start of the document, not from the start of each line.
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
    """Returns the white space before the first word of a line, excluding byte order marks."""
    return _INDENTATION.match(line)[0].replace("\ufeff", "") if line.strip() else ""  # type: ignore[index]


def translate_documents(
    translator: Translates,
    texts: Sequence[str],
    options: SearchOptions | None = None,
    *,
    prefix: str | Sequence[str] = "",
    progress: Progress | None = None,
) -> list[list[Translation]]:
    """Returns the n-best translations of each document; see `Document` and `Translator.n_best`.

    Args:
        prefix: one prefix for all translations, or a list with one prefix per document.

    Raises:
        ArgumentError: the number of prefixes differs from the number of documents. For other
            errors, see `Translator.n_best`.
    """
    language = translator.config.data.source_language
    documents = [Document(text, translator.tokenizer, language) for text in texts]
    prefixes = [prefix] * len(texts) if isinstance(prefix, str) else listed(prefix, "prefix")
    if len(prefixes) != len(texts):
        raise ArgumentError(
            "{prefix} has {} for {}. Provide one string, or one per document.",
            count(len(prefixes), "string"),
            count(len(texts), "document"),
        )
    found = translate_passages(translator, documents, options, prefixes=prefixes, progress=progress)
    return [document.joined(best) for document, best in zip(documents, found, strict=True)]
