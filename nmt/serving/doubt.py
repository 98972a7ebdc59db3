"""Finds signs of a bad translation; needs no reference."""

import math
import re

from nmt.decoding.translation import Translation
from nmt.documents.doubtful import is_doubtful

_UNSURE = 0.5  # minimum geometric mean of the tokens' probabilities
_LEAST_BYTES = 4
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def doubts(source: str, translation: Translation) -> list[str]:
    """Returns the signs of a bad translation, if any.

    Returns:
        Any of these names:

        * "empty": the translation is empty, but the source is not.
        * "repeats": the translation repeats words (see `nmt.documents.doubtful`).
        * "bytes": more than half of the tokens, and at least four tokens, are byte tokens, which
          spell characters that are missing from the vocabulary.
        * "unsure": the geometric mean of the token probabilities is below 0.5. Exported models do
          not provide these probabilities.
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
