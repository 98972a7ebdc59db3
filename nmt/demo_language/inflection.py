"""Regular inflection in both languages; the tables of the lexicon contain the irregular forms."""

import re


def english_plural(noun: str) -> str:
    """Returns the regular English plural: boxes, ladies, dogs."""
    return _with_s(noun, hissing=r"(s|x|z|ch|sh)$")


def english_third(verb: str) -> str:
    """Returns the third person singular present: buys, goes, carries."""
    return _with_s(verb, hissing=r"(s|x|z|ch|sh|o)$")


def _with_s(word: str, hissing: str) -> str:
    if re.search(hissing, word):
        return word + "es"
    return word[:-1] + "ies" if re.search(r"[^aeiou]y$", word) else word + "s"


def english_gerund(verb: str) -> str:
    """Returns the gerund: buying, dancing, seeing."""
    return (verb[:-1] if re.search(r"[^e]e$", verb) else verb) + "ing"


def english_past(verb: str) -> str:
    """Returns the past and the participle, which are equal for a regular verb: danced, carried."""
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else verb + "ed"


def weak_form(noun: str) -> str:
    """Returns the form of a weak masculine in all cases but the nominative: Jungen, Studenten."""
    return noun + ("n" if re.search(r"(e|er|ar)$", noun) else "en")


def german_genitive(noun: str, gender: str, *, weak: bool) -> str:
    """Returns the genitive singular for gender "m", "f" or "n": Hundes, Katze, Löwen."""
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
    """Returns the third person singular present: kauft, arbeitet."""
    return _stem(verb) + ("et" if _needs_e(verb) else "t")


def german_preterite(verb: str) -> str:
    """Returns the singular preterite: kaufte, arbeitete."""
    return german_third(verb) + "e"


def german_participle(verb: str) -> str:
    """Returns the participle, with ge- (gekauft) or without (bestellt, repariert)."""
    without_ge = verb.endswith("ieren") or re.match(r"(be|emp|ent|er|ver|zer)", verb)
    return ("" if without_ge else "ge") + german_third(verb)


def _stem(verb: str) -> str:
    return verb[:-2] if verb.endswith("en") else verb[:-1]


def _needs_e(verb: str) -> bool:
    """Returns whether -t and -te need a linking e, as in "arbeitet" but not in "wohnt"."""
    return bool(re.search(r"[td]$|[^lrhmnaeiouäöü][mn]$", _stem(verb)))
