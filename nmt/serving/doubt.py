"""Finds signs of a bad translation without using a reference."""

import math
import re

from nmt.decoding.translation import Translation
from nmt.documents.doubtful import is_doubtful

_UNSURE = 0.5  # minimum geometric mean of the tokens' probabilities
_LEAST_BYTES = 4
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def doubts(source: str, translation: Translation) -> list[str]:
    """Returns the doubts about a translation: any of "empty", "repeats", "bytes", "unsure".

    "empty": the translation is empty, but the source is not. "repeats": the translation repeats
    words, as `nmt.documents.doubtful` defines. "bytes": more than half of the tokens are single
    bytes, which spell characters that are missing from the vocabulary. "unsure": the geometric mean
    of the tokens' probabilities is below 0.5; exported models do not report these probabilities.
    """
    logs = translation.token_log_probabilities
    content = [piece for piece in translation.pieces if piece != "</s>"]
    number = sum(1 for piece in content if _BYTE.fullmatch(piece))
    found = {
        "empty": bool(source.strip()) and not translation.text.strip(),
        "repeats": is_doubtful(source, translation.text),
        "bytes": number >= _LEAST_BYTES and 2 * number > len(content),
        "unsure": bool(logs) and sum(logs) / len(logs) < math.log(_UNSURE),
    }
    return [name for name, applies in found.items() if applies]
