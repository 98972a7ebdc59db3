"""Chooses the fastest execution path whose results agree with the reference implementation.

An execution path (see `FastPath`) is one of several implementations of the model and the loss for
training. The slowest path, "plain", is the reference implementation.
Each time a run starts or resumes, faster paths are compared with the reference implementation on
the first micro-batch. If a path raises an error or produces different results, a warning is shown
and the next slower path is tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from nmt.config import Config
from nmt.data.layout import Batch
from nmt.errors import InputError, Note, is_out_of_memory
from nmt.model.devices import is_gpu
from nmt.model.kernels.dropout import Dropout
from nmt.model.kernels.flex import flex_suits
from nmt.model.special_ids import PAD_ID
from nmt.runs.state import FastPath
from nmt.training.begin import Run
from nmt.training.compiling import compile_layers, uncompile_layers
from nmt.training.distributed import Ranks
from nmt.training.gradient_graphs import GradientGraphs
from nmt.training.loading import steps_of
from nmt.training.loss import TransformerLoss
from nmt.training.step import autocast

_PLAIN_TOKENS = 2048  # tokens per reference call; their fp32 logits take 300 MB
_TOLERANCE = {"fp32": 1e-4, "bf16": 2**-8}  # relative; for bf16, the spacing just below 1
_LEAST_DROPOUT = 1e-9  # drops hardly any element
_NAMES: dict[FastPath, str] = {
    "flex": "compiled layers with FlexAttention",
    "compiled": "compiled layers",
    "eager": "layers that are not compiled",
    "plain": "plain attention and an unchunked loss",
}


def is_compiled(path: FastPath | None) -> bool:
    """Returns whether a path uses compiled layers, which need micro-batches of a fixed shape."""
    return path in ("flex", "compiled")


def possible_paths(config: Config, ranks: Ranks) -> list[FastPath]:
    """Returns the execution paths to try on this device, fastest first.

    The list is empty on a CPU if layers are not compiled, because only one path is possible there.
    """
    on_gpu, wanted = ranks.device.type == "cuda", config.training.compile
    paths: list[FastPath] = []
    if wanted is True or (wanted == "auto" and on_gpu):
        is_bf16 = config.training.precision == "bf16"
        if is_bf16 and not config.training.deterministic and flex_suits(config.model, ranks.device):
            paths.append("flex")
        paths.append("compiled")
    return [*paths, "eager", "plain"] if paths or on_gpu else []


def choose_path(
    loss_module: TransformerLoss, run: Run, step: int, former: FastPath | None, note: Note
) -> FastPath | None:
    """Selects the fastest execution path whose results agree with the reference implementation.

    The results are compared on the first micro-batch of the step after `step`. Comparing the
    results does not change weights, gradients or random states. All ranks choose the same path.

    Args:
        loss_module: the model and its loss, before layers are compiled.
        former: the path that the run has used so far, or None for a new run. A path that is faster
            than `former` is never chosen.
        note: a function that is called with a warning if a path is rejected or `former` is not
            available.

    Returns:
        The chosen path, or None if only one path is possible on this device.
    """
    paths = possible_paths(run.config, run.ranks)
    if former in paths:
        paths = paths[paths.index(former) :]
    elif step and (former or paths[:1] not in ([], ["eager"])):
        now = _NAMES[paths[0] if paths else "eager"]
        note(
            f"nmt: warning: Up to step {step} the run used {_NAMES[former or 'eager']}; on this "
            f"device it continues with {now}. Rounding and dropout masks therefore differ."
        )
    problems = list[str]()
    reference: Reference | None = None
    for path in paths:
        batch = None if path == "plain" else _first_micro_batch(run, step, path)
        if batch is None:
            set_path(loss_module, path)
            break
        reference = reference or Reference.of(loss_module, batch, run.config)
        set_path(loss_module, path)
        problem = reference.problem(loss_module, batch, run.config)
        if not run.ranks.max(problem is not None):
            break
        problems.append(f"{_NAMES[path]} ({problem or 'on another rank'})")
    if problems:
        note(
            f"nmt: warning: On this machine, {' and '.join(problems)} did not reproduce the "
            f"results of the reference implementation. The run uses {_NAMES[path]}, which may be "
            "slower."
        )
    return path if paths else None


def set_path(loss_module: TransformerLoss, path: FastPath) -> None:
    """Sets a model's execution path; layers are compiled when they are first called.

    On a GPU, steps with compiled layers are replayed as CUDA graphs (see `gradient_graphs`).
    """
    transformer = loss_module.transformer
    uncompile_layers(transformer)
    loss_module.graphs = None
    if is_compiled(path):
        compile_layers(transformer)
        if is_gpu(transformer.embedding.device):
            loss_module.graphs = GradientGraphs(loss_module.parameters())
    attention: dict[FastPath, Literal["flex", "plain"]] = {"flex": "flex", "plain": "plain"}
    transformer.attention = attention.get(path, "fused")
    loss_module.is_plain = path == "plain"


def _first_micro_batch(run: Run, step: int, path: FastPath) -> Batch:
    """Returns this rank's first micro-batch of the step after `step`."""
    with steps_of(run, after=step, is_compiled=is_compiled(path)) as planned:
        _, micro_batches = next(planned)
    return micro_batches[0][1]


