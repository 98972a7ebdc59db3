"""The whole configuration: what each setting means, its unit, its range and its default.

A configuration is a YAML file, perhaps with a `base:` (another file, of which it overrides
parts), and overrides of the form `section.key=value`. Defaults are the paper's base model
(Vaswani et al., 2017); where a model is fine-tuned, its own model and tokenizer. Every problem of a
configuration is reported at once, with file, line, key and, for a misspelt key, the nearest one
there is.

Relative paths, in a file as in an override, are relative to the directory in which the command is
run, so that one configuration serves several checkouts; `base:` alone is relative to the file that
names it. They are kept as they are written, so that a run goes on where its whole tree was moved.
"""

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nmt import strict_yaml
from nmt.errors import InputError
from nmt.storage import names
from nmt.storage.atomic import PREFIX
from nmt.strict_yaml import KeyPath

Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]
# A model's configuration comes with it, from anywhere: what it asks for must be within reason.
Layers = Annotated[int, Field(ge=1, le=1000)]
Width = Annotated[int, Field(ge=1, le=100_000)]
Word = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]  # or a path, or a name
Probability = Annotated[float, Field(ge=0, le=0.99)]
Weight = Annotated[float, Field(ge=0.0001, le=10_000)]
Scale = Annotated[float, Field(gt=0, le=1_000_000)]
Slots = Annotated[int, Field(ge=1, le=10_000)]  # each costs memory and time, even an empty one
Seed = Annotated[int, Field(ge=0, lt=2**32)]
MAX_BEAM = 1000


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


_WEIGHT = "how often each pair is seen in an epoch"
_SOURCE_NAME = "the source side's column, by name; a dot reaches into a struct: translation.en"
_TARGET_NAME = "the target side's column, by name"


class Hub(Section):
    """A dataset of the Hugging Face hub, or a local folder in the hub's layout."""

    hub: Word = Field(description="the dataset's name, such as wmt/wmt14, or a folder")
    name: Word | None = Field(
        default=None, description="the dataset's configuration, such as de-en"
    )
    split: Word = Field(description="the dataset's split, such as train")
    weight: Weight = Field(default=1.0, description=_WEIGHT)


class TextFiles(Section):
    source: Word = Field(description="file of the source side, a sentence a line, plain or .gz")
    target: Word = Field(description="file of the target side, as many lines")


class Text(Section):
    """Two text files of as many lines, plain, gzip, bzip2 or xz."""

    text: TextFiles = Field(description="the two files")
    weight: Weight = Field(default=1.0, description=_WEIGHT)


class TsvFile(Section):
    path: Word = Field(description="the file, plain or .gz")
    source_column: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0, description="column of the source side, counted from 0"
    )
    target_column: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=1, description="column of the target side, counted from 0"
    )


class Tsv(Section):
    """One file of tab-separated columns, counted from 0, plain or compressed as text is."""

    tsv: TsvFile = Field(description="the file and its columns")
    weight: Weight = Field(default=1.0, description=_WEIGHT)


class ColumnsFile(Section):
    path: Word = Field(description="the file")
    source_column: Word = Field(description=_SOURCE_NAME)
    target_column: Word = Field(description=_TARGET_NAME)


class Parquet(Section):
    """One parquet file, columns by name; a dot reaches into a struct: translation.en."""

    parquet: ColumnsFile = Field(description="the file and its columns")
    weight: Weight = Field(default=1.0, description=_WEIGHT)


class JsonLines(Section):
    """One JSON object a line, plain or compressed as text is, columns by name as for parquet."""

    jsonl: ColumnsFile = Field(description="the file and its columns")
    weight: Weight = Field(default=1.0, description=_WEIGHT)


class DemoPairs(Section):
    pairs: Positive = Field(description="how many sentence pairs")
    seed: Seed = Field(default=1, description="another seed writes other sentences")


class Demo(Section):
    """Sentences that the embedded English-German grammar writes; the split is the list's."""

    demo: DemoPairs = Field(description="how many pairs, and of which seed")
    weight: Weight = Field(default=1.0, description=_WEIGHT)


