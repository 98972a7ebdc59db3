"""Several ranks give the same run as one process, and report an error in one line."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from nmt.cli import main
from nmt.errors import InputError
from nmt.training import distributed, loop, peers
from nmt.training import train as train_module
from nmt.training.distributed import Ranks, process_group
from nmt.training.run_log import read_log
from tests.patience import PATIENCE_S
from tests.training.children import (
    Child,
    Fault,
    after_step,
    all_of,
    at_step,
    before,
    gpu,
    hang,
    send,
    torchrun,
    train,
    train_on,
)
from tests.training.runs import fingerprint, losses, run

STEPS = 12  # over the end of the first epoch
TWO = {"training__max_steps": STEPS, "training__micro_batches": 2, "training__validate_every": 10,
       "training__checkpoint_every": 5, "decoding__beam": 1, "decoding__max_extra_length": 0,
       "model__encoder_layers": 1, "model__decoder_layers": 1}  # fmt: skip
FOUR = TWO | {"training__micro_batches": 4}
# A key's bias adds the same value to all scores of a query, so its true gradient is zero; Adam
# turns the rounding error into steps of full size. The tiny model has 2 heads with keys of size 12.
KEY_BIASES = {"query_key_value.bias": slice(24, 48), "key_value.bias": slice(0, 24)}


@pytest.fixture(scope="module")
def alone(tiny_data, tmp_path_factory) -> dict[int, Path]:
    """Runs on one process, by their number of micro-batches."""
    from tests.conftest import make_settings

    found = {}
    for micro_batches, changes in ((2, TWO), (4, FOUR)):
        folder = tmp_path_factory.mktemp("alone")
        assert train(make_settings(tiny_data, folder, **changes), folder / "child").wait() == 0
        found[micro_batches] = folder / "run"
    return found


@pytest.fixture(scope="module")
def four(tiny_data, tmp_path_factory) -> Path:
    """A run on four processes, with one micro-batch each."""
    from tests.conftest import make_settings

    folder = tmp_path_factory.mktemp("four")
    children = train_on(4, make_settings(tiny_data, folder, **FOUR), folder / "children")
    assert [child.wait() for child in children] == [0] * 4
    return folder / "run"


def steps_of(run: Path) -> list[tuple]:
    return [line for line in losses(run) if line[0] == "None"]


def test_a_world_without_addresses_is_told(monkeypatch):
    """Some schedulers set only WORLD_SIZE, perhaps with RANK."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    problem = r"^WORLD_SIZE is 2 in the environment, but RANK is not set\. Start .* torchrun"
    with pytest.raises(InputError, match=problem), process_group(1):
        pass
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(InputError, match=r"MASTER_ADDR expected.*torchrun"), process_group(1):
        pass


