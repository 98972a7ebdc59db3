"""Pictures of the paper's formulas and of its Table 1, drawn by this project's own code.

    python recipes/paper_figures/figures.py figures

writes learning_rate.png, positions.png, scaling.png and table1.png.
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.cli.terminal import run_script
from nmt.config import Model
from nmt.errors import InputError
from nmt.model.attention import Cache, SelfAttention, Visibility, attention, attention_weights
from nmt.model.dropout import Randomness
from nmt.model.positions import sinusoids
from nmt.paper import BASE, BIG, TABLE_1
from nmt.training.schedule import inverse_square_root

WARMUP = BASE["training.warmup_steps"]
KEYS, QUERIES, SEEDS = 64, 256, 20  # of the picture of scaling
# Table 1's d, r and k; the representation of size d is that of every layer type
D_MODEL, HEADS, NEIGHBOURHOOD, KERNEL = 256, 4, 64, 3
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
REPEATS = 9


def main(argv: Sequence[str] | None = None) -> None:
    """Draws the pictures into the folder named in `argv`."""
    parser = argparse.ArgumentParser(description="Draws the paper's formulas and its Table 1.")
    parser.add_argument("folder", type=Path, nargs="?", default="figures", help="default: figures")
    folder = parser.parse_args(argv).folder
    for name, draw in (
        ("learning_rate", draw_learning_rate),
        ("positions", draw_positions),
        ("scaling", draw_scaling),
        ("table1", draw_table1),
    ):
        path = folder / f"{name}.png"
        with figure(path) as axes:
            draw(axes)
        print(path, flush=True)


@contextmanager
def figure(path: Path) -> Iterator[Any]:
    """Axes to draw on; the picture is saved at the end of the block."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("matplotlib is missing, this recipe, pip install -e '.[plots]'") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    FigureCanvasAgg(picture)
    yield picture.add_subplot()
    picture.savefig(path)


def draw_learning_rate(axes: Any) -> None:
    """Eq. 3 for base and big."""
    steps = range(1, 50_001, 25)
    for name, d_model in (("base", BASE["model.d_model"]), ("big", BIG["model.d_model"])):
        rates = [inverse_square_root(step, d_model, WARMUP) for step in steps]
        peak = inverse_square_root(WARMUP, d_model, WARMUP)
        axes.plot(steps, rates, label=f"{name}, d_model {d_model}: at most {peak:.2e}")
    axes.axvline(WARMUP, color="grey", linestyle=":", label=f"warm-up ends, step {WARMUP:,}")
    axes.set(xlabel="step", ylabel="learning rate", title="Learning rate (Eq. 3)", xlim=0, ylim=0)
    axes.legend()


def draw_positions(axes: Any) -> None:
    """The positional encodings of §3.5, sines and cosines interleaved."""
    image = axes.imshow(sinusoids(128, 128).numpy(), aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
    axes.figure.colorbar(image, ax=axes)
    axes.set(xlabel="dimension", ylabel="position", title="Positional encodings (§3.5)")


def draw_scaling(axes: Any) -> None:
    """§3.2.1: the gradient through the softmax, with and without 1 / sqrt(d_k)."""
    sizes = [2**n for n in range(11)]
    for name, is_scaled in (("softmax(q·k / √d_k)", True), ("softmax(q·k)", False)):
        norms = torch.stack(
            [torch.tensor([jacobian_norm(d_k, seed, is_scaled) for seed in range(SEEDS)])
             for d_k in sizes]
        )  # fmt: skip
        low, middle, high = norms.quantile(torch.tensor([0.025, 0.5, 0.975]), dim=1).numpy()
        (line,) = axes.plot(sizes, middle, marker="o", label=name)
        axes.fill_between(sizes, low, high, alpha=0.3, color=line.get_color())
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="d_k", ylabel="Frobenius norm of the softmax's Jacobian, median over queries",
             title="Why the dot products are scaled (§3.2.1)")  # fmt: skip
    axes.legend(title=f"{KEYS} keys; components of q and k from N(0, 1);\n"
                      f"bands: 95% of {SEEDS} draws of {QUERIES} queries")  # fmt: skip


