"""The shipped configurations of the paper's models, on a simulated GPU without values."""

import re
from pathlib import Path

import numpy as np
import pytest

from nmt.data.shards import Shard, Side
from nmt.data.tokenizer import Tokenizer
from nmt.model.special_ids import EOS_ID
from nmt.training.distributed import StopRequest
from nmt.training.validation import InferenceCopy, validate
from recipes.speed.simulated.device import SimulatedGpu
from recipes.speed.simulated.training import SLOTS, Training
from tests.fixtures.make import TRAINED
from tests.manual import ROOT

PRECISION = 0.06  # GiB; the table has one decimal


def recorded(model: str) -> dict[int, tuple[float, int, int]]:
    """Reads peak memory in GiB, kernels and waits by number of slots from docs/speed.md."""
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| {model} \| (\d+) \| ([\d.]+) \| ([\d,]+) \| (\d+) \|$", text, re.M)
    return {
        int(slots): (float(peak), int(kernels.replace(",", "")), int(waits))
        for slots, peak, kernels, waits in rows
    }


@pytest.fixture(scope="module", params=SLOTS)
def training(request):
    """Training with a shipped configuration, after three steps of one slot each."""
    with SimulatedGpu(has_values=False) as gpu:
        training = Training(gpu, request.param)
        for number in (1, 2, 3):
            training.step(1)
            assert number == 1 or not gpu.waits, "\n".join(map(str, gpu.waits))
        yield training


def test_a_step_takes_what_the_manual_says(training):
    """If figures change, run `python -m recipes.speed.memory` and correct docs/speed.md."""
    figures = recorded(training.model)
    assert list(figures) == SLOTS[training.model]
    for slots, (peak, kernels, waits) in figures.items():
        found = training.step(slots, first=2)  # memory peaks in every slot but the first
        assert found.peak / 2**30 == pytest.approx(peak, abs=PRECISION)
        assert found.waits == waits
        if slots <= 2:
            assert found.kernels == kernels


@pytest.mark.parametrize("training", ["base"], indirect=True)  # big differs only in sizes
def test_validation_after_them(training):
    """Validates a few short pairs; without values, EOS never comes before the maximum length."""
    tokenizer = Tokenizer.load(TRAINED / "run" / "tokenizer.model")
    ids = [*tokenizer.encode_batch(["The man reads."])[0], EOS_ID]
    side = Side(np.array(3 * ids, np.int32), np.arange(4, dtype=np.int32) * len(ids))
    shards, config = [Shard(Path("none"), side, side, 1.0, 0)], training.config
    decoding = config.decoding.model_copy(update={"max_extra_length": 2})
    found = validate(
        training.module, tokenizer, shards, config.model_copy(update={"decoding": decoding}),
        training.ranks, StopRequest(), InferenceCopy(),
    )  # fmt: skip
    assert found and len(found.samples) == 3
    assert any("search_step_by_step" in wait.callers for wait in training.gpu.waits)
