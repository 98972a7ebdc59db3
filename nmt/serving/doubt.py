"""Finds signs of a poor translation without a reference translation."""

import math
import re

from nmt.decoding.translation import Translation
from nmt.documents.doubtful import is_doubtful

_UNSURE = 0.5  # minimum geometric mean of the tokens' probabilities
_LEAST_BYTES = 4
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def doubts(source: str, translation: Translation) -> list[str]:
    """Returns the signs that a translation may be poor.

    Returns:
        A list of the names of the signs, which is empty if there are no signs. The names are:

        * "empty": the translation is empty, but the source is not.
        * "repeats": the translation repeats words (see `nmt.documents.doubtful`).
        * "bytes": at least four tokens, and more than half of all tokens, are byte tokens. Byte
          tokens spell characters that are not in the vocabulary.
        * "unsure": the geometric mean of the token probabilities is below 0.5. Translations by
          exported models are never "unsure", because they have no token probabilities.
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
