"""Whether training text looks like what it should be.

Measured on 2,000 pairs each of English-German news, parliament, talks, captions, Wikipedia and
short sentences. The thresholds are far from sound and from faulty text alike: nobody should get
used to false warnings.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import starmap

import numpy as np

SAMPLE_PAIRS = 2000
_ENOUGH_PAIRS = 100
_LARGE_SHARE = 0.3  # sound text: at most 0.002; tokenized or segmented text: above 0.9
# As subword-nmt, sentencepiece and BERT mark pieces.
_PIECES = re.compile(r"\S@@(?: |$)|\u2581| ##\w", re.MULTILINE)
# A space before a comma or full stop, as no language writes it, and what the Moses tokenizer makes
# of quotation marks and hyphens.
_TOKENIZED = re.compile(r"\w [,.](?: |$)|&(?:quot|apos|#\d+);|@-@|##AT##", re.MULTILINE)
_MOST = 0.5
# Correlation of the two sides' lengths, as logarithms: 0.88 to 0.97 in sound text, 0 in shuffled
# text, up to 0.2 where one side is a line behind.
_CORRELATION = 0.3
_SPREAD = 0.2  # standard deviation; lengths that hardly differ tell nothing (captions: 0.3)

_PLAIN = "name plain text: translations look as the training text does"


def suspicions(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    """What looks wrong with pairs, and what to do about each.

    Args:
        sources: of some pairs, normalized, none of them empty.
        targets: as many.
    """
    pairs = list(zip(sources, targets, strict=True))
    if len(pairs) < _ENOUGH_PAIRS:
        return []
    same = _share(source.strip() == target.strip() for source, target in pairs)
    if same > _MOST:
        what = f"source and target are equal in {same:.0%} of the pairs"
        return [(what, "check its files or columns")]
    found = []
    joined = list(starmap("{}\n{}".format, pairs))
    if (share := _share(_PIECES.search(text) for text in joined)) > _LARGE_SHARE:
        found.append((f"cut into subword pieces in {share:.0%} of the pairs", _PLAIN))
    if (share := _share(_TOKENIZED.search(text) for text in joined)) > _LARGE_SHARE:
        found.append((f"tokenized in {share:.0%} of the pairs", _PLAIN))
    lengths = np.log([[len(side) for side in pair] for pair in pairs])
    if lengths.std(axis=0).min() >= _SPREAD:
        correlation = np.corrcoef(lengths, rowvar=False)[0, 1]
        if correlation < _CORRELATION:
            what = f"the sides' lengths are unrelated (correlation {correlation:.2f})"
            found.append((what, "check that line i of one side translates line i of the other"))
    return found


def _share(is_so: Iterable[object]) -> float:
    found = list(map(bool, is_so))
    return sum(found) / len(found)
