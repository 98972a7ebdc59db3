"""Uses word alignment to place the tags of a source text in its translation.

Each target word is aligned with one source word. If an element covers only part of a source word,
such as the digit in "H2O", and this part also occurs in the aligned target word, both words are
divided into parts, which are then treated like words. A target word is free for an element if no
sibling element has been placed around it. An element is placed around the longest sequence of free
target words that are aligned with the element's source words. If no free target word is aligned
with the element's source words, the element is placed around the free target word that is nearest
to the element's relative position in the source.

Sibling elements never share a target word, and child elements remain within their parent element.
If no free target word is left for an element, or if the element is nested more than 32 levels deep,
the element is placed around the whole translation. Every tag therefore occurs exactly once, and the
nesting remains valid.
"""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nmt.decoding.translation import Links

_WORD = re.compile(r"\S+")
_PUNCTUATION = re.compile(r"[^\w\s]{1,16}")  # longer sequences do not end a word
_LETTER = re.compile(r"\w")
_OPENING = re.compile(r"^[^\w\s]+(?=\w)")
_CLOSING = re.compile(r"(?<=\w)[^\w\s]{1,16}$")
_MARKS = re.compile(r"^[^\w\s]+|[^\w\s]+$")
_DEEPEST = 32  # maximum nesting depth; each level searches all words of its elements
_MOST_PARTS = 16  # words with more parts are not divided

_Span = tuple[int, int]  # half-open range of characters


@dataclass
class Point:
    """Markup that contains no words, such as an image, a comment or an empty element."""

    raw: str
    at: int  # index in the source text
    space_before: bool = False
    space_after: bool = False  # only for markup at the beginning of the text
    is_after_space: bool = False  # the adjacent space comes before the markup in the text

    def written(self, is_first: bool) -> str:
        """Returns the markup, together with the adjacent space if the source has one.

        The space follows the markup if `is_first` is true, and precedes the markup otherwise.
        """
        space = " " if self.space_before or (is_first and self.space_after) else ""
        return self.raw + space if is_first else space + self.raw


@dataclass
class Element:
    """A pair of tags and the content between them.

    The root element has no tags and contains the whole text.
    """

    open: str
    begin: int  # index in the source text
    end: int = 0
    close: str = ""
    children: list["Element | Point"] = field(default_factory=list)  # in the order of the text
    # half-open range of word indices in the translation; set by `place`
    words: tuple[int, int] = (0, 0)

    @property
    def elements(self) -> list["Element"]:
        """The children that contain words."""
        return [child for child in self.children if isinstance(child, Element)]


def place(root: Element, source: str, translation: str, links: Links) -> str:
    """Returns the translation with the tags of its source inserted.

    Args:
        root: the root element, which contains all elements and points of `source`.
        links: the word alignment of `source` and `translation`; see `nmt.decoding.alignment`.
    """
    return _Placing(root, source, translation, links).markup()


class _Text:
    """A text, and the character indices of its words and letters.

    Args:
        cuts: sorted character indices at which words are divided.
    """

    def __init__(self, text: str, cuts: Sequence[int] = ()):
        self.text = text
        found = [
            span for word in _WORD.finditer(text) for span in _parts(word.start(), word.end(), cuts)
        ]
        self.begins = [begin for begin, _ in found]
        self.ends = [end for _, end in found]
        self.letters = [letter.start() for letter in _LETTER.finditer(text)]

    def words(self, begin: int, end: int) -> range:
        """Returns the index range of the words that overlap with `text[begin:end]`."""
        return range(bisect_left(self.ends, begin + 1), bisect_left(self.begins, end))


def _parts(begin: int, end: int, cuts: Sequence[int]) -> list[_Span]:
    """Divides the range from `begin` to `end` at each of the sorted `cuts` inside it."""
    inside = cuts[bisect_right(cuts, begin) : bisect_left(cuts, end)]
    return list(pairwise([begin, *inside, end]))


def _boundaries(root: Element) -> list[int]:
    """Returns the sorted indices at which elements begin or end in the source."""
    found, waiting = set[int](), [root]
    while waiting:
        element = waiting.pop()
        found |= {element.begin, element.end}
        waiting += element.elements
    return sorted(found)


def _aligned(
    source: str, target: str, links: Links, cuts: Sequence[int]
) -> Iterator[tuple[_Span, _Span]]:
    """Yields aligned character ranges of the source and of the target.

    The ranges are words, or parts of words that are divided at the `cuts`. If a part is not found
    in the aligned target words, it is aligned with what remains of them.
    """
    words, target_words = _Text(source), _Text(target)
    linked: dict[int, list[_Span]] = {}
    for word, to in sorted(set(links)):
        span = target_words.begins[to], target_words.ends[to]
        linked.setdefault(word, []).append(span)
    for word, spans in linked.items():
        begin, end = words.begins[word], words.ends[word]
        parts = _parts(begin, end, cuts)
        parts = parts if len(parts) <= _MOST_PARTS else [(begin, end)]
        texts = [source[slice(*part)] for part in parts]
        found = [_literal(texts, target, *span) for span in spans]
        for i, part in enumerate(parts):
            literal = list(filter(None, (each[i] for each in found)))
            gaps = (_between(each, i, *span) for each, span in zip(found, spans, strict=True))
            for range_in_target in literal or gaps:
                yield part, range_in_target


