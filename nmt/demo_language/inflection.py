"""Computes regular inflected forms in both languages. The lexicon contains irregular forms."""

import re


def english_plural(noun: str) -> str:
    """Returns the plural of an English noun, such as "boxes", "ladies" or "dogs"."""
    return _with_s(noun, hissing=r"(s|x|z|ch|sh)$")


def english_third(verb: str) -> str:
    """Returns the third person singular present of an English verb, such as "buys" or "goes"."""
    return _with_s(verb, hissing=r"(s|x|z|ch|sh|o)$")


def _with_s(word: str, hissing: str) -> str:
    if re.search(hissing, word):
        return word + "es"
    return word[:-1] + "ies" if re.search(r"[^aeiou]y$", word) else word + "s"


def english_gerund(verb: str) -> str:
    """Returns the gerund of an English verb, such as "buying" or "dancing"."""
    return (verb[:-1] if re.search(r"[^e]e$", verb) else verb) + "ing"


def english_past(verb: str) -> str:
    """Returns the past tense of a regular English verb, which is also the past participle."""
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else verb + "ed"


def weak_form(noun: str) -> str:
    """Returns the oblique singular form of a weak masculine noun, such as "Jungen"."""
    return noun + ("n" if re.search(r"(e|er|ar)$", noun) else "en")


def german_genitive(noun: str, gender: str, *, weak: bool) -> str:
    """Returns the genitive singular of a German noun, such as "Hundes", "Katze" or "Löwen".

    Args:
        gender: German gender of the noun ("m", "f" or "n").
        weak: whether the noun is a weak masculine noun.
    """
    if gender == "f":
        return noun
    if weak:
        return weak_form(noun)
    if noun.endswith("nis"):
        return noun + "ses"
    if re.search(r"(s|ß|x|z|sch)$", noun):
        return noun + "es"
    one_syllable = len(re.findall(r"[aeiouäöüy]+", noun.lower())) == 1
    return noun + ("es" if one_syllable and re.search(r"(ch|[^aeiouh])$", noun) else "s")


def german_third(verb: str) -> str:
    """Returns the third person singular present of a German verb, such as "kauft"."""
    return _stem(verb) + ("et" if _needs_e(verb) else "t")


def german_preterite(verb: str) -> str:
    """Returns the singular preterite of a German verb, such as "kaufte"."""
    return german_third(verb) + "e"


def german_participle(verb: str) -> str:
    """Returns the past participle of a German verb, such as "gekauft" or "repariert"."""
    without_ge = verb.endswith("ieren") or re.match(r"(be|emp|ent|er|ver|zer)", verb)
    return ("" if without_ge else "ge") + german_third(verb)


def _stem(verb: str) -> str:
    return verb[:-2] if verb.endswith("en") else verb[:-1]


def _needs_e(verb: str) -> bool:
    """Returns whether the endings -t and -te require an e, as in "arbeitet"."""
    return bool(re.search(r"[td]$|[^lrhmnaeiouäöü][mn]$", _stem(verb)))
