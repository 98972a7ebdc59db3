"""No tag is lost, and elements stay well nested, if a translator reorders words."""

import html
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import load
from nmt.decoding.translation import EMPTY, Translation
from nmt.documents import markup_tokens
from nmt.documents.documents import Document, translate_documents
from nmt.documents.markup import Markup, translate_markup
from nmt.documents.tags import Element, Point, place
from nmt.translator import Translator
from tests.fixtures.make import TRAINED
from tests.manual import ROOT


class Tags:
    """The one method of the tokenizer that is needed, with the symbol <2de>."""

    def split_tag(self, text):
        tag = re.match("(<2de> ?)*", text)[0]
        return tag, text[len(tag) :]


@dataclass
class Turned:
    """Translates to upper case and reorders words by `order`."""

    order: object = staticmethod(lambda n: range(n))
    linked: object = staticmethod(lambda word: True)  # whether a word has links
    tokenizer = Tags()
    config = load(ROOT / "configs" / "demo.yaml")

    def n_best(self, sentences, options=None, *, prefix="", progress=None):
        self.seen = list(sentences)
        return [[self._one(sentence)] for sentence in sentences]

    def _one(self, sentence):
        tag, text = self.tokenizer.split_tag(sentence)
        words = text.split()
        if not words:
            return EMPTY
        order = list(self.order(len(words)))
        links = [(o + len(tag.split()), n) for n, o in enumerate(order) if self.linked(words[o])]
        return Translation(" ".join(words[o].upper() for o in order), -1.0, -1.0, [2], 1, links)


def marked_up(text, form="html", **translator):
    return translate_markup(Turned(**translator), [text], form=form)[0]


def backwards(n):
    return reversed(range(n))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>one <b>two three</b>.</p>", "<p>ONE <b>TWO THREE</b>.</p>"),
        ('a <a href="x?a=1&amp;b">b</a>, c', 'A <a href="x?a=1&amp;b">B</a>, C'),
        ("one <img src=x> two", "ONE <img src=x> TWO"),
        ("Run <code>ls -l</code>.", "RUN <code>ls -l</code>."),
        ("<code>ls</code> runs", "<code>ls</code> RUNS"),
        ("one<!-- c --> two", "ONE<!-- c --> TWO"),
        ("one <!-- c --> two", "ONE <!-- c --> TWO"),
        ("one <!--c-->two<!--d--><!--e--> three", "ONE <!--c-->TWO<!--d--><!--e--> THREE"),
        ("one <!--c--> <!--d--><!--e-->two", "ONE <!--c--> <!--d--><!--e-->TWO"),
        ("one <!--c--><b>two <!--d--></b> three", "ONE <!--c--><b>TWO <!--d--></b> THREE"),
        ("one <!--c--><img> two", "ONE <!--c--><img> TWO"),
        ("one <b><!--c-->two</b>", "ONE <b><!--c-->TWO</b>"),
        ("  <i class=icon></i> one ", "  <i class=icon></i> ONE "),
        ("<b> one </b>two", "<b>ONE</b> TWO"),
        ("one &amp; two &lt;b&gt; &eacute;", "ONE &amp; TWO &lt;B&gt; É"),
        ("<b>one<br>two</b> three", "<b>ONE<br>TWO</b> THREE"),
        ("<ul><li>one<li>two</ul>", "<ul><li>ONE<li>TWO</ul>"),
        ("<script>if (a<b) x = '<p>'</script>one", "<script>if (a<b) x = '<p>'</script>ONE"),
        ('one <q translate="no">two <b>x</b></q>', 'ONE <q translate="no">two <b>x</b></q>'),
        ('<p class="a notranslate">one</p>two', '<p class="a notranslate">one</p>TWO'),
        ("<!DOCTYPE html>\n<title>one</title>", "<!DOCTYPE html>\n<title>ONE</title>"),
        ("un<b>happ</b>y", "<b>UNHAPPY</b>"),
        ("(<b>one</b>) two", "(<b>ONE</b>) TWO"),
        ("one<sup>[1]</sup><sup><a>[2]</a></sup> two",
         "ONE<sup>[1]</sup><sup><a>[2]</a></sup> TWO"),
        ("<b>one</b><sup>2</sup>, <i>m<sup>2</sup></i>.",
         "<b>ONE</b><sup>2</sup>, <i>M<sup>2</sup></i>."),
        ("H<sub>2</sub>O, C<sub>12</sub>", "H<sub>2</sub>O, C<sub>12</sub>"),
        ("one <img>(two) <code>x</code>(three)", "ONE <img> (TWO) <code>x</code> (THREE)"),
        ("<ul><li translate=no>one<ul><li>x</ul><li>two</ul>three",
         "<ul><li translate=no>one<ul><li>x</ul><li>TWO</ul>THREE"),
        ("<table><tr><td translate=no>one<tr><td>two<td class=notranslate>x</table>three",
         "<table><tr><td translate=no>one<tr><td>TWO<td class=notranslate>x</table>THREE"),
        ("<p translate=no>one<p>two", "<p translate=no>one<p>TWO"),
        ("<ul><li translate=no><p>one<li>two</ul>", "<ul><li translate=no><p>one<li>TWO</ul>"),
        ("<p translate=no>one<hr>two", "<p translate=no>one<hr>TWO"),
        ("<table><tr translate=no><td>one<tr><td>two</table>",
         "<table><tr translate=no><td>one<tr><td>TWO</table>"),
        ("<div translate=no><b>one<div></b></div>x</div>two",
         "<div translate=no><b>one<div></b></div>x</div>TWO"),
        ("<p translate=no>x<b><i></b></i>y<p>z", "<p translate=no>x<b><i></b></i>y<p>Z"),
        ("one </b> two", "ONE </b> TWO"),
        ("<p>one < two</p>", "<p>ONE &lt; TWO</p>"),
        ("one\n\ntwo\n", "ONE\n\nTWO\n"),
        ("", ""), (" \n", " \n"), ("<br>", "<br>"),
        ("one <![foo[x]]> two", "ONE <![foo[x]]> TWO"),
        ("<![if IE]>one<![endif]>", "<![if IE]>ONE<![endif]>"),
        ("<!--> one <!---> two <!-- x --!> three", "<!--> ONE <!---> TWO <!-- x --!> THREE"),
        ("<?php x ?> one", "<?php x ?> ONE"),
        ("<? a > one", "<? a > ONE"),
        ('<a href=x/>one</a> <a t=" > ">two</a>', '<a href=x/>ONE</a> <a t=" > ">TWO</a>'),
        ("<TEXTAREA>one <b></TEXTAREA >two", "<TEXTAREA>one <b></TEXTAREA >TWO"),
        ("one </> two </ b> three", "ONE </> TWO </ b> THREE"),
        ("1 < 2 <3", "1 &lt; 2 &lt;3"),
        (f"one &#{'9' * 5000};", "ONE \ufffd"),
    ],
)  # fmt: skip
def test_what_is_kept_and_what_is_translated(source: str, expected: str):
    assert marked_up(source) == expected