CORPUS_KINDS: dict[str, type[Section]] = {
    "hub": Hub, "text": Text, "tsv": Tsv, "parquet": Parquet, "jsonl": JsonLines, "demo": Demo,
}  # fmt: skip
Corpus = Hub | Text | Tsv | Parquet | JsonLines | Demo


class Data(Section):
    directory: Word = Field(description="where the prepared data is put")
    source_language: Word = Field(description="language translated from, a code such as en")
    target_language: Word = Field(description="language translated to, a code such as de")
    max_length: Annotated[int, Field(ge=2, le=100_000)] = Field(
        default=256,
        description="tokens a side, end symbol included; longer pairs are dropped from training",
    )
    train: Annotated[tuple[Corpus, ...], Field(min_length=1)] = Field(
        description="corpora to train on"
    )
    validation: tuple[Corpus, ...] = Field(
        default=(), description="corpora to validate on while training"
    )
    test: tuple[Corpus, ...] = Field(
        default=(), description="the model's own test set, for nmt evaluate"
    )


class Tokenizer(Section):
    vocabulary_size: Annotated[int, Field(ge=264, le=1_000_000)] = Field(
        default=37_000, description="pieces shared by both languages: 256 bytes, 4 symbols, text"
    )
    bpe_dropout: Probability = Field(
        default=0.0,
        description="chance that a merge is skipped where training pairs are segmented "
        "(Provilkov et al., 2020: 0.1, for small corpora). Each training pair is then prepared in "
        "16 random segmentations, one for each epoch in turn. Validation and translation always "
        "have the usual segmentation, which also says whether a pair exceeds data.max_length",
    )


class Model(Section):
    """Vaswani et al. (2017), Table 3, with its symbols."""

    encoder_layers: Layers = Field(default=6, description="N of the encoder")
    decoder_layers: Layers = Field(default=6, description="N of the decoder")
    d_model: Width = Field(
        default=512, description="width of the embeddings and of every layer, even"
    )
    d_ff: Width = Field(default=2048, description="inner width of the feed-forward networks")
    heads: Annotated[int, Field(ge=1, le=1000)] = Field(default=8, description="attention heads, h")
    d_k: Width = Field(default=64, description="width of a head's queries and keys")
    d_v: Width = Field(default=64, description="width of a head's values")
    dropout: Probability = Field(
        default=0.1, description="P_drop, on sub-layer outputs and embedding sums (§5.4)"
    )
    attention_dropout: Probability = Field(
        default=0.0, description="dropout on attention weights; the paper has none"
    )
    activation_dropout: Probability = Field(
        default=0.0,
        description="dropout behind the feed-forward networks' ReLU; the paper has none",
    )
    positions: Literal["sinusoidal", "learned"] = Field(
        default="sinusoidal", description="positional encoding (§3.5)"
    )
    norm: Literal["post", "pre"] = Field(
        default="post",
        description="post: LayerNorm(x + Sublayer(x)) (§3.1); pre: x + Sublayer(LayerNorm(x))",
    )
    attention_window: Positive | None = Field(
        default=None,
        description="restricts self-attention, not cross-attention, to a neighborhood of size r "
        "centered around each position (§4). Taken as r positions in all: the token itself and "
        "r // 2 on either side, so that an even r counts as r + 1; the decoder sees of them the "
        "token itself and the r // 2 before it. The paper's models: none",
    )

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.d_model % 2:
            raise ValueError(f"d_model must be even for sines and cosines, found {self.d_model}")
        return self


