"""Halves parallel text: keeps every second pair, and only the target side of the remaining pairs.

    python recipes/back_translation/halves.py text/a.train.en text/a.train.de text/a

writes text/a.half.en, text/a.half.de and text/a.mono.de. Back-translation can thus be tried where
its upper bound is known, namely the quality of a model trained on the whole text.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from nmt.errors import InputError, count
from nmt.storage.opening import read_lines


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the three files named in `argv`."""
    parser = argparse.ArgumentParser(description="Halves parallel text into pairs and one side.")
    parser.add_argument("source", type=Path, help="one sentence per line, plain or compressed")
    parser.add_argument("target", type=Path, help="as many lines")
    parser.add_argument("prefix", type=Path, help="prefix of the output files: text/general")
    given = parser.parse_args(argv)
    source, target = list(read_lines(given.source)), list(read_lines(given.target))
    if len(source) != len(target):
        found = f"{given.source} has {count(len(source), 'line')}, but {given.target} has"
        raise InputError(
            f"{found} {count(len(target), 'line')}. Provide files with equal numbers of lines."
        )
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
    main()
