"""Prints example translations from the demo's test set, and the BLEU of the whole test set.

    python recipes/demo/show.py runs/demo

The test sentences contain combinations of words (verb and object, adjective and noun) that do not
occur in training. For comparison, the script also prints the BLEU of a word-for-word dictionary
translation.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from nmt.cli.terminal import run_script
from nmt.config import Demo
from nmt.cpu_memory import keep_freed_memory
from nmt.demo_language import PHENOMENA, DemoPair, demo_pairs, word_for_word
from nmt.errors import InputError
from nmt.evaluation.bleu import score
from nmt.translator import Translator


def main(argv: Sequence[str] | None = None) -> None:
    """Translates the test set of the run named in `argv`, and prints examples and scores."""
    parser = argparse.ArgumentParser(description="Shows what the demo's model has learned.")
    parser.add_argument("model", nargs="?", default="runs/demo", help="run (default: runs/demo)")
    model = parser.parse_args(argv).model
    keep_freed_memory()
    translator = Translator.load(model)
    pairs = test_pairs(translator, model)
    found = translator.translate([pair.source for pair in pairs])
    translations = [each.text for each in found]
    print_examples(pairs, translations)
    print_phenomena(pairs)
    references = [pair.target for pair in pairs]
    scores = score(translations, references)
    baseline = score([word_for_word(pair.source) for pair in pairs], references)
    print(f"word for word  BLEU {baseline.bleu:.2f}")
    print(f"BLEU = {scores.bleu:.2f}  ({len(pairs)} sentences; {scores.bleu_signature})")


def test_pairs(translator: Translator, model: str | Path) -> list[DemoPair]:
    """Returns the test set that the model's configuration specifies.

    Raises:
        InputError: the configuration of `model` specifies no demo test set.
    """
    corpora = [
        corpus.settings for corpus in translator.config.data.test if isinstance(corpus, Demo)
    ]
    pairs = [pair for corpus in corpora for pair in demo_pairs(corpus.pairs, corpus.seed, "test")]
    if not pairs:
        raise InputError(
            f"{model} has no demo test set. Specify a run that was trained with configs/demo.yaml."
        )
    return pairs


def print_examples(pairs: list[DemoPair], translations: list[str]) -> None:
    """Prints a translated test sentence for each phenomenon.

    The printed sentence is the one with the fewest other phenomena. An asterisk marks translations
    that differ from the reference.
    """
    print("held-out test sentences (* differs from the reference)\n")
    shown: set[int] = set()
    for phenomenon in PHENOMENA:
        having = [i for i, p in enumerate(pairs) if phenomenon in p.phenomena and i not in shown]
        if not having:
            continue
        index = min(having, key=lambda i: len(pairs[i].phenomena))
        shown.add(index)
        mark = " " if translations[index] == pairs[index].target else "*"
        print(f"{phenomenon:>20}  {pairs[index].source}\n{mark:>20}  {translations[index]}")
    print()


def print_phenomena(pairs: list[DemoPair]) -> None:
    """Prints the share of test sentences in which each phenomenon occurs."""
    print("share of the test sentences with each phenomenon")
    for phenomenon in PHENOMENA:
        share = sum(phenomenon in pair.phenomena for pair in pairs) / len(pairs)
        print(f"{phenomenon:>20}  {share:5.1%}")
    print()


if __name__ == "__main__":
    run_script("show", main)
