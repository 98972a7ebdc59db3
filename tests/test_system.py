"""Emulates systems other than Linux by removing the features that they lack."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nmt import system
from nmt.training.peers import Peers, own_process


def test_windows_is_refused_in_one_line():
    code = (
        "import signal, sys\n"
        "sys.modules['fcntl'] = sys.modules['resource'] = None\n"
        "del signal.SIGUSR1, signal.SIGHUP, signal.SIGALRM, signal.setitimer\n"
        "from types import SimpleNamespace\n"
        "from nmt import cli, system\n"
        "system.os = SimpleNamespace(name='nt')\n"
        "sys.exit(cli.main(['translate', 'runs/demo']))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    [line] = run.stderr.splitlines()
    assert line.startswith("nmt: error: nmt needs Linux or macOS") and line.endswith("(WSL).")
    assert (run.returncode, run.stdout) == (2, "")


def test_without_proc_and_pidfd_ranks_are_monitored_only_through_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Emulates macOS. Neither the lack of pidfd alone nor the lack of both raises an error."""
    peers = Peers(0, 2, None, 1.0)  # type: ignore[arg-type]
    here = own_process()
    assert here is not None
    monkeypatch.delattr(os, "pidfd_open")
    assert system.process_descriptor(os.getpid()) is None
    peers.watch([here, here])
    monkeypatch.setattr(system, "Path", lambda path: tmp_path / path.lstrip("/"))
    assert own_process() is None and system.cpu_name()
    peers.watch([None, None])
    assert peers.gone() == set()
