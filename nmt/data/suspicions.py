"""Warns about training text that looks faulty.

The values in the comments of this module were measured on six sets of 2,000 English-German pairs:
news, parliamentary debates, talks, captions, Wikipedia and short sentences. To avoid false
warnings, each threshold is far from the values for clean text and from the values for faulty text.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import starmap

import numpy as np

SAMPLE_PAIRS = 2000
_ENOUGH_PAIRS = 100
_LARGE_SHARE = 0.3  # clean text: at most 0.002; text split into tokens or subwords: above 0.9
# Subword markers of subword-nmt, sentencepiece and BERT.
_PIECES = re.compile(r"\S@@(?: |$)|\u2581| ##\w", re.MULTILINE)
# A space before a comma or full stop, which no language uses, or quotation marks and hyphens as
# the Moses tokenizer writes them.
_TOKENIZED = re.compile(r"\w [,.](?: |$)|&(?:quot|apos|#\d+);|@-@|##AT##", re.MULTILINE)
_MARKUP = re.compile(r"</[A-Za-z]\w*>")
_MOST = 0.5  # maximum proportion of pairs whose two sides are equal
# Minimum correlation of the logarithms of the two sides' lengths. It is 0.88 to 0.97 in clean text,
# 0 in shuffled text, and at most 0.2 if one side is shifted by a line.
_CORRELATION = 0.3
_SPREAD = 0.2  # minimum standard deviation of these logarithms for the check (captions: 0.3)

_PLAIN = "Use plain text, because translations will look like the training text."


def suspicions(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    """Returns a (problem, remedy) tuple for each suspected problem with the pairs.

    The problem is described by a clause, and the remedy by a sentence.

    Args:
        sources: normalized, non-empty source sentences.
        targets: normalized, non-empty target sentences, one per source.
    """
    pairs = list(zip(sources, targets, strict=True))
    if len(pairs) < _ENOUGH_PAIRS:
        return []
    same = _share(source.strip() == target.strip() for source, target in pairs)
    if same > _MOST:
        what = f"source and target are equal in {same:.0%} of the pairs"
        return [(what, "Check its files or columns.")]
    found = []
    joined = list(starmap("{}\n{}".format, pairs))
    if (share := _share(_PIECES.search(text) for text in joined)) > _LARGE_SHARE:
        found.append((f"{share:.0%} of the pairs are split into subwords", _PLAIN))
    if (share := _share(_TOKENIZED.search(text) for text in joined)) > _LARGE_SHARE:
        found.append((f"{share:.0%} of the pairs are tokenized", _PLAIN))
    if (share := _share(_MARKUP.search(text) for text in joined)) > _LARGE_SHARE:
        found.append((f"{share:.0%} of the pairs contain HTML or XML tags", _PLAIN))
    lengths = np.log([[len(side) for side in pair] for pair in pairs])
    if lengths.std(axis=0).min() >= _SPREAD:
        correlation = np.corrcoef(lengths, rowvar=False)[0, 1]
        if correlation < _CORRELATION:
            what = f"the lengths of the two sides are unrelated (correlation {correlation:.2f})"
            found.append((what, "Check that line i of one side translates line i of the other."))
    return found


def _share(is_so: Iterable[object]) -> float:
    found = list(map(bool, is_so))
    return sum(found) / len(found)
