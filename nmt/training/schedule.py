"""Computes the learning rate, a pure function of the configuration and the step."""

from nmt.config import Config


def learning_rate(config: Config, step: int) -> float:
    """Returns the learning rate of a step by `inverse_square_root`; the first step is 1.

    With `training.decay_after`, the rate rises in the warm-up to the peak of Eq. 3 with that number
    of warm-up steps, stays there until that step, and then falls as in Eq. 3.
    """
    training, d_model = config.training, config.model.d_model
    warmup, hold, factor = (
        training.warmup_steps,
        training.decay_after,
        training.learning_rate_factor,
    )
    if hold is None:
        return inverse_square_root(step, d_model, warmup, factor)
    return min(1, step / warmup) * inverse_square_root(max(step, hold), d_model, hold, factor)


def peak_step(config: Config) -> int:
    """Returns the step with the highest rate: the last step of the warm-up or of a shorter run."""
    return min(config.training.warmup_steps, config.training.max_steps)


def inverse_square_root(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """Computes Eq. 3: factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Args:
        step: optimizer step, from 1.
        factor: 1 in the paper.

    Raises:
        ValueError: step below 1.
    """
    if step < 1:
        raise ValueError(f"Steps count from 1, but step is {step}.")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
