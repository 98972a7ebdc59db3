"""Writes contrastive translations from the demo grammar, for `nmt evaluate --contrastive`.

    python recipes/demo/contrastive.py contrastive.tsv

The file has four tab-separated columns: source, correct translation, incorrect translation and
phenomenon. Each source contains a combination of words that does not occur in training.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from nmt.cli.terminal import run_script
from nmt.demo_language import contrastive_pairs
from nmt.lines.translate import opened_output


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the translations to the file named in `argv`."""
    parser = argparse.ArgumentParser(description="Writes contrastive translations.")
    parser.add_argument("output", type=Path, help="file to write")
    parser.add_argument(
        "--pairs", type=int, default=200, help="number of pairs per phenomenon (default: 200)"
    )
    arguments = parser.parse_args(argv)
    with opened_output(arguments.output) as file:
        for pair in contrastive_pairs(arguments.pairs, seed=1, split="test"):
            cells = (pair.source, pair.right, pair.wrong, pair.phenomenon)
            file.write(("\t".join(cells) + "\n").encode())


if __name__ == "__main__":
    run_script("contrastive", main)
