"""HTML and XML: the text is translated, everything else is kept as it stands, byte for byte.

Blocks (paragraphs, cells, items, headings) are translated by themselves, sentence by sentence;
tags inside one go where the alignment puts them, see `nmt.documents.tags`. In XML, whose elements
have no known meaning, those are inside that stand beside text, and all others are blocks. Entities
are read, and &, < and > of a translation written as such. Attributes stay as they are, and so does
everything in `code` and its like, in elements with translate="no" or the class notranslate, in
comments, CDATA and declarations.

What is no markup is text. Markup that the end of the text cuts off is kept. The text is scanned
once, and never again from an earlier place: hostile input takes no longer than other input.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Literal

from nmt.data.cleaning import normalize
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Term, Translation
from nmt.documents.doubtful import is_doubtful
from nmt.documents.passages import Passage, Translates
from nmt.documents.tags import Element, Point, place

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
_LONG_NUMBER = re.compile("&#[0-9]{1000,}")  # of no character


@dataclass
class _Token:
    """A piece of the source: text, a tag, or anything else that is kept."""

    kind: Kind
    raw: str
    name: str = ""
    is_kept: bool = False  # with all that is inside
    is_inside: bool = True  # a sentence; else it separates two


# Quantifiers ending in "+" are possessive: what they have taken is never tried another way.
# A group that one repeats is atomic, (?>...): Python before 3.11.5 matches others wrongly.
_ATTRIBUTE = (
    r"""[^ \t\n\r\f/>][^ \t\n\r\f/>=]*+(?>[ \t\n\r\f]*+=[ \t\n\r\f]*+"""
    r"""(?:"[^"]*+"|'[^']*+'|[^ \t\n\r\f>"'][^ \t\n\r\f>]*+))?+"""
)
_QUOTED = r""""[^"]*+"|'[^']*+'"""
_XML_DOCTYPE = (
    rf"""<!DOCTYPE(?>[^\[>"']++|{_QUOTED})*+"""
    rf"""(?>\[(?>[^]"'<]++|{_QUOTED}|<!--.*?-->|<\?.*?\?>|<(?!!--|\?))*+\][^>]*+)?+>"""
)


def _pattern(letter: str, others: str, not_bogus: str) -> re.Pattern[str]:
    """What matches one token where it begins, and nothing where it is not finished.

    Args:
        letter: that a name begins with.
        others: comments, instructions and types of document.
        not_bogus: what comes after "<!" in `others`; after it, other things end at the first ">".
    """
    return re.compile(
        rf"(?P<text>(?>[^<]++|<(?!{letter}|[/!?]))++)"
        rf"|</?(?P<name>{letter}[^ \t\n\r\f/>]*+)"
        rf"(?>[ \t\n\r\f]++|/(?!>)|{_ATTRIBUTE})*+(?P<slash>/?)>"
        rf"|<!\[CDATA\[.*?\]\]>|{others}|<!(?!--|\[CDATA\[{not_bogus})[^>]*+>|</(?!{letter})[^>]*+>",
        re.DOTALL,
    )


_PATTERNS = {
    False: _pattern("[A-Za-z]", r"<!--(?:-?>|.*?--!?>)|<\?[^>]*+>", ""),
    True: _pattern(r"(?:[^\W\d]|:)", rf"<!--.*?-->|<\?.*?\?>|{_XML_DOCTYPE}", "|DOCTYPE"),
}
_ATTRIBUTES = re.compile(_ATTRIBUTE)
# Of HTML: hold no tags, whatever is in them looks like.
_ENDS = {
    name: re.compile(rf"</{name}(?=[ \t\n\r\f/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea")
}


def _scanned(text: str, is_xml: bool) -> Iterator[_Token]:
    """The pieces of markup; those that follow each other are the whole of it."""
    at = 0
    while found := _PATTERNS[is_xml].match(text, at):
        yield (token := _token(found, is_xml))
        at = found.end()
        if not is_xml and token.kind == "open" and token.name in _ENDS:
            end = _ENDS[token.name].search(text, at)
            begin, at = at, end.start() if end else len(text)
            yield _Token("other", text[begin:at])
    yield _Token("other", text[at:])