def script_ends(text: str) -> int:
    """Returns the offset of a script's end tag, by the HTML standard's state machine."""
    state, at = "script data", 0
    while at < len(text):
        tag = re.compile("<(/?)script[ />]", re.IGNORECASE).match(text, at)
        if text.startswith("<!--", at) and state == "script data":
            state, at = "escaped", at + 4
            while text.startswith("-", at):
                at += 1
            if text.startswith(">", at):
                state, at = "script data", at + 1
        elif text.startswith("-->", at):
            state, at = "script data", at + 3
        elif tag and tag[1] and state != "double escaped":
            return at
        elif tag and state != "script data":
            state, at = "escaped" if tag[1] else "double escaped", tag.end()
        else:
            at += 1
    return at


PARTS = [
    "<!--",
    "-->",
    "<script>",
    "</script>",
    "</SCRIPT >",
    "<script/",
    "<scripts>",
    "-",
    "<",
    "x",
]


@given(st.lists(st.sampled_from(PARTS), max_size=9))
def test_a_script_ends_where_browsers_end_it(parts: list[str]):
    text = f"{''.join(parts)}</p>"
    end = script_ends(text)
    tag = re.compile("</script ?>|$", re.IGNORECASE).match(text, end)[0]
    assert markup_tokens.tokens_of(f"<script>{text}", False)[0].raw == f"<script>{text[:end]}{tag}"


def test_a_script_in_a_comment_in_a_script_is_not_translated():
    kept = "<script><!-- document.write('<script>one</script>two') --></script>"
    assert marked_up(f"{kept}three") == f"{kept}THREE"


@pytest.mark.parametrize("form", ["html", "xml"])
@pytest.mark.parametrize("rest", [
    "</p", '<a href="x', "<a href=", "<!-- x", "<!-", "<![CDATA[x", "<![ x", "<!DOCTYPE html [x",
    "<?x", "</", "<a", "<a b='c' ", "<!-- <b>x</b>", "<![CDATA[ <b>x</b>",
])  # fmt: skip
def test_markup_that_is_cut_off_is_kept(rest: str, form: str):
    assert marked_up(f"<p>one {rest}", form) == f"<p>ONE {rest}"


