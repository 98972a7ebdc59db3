"""Writes a translation, a numbered n-best list or a JSON object for each input line."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Term, Translation, combine
from nmt.documents.documents import indentation
from nmt.documents.doubtful import is_doubtful
from nmt.documents.passages import later, words_before
from nmt.documents.sentences import split_sentences
from nmt.lines.formats import Format
from nmt.lines.reader import LineNumbers, LinePart


@dataclass(frozen=True)
class LineOptions:
    """Options for translating lines and for writing the translations."""

    search: SearchOptions = field(default_factory=SearchOptions)
    numbered: bool = False  # write n-best lists with line numbers and scores
    strict: bool = False  # raise an error for invalid UTF-8
    prefix: str = ""  # prefix of every translation
    format: Format = "text"
    document: bool = False  # translate each line sentence by sentence


# the parts of lines in a window, and for each part: its n-best translations, whether one of its
# sentences exceeds the maximum length, and whether one of its sentences has an empty translation
TranslatedWindow = tuple[Sequence[LinePart], Sequence[tuple[list[Translation], bool, bool]]]


class LineWriter:
    """Writes one output line, or `n_best` numbered output lines, per input line.

    Args:
        before: the number of input lines that precede the first line to write.
        language: the language of the input, which is needed to detect lines with several sentences.
            If `language` is None, lines with several sentences are not detected.

    Attributes:
        lines_in_parts: the number of lines so far that exceed the maximum length and were therefore
            translated in parts.
        doubtful: the line numbers of suspicious translations (see `nmt.documents.doubtful`).
        lost: the line numbers of sentences whose translations are empty.
        unsplit: the numbers of lines that contain several sentences but were translated as one
            sentence.
        unmet_terms: the line number and the glossary term for each required term that a translation
            does not contain.
    """

    def __init__(
        self,
        target: BinaryIO,
        options: LineOptions,
        links: BinaryIO | None = None,
        before: int = 0,
        language: str | None = None,
    ):
        self.target, self.options, self.links = target, options, links
        self._language = language
        self.lines_in_parts = 0
        self.doubtful, self.lost, self.unsplit = LineNumbers(), LineNumbers(), LineNumbers()
        self.unmet_terms: list[tuple[int, Term]] = []
        self._index = before  # number of the current input line, counted from 1
        self._begin_line()

    def _begin_line(self) -> None:
        self._source: list[str] = []  # parts of the current line
        self._parts: list[list[Translation]] = []
        self._words = 0  # number of source words in the current line so far
        self._is_cut = self._is_lost = False

    def write(self, windows: Iterable[TranslatedWindow]) -> None:
        """Writes the translations of all windows.

        The output is flushed after each window, before the next window is read.
        """
        for window in windows:
            lines, complete = self._lines_of(window)
            self.target.write("".join(lines).encode())
            self.target.flush()
            if self.links:
                self.links.write("".join(map(_pharaoh, complete)).encode())
                self.links.flush()

    def _lines_of(self, window: TranslatedWindow) -> tuple[list[str], list[Translation]]:
        """Returns the output and translations of input lines whose last part is in `window`."""
        complete: list[Translation] = []
        lines: list[str] = []
        for part, (translations, is_cut, is_lost) in zip(*window, strict=True):
            self._parts.append([later(each, self._words) for each in translations])
            self._source.append(part.text)
            self._words += words_before(part.text)
            self._is_cut |= is_cut or not part.ends_line
            self._is_lost |= is_lost
            if part.ends_line:
                wanted = self._wanted(combine(self._parts))
                lines += self._end_line(wanted)
                complete += wanted
        return lines, complete

    def _end_line(self, wanted: list[Translation]) -> list[str]:
        """Returns the output for the current input line, and counts what warnings report."""
        self._index += 1
        self.lines_in_parts += self._is_cut
        source = "".join(self._source)
        if is_doubtful(source, wanted[0].text):
            self.doubtful.add(self._index)
        if self._is_lost:
            self.lost.add(self._index)
        is_whole = self._language is not None and not self._is_cut
        if is_whole and len(split_sentences(source.strip(), self._language or "")) > 1:
            self.unsplit.add(self._index)
        self.unmet_terms += [(self._index, term) for term in wanted[0].unmet_terms]
        self._begin_line()
        if self.options.format == "jsonl":
            return [self._as_json(wanted)]
        if self.options.numbered:
            return [f"{self._index}\t{each.score:z.6f}\t{each.text}\n" for each in wanted]
        before = indentation(source) if self.options.document else ""
        return [f"{before}{each.text}\n" for each in wanted]

    def _wanted(self, best: list[Translation]) -> list[Translation]:
        n = self.options.search.n_best if self.options.numbered else 1
        return (best + best[-1:] * (n - len(best)))[:n]

    def _as_json(self, wanted: list[Translation]) -> str:
        search = self.options.search
        content = {"line": self._index} | _fields(wanted[0], search)
        if self.options.numbered:
            content["alternatives"] = [_fields(each, search) for each in wanted[1:]]
        return json.dumps(content, ensure_ascii=False) + "\n"


def _fields(found: Translation, search: SearchOptions) -> dict[str, Any]:
    """Returns the JSON fields of a translation."""
    content: dict[str, Any] = {
        "text": found.text,
        "score": _rounded(found.score),
        "log_probability": _rounded(found.log_probability),
        "pieces": found.pieces,
        "token_log_probabilities": [_rounded(each) for each in found.token_log_probabilities],
    }
    if search.align:
        content["alignment"] = found.alignment or []
    if search.glossary is not None:
        content["unmet_terms"] = found.unmet_terms
    return content


def _rounded(value: float) -> float:
    return round(value, 6) + 0.0  # never -0.0


def _pharaoh(translation: Translation) -> str:
    """Formats a translation's word alignment as a line in the Pharaoh format, which Moses uses."""
    return " ".join(f"{source}-{target}" for source, target in translation.alignment or []) + "\n"