@pytest.mark.parametrize("value", ["", "two", "0", "-1", "2.5", "²", "9" * 30])
def test_a_world_of_no_number_is_told(settings, tmp_path, monkeypatch, capsys, value: str):
    (tmp_path / "config.yaml").write_text(settings().to_yaml())
    monkeypatch.setenv("WORLD_SIZE", value)
    assert main(["train", str(tmp_path / "config.yaml")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("nmt: error: The environment variable WORLD_SIZE must be ")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"LOCAL_RANK": "1"}, "LOCAL_RANK is 1 in the environment, but WORLD_SIZE is not set."),
        ({"RANK": "1"}, "RANK is 1 in the environment, but WORLD_SIZE is not set."),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is 2 in the environment, but WORLD_SIZE is 2."),
        ({"RANK": "x"}, "The environment variable RANK must be a whole number from 0 to "),
        ({"RANK": "9" * 5000}, "The environment variable RANK must be a whole number from 0 to "),
    ],
)
def test_a_rank_outside_the_world_is_told(monkeypatch, capsys, environment, message):
    """This is checked first: such a process would hide its errors or wait for other ranks."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["train", "none.yaml"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"nmt: error: {message}")


def test_ranks_do_not_wait_for_data_to_be_prepared(settings, tmp_path):
    config = settings(data__directory=str(tmp_path / "none"))
    for size in (1, 2):
        children = train_on(size, config, tmp_path / f"children-{size}")
        assert [child.wait() for child in children] == [2] * size
        [line] = [line for child in children for line in child.said.splitlines()]
        assert line.startswith("nmt: error: ") and 'Run "nmt prepare" before torchrun.' in line
        assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["data", "checkpoints"])
def test_ranks_that_see_different_files_are_told(settings, monkeypatch, name: str):
    """On machines without a shared file system, ranks find different files."""

    def gather(_: Ranks, seen: object) -> list[object]:
        return [seen, None] if isinstance(seen, dict) == (name == "data") else [seen]

    monkeypatch.setattr(Ranks, "gather", gather)
    with pytest.raises(InputError, match=f"ranks read different {name} .*file system"):
        run(settings())


def test_a_master_that_nobody_is_takes_one_line(monkeypatch, capfd):
    """torch alone would print a stack trace of forty lines."""
    with socket.socket() as closed:
        closed.bind(("localhost", 0))  # nothing listens
        port = str(closed.getsockname()[1])
        for name, value in (("WORLD_SIZE", "2"), ("RANK", "1"), ("MASTER_ADDR", "localhost"),
                            ("MASTER_PORT", port)):  # fmt: skip
            monkeypatch.setenv(name, value)
        with pytest.raises(InputError, match=f"localhost:{port}: .*refused.*torchrun"):
            process_group(1).__enter__()
    assert capfd.readouterr().err == ""


def test_another_program_at_the_master_s_port_is_told(settings, tmp_path):
    """torch alone would wait forever for its answer, and handle no signals."""
    file = tmp_path / "config.yaml"
    file.write_text(settings(training__process_group_timeout_s=2).to_yaml())
    with socket.create_server(("localhost", 0)) as mute:
        port = str(mute.getsockname()[1])
        child = subprocess.run(
            [sys.executable, "-m", "nmt", "train", str(file)], capture_output=True, text=True,
            timeout=60, env=os.environ | {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1",
                                          "MASTER_ADDR": "localhost", "MASTER_PORT": port},
        )  # fmt: skip
    [line] = child.stderr.splitlines()
    assert child.returncode == 2
    assert line.startswith("nmt: error: ") and f"localhost:{port}: the program" in line


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_master_that_cannot_be_found_takes_one_line(monkeypatch, capfd, rank: str):
    """torch would print a line for each attempt, for as long as `process_group_timeout_s`."""
    monkeypatch.setattr(distributed, "_RESOLVE_S", 0.1)
    for name, value in (("WORLD_SIZE", "2"), ("RANK", rank), ("MASTER_ADDR", "nobody.invalid"),
                        ("MASTER_PORT", "29500")):  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"nobody\.invalid:29500: .*torchrun"):
        process_group(5).__enter__()
    monkeypatch.setenv("MASTER_PORT", "99999")
    with pytest.raises(InputError, match=r'MASTER_PORT must be .* 65,535, not "99999"'):
        process_group(5).__enter__()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("world_size", [2, 4])
def test_r6_any_number_of_processes_has_the_same_batches_and_losses(
    request, settings, alone, tmp_path, world_size
):
    if world_size == 4:
        several = request.getfixturevalue("four")
    else:
        several = tmp_path / "run"
        children = train_on(world_size, settings(**FOUR), tmp_path / "children")
        assert [child.wait() for child in children] == [0] * world_size
    ours, theirs = ([line for line in read_log(run) if "event" not in line]
                    for run in (several, alone[4]))  # fmt: skip
    assert len(ours) == FOUR["training__max_steps"]
    for a, b in zip(ours, theirs, strict=True):
        assert a["plan_digest"] == b["plan_digest"]
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-6)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-4)
    name = "checkpoints/step-00000012/model.safetensors"
    weights, expected = (load_file(run / name) for run in (several, alone[4]))
    for name in expected:
        difference = (weights[name] - expected[name]).abs()
        for ending, keys in KEY_BIASES.items():
            if name.endswith(ending):
                difference[keys] = 0
        assert difference.max() < 1e-5, name


def test_r7_the_number_of_processes_changes_on_the_way(settings, alone, tmp_path):
    stop = at_step(4, send(signal.SIGTERM)), at_step(8, send(signal.SIGTERM))
    children = train_on(2, settings(**TWO), tmp_path / "a", {1: stop[0]})
    assert [child.wait() for child in children] == [143, 143]
    assert "Stopped after step 4" in children[0].said
    assert "To continue, run the same command again." in children[0].said
    assert children[1].said == ""  # the main process speaks for all
    assert train(settings(**TWO), tmp_path / "b", stop[1]).wait() == 143
    children = train_on(2, settings(**TWO), tmp_path / "c")
    assert [child.wait() for child in children] == [0, 0]
    assert fingerprint(tmp_path / "run", STEPS) == fingerprint(alone[2], STEPS)
    assert steps_of(tmp_path / "run") == steps_of(alone[2])


def test_r7_four_processes_resume_to_the_bit(settings, four, tmp_path):
    """The four ranks' gradients must be added in the same order as in the undisturbed run."""
    stop = {3: at_step(7, send(signal.SIGTERM))}
    assert {child.wait() for child in train_on(4, settings(**FOUR), tmp_path / "b", stop)} == {143}
    assert {child.wait() for child in train_on(4, settings(**FOUR), tmp_path / "c")} == {0}
    assert fingerprint(tmp_path / "run", 12) == fingerprint(four, 12)


