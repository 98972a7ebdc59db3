"""Defines state.json, the file that contains a checkpoint's training state."""

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
# The possible execution paths for training, fastest first (see `nmt.training.fast_paths`).
FastPath = Literal["flex", "compiled", "eager", "plain"]


class Best(BaseModel):
    """The scores of a run's best validation, and the step of the run's last validation."""

    model_config = _STRICT

    step: Count | None = None
    bleu: float = -1.0
    chrf: float | None = None  # None before the first validation
    nll: float | None = None
    worse_since: Count = 0  # number of validations since the best validation
    validated: Count = 0  # the step of the last validation

    def update(self, step: int, validation: Mapping[str, Any], by: Measure) -> bool:
        """Records a validation's log.jsonl entry; returns whether its score is the best so far."""
        self.validated = step
        is_best = _is_better(by, validation[by], getattr(self, by))
        if is_best:
            self.step, self.worse_since = step, 0
            self.bleu, self.chrf, self.nll = (validation[key] for key in ("bleu", "chrf", "nll"))
        else:
            self.worse_since += 1
        return is_best

    def beats(self, validation: Mapping[str, Any], by: Measure) -> bool:
        """Returns whether the run's best validation is better than the given validation."""
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
    # The next three values are for information only.
    world_size: PositiveInt
    threads: PositiveInt
    torch: str
    # The execution path, which a resumed run also uses; None on a CPU without compiled layers.
    path: FastPath | None = None


def read_state(path: Path, since: object = None) -> State:
    """Returns the training state of a checkpoint.

    Args:
        path: the path of state.json.
        since: the training state in the checkpoint's manifest, or None if the manifest contains no
            training state. A training state in the manifest replaces the one in state.json.

    Raises:
        NoModelError: state.json or the training state in the manifest is invalid.
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