def test_tags_follow_their_words():
    assert marked_up("one <b>two</b> three", order=backwards) == "THREE <b>TWO</b> ONE"
    assert marked_up("<b>one</b> two <i>three</i>", order=backwards) == (
        "<i>THREE</i> TWO <b>ONE</b>"
    )
    nested = marked_up("<a>one <b>two</b></a> three <img> four", order=backwards)
    assert nested == "FOUR THREE <img> <a><b>TWO</b> ONE</a>"
    # tags of a word without links go to the nearest free word
    unlinked = marked_up("one <b>two</b> three", linked=lambda word: word != "two")
    assert unlinked == "ONE <b>TWO</b> THREE"
    # two elements never share a word
    assert marked_up("<b>un</b><i>happy</i> man") == "<b>UNHAPPY</b> <i>MAN</i>"
    # tags stay in their sentences
    found = marked_up("<b>One</b> man. <i>Two</i> men.", order=backwards)
    assert found == "MAN. <b>ONE</b> MEN. <i>TWO</i>"


def test_where_no_word_is_left_tags_go_around_the_whole():
    found = marked_up("<b>one</b> <i>two</i>", order=lambda n: [0])
    assert found == "<i><b>ONE</b></i>"
    assert marked_up("<b>one</b> <img>", order=lambda n: []) == "<b></b> <img>"


def test_each_of_several_translations_has_all_tags():
    markup = Markup("<b>one</b> <i>two</i>", Tags(), "en")
    short, long = Turned(lambda n: [0]), Turned()
    written = [markup.written([each._one("one two")]) for each in (short, long, short)]
    assert written == ["<i><b>ONE</b></i>", "<b>ONE</b> <i>TWO</i>", "<i><b>ONE</b></i>"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('<?xml version="1.0"?>\n<doc>\n <p>one <b>two</b></p>\n <p>three</p>\n</doc>',
         '<?xml version="1.0"?>\n<doc>\n <p>ONE <b>TWO</b></p>\n <p>THREE</p>\n</doc>'),
        ("<D><Title/>one &own; two</D>", "<D><Title/>ONE &own; TWO</D>"),
        ("<d><![CDATA[ <b> one ]]></d>", "<d><![CDATA[ <b> one ]]></d>"),
        ("<script>one</script>", "<script>one</script>"),
        ("<d><title>one</title><style2>two <br/> x</style2></d>",
         "<d><title>ONE</title><style2>TWO <br/> X</style2></d>"),
        ("one <x>two</x>", "ONE <x>TWO</x>"),
        ("<r><_p>one</_p><é>two</é><:q>three</:q></r>",
         "<r><_p>ONE</_p><é>TWO</é><:q>THREE</:q></r>"),
        ('<!DOCTYPE d "]>" [\n<!ENTITY co "x]>">\n<!--\' ]>--><?p "]>?>%e;] >\n<d>one &co;</d>',
         '<!DOCTYPE d "]>" [\n<!ENTITY co "x]>">\n<!--\' ]>--><?p "]>?>%e;] >\n<d>ONE &co;</d>'),
        ("<!DOCTYPE d><d>one</d>", "<!DOCTYPE d><d>ONE</d>"),
        ("<d><?p a > b ?>one</d>", "<d><?p a > b ?>ONE</d>"),
        ('<p translate="no">one<p>x</p>y</p>', '<p translate="no">one<p>x</p>y</p>'),
        ("<a><A>one</A></a>", "<a><A>ONE</A></a>"),
        ("<d>one&apos;s</d>", "<d>ONE'S</d>"),
        ("<!-->one-->two", "<!-->one-->TWO"),
        ("one <![ x ]]> two", "ONE <![ x ]]> TWO"),
    ],
)  # fmt: skip
def test_xml(source: str, expected: str):
    assert marked_up(source, "xml") == expected


def test_each_sentence_has_the_tag_of_the_language():
    translator = Turned()
    [found] = translate_markup(translator, ["&lt;2de&gt; <p>One. <b>Two</b>.</p><p>Three</p>"])
    assert translator.seen == ["<2de> One.", "<2de> Two.", "<2de> Three"]
    assert found.endswith("<p>ONE. <b>TWO</b>.</p><p>THREE</p>")
    [found] = translate_documents(translator, ["<2de> One. Two.\nThree."])
    assert translator.seen == ["<2de> One.", "<2de> Two.", "<2de> Three."]
    assert found[0].text == "ONE. TWO.\nTHREE."
    assert found[0].alignment == [(1, 0), (2, 1), (3, 2)]  # the tag counts once


