"""Where the tags of a text go in its translation.

Each word of the translation has a link to one word of the source. An element goes around the
longest run of words that are linked to its own; one that no word is linked to, around the free word
nearest to its place. Siblings never share a word, and children stay within their parent. Where no
word is left for an element, it goes around the whole translation, and so does one in too many
others. So every tag comes exactly once, and what was well nested still is.
"""

import html
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from nmt.decoding.translation import Links

_WORD = re.compile(r"\S+")
_PUNCTUATION = re.compile(r"[^\w\s]{1,16}")  # more is no end of a word
_LETTER = re.compile(r"\w")
_OPENING = re.compile(r"^[^\w\s]+(?=\w)")
_CLOSING = re.compile(r"(?<=\w)[^\w\s]{1,16}$")
_DEEPEST = 32  # elements one in the other: each looks at all the words within


@dataclass
class Point:
    """Something in a text that is kept as it is: an image, a comment, an element without words."""

    raw: str
    at: int  # in the text
    space_before: bool = False
    space_after: bool = False  # of one at the beginning
    is_after_space: bool = False  # that of the text, before the next word

    def written(self, is_first: bool) -> str:
        """With its space, which comes after it at the beginning of a word."""
        space = " " if self.space_before or (is_first and self.space_after) else ""
        return self.raw + space if is_first else space + self.raw


@dataclass
class Element:
    """A pair of tags, and what is between them. The whole text is one without tags."""

    open: str
    begin: int  # in the text
    end: int = 0
    close: str = ""
    children: list["Element | Point"] = field(default_factory=list)  # in the order of the text
    # set by `place`: in the translation, as a half-open range of words
    words: tuple[int, int] = (0, 0)

    @property
    def elements(self) -> list["Element"]:
        """Those of the children that are elements."""
        return [child for child in self.children if isinstance(child, Element)]


def place(root: Element, source: str, translation: str, links: Links) -> str:
    """The translation as markup, with the tags of its source.

    Args:
        root: the elements and points of `source`; is changed.
        links: numbers of words of the source and of the translation, see `alignment`.
    """
    return _Placing(root, source, translation, links).markup()


class _Text:
    """A text and where its words are."""

    def __init__(self, text: str):
        self.text = text
        found = list(_WORD.finditer(text))
        self.begins = [word.start() for word in found]
        self.ends = [word.end() for word in found]
        self.letters = [letter.start() for letter in _LETTER.finditer(text)]

    def words(self, begin: int, end: int) -> range:
        """The words that have a character in this range."""
        return range(bisect_left(self.ends, begin + 1), bisect_left(self.begins, end))


