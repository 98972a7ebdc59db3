"""state.json, which holds what a resumed run needs besides weights and moments, read strictly."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from nmt.errors import NoModelError

_MAX_BYTES = 1_000_000
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)

Count = Annotated[int, Field(ge=0, le=2**53)]


class Best(BaseModel):
    """The best validation so far, and how far validation has come."""

    model_config = _STRICT

    step: Count | None = None
    bleu: float = -1.0
    worse_since: Count = 0  # validations that were not better
    validated: Count = 0  # the step of the last validation


class State(BaseModel):
    """The content of state.json; keys that a person may have added do not count."""

    model_config = _STRICT | ConfigDict(frozen=True)

    step: Count
    best: Best
    elapsed_s: NonNegativeFloat  # of training behind it, see `RunLog.elapsed_s`
    # facts for a person
    world_size: PositiveInt
    threads: PositiveInt
    torch: str

    @model_validator(mode="after")
    def _is_of_the_past(self) -> Self:
        if max(self.best.step or 0, self.best.validated) > self.step:
            raise ValueError(f"a validation after step {self.step}")
        return self


def read_state(path: Path, step: int) -> State:
    """The state in the checkpoint of `step`; NoModelError if it is none that we have written."""
    try:
        with path.open("rb") as file:
            state = State.model_validate_json(file.read(_MAX_BYTES))
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}: " for part in first["loc"])
        raise NoModelError(
            f"damaged state ({place}{first['msg']}), {path}, restore it from a copy"
        ) from None
    if state.step != step:
        raise NoModelError(f"state of step {state.step}, {path}, restore that of step {step}")
    return state
