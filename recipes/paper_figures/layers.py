"""Table 1: time, sequential operations and maximum path length of each layer type."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.benchmark import machine
from nmt.config import Model
from nmt.model.attention import Cache, SelfAttention, Visibility, attention
from nmt.model.kernels.dropout import Randomness
from nmt.paper import TABLE_1

# Table 1's d, r and k; all layer types have the width d
D_MODEL, HEADS, NEIGHBOURHOOD, KERNEL = 256, 4, 64, 3
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
REPEATS = 9


class RestrictedSelfAttention(SelfAttention):
    """Table 1's restricted self-attention: each position can attend to positions within r / 2.

    Each block of r / 2 queries attends to the keys in the same block and in the two adjacent
    blocks, which takes O(r n d) time. Masking the scores of full attention would take O(n^2 d).
    """

    def __init__(self, model: Model, randomness: Randomness):
        super().__init__(model, randomness)
        self.window = model.attention_window

    def forward(self, x: Tensor, visibility: Visibility, cache: Cache | None = None) -> Tensor:
        """Computes (1, C, D) -> (1, C, D), where C is a multiple of r / 2; ignores `visibility`."""
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
    """A recurrent layer: (1, C, D) -> (1, C, D)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[0]


class Convolutional(nn.Conv1d):
    """A convolutional layer: (1, C, D) -> (1, C, D)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


def layers() -> dict[str, nn.Module]:
    """Returns the layer types of Table 1 by their names in the paper."""
    d_k = D_MODEL // HEADS
    model = Model(d_model=D_MODEL, heads=HEADS, d_k=d_k, d_v=d_k, attention_window=NEIGHBOURHOOD)
    return {
        "self-attention": SelfAttention(model, Randomness()),
        "recurrent": Recurrent(D_MODEL, D_MODEL, batch_first=True),
        "convolutional": Convolutional(D_MODEL, D_MODEL, KERNEL, padding=KERNEL // 2),
        "restricted self-attention": RestrictedSelfAttention(model, Randomness()),
    }


def sequential_operations(name: str, length: int) -> int:
    """Returns the number of sequential operations of a layer."""
    return length if name == "recurrent" else 1


def longest_path(name: str, length: int) -> int:
    """Returns the number of layers, or recurrent steps, that connect the two ends of a sequence.

    A layer connects an output position directly to all positions on which the output depends. A
    step of a recurrent layer connects adjacent positions. The paper's path length of O(log_k(n))
    for convolutions holds for dilated kernels. The contiguous kernels used here have O(n/k).
    """
    reach = {"self-attention": length, "recurrent": 1, "convolutional": KERNEL // 2,
             "restricted self-attention": NEIGHBOURHOOD // 2}[name]  # fmt: skip
    return math.ceil((length - 1) / reach)


def draw_table1(
    axes: Any, paths_axes: Any, lengths: Sequence[int] = LENGTHS, repeats: int = REPEATS
) -> list[str]:
    """Plots the time of forward and backward passes, and the path length, by sequence length."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    medians = timed({name: layer.to(device) for name, layer in layers().items()}, lengths, repeats)
    path_lengths = {name: [longest_path(name, n) for n in lengths] for name in medians}
    for name, times in medians.items():
        axes.loglog(lengths, times, marker="o", label=f"{name}, {TABLE_1[name]}", base=2)
        if name in ("self-attention", "recurrent"):
            power = 2 if name == "self-attention" else 1
            guide = [times[-1] * (length / lengths[-1]) ** power for length in lengths]
            axes.loglog(lengths, guide, color="grey", linestyle=":", base=2)
        # The curves of convolutional and recurrent layers coincide.
        style = "--" if name == "convolutional" else "-"
        paths_axes.loglog(lengths, path_lengths[name], style, marker="o", label=name, base=2)
    where = "a GPU" if device.type == "cuda" else f"CPU, threads: {torch.get_num_threads()}"
    axes.set_yscale("log", base=10)
    axes.set(xlabel="sequence length n", ylabel="seconds, forward and backward",
             title=f"Table 1, timed: one sequence, d = {D_MODEL}, fp32, {where}")  # fmt: skip
    axes.legend(title=f"medians of {repeats}; dotted: slopes of n and n²", fontsize=8)
    paths_axes.set_yscale("log", base=10)
    paths_axes.set(xlabel="sequence length n", ylabel="layers, or steps of the recurrent one",
                   title="Longest path between two positions")  # fmt: skip
    paths_axes.legend(title=f"k = {KERNEL}, r = {NEIGHBOURHOOD}", fontsize=8)
    return _table(medians, path_lengths, lengths)


def _table(
    medians: dict[str, list[float]], path_lengths: dict[str, list[int]], lengths: Sequence[int]
) -> list[str]:
    """Returns Table 1 with numbers for the shortest and the longest sequence."""
    ends = {0: lengths[0], -1: lengths[-1]}
    head = "".join(f"  {f'n = {n}: ops':>13}  {'path':>5}  {'ms':>7}" for n in ends.values())
    lines = [f"{'':>25}  {'per layer':>9}{head}"]
    for name, times in medians.items():
        cells = "".join(
            f"  {sequential_operations(name, n):>13}  {path_lengths[name][i]:>5}"
            f"  {times[i] * 1000:>7.1f}"
            for i, n in ends.items()
        )
        lines.append(f"{name:>25}  {TABLE_1[name]:>9}{cells}")
    return lines


def timed(
    by_name: dict[str, nn.Module], lengths: Sequence[int], repeats: int
) -> dict[str, list[float]]:
    """Returns the median seconds of each layer for each length.

    Each round times every layer once for every length, so that a slow phase of the machine affects
    single measurements, not a whole curve.
    """
    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(repeats + 1):
        for length in lengths:
            for name, layer in by_name.items():
                times.setdefault((name, length), []).append(seconds(layer, length))
    return {  # excludes the first round, which is a warm-up
        name: [statistics.median(times[name, length][1:]) for length in lengths] for name in by_name
    }


def seconds(layer: nn.Module, length: int) -> float:
    """Returns the seconds of a layer's forward and backward pass over one sequence."""
    device = next(layer.parameters()).device
    x = torch.randn(1, length, D_MODEL, device=device, requires_grad=True)
    inputs = (x, Visibility()) if isinstance(layer, SelfAttention) else (x,)
    return machine.seconds(lambda: layer(*inputs).sum().backward(), device)
