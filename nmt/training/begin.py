"""Prepares a run for training: opens its data and directory, and creates or restores its model."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from nmt.config import Config, Data, refuse_file
from nmt.data import kept_test_set
from nmt.data.prepared_data import PreparedData
from nmt.data.shards import Shard
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, Note
from nmt.model.devices import supports_bf16
from nmt.model.transformer import Transformer
from nmt.runs.checkpoint import HASHES, Checkpoint
from nmt.runs.model_directory import load_model, model_files, new_transformer
from nmt.runs.run_directory import RunDirectory, RunIdentity
from nmt.runs.state import Best, FastPath, State
from nmt.runs.tensor_files import refuse_unfit, shapes_of
from nmt.training.distributed import Ranks, is_under_torchrun
from nmt.training.loss import TransformerLoss
from nmt.training.optimizers import new_optimizer, restore_state
from nmt.training.validation import InferenceCopy


@dataclass(frozen=True)
class Run:
    """The configuration, the data and other parts of a run that do not change during training."""

    config: Config
    identity: RunIdentity
    ranks: Ranks
    tokenizer: Tokenizer
    training: list[Shard]
    validation: list[Shard]
    verify: Callable[[Shard], None]  # checks a training shard before its first use
    files: dict[str, bytes]  # tokenizer and any shortlist, which every model contains
    facts: dict[str, Any]  # manifest entries: hashes of tokenizer and data, `target_symbols`

    @property
    def directory(self) -> RunDirectory:
        """Returns the run's directory."""
        return self.identity.directory

    @property
    def target_symbols(self) -> list[str]:
        """Returns the vocabulary symbols that occur in the training targets."""
        symbols: list[str] = self.facts["target_symbols"]
        return symbols


@dataclass
class Training:
    """The parts of a run that change during training, such as the model and the optimizer."""

    run: Run
    loss_module: TransformerLoss
    module: nn.Module  # loss_module, wrapped in DistributedDataParallel if there are several ranks
    optimizer: Optimizer
    best: Best
    elapsed_s: float = 0.0  # seconds of training up to the checkpoint that the run resumes from
    path: FastPath | None = None  # execution path used so far (see `choose_path`)
    copy: InferenceCopy = field(default_factory=InferenceCopy)  # used for translation in validation

    def state(self, step: int, elapsed_s: float) -> State:
        """Returns the training state to save in the checkpoint of `step`."""
        return State(
            step=step,
            best=self.best.model_copy(),
            elapsed_s=elapsed_s,
            world_size=self.run.ranks.world_size,
            threads=torch.get_num_threads(),
            torch=str(torch.__version__),
            path=self.path,
        )


def open_run(config: Config, directory: RunDirectory, ranks: Ranks, note: Note) -> Run:
    """Opens a run's prepared data on every rank; the main process also sets up the run directory.

    Args:
        note: a function that is called with warnings and, if a run without checkpoints starts over,
            with a message for each changed setting.

    Raises:
        InputError: the data has not been prepared or is damaged, the run directory contains a run
            with other settings, the tokenizer does not belong to the data, or the ranks read
            different data.
        NoModelError: the run was trained on other data.
    """
    remedy = 'Run "nmt prepare" before torchrun.' if is_under_torchrun() else "Run nmt prepare."
    config = with_auto_decided(config, ranks, directory)
    data = PreparedData.of(config, remedy)
    tokenizer = data.tokenizer()
    files = model_files(tokenizer.model, data.shortlist_file())
    training, validation = data.shards("train"), data.shards("validation")
    for shard in validation:
        data.verify(shard)
    hashes = {key: data.manifest[key] for key in HASHES}
    if ranks.is_main:
        directory.refuse_what_is_not_ours()
        directory.refuse_changes(config, note)
        directory.refuse_other_data(hashes)
        data.mark_used(directory.path)
        if changed := data.changed_input():
            note(
                f"nmt: warning: {changed} was changed after {data.directory} was prepared. The run "
                "uses the prepared data. To train on the new text, choose another data.directory "
                "and another training.run_directory."
            )
        directory.set_up(config, tokenizer.model, data.manifest)
        kept_test_set.keep(data, directory.test_set, config.data)
    ranks.refuse_different(hashes, f"data in {data.directory}")
    identity = RunIdentity(directory, config.to_yaml().encode(), data.manifest)
    return Run(
        config, identity, ranks, tokenizer, training, validation, data.verify, files,
        hashes | {"target_symbols": data.manifest["target_symbols"]},
    )  # fmt: skip