def _literal(parts: list[str], text: str, begin: int, end: int) -> list[_Span | None]:
    """Finds the parts of a source word in a target word, which is `text[begin:end]`.

    Parts with letters count as found only if all parts are found, because a few letters may occur
    in any word.

    Returns:
        The character range of each part, or None for a part that is not found.
    """
    if len(parts) == 1:
        return [(begin, end)]
    found, at = list[_Span | None](), begin
    for i, part in enumerate(parts):
        forms = [form for form in (part, _MARKS.sub("", part)) if form]
        find = text.rfind if i and i == len(parts) - 1 else text.find  # the last part comes last
        places = [(find(form, at, end), len(form)) for form in forms]
        place, length = next((each for each in places if each[0] >= 0), (-1, 0))
        at = at if place < 0 else place + length
        found.append(None if place < 0 else (place, at))
    if None in found:
        found = [
            None if any(map(str.isalpha, part)) else span
            for part, span in zip(parts, found, strict=True)
        ]
    return found


def _between(found: list[_Span | None], i: int, begin: int, end: int) -> _Span:
    """Returns the part of a target word between the parts that were found before and after i.

    If nothing lies between them, returns the range of the whole word.

    Args:
        found: the ranges of the parts of a source word in the target word (see `_literal`), of
            which the range at index i is None.
        begin: the index at which the target word begins.
        end: the index at which the target word ends.
    """
    before = [span[1] for span in found[:i] if span]
    after = [span[0] for span in found[i + 1 :] if span]
    gap = before[-1] if before else begin, after[0] if after else end
    return gap if gap[0] < gap[1] else (begin, end)


