"""Computes the learning rate, which depends only on the configuration and the step."""

from nmt.config import Config


def learning_rate(config: Config, step: int) -> float:
    """Returns the learning rate of a step (see `inverse_square_root`); steps are counted from 1.

    If `training.decay_after` is N, the learning rate rises during the warm-up to the peak that
    Eq. 3 of the paper gives for N warm-up steps. The learning rate then stays at this peak until
    step N, and decays as in Eq. 3 after step N.
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
    """Returns the first step with the peak learning rate.

    The learning rate peaks at the last step of the warm-up, or at the last step of a run that is
    shorter than the warm-up.
    """
    return min(config.training.warmup_steps, config.training.max_steps)


def inverse_square_root(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """Computes the learning rate of a step as in Eq. 3 of the paper.

    The learning rate is factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Args:
        step: the number of the optimizer step, counted from 1.
        factor: a multiplier for the learning rate (1 in the paper).
    """
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
