"""Checks for GPUs, as functions of a device; on a CPU, they only test their own code.

`test_gpu.py` calls each check for a CPU. On machines with GPUs, it also runs each check in its own
process: `python -m tests.training.gpu_checks NAME FOLDER`.
"""

import json
import os
import shutil
import signal
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from nmt.config import Config, load
from nmt.training import finish
from nmt.training import loop as training
from nmt.training.run_log import read_log
from nmt.translator import Translator
from tests.training.children import Fault, after_step, at_step, send, train, train_on
from tests.training.runs import fingerprint, losses, run

FAST = {
    "model__d_model": 256, "model__d_ff": 1024, "model__heads": 4, "model__d_k": 64,
    "model__d_v": 64, "training__precision": "bf16", "training__compile": True,
    "training__batch_tokens": 4000, "training__max_steps": 60, "training__checkpoint_every": 10,
    "training__validate_every": 60,
}  # fmt: skip
PLAIN = {"model__dropout": 0.0, "training__validate_every": 100, "training__checkpoint_every": 100,
         "training__learning_rate_factor": 0.1, "decoding__beam": 1}  # fmt: skip
TEXTS = ["A man reads a book.", "Two dogs run.", "The woman has a red hat.", "Who is there?", ""]


@dataclass(frozen=True)
class Place:
    """The device and the folder of a check; the folder has `config.yaml` with the settings."""

    device: torch.device
    folder: Path

    @property
    def is_gpu(self) -> bool:
        return self.device.type == "cuda"

    def config(self, run: str, **changes) -> Config:
        """Returns the settings of the run `run`; `changes` are given as for `make_settings`."""
        changes |= {"training__run_directory": str(self.folder / run)}
        overrides = [f"{key.replace('__', '.')}={json.dumps(v)}" for key, v in changes.items()]
        return load(self.folder / "config.yaml", overrides)

    def trained(self, run: str, fault: Fault | None = None, status: int = 0, **changes) -> Path:
        """Trains a run in another process, which must end with the given exit status."""
        config = self.config(run, **changes)
        child = train(config, self.folder / f"{run} said", fault)
        assert child.wait() == status, child.said
        return self.folder / run

    def model(self) -> Path:
        """Returns a finished model; the first call trains it."""
        if not (self.folder / "finished/model").exists():
            self.trained("finished")
        return self.folder / "finished/model"


def _on_cpu() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


def a_fast_run_resumes_to_the_bit(place: Place) -> None:
    changes, step, last = (FAST, 33, 60) if place.is_gpu else ({}, 7, 12)
    straight = place.trained("straight", **changes)
    for number in (signal.SIGKILL, signal.SIGTERM) if place.is_gpu else (signal.SIGTERM,):
        name = f"stopped by {number}"
        status = 143 if number == signal.SIGTERM else -number
        place.trained(name, at_step(step, send(number)), status, **changes)
        resumed = place.trained(name, **changes)
        assert fingerprint(resumed, last) == fingerprint(straight, last)
        assert losses(resumed) == losses(straight)


def losses_are_those_of_a_cpu(place: Place) -> None:
    """Rounding differences grow as training proceeds, in fp32 on an H200 from 1e-7 to 3e-4."""
    steps = 50 if place.is_gpu else 3
    kinds = [
        ("bf16", False, 1e-3, 1e-2),
        ("fp32", False, 1e-6, 1e-3),
        ("fp32", True, 1e-6, 1e-3),
        ("bf16", True, 1e-3, 1e-2),
    ]
    for precision, is_compiled, *tolerances in kinds if place.is_gpu else kinds[:1]:
        changes = PLAIN | {"training__max_steps": steps, "training__precision": precision}
        name = f"{precision} {is_compiled}"
        ours = losses_of(place.trained(name, **changes, training__compile=is_compiled))
        theirs = losses_of(place.trained(f"{name} cpu", _on_cpu, **changes))
        assert len(ours) == len(theirs) == steps
        errors = [abs(a / b - 1) for a, b in zip(ours, theirs, strict=True)]
        print(f"{name}: up to step 10 {max(errors[:10]):.1e}, later {max(errors):.1e}")
        assert max(errors[:10]) <= tolerances[0] and max(errors) <= tolerances[1], errors


def losses_of(run: Path) -> list[float]:
    return [line["loss"] for line in read_log(run) if "event" not in line]


def no_step_waits_for_the_device(place: Place) -> None:
    """Excludes the first two steps, which compile, allocate and move tables."""
    step, taken = training.optimizer_step, list[int]()
    forbid = torch.cuda.set_sync_debug_mode if place.is_gpu else lambda mode: None

    def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
        forbid("error" if number > 2 else "default")
        taken.append(number)
        try:
            return step(module, loss_module, optimizer, micro_batches, number, *rest)
        finally:
            forbid("default")

    for is_compiled in (False, True) if place.is_gpu else (False,):
        changes = {"training__compile": is_compiled, "training__log_every": 100}
        taken.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training, "optimizer_step", optimizer_step)
            run(place.config(f"waits {is_compiled}", **(FAST if place.is_gpu else {}) | changes))
        assert taken == list(range(1, 61 if place.is_gpu else 13))


