"""HTML and XML: the text is translated, everything else is kept as it stands, byte for byte.

Blocks (paragraphs, cells, items, headings) are translated by themselves, sentence by sentence; tags
inside one go where the alignment puts them, see `nmt.decoding.tags`. In XML, whose elements have no
known meaning, those are inside that stand beside text, and all others are blocks. Entities are
read, and &, < and > of a translation written as such. Attributes stay as they are, and so does
everything in `code` and its like, in elements with translate="no" or the class notranslate, in
comments, CDATA and declarations.

Tags are found by the standard library's HTML parser, which takes whatever browsers do. Only where
it finds them is used: what is written is cut from the source.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from itertools import accumulate, pairwise
from typing import Any, Literal

from nmt.data.cleaning import normalize
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.doubtful import is_doubtful
from nmt.decoding.options import SearchOptions
from nmt.decoding.passages import Passage, Translates
from nmt.decoding.tags import Element, Point, place
from nmt.decoding.translation import Translation

Form = Literal["html", "xml"]
Kind = Literal["text", "open", "close", "single", "other"]

# Elements that stand within a sentence; all others of HTML separate sentences.
_INSIDE = {
    "a", "abbr", "acronym", "audio", "b", "bdi", "bdo", "big", "canvas", "cite", "code", "data",
    "del", "dfn", "em", "embed", "font", "i", "iframe", "img", "input", "ins", "kbd", "label",
    "map", "mark", "math", "meter", "nobr", "object", "output", "picture", "progress", "q", "rp",
    "rt", "ruby", "s", "samp", "script", "small", "source", "span", "strike", "strong", "style",
    "sub", "sup", "svg", "template", "time", "tt", "u", "var", "video", "wbr",
}  # fmt: skip
_KEPT = {
    "code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "textarea", "var",
}  # fmt: skip
_VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
}  # fmt: skip
_ENTITY = re.compile(r"(&(?!(?:amp|lt|gt|quot|apos|#\d+|#[xX][0-9a-fA-F]+);)[\w.:-]+;)")


@dataclass
class _Token:
    """A piece of the source: text, a tag, or anything else that is kept."""

    kind: Kind
    raw: str
    name: str = ""
    is_kept: bool = False  # with all that is inside
    is_inside: bool = True  # a sentence; else it separates two


class _Scanner(HTMLParser):
    """Cuts markup into tokens; those that follow each other are the whole of it."""

    def __init__(self, text: str, is_xml: bool):
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[int, _Token, str]] = [(0, _Token("other", ""), "")]
        self._line_begins = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self.is_xml = is_xml
        self.feed(text)
        self.close()
        ends = [begin for begin, _, _ in self.found[1:]] + [len(text)]
        for (begin, token, data), end in zip(self.found, ends, strict=True):
            token.raw = text[begin:end]
            if token.kind == "text" and html.unescape(token.raw) != data:
                token.kind = "other"  # it holds something that the parser has passed over
        self.tokens = [token for _, token, _ in self.found if token.raw]

    def set_cdata_mode(self, *arguments: Any, **named: Any) -> None:
        """That an element holds no tags whatever it looks like: of HTML alone."""
        if not self.is_xml:
            super().set_cdata_mode(*arguments, **named)

    def _add(self, kind: Kind, name: str = "", data: str = "", is_kept: bool = False) -> None:
        line, column = self.getpos()
        is_inside = self.is_xml or not name or name in _INSIDE or "-" in name
        token = _Token(kind, "", name, is_kept, is_inside)
        self.found.append((self._line_begins[line - 1] + column, token, data))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An opening tag; of HTML's empty elements, all there is."""
        if tag in _VOID and not self.is_xml:
            self.handle_startendtag(tag, attrs)
            return
        given = {name: (value or "").lower() for name, value in attrs}
        is_kept = given.get("translate") == "no" or "notranslate" in given.get("class", "").split()
        self._add("open", tag, is_kept=is_kept or tag in _KEPT)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content."""
        self._add("single", tag)

    def handle_endtag(self, tag: str) -> None:
        """A closing tag."""
        self._add("close", tag)

    def handle_data(self, data: str) -> None:
        """Text, perhaps not all of it until the next tag."""
        self._add("text", data=data)

    def handle_comment(self, data: str) -> None:
        """A comment."""
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        """A document type."""
        self._add("other")

    def handle_pi(self, data: str) -> None:
        """A processing instruction, such as XML's own declaration."""
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        """CDATA."""
        self._add("other")


