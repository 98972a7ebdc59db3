"""Writes text files of two domains to try the recipe. The demo grammar generates the sentences.

    python recipes/your_own_text/stand_in.py text

This command writes text/general.SPLIT.en and .de, which contain no questions, and
text/questions.SPLIT.en and .de, which contain only questions. SPLIT is train, valid or test.
"""

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from nmt.cli.terminal import run_script
from nmt.demo_language import demo_pairs

SIZES = {
    "general": {"train": 20_000, "valid": 200, "test": 200},
    "questions": {"train": 1_000, "valid": 200, "test": 200},
}
_SPLITS = {"train": "train", "valid": "validation", "test": "test"}  # the splits of the grammar


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the files into the directory named in `argv`."""
    parser = argparse.ArgumentParser(description="Writes sentences of two domains as text files.")
    parser.add_argument("folder", type=Path, nargs="?", default="text", help="default: text")
    folder = parser.parse_args(argv).folder
    folder.mkdir(parents=True, exist_ok=True)
    for domain, sizes in SIZES.items():
        for split, size in sizes.items():
            endless = demo_pairs(100 * size, 1, _SPLITS[split])
            wanted = (
                pair
                for pair in endless
                if ("question" in pair.phenomena) == (domain == "questions")
            )
            pairs = list(islice(wanted, size))
            for language, lines in (
                ("en", [pair.source for pair in pairs]),
                ("de", [pair.target for pair in pairs]),
            ):
                path = folder / f"{domain}.{split}.{language}"
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    run_script("stand_in", main)
