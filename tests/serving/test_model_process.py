"""The results of a model process, and how it ends."""

import contextlib
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading

import pytest
import torch

from nmt.decoding.options import SearchOptions
from nmt.errors import ArgumentError, InputError, NoModelError, is_out_of_memory
from nmt.serving.model_process import (
    AbandonedError,
    EndedError,
    FailedError,
    ModelProcess,
    _work_off,
)
from nmt.signals import STOP
from nmt.storage import manifest
from nmt.storage.names import OPTIMIZER
from nmt.translator import Translator
from tests.fixtures.make import copied
from tests.patience import PATIENCE_S, wait_until
from tests.serving import far


@pytest.fixture(scope="module")
def process():
    process = ModelProcess(far.far)
    model = process.start()
    assert model.max_part == 7 and not model.sees_inside
    yield process
    process.end()
    process._process.join()


def asked(process: ModelProcess, *texts: str, is_wanted=lambda: True) -> list[str]:
    found = process.n_best(texts, SearchOptions(), (), is_wanted=is_wanted)
    return [best.text for [best] in found]


def test_it_computes_elsewhere(process: ModelProcess, tmp_path):
    pid, more = process.call(far.told_of, tmp_path / "told", 1, "two")
    assert not process.has_ended
    assert pid == process._process.pid != os.getpid() and more == (1, "two")
    assert (tmp_path / "told").read_text() == "Far"
    assert asked(process, "a", "b") == ["A", "B"]


def test_what_asks_a_terminal_to_stop_is_for_the_server(process: ModelProcess):
    for number in STOP:
        os.kill(process.call(far.pid), number)
    assert asked(process, "a") == ["A"]


ENDS_AT_ONCE = """
import os, threading
from nmt.serving.model_process import ModelProcess
from tests.serving import far
if __name__ == "__main__":
    process = ModelProcess(far.far)
    process.start()
    print(process.call(far.pid), flush=True)
    threading.Thread(target=process.call, args=(far.busy,)).start()
    input()
    os._exit(9)
"""


def test_it_does_not_outlive_the_server_whatever_it_is_doing(tmp_path):
    (tmp_path / "ends.py").write_text(ENDS_AT_ONCE)
    command = [sys.executable, str(tmp_path / "ends.py")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    reads, writes = os.pipe()
    with os.fdopen(reads) as printed:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=writes, text=True, env=environment
        ) as server:
            os.close(writes)
            pid = int(printed.readline())
            server.communicate("\n")
        try:
            assert select.select([printed], [], [], PATIENCE_S)[0] and not printed.read()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_its_errors_come_back_without_a_text_in_them(process: ModelProcess):
    with pytest.raises(ArgumentError) as wrong:
        asked(process, "wrong")
    assert wrong.value.naming({"prefix": "--prefix"}) == ("too long, --prefix, shorten it",)
    assert wrong.value.__context__ is None
    with pytest.raises(ArgumentError) as huge:
        asked(process, "huge")
    assert is_out_of_memory(huge.value.__context__)
    with pytest.raises(FailedError) as failed:
        asked(process, "poison")
    assert str(failed.value).startswith("RuntimeError in n_best (") and "poison" not in str(
        failed.value
    )
    assert asked(process, "still there") == ["STILL THERE"]


def test_what_nobody_wants_any_more_is_given_up(process: ModelProcess):
    with pytest.raises(AbandonedError):
        asked(process, "for ever", is_wanted=lambda: False)
    assert asked(process, "next") == ["NEXT"]
    process._send(None)  # a cancellation after the work is done
    assert asked(process, "a", is_wanted=lambda: False) == ["A"]
    assert asked(process, "b") == ["B"]


def test_it_ends_when_it_is_killed_or_told_to():
    process = ModelProcess(far.far)
    process.start()
    with pytest.raises(EndedError):
        asked(process, "kill")
    wait_until(lambda: not process._process.is_alive())
    with pytest.raises(EndedError):
        asked(process, "a")
    assert process.has_ended
    process.close()
    process.end()


def test_one_that_is_killed_in_the_middle_of_an_answer_has_ended():
    process = ModelProcess(far.far)
    os.write(process._theirs.fileno(), b"\0\0\0\x09half")
    process._theirs.close()
    with pytest.raises(EndedError):
        process._answer()


def test_memory_that_a_call_lacks_is_no_fault(process: ModelProcess):
    with pytest.raises(InputError, match="ran out of memory") as short:
        process.call(far.greedy)
    assert is_out_of_memory(short.value.__context__)


@pytest.mark.parametrize(
    ("load", "error"), [(far.none_there, NoModelError), (far.broken, FailedError)]
)
def test_without_a_model_it_says_why_and_ends(load, error):
    process = ModelProcess(load)
    with pytest.raises(error, match=r"no such model|ZeroDivisionError in broken"):
        process.start()
    process._process.join()


def test_one_that_is_not_needed_ends():
    process = ModelProcess(far.not_needed)
    assert process.start() is None
    process._process.join()


def test_the_cores_are_shared_by_the_processes_that_compute():
    ours, theirs = multiprocessing.Pipe()

    def work_off() -> None:
        torch.set_num_threads(5)
        with pytest.raises(EOFError):
            _work_off(theirs, far.Threaded)

    thread = threading.Thread(target=work_off)
    thread.start()
    assert ours.recv()[0].sees_inside
    found = []
    for sharing in (1, 2, 5, 9, 1):
        ours.send((threads_of, (), sharing, False))
        found.append(ours.recv()[0])
    ours.close()
    thread.join()
    assert found == [5, 2, 1, 1, 5]


def test_a_model_is_identified_by_what_its_translations_depend_on(tmp_path):
    def sha256(folder) -> str:
        return Translator.load(folder, device="cpu").sha256

    checkpoints = copied(tmp_path) / "run/checkpoints"
    newest = checkpoints / "step-00000300"
    found = sha256(newest)
    content = manifest.read(newest, "checkpoint")
    content["files"].pop(OPTIMIZER, None)
    manifest.rewrite(newest, content | {"state": {"since": "a validation"}})  # as training does
    assert sha256(newest) == found != sha256(checkpoints / "step-00000200")
    manifest.rewrite(newest, content | {"target_symbols": ["<2de>"]})
    assert sha256(newest) != found


def threads_of(_: object) -> int:
    return torch.get_num_threads()
