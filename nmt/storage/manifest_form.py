"""The form of a manifest of each kind: what may be in it, so that its readers need not ask."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

_MAX_STEP = 2**53  # as of a log

_Count = Annotated[int, Field(ge=0, le=10**12)]
_Weight = Annotated[float, Field(ge=0.0001, le=10_000)]  # as the configuration has it


class _Form(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


def _inside(name: str) -> str:
    if not name.isprintable() or Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError("a name that leads outside, or cannot be printed")
    return name


class _File(_Form):
    size: int
    sha256: str


class _Manifest(_Form):
    files: dict[Annotated[str, AfterValidator(_inside)], _File]


class _Trained(_Manifest):
    """Of a model or checkpoint."""

    step: Annotated[int, Field(ge=0, le=_MAX_STEP)]
    tokenizer_sha256: str
    data_sha256: str
    target_symbols: list[str]


class _TestSet(_Manifest):
    corpora: list[Any]


class _Shard(_Form):
    file: str
    pairs: Annotated[int, Field(ge=1, le=2**31)]
    source_tokens: _Count
    target_tokens: _Count
    weight: _Weight


class _Shards(_Form):
    train: Annotated[list[_Shard], Field(min_length=1)]
    validation: list[_Shard]


class _Corpus(_Form):
    split: Literal["train", "validation", "test"]
    corpus: str
    weight: _Weight
    read: _Count
    pairs: _Count
    repaired: dict[str, _Count]
    dropped: dict[str, _Count]


class _Tokenizer(_Form):
    vocabulary_size: Annotated[int, Field(ge=1, le=1_000_000)]


class _Settings(_Form):
    data: dict[str, Any]
    tokenizer: _Tokenizer


class _Data(_Manifest):
    tokenizer_sha256: str
    data_sha256: str
    origin_sha256: str
    target_symbols: list[str]
    settings: _Settings
    shards: _Shards
    corpora: list[_Corpus]

    @model_validator(mode="after")
    def _shards_are_files(self) -> Self:
        for shard in (*self.shards.train, *self.shards.validation):
            if shard.file not in self.files:
                raise ValueError(f"{shard.file} is not among its files")
        return self


class _Exported(_Manifest):
    target_symbols: list[str]


_FORMS: dict[str, type[_Manifest]] = {
    "data": _Data,
    "checkpoint": _Trained,
    "model": _Trained,
    "test set": _TestSet,
    "ctranslate2": _Exported,
}


def fault(kind: str, content: dict[str, Any]) -> str | None:
    """What is wrong with the form of a manifest of that kind, in a few words; None: nothing."""
    try:
        _FORMS[kind].model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return None
