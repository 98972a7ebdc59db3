"""Translates the text of HTML and XML and keeps everything else unchanged.

Each block (paragraph, cell, item, heading) is translated separately, sentence by sentence. Word
alignment determines where inline tags are placed in the translation (see `nmt.documents.tags`). In
XML, elements next to text are inline and all other elements are blocks. Entities are decoded; &, <
and > are escaped in translations. Attributes, comments, CDATA and declarations are not translated,
nor is the content of elements such as `code` and of elements with translate="no" or the class
notranslate.

Invalid markup is treated as text, and markup that is incomplete at the end is kept. Scanning takes
linear time, even for hostile input.
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

# HTML's inline elements; all other elements separate sentences.
_INLINE = {
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
_LONG_NUMBER = re.compile("&#[0-9]{1000,}")  # never a valid character reference


@dataclass
class _Token:
    """A token of the source: text, a tag, or other markup."""

    kind: Kind
    raw: str
    name: str = ""
    is_kept: bool = False  # not translated, with all its content
    is_inline: bool = True  # False: separates sentences


# Quantifiers ending in "+" are possessive: they never backtrack. The groups that they repeat are
# atomic, (?>...), because Python before 3.11.5 matches other groups wrongly.
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
    """Returns a pattern that matches one complete token.

    Args:
        letter: pattern of the first letter of a name.
        others: pattern of comments, processing instructions and document types.
        not_bogus: pattern of what follows "<!" in tokens other than bogus comments, which end at
            the first ">".
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
# HTML elements whose content has no tags, with what their ends depend on
_ENDS = {
    "script": re.compile(r"<!--|-->|<(?P<slash>/?)script(?=[ \t\n\r\f/>])", re.IGNORECASE),
    "style": re.compile(r"</style(?=[ \t\n\r\f/>])", re.IGNORECASE),
    "textarea": re.compile(r"</textarea(?=[ \t\n\r\f/>])", re.IGNORECASE),
}


def _scanned(text: str, is_xml: bool) -> Iterator[_Token]:
    """Splits markup into tokens; their concatenation is the whole text."""
    at = 0
    while found := _PATTERNS[is_xml].match(text, at):
        yield (token := _token(found, is_xml))
        at = found.end()
        if not is_xml and token.kind == "open" and token.name in _ENDS:
            begin, at = at, _end_of_content(token.name, text, at)
            yield _Token("other", text[begin:at])
    yield _Token("other", text[at:])


def _end_of_content(name: str, text: str, at: int) -> int:
    """Returns the index of the end tag of an element whose content cannot contain tags."""
    if name == "script":
        return _end_of_script(text, at)
    end = _ENDS[name].search(text, at)
    return end.start() if end else len(text)


def _end_of_script(text: str, at: int) -> int:
    """Returns the index of a script's end tag, by the "script data" states of the HTML standard.

    Between <!-- and -->, a <script> tag and its </script> tag belong to the content.
    """
    is_escaped = is_nested = False
    while found := _ENDS["script"].search(text, at):
        at = found.end()
        if found[0] == "<!--":
            is_escaped, at = True, found.start() + 2  # its hyphens may be those of "-->"
        elif found[0] == "-->":
            is_escaped = is_nested = False
        elif not found["slash"]:
            is_nested |= is_escaped
        elif is_nested:
            is_nested = False
        else:
            return found.start()
    return len(text)


def _token(found: re.Match[str], is_xml: bool) -> _Token:
    raw, name = found[0], found["name"]
    if not name:
        return _Token("text" if found["text"] else "other", raw)
    name = name if is_xml else name.lower()
    is_inline = is_xml or name in _INLINE or "-" in name
    if raw.startswith("</"):
        return _Token("close", raw, name, is_inline=is_inline)
    if found["slash"] or (name in _VOID and not is_xml):
        return _Token("single", raw, name, is_inline=is_inline)
    is_kept = name.lower() in _KEPT or _is_kept(raw[1 + len(found["name"]) :])
    return _Token("open", raw, name, is_kept, is_inline)


def _is_kept(attributes: str) -> bool:
    """Returns whether an element's attributes forbid translating it."""
    given = {}
    for each in _ATTRIBUTES.findall(attributes):
        name, _, value = each.partition("=")
        given[name.strip().lower()] = value.strip().strip("\"'").lower()
    return given.get("translate") == "no" or "notranslate" in given.get("class", "").split()


def _tokens(text: str, is_xml: bool) -> list[_Token]:
    """Returns the tokens of markup, with each kept element as a single token."""
    tokens = _without_kept([token for token in _scanned(text, is_xml) if token.raw])
    if all(token.kind == "text" for token in tokens):  # plain text: splits it into lines
        parts = re.split(r"(\n)", text)
        return [_Token("text", each, is_inline=each != "\n") for each in parts if each]
    if is_xml:
        tokens = [part for token in tokens for part in _without_entities(token)]
        _find_inline(tokens)
    return tokens


def _without_kept(tokens: list[_Token]) -> list[_Token]:
    """Replaces each kept element by one token; an element that is not closed extends to the end."""
    found, at = [], 0
    while at < len(tokens):
        begin, at = at, at + 1
        if not tokens[begin].is_kept:
            found.append(tokens[begin])
            continue
        depth = 1  # nested elements of the same name
        while depth and at < len(tokens):
            if tokens[at].name == tokens[begin].name:
                depth += {"open": 1, "close": -1}.get(tokens[at].kind, 0)
            at += 1
        found.append(
            _Token(
                "single",
                _raw(tokens[begin:at]),
                tokens[begin].name,
                is_inline=tokens[begin].is_inline,
            )
        )
    return found


