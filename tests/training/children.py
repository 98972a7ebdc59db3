"""Runs `nmt` in child processes, as one or several ranks, with faults at chosen points.

Children are forked from a server that has imported all modules, so that fifty of them take seconds.
Under torchrun, `-m tests.training.children KILL:1:5 train config.yaml` runs `nmt train` and sends
SIGKILL to rank 1 at step 5.
"""

import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import torch.distributed as dist
import torch.distributed.run

import nmt.training.train
from nmt import training
from nmt.cli import main
from nmt.config import Config
from nmt.training import loop, saving, validation
from nmt.training import step as steps
from tests.patience import PATIENCE_S
from tests.tiny import one_pixel
from tests.training.runs import as_on_a_gpu

Fault = Callable[[], None]
Program = Callable[[list[str]], int | None]

_CONTEXT = multiprocessing.get_context("forkserver")
_STORES: list[dist.TCPStore] = []
_PRELOADED = [
    "nmt.cli", "nmt.lines.translate", "sacrebleu", "tests.training.children",
    "torch.utils.tensorboard",
    "torch._dynamo",  # else the first optimizer imports it, in half of a child's time
    "torch.distributed.run",
]  # fmt: skip
_CONTEXT.set_forkserver_preload(_PRELOADED)
# the server forks, so it must not have a thread that may hold a lock, such as Arrow's
os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")


class Child:
    """A process of `nmt` or `torchrun`, perhaps one of several ranks, with files in `directory`."""

    def __init__(
        self,
        arguments: list[str],
        directory: Path,
        fault: Fault | None = None,
        ranks: dict[str, str] | None = None,
        program: Program = main,
    ):
        directory.mkdir(parents=True, exist_ok=True)
        self.arguments = arguments
        self._said = directory / f"{len(list(directory.iterdir()))}.txt"
        self._written = self._said.with_suffix(".out")
        environment = {"OMP_NUM_THREADS": "1"} | (ranks or {})
        self.process = _CONTEXT.Process(
            target=_run,
            args=(program, arguments, (self._written, self._said), fault, environment),
            daemon=True,  # ends with a test that fails
        )
        self.process.start()

    def wait(self) -> int:
        """Returns the exit status; negative after an unhandled signal."""
        self.process.join(PATIENCE_S)
        if self.process.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGUSR2)  # prints a stack trace
            self.process.join(2)
            self.process.kill()
            pytest.fail(f"still running after {PATIENCE_S} s\n{self.said}")
        return self.process.exitcode

    @property
    def said(self) -> str:
        """Returns the text on standard error."""
        return self._said.read_text() if self._said.exists() else ""

    @property
    def written(self) -> str:
        """Returns the text on standard output."""
        return self._written.read_text()


