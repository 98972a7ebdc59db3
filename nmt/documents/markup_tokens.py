"""Splits HTML and XML into tokens, which are text, tags, untranslated elements and other markup.

Invalid markup is treated as text. Incomplete markup at the end of a document is kept unchanged.
Splitting takes linear time, even for malicious input.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nmt.data.cleaning import normalize

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
# HTML elements whose end tags may be omitted, with the elements that then end them
_ENDED_BY = {
    "li": {"li"}, "dt": {"dt", "dd"}, "dd": {"dt", "dd"}, "option": {"option", "optgroup"},
    "td": {"td", "th", "tr", "tbody", "tfoot"}, "th": {"td", "th", "tr", "tbody", "tfoot"},
    "tr": {"tr", "tbody", "tfoot"}, "thead": {"tbody", "tfoot"}, "tbody": {"tbody", "tfoot"},
    "p": {"address", "article", "aside", "blockquote", "dd", "details", "div", "dl", "dt",
          "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
          "header", "hr", "li", "main", "menu", "nav", "ol", "p", "pre", "search", "section",
          "table", "td", "th", "tr", "ul"},
}  # fmt: skip
_ENTITY = re.compile(r"(&(?!(?:amp|lt|gt|quot|apos|#\d+|#[xX][0-9a-fA-F]+);)[\w.:-]+;)")
_LONG_NUMBER = re.compile("&#[0-9]{1000,}")  # never a valid character reference


@dataclass
class Token:
    """A token of HTML or XML, which is text, a tag, or other markup."""

    kind: Kind
    raw: str  # the original markup
    name: str = ""  # name of the element
    is_kept: bool = False  # the element and all its content stay untranslated
    is_inline: bool = True  # False: separates sentences


# Possessive quantifiers ("*+", "++", "?+") never backtrack. The groups that they repeat are atomic,
# (?>...), because Python before 3.11.5 matches repetitions of other groups incorrectly.
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
        letter: a regular expression for the first letter of an element name.
        others: a regular expression for comments, processing instructions and document type
            declarations.
        not_bogus: regular expressions, such as "|DOCTYPE", for text after "<!" that does not begin
            a bogus comment. In the HTML standard, a bogus comment is an invalid comment that ends
            at the first ">".
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
# HTML elements whose content cannot contain tags, with patterns for finding their ends
_ENDS = {
    "script": re.compile(r"<!--|-->|<(?P<slash>/?)script(?=[ \t\n\r\f/>])", re.IGNORECASE),
    "style": re.compile(r"</style(?=[ \t\n\r\f/>])", re.IGNORECASE),
    "textarea": re.compile(r"</textarea(?=[ \t\n\r\f/>])", re.IGNORECASE),
}


def _scanned(text: str, is_xml: bool) -> Iterator[Token]:
    """Splits markup into tokens, so that joining their `raw` strings gives the whole text."""
    at = 0
    while found := _PATTERNS[is_xml].match(text, at):
        yield (token := _token(found, is_xml))
        at = found.end()
        if not is_xml and token.kind == "open" and token.name in _ENDS:
            begin, at = at, _end_of_content(token.name, text, at)
            yield Token("other", text[begin:at])
    yield Token("other", text[at:])


def _end_of_content(name: str, text: str, at: int) -> int:
    """Finds the end tag of an element whose content cannot contain tags, and returns its index."""
    if name == "script":
        return _end_of_script(text, at)
    end = _ENDS[name].search(text, at)
    return end.start() if end else len(text)


def _end_of_script(text: str, at: int) -> int:
    """Returns the index of a script's end tag, as defined by HTML's "script data" states.

    Between <!-- and -->, a script may contain a <script> tag and its </script> tag.
    """
    is_escaped = is_nested = False
    while found := _ENDS["script"].search(text, at):
        at = found.end()
        if found[0] == "<!--":
            is_escaped, at = True, found.start() + 2  # its hyphens may also begin "-->"
        elif found[0] == "-->":
            is_escaped = is_nested = False
        elif not found["slash"]:
            is_nested |= is_escaped
        elif is_nested:
            is_nested = False
        else:
            return found.start()
    return len(text)


def _token(found: re.Match[str], is_xml: bool) -> Token:
    raw, name = found[0], found["name"]
    if not name:
        return Token("text" if found["text"] else "other", raw)
    name = name if is_xml else name.lower()
    is_inline = is_xml or name in _INLINE or "-" in name
    if raw.startswith("</"):
        return Token("close", raw, name, is_inline=is_inline)
    if found["slash"] or (name in _VOID and not is_xml):
        return Token("single", raw, name, is_inline=is_inline)
    is_kept = name.lower() in _KEPT or _is_kept(raw[1 + len(found["name"]) :])
    return Token("open", raw, name, is_kept, is_inline)


def _is_kept(attributes: str) -> bool:
    """Returns whether an element's attributes forbid the translation of the element."""
    given = {}
    for each in _ATTRIBUTES.findall(attributes):
        name, _, value = each.partition("=")
        given[name.strip().lower()] = value.strip().strip("\"'").lower()
    return given.get("translate") == "no" or "notranslate" in given.get("class", "").split()


