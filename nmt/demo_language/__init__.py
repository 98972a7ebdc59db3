"""English and German in small: a lexicon, and a grammar that writes aligned sentence pairs.

Nothing here imports from the rest of `nmt`.
"""

from nmt.demo_language.corpus import PHENOMENA, SPLITS, DemoPair, OutOfSentences, demo_pairs
from nmt.demo_language.dictionary import word_for_word

__all__ = ["PHENOMENA", "SPLITS", "DemoPair", "OutOfSentences", "demo_pairs", "word_for_word"]