class _Placing:
    def __init__(self, root: Element, source: str, translation: str, links: Links):
        self.root, self.source, self.target = root, _Text(source), _Text(translation)
        self.linked: dict[int, list[int]] = {}  # words of the translation, by the source's
        for word, to in sorted(set(links)):
            self.linked.setdefault(word, []).append(to)
        self.n = len(self.target.begins)
        self.around: list[Element] = []  # elements around the whole
        root.words = (0, self.n)
        parents = [(root, 0)]
        while parents:
            parent, depth = parents.pop()
            self._put_around(
                parent, self._give_words(parent) if depth < _DEEPEST else parent.elements
            )
            parents += [(each, depth + 1) for each in parent.elements]

    def markup(self) -> str:
        opened = "".join(each.open for each in self.around)
        closed = "".join(each.close for each in reversed(self.around))
        return opened + "".join(self._written()) + closed

    def _give_words(self, parent: Element) -> list[Element]:
        """Gives each child its words, from those of the parent; returns those that get none."""
        begin, end = parent.words
        elements = parent.elements
        if len(elements) == 1 and self._words_of(elements[0]) == self._words_of(parent):
            elements[0].words = begin, end
            elements = elements if begin == end else []  # none is left to be given words
        free = bytearray(b"\1" * (end - begin))
        runs: dict[range, list[range]] = {}  # children in the same word, as in Chinese, share them
        waiting = []
        for child in elements:
            words = self._words_of(child)
            if words not in runs:
                runs[words] = self._runs(words, free, begin)
            if runs[words]:
                run = runs[words].pop()
                free[run.start - begin : run.stop - begin] = bytes(len(run))
                child.words = run.start, run.stop
            else:
                waiting.append(child)
        homeless = []
        for child in waiting:
            word = self._nearest(child, parent, free)
            if word is None:
                homeless.append(child)
                continue
            free[word] = 0
            child.words = begin + word, begin + word + 1
        return homeless

    def _words_of(self, element: Element) -> range:
        return self.source.words(element.begin, element.end)

    def _runs(self, words: range, free: bytearray, begin: int) -> list[range]:
        """The runs of free words that are linked to these; the longest last, of equals the first.

        Args:
            free: of which words of the translation, from `begin`.
        """
        linked = sorted(to for word in words for to in self._linked(word, begin, begin + len(free)))
        runs = list[range]()
        for to in linked:
            if not free[to - begin]:
                continue
            if runs and runs[-1].stop == to:
                runs[-1] = range(runs[-1].start, to + 1)
            else:
                runs.append(range(to, to + 1))
        return sorted(runs, key=lambda run: (len(run), -run.start))

    def _linked(self, word: int, begin: int, end: int) -> list[int]:
        """The words of the translation, in this range, that are linked to one of the source."""
        linked = self.linked.get(word, [])
        return linked[bisect_left(linked, begin) : bisect_left(linked, end)]

    def _nearest(self, child: Element, parent: Element, free: bytearray) -> int | None:
        """The free word whose place among the parent's is most like the child's; None: none is."""
        share = (child.begin + child.end - 2 * parent.begin) / 2 / max(parent.end - parent.begin, 1)
        wanted = min(int(share * len(free)), len(free) - 1)
        before, after = free.rfind(1, 0, max(wanted, 0) + 1), free.find(1, max(wanted, 0))
        found = [at for at in (before, after) if at >= 0]
        return min(found, key=lambda at: abs(at - wanted)) if found else None

    def _put_around(self, parent: Element, homeless: list[Element]) -> None:
        """Takes elements that have no word, with those inside them, out of their parent."""
        taken = {id(each) for each in homeless}
        waiting, kept = parent.children[::-1], list[Element | Point]()
        while waiting:
            each = waiting.pop()
            if isinstance(each, Point) or id(each) not in taken:
                kept.append(each)
                continue
            self.around.append(each)
            taken.update(id(element) for element in each.elements)
            waiting += reversed(each.children)
        parent.children = kept

    def _written(self) -> Iterator[str]:
        text, cursor = self.target.text, 0
        open_elements = [(self.root, len(text), iter(self._in_order(self.root, 0, len(text))))]
        while open_elements:
            element, end, children = open_elements[-1]
            for at, stop, child in children:
                to = min(max(at, cursor), end)
                yield html.escape(text[cursor:to], quote=False)
                cursor = to
                if isinstance(child, Point):
                    yield child.written(cursor == 0 or text[cursor - 1].isspace())
                    continue
                yield child.open
                stop = min(max(stop, cursor), end)
                open_elements.append((child, stop, iter(self._in_order(child, cursor, stop))))
                break
            else:
                yield html.escape(text[cursor:end], quote=False)
                cursor = max(cursor, end)
                yield element.close
                open_elements.pop()

    def _in_order(
        self, parent: Element, begin: int, end: int
    ) -> list[tuple[int, int, Element | Point]]:
        """The children with their range of characters, in the order of the translation."""
        found: list[tuple[int, int, Element | Point]] = []
        seen, after = self.source.words(parent.begin, parent.end).start, begin
        for child in parent.children:
            if isinstance(child, Point):
                before = self.source.words(parent.begin, child.at)
                for word in range(seen, before.stop):
                    after = self._end_of_linked(word, parent) or after
                seen = max(seen, before.stop)
                at = min(max(self._place_of(child, parent, after, end), begin), end)
                at += child.is_after_space and self.target.text[at:end].startswith(" ")
                found.append((at, at, child))
            else:
                found.append((*self._characters(child), child))
        return sorted(found, key=lambda each: each[0])

    def _end_of_linked(self, word: int, parent: Element) -> int:
        """Where the last of the parent's words ends that are linked to one of the source; or 0."""
        inside = self._linked(word, *parent.words)
        return self.target.ends[inside[-1]] if inside else 0

    def _characters(self, element: Element) -> tuple[int, int]:
        """The characters of an element's words, but for punctuation that was outside it too."""
        first, stop = element.words
        begin, end = self.target.begins[first], self.target.ends[stop - 1]
        word = self.target.text[begin : self.target.ends[first]]
        if self._touches(element.begin, before=True) and (found := _OPENING.search(word)):
            begin += found.end()
        if self._touches(element.end, before=False):
            end = max(self._before_punctuation(end), begin)
        return begin, end

    def _touches(self, at: int, *, before: bool) -> bool:
        """Whether this place is in a word of the source, between it and its punctuation."""
        words = self.source.words(at - 1, at + 1)
        if not words:
            return False
        begin, end = self.source.begins[words[0 if before else -1]], self.source.ends[words[-1]]
        begin, end = (begin, at) if before else (at, end)
        return _PUNCTUATION.fullmatch(self.source.text, begin, end) is not None

    def _place_of(self, point: Point, parent: Element, after: int, end: int) -> int:
        """Where a point goes: after the word that is linked to the last one before it that has one.

        Args:
            after: where that word ends; or where the parent begins, if none has a link.
            end: where the parent ends.
        """
        letters = self.source.letters
        if bisect_left(letters, point.at) == bisect_left(letters, parent.end):
            is_last = point.at >= parent.end or not self.source.words(point.at, parent.end)
            return end if is_last else self._before_punctuation(end)
        is_inside = self._touches(point.at, before=False)
        return self._before_punctuation(after) if is_inside else after

    def _before_punctuation(self, end: int) -> int:
        """Where the punctuation begins with which a word ends that ends here."""
        if not self.n:
            return end
        word = bisect_left(self.target.ends, end)
        begin = self.target.begins[min(word, self.n - 1)]
        closing = _CLOSING.search(self.target.text[max(begin, end - 17) : end])
        return end - len(closing[0]) if closing else end