WORDS = st.lists(st.sampled_from(["one", "two", "Three.", "four,", "&amp;", "x"]), max_size=4)


def _element(children):
    return st.tuples(
        st.sampled_from(["b", "i", "a", "p", "div", "li", "span"]), st.lists(children, max_size=4)
    ).map(lambda each: f"<{each[0]} id=I>" + "".join(each[1]) + f"</{each[0]}>")


PIECES = st.one_of(
    WORDS.map(lambda words: " ".join(words) + " "),
    st.sampled_from(["<br>", "<img src=I>", "<!--I-->", "<code id=I>c <b>d</b></code>", " "]),
)
DOCUMENTS = st.lists(st.recursive(PIECES, _element, max_leaves=8), max_size=4).map("".join)


def numbered(text: str) -> str:
    """Numbers the tags that can have an attribute."""
    parts = text.split("I")
    return "".join(f"{part}{n}" for n, part in enumerate(parts[:-1])) + parts[-1]


def tags(text: str) -> list[str]:
    return re.findall(r"<!--.*?-->|<code.*?</code>|<[^>]*>", text)


def assert_well_nested(text: str) -> None:
    opened = []
    for tag in tags(text):
        name = re.match(r"</?(\w*)", tag)[1]
        if tag.startswith("</"):
            assert opened.pop() == name, text
        elif name not in ("br", "img", "", "code"):
            opened.append(name)
    assert not opened


@given(DOCUMENTS, st.randoms(use_true_random=False), st.sampled_from(["html", "xml"]))
def test_every_tag_comes_once_and_is_well_nested(text: str, random, form: str):
    text = numbered(text).replace("<br>", "<br/>") if form == "xml" else numbered(text)
    text = re.sub(r"(<img [^>]*)>", r"\1/>", text) if form == "xml" else text
    found = marked_up(
        text, form,
        order=lambda n: [random.randrange(n) for _ in range(random.randrange(2 * n))],
        linked=lambda word: random.random() < 0.7,
    )  # fmt: skip
    assert sorted(tags(found)) == sorted(tags(text))
    assert_well_nested(found)


JUNK = st.sampled_from([*"<>/!-ab &;\"'=\n[]?x.", "&lt;", "&amp;"])


@given(st.lists(JUNK, max_size=40).map("".join), st.sampled_from(["html", "xml"]))
def test_whatever_is_no_tag_does_no_harm(text: str, form: str):
    """Text never becomes markup, and a second translation keeps all characters. A tag inside a word
    moves to the word's end, from which it may move to the end of the next word.
    """
    first = marked_up(text, form)
    assert first.count("<") <= text.count("<")
    again = marked_up(first, form)
    assert sorted("".join(again.split())) == sorted("".join(first.split()))


@pytest.mark.parametrize("form", ["html", "xml"])
@pytest.mark.parametrize("text", [
    "<b>" * 2000 + "x" + "</b>" * 2000, "<b><i>" * 1000 + "x</b>" * 1000, "<i></i>" * 2000,
    "a <b>b</b> " * 1000, "<pre>" * 3000, "<b>a " * 2000 + "</b>" * 2000,
    "<b><i>a</b></i> " * 1000, "<i>.</i>" * 2000, "<a b='c'>" * 2000,
])  # fmt: skip
def test_deep_and_long_markup_keeps_its_tags(text: str, form: str):
    found = marked_up(text, form)
    assert sorted(re.findall("<[^>]*>", found)) == sorted(re.findall("<[^>]*>", text))


@pytest.mark.parametrize("text", [
    '<a b="', "<a b='x>", "<", "</", "<?", "<!--", "<![CDATA[", "<!DOCTYPE d [<!--", "<a ",
    "<script>", "<pre>", "&a",
])  # fmt: skip
@pytest.mark.parametrize("form", ["html", "xml"])
def test_hostile_markup_ends(text: str, form: str):
    """A scanner with quadratic running time would need minutes."""
    text *= 100_000 // len(text)
    assert html.unescape(marked_up(text, form)).upper() == text.upper()


def steps_of(work) -> int:
    """Returns the number of lines of Python that a call executes."""
    count = 0

    def step(frame, event, argument):
        nonlocal count
        count += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("unit", ["<i>.</i>", "_.<img/>", "a <img/> ", "<b>a "])
