"""Checks whether language codes are valid and whether texts are in the expected languages.

Some languages are recognized by their most frequent words. Texts in any language can be compared by
the frequencies of their character trigrams, which depend more on the language than on the topic.
The trigram comparison was tested on one program's messages in 30 languages, including languages as
similar as Portuguese and Spanish. Every sample of at least 20 lines was at least 1.35 times as
similar to text in its own language as to text in any other language.
"""

import locale
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_ENOUGH_LINES = 10
# A text counts as misplaced if it is more than this many times as similar to text in the wrong
# language as to text in the right language.
_MARGIN = 1.25
# Texts in different languages have a similarity of 0.17 on average and of at most 0.6.
_LITTLE_IN_COMMON = 0.4

_WORDS = {  # frequent words of each language that are rare in other languages
    code: words.split()
    for code, words in {
        "cs": "se na je že jsem ale jako tak jsou pro který podle",
        "da": "og det er ikke jeg af til på som en at for",
        "de": "der die das und nicht ist den dem ein eine ich zu mit im",
        "en": "the of and to that is was with you are this have for it",
        "es": "el los las del que una por con es para se lo y",
        "fi": "ja on ei että se hän oli mutta kun ovat niin myös",
        "fr": "le les des et est une dans que vous pas du pour",
        "hu": "az és hogy nem egy is van meg ez volt csak",
        "it": "il che di è non per una della sono gli con si",
        "nl": "het een van en dat niet zijn ik voor met op",
        "pl": "nie się na jest że to jak do po jego co dla",
        "pt": "não uma os do da em com para que um mais ao",
        "ro": "și nu în că este să pe mai din cu care",
        "ru": "что это как его из был она мы для или все",
        "sv": "och att det som är inte jag på för av den",
        "tr": "bir ve bu için de ne çok ama gibi daha var",
    }.items()
}
_KNOWN_SHARE = 0.08  # minimum share of all words; 0.13 to 0.27 in English and German texts
_WORD = re.compile(r"[^\W\d_]+")
Sample = tuple[str, Sequence[str], Sequence[str]]  # a corpus's name, source lines, target lines

# The codes of ISO 639-1. Thousands of other languages have three-letter codes (ISO 639-3).
_CODES = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv
    cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr
    ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw
    ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv
    ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq
    sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh
    yi yo za zh zu
""".split()  # noqa: SIM905


def language_of(tag: str) -> str:
    """Removes the region and script from a language tag, so that zh_CN and zh-Hant become zh."""
    return re.split("[-_]", tag.lower())[0]


def code_problem(tag: str) -> str | None:
    """Returns a message with a remedy if a language code is not valid, otherwise None.

    A valid code may include a region or a script, as in zh_CN and zh-Hant.
    """
    language = language_of(tag)
    if language in _CODES or re.fullmatch("[a-z]{3}", language):
        return None
    guess = locale.normalize(language).partition("_")[0]  # german -> de_DE.ISO8859-1
    is_near = guess in _CODES and guess != language
    remedy = f"Did you mean {guess}?" if is_near else "Use a code such as en or de."
    return f"{tag} is not an ISO 639 language code. {remedy}"


def misplaced(corpora: Sequence[Sample], source: str, target: str) -> list[str]:
    """Returns a warning for each corpus that does not seem to be in the expected languages.

    The corpora are first checked for the frequent words in `_WORDS`. The first corpus that passes
    this word check is the reference, with which every later corpus that passes the word check is
    compared by trigrams. The trigrams also reveal problems in languages that are not in `_WORDS`.

    Args:
        corpora: the name, the source lines and the target lines of each corpus.
        source: code of the expected source language.
        target: code of the expected target language.
    """
    judged = [corpus for corpus in corpora if min(map(len, corpus[1:])) >= _ENOUGH_LINES]
    problems = [_mistaken(corpus, (source, target)) for corpus in judged]
    others = [corpus for corpus, problem in zip(judged, problems, strict=True) if not problem]
    return [*filter(None, problems), *_unlike_the_first(others, source, target)]


def _mistaken(corpus: Sample, codes: tuple[str, str]) -> str | None:
    """Returns a warning if a corpus's frequent words suggest another language, otherwise None."""
    name, *sides = corpus
    recognized = [_known_language(lines) for lines in sides]
    wanted = [language_of(code) for code in codes]
    if (
        wanted[0] != wanted[1]
        and any(recognized)
        and all(recognized[i] in (None, wanted[1 - i]) for i in (0, 1))
    ):
        return _swapped(name, *codes)
    for i, side in enumerate(("source", "target")):
        # A language that is not in _WORDS may be mistaken for one that is, such as Norwegian for
        # Danish.
        if recognized[i] not in (None, wanted[i]) and wanted[i] in _WORDS:
            return (
                f"The {side} of {name} looks like {recognized[i]}, not {codes[i]}. "
                f"Check its files or columns, or data.{side}_language."
            )
    return None