def test_r7_on_gpus_ranks_stop_after_the_same_step_and_resume_to_the_bit(settings, alone, tmp_path):
    """There they agree while they compute the next step; the signal is one rank's alone."""
    changes = TWO | {"training__log_every": 100}
    stop = all_of(gpu(), at_step(7, send(signal.SIGTERM)))
    children = train_on(2, settings(**changes), tmp_path / "a", {0: gpu(), 1: stop})
    assert [child.wait() for child in children] == [143, 143]
    assert re.search("Stopped after step [78], saved", children[0].said)
    children = train_on(2, settings(**TWO), tmp_path / "b", {0: gpu(), 1: gpu()})
    assert [child.wait() for child in children] == [0, 0]
    assert fingerprint(tmp_path / "run", STEPS) == fingerprint(alone[2], STEPS)
    assert set(steps_of(tmp_path / "run")) < set(steps_of(alone[2]))


def test_ranks_exchange_values_once_a_step(settings, tmp_path):
    """On GPUs, values are exchanged a step later, except for step 1, which is logged at once."""

    def begun(name: str, device: Fault) -> list[Child]:
        changes = TWO | {"training__max_steps": 6, "training__validate_every": 100,
                         "training__checkpoint_every": 100, "training__log_every": 100,
                         "training__run_directory": str(tmp_path / name)}  # fmt: skip
        counting = partial(_count_collectives, tmp_path / f"{name}.json")
        return train_on(2, settings(**changes), tmp_path / f"{name} said",
                        {0: all_of(counting, device), 1: device})  # fmt: skip

    jobs = [*begun("cpu", all_of()), *begun("gpu", gpu())]
    assert [child.wait() for child in jobs] == [0] * 4
    cpu, of_gpu = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("cpu", "gpu"))
    assert cpu == [0, 1, 2, 3, 4, 5]
    assert of_gpu == [0, 1, 1, 2, 3, 4]


def _count_collectives(file: Path) -> None:
    """Writes the number of collective operations that the host has begun before each step."""
    counts, step, finish = [0], loop.optimizer_step, train_module.finish
    before_steps: list[int] = []

    def counted(original):
        def replacement(*arguments, **options):
            counts[0] += 1
            return original(*arguments, **options)

        return replacement

    def optimizer_step(*arguments):
        before_steps.append(counts[0])
        return step(*arguments)

    def finishing(*arguments):
        file.write_text(json.dumps([count - before_steps[0] for count in before_steps]))
        finish(*arguments)

    for name in ("all_reduce", "all_gather", "all_gather_object", "barrier", "broadcast"):
        setattr(dist, name, counted(getattr(dist, name)))
    loop.optimizer_step, train_module.finish = optimizer_step, finishing


def test_r8_a_killed_rank_ends_the_job_in_one_line(settings, tmp_path):
    (tmp_path / "config.yaml").write_text(settings(**TWO).to_yaml())
    job = torchrun("--standalone", "--nproc-per-node", 2, "-m", "tests.training.children",
                   "KILL:1:2", "train", tmp_path / "config.yaml",
                   directory=tmp_path / "job")  # fmt: skip
    assert job.wait() == 1  # torchrun's exit status
    ours = [line for line in job.said.splitlines() if line.startswith("nmt: error")]
    assert len(ours) == 1
    assert "lost rank 1 of 2" in ours[0]


def soon_given_up() -> None:
    """Shortens the wait for a report, because a halted rank sends none."""
    peers._LAST_WORDS_S = 1.0


