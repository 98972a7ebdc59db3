"""Every setting: what it means, its unit, its range and its default, in the order of a file.

`BASE` is the paper's base model (Vaswani et al., 2017); `nmt config` prints the numbers. Relative
paths are relative to the directory in which the command is run, so that one configuration serves
several checkouts, and are kept as they are written, so that a run can be resumed after its whole
tree was moved.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    create_model,
    model_validator,
)

from nmt.config.directories import misplaced
from nmt.config.strict_yaml import dump
from nmt.paper import BASE

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
Measure = Literal["bleu", "chrf", "nll"]  # of a validation
# Printable ASCII without blanks, which no normalization changes; a sign at both ends, so that no
# word is taken for a symbol.
_SYMBOL = re.compile(r"[!-/:-@\[-`{-~][!-~]{1,14}[!-/:-@\[-`{-~]")
_MAX_SYMBOLS = 1000
_PIECE_OF_ALL = re.compile("<(pad|s|/s|unk|0x[0-9A-F]{2})>")


def _symbols_fault(symbols: Sequence[str]) -> str | None:
    """What is wrong with symbols of a vocabulary, if anything."""
    if len(symbols) > _MAX_SYMBOLS:
        return f"{len(symbols):,} symbols, more than {_MAX_SYMBOLS:,}"
    for number, symbol in enumerate(symbols):
        if not _SYMBOL.fullmatch(symbol):
            return (
                f"{symbol!r:.60} is no symbol: 3 to 16 printable ASCII characters without a blank, "
                "a sign at both ends, such as <2de>"
            )
        if _PIECE_OF_ALL.fullmatch(symbol):
            return f"{symbol} is a piece of every vocabulary"
        if symbol in symbols[:number]:
            return f"{symbol} is named twice"
    return None


def _paper(key: str, meaning: str) -> Any:
    """A setting whose default is that of the paper's base model."""
    return Field(default=BASE[key], description=meaning)


class Section(BaseModel):
    """Settings below one key: frozen, each of its own type, no others than those named."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    def below(cls, key: str) -> "type[Section] | None":
        """The section that a key names; None if it names a single setting, or nothing."""
        field = cls.model_fields.get(key)
        inner = field.annotation if field else None
        return inner if isinstance(inner, type) and issubclass(inner, Section) else None


_SOURCE_NAME = "the source side's column, by name; a dot reaches into a struct: translation.en"
_TARGET_NAME = "the target side's column, by name"
_LOSS_WEIGHT: Any = Field(
    default=None,
    description="column with a loss weight for each pair, a finite number from 0 on: the loss of "
    "its target tokens is multiplied by it. Without a column every weight is 1. weight is how "
    "often a pair is seen",
)
_WEIGHT: Any = Field(default=1.0, description="how often each pair is seen in an epoch")
_PREFIX: Any = Field(
    default=None,
    description="one or more of tokenizer.symbols, a blank between them, written before each "
    "source with a blank: <BT> for back-translated text, <2de> for a direction. The cleaning rules "
    "see the text without it, and its languages are not looked at",
)


class Corpus(Section):
    """An entry of data.train, data.validation or data.test; each kind of corpus is a subclass."""

    if TYPE_CHECKING:  # each kind has them as its last fields
        weight: Weight
        source_prefix: Word | None

    @classmethod
    def kind(cls) -> str:
        """The key by which entries of this kind are known, their first."""
        return next(iter(cls.model_fields))

    @property
    def settings(self) -> Any:
        """What stands under that key."""
        return getattr(self, self.kind())


class Hub(Corpus):
    """A dataset of the Hugging Face hub, or a local folder in the hub's layout."""

    hub: Word = Field(description="the dataset's name, such as wmt/wmt14, or a folder")
    name: Word | None = Field(
        default=None, description="the dataset's configuration, such as de-en"
    )
    split: Word = Field(description="the dataset's split, such as train")
    loss_weight_column: Word | None = _LOSS_WEIGHT
    weight: Weight = _WEIGHT
    source_prefix: Word | None = _PREFIX

    @property
    def settings(self) -> "Hub":
        """What a reader is given: of other kinds what is under the key, here all of it."""
        return self