def _run(
    program: Program, arguments: list[str], files: tuple[Path, Path], fault: Fault | None,
    environment: dict[str, str],
) -> None:  # fmt: skip
    gc.freeze()  # garbage collection would copy the memory shared with the server
    os.environ.update(environment)
    torch.set_num_threads(1)
    validation.write_png = one_pixel
    for number, path in enumerate(files, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    faulthandler.register(signal.SIGUSR2, file=2)
    if fault:
        fault()
    sys.exit(program(arguments))


def nmt(*arguments: object, directory: Path, fault: Fault | None = None) -> Child:
    """Starts `nmt` without input."""
    return Child(list(map(str, arguments)), directory, fault)


def torchrun(*arguments: object, directory: Path) -> Child:
    """Starts torchrun, whose ranks are new processes."""
    return Child(list(map(str, arguments)), directory, program=torch.distributed.run.main)


def train(config: Config, directory: Path, fault: Fault | None = None) -> Child:
    """Starts `nmt train` on `config`."""
    return Child(_training(config, directory), directory, fault)


def _training(config: Config, directory: Path) -> list[str]:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{len(list(directory.iterdir()))}.yaml"
    path.write_text(config.to_yaml())
    return ["train", str(path)]


def train_on(
    world_size: int,
    config: Config,
    directory: Path,
    faults: dict[int, Fault] | None = None,
    local_world_size: int = 8,
) -> list[Child]:
    """Starts several ranks as torchrun does; `faults` maps ranks to faults.

    Each node has `local_world_size` ranks.
    """
    # as torchrun's agent does, for as long as the test runs
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    _STORES.append(store)
    common = {
        "WORLD_SIZE": str(world_size), "MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }  # fmt: skip
    folders = [directory / f"rank{rank}" for rank in range(world_size)]
    return [
        Child(
            _training(config, folder),
            folder,
            (faults or {}).get(rank),
            common | {"RANK": str(rank), "LOCAL_RANK": str(rank % local_world_size)},
        )
        for rank, folder in enumerate(folders)
    ]


def at_step(step: int, deed: Callable[[], None]) -> Fault:
    """Calls `deed` before the update of a step."""
    return partial(_at_step, step, deed)


def _at_step(step: int, deed: Callable[[], None]) -> None:
    original = loop.optimizer_step

    def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
        if number == step:
            deed()
        return original(module, loss_module, optimizer, micro_batches, number, *rest)

    loop.optimizer_step = optimizer_step


def before(name: str, deed: Callable[[], None]) -> Fault:
    """Calls `deed` before the first call of a function of `nmt.training`, by its dotted name."""
    return partial(_before, name, deed)


def _before(name: str, deed: Callable[[], None]) -> None:
    owner: object = training
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    original = getattr(owner, last)

    def replacement(*arguments, **options):
        setattr(owner, last, original)
        deed()
        return original(*arguments, **options)

    setattr(owner, last, replacement)


def send(number: signal.Signals) -> Callable[[], None]:
    """Sends a signal to the process itself."""
    return partial(_send, number)


def _send(number: signal.Signals) -> None:
    signal.raise_signal(number)  # to this thread, which handles it before its next call


def all_of(*faults: Fault) -> Fault:
    """Combines several faults in one process."""
    return partial(_all_of, faults)


def _all_of(faults: tuple[Fault, ...]) -> None:
    for fault in faults:
        fault()


def after_step(step: int, deed: Callable[[], None]) -> Fault:
    """Calls `deed` when the host has launched all work of a step, before it reads the result."""
    return partial(_after_step, step, deed)


def _after_step(step: int, deed: Callable[[], None]) -> None:
    original = loop.optimizer_step

    def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
        result = original(module, loss_module, optimizer, micro_batches, number, *rest)
        if number == step:
            deed()
        return result

    loop.optimizer_step = optimizer_step


def gpu(finishes_until: float = float("inf")) -> Fault:
    """Trains as on a GPU that finishes no step after `finishes_until`.

    Its operations cannot be aborted: destroying the process group takes forever.
    """
    return partial(_gpu, finishes_until)


def _gpu(finishes_until: float) -> None:
    taken, original = [0], loop.optimizer_step

    class Event:
        def __init__(self, device):
            self.step = taken[0]

        def query(self) -> bool:
            return self.step <= finishes_until

        def synchronize(self) -> None:
            if not self.query():
                hang()

    def optimizer_step(module, loss_module, optimizer, micro_batches, number, *rest):
        taken[0] = number
        return original(module, loss_module, optimizer, micro_batches, number, *rest)

    as_on_a_gpu()
    steps._mark, loop.optimizer_step = Event, optimizer_step  # type: ignore[assignment]
    if finishes_until < float("inf"):
        dist.destroy_process_group = hang


def hang(*_: object) -> None:
    """Never returns."""
    threading.Event().wait()


def slow_steps(seconds: float) -> Fault:
    """Makes each step take at least this long."""
    return partial(_slow_steps, seconds)


def _slow_steps(seconds: float) -> None:
    original = loop.optimizer_step

    def optimizer_step(*arguments):
        time.sleep(seconds)
        return original(*arguments)

    loop.optimizer_step = optimizer_step


_PRIMITIVES = ((os, "fsync"), (os, "replace"), (os, "unlink"), (os, "mkdir"), (os, "rmdir"))


def die_while_saving(step: int, call: int) -> Fault:
    """Ends the process, like kill -9, before file operation `call` of saving a step's checkpoint.

    Operations of the rotation count too. The first operation has number 0. If there are fewer
    operations, nothing happens.
    """
    return partial(_die_while_saving, step, call)


def _die_while_saving(step: int, call: int) -> None:
    save, count = saving.CheckpointWriter.save, [-1]

    def counted(original):
        def replacement(*arguments, **options):
            if count[0] >= 0:
                if count[0] == call:
                    os._exit(137)
                count[0] += 1
            return original(*arguments, **options)

        return replacement

    def counting(self, transformer, optimizer, state):
        count[0] = 0 if state.step == step else -1
        save(self, transformer, optimizer, state)
        count[0] = -1

    for owner, name in _PRIMITIVES:
        setattr(owner, name, counted(getattr(owner, name)))
    saving.CheckpointWriter.save = counting  # type: ignore[method-assign]


if __name__ == "__main__":
    validation.write_png = one_pixel
    deed, rank, at = sys.argv[1].split(":")
    if os.environ["RANK"] == rank:
        at_step(int(at), send(signal.Signals[f"SIG{deed}"]))()
    sys.exit(main(sys.argv[2:]))
