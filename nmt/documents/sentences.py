"""Where sentences end: a plain rule, for text that was not split by hand.

A sentence ends after `.`, `!`, `?` or an ellipsis, closing quotes and brackets counted in, if white
space follows and then something that may begin a sentence: no lower-case letter and none of the
signs `,;:-`. A full stop does not end one after single letters (J. S., e.g., U.S.), after an
abbreviation that is rarely a sentence's last word, and, in languages that write ordinals so, after
a number of one or two digits. After Chinese and Japanese full stops no white space is needed. Where
the rule is in doubt it does not split: two sentences translated as one are a smaller harm than a
half.
"""

import re

# No run of signs is looked at twice, so that a line of a million full stops takes no time.
_END = re.compile(
    r"""(?<![.!?…؟۔।॥])(?P<stop>[.!?…؟۔।॥]++["'”’»)\]]*+)\s++(?=[^,;:\-–—])"""
    r"|(?<![。！？])[。！？]++[」』）”’]*+\s*+(?=.)",
    re.DOTALL,
)
_LAST_WORD = re.compile(r"[^\s(\[\"'“”„»«/]+$")
# After which a full stop belongs to the word
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
# In which "3." is "the third"
_ORDINALS = {
    "bs", "cs", "da", "de", "et", "fi", "fo", "hr", "hu", "is", "lb", "lv", "mk", "nb", "nn", "no",
    "pl", "sk", "sl", "sr", "tr",
}  # fmt: skip
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")  # J, e.g, U.S
_ABBREVIATION = re.compile(_ABBREVIATIONS.replace(" ", "|"), re.IGNORECASE)
_SHORT_NUMBER = re.compile(r"\d{1,2}$")


def split_sentences(text: str, language: str = "") -> list[str]:
    """The sentences of a text, each with the white space after it: joined they are the text.

    Args:
        language: of the text, such as "de"; decides whether "3." may be an ordinal.

    >>> split_sentences("Dr. Smith reads. He reads a lot.")
    ['Dr. Smith reads. ', 'He reads a lot.']
    """
    found, begin = [], 0
    for end in _END.finditer(text):
        if end["stop"] is None or _is_end(text, begin, end, language):
            found.append(text[begin : end.end()])
            begin = end.end()
    return [*found, text[begin:]] if begin < len(text) else found


def _is_end(text: str, begin: int, end: re.Match[str], language: str) -> bool:
    """Whether a sentence that began at `begin` ends with this stop."""
    following = text[end.end()]
    if following.islower():
        return False
    if end["stop"] != ".":
        return True
    before = _LAST_WORD.search(text, max(begin, end.start() - 20), end.start())
    word = before[0] if before else ""
    is_initial = _INITIALS.fullmatch(word) is not None and word != "I"
    is_ordinal = language[:2] in _ORDINALS and _SHORT_NUMBER.fullmatch(word) is not None
    return not (is_initial or is_ordinal or _ABBREVIATION.fullmatch(word))