def _swapped(name: str, source: str, target: str) -> str:
    return (
        f"The source and target of {name} look swapped. Exchange its files or columns, or "
        f"data.source_language ({source}) and data.target_language ({target})."
    )


def _known_language(lines: Iterable[str]) -> str | None:
    """Returns the language whose frequent words dominate a text, or None if no language does."""
    words = Counter(word for line in lines for word in _WORD.findall(line.casefold()))
    shares = sorted(
        (sum(words[word] for word in known) / max(1, words.total()), code)
        for code, known in _WORDS.items()
    )
    (second, _), (most, code) = shares[-2:]
    return code if most >= max(_KNOWN_SHARE, 2 * second) else None


def wrong_languages(*texts: tuple[str, Sequence[str], str]) -> str | None:
    """Returns a warning if files do not seem to be in the expected languages, otherwise None.

    Args:
        texts: the name, the lines and the expected language code of each file. Only the languages
            in `_WORDS` are recognized.
    """
    wanted = [language_of(code) for _, _, code in texts]
    found = [
        _known_language(lines) if len(lines) >= _ENOUGH_LINES else None for _, lines, _ in texts
    ]
    wrong = [
        f"{name} looks like {language}, not {code}"
        for (name, _, _), language, code in zip(texts, found, wanted, strict=True)
        if language not in (None, code) and code in _WORDS
    ]
    if not wrong:
        return None
    are_swapped = len(wrong) == 2 and found == wanted[::-1]
    remedy = "Exchange the two files." if are_swapped else "Check the files."
    return f"{', and '.join(wrong)}. {remedy}"


def _unlike_the_first(corpora: Sequence[Sample], source: str, target: str) -> list[str]:
    """Returns a warning for each corpus whose sides seem to be swapped or in the wrong language.

    A side of a corpus is assumed to be in the wrong language if it is clearly more similar to the
    opposite side of the first corpus than to the same side of the first corpus.
    """
    profiles = [(name, [profile(side) for side in sides]) for name, *sides in corpora]
    found = []
    for name, texts in profiles[1:]:
        first, own = profiles[0]
        foreign = [_is_nearer(texts[i], own[1 - i], own[i]) for i in (0, 1)]
        if all(foreign):
            found.append(_swapped(f"{name} or {first}", source, target))
        elif any(foreign):
            sides = [("source", source), ("target", target)]
            (side, code), (other, wrong) = sides if foreign[0] else sides[::-1]
            found.append(
                f"The {side} of {name} looks like {wrong}, not {code}, because it is similar to "
                f"the {other} of {first}. Check its files or columns."
            )
    return found


def is_translated(
    translations: Sequence[str], references: Sequence[str], sources: Sequence[str] | None
) -> bool:
    """Returns whether the translations seem to be in the language of the references."""
    if len(translations) < _ENOUGH_LINES:
        return True
    theirs, wanted = profile(translations), profile(references)
    if sources is None:
        return _likeness(theirs, wanted) >= _LITTLE_IN_COMMON
    return not _is_nearer(theirs, profile(sources), wanted)


def profile(lines: Iterable[str]) -> dict[str, float]:
    """Returns the relative frequency of each character trigram in a text.

    Each word is split into trigrams separately, after a space has been added at both of its ends.
    """
    counts: Counter[str] = Counter()
    for line in lines:
        for word in _WORD.findall(line.casefold()):
            marked = f" {word} "
            counts.update(marked[i : i + 3] for i in range(len(marked) - 2))
    total = counts.total()
    return {trigram: count / total for trigram, count in counts.items()}


def _likeness(one: dict[str, float], other: dict[str, float]) -> float:
    """Returns the similarity of two texts, from 0 to 1, given their trigram frequencies."""
    return sum(min(share, other.get(trigram, 0.0)) for trigram, share in one.items())


def _is_nearer(text: dict[str, float], wrong: dict[str, float], right: dict[str, float]) -> bool:
    return _likeness(text, wrong) > _MARGIN * _likeness(text, right)
