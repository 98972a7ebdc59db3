"""The learning rate, compared with Eq. 3, and its peaks."""

import pytest

from nmt.config import load
from nmt.errors import InputError
from nmt.training.schedule import inverse_square_root, learning_rate, peak_step


@pytest.mark.parametrize("d_model", [128, 512, 1024])
@pytest.mark.parametrize("warmup", [1, 400, 4000])
def test_r10_equals_equation_3_at_every_step(d_model: int, warmup: int):
    for step in (1, 2, warmup - 1, warmup, warmup + 1, 100_000):
        if step < 1:
            continue
        rising, falling = step * warmup**-1.5, step**-0.5
        expected = d_model**-0.5 * min(falling, rising)
        assert inverse_square_root(step, d_model, warmup) == pytest.approx(expected, rel=1e-12)
        assert inverse_square_root(step, d_model, warmup, 2.5) == pytest.approx(
            2.5 * expected, rel=1e-12
        )


@pytest.mark.parametrize(("name", "peak"), [("base", 6.988e-4), ("big", 4.941e-4)])
def test_r10_peaks_of_base_and_big(name: str, peak: float):
    """The peak is (d_model * 4000)^-0.5, at step 4000."""
    config = load(f"configs/transformer_{name}.yaml")
    rates = [learning_rate(config, step) for step in range(1, 9000)]
    assert rates.index(max(rates)) + 1 == peak_step(config) == 4000
    assert max(rates) == pytest.approx(peak, rel=1e-4)


def test_the_peak_of_a_run_shorter_than_its_warm_up_is_its_last_step(settings):
    assert peak_step(settings(training__max_steps=7)) == 7


def test_a_decay_that_begins_later_makes_the_rate_independent_of_the_warm_up(settings):
    """Eq. 3 if both settings agree; otherwise only the warm-up differs."""

    def rates(warmup: int, decay_after: int | None) -> list[float]:
        config = settings(
            training__warmup_steps=warmup, training__decay_after=decay_after,
            training__max_steps=100, training__learning_rate_factor=2.5,
        )  # fmt: skip
        return [learning_rate(config, step) for step in range(1, 101)]

    equation_3, same, short, none = rates(40, None), rates(40, 40), rates(10, 40), rates(1, 40)
    assert same == pytest.approx(equation_3, rel=1e-12)
    assert short[10:] == none[10:] == pytest.approx([equation_3[39]] * 29 + equation_3[39:])
    assert none[:10] == pytest.approx([equation_3[39]] * 10)
    assert short[:10] == pytest.approx([equation_3[39] * step / 10 for step in range(1, 11)])
    with pytest.raises(InputError, match=r"decay_after \(9\) must be at least .* \(10\)"):
        rates(10, 9)
