"""A run before its first step: its data, its directory, whether it may resume as configured."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import Config
from nmt.data import kept_test_set, prepare
from nmt.data.prepared_data import PreparedData
from nmt.data.shards import Shard
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, NoModelError, Note
from nmt.runs.model_directory import tokenizer_to_fine_tune
from nmt.runs.run_directory import RunDirectory
from nmt.storage import atomic, manifest
from nmt.training.distributed import Ranks, world_size


@dataclass(frozen=True)
class Run:
    """What does not change while a run trains."""

    config: Config
    directory: RunDirectory
    ranks: Ranks
    lock: atomic.Lock | None  # on the directory, held by the main process
    tokenizer: Tokenizer
    tokenizer_file: bytes
    hashes: dict[str, str]  # of tokenizer and data
    training: list[Shard]
    validation: list[Shard]
    verify: Callable[[Shard], None]  # checks a training shard, once
    target_symbols: list[str]  # those of the vocabulary that a training target holds
    shortlist_file: bytes | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifest of every checkpoint and model of the run says of its data."""
        return {**self.hashes, "target_symbols": self.target_symbols}


def prepare_if_missing(config: Config, note: Note) -> None:
    """Prepares missing data, but not under torchrun, where other ranks would wait for hours."""
    if world_size() == 1 and not PreparedData.is_in(Path(config.data.directory)):
        prepare.prepare(config, note=note, tokenizer=tokenizer_to_fine_tune(config))


def open_run(config: Config, ranks: Ranks, lock: atomic.Lock | None, note: Note) -> Run:
    """Opens data and directory of a run; the main process first sets the directory up.

    Args:
        note: is told when a run without a checkpoint starts over with other settings.

    Raises:
        InputError: no prepared data, the directory holds another run, or data and tokenizer do
            not belong together.
        NoModelError: the run was trained on other data, or these are damaged.
    """
    directory = RunDirectory(Path(config.training.run_directory))
    if not PreparedData.is_in(Path(config.data.directory)):
        raise InputError(
            f"no prepared data, {config.data.directory}, run nmt prepare before torchrun"
        )
    data = PreparedData.of(config)
    tokenizer = data.tokenizer()
    hashes = {"tokenizer_sha256": tokenizer.sha256, "data_sha256": data.manifest["data_sha256"]}
    if ranks.is_main:
        directory.refuse_what_is_not_ours()
        directory.refuse_changes(config, note)
        _refuse_other_data(directory, hashes)
        data.mark_used(directory.path)
        directory.set_up(config, tokenizer.model)
        atomic.write_if_changed(directory.data_manifest, data.manifest_file)
        kept_test_set.keep(data, directory.test_set, config.data)
    verified: set[Path] = set()

    def verify(shard: Shard) -> None:
        if shard.path not in verified:
            data.verify(shard)
            verified.add(shard.path)

    validation = data.shards("validation")
    for shard in validation:
        data.verify(shard)
    return Run(
        config,
        directory,
        ranks,
        lock,
        tokenizer,
        tokenizer.model,
        hashes,
        data.shards("train"),
        validation,
        verify,
        data.manifest["target_symbols"],
        data.shortlist_file(),
    )


def _refuse_other_data(directory: RunDirectory, hashes: dict[str, str]) -> None:
    """Raises NoModelError if the run's record says that it was trained on other data."""
    try:
        former = manifest.read(directory.path, "data", directory.data_manifest.name)
    except InputError:  # the record is lost: checkpoints are compared one by one
        return
    for key, value in hashes.items() if directory.models() else ():
        if former[key] != value:
            raise NoModelError(
                f"the data are not those that the run was trained on ({key} {value}, {former[key]} "
                f"in {directory.data_manifest}), restore them or name another "
                "training.run_directory"
            )
