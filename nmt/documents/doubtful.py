"""Detects suspicious translations, which are repetitive or much longer than their sources.

Models can generate such faulty translations, which are called hallucinations (Raunak et al., 2021),
if the input is short, unusual or garbled. The checks are conservative: in a test on 29,000 captions
with human translations, in both translation directions, the checks flagged only two translations;
the source of both was "@@". The checks do not detect other errors, such as omissions.
"""

import re
from operator import eq

from nmt.data.cleaning import MAX_RATIO, RATIO_MARGIN

# A word, or one character of a script without spaces (Chinese, Japanese, Thai, ...).
_UNIT = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff]|[^\W_]"
    "[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u312f\u31a0-\u31ff\u3400-\u9fff]*"
)
_STRETCHED = re.compile(r"([^\W\d_])\1{4}")  # for example "Näääääche"
_LONGEST_LOOP = 16  # maximum length of a repeated sequence in words
_CHARACTERS = 5_000  # only this many characters at the start are searched for repetitions
_TIMES = 3  # minimum result of `repetitions` for a repetitive text


def is_doubtful(source: str, translation: str) -> bool:
    """Returns whether a translation is repetitive or much too long for its source.

    A translation is repetitive if `repetitions` returns at least 3 for the translation, and at
    least 2 more for the translation than for the source. A translation is also repetitive if a
    letter occurs five times in a row in the translation but not in the source.

    A translation is too long if its length + 10 exceeds 4 * (source length + 10). Both lengths are
    in UTF-8 bytes, because a Chinese character carries more information than a letter. Data
    cleaning applies the same limit to lengths in characters.
    """
    long, short = (len(text.encode(errors="replace")) for text in (translation, source))
    if long + RATIO_MARGIN > MAX_RATIO * (short + RATIO_MARGIN):
        return True
    if _STRETCHED.search(translation) and not _STRETCHED.search(source):
        return True
    times = repetitions(translation)
    return times >= _TIMES and times >= repetitions(source) + 2


def repetitions(text: str) -> int:
    """Returns the maximum number of times that a sequence of up to 16 words occurs in a row.

    The count for a single word is reduced by 1, because normal text also repeats single words.

    >>> repetitions("a b a b a b"), repetitions("no, no, no")
    (3, 2)
    """
    units = [unit.casefold() for unit in _UNIT.findall(text[:_CHARACTERS])]
    most = 1
    for period in range(1, min(_LONGEST_LOOP, len(units) // 2) + 1):
        equal = bytes(map(eq, units[period:], units))  # equal to the unit one period earlier
        run = max(map(len, equal.split(b"\0")))
        most = max(most, run // period + (period > 1))
    return most
