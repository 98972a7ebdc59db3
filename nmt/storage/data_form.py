"""The form of a data manifest: what may stand in it, so that its readers need not ask."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

_Count = Annotated[int, Field(ge=0, le=10**12)]
_Weight = Annotated[float, Field(ge=0.0001, le=10_000)]  # as the configuration has it


class _Form(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _Shard(_Form):
    file: str
    pairs: Annotated[int, Field(ge=1, le=2**31)]
    source_tokens: _Count
    target_tokens: _Count
    weight: _Weight
    segmentation: Annotated[int, Field(ge=0, le=1000)] = 0


class _Shards(_Form):
    train: Annotated[list[_Shard], Field(min_length=1)]
    validation: list[_Shard]

    @model_validator(mode="after")
    def _segmentations_follow_each_other(self) -> Self:
        former = None
        for shard in self.train:
            if shard.segmentation:
                expected = (shard.segmentation - 1, shard.pairs, shard.weight)
                if former is None or expected != (former.segmentation, former.pairs, former.weight):
                    raise ValueError(f"{shard.file} does not follow its other segmentations")
            former = shard
        return self


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


class _DataManifest(_Form):
    files: dict[str, dict[str, Any]]
    settings: _Settings
    shards: _Shards
    corpora: list[_Corpus]

    @model_validator(mode="after")
    def _shards_are_files(self) -> Self:
        for shard in (*self.shards.train, *self.shards.validation):
            if shard.file not in self.files:
                raise ValueError(f"{shard.file} is not among its files")
        return self


def fault(content: dict[str, Any]) -> str | None:
    """What is wrong with a manifest's form, in a few words; None if nothing is."""
    try:
        _DataManifest.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return None
