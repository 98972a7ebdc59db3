"""Translates the text in HTML and XML, and keeps everything else unchanged.

Each block (for example a paragraph, table cell, list item or heading) is translated separately,
sentence by sentence. Word alignment determines where inline tags are placed in the translation (see
`nmt.documents.tags`). In XML, elements next to text are inline, and all other elements are blocks.
Entities in the text are decoded, and the characters &, < and > are escaped in translations.
Attributes, comments, CDATA sections and declarations are not translated. The content of elements
such as `code`, and of elements with translate="no" or the class notranslate, is not translated
either.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Literal

from nmt.data.tokenizer import Tokenizer
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import Translation
from nmt.documents.cutting import listed
from nmt.documents.markup_tokens import Token, raw_of, tokens_of, unescaped, words_of
from nmt.documents.passages import Passage, Translates, translate_passages
from nmt.documents.tags import Element, Point, place

Form = Literal["html", "xml"]

_OPENING = "([{„‚"  # in some languages, “ and « are closing quotation marks


def _runs(tokens: list[Token]) -> list[list[Token]]:
    """Splits tokens into lists that are translated separately.

    Each opening tag is in the same list as its closing tag.

    A tag that has no matching tag in the same list becomes a separate list.
    """
    blocks: list[list[Token]] = [[]]
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


def _partners(run: list[Token]) -> dict[int, int]:
    """Maps the index of each tag to the index of its matching tag, if `run` contains both tags."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    names: dict[str, int] = {}  # number of open elements with each name
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
    """A sequence of text and tags that is translated independently of the rest of the document.

    Attributes:
        text: the unit's text without tags, which is empty if the unit contains no words.
    """

    def __init__(self, run: list[Token], line: int):
        self.line = line  # line number in the source at which the unit begins
        self.passage: Passage | None = None
        words = [at for at, token in enumerate(run) if words_of(token)]
        self.text = self.before = self.after = ""
        self.root = Element("", 0)
        if not words:
            self.before = raw_of(run)
            return
        begin = next(at for at, token in enumerate(run) if token.kind == "open" or at == words[0])
        end = max(at for at, token in enumerate(run) if token.kind == "close" or at == words[-1])
        self.before, self.after = raw_of(run[:begin]), raw_of(run[end + 1 :])
        run = run[begin : end + 1]
        if run[0].kind == "text":
            stripped = run[0].raw.lstrip()
            self.before += run[0].raw[: len(run[0].raw) - len(stripped)]
        if run[-1].kind == "text":
            self.after = run[-1].raw[len(run[-1].raw.rstrip()) :] + self.after
        self._read(_without_empty(run))

    def translation(self, found: Iterator[Translation]) -> Translation:
        """Takes the translations of the unit's sentences from `found` and joins them."""
        assert self.passage
        return self.passage.joined([[next(found)] for _ in self.passage.sentences])[0]

    def written(self, found: Iterator[Translation]) -> str:
        """Returns the unit's markup with the translation in place of the text."""
        if not self.passage:
            return self.before
        best = self.translation(found)
        marked_up = place(self.root, self.text, best.text, best.alignment or [])
        return self.before + marked_up + self.after

    def _read(self, run: list[Token]) -> None:
        """Sets `text` to the tokens' text, and `root` to the element that contains them."""
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
            elif words := words_of(token):
                data = unescaped(token.raw)
                if not (is_beside_space or data[0].isspace()):
                    _give_space_to_text(unseen)
                is_space |= data[0].isspace() or (is_after_point and _begins_word(words[0]))
                if is_space and not length and children and isinstance(children[-1], Point):
                    children[-1].space_after = True
                texts.append(f" {words}" if is_space and length else words)
                length += len(texts[-1])
                is_space = is_beside_space = data[-1].isspace()
                is_after_point, unseen = False, []
            else:
                is_space = is_beside_space = True
        self.text, self.root.end = "".join(texts), length


def _begins_word(character: str) -> bool:
    return character.isalnum() or character in _OPENING


def _give_space_to_text(points: list[Point]) -> None:
    """Finds the last point whose `space_before` is True, and moves its space into the text."""
    for last in reversed(range(len(points))):
        if points[last].space_before:
            points[last].space_before = False
            for point in points[last:]:
                point.is_after_space = True
            return


def _without_empty(run: list[Token]) -> list[Token]:
    """Replaces each element that contains no words with a single token."""
    partners = _partners(run)
    words = list(accumulate(bool(words_of(token)) for token in run))
    found, at = [], 0
    while at < len(run):
        end = partners.get(at, at)
        if end > at and words[end] == words[at]:
            found.append(Token("single", raw_of(run[at : end + 1]), run[at].name))
            at = end
        else:
            found.append(run[at])
        at += 1
    return found


class Markup:
    """Splits HTML or XML into sentences and inserts their translations into the markup.

    If you only need the translated markup, `translate_markup` is simpler than this class. The
    sentences must be translated with the option `align`, because tags are placed by word alignment.

    Args:
        language: the language of the text, such as "de". It determines where sentences end.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, language: str, form: Form = "html"):
        self._units, line = list[_Unit](), 1
        for run in _runs(tokens_of(text, form == "xml")):
            self._units.append(_Unit(run, line))
            line += raw_of(run).count("\n")
        with_words = [unit for unit in self._units if unit.text]
        tag = tokenizer.split_tag(f"{with_words[0].text} ")[0] if with_words else ""
        for unit in with_words:
            unit.passage = Passage(unit.text, tokenizer, tag, language)

    @property
    def sentences(self) -> list[str]:
        """The sentences to translate, in document order."""
        return [each for unit in self._units if unit.passage for each in unit.passage.sentences]

    def written(self, found: Sequence[Translation]) -> str:
        """Returns the markup with the translations of `sentences` in place of the sentences."""
        rest = iter(found)
        return "".join(unit.written(rest) for unit in self._units)

    def passages(
        self, found: Sequence[Translation]
    ) -> Iterator[tuple[int, str, list[Translation], Translation]]:
        """Yields a tuple for each passage of the document.

        Args:
            found: the translations of `sentences`.

        Yields:
            The line number at which the passage begins, the passage's text, the translations of its
            sentences, and the translation of the whole passage.
        """
        rest = iter(found)
        for unit in self._units:
            if unit.passage:
                best = [next(rest) for _ in unit.passage.sentences]
                yield unit.line, unit.text, best, unit.translation(iter(best))


def translate_markup(
    translator: Translates,
    texts: Sequence[str],
    options: SearchOptions | None = None,
    *,
    form: Form = "html",
) -> list[str]:
    """Translates HTML or XML documents or fragments, and returns the translated markup.

    Plain text without tags is translated line by line, in the same way as with `Document`.

    Raises:
        ArgumentError: the argument `texts` is not a list of strings. For other errors, see
            `Translator.n_best`.
    """
    aligned = SearchOptions.of(options, {"align": True, "n_best": 1})
    language = translator.config.data.source_language
    parsed = [Markup(text, translator.tokenizer, language, form) for text in listed(texts, "texts")]
    found = translate_passages(translator, parsed, aligned)
    return [
        markup.written([best[0] for best in each])
        for markup, each in zip(parsed, found, strict=True)
    ]
