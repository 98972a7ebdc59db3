"""What is written for each line: its translation, numbered ones, or JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal

from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Term, Translation, combine
from nmt.documents.documents import indentation
from nmt.documents.doubtful import is_doubtful
from nmt.documents.passages import later, words_before
from nmt.lines.reader import LinePart


@dataclass(frozen=True)
class LineOptions:
    """How to translate lines, and what to write for each."""

    search: SearchOptions = field(default_factory=SearchOptions)
    numbered: bool = False  # n_best of each, with index and score; else only the best text
    strict: bool = False  # invalid UTF-8 is an error
    prefix: str = ""  # how every translation begins
    format: Literal["text", "jsonl", "html", "xml"] = "text"
    document: bool = False  # lines are paragraphs, translated sentence by sentence


class LineWriter:
    """Writes one line for each line read, or `n_best` numbered ones.

    Args:
        before: how many lines come before the first.

    Attributes:
        lines_in_parts: lines so far that were too long to be translated in one part.
        doubtful: the numbers of lines whose translation looks wrong, see `nmt.documents.doubtful`.
        unmet_terms: the glossary's terms that translations lack, with the numbers of their lines.
    """

    def __init__(
        self,
        target: BinaryIO,
        options: LineOptions,
        links: BinaryIO | None = None,
        before: int = 0,
    ):
        self.target, self.options, self.links = target, options, links
        self.lines_in_parts = 0
        self.doubtful: list[int] = []
        self.unmet_terms: list[tuple[int, Term]] = []
        self._index = before  # of the input line, from 1
        self._begin_line()

    def _begin_line(self) -> None:
        self._source: list[str] = []  # the parts of a line not yet complete
        self._parts: list[list[Translation]] = []
        self._words = 0  # of its source, so far
        self._is_cut = False

    def write(
        self, window: Sequence[LinePart], found: Sequence[tuple[list[Translation], bool]]
    ) -> None:
        """Writes the lines that end in `window`.

        Args:
            found: the translations of its parts, and whether one of their sentences was too long.
        """
        complete: list[Translation] = []
        lines: list[str] = []
        for part, (translations, is_cut) in zip(window, found, strict=True):
            self._parts.append([later(each, self._words) for each in translations])
            self._source.append(part.text)
            self._words += words_before(part.text)
            self._is_cut |= is_cut or not part.ends_line
            if part.ends_line:
                wanted = self._wanted(combine(self._parts))
                lines += self._end_line(wanted)
                complete += wanted
        self.target.write("".join(lines).encode())
        self.target.flush()
        if self.links:
            self.links.write("".join(map(_pharaoh, complete)).encode())
            self.links.flush()

    def _end_line(self, wanted: list[Translation]) -> list[str]:
        """The lines for the line that is complete; counts what is to be told of it."""
        self._index += 1
        self.lines_in_parts += self._is_cut
        source = "".join(self._source)
        if is_doubtful(source, wanted[0].text):
            self.doubtful.append(self._index)
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
    """What JSON says of a translation."""
    content: dict[str, Any] = {
        "text": found.text,
        "score": _rounded(found.score),
        "log_probability": _rounded(found.log_probability),
        "tokens": found.pieces,
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
    """Its links as a line of what Moses and others call Pharaoh format."""
    return " ".join(f"{source}-{target}" for source, target in translation.alignment or []) + "\n"