class _Placing:
    def __init__(self, root: Element, source: str, translation: str, links: Links):
        aligned = list(_aligned(source, translation, links, _boundaries(root)))
        self.root = root
        self.source, self.target = (
            _Text(text, sorted({at for pair in aligned for at in pair[side]}))
            for side, text in enumerate((source, translation))
        )
        pairs = {
            (word, to)
            for part, span in aligned
            for word in self.source.words(*part)
            for to in self.target.words(*span)
        }
        self.linked: dict[int, list[int]] = {}  # source word -> aligned target words
        for word, to in sorted(pairs):
            self.linked.setdefault(word, []).append(to)
        self.n = len(self.target.begins)
        self.around: list[Element] = []  # elements around the whole translation
        # the children of each element that are not placed around the whole translation, by `id`
        self.children: dict[int, list[Element | Point]] = {}
        root.words = (0, self.n)
        parents = [(root, 0)]
        while parents:
            parent, depth = parents.pop()
            self._put_around(
                parent, self._give_words(parent) if depth < _DEEPEST else parent.elements
            )
            kept = self.children[id(parent)]
            parents += [(each, depth + 1) for each in kept if isinstance(each, Element)]

    def markup(self) -> str:
        opened = "".join(each.open for each in self.around)
        closed = "".join(each.close for each in reversed(self.around))
        return opened + "".join(self._written()) + closed

    def _give_words(self, parent: Element) -> list[Element]:
        """Divides the target words of `parent` among its child elements.

        Returns the child elements for which no target word is left.
        """
        begin, end = parent.words
        elements = parent.elements
        if len(elements) == 1 and self._words_of(elements[0]) == self._words_of(parent):
            elements[0].words = begin, end
            elements = elements if begin == end else []  # all words are assigned
        free = bytearray(b"\1" * (end - begin))
        runs: dict[range, list[range]] = {}  # shared by children in the same word
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
        unplaced = []
        for child in waiting:
            word = self._nearest(child, parent, free)
            if word is None:
                unplaced.append(child)
                continue
            free[word] = 0
            child.words = begin + word, begin + word + 1
        return unplaced

    def _words_of(self, element: Element) -> range:
        return self.source.words(element.begin, element.end)

    def _runs(self, words: range, free: bytearray, begin: int) -> list[range]:
        """Returns the ranges of unassigned target words that are aligned with `words`.

        The ranges are sorted by length, so that the longest range is last. Ranges of equal length
        are in reverse text order.

        Args:
            words: the indices of an element's source words.
            free: one byte per target word, which is 1 if the word is free and 0 otherwise.
            begin: the index of the target word that the first byte of `free` belongs to.
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
        """Returns the target words in range(begin, end) aligned with the source word `word`."""
        linked = self.linked.get(word, [])
        return linked[bisect_left(linked, begin) : bisect_left(linked, end)]

    def _nearest(self, child: Element, parent: Element, free: bytearray) -> int | None:
        """Returns the index of the free word nearest to the child's relative position in `parent`.

        Returns None if no word is free.
        """
        share = (child.begin + child.end - 2 * parent.begin) / 2 / max(parent.end - parent.begin, 1)
        wanted = min(int(share * len(free)), len(free) - 1)
        before, after = free.rfind(1, 0, max(wanted, 0) + 1), free.find(1, max(wanted, 0))
        found = [at for at in (before, after) if at >= 0]
        return min(found, key=lambda at: abs(at - wanted)) if found else None

    def _put_around(self, parent: Element, unplaced: list[Element]) -> None:
        """Places the `unplaced` elements and their descendants around the whole translation."""
        taken = {id(each) for each in unplaced}
        waiting, kept = parent.children[::-1], list[Element | Point]()
        while waiting:
            each = waiting.pop()
            if isinstance(each, Point) or id(each) not in taken:
                kept.append(each)
                continue
            self.around.append(each)
            taken.update(id(element) for element in each.elements)
            waiting += reversed(each.children)
        self.children[id(parent)] = kept

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
        """Returns a (begin, end, child) tuple for each child of `parent`, sorted by begin.

        `begin` and `end` are the indices of the characters at which the child begins and ends in
        the translation.
        """
        found: list[tuple[int, int, Element | Point]] = []
        first, after = self.source.words(parent.begin, parent.end).start, begin
        for child in self.children[id(parent)]:
            if isinstance(child, Point):
                before = self.source.words(parent.begin, child.at)
                for word in range(first, before.stop):
                    after = self._end_of_linked(word, parent) or after
                first = max(first, before.stop)
                at = min(max(self._place_of(child, parent, after, end), begin), end)
                at += child.is_after_space and self.target.text[at:end].startswith(" ")
                found.append((at, at, child))
            else:
                found.append((*self._characters(child), child))
        return sorted(found, key=lambda each: each[0])

    def _end_of_linked(self, word: int, parent: Element) -> int:
        """Returns the end of the last target word in `parent` that is aligned with `word`.

        Returns 0 if no target word in `parent` is aligned with the source word `word`.
        """
        inside = self._linked(word, *parent.words)
        return self.target.ends[inside[-1]] if inside else 0

    def _characters(self, element: Element) -> tuple[int, int]:
        """Returns the character range of an element's target words.

        If the source has punctuation directly before the element, the range excludes punctuation at
        the start of the target words. If the source has punctuation directly after the element, the
        range excludes punctuation at the end of the target words.
        """
        first, stop = element.words
        begin, end = self.target.begins[first], self.target.ends[stop - 1]
        word = self.target.text[begin : self.target.ends[first]]
        if self._touches(element.begin, before=True) and (found := _OPENING.search(word)):
            begin += found.end()
        if self._touches(element.end, before=False):
            end = max(self._before_punctuation(end), begin)
        return begin, end

    def _touches(self, at: int, *, before: bool) -> bool:
        """Returns whether index `at` of the source is a boundary between a word and punctuation.

        Args:
            before: whether to check for punctuation before the index instead of after it.
        """
        words = self.source.words(at - 1, at + 1)
        if not words:
            return False
        begin, end = self.source.begins[words[0 if before else -1]], self.source.ends[words[-1]]
        begin, end = (begin, at) if before else (at, end)
        return _PUNCTUATION.fullmatch(self.source.text, begin, end) is not None

    def _place_of(self, point: Point, parent: Element, after: int, end: int) -> int:
        """Returns the character index in the translation at which `point` is inserted.

        Args:
            after: the character index of the end of the last aligned word that precedes the point
                in the translation. If no word before the point is aligned, `after` is the index at
                which the parent element begins.
            end: the character index in the translation at which the parent element ends.
        """
        letters = self.source.letters
        if bisect_left(letters, point.at) == bisect_left(letters, parent.end):
            is_last = point.at >= parent.end or not self.source.words(point.at, parent.end)
            return end if is_last else self._before_punctuation(end)
        is_inside = self._touches(point.at, before=False)
        return self._before_punctuation(after) if is_inside else after

    def _before_punctuation(self, end: int) -> int:
        """Returns the index of the first closing punctuation mark directly before index `end`.

        Returns `end` if no closing punctuation directly precedes `end` in the translation.
        """
        if not self.n:
            return end
        word = bisect_left(self.target.ends, end)
        begin = self.target.begins[min(word, self.n - 1)]
        closing = _CLOSING.search(self.target.text[max(begin, end - 17) : end])
        return end - len(closing[0]) if closing else end