def _tokens(text: str, is_xml: bool) -> list[_Token]:
    """The tokens of markup: text in one piece, and what is kept with all that is inside it."""
    tokens = _joined_text(_without_kept(_Scanner(text, is_xml).tokens))
    if all(token.kind == "text" for token in tokens):  # lines, as without markup
        parts = re.split(r"(\n)", text)
        return [_Token("text", each, is_inside=each != "\n") for each in parts if each]
    if is_xml:
        tokens = [part for token in tokens for part in _without_entities(token)]
        _find_inside(tokens)
    return tokens


def _without_kept(tokens: list[_Token]) -> list[_Token]:
    """With each element that is kept as one token; one that is not closed goes to the end."""
    found: list[_Token] = []
    depth = 0  # of elements of the same name in one that is kept
    for token in tokens:
        if depth:
            found[-1].raw += token.raw
            if token.name == found[-1].name:
                depth += {"open": 1, "close": -1}.get(token.kind, 0)
        elif token.kind == "open" and token.is_kept:
            found.append(replace(token, kind="single"))
            depth = 1
        else:
            found.append(token)
    return found


def _joined_text(tokens: list[_Token]) -> list[_Token]:
    found: list[_Token] = []
    for token in tokens:
        if found and token.kind == found[-1].kind == "text":
            found[-1].raw += token.raw
        else:
            found.append(token)
    return found


def _without_entities(token: _Token) -> list[_Token]:
    """Text cut at the entities that a document type of its own declares, which are kept."""
    if token.kind != "text":
        return [token]
    parts = enumerate(_ENTITY.split(token.raw))
    return [_Token("single" if place % 2 else "text", part) for place, part in parts if part]


def _find_inside(tokens: list[_Token]) -> None:
    """Sets `is_inside` of XML's tags: whether they stand beside text."""
    has_text, children = [False], [list[_Token]()]
    for token in tokens:
        if token.kind == "close" and len(children) > 1:
            _set_inside(children.pop(), has_text.pop())
        if token.kind in ("open", "close") or (token.kind == "single" and token.name):
            children[-1].append(token)
        elif token.kind == "single" or (token.kind == "text" and not token.raw.isspace()):
            has_text[-1] = True
        if token.kind == "open":
            children.append([])
            has_text.append(False)
    for some, beside_text in zip(children, has_text, strict=True):
        _set_inside(some, beside_text)


def _set_inside(tokens: list[_Token], is_inside: bool) -> None:
    for token in tokens:
        token.is_inside = is_inside


def _words(token: _Token) -> str:
    """The normalized words of a token, without their tags and entities; "" if there are none."""
    return normalize(html.unescape(token.raw)) if token.kind == "text" else ""


def _runs(tokens: list[_Token]) -> list[list[_Token]]:
    """The tokens in runs, in order: one without a partner alone, others where all have theirs."""
    blocks: list[list[_Token]] = [[]]
    for token in tokens:
        if token.is_inside:
            blocks[-1].append(token)
        else:
            blocks += [[token], []]
    found, waiting = [], blocks[::-1]
    while waiting:
        run = waiting.pop()
        partners = _partners(run)
        alone = [
            at for at, token in enumerate(run)
            if token.kind in ("open", "close") and at not in partners
        ]  # fmt: skip
        if not alone or len(run) == 1:
            found.append(run)
            continue
        cuts = [cut for at in alone for cut in (at, at + 1)]
        waiting += [run[i:j] for i, j in pairwise([0, *cuts, len(run)]) if i < j][::-1]
    return found