@pytest.mark.parametrize("linked", [True, False])
def test_tags_are_placed_in_steps_as_many_as_there_are_tags(unit: str, linked: bool):
    def steps(times: int) -> int:
        text = unit * times + "_" + "</b>" * times * (unit == "<b>a ")
        return steps_of(lambda: marked_up(text, linked=lambda word: linked))

    assert steps(800) < 3 * steps(400)


def test_tags_in_one_long_word_too():
    """A Chinese text counts as one long word, linked to each word of its translation."""

    def steps(times: int) -> int:
        root = Element("", 0, times)
        for at in range(times):
            root.children.append(child := Element("<b>", at, at + 1, "</b>"))
            child.children += [Element("<i>", at, at + 1, "</i>"), Point("<img/>", at)]
        links = [(0, word) for word in range(times)]
        return steps_of(lambda: place(root, "a" * times, "b " * times, links))

    assert steps(800) < 3 * steps(400)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(TRAINED / "run", device="cpu")


def test_text_without_tags_is_translated_as_without_markup(translator: Translator):
    sentences = Path(TRAINED / "test.en").read_text().splitlines()[:3]
    plain = [each.text for each in translator.translate(sentences)]
    found = translate_markup(translator, [html.escape("\n".join(sentences), quote=False)])
    assert html.unescape(found[0]).split("\n") == plain
    [inside] = translate_markup(translator, [f"<p>{sentences[0]}</p>"])
    assert html.unescape(inside) == f"<p>{plain[0]}</p>"


def test_a_document_keeps_its_paragraphs(translator: Translator):
    first, second = translator.translate(["The baker sells bread.", "The sailor reads a map."])
    text = "The baker sells bread. The sailor reads a map.\n\n  The sailor reads a map.\n"
    found = translator.translate(text, document=True, align=True)
    assert found.text == f"{first.text} {second.text}\n\n  {second.text}\n"
    assert found.log_probability == pytest.approx(
        first.log_probability + 2 * second.log_probability, abs=1e-4
    )
    words = len(found.text.split())
    assert {target for _, target in found.alignment} == set(range(words))
    assert max(source for source, _ in found.alignment) < len(text.split())
    assert [each.text for each in translator.translate(["", text], document=True)] == [
        "",
        found.text,
    ]


def repeated_possessively(parsed: Iterable[Any]) -> Iterator[list[str]]:
    """Yields the item types inside each possessive repeat of a parsed pattern."""
    for part in parsed:
        if isinstance(part, tuple) and str(part[0]) == "POSSESSIVE_REPEAT":
            yield [str(kind) for kind, _ in part[1][2]]
        if isinstance(part, list | tuple | re._parser.SubPattern):
            yield from repeated_possessively(part)


@pytest.mark.parametrize("pattern", [*markup_tokens._PATTERNS.values(), markup_tokens._ATTRIBUTES])
def test_a_group_that_is_repeated_possessively_is_atomic(pattern):
    """Python before 3.11.5 mishandles possessive repeats of any other kind of group."""
    found = list(repeated_possessively(re._parser.parse(pattern.pattern, re.DOTALL)))
    single = ["IN"], ["NOT_LITERAL"], ["LITERAL"], ["ATOMIC_GROUP"]
    assert found and not [kinds for kinds in found if kinds not in single]


@pytest.mark.parametrize(
    ("source", "words", "expected"),
    [
        ("in <a>America</a>.", "in U.S.A.", "in <a>U.S.A</a>."),
        ("<b>thousand</b>, two", "1,000, zwei", "<b>1,000</b>, zwei"),
        ("cost 10,000<sup>1</sup> here", "kostet 10.0001 hier", "kostet 10.000<sup>1</sup> hier"),
        ("in 2010<sup>1</sup>, ok", "in 2010, ok", "in <sup>2010,</sup> ok"),
        ("the 19<sup>th</sup> man", "der 19. Mann", "der 19<sup>.</sup> Mann"),
    ],
)
def test_parts_of_words_are_found_in_words_of_another_form(source: str, words: str, expected: str):
    class Fixed(Turned):
        def _one(self, sentence):
            links = [(n, n) for n in range(len(words.split()))]
            return Translation(words, -1.0, -1.0, [2], 1, links)

    assert translate_markup(Fixed(), [source])[0] == expected


@pytest.mark.parametrize("begin", ["", "  ", "\n", "\ufeff", "\ufeff  "])
def test_the_tag_of_a_document_may_follow_white_space(begin: str):
    text = f"{begin}<2de> One.\nTwo."
    found = Document(text, Tags(), "en").sentences
    assert [each for each in found if each] == ["<2de> One.", "<2de> Two."]
