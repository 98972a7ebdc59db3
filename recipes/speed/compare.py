"""Compares nmt with other systems (peers) on the same work and the same machine.

    python -m recipes.speed.compare train [--peers fairseq,sockeye] [--precision bf16] [--pairs 5]
    python -m recipes.speed.compare translate

A pair consists of a visit to nmt and a visit to a peer, in processes that follow each other
immediately, so that the machine is in the same state for both. The order of nmt and peer
alternates. Each pair is appended to OUTPUT/pairs.jsonl. To continue an interrupted run, repeat the
command. At the end, OUTPUT/table.md and OUTPUT/speed.png summarize all pairs.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nmt.cli.flags import positive
from nmt.cli.terminal import run_script, say
from nmt.errors import InputError
from nmt.training.distributed import Ranks
from recipes.speed.install import ENVIRONMENTS, ROOT, installed
from recipes.speed.report import counted, draw, reference_rate, table

PEERS = {
    "train": ("nmt_packed", "torch_transformer", "marian", "fairseq", "sockeye", "joeynmt"),
    "translate": ("ctranslate2",),
}
PRECISIONS = {"train": ("fp32", "bf16"), "translate": ("fp32", "bf16", "int8")}
_HAS_NOT = {("ctranslate2", "bf16"): "fp32"}  # (system, unsupported precision): replacement
_TRIES = 2  # maximum number of measured pairs for each required pair
_LIMIT_S = 1800.0  # limit for a visit, in seconds


@dataclass(frozen=True)
class Setting:
    """The properties that all pairs of a series have in common."""

    task: str
    peer: str
    precision: str  # precision of nmt
    peer_precision: str
    work: dict[str, Any]  # the size of the work, and the machine


def main(argv: Sequence[str] | None = None) -> None:
    """Measures the missing pairs, and writes the table and the picture."""
    arguments = _arguments(argv)
    pairs = Pairs(arguments.output / "pairs.jsonl")
    try:
        _measure(arguments, pairs)
    finally:
        if pairs.lines:
            _report(arguments.output, pairs.lines)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares nmt with other systems.")
    tasks = parser.add_subparsers(dest="task", required=True)
    for name in PEERS:
        task = tasks.add_parser(name)
        task.add_argument("--peers", type=lambda words: words.split(","), default=PEERS[name],
                          help=f"default: {','.join(PEERS[name])}")  # fmt: skip
        task.add_argument("--precision", nargs="+", choices=PRECISIONS[name],
                          default=PRECISIONS[name])  # fmt: skip
        task.add_argument("--pairs", type=positive, default=5, metavar="N")
        task.add_argument("--steps", type=positive, default=5, metavar="N",
                          help="training steps per visit")  # fmt: skip
        task.add_argument("--threads", type=positive, default=torch.get_num_threads(), metavar="N")
        task.add_argument("--output", type=Path, default=Path("runs/speed"), metavar="DIR")
        task.add_argument("--environments", type=Path, default=ENVIRONMENTS, metavar="DIR",
                          help="directory with the peers' environments")  # fmt: skip
        task.add_argument("--small", action="store_true",
                          help="test the script with a tiny model")  # fmt: skip
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.peers) - set(PEERS[arguments.task]):
        known = ", ".join(PEERS[arguments.task])
        unknown_peers = ",".join(sorted(unknown))
        raise InputError(f"Unknown systems {unknown_peers} (--peers). Choose from: {known}.")
    return arguments


class Pairs:
    """The pairs in a file; `add` appends a pair to the file."""

    def __init__(self, path: Path):
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def add(self, setting: Setting, nmt: dict[str, Any], peer: dict[str, Any]) -> None:
        line = {"setting": vars(setting), "nmt": nmt, "peer": peer}
        self.lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            print(json.dumps(line), file=file, flush=True)

    def of(self, setting: Setting) -> list[dict[str, Any]]:
        """Returns the pairs of a setting."""
        return [line for line in self.lines if line["setting"] == vars(setting)]

    def missing(self, setting: Setting, wanted: int) -> int:
        """Returns the number of pairs that must still be measured for a setting."""
        return wanted - sum(line in self.of(setting) for line in counted(self.lines))


def _measure(arguments: argparse.Namespace, pairs: Pairs) -> None:
    """Measures in rounds; each round measures one pair for each setting that needs more pairs."""
    settings = list(_settings(arguments))
    for _ in range(_TRIES * arguments.pairs):
        for setting, python in list(settings):
            if (missing := pairs.missing(setting, arguments.pairs)) <= 0:
                continue
            best = reference_rate(pairs.lines)
            visits = [("nmt", Path(sys.executable), setting.precision)]
            visits.append((setting.peer, python, setting.peer_precision))
            order = (0, 1) if len(pairs.of(setting)) % 2 == 0 else (1, 0)
            try:
                found = {index: visited(arguments, *visits[index], best) for index in order}
            except InputError as error:
                say(f"{setting.peer}, {setting.precision}: Left out. {error}")
                settings.remove((setting, python))
                continue
            pairs.add(setting, found[0], found[1])
            say(_rates_line(setting, found[0], found[1], missing))


def _rates_line(setting: Setting, nmt: dict[str, Any], peer: dict[str, Any], missing: int) -> str:
    rates = [
        f"{name} {_rounded(nmt['results'][name]['rate'])} : "
        f"{_rounded(peer['results'][name]['rate'])}"
        for name in nmt["results"]
    ]
    return f"{setting.task}, {setting.precision}, {setting.peer} (-{missing}): {', '.join(rates)}"


def _rounded(rate: float | None) -> str:
    return "machine too slow" if rate is None else f"{rate:.4g}"


def _settings(arguments: argparse.Namespace) -> Iterator[tuple[Setting, Path]]:
    """Yields settings with the Python of each peer; reports peers that cannot be installed."""
    threads = arguments.threads
    work: dict[str, Any] = {
        "machine": Ranks(0, 1, torch.device("cpu")).device_name.rpartition(",")[0],
        "threads": threads,
        "small": arguments.small,
    }
    if arguments.task == "train":
        work["steps"] = arguments.steps
    for peer in arguments.peers:
        try:
            python = installed(peer, arguments.environments)
        except InputError as error:
            say(f"{peer}: Left out. {error}")
            continue
        for precision in arguments.precision:
            theirs = _HAS_NOT.get((peer, precision), precision)
            yield Setting(arguments.task, peer, precision, theirs, work), python


def visited(
    arguments: argparse.Namespace, system: str, python: Path, precision: str, best: float
) -> dict[str, Any]:
    """Runs `recipes.speed.visit` in a separate process with the given Python interpreter."""
    command = [
        str(python), "-W", "ignore", "-m", "recipes.speed.visit", system, arguments.task,
        "--precision", precision, "--steps", str(arguments.steps),
        "--threads", str(arguments.threads), "--best", str(best),
    ]  # fmt: skip
    if arguments.small:
        command.append("--small")
    variables = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(arguments.threads)}
    try:
        done = subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, timeout=_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{system} did not finish within {_LIMIT_S:.0f} s. Check that no "
            "other program is using the machine."
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise InputError(last)
    return json.loads(done.stdout.splitlines()[-1])


def _report(output: Path, lines: list[dict[str, Any]]) -> None:
    content = table(lines)
    (output / "table.md").write_text(content, encoding="utf-8")
    draw(lines, output / "speed.png")
    print(content, end="")


if __name__ == "__main__":
    run_script("compare", main)
