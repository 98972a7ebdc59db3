"""Defines state.json, which a resumed run reads in addition to weights and optimizer state."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveInt,
    ValidationError,
)

from nmt.config import Measure
from nmt.errors import NoModelError

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)

NAMES: dict[Measure, str] = {"bleu": "BLEU", "chrf": "chrF", "nll": "nll"}  # names in messages

Count = Annotated[int, Field(ge=0)]
# The execution paths for training, fastest first (see `nmt.training.fast_paths`).
FastPath = Literal["flex", "compiled", "eager", "plain"]


class Best(BaseModel):
    """The scores of the best validation of a run, and the step of the last validation."""

    model_config = _STRICT

    step: Count | None = None
    bleu: float = -1.0
    chrf: float | None = None  # None: no validation yet
    nll: float | None = None
    worse_since: Count = 0  # number of validations since the best
    validated: Count = 0  # the step of the last validation

    def update(self, step: int, validation: Mapping[str, Any], by: Measure) -> bool:
        """Records `validation`, an entry of log.jsonl; returns whether it is the best so far."""
        self.validated = step
        is_best = _is_better(by, validation[by], getattr(self, by))
        if is_best:
            self.step, self.worse_since = step, 0
            self.bleu, self.chrf, self.nll = (validation[key] for key in ("bleu", "chrf", "nll"))
        else:
            self.worse_since += 1
        return is_best

    def beats(self, validation: Mapping[str, Any], by: Measure) -> bool:
        """Returns whether the best validation is better than an entry of log.jsonl."""
        own = getattr(self, by)
        return self.step is not None and own is not None and _is_better(by, own, validation[by])


def _is_better(by: Measure, value: float, other: float | None) -> bool:
    if other is None:
        return True
    return value < other if by == "nll" else value > other


class State(BaseModel):
    """The content of state.json; unknown keys are ignored."""

    model_config = _STRICT | ConfigDict(frozen=True)

    step: Count
    best: Best
    elapsed_s: NonNegativeFloat  # seconds of training so far (see `RunLog.elapsed_s`)
    # for information only
    world_size: PositiveInt
    threads: PositiveInt
    torch: str
    # The execution path, which a resumed run also uses; None on a CPU without compiled layers.
    path: FastPath | None = None


def read_state(path: Path, since: object = None) -> State:
    """Returns the state in a checkpoint.

    Args:
        path: path of state.json.
        since: the state in the checkpoint's manifest, which replaces the state in the file; None if
            the manifest has no state.

    Raises:
        NoModelError: the state is not valid.
    """
    try:
        state = State.model_validate_json(path.read_bytes())
        return state if since is None else State.model_validate(since)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}: " for part in first["loc"])
        raise NoModelError(
            f"{path} is damaged ({place}{first['msg']}). Restore it from a copy."
        ) from None