class Training(Section):
    run_directory: Word = Field(description="where checkpoints, log and the model are put")
    max_steps: Positive = Field(default=100_000, description="optimizer steps in all")
    batch_tokens: Positive = Field(
        default=25_000, description="bound on one step's tokens over all ranks, on each side"
    )
    micro_batches: Slots | Literal["auto"] = Field(
        default="auto", description="slots that a step is cut into; auto: one a rank"
    )
    warmup_steps: Positive = Field(
        default=4000,
        description="steps over which the learning rate rises (Eq. 3); it sets the peak too",
    )
    learning_rate_factor: Scale = Field(
        default=1.0, description="factor on Eq. 3's learning rate; 1: the paper"
    )
    label_smoothing: Probability = Field(
        default=0.1,
        description="share of the target distribution spread over the vocabulary (§5.4)",
    )
    gradient_clip: Scale | None = Field(
        default=None, description="bound on the norm of a step's gradient; the paper: none"
    )
    precision: Literal["fp32", "bf16"] = Field(
        default="fp32", description="of matrix products; weights are always fp32"
    )
    seed: Seed = Field(default=1, description="decides initial weights, batches and dropout")
    deterministic: bool = Field(
        default=False,
        description="only operations that give the same bits every time, perhaps slower",
    )
    compile: bool = Field(default=False, description="run the model through torch.compile")
    checkpoint_every: Positive = Field(default=1500, description="steps between checkpoints")
    keep_checkpoints: Positive = Field(
        default=10,
        description="checkpoints kept, the newest; the best by validation stands beside them",
    )
    average_last: Positive = Field(
        default=5, description="checkpoints whose mean is the finished model"
    )
    validate_every: Positive = Field(default=1500, description="steps between validations")
    log_every: Positive = Field(default=100, description="steps between lines of the log")
    early_stopping: Positive | None = Field(
        default=None, description="validations without a better BLEU after which training ends"
    )
    initialize_from: Word | None = Field(
        default=None, description="a model, checkpoint or run directory to fine-tune"
    )
    process_group_timeout_s: Positive = Field(
        default=600, description="seconds after which a rank that hangs ends the job"
    )

    @model_validator(mode="after")
    def _enough_to_average(self) -> Self:
        if self.average_last > self.keep_checkpoints:
            raise ValueError(
                f"average_last ({self.average_last}) must not exceed "
                f"keep_checkpoints ({self.keep_checkpoints})"
            )
        return self


class Decoding(Section):
    beam: Annotated[int, Field(ge=1, le=MAX_BEAM)] = Field(
        default=4, description="hypotheses kept for each sentence (§6.1); 1 is greedy"
    )
    length_penalty: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.6, description="alpha: scores are divided by ((5 + tokens) / 6)^alpha (§6.1)"
    )
    max_extra_length: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=50, description="target tokens beyond the number of the source's (§6.1)"
    )


class Config(Section):
    data: Data = Field(description="corpora, and what is prepared from them")
    tokenizer: Tokenizer = Field(default=Tokenizer(), description="the shared BPE vocabulary")
    model: Model = Field(default=Model(), description="the Transformer's shape")
    training: Training = Field(description="how the model is trained, and what a run keeps")
    decoding: Decoding = Field(default=Decoding(), description="beam search")

    @model_validator(mode="after")
    def _longest_pair_fits(self) -> Self:
        if self.data.max_length > self.training.batch_tokens:
            raise ValueError(
                f"data.max_length ({self.data.max_length}) must not exceed "
                f"training.batch_tokens ({self.training.batch_tokens})"
            )
        return self

    @model_validator(mode="after")
    def _nothing_lies_where_it_is_replaced(self) -> Self:
        problem = _misplaced(self.data, self.training)
        if problem:
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _early_stopping_can_judge(self) -> Self:
        if self.training.early_stopping is not None and not self.data.validation:
            raise ValueError("training.early_stopping needs data.validation, which is empty")
        return self

    def to_yaml(self) -> str:
        """The resolved configuration as YAML, every setting written out."""
        content = self.model_dump(mode="json", exclude_none=True)
        return strict_yaml.dump(content)


def load(path: str | Path, overrides: Sequence[str] = (), *, origin: str = "overrides") -> Config:
    """The configuration in a file, with its `base:` and the overrides applied.

    With `training.initialize_from`, what they do not set of `model` and `tokenizer` is that
    model's; what its weights fix may not be set to anything else.

    Args:
        path: a YAML file.
        overrides: `dotted.key=value`, the value in YAML.
        origin: where they come from, for messages.

    Raises:
        InputError: one line for each problem found, with file, line and key.
    """
    content, origins = _read_with_base(Path(path), seen=())
    problems: list[str] = []
    for override in overrides:
        try:
            _apply(override, content, origins, origin)
        except InputError as error:
            problems += error.problems
    try:
        initial = _initial_config(content, origins)
        if initial:
            _inherit(content, initial)
        config = validate(content, origins, str(path))
    except InputError as error:
        raise InputError(*problems, *error.problems) from None
    if initial:
        problems += _misfits(config, initial, origins)
    if problems:
        raise InputError(*problems)
    return config