class TextFiles(Section):
    """Two text files, line by line."""

    source: Word = Field(description="file of the source side, a sentence a line, plain or .gz")
    target: Word = Field(description="file of the target side, as many lines")


class TsvFile(Section):
    """A file of tab-separated columns."""

    path: Word = Field(description="the file, plain or .gz")
    source_column: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0, description="column of the source side, counted from 0"
    )
    target_column: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=1, description="column of the target side, counted from 0"
    )
    loss_weight_column: Annotated[int, Field(ge=0, le=10_000)] | None = _LOSS_WEIGHT


class ColumnsFile(Section):
    """A file whose columns have names."""

    path: Word = Field(description="the file")
    source_column: Word = Field(description=_SOURCE_NAME)
    target_column: Word = Field(description=_TARGET_NAME)
    loss_weight_column: Word | None = _LOSS_WEIGHT


class DemoPairs(Section):
    """Sentence pairs of the demo language."""

    pairs: Positive = Field(description="how many sentence pairs")
    seed: Seed = Field(default=1, description="another seed writes other sentences")


def _kind(key: str, settings: Any, about: str) -> type[Corpus]:
    """A kind of corpus: `settings` under its key, then what every kind has.

    The class is to be assigned to its own name, Tsv for tsv: by that it is pickled.
    """
    fields: Any = {
        key: (settings, Field(description=about)),
        "weight": (Weight, _WEIGHT),
        "source_prefix": (Word | None, _PREFIX),
    }
    name = key.capitalize()
    return create_model(name, __base__=Corpus, __doc__=about, __module__=__name__, **fields)


Text = _kind("text", TextFiles, "Two text files of as many lines, plain, gzip, bzip2 or xz.")
Tsv = _kind(
    "tsv", TsvFile, "Tab-separated columns, counted from 0, plain or compressed as text is."
)
Parquet = _kind("parquet", ColumnsFile, "One parquet file, columns by name.")
Jsonl = _kind("jsonl", ColumnsFile, "One JSON object a line, plain or compressed as text is.")
Demo = _kind("demo", DemoPairs, "Sentences that the embedded English-German grammar writes.")

CORPUS_KINDS = {kind.kind(): kind for kind in Corpus.__subclasses__()}


def _kind_of(corpus: Any) -> str | None:
    """The one kind that an entry names, parsed or not; None if it names none or several."""
    keys = dict(corpus) if isinstance(corpus, dict | Section) else {}
    kinds = [kind for kind in CORPUS_KINDS if kind in keys]
    return kinds[0] if len(kinds) == 1 else None


if TYPE_CHECKING:
    Corpora = tuple[Corpus, ...]
else:
    _TAGGED = tuple(Annotated[kind, Tag(key)] for key, kind in CORPUS_KINDS.items())
    _ANY_KIND = Annotated[Union[_TAGGED], Discriminator(_kind_of)]  # noqa: UP007
    Corpora = Annotated[tuple[_ANY_KIND, ...], Field(strict=False)]  # a file has lists


class Data(Section):
    """What is translated into what, the corpora, and how they are cleaned."""

    directory: Word = Field(description="where the prepared data is put")
    source_language: Word = Field(description="language translated from, a code such as en")
    target_language: Word = Field(description="language translated to, a code such as de")
    max_length: Annotated[int, Field(ge=2, le=100_000)] = Field(
        default=256,
        description="tokens a side, end symbol included; longer pairs are dropped from training",
    )
    train: Annotated[Corpora, Field(min_length=1)] = Field(description="corpora to train on")
    validation: Corpora = Field(default=(), description="corpora to validate on while training")
    test: Corpora = Field(default=(), description="the model's own test set, for nmt evaluate")
    shortlist: bool = Field(
        default=False,
        description="learn which pieces a sentence may be translated into, so that nmt translate "
        "can be faster on a CPU",
    )


