"""Generates English-German sentence pairs from a lexicon and a grammar.

This package does not import other parts of `nmt`. It contains these modules:

- `lexicon` reads the tables in `words/` and adds the regular forms, which `inflection` computes.
  `fitting` finds words that make sense together.
- `phrases` and `clauses` represent the meaning of a sentence. `english` and `german` write this
  meaning as text. `analysis` lists the grammatical phenomena in a German clause.
- `pick_phrases`, `pick_clauses` and `adverbials` pick the parts of a sentence at random.
- `statements`, `descriptions`, `relative_clauses`, `subordinate_clauses`, `anaphora`,
  `infinitives` and `questions` contain a function for each kind of sentence. `sentences` contains
  functions that these modules share. `grammar` defines how often each kind of sentence occurs.
- `corpus` generates the training, validation and test corpora. `contrasts` generates translations
  with one error. `dictionary` translates word for word, as a baseline. `alignment` computes
  reference word alignments.
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