def test_r8_a_rank_is_killed_or_halted_while_others_compute_validate_or_save(settings, tmp_path):
    """A halted rank is given up after the timeout.

    As with NCCL, GPUs that wait for the lost rank never finish, and cannot be interrupted.
    """
    # the result of step 6, which is read during step 7, never comes
    stuck = all_of(gpu(finishes_until=5), soon_given_up, _guardless)
    kill = send(signal.SIGKILL)
    killed, halted = (
        all_of(gpu(), after_step(7, soon(number))) for number in (signal.SIGKILL, signal.SIGSTOP)
    )

    def begun(name: str, world_size: int, faults: dict, **changes) -> list[Child]:
        changes = TWO | changes | {"training__run_directory": str(tmp_path / name)}
        return train_on(world_size, settings(**changes), tmp_path / f"{name} said", faults)

    slow_saving = before("saving.checkpoints.save", partial(time.sleep, 2))
    jobs = {
        # three ranks, so that two survivors must agree which of them reports the error
        "killed": begun("killed", 3, {0: stuck, 1: killed, 2: stuck},
                        training__micro_batches=3, training__log_every=100),
        "held": begun("held", 2, {0: all_of(gpu(finishes_until=6), held(7)),
                                  1: all_of(gpu(), at_step(7, kill))}),
        # the timeout is longer than the delay of a rank that is merely slow
        "halted": begun("halted", 2, {0: stuck, 1: halted},
                        training__process_group_timeout_s=8, training__log_every=100),
        "on CPUs": begun("on CPUs", 2, {0: soon_given_up, 1: at_step(2, send(signal.SIGSTOP))},
                         training__process_group_timeout_s=8),
        "validating": begun("validating", 2,
                            {0: gpu(10), 1: all_of(gpu(), before("loop.validate", kill))}),
        "saving": begun("saving", 2, {0: all_of(gpu(5), slow_saving),
                                      1: all_of(gpu(), after_step(5, soon(signal.SIGKILL)))}),
    }  # fmt: skip
    try:
        for name, job in jobs.items():
            survivors = [child for child in job if child is not job[1]]
            assert [child.wait() for child in survivors] == [2] * len(survivors), name
            lost = f"lost rank 1 of {len(job)} (killed, stopped or unreachable)"
            assert lost in one_error(survivors), name
            run = tmp_path / name
            # the lock is released, unless the main thread hangs, and no temporary file is left
            assert name == "held" or (run / ".lock").read_bytes() == b""
            assert not list(run.rglob(".tmp-nmt-*"))
    finally:
        for child in chain(*jobs.values()):  # some are halted, or hang if the test fails
            child.process.kill()
    assert (tmp_path / "saving/checkpoints/step-00000005/manifest.json").exists()


def held(step: int) -> Fault:
    """Makes the host hang in a step, as when the GPU accepts no more work."""
    return all_of(at_step(step, hang), _soon_ended)


def _soon_ended() -> None:
    peers._LEAVING_S = 2.0


def _guardless() -> None:
    """Makes the guard wait, so that the main thread must end the process by itself."""
    peers._LEAVING_S = float(PATIENCE_S)


def soon(number: signal.Signals) -> Callable[[], None]:
    """Sends a signal to the process a second later, when the other ranks have its gradients."""
    return partial(_send_soon, number)


def _send_soon(number: signal.Signals) -> None:
    threading.Timer(1.0, os.kill, (os.getpid(), number)).start()


@pytest.mark.chaos
def test_r8_a_halted_rank_under_torchrun(settings, tmp_path):
    config = settings(**TWO, training__process_group_timeout_s=15)
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    job = torchrun("--standalone", "--nproc-per-node", 2, "-m", "tests.training.children",
                   "STOP:1:6", "train", tmp_path / "config.yaml",
                   directory=tmp_path / "job")  # fmt: skip
    assert job.wait() == 1
    assert "lost rank 1 of 2" in job.said


