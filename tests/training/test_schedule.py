"""The learning rate against Eq. 3, and the peaks that follow from it."""

import pytest

from nmt.training.schedule import learning_rate, peak_learning_rate


@pytest.mark.parametrize("d_model", [128, 512, 1024])
@pytest.mark.parametrize("warmup", [1, 400, 4000])
def test_r10_equals_equation_3_at_every_step(d_model: int, warmup: int):
    for step in (1, 2, warmup - 1, warmup, warmup + 1, 100_000):
        if step < 1:
            continue
        rising, falling = step * warmup**-1.5, step**-0.5
        expected = d_model**-0.5 * min(falling, rising)
        assert learning_rate(step, d_model, warmup) == pytest.approx(expected, rel=1e-12)
        assert learning_rate(step, d_model, warmup, 2.5) == pytest.approx(2.5 * expected, rel=1e-12)


def test_r10_peaks_of_base_and_big():
    """6.988e-4 and 4.941e-4: (d_model * 4000)^-0.5."""
    assert peak_learning_rate(512, 4000) == pytest.approx(6.988e-4, rel=1e-4)
    assert peak_learning_rate(1024, 4000) == pytest.approx(4.941e-4, rel=1e-4)
    rates = [learning_rate(step, 512, 4000) for step in range(1, 9000)]
    assert rates.index(max(rates)) + 1 == 4000


def test_r10_steps_count_from_one():
    with pytest.raises(ValueError, match="count from 1"):
        learning_rate(0, 512, 4000)