@dataclass(frozen=True)
class _Measured:
    """The loss and the gradient norms of a micro-batch, per target token.

    `Reference.errors` contains the error of the loss and the norms of the gradients' errors.
    """

    loss: float
    gradients: dict[str, float]  # gradient norm by parameter name

    @property
    def norm(self) -> float:
        """Returns the total norm of all gradients."""
        return math.hypot(*self.gradients.values())


@dataclass(frozen=True)
class Reference:
    """The results of the reference implementation for one micro-batch.

    Attributes:
        exact: the loss and the gradient norms in fp32.
        gradients: the fp32 gradient of each parameter, by parameter name, in host memory.
        errors: the differences between the reference implementation's results in the run's
            precision and its fp32 results.
    """

    exact: _Measured
    gradients: dict[str, Tensor]
    errors: _Measured

    @classmethod
    def of(cls, loss_module: TransformerLoss, batch: Batch, config: Config) -> Reference:
        """Runs the reference implementation on a few rows of `batch` at a time to save memory."""
        set_path(loss_module, "plain")
        count = max(1, _PLAIN_TOKENS // batch.tgt_out.shape[1])
        rows = [slice(begin, begin + count) for begin in range(0, len(batch.tgt_out), count)]
        pieces = [batch.rows(each) for each in rows]
        in_fp32 = torch.autocast(batch.tgt_out.device.type, enabled=False)
        loss, gradients = _gradients(loss_module, pieces, in_fp32)
        exact = _Measured(loss, {name: float(each.norm()) for name, each in gradients.items()})
        kept = {name: each.cpu() for name, each in gradients.items()}
        del gradients
        reference = cls(exact, kept, exact)
        return replace(reference, errors=reference._errors(loss_module, pieces, config))

    def problem(self, loss_module: TransformerLoss, batch: Batch, config: Config) -> str | None:
        """Returns the reason why the model's execution path is rejected, or None if it is accepted.

        The first check lowers the probability of dropout to almost 0, and compares the loss and
        each parameter's gradient with the values that the reference implementation computes in fp32
        without dropout. Dropout stays enabled, because the compiler fuses operations differently
        without dropout. The limit for an error is twice the error of the reference implementation
        in the run's precision, plus `_TOLERANCE` times the size of the fp32 value. The size of a
        gradient is its norm plus one hundredth of the total norm of all gradients.

        The second check uses the configured probability of dropout, because layers are compiled
        separately for each probability. Because the dropout masks of execution paths differ, the
        second check requires only that the gradients are finite and that the loss is between 0.5
        and 2 times the fp32 loss.

        Raises:
            InputError: memory ran out.
        """
        try:
            with _almost_without_dropout(loss_module):
                errors = self._errors(loss_module, [batch], config, drops=True)
            loss_module.transformer.randomness.seed(
                config.training.seed
            )  # training seeds it again for each micro-batch
            precision = autocast(config, batch.tgt_out.device)
            loss, gradients = _gradients(loss_module, [batch], precision, drops=True)
            norm = sum(float(each.norm()) for each in gradients.values())
        except Exception as error:
            if is_out_of_memory(getattr(error, "inner_exception", error)):
                raise InputError(
                    "Out of memory in the first micro-batch. Raise training.micro_batches to "
                    "divide each step into smaller micro-batches."
                ) from None
            cause = getattr(error, "inner_exception", error)  # the compiler wraps errors
            first = str(cause).strip().partition("\n")[0]
            return f"{type(cause).__name__}: {first:.200}"
        allowed = _TOLERANCE[config.training.precision]

        def is_within(error: float, plain: float, size: float) -> bool:  # False if it is NaN
            return error <= 2 * plain + allowed * size

        exact, plain = self.exact, self.errors
        if not is_within(errors.loss, plain.loss, exact.loss):
            shares = _share(errors.loss, exact.loss, plain.loss)
            return f"the loss differs from the reference loss by {shares}"
        for name, size in exact.gradients.items():
            plain_error = plain.gradients[name]
            if not is_within(errors.gradients[name], plain_error, size + 0.01 * exact.norm):
                shares = _share(errors.gradients[name], size, plain_error)
                return f"the gradient of {name} differs from the reference gradient by {shares}"
        if not (exact.loss <= 2 * loss <= 4 * exact.loss and math.isfinite(norm)):
            exact_norm = sum(exact.gradients.values())
            return (
                f"with dropout, the loss is {loss:.3g} and the sum of the gradient norms is "
                f"{norm:.3g}; the reference values in fp32 without dropout are {exact.loss:.3g} "
                f"and {exact_norm:.3g}"
            )
        return None

    def _errors(
        self,
        loss_module: TransformerLoss,
        batches: list[Batch],
        config: Config,
        *,
        drops: bool = False,
    ) -> _Measured:
        precision = autocast(config, batches[0].tgt_out.device)
        loss, gradients = _gradients(loss_module, batches, precision, drops=drops)
        errors = {
            name: float((gradients[name] - exact.to(gradients[name].device)).norm())
            for name, exact in self.gradients.items()
        }
        return _Measured(abs(loss - self.exact.loss), errors)


@contextmanager
def _almost_without_dropout(module: nn.Module) -> Iterator[None]:
    """Lowers positive dropout probabilities to `_LEAST_DROPOUT` during a `with` statement."""
    before = {each: each.p for each in module.modules() if isinstance(each, Dropout) and each.p > 0}
    for each in before:
        each.p = _LEAST_DROPOUT
    try:
        yield
    finally:
        for each, p in before.items():
            each.p = p


def _share(error: float, size: float, plain: float) -> str:
    its, reference = error / (size or 1), plain / (size or 1)
    return f"{its:.2%} (in the reference implementation: {reference:.2%})"


def _gradients(
    loss_module: TransformerLoss,
    batches: list[Batch],
    precision: torch.autocast,
    *,
    drops: bool = False,
) -> tuple[float, dict[str, Tensor]]:
    """Returns the loss and the gradients, divided by the number of target tokens.

    Also clears the gradients in `loss_module`.

    Args:
        drops: whether to apply dropout.
    """
    tokens = max(1, sum(int((batch.tgt_out != PAD_ID).sum()) for batch in batches))
    was_training, loss = loss_module.training, 0.0
    loss_module.train(drops)
    try:
        for batch in batches:
            with precision:
                part, _ = loss_module(batch)
            part = part / tokens
            part.backward()
            loss += float(part.detach())
        gradients = {
            name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for name, parameter in loss_module.named_parameters()
        }
    finally:
        loss_module.zero_grad()
        loss_module.train(was_training)
    return loss, gradients
