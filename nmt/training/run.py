"""A run before its first step: data, directory, and whether it may go on as configured."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nmt.config import Config
from nmt.data import prepare, test_set
from nmt.data.shards import Shard, open_split, verify_shard
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError
from nmt.runs.model_directory import tokenizer_to_fine_tune
from nmt.runs.run_directory import RunDirectory
from nmt.storage import atomic, manifest
from nmt.storage.names import TOKENIZER
from nmt.training.distributed import Ranks, world_size

Note = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """What does not change while a run trains."""

    config: Config
    directory: RunDirectory
    ranks: Ranks
    lock: atomic.Lock | None  # on the directory, held by the main process
    tokenizer: Tokenizer
    tokenizer_file: bytes
    hashes: dict[str, str]  # of tokenizer and data, as checkpoints carry them
    training: list[Shard]
    validation: list[Shard]
    verify: Callable[[Shard], None]  # checks a training shard, once


def prepare_if_missing(config: Config, note: Note) -> None:
    """Prepares the run's data if there is none; under torchrun, ranks must not wait for hours."""
    directory = Path(config.data.directory)
    if world_size() == 1 and not (directory / manifest.NAME).exists():
        prepare.prepare(config, report=note, tokenizer=tokenizer_to_fine_tune(config))


def open_run(config: Config, ranks: Ranks, lock: atomic.Lock | None, note: Note) -> Run:
    """Opens data and directory of a run; the main process first sets the directory up.

    Args:
        note: is told when a run that never came to a checkpoint begins anew with other settings.

    Raises:
        InputError: no prepared data, the directory holds another run, or data and tokenizer do
            not belong together.
    """
    directory = RunDirectory(Path(config.training.run_directory))
    data_directory = Path(config.data.directory)
    if not (data_directory / manifest.NAME).exists():
        raise InputError(f"no prepared data, {data_directory}, run nmt prepare before torchrun")
    data = prepare.read_manifest(config)
    manifest.verify(data_directory, data, [TOKENIZER])
    tokenizer_file = (data_directory / TOKENIZER).read_bytes()
    tokenizer = Tokenizer.load(data_directory / TOKENIZER)
    if tokenizer.vocabulary_size != config.tokenizer.vocabulary_size:
        raise InputError(
            f"{tokenizer.vocabulary_size} pieces, tokenizer.vocabulary_size asks for "
            f"{config.tokenizer.vocabulary_size}, {data_directory / TOKENIZER}, prepare again"
        )
    if ranks.is_main:
        directory.refuse_changes(config, note)
        prepare.mark_used(data_directory, directory.path)
        directory.set_up(config, tokenizer_file)
        test_set.keep(data_directory, data, directory.path, config.data)
    verified: set[Path] = set()

    def verify(shard: Shard) -> None:
        if shard.path not in verified:
            verify_shard(data_directory, data, shard)
            verified.add(shard.path)

    validation = open_split(data_directory, data, "validation")
    for shard in validation:
        verify_shard(data_directory, data, shard)
    return Run(
        config,
        directory,
        ranks,
        lock,
        tokenizer,
        tokenizer_file,
        {"tokenizer_sha256": tokenizer.sha256, "data_sha256": data["data_sha256"]},
        open_split(data_directory, data, "train"),
        validation,
        verify,
    )
