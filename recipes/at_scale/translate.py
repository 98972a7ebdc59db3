"""Translates a column of Parquet files with Ray Data, using at most N workers.

    python recipes/at_scale/translate.py MODEL SOURCE OUTPUT [--workers N]

For each file in SOURCE, the script writes a file with the same name, columns and rows, and an
additional column `translation`, to the directory OUTPUT. An output file appears only when it is
complete. Existing files are kept. To continue a job that was killed, start the job again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from nmt.cli.terminal import run_script, say
from nmt.decoding.options import SearchOptions
from nmt.errors import InputError
from nmt.storage.atomic import new_file
from nmt.translator import Translator


@dataclass(frozen=True)
class Job:
    """The input, the output and the resources of a translation job."""

    model: str
    source: Path  # a Parquet file, or a directory of Parquet files
    output: Path
    column: str
    workers: int
    cpus: float  # per worker
    gpus: float
    batch_size: int  # in rows
    options: SearchOptions


class Worker:
    """A Ray worker process on one of the machines, with its own copy of the model."""

    def __init__(self, job: Job):
        self.job = job
        device = "cuda" if job.gpus else "cpu"
        self.translator = Translator.load(job.model, device=device, precision="fp32")

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Adds the translation of each row, in one line as in the output of `nmt translate`."""
        column = rows[self.job.column].to_pylist()
        texts = ["" if text is None else str(text) for text in column]
        found = self.translator.translate(texts, self.job.options)
        translations = pa.array([each.text for each in found], pa.string())
        return rows.append_column("translation", translations)


def main(argv: Sequence[str] | None = None) -> None:
    """Translates the files named in `argv`."""
    job = _arguments(argv)
    files = sorted(job.source.glob("*.parquet")) if job.source.is_dir() else [job.source]
    for file in files:
        _check(file, job.column)
    if not files:
        raise InputError(f"{job.source} has no .parquet files. Choose another directory.")
    job.output.mkdir(parents=True, exist_ok=True)
    missing = [file for file in files if not (job.output / file.name).exists()]
    if len(missing) < len(files):
        say(f"{len(files) - len(missing)} of {len(files)} files already exist.")
    if missing:
        _start_ray()
    for file in missing:
        say(f"translating {file}")
        with new_file(job.output / file.name) as place:
            _translate(job, file, place)


def _arguments(argv: Sequence[str] | None) -> Job:
    parser = argparse.ArgumentParser(description="Translates Parquet files with Ray Data.")
    parser.add_argument("model", help="model, checkpoint or run directory, shared by all machines")
    parser.add_argument("source", type=Path, help="Parquet file, or a directory of Parquet files")
    parser.add_argument("output", type=Path, help="directory for the output files")
    parser.add_argument("--column", default="text", help="column to translate (default: text)")
    parser.add_argument(
        "--workers", type=int, default=2, help="maximum number of workers (default: 2)"
    )
    parser.add_argument("--cpus", type=float, default=1, help="CPUs per worker (default: 1)")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs per worker (default: 0)")
    parser.add_argument(
        "--batch-size", type=int, default=2048, help="rows per batch (default: 2048)"
    )
    parser.add_argument("--beam", type=int, help="beam size; 1 is greedy (default: the model's)")
    words = parser.parse_args(argv)
    return Job(
        str(Path(words.model).absolute()), words.source.absolute(), words.output.absolute(),
        words.column, words.workers, words.cpus, words.gpus, words.batch_size,
        SearchOptions(beam=words.beam),
    )  # fmt: skip


def _check(file: Path, column: str) -> None:
    try:
        names = parquet.read_schema(file).names
    except FileNotFoundError:
        raise InputError(f"{file} does not exist. Check the path.") from None
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file} is not a Parquet file ({reason}). Choose another file.") from None
    if column not in names:
        raise InputError(
            f"{file} has no column {column}. Choose one of its columns with --column: "
            f"{', '.join(names)}."
        )
    if "translation" in names:
        raise InputError(
            f'{file} already has a column with the name "translation". Rename that column.'
        )


def _start_ray() -> None:
    try:
        import ray
    except ImportError:
        raise InputError(
            "This recipe needs ray. Install it with: "
            "pip install -r recipes/at_scale/requirements.txt"
        ) from None
    if not ray.is_initialized():
        ray.init(logging_level="warning")  # joins the cluster at RAY_ADDRESS, if set


def _translate(job: Job, file: Path, place: Path) -> None:
    """Translates one file and keeps the order of its rows.

    If a worker dies, Ray starts another worker where resources are free, and the new worker
    repeats the batch.
    """
    import ray

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    rows = ray.data.read_parquet(str(file))
    # otherwise a small file would be a single block, which only one worker would translate
    batches = rows.repartition(target_num_rows_per_block=job.batch_size)
    translated = batches.map_batches(
        Worker,
        fn_constructor_args=(job,),
        batch_size=job.batch_size,
        batch_format="pyarrow",  # keeps the types of the other columns
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
        raise InputError(f"{file} has no rows. Move it out of the input directory.")


if __name__ == "__main__":
    run_script("translate", main)
