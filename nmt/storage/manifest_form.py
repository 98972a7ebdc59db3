"""Defines the schema of each kind of manifest, and checks manifests against these schemas."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError


class _Form(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


def _inside(name: str) -> str:
    if not name.isprintable() or Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError("a file name outside the directory, or with unprintable characters")
    return name


class _File(_Form):
    size: int
    sha256: str


class _Manifest(_Form):
    files: dict[Annotated[str, AfterValidator(_inside)], _File]


class _Trained(_Manifest):
    """The manifest of a model or checkpoint."""

    step: Annotated[int, Field(ge=0)]
    tokenizer_sha256: str
    data_sha256: str
    target_symbols: list[str]


class _TestSet(_Manifest):
    corpora: list[Any]


class _Shard(_Form):
    file: Annotated[str, AfterValidator(_inside)]
    pairs: int
    source_tokens: int
    target_tokens: int
    weight: float


class _Shards(_Form):
    train: list[_Shard]
    validation: list[_Shard]


class _Corpus(_Form):
    split: str
    corpus: str
    weight: float
    read: int
    pairs: int
    repaired: dict[str, int]
    dropped: dict[str, int]


class _Settings(_Form):
    data: dict[str, Any]
    tokenizer: dict[str, Any]


class _Data(_Manifest):
    tokenizer_sha256: str
    data_sha256: str
    origin_sha256: str
    target_symbols: list[str]
    settings: _Settings
    shards: _Shards
    corpora: list[_Corpus]


class _Bleu(_Form):
    score: float
    signature: str
    on: str


class _Original(_Form):
    """Facts about the model that was exported (see `nmt.reporting.about_model`)."""

    name: str
    parameters: int
    trained_on: str
    bleu: _Bleu | None
    opening: str | None


class _Exported(_Manifest):
    data_sha256: str
    target_symbols: list[str]
    original: _Original


_FORMS: dict[str, type[_Manifest]] = {
    "data": _Data,
    "checkpoint": _Trained,
    "model": _Trained,
    "test set": _TestSet,
    "ctranslate2": _Exported,
}


def fault(kind: str, content: dict[str, Any]) -> str | None:
    """Returns the first problem with a manifest of a given kind, or None if there is no problem."""
    try:
        _FORMS[kind].model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return None
