"""How the Slurm script starts each rank, and when it requeues a job.

Small scripts on PATH replace `srun`, `scontrol` and `nmt`.
"""

import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

SCRIPT = Path(__file__).parents[2] / "recipes" / "wmt14_en_de" / "train.sbatch"

SRUN = """#!/bin/bash
# Starts each task, sends all of them $SIGNAL if set; returns their highest status.
while [[ $1 == --* ]]; do shift; done
for ((task = 0; task < SLURM_NTASKS; task++)); do
    SLURM_PROCID=$task SLURM_LOCALID=$((task % 2)) "$@" & tasks+=($!)
done
if [ -n "$SIGNAL" ]; then
    while [ "$(cat started.* 2>/dev/null | wc -l)" -lt "$SLURM_NTASKS" ]; do sleep 0.01; done
    kill -s "$SIGNAL" "${tasks[@]}"
fi
for task in "${tasks[@]}"; do
    wait "$task"; status=$?; (( status > highest )) && highest=$status
done
exit "${highest:-0}"
"""
SCONTROL = """#!/bin/bash
case "$1 $2" in
    "show hostnames") printf 'first\\nsecond\\n' ;;
    "show job") echo "   JobState=$STATE Reason=None" ;;
    *) echo "$@" >> scontrol.calls ;;
esac
"""
NMT = """#!/bin/bash
# Asked to stop it saves, which the main rank does, and ends as nmt does.
trap 'touch saved.$RANK; exit 143' USR1 TERM
echo "$RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $*" > started.$RANK
if [ -n "$SIGNAL" ]; then while :; do sleep 0.02; done; fi
exit $(( RANK == 1 ? FAILS : 0 ))
"""


def submit(folder: Path, **environment: str) -> tuple[int, list[str]]:
    """Runs the script like Slurm; returns its exit status and the calls of `scontrol`."""
    (folder / ".venv" / "bin").mkdir(parents=True)
    for path, text in (("srun", SRUN), ("scontrol", SCONTROL), (".venv/bin/nmt", NMT)):
        (folder / path).write_text(text)
        (folder / path).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "31234", "SLURM_NTASKS": "4", "SLURM_JOB_NODELIST": "n[1-2]"}
    told = {"FAILS": "0", "SIGNAL": "", "STATE": "RUNNING"} | environment
    result = subprocess.run(
        ["bash", SCRIPT, "configs/x.yaml", "data.train=[{hub: a b, split: train}]"],
        cwd=folder, env={"PATH": f"{folder}:/usr/bin:/bin"} | slurm | told, timeout=PATIENCE_S,
    )  # fmt: skip
    calls = folder / "scontrol.calls"
    return result.returncode, calls.read_text().splitlines() if calls.exists() else []


def test_each_rank_is_told_who_it_is_and_a_finished_run_is_not_queued_again(tmp_path: Path):
    assert submit(tmp_path) == (0, [])
    told = [(tmp_path / f"started.{rank}").read_text().split(" ", 5) for rank in range(4)]
    assert [line[:5] for line in told] == [
        [str(rank), str(rank % 2), "4", "first", "21234"] for rank in range(4)
    ]
    assert {line[5] for line in told} == {
        "train configs/x.yaml data.train=[{hub: a b, split: train}]\n"
    }


@pytest.mark.parametrize("signal", ["USR1", "TERM"], ids=["time limit", "pre-emption"])
def test_a_run_that_was_stopped_and_saved_is_queued_again(tmp_path: Path, signal: str):
    assert submit(tmp_path, SIGNAL=signal) == (143, ["requeue 31234"])
    assert len(list(tmp_path.glob("saved.*"))) == 4


def test_a_cancelled_job_is_not_queued_again(tmp_path: Path):
    assert submit(tmp_path, SIGNAL="TERM", STATE="CANCELLED") == (143, [])


def test_a_run_that_failed_is_not_queued_again(tmp_path: Path):
    assert submit(tmp_path, FAILS="4") == (4, [])
