"""Checkpoints that fit their manifest, and are yet none to go on from."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from nmt.checkpoints import checkpoint as checkpoints
from nmt.storage import manifest
from tests.checkpoints.steps import save_step

Save = Callable[[int], Path]


@pytest.fixture
def save(config, tokenizer, hashes, tmp_path: Path) -> Save:
    """Saves the checkpoint of a step in `tmp_path`; its folder."""
    return partial(save_step, tmp_path, config=config, tokenizer=tokenizer, hashes=hashes)


def describe(folder: Path) -> None:
    """Writes a manifest that fits what is in a checkpoint now."""
    content = manifest.read(folder, "checkpoint")
    facts = {key: content[key] for key in ("step", "tokenizer_sha256", "data_sha256")}
    manifest.write(folder, "checkpoint", facts)


def resumed_from(run: Path) -> tuple[int, str]:
    """The step that a run would go on from, and what was said meanwhile."""
    said: list[str] = []
    found = checkpoints.newest(run, said.append)
    assert found
    return found.step, "\n".join(said)


BEST = {"step": 2, "bleu": 1.5, "worse_since": 0, "validated": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"best": None}, {"best": [1]}, {"best": {"step": 2, "colour": {}}, "elapsed_s": None},
        {"best": BEST | {"step": "2"}}, {"best": BEST | {"bleu": "good"}},
        {"best": BEST | {"bleu": float("nan")}}, {"best": BEST | {"validated": 3}},
        {"best": BEST | {"worse_since": -1}}, {"best": BEST | {"step": 10**400}},
        {"elapsed_s": float("inf")}, {"elapsed_s": -1.0}, {"elapsed_s": "long"}, {"step": 1},
        {"step": 2.5}, {"threads": None},
    ],
    ids=str,
)  # fmt: skip
def test_r16_a_forged_state_is_passed_over(save: Save, tmp_path: Path, change: dict):
    save(1)
    path = save(2) / checkpoints.STATE
    sound = json.loads(path.read_text()) | {"best": BEST}
    path.write_text(json.dumps(sound))
    describe(path.parent)
    assert resumed_from(tmp_path) == (2, "")
    path.write_text(json.dumps(sound | change))
    describe(path.parent)
    step, said = resumed_from(tmp_path)
    assert step == 1
    assert said.startswith("passing over a checkpoint: ") and str(path) in said


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '{"step": ' + "[" * 100_000, "\xff"])
def test_r16_a_state_that_is_no_object_is_passed_over(save: Save, tmp_path: Path, text: str):
    save(1)
    path = save(2) / checkpoints.STATE
    path.write_bytes(text.encode("latin-1"))
    describe(path.parent)
    assert resumed_from(tmp_path)[0] == 1