def test_r23_what_befalls_one_rank_ends_all_and_is_said_once(settings, tmp_path):
    """Five jobs run at once, because each of them waits for reports."""

    def begun(name: str, faults: dict | None = None, **changes) -> list[Child]:
        changes = TWO | changes | {"training__run_directory": str(tmp_path / name)}
        return train_on(2, settings(**changes), tmp_path / f"{name} said", faults)

    in_the_discarded_pass = before("loop._after_a_discarded_pass", _exhaust)
    jobs = {
        "diverged": begun("diverged", {1: poisoned_gradients(7)}),
        # on a GPU, where destroying the process group would wait forever for the other rank
        "exhausted": begun("exhausted", {1: all_of(gpu(0), no_memory())}),
        # in the pass whose gradients are discarded
        "exhausted early": begun("exhausted early", {1: in_the_discarded_pass}),
        "full": begun("full", {0: full_disk()}),
        "uneven": begun("uneven", training__micro_batches=3),
    }
    statuses = {name: [child.wait() for child in job] for name, job in jobs.items()}
    assert statuses == {
        "diverged": [4, 4], "exhausted": [2, 2], "exhausted early": [2, 2], "full": [5, 5],
        "uneven": [2, 2],
    }  # fmt: skip
    errors = {name: one_error(job) for name, job in jobs.items()}
    assert "Training diverged" in errors["diverged"] and "step 7" in errors["diverged"]
    assert "Out of memory in step 1, micro-batch 1" in errors["exhausted"]
    assert "training.micro_batches" in errors["exhausted"]
    assert "Out of memory" in errors["exhausted early"]
    assert "No space left on device" in errors["full"]
    assert "training.micro_batches" in errors["uneven"]
    [kept] = (tmp_path / "diverged/checkpoints").glob("step-*")
    assert kept.name == "step-00000005"
    moments = load_file(kept / "optimizer.safetensors")
    assert all(tensor.isfinite().all() for tensor in moments.values())


def one_error(children: list[Child]) -> str:
    lines = [line for child in children for line in child.said.splitlines() if "error" in line]
    assert len(lines) == 1, lines
    return lines[0]


def poisoned_gradients(step: int):
    return at_step(step, _poison)


def _poison() -> None:
    from nmt.training.loss import TransformerLoss

    forward = TransformerLoss.forward

    def poisoned(self, batch):
        loss, nll = forward(self, batch)
        return loss * float("nan"), nll

    TransformerLoss.forward = poisoned  # type: ignore[method-assign]


def no_memory():
    return before("loop.optimizer_step", _exhaust)


def _exhaust() -> None:
    from nmt.training.loss import TransformerLoss

    def forward(self, batch):
        return torch.empty(10**15)

    TransformerLoss.forward = forward  # type: ignore[method-assign]


def full_disk():
    return before("saving.checkpoints.save", partial(_fail_with, 28))


def _fail_with(number: int) -> None:
    raise OSError(number, os.strerror(number), "checkpoints")


def test_r6_ranks_on_two_nodes_equal_one_process_with_two_micro_batches(settings, alone, tmp_path):
    """Both are the first rank of their node; the result is printed once."""
    children = train_on(2, settings(**TWO), tmp_path / "nodes", local_world_size=1)
    assert [child.wait() for child in children] == [0, 0]
    assert_is_the_run_of_one_process(children, tmp_path / "run", alone[2])


def assert_is_the_run_of_one_process(jobs: list[Child], run: Path, alone: Path) -> None:
    assert "".join(job.written for job in jobs) == f"{run / 'model'}\n"
    assert fingerprint(run, STEPS) == fingerprint(alone, STEPS)
    assert steps_of(run) == steps_of(alone)
    ours, theirs = (
        [line for line in read_log(part) if line.get("event") == "validation"]
        for part in (run, alone)
    )
    for a, b in zip(ours, theirs, strict=True):  # sums split over ranks: the same to rounding
        assert a["nll"] == pytest.approx(b["nll"], rel=1e-6)
    assert not any("Traceback" in job.said for job in jobs)


@pytest.mark.chaos
def test_r6_torchrun_on_two_nodes_equals_one_process_with_two_micro_batches(
    settings, alone, tmp_path
):
    """Two agents of torchrun rendezvous at an address, as on two machines of a cluster."""
    (tmp_path / "config.yaml").write_text(settings(**TWO).to_yaml())
    # the test's own store, so that no other program can take the port, nor closes it too early
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    agents = [
        torchrun("--nnodes", 2, "--nproc-per-node", 1, "--rdzv-backend", "c10d",
                 "--rdzv-endpoint", f"localhost:{store.port}", "--rdzv-id", "test",
                 "--rdzv-conf", "is_host=false",
                 "-m", "nmt", "train", tmp_path / "config.yaml",
                 directory=tmp_path / f"node{node}")
        for node in range(2)
    ]  # fmt: skip
    assert [agent.wait() for agent in agents] == [0, 0], agents[0].said + agents[1].said
    assert_is_the_run_of_one_process(agents, tmp_path / "run", alone[2])
