"""The learning rate (Eq. 3), and the scaling of dot products (§3.2.1)."""

from typing import Any

import torch
from torch import Tensor

from nmt.model.attention import Visibility, attention_weights
from nmt.paper import BASE, BIG
from nmt.training.schedule import inverse_square_root

WARMUP = BASE["training.warmup_steps"]
KEYS, QUERIES, SEEDS = 64, 256, 20
SIZES = [2**n for n in range(11)]  # values of d_k


def draw_learning_rate(axes: Any) -> list[str]:
    """Plots Eq. 3 for the base and big models, and returns both peaks."""
    steps, lines = range(1, 50_001, 25), []
    for name, d_model in (("base", BASE["model.d_model"]), ("big", BIG["model.d_model"])):
        rates = [inverse_square_root(step, d_model, WARMUP) for step in steps]
        peak = inverse_square_root(WARMUP, d_model, WARMUP)
        axes.plot(steps, rates, label=f"{name}, d_model {d_model}: at most {peak:.2e}")
        lines.append(f"{name}: peak {peak:.2e} at step {WARMUP:,}")
    axes.axvline(WARMUP, color="grey", linestyle=":", label=f"warm-up ends, step {WARMUP:,}")
    axes.set(xlabel="step", ylabel="learning rate", title="Learning rate (Eq. 3)", xlim=0, ylim=0)
    axes.legend()
    return lines


def draw_scaling(variances: Any, norms: Any) -> list[str]:
    """Plots the variance of q·k, and the gradient of the softmax with and without scaling."""
    names = {True: "softmax(q·k / √d_k)", False: "softmax(q·k)"}
    measured = [score_variance(d_k) for d_k in SIZES]
    variances.loglog(SIZES, measured, marker="o", linestyle="", label="measured", base=2)
    variances.loglog(SIZES, SIZES, color="grey", linestyle=":", label="d_k", base=2)
    variances.set(xlabel="d_k", ylabel="variance of q·k", title="The scores grow (footnote 4)")
    variances.legend(title="components of q and k from N(0, 1)")
    lines = [f"{'d_k':>6}  {'variance of q·k':>16}  {'scaled':>10}  {'unscaled':>10}  norm of the "
             "Jacobian"]  # fmt: skip
    medians = {}
    for is_scaled, name in names.items():
        low, middle, high = _quantiles(is_scaled)
        (line,) = norms.plot(SIZES, middle, marker="o", label=name)
        norms.fill_between(SIZES, low, high, alpha=0.3, color=line.get_color())
        medians[is_scaled] = middle
    norms.set_xscale("log", base=2)
    norms.set_yscale("log")
    norms.set(xlabel="d_k", ylabel="norm of the softmax's Jacobian",
              title="The gradient vanishes without the scale (§3.2.1)")  # fmt: skip
    norms.legend(title=f"Frobenius norm, {KEYS} keys, median of {QUERIES} queries;\n"
                       f"bands: 95% of {SEEDS} draws")  # fmt: skip
    for row in zip(SIZES, measured, medians[True], medians[False], strict=True):
        lines.append("{:>6}  {:>16.1f}  {:>10.4f}  {:>10.4f}".format(*row))
    return lines


def score_variance(d_k: int, seed: int = 0) -> float:
    """Returns the variance of q·k over random queries and keys (d_k according to footnote 4)."""
    query, key = _drawn(4 * QUERIES, d_k, seed)
    return float((query @ key.T).var())


def _quantiles(is_scaled: bool) -> tuple[Any, Any, Any]:
    norms = torch.tensor(
        [[jacobian_norm(d_k, seed, is_scaled) for seed in range(SEEDS)] for d_k in SIZES]
    )
    low, middle, high = norms.quantile(torch.tensor([0.025, 0.5, 0.975]), dim=1).numpy()
    return low, middle, high


def jacobian_norm(d_k: int, seed: int, is_scaled: bool) -> float:
    """Returns the median over queries of ||diag(p) - p p^T||, where p are the attention weights."""
    query, key = _drawn(KEYS, d_k, seed)
    query = query if is_scaled else query * d_k**0.5
    p = attention_weights(query, key, Visibility())  # (QUERIES, KEYS)
    return float(torch.linalg.matrix_norm(p.diag_embed() - p[:, :, None] * p[:, None]).median())


def _drawn(keys: int, d_k: int, seed: int) -> tuple[Tensor, Tensor]:
    """Returns queries (QUERIES, d_k) and keys (keys, d_k) with components from N(0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(QUERIES, d_k, generator=generator, dtype=torch.float64)
    return query, torch.randn(keys, d_k, generator=generator, dtype=torch.float64)