def _token(found: re.Match[str], is_xml: bool) -> _Token:
    raw, name = found[0], found["name"]
    if not name:
        return _Token("text" if found["text"] else "other", raw)
    name = name if is_xml else name.lower()
    is_inside = is_xml or name in _INSIDE or "-" in name
    if raw.startswith("</"):
        return _Token("close", raw, name, is_inside=is_inside)
    if found["slash"] or (name in _VOID and not is_xml):
        return _Token("single", raw, name, is_inside=is_inside)
    is_kept = name.lower() in _KEPT or _is_kept(raw[1 + len(found["name"]) :])
    return _Token("open", raw, name, is_kept, is_inside)


def _is_kept(attributes: str) -> bool:
    """Whether an element with these must not be translated."""
    given = {}
    for each in _ATTRIBUTES.findall(attributes):
        name, _, value = each.partition("=")
        given[name.strip().lower()] = value.strip().strip("\"'").lower()
    return given.get("translate") == "no" or "notranslate" in given.get("class", "").split()


def _tokens(text: str, is_xml: bool) -> list[_Token]:
    """The tokens of markup, and what is kept with all that is inside it as one."""
    tokens = _without_kept([token for token in _scanned(text, is_xml) if token.raw])
    if all(token.kind == "text" for token in tokens):  # lines, as without markup
        parts = re.split(r"(\n)", text)
        return [_Token("text", each, is_inside=each != "\n") for each in parts if each]
    if is_xml:
        tokens = [part for token in tokens for part in _without_entities(token)]
        _find_inside(tokens)
    return tokens


def _without_kept(tokens: list[_Token]) -> list[_Token]:
    """With each element that is kept as one token; one that is not closed goes to the end."""
    found, at = [], 0
    while at < len(tokens):
        begin, at = at, at + 1
        if not tokens[begin].is_kept:
            found.append(tokens[begin])
            continue
        depth = 1  # of elements of the same name
        while depth and at < len(tokens):
            if tokens[at].name == tokens[begin].name:
                depth += {"open": 1, "close": -1}.get(tokens[at].kind, 0)
            at += 1
        found.append(
            _Token(
                "single",
                _raw(tokens[begin:at]),
                tokens[begin].name,
                is_inside=tokens[begin].is_inside,
            )
        )
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
    return normalize(_unescaped(token.raw)) if token.kind == "text" else ""


def _unescaped(raw: str) -> str:
    """With entities read; Python refuses to read numbers of thousands of digits."""
    return html.unescape(_LONG_NUMBER.sub("&#0", raw))


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
        opened, texts, length = [self.root], list[str](), 0
        is_space = is_after_point = False  # since the last word
        is_beside_space, unseen = False, list[Point]()  # the former: since the last token
        for token in run:
            children = opened[-1].children
            is_beside_space &= token.kind not in ("open", "close")
            if token.kind == "open":
                children.append(element := Element(token.raw, length))
                opened.append(element)
            elif token.kind == "close":
                element = opened.pop()
                element.end, element.close = length, token.raw
            elif token.kind != "text":
                children.append(point := Point(token.raw, length))
                point.space_before = is_beside_space and length > 0
                is_beside_space = False
                if token.kind == "single" and token.name != "wbr":  # seen as a word is
                    is_space, is_after_point, unseen = False, True, []
                else:
                    unseen.append(point)
            elif words := _words(token):
                data = _unescaped(token.raw)
                if not (is_beside_space or data[0].isspace()):
                    _give_space_to_text(unseen)
                is_space |= data[0].isspace() or (is_after_point and words[0].isalnum())
                if is_space and not length and children and isinstance(children[-1], Point):
                    children[-1].space_after = True
                texts.append(f" {words}" if is_space and length else words)
                length += len(texts[-1])
                is_space = is_beside_space = data[-1].isspace()
                is_after_point, unseen = False, []
            else:
                is_space = is_beside_space = True
        self.text, self.root.end = "".join(texts), length


def _give_space_to_text(points: list[Point]) -> None:
    """Of points between two words, the last space among them is the one that the text has."""
    for last in reversed(range(len(points))):
        if points[last].space_before:
            points[last].space_before = False
            for point in points[last:]:
                point.is_after_space = True
            return


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

        See `nmt.documents.doubtful`.
        """
        rest = iter(found)
        return [
            unit.line
            for unit in self._units
            if unit.passage and is_doubtful(unit.text, unit.translation(rest).text)
        ]

    def unmet_terms(self, found: Sequence[Translation]) -> list[tuple[int, Term]]:
        """The glossary's terms that translations lack, with the line where each passage begins."""
        rest = iter(found)
        return [
            (unit.line, term)
            for unit in self._units
            if unit.passage
            for term in unit.translation(rest).unmet_terms
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
