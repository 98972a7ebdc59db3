"""English and German in small: a lexicon, and a grammar that writes aligned sentence pairs.

Nothing here imports from the rest of `nmt`. From words to corpora:

- `lexicon` reads the tables in `words/`, by the rules of `inflection`; `fitting` says what goes
  with what;
- `phrases` and `clauses` hold what is said, `english` and `german` put it into words, and
  `analysis` says what the German shows;
- `pick_phrases`, `pick_clauses` and `adverbials` choose, with a random generator, parts that suit
  each other;
- `statements`, `descriptions`, `relative_clauses`, `subordinate_clauses`, `anaphora`,
  `infinitives` and `questions` have a function for each kind of sentence, which `sentences` helps
  to put together; `grammar` says how often each comes;
- `corpus` divides sentences among training, validation and test; `dictionary` is the baseline;
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