def validations_keep_no_more_memory_than_the_first(place: Place) -> None:
    validate, allocated = training.validate, list[int]()

    def validating(*arguments):
        result = validate(*arguments)
        allocated.append(torch.cuda.memory_allocated() if place.is_gpu else 0)
        return result

    changes = FAST | {"training__compile": False} if place.is_gpu else {}
    with pytest.MonkeyPatch.context() as patch:
        for module in (training, finish):
            patch.setattr(module, "validate", validating)
        run(place.config("validations", **changes | {"training__validate_every": 3}))
    assert len(allocated) > 3
    print("bytes after each validation", allocated)
    *in_training, _ = allocated  # the last validation has two models in memory
    assert max(in_training) <= 1.01 * in_training[0]


def two_ranks_are_as_one(place: Place) -> None:
    changes = PLAIN | {"training__max_steps": 6, "training__micro_batches": 2}
    alone = place.trained("alone", **changes)
    children = train_on(2, place.config("two", **changes), place.folder / "two said")
    assert [child.wait() for child in children] == [0, 0], children[0].said
    assert losses_of(place.folder / "two") == pytest.approx(losses_of(alone), rel=1e-5)


def a_lost_rank_is_named(place: Place) -> None:
    """Meanwhile, the GPU of the other rank waits in an operation that the host cannot abort."""
    for number in (signal.SIGKILL, signal.SIGSTOP) if place.is_gpu else (signal.SIGKILL,):
        name = f"lost by {number}"
        config = place.config(name, **PLAIN, training__micro_batches=2, training__log_every=100,
                              training__process_group_timeout_s=30)  # fmt: skip
        faults = {1: after_step(7, send(number))}
        children = train_on(2, config, place.folder / f"{name} said", faults)
        assert children[0].wait() == 2
        children[1].process.kill()
        [line] = [line for line in children[0].said.splitlines() if "error" in line]
        assert "lost rank 1 of 2" in line


def translated(translator: Translator) -> list[tuple[str, float]]:
    return [(each.text, each.score) for each in translator.translate(TEXTS)]


def a_second_gpu_translates_as_the_first(place: Place) -> None:
    second = "cuda:1" if place.is_gpu else "cpu"
    first, other = (
        translated(Translator.load(place.model(), device=device, precision="fp32"))
        for device in (str(place.device), second)
    )
    assert [text for text, _ in other] == [text for text, _ in first]
    assert [score for _, score in other] == pytest.approx([score for _, score in first], rel=1e-4)


def graphs_translate_as_plain_steps_do(place: Place) -> None:
    captured, graph = list[object](), torch.cuda.graph

    def counted(*arguments, **options):
        captured.append(arguments)
        return graph(*arguments, **options)

    def refused(*_, **__):
        raise RuntimeError("no graph here")

    found = []
    for capture in (counted, refused):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.cuda, "graph", capture)
            translator = Translator.load(place.model(), device=str(place.device), precision="fp32")
            found += [translated(translator), translated(translator)]  # captured, then replayed
    assert bool(captured) == place.is_gpu
    for other in found[1:]:
        assert [text for text, _ in other] == [text for text, _ in found[0]]
        scores = [[score for _, score in each] for each in (other, found[0])]
        assert scores[0] == pytest.approx(scores[1], rel=1e-4)


def long_sentences_leave_later_translations_as_they_were(place: Place) -> None:
    """Long sentences need a longer table of positions, but captured steps still read the first."""
    translator = Translator.load(place.model(), device=str(place.device), precision="fp32")
    before = translated(translator)
    long = " ".join(["house"] * 400)
    assert len(translator.score(long, long).pieces) > 512
    if place.is_gpu:  # overwrites the first table if that was freed
        _ = [torch.full((512, 32), 9.0, device=place.device) for _ in range(100)]
    assert translated(translator) == before


def the_cost_of_deterministic_mode_is_measured(place: Place) -> None:
    speeds: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(3 if place.is_gpu else 1):  # alternates, so that conditions are the same
        for deterministic in speeds:
            changes = FAST if place.is_gpu else PLAIN | {"training__max_steps": 2}
            changes = changes | {"training__deterministic": deterministic}
            trained = place.trained(f"speed {turn}{deterministic}", **changes)
            lines = [line for line in read_log(trained) if "event" not in line]
            median = statistics.median(line["tokens_per_second"] for line in lines[-40:])
            speeds[deterministic].append(median)
            shutil.rmtree(trained)
    slow, fast = (statistics.median(speeds[mode]) for mode in (True, False))
    print(f"deterministic {slow:.0f}, otherwise {fast:.0f} target tokens/s: {slow / fast:.3f}")


Check = Callable[[Place], None]
CHECKS: dict[Check, int] = {  # the number of GPUs that each check needs
    a_fast_run_resumes_to_the_bit: 1,
    losses_are_those_of_a_cpu: 1,
    no_step_waits_for_the_device: 1,
    validations_keep_no_more_memory_than_the_first: 1,
    two_ranks_are_as_one: 2,
    a_lost_rank_is_named: 2,
    a_second_gpu_translates_as_the_first: 2,
    graphs_translate_as_plain_steps_do: 1,
    long_sentences_leave_later_translations_as_they_were: 1,
    the_cost_of_deterministic_mode_is_measured: 1,
}


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    check = next(check for check in CHECKS if check.__name__ == name)
    check(Place(torch.device("cuda", 0), Path(folder)))
