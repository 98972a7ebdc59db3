"""The learning rate of Vaswani et al. (2017), Eq. 3: a pure function of the step."""


def learning_rate(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Args:
        step: optimizer step, from 1.
        factor: 1 is the paper.

    Raises:
        ValueError: step below 1.
    """
    if step < 1:
        raise ValueError(f"steps count from 1, found {step}")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def peak_learning_rate(
    d_model: int, warmup_steps: int, factor: float = 1.0, max_steps: int | None = None
) -> float:
    """The greatest value: at `warmup_steps`, or at `max_steps` if a run ends before."""
    return learning_rate(
        min(warmup_steps, max_steps or warmup_steps), d_model, warmup_steps, factor
    )
