"""Splits text into sentences with rules for punctuation and abbreviations.

A sentence ends with `.`, `!`, `?` or an ellipsis, which may be followed by closing quotation marks,
by closing brackets or by numbers in square brackets, and which must be followed by white space. The
first character after the white space must not be a lowercase letter, comma, semicolon, colon or
dash. A full stop does not end a sentence in three cases: after single letters (as in "U.S." and
"e.g."), after common abbreviations, and after a number of one or two digits in languages that write
ordinal numbers with a full stop. If closing quotation marks or brackets follow the full stop, these
cases apply only if the marks enclose nothing else, as in "(ed.)". Chinese and Japanese full stops
need not be followed by white space. In doubtful cases, the text is not split, because half a
sentence is harder to translate than two sentences at once.
"""

import re

# Possessive quantifiers keep the time linear, even for a line of a million full stops.
_END = re.compile(
    # German closes quotations with “ ‘ « or ‹, and French writes a space before a closing » or ›.
    r"""(?<![.!?…؟۔।॥])(?P<stop>[.!?…؟۔।॥]++(?>["'”’“‘»«›‹)\]]|\s[»›](?!\S)|\[\d{1,3}\])*+)"""
    r"\s++(?=[^,;:\-–—])"
    r"|(?<![。！？])[。！？]++[」』）”’]*+\s*+(?=.)",
    re.DOTALL,
)
_FULL_STOP = re.compile(r"\.(?:\[\d{1,3}\])*")  # a single one, also with references such as "[1]"
_LAST_WORD = re.compile(r"[^\s(\[\"'“”„»«/]+$")
# Abbreviations in lowercase; a full stop after an abbreviation does not end a sentence
_ABBREVIATIONS = (
    # English
    "mr mrs ms dr prof rev hon gen col capt lt sgt st mt ft vs cf approx fig figs eq eqs "
    "sec vol vols ed eds pp nos al jan feb mar apr jun jul aug sept oct nov dec "
    # German
    "bzw ca evtl ggf hr hrn fr frl str nr bd bde abb tab "
    "kap jh mio mrd inkl exkl vgl sog geb gest jr usf dipl ing "
    # French, Spanish, Italian
    "mm mme mmes mlle env éd chap sr sra srta dña ud uds sig sigg dott ecc"
)
# Languages in which "3." means "third"
_ORDINALS = {
    "bs", "cs", "da", "de", "et", "fi", "fo", "hr", "hu", "is", "lb", "lv", "mk", "nb", "nn", "no",
    "pl", "sk", "sl", "sr", "tr",
}  # fmt: skip
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")  # for example "J", "e.g" or "U.S"
_ABBREVIATION = re.compile(_ABBREVIATIONS.replace(" ", "|"), re.IGNORECASE)
_SHORT_NUMBER = re.compile(r"\d{1,2}$")


def split_sentences(text: str, language: str = "", *, ignore_case: bool = False) -> list[str]:
    """Splits a text into sentences, and keeps the white space after each sentence.

    Args:
        language: the language of the text, such as "de". In some languages, "3." can be an ordinal
            number, which does not end a sentence.
        ignore_case: whether a sentence may begin with a lowercase letter.

    >>> split_sentences("Dr. Smith reads. He reads a lot.")
    ['Dr. Smith reads. ', 'He reads a lot.']
    """
    found, begin = [], 0
    for end in _END.finditer(text):
        if end["stop"] is None or (
            (ignore_case or not text[end.end()].islower()) and _is_end(text, begin, end, language)
        ):
            found.append(text[begin : end.end()])
            begin = end.end()
    return [*found, text[begin:]] if begin < len(text) else found


def _is_end(text: str, begin: int, end: re.Match[str], language: str) -> bool:
    """Returns whether the punctuation `end` ends a sentence, not only an abbreviation or a number.

    Args:
        begin: the index at which the sentence starts.
    """
    stop = end["stop"]
    if stop[0] != "." or stop[1:2] in (".", "!", "?", "…"):
        return True
    before = _LAST_WORD.search(text, max(begin, end.start() - 20), end.start())
    word = before[0] if before else ""
    is_initial = _INITIALS.fullmatch(word) is not None and word != "I"
    is_ordinal = language[:2] in _ORDINALS and _SHORT_NUMBER.fullmatch(word) is not None
    # "(See fig. 3.)" ends a sentence, but "(ed.)" does not.
    is_last_of_several = before is not None and text[before.start() - 1 : before.start()].isspace()
    if is_last_of_several and not _FULL_STOP.fullmatch(stop):
        return True
    return not (is_initial or is_ordinal or _ABBREVIATION.fullmatch(word))
