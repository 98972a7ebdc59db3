"""Translates a column of Parquet files by Ray Data, with as many workers as there is room for.

    python recipes/at_scale/translate.py MODEL SOURCE OUTPUT [--workers N]

OUTPUT becomes a folder of one file for each file of SOURCE, of the same name: the same columns and
rows, and a column `translation`. A file appears when it is whole; those that are there are not made
again, so that a job that was killed is simply started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from nmt.cli.terminal import run_script, say
from nmt.decoding.options import SearchOptions
from nmt.errors import InputError
from nmt.storage.atomic import new_file
from nmt.translator import Translator


@dataclass(frozen=True)
class Job:
    """What to translate, and how."""

    model: str
    source: Path  # a folder of Parquet files, or one
    output: Path
    column: str
    workers: int
    cpus: float  # for each worker
    gpus: float
    batch_size: int  # rows
    options: SearchOptions


class Worker:
    """Holds the model in a process of its own, as Ray starts it on one machine or another."""

    def __init__(self, job: Job):
        self.job = job
        device = "cuda" if job.gpus else "cpu"
        self.translator = Translator.load(job.model, device=device, precision="fp32")

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """The rows with their translations; one line each, as `nmt translate` writes it."""
        texts = ["" if text is None else str(text) for text in rows[self.job.column]]
        found = self.translator.translate(texts, self.job.options)
        return rows | {"translation": [each.text for each in found]}


def main(argv: Sequence[str] | None = None) -> None:
    """Translates what `argv` names."""
    job = _arguments(argv)
    files = sorted(job.source.glob("*.parquet")) if job.source.is_dir() else [job.source]
    for file in files:
        _check(file, job.column)
    if not files:
        raise InputError(f"no .parquet file, {job.source}, name another folder")
    job.output.mkdir(parents=True, exist_ok=True)
    missing = [file for file in files if not (job.output / file.name).exists()]
    if len(missing) < len(files):
        say(f"{len(files) - len(missing)} of {len(files)} files are there")
    if missing:
        _start_ray()
    for file in missing:
        say(f"translating {file}")
        with new_file(job.output / file.name) as place:
            _translate(job, file, place)


def _arguments(argv: Sequence[str] | None) -> Job:
    parser = argparse.ArgumentParser(description="Translates Parquet files by Ray Data.")
    parser.add_argument("model", help="a model, checkpoint or run directory that all machines see")
    parser.add_argument("source", type=Path, help="a Parquet file, or a folder of them")
    parser.add_argument("output", type=Path, help="a folder")
    parser.add_argument("--column", default="text", help="of the sentences (default: text)")
    parser.add_argument(
        "--workers", type=int, default=2, help="as far as there is room (default: 2)"
    )
    parser.add_argument("--cpus", type=float, default=1, help="for each worker (default: 1)")
    parser.add_argument("--gpus", type=float, default=0, help="for each worker (default: none)")
    parser.add_argument("--batch-size", type=int, default=2048, help="rows (default: 2048)")
    parser.add_argument("--beam", type=int, help="1: greedy (default: the model's)")
    words = parser.parse_args(argv)
    return Job(
        str(Path(words.model).absolute()), words.source.absolute(), words.output.absolute(),
        words.column, words.workers, words.cpus, words.gpus, words.batch_size,
        SearchOptions(beam=words.beam),
    )  # fmt: skip


def _check(file: Path, column: str) -> None:
    try:
        names = parquet.read_schema(file).names
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"not a Parquet file ({reason}), {file}, name another") from None
    if column not in names:
        raise InputError(f"no column {column}, {file}, --column is one of {', '.join(names)}")
    if "translation" in names:
        raise InputError(f"has a column translation, {file}, rename it")


def _start_ray() -> None:
    try:
        import ray
    except ImportError:
        raise InputError(
            "ray is not installed, this recipe, pip install -r recipes/at_scale/requirements.txt"
        ) from None
    if not ray.is_initialized():
        ray.init(logging_level="warning")  # or joins the cluster that RAY_ADDRESS names


def _translate(job: Job, file: Path, place: Path) -> None:
    """Translates one file; rows keep their order, whichever worker has translated them.

    Ray starts a worker that dies again, wherever there is room, and gives its batch to another.
    """
    import ray

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    rows = ray.data.read_parquet(str(file))
    # else a whole file, if it is small, would be one worker's
    batches = rows.repartition(target_num_rows_per_block=job.batch_size)
    translated = batches.map_batches(
        Worker,
        fn_constructor_args=(job,),
        batch_size=job.batch_size,
        compute=ray.data.ActorPoolStrategy(size=job.workers),
        num_cpus=job.cpus,
        num_gpus=job.gpus,
    )
    writer = None
    for batch in translated.iter_batches(batch_size=job.batch_size, batch_format="pyarrow"):
        writer = writer or parquet.ParquetWriter(place, batch.schema)
        writer.write_table(batch)
    if writer:
        writer.close()
    else:
        raise InputError(f"no rows, {file}, leave it out")


if __name__ == "__main__":
    run_script("translate", main)
