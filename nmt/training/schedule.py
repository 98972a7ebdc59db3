"""Computes the learning rate, a pure function of the configuration and the step."""

from nmt.config import Config


def learning_rate(config: Config, step: int) -> float:
    """Returns the learning rate of a step by `inverse_square_root`; the first step is 1."""
    training = config.training
    return inverse_square_root(
        step, config.model.d_model, training.warmup_steps, training.learning_rate_factor
    )


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