def _without_entities(token: _Token) -> list[_Token]:
    """Splits text at the entities that the document itself declares, to keep them unchanged."""
    if token.kind != "text":
        return [token]
    parts = enumerate(_ENTITY.split(token.raw))
    return [_Token("single" if place % 2 else "text", part) for place, part in parts if part]


def _find_inline(tokens: list[_Token]) -> None:
    """Sets `is_inline` of XML's tags: True for tags next to text."""
    has_text, children = [False], [list[_Token]()]
    for token in tokens:
        if token.kind == "close" and len(children) > 1:
            _set_inline(children.pop(), has_text.pop())
        if token.kind in ("open", "close") or (token.kind == "single" and token.name):
            children[-1].append(token)
        elif token.kind == "single" or (token.kind == "text" and not token.raw.isspace()):
            has_text[-1] = True
        if token.kind == "open":
            children.append([])
            has_text.append(False)
    for some, beside_text in zip(children, has_text, strict=True):
        _set_inline(some, beside_text)


def _set_inline(tokens: list[_Token], is_inline: bool) -> None:
    for token in tokens:
        token.is_inline = is_inline


def _words(token: _Token) -> str:
    """Returns the normalized text of a token with decoded entities, or "" if it has no words."""
    return normalize(_unescaped(token.raw)) if token.kind == "text" else ""


def _unescaped(raw: str) -> str:
    """Decodes entities; numeric references with too many digits for Python become U+FFFD."""
    return html.unescape(_LONG_NUMBER.sub("&#0", raw))


def _runs(tokens: list[_Token]) -> list[list[_Token]]:
    """Splits tokens into runs; a tag without its partner in the run becomes a run by itself."""
    blocks: list[list[_Token]] = [[]]
    for token in tokens:
        if token.is_inline:
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
    """Maps the index of each tag to the index of its partner, if the partner is in the run."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    names: dict[str, int] = {}  # number of open elements per name
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
    """A run of text and tags that is translated separately.

    Attributes:
        text: the text without tags, or "" if the run has no words.
    """

    def __init__(self, run: list[_Token], line: int):
        self.line = line  # first line of the run in the source
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
        """Joins the translations of the unit's sentences, which are the next items of `found`."""
        assert self.passage
        return self.passage.joined([[next(found)] for _ in self.passage.sentences])[0]

    def written(self, found: Iterator[Translation]) -> str:
        """Returns the run with its text translated."""
        if not self.passage:
            return self.before
        best = self.translation(found)
        marked_up = place(self.root, self.text, best.text, best.alignment or [])
        return self.before + marked_up + self.after

    def _read(self, run: list[_Token]) -> None:
        """Sets the text and the elements."""
        opened, texts, length = [self.root], list[str](), 0
        is_space = is_after_point = False  # both since the last word
        is_beside_space, unseen = False, list[Point]()  # is_beside_space: since the last token
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
                if token.kind == "single" and token.name != "wbr":  # displayed like a word
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
    """Assigns the last space among the points between two words to the text, not to a point."""
    for last in reversed(range(len(points))):
        if points[last].space_before:
            points[last].space_before = False
            for point in points[last:]:
                point.is_after_space = True
            return


def _without_empty(run: list[_Token]) -> list[_Token]:
    """Replaces each element without words by a single token."""
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
    """Splits HTML or XML into sentences and writes the markup with their translations.

    `translate_markup` is simpler to use; this class allows translating the sentences of several
    documents in the same batch. The translations must include the alignment.

    Args:
        language: language of the text, such as "de", which determines how it is split.
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
        """The sentences to translate, in order."""
        return [each for unit in self._units if unit.passage for each in unit.passage.sentences]

    def written(self, found: Sequence[Translation]) -> str:
        """Returns the markup with the translations of `sentences`."""
        rest = iter(found)
        return "".join(unit.written(rest) for unit in self._units)

    def doubtful_lines(self, found: Sequence[Translation]) -> list[int]:
        """Returns the line numbers of passages with suspicious translations.

        See `nmt.documents.doubtful`.
        """
        rest = iter(found)
        return [
            unit.line
            for unit in self._units
            if unit.passage and is_doubtful(unit.text, unit.translation(rest).text)
        ]

    def lost_lines(self, found: Sequence[Translation]) -> list[int]:
        """Returns the line numbers of passages with a sentence whose translation is empty."""
        rest = iter(found)
        return [
            unit.line
            for unit in self._units
            if unit.passage and sum(next(rest).is_lost for _ in unit.passage.sentences)
        ]

    def unmet_terms(self, found: Sequence[Translation]) -> list[tuple[int, Term]]:
        """Returns the terms that translations lack, each with the first line of its passage."""
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
    """Translates documents or fragments in HTML or XML.

    Text without tags is translated line by line, as `Document` does.

    Raises:
        ArgumentError: see `Translator.n_best`.
    """
    aligned = replace(options or SearchOptions(), align=True, n_best=1)
    language = translator.config.data.source_language
    parsed = [Markup(text, translator.tokenizer, language, form) for text in texts]
    found = iter(translator.n_best([s for each in parsed for s in each.sentences], aligned))
    return [each.written([next(found)[0] for _ in each.sentences]) for each in parsed]
