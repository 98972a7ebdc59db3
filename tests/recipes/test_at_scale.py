"""A corpus that several processes translate gets the same translations as in one process."""

import bz2
import gzip
import lzma
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from nmt.decoding.options import SearchOptions
from nmt.errors import InputError
from nmt.translator import Translator
from recipes.at_scale import translate
from tests.fixtures.make import TRAINED
from tests.manual import ROOT
from tests.patience import PATIENCE_S

MODEL = str(TRAINED / "run")
LINES = [*(TRAINED / "test.en").read_text(encoding="utf-8").split("\n")[:6], "", "a\u2028b"] * 3
SCRIPTS = ROOT / "recipes" / "at_scale"
NMT = """#!/bin/bash
# Writes the lines of its shard, as `nmt translate --shard I/N` would their translations.
while [ $# -gt 0 ]; do
    case $1 in
        --input) input=$2 ;; --output) output=$2 ;; --shard) i=${2%/*} n=${2#*/} ;;
    esac
    shift
done
echo "$i" >> calls
lines=$(awk 'END { print NR }' "$input")
head -n $((lines * i / n)) "$input" | tail -n +$((lines * (i - 1) / n + 1)) > "$output"
"""


def array_task(folder: Path, i: int, n: int) -> int:
    """Runs one task of a Slurm array."""
    slurm = {"SLURM_ARRAY_TASK_ID": str(i), "SLURM_ARRAY_TASK_COUNT": str(n)}
    command = ["bash", str(SCRIPTS / "translate.sbatch"), "runs/demo", "news.en", "news.de"]
    return subprocess.run(command, cwd=folder, env={"PATH": "/usr/bin:/bin"} | slurm).returncode


def merge(folder: Path, n: int) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", str(SCRIPTS / "merge.sh"), "news.en", "news.de", str(n)],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip


def test_the_parts_of_a_slurm_array_are_the_whole_each_made_once(tmp_path: Path):
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "nmt").write_text(NMT)
    (tmp_path / ".venv" / "bin" / "nmt").chmod(0o755)
    text = "".join(f"{line}\n" for line in LINES).encode()
    (tmp_path / "news.en").write_bytes(text)
    assert [array_task(tmp_path, i, 3) for i in (1, 3)] == [0, 0]
    assert merge(tmp_path, 3).returncode == 2
    assert not (tmp_path / "news.de").exists()
    assert [array_task(tmp_path, i, 3) for i in (1, 2, 3)] == [0, 0, 0]
    assert (tmp_path / "calls").read_text().split() == ["1", "3", "2"]
    assert f"instead of {len(LINES)}." in merge(tmp_path, 2).stderr  # the array had 3 tasks
    assert merge(tmp_path, 3).returncode == 0
    assert (tmp_path / "news.de").read_bytes() == text
    assert not list(tmp_path.glob("*.new"))
    for compress in (gzip.compress, bz2.compress, lzma.compress):
        (tmp_path / "news.en").write_bytes(compress(text))
        assert merge(tmp_path, 3).returncode == 0


def written(folder: Path) -> list[Path]:
    """Writes the lines to two Parquet files."""
    folder.mkdir()
    paths = [folder / "a.parquet", folder / "b.parquet"]
    for path, lines in zip(paths, (LINES[:10], LINES[10:]), strict=True):
        large = [None, *(2**53 + i for i in range(1, len(lines)))]  # would be rounded as doubles
        table = pa.table({"id": range(len(lines)), "large": large, "text": lines})
        parquet.write_table(table, path)
    return paths


def expected(path: Path) -> list[str]:
    """Returns the translations of a single process."""
    translator = Translator.load(MODEL, device="cpu", precision="fp32")
    texts = parquet.read_table(path)["text"].to_pylist()
    return [each.text for each in translator.translate(texts, SearchOptions(beam=1))]


def test_a_worker_gives_rows_with_what_nmt_gives(tmp_path: Path):
    path = written(tmp_path / "in")[0]
    job = translate._arguments([MODEL, str(path), str(tmp_path / "out"), "--beam", "1"])
    rows = parquet.read_table(path)
    found = translate.Worker(job)(rows)
    assert found.drop_columns("translation").equals(rows)
    translations = found["translation"].to_pylist()
    assert translations == expected(path) and "" in translations


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["x"], "no column text"),
        (["text", "translation"], 'has a column with the name "translation"'),
    ],
    ids=str,
)
def test_files_that_cannot_be_translated_are_refused_at_once(names, problem, tmp_path: Path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({name: ["a"] for name in names}), path)
    with pytest.raises(InputError, match=problem):
        translate.main([MODEL, str(tmp_path), str(tmp_path / "out")])
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="is not a Parquet file"):
        translate.main([MODEL, str(tmp_path), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_without_ray_one_line_says_so(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    written(tmp_path / "in")
    with pytest.raises(InputError, match="needs ray"):
        translate.main([MODEL, str(tmp_path / "in"), str(tmp_path / "out")])
    assert not list((tmp_path / "out").iterdir())


def test_a_killed_worker_loses_nothing(tmp_path: Path):
    """One of two workers is killed during translation. Repeating the finished job does nothing."""
    pytest.importorskip("ray", reason="Ray is not installed, see recipes/at_scale")
    paths, out = written(tmp_path / "in"), tmp_path / "out"
    command = [sys.executable, str(SCRIPTS / "translate.py"), MODEL, str(tmp_path / "in"), str(out),
               "--beam", "1", "--batch-size", "2", "--cpus", "0.5"]  # fmt: skip
    environment = os.environ | {"RAY_worker_niceness": "0", "PYTHONPATH": str(ROOT)}
    job = subprocess.Popen(command, env=environment)
    killed = threading.Event()
    while job.poll() is None:
        workers = workers_of(job.pid)
        if len(workers) == 2 and not killed.is_set():
            os.kill(workers[0], signal.SIGKILL)
            killed.set()
        time.sleep(0.05)
    assert job.wait(PATIENCE_S) == 0 and killed.is_set()
    for path in paths:
        table = parquet.read_table(out / path.name)
        assert table.drop_columns("translation").equals(parquet.read_table(path))
        assert table["translation"].to_pylist() == expected(path)
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert again.stderr == "2 of 2 files already exist.\n"


def workers_of(driver: int) -> list[int]:
    """Returns the processes of Ray's map workers that descend from `driver`."""
    parents, found = {}, []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = status.read_text().rsplit(")", 1)
        except OSError:
            continue
        process = int(status.parent.name)
        parents[process] = int(rest.split()[1])
        if "ray::MapWorker" in name:
            found.append(process)

    def is_below(process: int) -> bool:
        while process > 1 and process != driver:
            process = parents.get(process, 0)
        return process == driver

    return sorted(filter(is_below, found))
