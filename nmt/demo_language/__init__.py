"""A small English-German language: a lexicon, and a grammar that writes aligned sentence pairs.

Nothing here imports from the rest of `nmt`. From words to corpora:

- `lexicon` reads the tables in `words/`, with the rules of `inflection`; `fitting` finds words that
  make sense together;
- `phrases` and `clauses` represent meaning, `english` and `german` put it into words, and
  `analysis` lists the phenomena of the German;
- `pick_phrases`, `pick_clauses` and `adverbials` choose fitting parts with a random generator;
- `statements`, `descriptions`, `relative_clauses`, `subordinate_clauses`, `anaphora`,
  `infinitives` and `questions` have a function per kind of sentence, and `sentences` has what they
  share; `grammar` has the frequency of each kind;
- `corpus` divides sentences among training, validation and test; `dictionary` is a baseline;
  `alignment` says which words of a pair translate each other.
"""

from nmt.demo_language.alignment import Alignment, aligned
from nmt.demo_language.corpus import PHENOMENA, SPLITS, DemoPair, OutOfSentences, demo_pairs
from nmt.demo_language.dictionary import word_for_word

__all__ = [
    "PHENOMENA",
    "SPLITS",
    "Alignment",
    "DemoPair",
    "OutOfSentences",
    "aligned",
    "demo_pairs",
    "word_for_word",
]