def refuse_unfit_directory(config: Config) -> None:
    """Raises InputError if `config` cannot be used with its `training.run_directory`.

    Call this function before slow work such as data preparation, so that users see the error early.

    Raises:
        InputError: `training.run_directory` is a file, contains a run with other settings, or
            contains files that nmt did not create but would overwrite.
    """
    directory = RunDirectory(Path(config.training.run_directory))
    refuse_file(("training", "run_directory"), directory.path)
    directory.refuse_what_is_not_ours()
    # `open_run` reports the messages later
    directory.refuse_changes(config, lambda text: None)


def with_auto_decided(
    config: Config, ranks: Ranks, directory: RunDirectory | None = None
) -> Config:
    """Returns the configuration with the values that "auto" stands for.

    Layers are compiled if a GPU is available, and the precision is bf16 if the devices of all ranks
    support it. Once the run has a checkpoint, the values in the run directory are used, even if the
    run is resumed on a different device.

    Args:
        directory: the directory of the run, which may exist already; None if there is no run.
    """
    precision = "bf16" if all_support_bf16(ranks) else "fp32"
    decided = {"compile": torch.cuda.is_available(), "precision": precision}
    if directory and directory.has_begun():
        with suppress(InputError):  # `refuse_changes` reports the error
            former = directory.settings().training
            stored = {"compile": former.compile, "precision": former.precision}
            decided |= {key: value for key, value in stored.items() if value != "auto"}
    update = {key: new for key, new in decided.items() if getattr(config.training, key) == "auto"}
    return config.model_copy(update={"training": config.training.model_copy(update=update)})


def all_support_bf16(ranks: Ranks) -> bool:
    """Returns whether the devices of all ranks have instructions for bf16; all ranks call this."""
    return not ranks.max(not supports_bf16(ranks.device))


def begin_training(run: Run, start: Checkpoint | None, note: Note) -> Training:
    """Returns the model and the optimizer, restored from a checkpoint or newly created.

    Also enables PyTorch's deterministic mode if `training.deterministic` is set, and disables it
    otherwise.

    Args:
        start: the checkpoint to restore, or None for a new run. To free memory, the tensors are
            removed from `start` after they have been restored.
        note: a function that is called with messages about the model to fine-tune.

    Raises:
        NoModelError: the optimizer state in the checkpoint does not match the run's optimizer.
    """
    config, ranks = run.config, run.ranks
    be_deterministic(config.training.deterministic)
    transformer = _initial_transformer(run, start, note).to(ranks.device).train()
    loss_module = TransformerLoss(transformer, config.training.label_smoothing)
    optimizer = new_optimizer(transformer, config)
    if start is None:
        return Training(run, loss_module, ranks.wrap(loss_module), optimizer, Best())
    folder = run.directory.checkpoint(start.step)
    restore_state(optimizer, transformer, start.optimizer, start.step, folder)
    for restored in (start.weights, start.optimizer):
        restored.clear()  # frees the memory, because callers keep `start`
    state = start.state
    return Training(
        run, loss_module, ranks.wrap(loss_module), optimizer, state.best.model_copy(),
        state.elapsed_s, state.path,
    )  # fmt: skip


def be_deterministic(wanted: bool) -> None:
    """Enables or disables the mode in which PyTorch uses only deterministic operations."""
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(wanted)
    # In deterministic mode, torch would also fill uninitialized memory. This takes time and is not
    # needed, because training never reads uninitialized memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _initial_transformer(run: Run, start: Checkpoint | None, note: Note) -> Transformer:
    """Returns a Transformer with the weights from which training starts or continues.

    The weights are restored from `start`, or copied from the model that is to be fine-tuned. If
    there is neither a checkpoint nor a model to fine-tune, the weights are random.
    """
    transformer, origin = new_transformer(run.config), run.config.training.initialize_from
    if start:
        transformer.load_state_dict(start.weights)
    elif origin:
        model = load_model(Path(origin), device=torch.device("cpu"), note=note)
        if model.tokenizer.sha256 != run.tokenizer.sha256:
            raise InputError(
                f"The data was not prepared with the tokenizer of {origin} "
                "(training.initialize_from). Set data.directory to a new directory, and run nmt "
                "prepare with training.initialize_from set."
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
            f"nmt: warning: Model {origin} (training.initialize_from) was trained for {theirs}, "
            f"but is fine-tuned on {ours} data. If the languages should match, choose another "
            "model."
        )
