"""Configuration files for tests, and the problems found in them."""

from pathlib import Path

import pytest

from nmt.cli import main
from nmt.config import load
from nmt.errors import InputError

GOOD = """\
data:
  directory: data/x
  source_language: en
  target_language: no
  train:
    - {hub: wmt/wmt14, name: de-en, split: train}
    - {text: {source: a.en.gz, target: a.de.gz}, weight: 2}
    - {tsv: {path: p.tsv, source_column: 1, target_column: 0}}
    - {parquet: {path: p.parquet, source_column: translation.en, target_column: de}}
    - {jsonl: {path: p.jsonl, source_column: en, target_column: de}}
    - {demo: {pairs: 600, seed: 1}}
training:
  run_directory: runs/x
  label_smoothing: 1e-9
"""


def write(folder: Path, text: str, name: str = "c.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def problems(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(InputError) as error:
        load(path, overrides)
    assert error.value.status == 2
    return list(error.value.problems)


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Runs `nmt train`, which must end with status 2, and returns its error lines."""
    assert main(["train", *arguments]) == 2
    found = capfd.readouterr().err.splitlines()
    assert all(line.startswith("nmt: error: ") for line in found), found
    return found