def read_merged(path: Path) -> dict[str, Any]:
    """What a file and its `base:` set, in one mapping, not checked; InputError as for `load`."""
    return _read_with_base(path, seen=())[0]


def load_resolved(path: Path) -> Config:
    """The configuration in a file that `to_yaml` wrote: no `base:` leads out of it."""
    content, lines = strict_yaml.read(path)
    if not isinstance(content, dict):
        raise InputError(f"no settings, {path}, a mapping of sections was expected")
    return validate(content, {key: f"{path}:{line}" for key, line in lines.items()}, str(path))


def _initial_config(content: Mapping[str, Any], origins: Mapping[KeyPath, str]) -> Config | None:
    """The configuration of the model that `training.initialize_from` names, if it names one.

    A run in which it was fine-tuned has the same model and tokenizer, and may outlive it.

    Returns:
        None as well if there is no such model yet and both sections are set: nothing is left to it.

    Raises:
        InputError: there is no such model, and something is left to it.
    """
    training = content.get("training")
    origin = training.get("initialize_from") if isinstance(training, dict) else None
    if not isinstance(origin, str) or not origin:
        return None
    folders = (Path(origin), Path(origin, names.MODEL), Path(str(training.get("run_directory"))))  # type: ignore[union-attr]
    for folder in folders:
        if (folder / names.CONFIG).is_file():
            return load_resolved(folder / names.CONFIG)
    if {"model", "tokenizer"} <= content.keys():
        return None
    raise InputError(
        f"no model to fine-tune, training.initialize_from {origin}, "
        f"{origins[('training', 'initialize_from')]}, name a model, checkpoint or run directory"
    )


def _inherit(content: dict[str, Any], initial: Config) -> None:
    """Fills in what a parsed configuration leaves to the model that it fine-tunes."""
    given = initial.model_dump()
    for section in ("model", "tokenizer"):
        own = content.setdefault(section, {})
        if isinstance(own, dict):
            content[section] = given[section] | own
    if initial.model.positions == "learned" and isinstance(content.get("data"), dict):
        content["data"].setdefault("max_length", initial.data.max_length)  # their number


def _misfits(config: Config, initial: Config, origins: Mapping[KeyPath, str]) -> list[str]:
    """A line for each setting that contradicts the weights to start from; dropout never does."""
    fixed = {f"model.{name}" for name in Model.model_fields if not name.endswith("dropout")}
    fixed |= {"tokenizer.vocabulary_size"}
    if config.model.positions == "learned":
        fixed |= {"data.max_length"}
    return [
        f"{key} is {json.dumps(ours)}, {config.training.initialize_from} has "
        f"{json.dumps(theirs)}, {origins[tuple(key.split('.'))]}, leave it out or set it so too"
        for key, (theirs, ours) in differences(initial, config).items()
        if key in fixed
    ]


def validate(content: Any, origins: Mapping[KeyPath, str], name: str) -> Config:
    """Checks a parsed configuration; `origins` tells for each key where it was written."""
    try:
        return Config.model_validate(_untagged(content))
    except ValidationError as error:
        problems = [
            _describe(dict(problem), content, origins, name)
            for problem in error.errors()
            # a list is called too short as well if all its entries are wrong
            if not (problem["type"] == "too_short" and problem["input"])
        ]
        raise InputError(*dict.fromkeys(problems)) from None


