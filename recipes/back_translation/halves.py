"""Keeps every second pair of a parallel text, and only the target side of the other pairs.

    python recipes/back_translation/halves.py text/a.train.en text/a.train.de text/a

This command writes text/a.half.en, text/a.half.de and text/a.mono.de. With these files, a model
trained with back-translation can be compared with a model trained on all pairs, which is an upper
bound.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from nmt.cli.terminal import run_script
from nmt.evaluation.test_sets import from_files


def main(argv: Sequence[str] | None = None) -> None:
    """Halves the text named in `argv`, and writes the three files."""
    parser = argparse.ArgumentParser(
        description="Keeps half of the pairs, and the targets of the other half."
    )
    parser.add_argument("source", type=Path, help="source text, one sentence per line")
    parser.add_argument("target", type=Path, help="target text, one sentence per line")
    parser.add_argument("prefix", type=Path, help="prefix of the output files")
    given = parser.parse_args(argv)
    text = from_files(given.source, [given.target])
    source, target = text.sources or [], text.references[0]
    language = {
        path: path.name.removesuffix(".gz").rpartition(".")[2]
        for path in (given.source, given.target)
    }
    write(given.prefix, f"half.{language[given.source]}", source[::2])
    write(given.prefix, f"half.{language[given.target]}", target[::2])
    write(given.prefix, f"mono.{language[given.target]}", target[1::2])


def write(prefix: Path, ending: str, lines: Sequence[str]) -> None:
    """Writes lines to the file PREFIX.ENDING."""
    path = prefix.with_name(f"{prefix.name}.{ending}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    run_script("halves", main)
