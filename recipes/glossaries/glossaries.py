"""Translates a test set with one glossary term per sentence, taken from the references.

    python recipes/glossaries/glossaries.py MODEL --training EN DE --test EN DE

A term consists of a word of the source and a word of the reference that often occur together in the
training text. The script prints BLEU, chrF and the share of translations that contain the term. It
prints these numbers for all sentences with a term, and for the sentences whose translation without
a glossary lacks the term. It also prints the translation times.
"""

import argparse
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nmt.cli.terminal import run_script
from nmt.decoding.glossary import unmet
from nmt.decoding.translation import Term
from nmt.errors import InputError
from nmt.evaluation.bleu import score
from nmt.evaluation.test_sets import from_files
from nmt.translator import Translator

_WORD = re.compile(r"[^\W\d_]{3,}")
_LEAST_COUNT, _LEAST_DICE = 5, 0.1
_BATCH = 32  # maximum number of sentences with the same term that are translated at once

Lexicon = dict[str, set[str]]  # target words by source word


@dataclass
class Figures:
    """Translations of the test set, and the translation time."""

    texts: list[str]
    seconds: float


def lexicon(pairs: Sequence[tuple[str, str]]) -> Lexicon:
    """Returns pairs of words that often occur in the same sentence pairs (Dice coefficient)."""
    sources, targets, together = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for source, target in pairs:
        of_source, of_target = set(_WORD.findall(source)), set(_WORD.findall(target))
        sources.update(of_source)
        targets.update(of_target)
        together.update((s, t) for s in of_source for t in of_target)
    found: Lexicon = defaultdict(set)
    for (s, t), count in together.items():
        if count >= _LEAST_COUNT and 2 * count >= _LEAST_DICE * (sources[s] + targets[t]):
            found[s].add(t)
    return found


def terms_of(source: str, reference: str, known: Lexicon) -> list[Term]:
    """Returns the known pairs whose words occur exactly once in the source and in the reference."""
    words, of_reference = _WORD.findall(source), _WORD.findall(reference)
    return [
        (s, t)
        for s in sorted(set(words))
        for t in sorted(known.get(s, set()) & set(of_reference))
        if words.count(s) == of_reference.count(t) == 1
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures the effect of a glossary on the model named in `argv`."""
    words = _arguments(argv)
    known = lexicon(_pairs(words.training))
    rng = random.Random(words.seed)
    examples = []
    for source, reference in _pairs(words.test):
        terms = terms_of(source, reference, known)
        if terms:
            examples.append((source, reference, rng.choice(terms)))
    if not examples:
        raise InputError(
            "No sentence of the test set contains a term of the lexicon that was learned from the "
            "training text. Use more training text."
        )
    translator = Translator.load(words.model, device=words.device)
    free = _translated(translator, examples, with_glossary=False)
    kept = _translated(translator, examples, with_glossary=True)
    lacking = [i for i, (_, _, term) in enumerate(examples) if unmet([term], free.texts[i])]
    print(f"{free.seconds:.1f} s without glossary, {kept.seconds:.1f} s with it")
    print(f"{'':40}{'BLEU':>7}{'chrF':>7}{'terms':>8}")
    for title, some in (("all", range(len(examples))), ("term missing without", lacking)):
        for name, figures in (("no glossary", free), ("glossary", kept)):
            _print_row(f"{title} ({len(some)}), {name}", figures, examples, some)


def _translated(
    translator: Translator, examples: Sequence[tuple[str, str, Term]], with_glossary: bool
) -> Figures:
    """Translates all sources; sources with the same term are translated together."""
    of_terms: dict[Term, list[int]] = defaultdict(list)
    for i, (_, _, term) in enumerate(examples):
        of_terms[term].append(i)
    texts = [""] * len(examples)
    begin = time.perf_counter()
    for (source, target), numbers in of_terms.items():
        rest = iter(numbers)
        while some := list(islice(rest, _BATCH)):
            glossary = {source: target} if with_glossary else None
            found = translator.translate([examples[i][0] for i in some], glossary=glossary)
            for i, each in zip(some, found, strict=True):
                texts[i] = each.text
    return Figures(texts, time.perf_counter() - begin)


def _print_row(
    title: str,
    figures: Figures,
    examples: Sequence[tuple[str, str, Term]],
    some: Sequence[int],
) -> None:
    if not some:
        return
    texts = [figures.texts[i] for i in some]
    scores = score(texts, [examples[i][1] for i in some])
    met = sum(not unmet([examples[i][2]], figures.texts[i]) for i in some)
    print(f"{title:40}{scores.bleu:7.2f}{scores.chrf:7.2f}{met / len(some):8.1%}")


def _pairs(paths: Sequence[Path]) -> list[tuple[str, str]]:
    text = from_files(paths[0], paths[1:])
    return list(zip(text.sources or [], text.references[0], strict=True))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", metavar="MODEL")
    for name in ("--training", "--test"):
        parser.add_argument(name, nargs=2, type=Path, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--device")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed for the choice of terms (default: 1)"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_script("glossaries", main)
