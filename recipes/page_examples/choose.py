"""Chooses examples for the page of `nmt serve` from the test set of a run.

    python recipes/page_examples/choose.py runs/demo

The examples are saved in the run directory with the hash of the model for which they were chosen.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from nmt.cli.terminal import run_script
from nmt.data import kept_test_set
from nmt.errors import InputError
from nmt.runs.run_directory import RunDirectory
from nmt.serving.examples import examples
from nmt.storage import manifest
from nmt.storage.atomic import write_file
from nmt.translator import Translator

_SENTENCES = 400  # number of test sentences to translate


def main(argv: Sequence[str] | None = None) -> None:
    """Chooses, saves and prints the examples for the run named in `argv`."""
    parser = argparse.ArgumentParser(description="Chooses examples for the page of nmt serve.")
    parser.add_argument("run", type=Path, help="a run with a finished model")
    run = RunDirectory(parser.parse_args(argv).run)
    translator = Translator.load(run.model)
    content = manifest.read(run.model, "model")
    data = run.identity().data_of(run.model, content)
    texts = kept_test_set.read(run.test_set, translator.config.data, data)
    if not texts:
        raise InputError(
            f"The run {run} has no test set. Choose a run whose configuration sets data.test."
        )
    chosen = examples(translator, texts[0][:_SENTENCES])
    for each in chosen["examples"]:
        print(f"{each['kind']:>10}  {each['text']}")
    facts = {"model_sha256": content["sha256"]}
    run.examples.parent.mkdir(exist_ok=True)
    write_file(run.examples, json.dumps(facts | chosen, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    run_script("choose", main)
