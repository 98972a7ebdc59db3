"""In the comparison, all systems do the same work, and slow phases do not count."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmt.data import layout
from nmt.errors import InputError
from nmt.model import attention
from nmt.training.loading import CPU_ROW
from recipes.speed import compare, install, shortlist
from recipes.speed.clock import Clock
from recipes.speed.gpu import bench, checks
from recipes.speed.gpu.bench import Bench
from recipes.speed.gpu.checks import CHECKS
from recipes.speed.gpu.measures import MEASURES
from recipes.speed.peers import nmt as ours
from recipes.speed.report import counted, rows, table
from recipes.speed.visit import visit
from recipes.speed.workload import BOS, EOS, PAD, SMALL, Batch, sources, training_batches

SMALL_CPU = Bench(torch.device("cpu"), small=True)


@pytest.mark.parametrize("by_length", [True, False])
def test_the_work_is_the_same_for_everybody(by_length: bool):
    ones, others = (training_batches(SMALL, n=4, tokens=300, by_length=by_length) for _ in range(2))
    for one, other in zip(ones, others, strict=True):
        assert all(
            torch.equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True)
        )
        assert one.src.numel() <= 300 and one.tgt_out.numel() <= 300
        assert one.src.max() < SMALL.vocabulary
        for side, lengths in ((one.src, one.src_lengths), (one.tgt_out, one.tgt_lengths)):
            assert torch.equal((side != PAD).sum(1), lengths)
            assert (side.gather(1, lengths[:, None] - 1) == EOS).all()
        assert (one.tgt_in[:, 0] == BOS).all()
        ends = one.tgt_out[:, :-1] == EOS
        assert torch.equal(one.tgt_in[:, 1:], one.tgt_out[:, :-1].masked_fill(ends, PAD))


def test_batches_of_like_length_have_hardly_any_padding():
    fill = [
        sum(batch.target_tokens for batch in batches)
        / sum(batch.tgt_out.numel() for batch in batches)
        for batches in (training_batches(SMALL, by_length=by) for by in (True, False))
    ]
    assert fill[0] > 0.98 and fill[1] < 0.5


def test_sources_are_sorted_and_all_outputs_of_a_batch_have_one_length():
    batches = sources(SMALL)
    assert sum(len(batch.src) for batch in batches) == 200
    lengths = torch.cat([batch.src_lengths for batch in batches])
    assert torch.equal(lengths, lengths.sort().values)
    assert all(batch.output_length == batch.src.shape[1] + 5 for batch in batches)


def _pairs_of(batch: Batch) -> list[tuple[list[int], list[int]]]:
    sides = [side.tolist() for side in (batch.src, batch.tgt_out)]
    return sorted(
        tuple([token for token in row if token != PAD] for row in pair)
        for pair in zip(*sides, strict=True)
    )


def test_packing_changes_rows_not_pairs():
    (batch,) = training_batches(SMALL, n=1, tokens=800, by_length=False)
    packed = ours.packed(batch, layout.Shape(CPU_ROW, CPU_ROW))
    assert len(packed.tgt_out) < len(batch.tgt_out)
    found = []
    for row in range(len(packed.tgt_out)):
        for segment in range(1, int(packed.src.segments[row].max()) + 1):
            src = packed.src.tokens[row][packed.src.segments[row] == segment]
            tgt = packed.tgt_out[row][packed.tgt_in.segments[row] == segment]
            found.append((src.tolist(), tgt.tolist()))
    assert sorted(found) == _pairs_of(batch)


@pytest.fixture
def rates(monkeypatch) -> list[float]:
    """The rates that the probe returns, in order; the last rate is repeated."""
    rates: list[float] = []
    monkeypatch.setattr(
        "recipes.speed.clock.probe",
        lambda device: lambda: rates.pop(0) if len(rates) > 1 else rates[0],
    )
    monkeypatch.setattr("nmt.benchmark.gate._PATIENCE_S", 0.0)
    return rates


def test_a_step_touched_by_a_slow_phase_is_repeated(rates: list[float]):
    rates += [180] * 5 + [180, 60, 180, 175, 160, 165]  # the first step ends in a slow phase
    clock, done = Clock(), []
    found = clock.times([lambda: done.append(1), lambda: done.append(2)])
    assert done == [1, 1, 2] and found is not None and len(found) == 2
    assert clock.facts == {"slowest_product": 160, "best_product": 180, "repeated": 1}


def test_a_visit_that_is_slow_as_a_whole_gives_no_time(rates: list[float]):
    rates.append(79)
    assert Clock(100).times([lambda: None]) is None
    assert Clock(98).times([lambda: None]) is not None
    assert Clock(100, is_trial=True).times([lambda: None]) is not None


def _line(peer: str, nmt_rate, peer_rate, slowest=180.0, task="train", small=False) -> dict:
    work = {"machine": "M", "threads": 2, "small": small}
    name = "training" if task == "train" else "beam 4"

    def of(version: str, rate) -> dict:
        return {
            "version": version, "precision": "bf16", "peak_gib": 2.0,
            "slowest_product": slowest, "best_product": 200.0, "results": {name: {"rate": rate}},
        }  # fmt: skip

    setting = {"task": task, "peer": peer, "precision": "bf16", "peer_precision": "bf16"}
    return {"setting": setting | {"work": work}, "nmt": of("nmt", nmt_rate),
            "peer": of(peer, peer_rate)}  # fmt: skip


def test_ratios_are_of_pairs_and_medians_of_all_visits():
    # the machine's speed halves between pairs, which changes ratios of medians, not ratios of pairs
    lines = [_line("a", 100, 50), _line("a", 50, 20), _line("a", 60, 40), _line("b", 80, 160)]
    ((title, (nmt, b, a)),) = rows(lines).items()
    assert title == "Training, bf16, 2 threads: target tokens/s on M"
    assert (nmt.rate, nmt.ratios) == (70, [])
    assert (a.name, a.rate, a.ratios) == ("a", 40, [2.0, 2.5, 1.5])
    assert (b.name, b.ratios) == ("b", [0.5])
    assert "| a | 40 (20–50) | 2.00 (1.50–2.50) | 3 | 2.00 |" in table(lines)


def test_pairs_of_slow_phases_are_left_out():
    good, slow, none = _line("a", 9, 3), _line("a", 1, 3, slowest=159.0), _line("a", None, 3)
    assert counted([good, slow, none]) == [good]
    assert "left out because of slow phases: 2." in table([good, slow, none])
    trial = _line("a", 1, 3, slowest=0.0, small=True)
    assert counted([trial]) == [trial]


def _compare(task: str, output: Path, *options: str) -> None:
    compare.main(
        [task, "--small", "--pairs", "2", "--steps", "1", "--threads", "1",
         "--output", str(output), *options]
    )  # fmt: skip


@pytest.fixture
def in_process(monkeypatch) -> list[str]:
    """Runs visits in this process, with nmt in place of the peers; lists the visited systems."""
    visited = []

    def one(arguments, system, python, precision, best):
        visited.append(system)
        if system == "sockeye":
            raise InputError("No module named 'mxnet'")
        known = system if system.startswith("nmt") else "nmt"
        return visit(known, arguments.task, precision, arguments.steps, 1, best, True)

    monkeypatch.setattr(compare, "visited", one)
    monkeypatch.setattr(compare, "installed", lambda peer, folder: Path(sys.executable))
    return visited


def test_pairs_alternate_and_a_finished_comparison_visits_nobody(in_process, tmp_path, capsys):
    options = "--peers", "nmt_packed", "--precision", "bf16"
    _compare("train", tmp_path, *options)
    assert in_process == ["nmt", "nmt_packed", "nmt_packed", "nmt"]
    first = capsys.readouterr().out
    assert "nmt 0.1.0, packed rows" in first
    assert first == (tmp_path / "table.md").read_text()
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")
    _compare("train", tmp_path, *options)
    assert len(in_process) == 4 and capsys.readouterr().out == first
    # a pair that was interrupted is measured again
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(pairs.read_text()[:-30])
    _compare("train", tmp_path, *options)
    assert len(in_process) == 6
    assert "| 2 |" in capsys.readouterr().out


def test_translations_have_the_forced_length_at_every_beam(in_process, tmp_path):
    _compare("translate", tmp_path, "--precision", "fp32", "--pairs", "1")
    (line,) = map(json.loads, (tmp_path / "pairs.jsonl").read_text().splitlines())
    assert set(line["nmt"]["results"]) == {"beam 4", "greedy"}


def test_a_peer_that_fails_is_left_out_in_a_line(in_process, tmp_path, monkeypatch, capsys):
    def installed(peer, folder):
        if peer == "fairseq":
            raise InputError("pip cannot install it")
        return Path(sys.executable)

    monkeypatch.setattr(compare, "installed", installed)
    options = "--peers", "fairseq,sockeye,nmt_packed", "--precision", "bf16"
    _compare("train", tmp_path, *options)
    written = capsys.readouterr()
    assert "fairseq: Left out. pip cannot install it" in written.err
    assert written.err.count("sockeye, bf16: Left out. No module named 'mxnet'") == 1
    assert "packed rows" in written.out
    with pytest.raises(InputError, match=r"systems marain .--peers.. Choose from: .*marian"):
        _compare("train", tmp_path, "--peers", "marain")


def test_an_environment_is_complete_or_made_anew(tmp_path, monkeypatch):
    calls = []

    def pip(command, **options):
        calls.append(command)
        return subprocess.CompletedProcess(command, returncode=len(calls) == 1)

    monkeypatch.setattr(install.subprocess, "run", pip)
    with pytest.raises(InputError, match="pip could not install"):
        install.installed("marian", tmp_path)
    python = install.installed("marian", tmp_path)
    assert install.installed("marian", tmp_path) == python and len(calls) == 2
    assert f"{python}" in calls[1]
    (paths,) = tmp_path.glob("marian/lib/*/site-packages/base.pth")
    assert str(Path(torch.__file__).parents[1]) in paths.read_text().splitlines()
    assert install.installed("torch_transformer", tmp_path) == Path(sys.executable)


def test_every_part_for_a_gpu_runs(capsys, monkeypatch):
    tiny = ("model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=64", "model.d_ff=64",
            "decoding.beam=1", "decoding.max_extra_length=2")  # fmt: skip
    run_of = checks._small_run
    monkeypatch.setattr(checks, "_small_run", lambda *arguments: run_of(*arguments, *tiny))
    parts = [*CHECKS, *MEASURES]
    failed = bench.run(SMALL_CPU, [(part, 600.0) for part, _ in parts])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert failed == [line for line in lines if "error" in line] == []
    assert [line["part"] for line in lines if "seconds" in line and "path" not in line] == [
        part.__name__ for part, _ in parts
    ]
    assert {line["part"] for line in lines if "ok" in line} == {
        part.__name__ for part, _ in CHECKS if part not in (checks.second_gpu, checks.two_ranks)
    }
    (found,) = (line for line in lines if "same" in line)
    assert found["same"]
    assert all(line["loss_difference"] == 0 for line in lines if "loss_difference" in line)
    assert sum(limit_s for _, limit_s in parts) < 11 * 60


def test_a_wrong_gpu_fails_its_checks(capsys, monkeypatch):
    """The GPU ignores the attention mask, and its loss differs from the reference."""
    right = attention.attention

    def blind(query, key, value, visibility, dropout):
        if query.dtype != torch.float64:
            visibility = attention.Visibility()
        return right(query, key, value, visibility, dropout)

    monkeypatch.setattr(checks, "attention", blind)
    monkeypatch.setattr(checks.Reference, "problem", lambda *_: "loss off by 9%")
    parts = [(part, 600.0) for part in (checks.against_fp64, checks.training_paths, checks.parity)]
    assert bench.run(SMALL_CPU, parts) == ["against_fp64", "training_paths"]


def test_an_error_or_a_deadline_ends_one_part_alone(capsys):
    def broken(_):
        yield {"first": 1}
        raise ValueError("no such kernel")

    def endless(_):
        while True:
            pass
        yield {}

    def last(_):
        yield {"done": True}

    failed = bench.run(SMALL_CPU, [(broken, 9), (endless, 0.01), (last, 9)])
    assert failed == ["broken", "endless"]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {"part": "broken", "first": 1}
    assert lines[1]["error"] == "ValueError: no such kernel"
    assert lines[2]["error"].startswith("LateError: The part did not end within")
    assert lines[3] == {"part": "last", "done": True}


def test_a_shortlist_is_timed_in_each_precision(capsys):
    shortlist.main(["--small", "--pairs", "1"])
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        [precision, beam, "200"] for precision in ("fp32", "bf16", "int8") for beam in "41"
    ]
    assert all(float(figure) > 0 for line in lines for figure in line.split()[3:6])