def _partners(run: list[_Token]) -> dict[int, int]:
    """For each tag the place of the other one of its pair, if it has one in the run."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    names: dict[str, int] = {}  # of the elements that are open: how many
    for at, token in enumerate(run):
        if token.kind == "open":
            opened.append(at)
            names[token.name] = names.get(token.name, 0) + 1
        elif token.kind == "close" and names.get(token.name):
            while True:
                begin = opened.pop()
                names[run[begin].name] -= 1
                if run[begin].name == token.name:
                    break
            partners[begin], partners[at] = at, begin
    return partners


class _Unit:
    """A run of text and tags that is translated by itself.

    Attributes:
        text: without tags; "" if there are no words in the run.
    """

    def __init__(self, run: list[_Token], line: int):
        self.line = line  # of the source, where the run begins
        self.passage: Passage | None = None
        words = [at for at, token in enumerate(run) if _words(token)]
        self.text = self.before = self.after = ""
        self.root = Element("", 0)
        if not words:
            self.before = _raw(run)
            return
        begin = next(at for at, token in enumerate(run) if token.kind == "open" or at == words[0])
        end = max(at for at, token in enumerate(run) if token.kind == "close" or at == words[-1])
        self.before, self.after = _raw(run[:begin]), _raw(run[end + 1 :])
        run = run[begin : end + 1]
        if run[0].kind == "text":
            stripped = run[0].raw.lstrip()
            self.before += run[0].raw[: len(run[0].raw) - len(stripped)]
        if run[-1].kind == "text":
            self.after = run[-1].raw[len(run[-1].raw.rstrip()) :] + self.after
        self._read(_without_empty(run))

    def translation(self, found: Iterator[Translation]) -> Translation:
        """The next ones of `found`, joined."""
        assert self.passage
        return self.passage.joined([[next(found)] for _ in self.passage.sentences])[0]

    def written(self, found: Iterator[Translation]) -> str:
        """The run with its translation."""
        if not self.passage:
            return self.before
        best = self.translation(found)
        marked_up = place(self.root, self.text, best.text, best.alignment or [])
        return self.before + marked_up + self.after

    def _read(self, run: list[_Token]) -> None:
        """Sets text and elements."""
        opened = [self.root]
        is_space = is_after_point = False
        for token in run:
            children = opened[-1].children
            if token.kind == "open":
                children.append(element := Element(token.raw, len(self.text)))
                opened.append(element)
            elif token.kind == "close":
                element = opened.pop()
                element.end, element.close = len(self.text), token.raw
            elif token.kind != "text":
                children.append(point := Point(token.raw, len(self.text)))
                if token.kind == "single" and token.name != "wbr":  # seen as a word is
                    point.space_before = is_space and self.text != ""
                    is_space, is_after_point = False, True
            elif words := _words(token):
                data = html.unescape(token.raw)
                is_space |= data[0].isspace() or (is_after_point and words[0].isalnum())
                if is_space and not self.text and children and isinstance(children[-1], Point):
                    children[-1].space_after = True
                self.text += f" {words}" if is_space and self.text else words
                is_space, is_after_point = data[-1].isspace(), False
            else:
                is_space = True
        self.root.end = len(self.text)


def _without_empty(run: list[_Token]) -> list[_Token]:
    """With each element that has no words in it as one token."""
    partners = _partners(run)
    words = list(accumulate(bool(_words(token)) for token in run))
    found, at = [], 0
    while at < len(run):
        end = partners.get(at, at)
        if end > at and words[end] == words[at]:
            found.append(_Token("single", _raw(run[at : end + 1]), run[at].name))
            at = end
        else:
            found.append(run[at])
        at += 1
    return found


def _raw(run: list[_Token]) -> str:
    return "".join(token.raw for token in run)


class Markup:
    """HTML or XML as sentences to translate, and the same markup around their translations.

    For those who batch the sentences of many; others call `translate_markup`. The translations
    must have their alignment.

    Args:
        language: that the text is in, such as "de", to split it into sentences by.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, language: str, form: Form = "html"):
        self._units, line = list[_Unit](), 1
        for run in _runs(_tokens(text, form == "xml")):
            self._units.append(_Unit(run, line))
            line += _raw(run).count("\n")
        with_words = [unit for unit in self._units if unit.text]
        tag = tokenizer.split_tag(f"{with_words[0].text} ")[0] if with_words else ""
        for unit in with_words:
            unit.passage = Passage(unit.text, tokenizer, tag, language)

    @property
    def sentences(self) -> list[str]:
        """What to translate, in order."""
        return [each for unit in self._units if unit.passage for each in unit.passage.sentences]

    def written(self, found: Sequence[Translation]) -> str:
        """The markup with the translations of `sentences`."""
        rest = iter(found)
        return "".join(unit.written(rest) for unit in self._units)

    def doubtful_lines(self, found: Sequence[Translation]) -> list[int]:
        """The lines of the source where passages begin whose translations look wrong.

        See `nmt.decoding.doubtful`.
        """
        rest = iter(found)
        return [
            unit.line
            for unit in self._units
            if unit.passage and is_doubtful(unit.text, unit.translation(rest).text)
        ]


def translate_markup(
    translator: Translates,
    texts: Sequence[str],
    options: SearchOptions | None = None,
    *,
    form: Form = "html",
) -> list[str]:
    """Documents or fragments in HTML or XML, translated; see the module.

    Text without any tag is translated line by line, as `Document` does.

    Raises:
        ArgumentError: as `Translator.n_best`.
    """
    aligned = replace(options or SearchOptions(), align=True, n_best=1)
    language = translator.config.data.source_language
    parsed = [Markup(text, translator.tokenizer, language, form) for text in texts]
    found = iter(translator.n_best([s for each in parsed for s in each.sentences], aligned))
    return [each.written([next(found)[0] for _ in each.sentences]) for each in parsed]