class Tokenizer(Section):
    """The BPE vocabulary that both languages share (§5.1)."""

    vocabulary_size: Annotated[int, Field(ge=264, le=1_000_000)] = _paper(
        "tokenizer.vocabulary_size", "pieces shared by both languages: 256 bytes, 4 symbols, text"
    )
    symbols: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(),
        description="at most 1,000 pieces of your own, such as <2de> or <BT>: 3 to 16 printable "
        "ASCII characters without a blank, a sign at both ends. Each is one piece wherever it "
        "stands in text and counts in vocabulary_size. One that no training target holds is never "
        "in a translation",
    )
    model: Word | None = Field(
        default=None,
        description="an existing SentencePiece model, BPE or unigram, to use instead of training "
        "one. Its normalization is kept; pieces for padding, BOS and EOS are added if it has none. "
        "vocabulary_size is the number of its pieces then",
    )

    @model_validator(mode="after")
    def _symbols_are_sound(self) -> Self:
        if self.model is not None and self.symbols:
            raise ValueError("tokenizer.symbols cannot be added to an existing tokenizer.model")
        if fault := _symbols_fault(self.symbols):
            raise ValueError(f"tokenizer.symbols: {fault}")
        return self


class Model(Section):
    """Vaswani et al. (2017), Table 3, with its symbols."""

    encoder_layers: Layers = _paper("model.encoder_layers", "N of the encoder")
    decoder_layers: Layers = _paper("model.decoder_layers", "N of the decoder")
    d_model: Width = _paper("model.d_model", "width of the embeddings and of every layer, even")
    d_ff: Width = _paper("model.d_ff", "inner width of the feed-forward networks")
    heads: Annotated[int, Field(ge=1, le=1000)] = _paper("model.heads", "attention heads, h")
    d_k: Width = _paper("model.d_k", "width of a head's queries and keys")
    d_v: Width = _paper("model.d_v", "width of a head's values")
    dropout: Probability = _paper(
        "model.dropout", "P_drop, on sub-layer outputs and embedding sums (§5.4)"
    )
    attention_dropout: Probability = _paper(
        "model.attention_dropout", "dropout on attention weights; the paper has none"
    )
    activation_dropout: Probability = _paper(
        "model.activation_dropout",
        "dropout behind the feed-forward networks' ReLU; the paper has none",
    )
    positions: Literal["sinusoidal", "learned"] = _paper(
        "model.positions", "positional encoding (§3.5)"
    )
    norm: Literal["post", "pre"] = _paper(
        "model.norm", "post: LayerNorm(x + Sublayer(x)) (§3.1); pre: x + Sublayer(LayerNorm(x))"
    )
    attention_window: Positive | None = _paper(
        "model.attention_window",
        "restricts self-attention, not cross-attention, to a neighborhood of size r "
        "centered around each position (§4). Taken as r positions in all: the token itself and "
        "r // 2 on either side, so that an even r counts as r + 1; the decoder sees of them the "
        "token itself and the r // 2 before it. The paper's models: none",
    )

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.d_model % 2:
            raise ValueError(
                f"model.d_model must be even for sines and cosines, found {self.d_model}"
            )
        return self


