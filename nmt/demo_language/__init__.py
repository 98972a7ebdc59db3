"""A small English-German language: a lexicon, and a grammar that writes aligned sentence pairs.

This package imports nothing from the rest of `nmt`. Its modules, from words to corpora:

- `lexicon` reads the tables in `words/` and fills in regular forms by the rules of `inflection`;
  `fitting` finds words that make sense together;
- `phrases` and `clauses` represent meaning, `english` and `german` put it into words, and
  `analysis` lists the grammatical phenomena in the German clause;
- `pick_phrases`, `pick_clauses` and `adverbials` choose fitting parts with a random generator;
- `statements`, `descriptions`, `relative_clauses`, `subordinate_clauses`, `anaphora`,
  `infinitives` and `questions` contain a function for each kind of sentence, `sentences` contains
  the functions that they share, and `grammar` defines how often each kind occurs;
- `corpus` divides sentences among training, validation and test; `contrasts` adds an error to a
  translation; `dictionary` is a word-for-word baseline; `alignment` finds the words of a pair that
  translate each other.
"""

from nmt.demo_language.alignment import Alignment, aligned
from nmt.demo_language.contrasts import ContrastivePair, contrastive_pairs
from nmt.demo_language.corpus import PHENOMENA, SPLITS, DemoPair, OutOfSentences, demo_pairs
from nmt.demo_language.dictionary import word_for_word

__all__ = [
    "PHENOMENA",
    "SPLITS",
    "Alignment",
    "ContrastivePair",
    "DemoPair",
    "OutOfSentences",
    "aligned",
    "contrastive_pairs",
    "demo_pairs",
    "word_for_word",
]