def differences(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Dotted keys whose values differ, with the two values."""
    flat_old, flat_new = _flatten(old.model_dump()), _flatten(new.model_dump())
    keys = list(dict.fromkeys([*flat_old, *flat_new]))
    return {
        key: (flat_old.get(key), flat_new.get(key))
        for key in keys
        if flat_old.get(key) != flat_new.get(key)
    }


_MAX_BASES = 20


def _misplaced(data: Data, training: Training) -> str | None:
    """Says which of the directories and models of a configuration would be removed with another."""
    run_directory, origin = training.run_directory, training.initialize_from
    if os.path.realpath(data.directory) == os.path.realpath(run_directory):
        return f"data.directory and training.run_directory are both {data.directory}"
    replaced = [
        ("data.directory", data.directory, names.IN_DATA, "nmt prepare"),
        ("training.run_directory", run_directory, names.IN_RUN, "nmt train"),
    ]
    kept = [("data.directory", data.directory), ("training.run_directory", run_directory)]
    kept += [("training.initialize_from", origin)] if origin else []
    for owner, directory, taken, command in replaced:
        for key, path in kept:
            name = _first_name(directory, path)
            if name in taken or name.startswith(PREFIX):
                return f"{key} is {path}, in what {command} replaces in {owner} {directory}"
    return None


def _first_name(directory: str, path: str) -> str:
    """Of the entry of `directory` in which `path` lies, links resolved; empty if in none."""
    below = os.path.relpath(os.path.realpath(path), os.path.realpath(directory))
    first = "".join(Path(below).parts[:1])
    return "" if first == os.pardir else first


def _flatten(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _read_with_base(path: Path, seen: tuple[str, ...]) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    content, lines = strict_yaml.read(path)
    resolved = os.path.realpath(path)
    if resolved in seen:
        raise InputError(f"base: leads back to this file, {path}, break the circle")
    if len(seen) > _MAX_BASES:
        raise InputError(
            f"more than {_MAX_BASES} files, one the base: of another, {path}, join them"
        )
    if not isinstance(content, dict):
        raise InputError(f"no settings found, {path}, a mapping of sections was expected")
    origins = {key: f"{path}:{line}" for key, line in lines.items()}
    base = content.pop("base", None)
    if base is None:
        return content, origins
    if not isinstance(base, str):
        raise InputError(f"base must be a file name, {origins[('base',)]}, correct it")
    below, below_origins = _read_with_base(path.parent / base, (*seen, resolved))
    return _merged(below, content), below_origins | origins


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(value, dict) and isinstance(old, dict)
        result[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return result


def _apply(
    override: str, content: dict[str, Any], origins: dict[KeyPath, str], origin: str
) -> None:
    dotted, equals, text = override.partition("=")
    keys = dotted.split(".")
    if not equals or not all(keys) or len(keys) > strict_yaml.MAX_DEPTH:
        raise InputError(f"not an override: {override:.100}, {origin}, write section.key=value")
    value, lines = strict_yaml.parse(text, f"{origin}: {dotted}")
    node = content
    for key in keys[:-1]:
        child = node.setdefault(key, {})
        if not isinstance(child, dict):
            child = node[key] = {}
        node = child
    node[keys[-1]] = value
    path: KeyPath = tuple(keys)
    origins.update({path[:n]: origin for n in range(1, len(path)) if path[:n] not in origins})
    origins.update({(*path, *below): origin for below in lines or {(): 1}})


def _untagged(content: Any) -> Any:
    """Gives each corpus the one class its kind names, so that errors speak of that class alone."""
    if not isinstance(content, dict) or not isinstance(content.get("data"), dict):
        return content
    data = dict(content["data"])
    for split in ("train", "validation", "test"):
        if isinstance(data.get(split), list | tuple):
            data[split] = tuple(_corpus(entry) for entry in data[split])
    return content | {"data": data}


def _corpus(entry: Any) -> Any:
    kinds = [kind for kind in CORPUS_KINDS if isinstance(entry, dict) and kind in entry]
    if len(kinds) != 1:
        return entry
    try:
        return CORPUS_KINDS[kinds[0]].model_validate(entry)
    except ValidationError:
        return entry


def _class_at(path: KeyPath, content: Any) -> type[Section] | None:
    """The section class whose keys stand at `path`, for naming the nearest known key."""
    here: type[Section] | None = Config
    for depth, key in enumerate(path):
        if isinstance(key, int):
            entry: Any = content
            for step in path[: depth + 1]:
                try:
                    entry = entry[step]
                except (KeyError, IndexError, TypeError):
                    return None
            kinds = [kind for kind in CORPUS_KINDS if isinstance(entry, dict) and kind in entry]
            here = CORPUS_KINDS[kinds[0]] if len(kinds) == 1 else None
        elif here is not None and key in here.model_fields:
            here = _section_in(here.model_fields[key].annotation)
        elif here is not None:
            return None
    return here


def _section_in(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    if get_origin(annotation) in (Union, UnionType, Annotated):
        found = [_section_in(part) for part in get_args(annotation)]
        sections = [section for section in found if section]
        return sections[0] if len(sections) == 1 else None
    return None


def allowed(section: type[Section], key: str) -> str:
    """What a setting may be: "a whole number from 1 to 1,000 or auto"."""
    return _allowed(section.model_json_schema()["properties"][key])


def _allowed(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_allowed(part) for part in schema["anyOf"])
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if schema.get("type") in ("integer", "number"):
        kind = "a whole number" if schema["type"] == "integer" else "a number"
        low = f"from {schema['minimum']:,}" if "minimum" in schema else "above 0"
        high = schema.get("maximum", schema.get("exclusiveMaximum", 0) - 1)
        return f"{kind} {low} to {high:,}".replace(".0 ", " ").removesuffix(".0")
    return _KINDS[schema.get("type", "object")]


_KINDS = {
    "string": "text, not empty, without a NUL character",
    "boolean": "true or false",
    "array": "a list of corpora",
    "object": "a mapping of settings",
    "null": "null",
}


def _describe(
    problem: dict[str, Any], content: Any, origins: Mapping[KeyPath, str], name: str
) -> str:
    """One error line for one of pydantic's findings."""
    *above, last = problem["loc"] or ("",)
    # parts that name a branch of a union are no keys
    path = tuple(part for part in above if part not in _UNION_BRANCHES)
    if problem["type"] == "extra_forbidden" or last not in _UNION_BRANCHES:
        path = (*path, last)
    if len(path) >= 3 and path[:1] == ("data",) and isinstance(path[2], int):
        path, problem = _corpus_problem(path, problem, content)
    key = ".".join(map(str, path))
    where = next((origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origins), name)
    found = json.dumps(problem.get("input"), ensure_ascii=False, default=str)
    found = found if len(found) <= 60 else found[:57] + "..."
    if problem["type"] == "extra_forbidden":
        section = _class_at(path[:-1], content)
        known = list(section.model_fields) if section else []
        near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known) or 'none'}"
        return f"unknown key {key}, {where}, {hint}"
    if problem["type"] == "value_error":
        return f"{problem['ctx']['error']}, {where}, correct {key or 'it'}"
    if problem["type"] == "corpus":
        return f"{key} must name exactly one of {', '.join(CORPUS_KINDS)}, {where}, correct it"
    if problem["type"] == "missing":
        return f"missing key {key}, {where}, add it"
    if problem["type"] == "too_short":
        return f"{key} must not be empty, {where}, name a corpus"
    section = _class_at(path[:-1], content)
    wanted = allowed(section, str(path[-1])) if section else _allowed({})
    return f"{key} must be {wanted}, found {found}, {where}, correct it"


_UNION_BRANCHES = {kind.__name__ for kind in CORPUS_KINDS.values()} | {
    "int",
    "float",
    "str",
    "constrained-int",
    "literal['auto']",
}


def _corpus_problem(
    path: KeyPath, problem: dict[str, Any], content: Any
) -> tuple[KeyPath, dict[str, Any]]:
    """The first problem of a corpus entry in the terms of its own kind."""
    entry, at = content["data"][path[1]][path[2]], path[:3]
    kinds = [kind for kind in CORPUS_KINDS if isinstance(entry, dict) and kind in entry]
    if len(kinds) != 1:
        return at, {"type": "corpus", "input": entry}
    try:
        CORPUS_KINDS[kinds[0]].model_validate(entry)
    except ValidationError as error:
        found = error.errors()  # a misspelt key is also missing: its own message says more
        first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
        return (*at, *first["loc"]), dict(first)
    raise AssertionError("a corpus that its own class accepts")
