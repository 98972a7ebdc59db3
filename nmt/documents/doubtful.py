"""Which translations look wrong from outside: stuck in a loop, or far longer than their source.

Both are what models do to short, odd or garbled input (Raunak et al., 2021, call it hallucination).
The measures are strict: of 29,000 captions and their translations by people, either way round, they
name two, whose source is "@@". They find neither what is merely wrong nor what is missing.
"""

import re
from operator import eq

from nmt.data.cleaning import MAX_RATIO, RATIO_MARGIN

# Words, but each character of Chinese, Japanese, Thai and their like by itself; no punctuation.
_UNIT = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff]|[^\W_]"
    "[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u312f\u31a0-\u31ff\u3400-\u9fff]*"
)
_STRETCHED = re.compile(r"([^\W\d_])\1{4}")  # Näääääche
_LONGEST_LOOP = 16  # words that come again and again
_CHARACTERS = 5_000  # a text is looked at so far
_TIMES = 3  # a single word once more: "no, no, no" is said


def is_doubtful(source: str, translation: str) -> bool:
    """Whether a translation repeats itself as its source does not, or is far too long for it.

    Repeating: up to 16 words come three times or more in a row (a single word four times), and at
    least two times more than any do in the source; or a letter five times. Too long: more than four
    times the source's bytes of UTF-8, ten added to both, which is how training pairs are judged
    too, in characters; bytes, because a Chinese character says more than a letter.
    """
    long, short = (len(text.encode(errors="replace")) for text in (translation, source))
    if long + RATIO_MARGIN > MAX_RATIO * (short + RATIO_MARGIN):
        return True
    if _STRETCHED.search(translation) and not _STRETCHED.search(source):
        return True
    times = repetitions(translation)
    return times >= _TIMES and times >= repetitions(source) + 2


def repetitions(text: str) -> int:
    """How often up to 16 words come in a row, at most; of a single word one time less.

    >>> repetitions("a b a b a b"), repetitions("no, no, no")
    (3, 2)
    """
    units = [unit.casefold() for unit in _UNIT.findall(text[:_CHARACTERS])]
    most = 1
    for period in range(1, min(_LONGEST_LOOP, len(units) // 2) + 1):
        equal = bytes(map(eq, units[period:], units))  # to the one a period before
        run = max(map(len, equal.split(b"\0")))
        most = max(most, run // period + (period > 1))
    return most
