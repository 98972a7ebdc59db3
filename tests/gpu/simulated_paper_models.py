"""The shipped configurations of the paper's models, on a simulated GPU without values."""

import re

import pytest

from recipes.speed.simulated.device import SimulatedGpu
from recipes.speed.simulated.training import MICRO_BATCHES, Training
from tests.manual import ROOT

PRECISION = 0.06  # GiB; the table has one decimal


def recorded(model: str) -> dict[int, tuple[float, int, int]]:
    """Reads peak memory in GiB, kernels and waits by number of micro-batches from docs/speed.md."""
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| {model} \| (\d+) \| ([\d.]+) \| ([\d,]+) \| (\d+) \|$", text, re.M)
    return {
        int(micro_batches): (float(peak), int(kernels.replace(",", "")), int(waits))
        for micro_batches, peak, kernels, waits in rows
    }


@pytest.fixture(scope="module", params=MICRO_BATCHES)
def training(request):
    """A shipped configuration after two steps, each of one micro-batch."""
    with SimulatedGpu(has_values=False) as gpu:
        training = Training(gpu, request.param)
        for number in (1, 2):
            training.step(1)
            assert number == 1 or not gpu.waits, "\n".join(map(str, gpu.waits))
        yield training


def test_a_step_takes_what_the_manual_says(training):
    """If figures change, run `python -m recipes.speed.memory` and correct docs/speed.md."""
    figures = recorded(training.model)
    assert list(figures) == MICRO_BATCHES[training.model]
    for micro_batches, (peak, kernels, waits) in figures.items():
        found = training.step(
            micro_batches, first=2
        )  # memory peaks in every micro-batch but the first
        assert found.peak / 2**30 == pytest.approx(peak, abs=PRECISION)
        assert found.waits == waits
        if micro_batches <= 2:
            assert found.kernels == kernels