class Training(Section):
    """How a run trains (§5) and what it keeps."""

    run_directory: Word = Field(description="where checkpoints, log and the model are put")
    max_steps: Positive = _paper("training.max_steps", "optimizer steps in all")
    batch_tokens: Positive = _paper(
        "training.batch_tokens", "bound on one step's tokens over all ranks, on each side"
    )
    micro_batches: Slots | Literal["auto"] = Field(
        default="auto", description="slots that a step is cut into; auto: one a rank"
    )
    warmup_steps: Positive = _paper(
        "training.warmup_steps",
        "steps over which the learning rate rises (Eq. 3); it sets the peak too",
    )
    learning_rate_factor: Scale = _paper(
        "training.learning_rate_factor", "factor on Eq. 3's learning rate; 1: the paper"
    )
    label_smoothing: Probability = _paper(
        "training.label_smoothing",
        "share of the target distribution spread over the vocabulary (§5.4)",
    )
    gradient_clip: Scale | None = _paper(
        "training.gradient_clip", "bound on the norm of a step's gradient; the paper: none"
    )
    precision: Literal["fp32", "bf16"] = _paper(
        "training.precision",
        "of matrix products, and on a CPU of the sums of sub-layers; weights are always fp32",
    )
    seed: Seed = Field(default=1, description="decides initial weights, batches and dropout")
    deterministic: bool = Field(
        default=False,
        description="only operations that give the same bits every time, perhaps slower",
    )
    compile: bool | Literal["auto"] = Field(
        default="auto",
        description="compile the layers (torch.compile) and pack slots into rows of one shape; "
        "auto: on a GPU",
    )
    checkpoint_every: Positive = _paper("training.checkpoint_every", "steps between checkpoints")
    keep_checkpoints: Positive = Field(
        default=10,
        description="checkpoints kept, the newest; the best by validation is kept besides",
    )
    average_last: Positive = _paper(
        "training.average_last", "checkpoints whose mean is the finished model"
    )
    validate_every: Positive = Field(default=1500, description="steps between validations")
    log_every: Positive = Field(default=100, description="steps between lines of the log")
    early_stopping: Positive | None = Field(
        default=None,
        description="validations without a better one, by best_by, after which training ends",
    )
    best_by: Measure = Field(
        default="bleu",
        description="which validation is the best: highest bleu, highest chrf or lowest nll (nats "
        "per target token)",
    )
    finished_model: Literal["average", "better"] = Field(
        default="average",
        description="average: the mean of the last average_last checkpoints; better: that mean, or "
        "the best checkpoint alone where this one is better on the validation set, by best_by",
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
                f"training.average_last ({self.average_last}) must not exceed "
                f"training.keep_checkpoints ({self.keep_checkpoints})"
            )
        return self


class Decoding(Section):
    """Beam search (§6.1)."""

    beam: Annotated[int, Field(ge=1, le=MAX_BEAM)] = _paper(
        "decoding.beam", "hypotheses kept for each sentence (§6.1); 1 is greedy"
    )
    length_penalty: Annotated[float, Field(ge=0, le=100)] = _paper(
        "decoding.length_penalty", "alpha: scores are divided by ((5 + tokens) / 6)^alpha (§6.1)"
    )
    max_extra_length: Annotated[int, Field(ge=0, le=100_000)] = _paper(
        "decoding.max_extra_length", "target tokens beyond the number of the source's (§6.1)"
    )


class Config(Section):
    """A whole configuration."""

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
    def _prefixes_are_symbols(self) -> Self:
        """A misspelt one would be text, and the model would learn that instead."""
        known = self.tokenizer.symbols
        for split in ("train", "validation", "test"):
            for number, corpus in enumerate(getattr(self.data, split)):
                prefix = corpus.source_prefix
                if prefix is not None and not set(prefix.split(" ")) <= {*known}:
                    raise ValueError(
                        f"data.{split}.{number}.source_prefix must be made of tokenizer.symbols "
                        f"({' '.join(known) or 'none'}), found {prefix:.60}"
                    )
        return self

    @model_validator(mode="after")
    def _nothing_lies_where_it_is_replaced(self) -> Self:
        training = self.training
        problem = misplaced(self.data.directory, training.run_directory, training.initialize_from)
        if problem:
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _there_is_something_to_judge_by(self) -> Self:
        if self.training.early_stopping is not None and not self.data.validation:
            raise ValueError("training.early_stopping needs data.validation, which is empty")
        if self.training.finished_model == "better" and not self.data.validation:
            raise ValueError("training.finished_model better needs data.validation, which is empty")
        return self

    def to_yaml(self) -> str:
        """The resolved configuration as YAML, every setting written out."""
        return dump(self.model_dump(mode="json", exclude_none=True))