def jacobian_norm(d_k: int, seed: int, is_scaled: bool) -> float:
    """Median over queries of ||diag(p) - p p^T||, p the attention weights of a random query."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(QUERIES, d_k, generator=generator, dtype=torch.float64)
    key = torch.randn(KEYS, d_k, generator=generator, dtype=torch.float64)
    query = query if is_scaled else query * d_k**0.5
    p = attention_weights(query, key, Visibility())  # (QUERIES, KEYS)
    return float(torch.linalg.matrix_norm(p.diag_embed() - p[:, :, None] * p[:, None]).median())


class RestrictedSelfAttention(SelfAttention):
    """Table 1's restricted self-attention: each position sees those at most r / 2 away.

    Queries in blocks of r / 2 attend to the keys of their own block and its two neighbours, in time
    and memory of O(r n d); masking the scores of full attention would leave O(n^2 d).
    """

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__(model, randomness)
        self.window = model.attention_window

    def forward(self, x: Tensor, visibility: Visibility, cache: Cache | None = None) -> Tensor:
        """(1, C, D) -> (1, C, D); C a multiple of r / 2. Nothing but the window restricts it."""
        width, length = self.window // 2, x.shape[1]
        query, key, value = (part[0].transpose(0, 1) for part in self.project(x))  # (C, H, K)
        query = query.unflatten(0, (-1, width)).transpose(1, 2)  # (C / w, H, w, K)
        key, value = (
            F.pad(part, (0, 0, 0, 0, width, width)).unfold(0, 3 * width, width).transpose(2, 3)
            for part in (key, value)
        )  # (C / w, H, 3 w, K)
        at = torch.arange(length, device=x.device).view(-1, width)
        looked_at = at[:, :1] + torch.arange(-width, 2 * width, device=x.device)
        inside = ((looked_at >= 0) & (looked_at < length)).long()
        seen = Visibility((torch.ones_like(at), inside), (at, looked_at), window=self.window)
        attended = attention(query, key, value, seen, self.dropout)  # (C / w, H, w, K)
        return self.output(attended.transpose(1, 2).reshape(1, length, -1))


class Recurrent(nn.LSTM):
    """(1, C, D) -> (1, C, D)"""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[0]


class Convolutional(nn.Conv1d):
    """(1, C, D) -> (1, C, D)"""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


def layers() -> dict[str, nn.Module]:
    """The layer types of Table 1, by name with complexity."""
    d_k = D_MODEL // HEADS
    model = Model(d_model=D_MODEL, heads=HEADS, d_k=d_k, d_v=d_k, attention_window=NEIGHBOURHOOD)
    restricted = f"{TABLE_1['restricted self-attention']}, r = {NEIGHBOURHOOD}"
    convolution = f"{TABLE_1['convolutional']}, k = {KERNEL}"
    return {
        f"self-attention, {TABLE_1['self-attention']}": SelfAttention(model, Randomness()),
        f"restricted self-attention, {restricted}": RestrictedSelfAttention(model, Randomness()),
        f"recurrent (LSTM), {TABLE_1['recurrent']}": Recurrent(D_MODEL, D_MODEL, batch_first=True),
        f"convolutional, {convolution}": Convolutional(
            D_MODEL, D_MODEL, KERNEL, padding=KERNEL // 2
        ),
    }


def draw_table1(axes: Any, lengths: Sequence[int] = LENGTHS, repeats: int = REPEATS) -> None:
    """Table 1 in seconds: one layer of each type, forward and backward, against length."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    medians = timed({name: layer.to(device) for name, layer in layers().items()}, lengths, repeats)
    for name, times in medians.items():
        axes.loglog(lengths, times, marker="o", label=name, base=2)
        if name.startswith(("self", "recurrent")):
            power = 2 if name.startswith("self") else 1
            guide = [times[-1] * (length / lengths[-1]) ** power for length in lengths]
            axes.loglog(lengths, guide, color="grey", linestyle=":", base=2)
    where = "a GPU" if device.type == "cuda" else f"CPU, threads: {torch.get_num_threads()}"
    axes.set_yscale("log", base=10)
    axes.set(xlabel="sequence length n", ylabel="seconds, forward and backward",
             title=f"Table 1, timed: one sequence, d = {D_MODEL}, fp32, {where}")  # fmt: skip
    axes.legend(title=f"medians of {repeats}; dotted: slopes of n and n²")


def timed(
    by_name: dict[str, nn.Module], lengths: Sequence[int], repeats: int
) -> dict[str, list[float]]:
    """Median seconds of each layer at each length.

    Every layer is timed once at every length before any is timed again, so that a
    slow moment of the machine spoils single times and not a curve.
    """
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(repeats + 1):
        for length in lengths:
            for name, layer in by_name.items():
                times.setdefault((name, length), []).append(seconds(layer, length))
    return {  # the first of each has warmed up
        name: [statistics.median(times[name, length][1:]) for length in lengths] for name in by_name
    }


def seconds(layer: nn.Module, length: int) -> float:
    """The time of a layer's forward and backward pass over one sequence."""
    device = next(layer.parameters()).device
    x = torch.randn(1, length, D_MODEL, device=device, requires_grad=True)
    began = time.perf_counter()
    out = layer(x, Visibility()) if isinstance(layer, SelfAttention) else layer(x)
    out.sum().backward()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


if __name__ == "__main__":
    run_script("figures", main)
