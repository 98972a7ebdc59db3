"""Starts or resumes a run: opens its data and directory, and creates or restores its model."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from nmt.config import Config, Data
from nmt.data import kept_test_set
from nmt.data.prepared_data import PreparedData
from nmt.data.shards import Shard
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, NoModelError, Note
from nmt.model.transformer import Transformer
from nmt.runs import checkpoint as checkpoints
from nmt.runs.checkpoint import Checkpoint
from nmt.runs.model_directory import load_model, model_files, new_transformer
from nmt.runs.run_directory import RunDirectory, RunIdentity
from nmt.runs.state import Best, FastPath, State
from nmt.runs.tensor_files import refuse_unfit, shapes_of
from nmt.storage import atomic, manifest
from nmt.training.distributed import Ranks
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer, restore_state
from nmt.training.validation import InferenceCopy


@dataclass(frozen=True)
class Run:
    """The parts of a run that do not change during training."""

    config: Config
    identity: RunIdentity
    ranks: Ranks
    tokenizer: Tokenizer
    training: list[Shard]
    validation: list[Shard]
    verify: Callable[[Shard], None]  # checks a training shard before its first use
    files: dict[
        str, bytes
    ]  # tokenizer and, if configured, shortlist; written to each checkpoint and model
    facts: dict[str, Any]  # keys of each manifest: hashes of tokenizer and data, `target_symbols`

    @property
    def directory(self) -> RunDirectory:
        """Returns the run's directory."""
        return self.identity.directory

    @property
    def target_symbols(self) -> list[str]:
        """Returns the symbols of the vocabulary that occur in training targets."""
        symbols: list[str] = self.facts["target_symbols"]
        return symbols


@dataclass
class Training:
    """The parts of a run that change during training."""

    run: Run
    loss_module: TransformerLoss
    module: nn.Module  # loss_module, wrapped in DistributedDataParallel if there are several ranks
    optimizer: Optimizer
    best: Best
    elapsed_s: float = 0.0  # seconds of training until the checkpoint from which the run resumes
    path: FastPath | None = None  # the path of the run so far, see `choose_path`
    copy: InferenceCopy = field(default_factory=InferenceCopy)  # validations translate with it

    def state(self, step: int, elapsed_s: float) -> State:
        """Returns the content of state.json for a checkpoint of `step`."""
        return State(
            step=step,
            best=self.best.model_copy(),
            elapsed_s=elapsed_s,
            world_size=self.run.ranks.world_size,
            threads=torch.get_num_threads(),
            torch=str(torch.__version__),
            path=self.path,
        )


def be_deterministic(wanted: bool) -> None:
    """Sets whether PyTorch uses deterministic operations only."""
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(wanted)
    # that mode fills memory at each allocation, but no operation here reads it before writing it
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def open_run(config: Config, ranks: Ranks, note: Note) -> Run:
    """Opens a run's data and directory, first on the main process and then on all other ranks.

    Args:
        note: Called with a message if a run that has no checkpoint starts over with other settings.

    Raises:
        InputError: the data has not been prepared, the directory holds another run, the data and
            the tokenizer do not belong together, or ranks have different data.
        NoModelError: the run was trained on other data, or its data is damaged.
    """
    directory = RunDirectory(Path(config.training.run_directory))
    data = PreparedData.of(config, 'Run "nmt prepare" before torchrun.')
    tokenizer = data.tokenizer()
    hashes = {key: data.manifest[key] for key in checkpoints.HASHES}
    files = model_files(tokenizer.model, data.shortlist_file())
    if ranks.is_main:
        directory.refuse_what_is_not_ours()
        directory.refuse_changes(config, note)
        _refuse_other_data(directory, hashes)
        data.mark_used(directory.path)
        directory.set_up(config, tokenizer.model)
        atomic.write_if_changed(directory.data_manifest, manifest.file_of(data.manifest))
        kept_test_set.keep(data, directory.test_set, config.data)
    verified: set[Path] = set()

    def verify(shard: Shard) -> None:
        if shard.path not in verified:
            data.verify(shard)
            verified.add(shard.path)

    validation = data.shards("validation")
    for shard in validation:
        data.verify(shard)
    _refuse_different(ranks, hashes, f"data in {config.data.directory}")
    identity = RunIdentity(directory, config.to_yaml().encode(), data.manifest)
    return Run(
        config, identity, ranks, tokenizer, data.shards("train"), validation, verify, files,
        hashes | {"target_symbols": data.manifest["target_symbols"]},
    )  # fmt: skip