def tokens_of(text: str, is_xml: bool) -> list[Token]:
    """Splits markup into tokens, with a single token for each untranslated element."""
    tokens = _without_kept([token for token in _scanned(text, is_xml) if token.raw], is_xml)
    if all(token.kind == "text" for token in tokens):  # splits plain text into lines
        parts = re.split(r"(\n)", text)
        return [Token("text", each, is_inline=each != "\n") for each in parts if each]
    if is_xml:
        tokens = [part for token in tokens for part in _without_entities(token)]
        _find_inline(tokens)
    return tokens


def _without_kept(tokens: list[Token], is_xml: bool) -> list[Token]:
    """Replaces each untranslated element with a single token."""
    found, at = [], 0
    while at < len(tokens):
        first, begin = tokens[at], at
        if not first.is_kept:
            found.append(first)
            at += 1
            continue
        at = _end_of_kept(tokens, begin, is_xml)
        raw = raw_of(tokens[begin:at])
        found.append(Token("single", raw, first.name, is_inline=first.is_inline))
    return found


def _end_of_kept(tokens: list[Token], begin: int, is_xml: bool) -> int:
    """Returns the index after the last token of the untranslated element that starts at `begin`.

    An element without an end tag extends to the end of the document, unless HTML allows the end tag
    to be omitted.
    """
    name = tokens[begin].name
    if not is_xml and name in _ENDED_BY:
        return _end_of_omissible(tokens, begin)
    depth = 1  # number of open elements with the same name
    for at in range(begin + 1, len(tokens)):
        if tokens[at].name == name:
            depth += {"open": 1, "close": -1}.get(tokens[at].kind, 0)
        if not depth:
            return at + 1
    return len(tokens)


def _end_of_omissible(tokens: list[Token], begin: int) -> int:
    """Returns the index after an HTML element whose end tag may be omitted.

    Without its end tag, the element ends where its parent element ends, or where an element begins
    that ends it.
    """
    name, opened, number = tokens[begin].name, list[str](), Counter[str]()
    others = 0  # number of open elements within the element whose end tags are required
    for at in range(begin + 1, len(tokens)):
        token = tokens[at]
        if token.kind in ("open", "single") and not others and token.name in _ENDED_BY[name]:
            return at
        if token.kind == "open":
            opened.append(token.name)
            number[token.name] += 1
            others += token.name not in _ENDED_BY
        elif token.kind == "close" and number[token.name]:
            closed = ""
            while closed != token.name:
                closed = opened.pop()
                number[closed] -= 1
                others -= closed not in _ENDED_BY
        elif token.kind == "close" and token.name == name:
            return at + 1
        elif token.kind == "close" and not token.is_inline:  # ends the parent element
            return at
    return len(tokens)


def _without_entities(token: Token) -> list[Token]:
    """Splits a text token at entities that XML does not predefine, so that these stay unchanged."""
    if token.kind != "text":
        return [token]
    parts = enumerate(_ENTITY.split(token.raw))
    return [Token("single" if place % 2 else "text", part) for place, part in parts if part]


def _find_inline(tokens: list[Token]) -> None:
    """Sets `is_inline` of each XML tag to True if the parent element also contains text."""
    has_text, children = [False], [list[Token]()]
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


def _set_inline(tokens: list[Token], is_inline: bool) -> None:
    for token in tokens:
        token.is_inline = is_inline


def words_of(token: Token) -> str:
    """Returns a token's normalized text with decoded entities, or "" if it contains no words."""
    return normalize(unescaped(token.raw)) if token.kind == "text" else ""


def unescaped(raw: str) -> str:
    """Decodes entities. Numeric references that are too long for Python to parse become U+FFFD."""
    return html.unescape(_LONG_NUMBER.sub("&#0", raw))


def raw_of(run: list[Token]) -> str:
    """Joins the original markup of the tokens."""
    return "".join(token.raw for token in run)
