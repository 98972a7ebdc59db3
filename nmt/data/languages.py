"""Language codes, and whether texts are in the languages they should be in.

No language is known here: two texts of one language share short words and endings, and so the
frequencies of their character trigrams, whatever they are about. That tells which of two texts a
third one is like. In 30 languages' messages of one program, 20 lines and more are 1.35 times as
like their own language as the other one of a pair or more, Portuguese and Spanish included.
"""

import locale
import re
from collections import Counter
from collections.abc import Iterable, Sequence

SAMPLE_LINES = 1000  # of a text; more tell little more
_ENOUGH_LINES = 10
_MARGIN = 1.25  # how much more like the wrong text than the right one before it counts
# What two texts of different languages have in common: 0.17 on the average, at most 0.6.
_LITTLE_IN_COMMON = 0.4

_WORD = re.compile(r"[^\W\d_]+")
# ISO 639-1; thousands of other languages have a code of three letters (ISO 639-3).
_CODES = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv
    cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr
    ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw
    ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv
    ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq
    sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh
    yi yo za zh zu
""".split()  # noqa: SIM905


def code_problem(tag: str) -> str | None:
    """What is wrong with a language code, if anything: german is no language code (de?).

    A region or script may follow: zh_CN, zh-Hant.
    """
    language = re.split("[-_]", tag.lower())[0]
    if language in _CODES or re.fullmatch("[a-z]{3}", language):
        return None
    guess = locale.normalize(language).partition("_")[0]  # german -> de_DE.ISO8859-1
    hint = f" ({guess}?)" if guess in _CODES and guess != language else " such as en or de"
    return f"{tag} is no language code{hint}"


def misplaced(corpora: Sequence[tuple[str, Sequence[str], Sequence[str]]]) -> list[str]:
    """The corpora whose sides are in other languages than those of the first, a line for each.

    Args:
        corpora: of each its name and some lines of source and target, at most SAMPLE_LINES.
    """
    (first, *sides), *others = corpora
    own, found = [profile(lines) for lines in sides], []
    for name, *texts in others:
        if min(len(texts[0]), len(sides[0])) < _ENOUGH_LINES:
            continue
        profiles = [profile(lines) for lines in texts]
        foreign = [_is_nearer(profiles[i], own[1 - i], own[i]) for i in (0, 1)]
        if all(foreign):
            found.append(f"source and target are swapped, {name} or {first}, correct the one")
        elif any(foreign):
            side, other = ("source", "target") if foreign[0] else ("target", "source")
            found.append(
                f"the {side} is in the language of the {other} of {first}, {name}, "
                "check its files or columns"
            )
    return found


def is_translated(
    translations: Sequence[str], references: Sequence[str], sources: Sequence[str] | None
) -> bool:
    """Whether translations seem to be in the references' language, rather than the sources'."""
    if len(translations) < _ENOUGH_LINES:
        return True
    theirs, wanted = profile(translations), profile(references)
    if sources is None:
        return _likeness(theirs, wanted) >= _LITTLE_IN_COMMON
    return not _is_nearer(theirs, profile(sources), wanted)


def profile(lines: Iterable[str]) -> dict[str, float]:
    """The share of each character trigram among those of all words, their ends marked."""
    counts: Counter[str] = Counter()
    for line in lines:
        for word in _WORD.findall(line.casefold()):
            marked = f" {word} "
            counts.update(marked[i : i + 3] for i in range(len(marked) - 2))
    total = counts.total()
    return {trigram: count / total for trigram, count in counts.items()}


def _likeness(one: dict[str, float], other: dict[str, float]) -> float:
    """What two profiles have in common, from 0 to 1."""
    return sum(min(share, other.get(trigram, 0.0)) for trigram, share in one.items())


def _is_nearer(text: dict[str, float], wrong: dict[str, float], right: dict[str, float]) -> bool:
    return _likeness(text, wrong) > _MARGIN * _likeness(text, right)