def _refuse_other_data(directory: RunDirectory, hashes: dict[str, str]) -> None:
    """Raises NoModelError if, according to its record, the run was trained on other data."""
    try:
        former = manifest.read(directory.path, "data", directory.data_manifest.name)
    except InputError:  # the record is lost: checkpoints are compared one by one
        return
    for key, value in hashes.items() if directory.models() else ():
        if former[key] != value:
            raise NoModelError(
                f"The prepared data is not the data that the run was trained on: {key} is {value}, "
                f"but {former[key]} in {directory.data_manifest}. Restore the data, or choose "
                "another training.run_directory."
            )


def newest_checkpoint(run: Run, note: Note) -> Checkpoint | None:
    """Reads the checkpoint from which the run resumes; returns None if there is no checkpoint.

    Raises:
        InputError: ranks have different checkpoints.
        NoModelError: there are checkpoints, but none is valid.
    """
    start = checkpoints.newest(run.identity, note)
    step = start.step if start else 0
    _refuse_different(run.ranks, step, f"checkpoints in {run.directory}")
    return start


def _refuse_different(ranks: Ranks, value: object, name: str) -> None:
    """Raises InputError unless all ranks have the same `value`.

    Values can differ if each machine has its own disk.
    """
    if any(other != value for other in ranks.gather(value)):
        raise InputError(f"Ranks have different {name}. Use one file system for all machines.")


def begin_training(run: Run, start: Checkpoint | None, note: Note) -> Training:
    """Returns the model and the optimizer, restored from a checkpoint or newly created.

    Args:
        note: Called with warnings about the model to fine-tune, if there is such a model.

    Raises:
        NoModelError: the optimizer state in the checkpoint does not fit the run's optimizer.
    """
    config, ranks = run.config, run.ranks
    transformer = _initial_transformer(run, start, note).to(ranks.device).train()
    loss_module = TransformerLoss(transformer, config.training.label_smoothing)
    optimizer = new_optimizer(transformer, config)
    if start is None:
        return Training(run, loss_module, ranks.wrap(loss_module), optimizer, Best())
    folder = run.directory.checkpoint(start.step)
    restore_state(optimizer, transformer, start.optimizer, start.step, folder)
    state = start.state
    return Training(
        run, loss_module, ranks.wrap(loss_module), optimizer, state.best.model_copy(),
        state.elapsed_s, state.path,
    )  # fmt: skip


def _initial_transformer(run: Run, start: Checkpoint | None, note: Note) -> Transformer:
    """Returns a Transformer with new weights, or those of a checkpoint or a model to fine-tune."""
    transformer, origin = new_transformer(run.config), run.config.training.initialize_from
    if start:
        transformer.load_state_dict(start.weights)
    elif origin:
        model = load_model(Path(origin), device=torch.device("cpu"), note=note)
        if model.tokenizer.sha256 != run.tokenizer.sha256:
            raise InputError(
                f"Model {origin} (training.initialize_from) has a different tokenizer from the "
                "prepared data. Prepare the data into a new directory with initialize_from set, "
                "to use the model's tokenizer."
            )
        _warn_of_other_languages(model.config.data, run.config.data, origin, note)
        weights = model.transformer.state_dict()
        remedy = "Set training.initialize_from to a model with the same model settings."
        refuse_unfit(shapes_of(transformer.state_dict()), shapes_of(weights), Path(origin), remedy)
        transformer.load_state_dict(weights)
    else:
        transformer.initialize(run.config.training.seed)
    return transformer


def _warn_of_other_languages(initial: Data, own: Data, origin: str, note: Note) -> None:
    theirs, ours = (f"{data.source_language}-{data.target_language}" for data in (initial, own))
    if theirs != ours:
        note(
            f"nmt: warning: Model {origin} (training.initialize_from) translates {theirs}, but is "
            f"fine-tuned on {ours}. Choose another model if that is not intended."
        )
