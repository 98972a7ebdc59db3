"""Defines every setting with its meaning, unit, range and default, in the order of a file.

`BASE` is the paper's base model (Vaswani et al., 2017); `nmt config` prints its values. Relative
paths are relative to the current directory, so that the same configuration works in several
checkouts. Paths are stored as written, so that a run can be resumed after the directory tree with
all its files was moved.
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
# A model's configuration may come from an untrusted source, so its values must be bounded.
Layers = Annotated[int, Field(ge=1, le=1000)]
Width = Annotated[int, Field(ge=1, le=100_000)]
Word = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
Probability = Annotated[float, Field(ge=0, le=0.99)]
Decay = Annotated[float, Field(ge=0, le=0.999999)]
Weight = Annotated[float, Field(ge=0.0001, le=10_000)]
Scale = Annotated[float, Field(gt=0, le=1_000_000)]
Hours = Annotated[float, Field(gt=0, le=100_000)]
MicroBatches = Annotated[
    int, Field(ge=1, le=10_000)
]  # even empty micro-batches cost memory and time
Seed = Annotated[int, Field(ge=0, lt=2**32)]
MAX_BEAM = 1000
Measure = Literal["bleu", "chrf", "nll"]  # what validations are compared by
# Printable ASCII without spaces, which normalization keeps; punctuation at both ends, so that no
# word is mistaken for a symbol.
_SYMBOL = re.compile(r"[!-/:-@\[-`{-~][!-~]{1,14}[!-/:-@\[-`{-~]")
_MAX_SYMBOLS = 1000
_RESERVED = re.compile("<(pad|s|/s|unk|0x[0-9A-F]{2})>")


def _symbols_fault(symbols: Sequence[str]) -> str | None:
    """Returns the problem with the symbols of a vocabulary, or None."""
    if len(symbols) > _MAX_SYMBOLS:
        return f"{len(symbols):,} symbols exceed the maximum of {_MAX_SYMBOLS:,}"
    for number, symbol in enumerate(symbols):
        if not _SYMBOL.fullmatch(symbol):
            return (
                f"{symbol!r:.60} is not a symbol of 3 to 16 printable ASCII characters without "
                "spaces, with punctuation at both ends, such as <2de>"
            )
        if _RESERVED.fullmatch(symbol):
            return f"{symbol} is a token of every vocabulary"
        if symbol in symbols[:number]:
            return f"{symbol} is listed twice"
    return None


def _paper(key: str, meaning: str) -> Any:
    """Returns a field whose default is the value of the paper's base model."""
    return Field(default=BASE[key], description=meaning)


class Section(BaseModel):
    """The settings below one key: immutable and strictly typed; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    def below(cls, key: str) -> "type[Section] | None":
        """Returns the section that `key` names, or None if `key` is a single setting or unknown."""
        field = cls.model_fields.get(key)
        inner = field.annotation if field else None
        return inner if isinstance(inner, type) and issubclass(inner, Section) else None


_SOURCE_NAME = "name of the source column; a dot reaches into a struct: translation.en"
_TARGET_NAME = "name of the target column"
_LOSS_WEIGHT: Any = Field(
    default=None,
    description="column with a loss weight for each pair, a finite number >= 0: the loss of its "
    "target tokens is multiplied by it. Without it every weight is 1. (weight is how often a pair "
    "occurs)",
)
_WEIGHT: Any = Field(default=1.0, description="how often each pair occurs in an epoch")
_PREFIX: Any = Field(
    default=None,
    description="one or more of tokenizer.symbols, separated by spaces, that are put before each "
    "source: <BT> for back-translated text, <2de> for a translation direction. Cleaning rules and "
    "language checks ignore the prefix",
)


class Corpus(Section):
    """An entry of data.train, data.validation or data.test; each kind of corpus is a subclass."""

    if TYPE_CHECKING:  # the last fields of every kind
        weight: Weight
        source_prefix: Word | None

    @classmethod
    def kind(cls) -> str:
        """Returns the key that identifies this kind of corpus: its first field."""
        return next(iter(cls.model_fields))

    @property
    def settings(self) -> Any:
        """The value of the key that identifies this kind of corpus."""
        return getattr(self, self.kind())


class Hub(Corpus):
    """A dataset of the Hugging Face hub, or a local directory in the hub's layout."""

    hub: Word = Field(description="name of the dataset, such as wmt/wmt14, or a directory")
    name: Word | None = Field(
        default=None, description="configuration of the dataset, such as de-en"
    )
    split: Word = Field(description="split of the dataset, such as train")
    loss_weight_column: Word | None = _LOSS_WEIGHT
    weight: Weight = _WEIGHT
    source_prefix: Word | None = _PREFIX

    @property
    def settings(self) -> "Hub":
        """The whole entry, because the settings of a hub dataset are not nested below `hub`."""
        return self


class TextFiles(Section):
    """Two text files, aligned line by line."""

    source: Word = Field(description="source file, one sentence per line, plain or .gz")
    target: Word = Field(description="target file, with as many lines")


class TsvFile(Section):
    """A file of tab-separated columns."""

    path: Word = Field(description="path of the file, plain or .gz")
    source_column: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0, description="source column, counted from 0"
    )
    target_column: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=1, description="target column, counted from 0"
    )
    loss_weight_column: Annotated[int, Field(ge=0, le=10_000)] | None = _LOSS_WEIGHT


class ColumnsFile(Section):
    """A file with named columns."""

    path: Word = Field(description="path of the file")
    source_column: Word = Field(description=_SOURCE_NAME)
    target_column: Word = Field(description=_TARGET_NAME)
    loss_weight_column: Word | None = _LOSS_WEIGHT


class DemoPairs(Section):
    """Sentence pairs of the demo language."""

    pairs: Positive = Field(description="number of sentence pairs")
    seed: Seed = Field(default=1, description="random seed; another gives other sentences")


def _kind(key: str, settings: Any, about: str) -> type[Corpus]:
    """Returns a corpus class with `settings` under its key, followed by the common fields.

    Assign the class to a variable with the class's own name (Tsv for tsv), as pickling requires.
    """
    fields: Any = {
        key: (settings, Field(description=about)),
        "weight": (Weight, _WEIGHT),
        "source_prefix": (Word | None, _PREFIX),
    }
    name = key.capitalize()
    return create_model(name, __base__=Corpus, __doc__=about, __module__=__name__, **fields)


Text = _kind("text", TextFiles, "Two text files with equal numbers of lines: plain, gzip, bz2, xz.")
Tsv = _kind("tsv", TsvFile, "Tab-separated columns, counted from 0, plain or compressed like text.")
Parquet = _kind("parquet", ColumnsFile, "One Parquet file with named columns.")
Jsonl = _kind("jsonl", ColumnsFile, "One JSON object per line, plain or compressed like text.")
Demo = _kind("demo", DemoPairs, "Sentences from the embedded English-German grammar.")

CORPUS_KINDS = {kind.kind(): kind for kind in Corpus.__subclasses__()}


def _kind_of(corpus: Any) -> str | None:
    """Returns an entry's kind of corpus, or None if the entry does not name exactly one kind."""
    keys = dict(corpus) if isinstance(corpus, dict | Section) else {}
    kinds = [kind for kind in CORPUS_KINDS if kind in keys]
    return kinds[0] if len(kinds) == 1 else None


if TYPE_CHECKING:
    Corpora = tuple[Corpus, ...]
else:
    _TAGGED = tuple(Annotated[kind, Tag(key)] for key, kind in CORPUS_KINDS.items())
    _ANY_KIND = Annotated[Union[_TAGGED], Discriminator(_kind_of)]  # noqa: UP007
    Corpora = Annotated[tuple[_ANY_KIND, ...], Field(strict=False)]  # accepts YAML's lists


class Data(Section):
    """The settings for the languages, the corpora and the cleaning."""

    directory: Word = Field(description="directory of the prepared data")
    source_language: Word = Field(description="language to translate from, a code such as en")
    target_language: Word = Field(description="language to translate into, a code such as de")
    max_length: Annotated[int, Field(ge=2, le=100_000)] = Field(
        default=256,
        description="maximum tokens per side, with EOS; longer pairs are dropped from training",
    )
    train: Annotated[Corpora, Field(min_length=1)] = Field(description="corpora to train on")
    validation: Corpora = Field(default=(), description="corpora for validation during training")
    test: Corpora = Field(default=(), description="the default test set of nmt evaluate")
    shortlist: bool = Field(
        default=False,
        description="also prepare a lexical shortlist: the tokens that a sentence may be "
        "translated into. It makes nmt translate faster on a CPU",
    )


class Tokenizer(Section):
    """The BPE vocabulary, shared by both languages (§5.1)."""

    vocabulary_size: Annotated[int, Field(ge=264, le=1_000_000)] = _paper(
        "tokenizer.vocabulary_size",
        "number of tokens: 256 bytes, 4 special tokens, subwords of both languages",
    )
    symbols: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(),
        description="at most 1,000 tokens of your own, such as <2de> or <BT>: 3 to 16 printable "
        "ASCII characters without spaces, with punctuation at both ends. In text, a symbol is "
        "always one token; it counts in vocabulary_size. A symbol that occurs in no training "
        "target never occurs in a translation",
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
    """The Transformer's sizes, named as in Table 3 (Vaswani et al., 2017)."""

    encoder_layers: Layers = _paper("model.encoder_layers", "N, layers of the encoder")
    decoder_layers: Layers = _paper("model.decoder_layers", "N, layers of the decoder")
    d_model: Width = _paper("model.d_model", "width of the embeddings and of every layer, even")
    d_ff: Width = _paper("model.d_ff", "inner width of the feed-forward networks")
    heads: Annotated[int, Field(ge=1, le=1000)] = _paper("model.heads", "attention heads, h")
    d_k: Width = _paper("model.d_k", "width of a head's queries and keys")
    d_v: Width = _paper("model.d_v", "width of a head's values")
    dropout: Probability = _paper(
        "model.dropout", "P_drop, on outputs of sub-layers and sums of embeddings (§5.4)"
    )
    attention_dropout: Probability = _paper(
        "model.attention_dropout", "dropout on attention weights; not in the paper"
    )
    activation_dropout: Probability = _paper(
        "model.activation_dropout",
        "dropout on the inner activations of the feed-forward networks; not in the paper",
    )
    positions: Literal["sinusoidal", "learned", "rotary"] = _paper(
        "model.positions",
        "positional encoding: sinusoidal or learned (§3.5), added to embeddings; rotary: queries "
        "and keys of self-attention are rotated (Su et al., 2021)",
    )
    norm: Literal["post", "pre"] = _paper(
        "model.norm", "post: LayerNorm(x + Sublayer(x)) (§3.1); pre: x + Sublayer(LayerNorm(x))"
    )
    feed_forward: Literal["relu", "swiglu"] = Field(
        default="relu",
        description="activation of the feed-forward networks: ReLU (§3.3), or SwiGLU (Shazeer, "
        "2020), which has three matrices instead of two and therefore as many weights with 2/3 of "
        "d_ff",
    )
    norm_type: Literal["layer", "rms"] = Field(
        default="layer",
        description="layer: LayerNorm (§3.1); rms: RMSNorm (Zhang & Sennrich, 2019)",
    )
    attention_window: Positive | None = _paper(
        "model.attention_window",
        "restricts self-attention (not cross-attention) to a neighborhood of size r around each "
        "position (§4): each token can attend to itself and r // 2 tokens on either side, in the "
        "decoder only to those before it. The paper's models do not use it",
    )

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.d_model % 2:
            raise ValueError(
                f"model.d_model must be even for sines and cosines, but is {self.d_model}"
            )
        if self.positions == "rotary" and self.d_k % 2:
            raise ValueError(f"model.d_k must be even for rotary positions, but is {self.d_k}")
        return self


# of a run that resumes; anything else is refused
MAY_CHANGE = frozenset(
    {
        "training.run_directory",  # a run may be moved
        "training.max_steps",
        "training.process_group_timeout_s",
        "training.max_hours",
        "training.checkpoint_every",
        "training.keep_checkpoints",
        "training.average_last",
        "training.validate_every",
        "training.log_every",
        "training.early_stopping",
        "training.finished_model",
        "decoding.beam",
        "decoding.length_penalty",
        "decoding.max_extra_length",
    }
)


class Training(Section):
    """The settings for training (§5), and for the checkpoints that are kept."""

    run_directory: Word = Field(description="directory of the checkpoints, the log and the model")
    max_steps: Positive = _paper("training.max_steps", "total optimizer steps")
    max_hours: Hours | None = Field(
        default=None,
        description="hours of training, over all resumptions, after which a run ends as it does at "
        "max_steps; with a higher number it trains on",
    )
    batch_tokens: Positive = _paper(
        "training.batch_tokens", "maximum tokens per step and side, over all ranks"
    )
    micro_batches: MicroBatches | Literal["auto"] = Field(
        default="auto", description="micro-batches that a step is divided into; auto: one per rank"
    )
    warmup_steps: Positive = _paper(
        "training.warmup_steps",
        "steps over which the learning rate rises (Eq. 3); without decay_after they also determine "
        "its peak",
    )
    decay_after: Positive | None = Field(
        default=None,
        description="step until which the learning rate stays at its peak, at least warmup_steps. "
        "Then the rate falls as in Eq. 3, in which this step replaces warmup_steps: with this "
        "setting, the length of the warm-up does not change the peak or the later rates",
    )
    learning_rate_factor: Scale = _paper(
        "training.learning_rate_factor", "factor on the learning rate of Eq. 3; 1: the paper"
    )
    optimizer: Literal["adam", "lion", "muon"] = Field(
        default="adam",
        description="adam (§5.3); lion (Chen et al., 2023), which needs a third to a tenth of "
        "Adam's learning rate; muon (Jordan et al., 2024) for the weights of the layers' matrix "
        "products and Adam for all other parameters, with one learning rate",
    )
    label_smoothing: Probability = _paper(
        "training.label_smoothing",
        "probability mass that is spread evenly over the vocabulary (§5.4)",
    )
    gradient_clip: Scale | None = _paper(
        "training.gradient_clip", "maximum norm of a step's gradient; not in the paper"
    )
    precision: Literal["fp32", "bf16"] = _paper(
        "training.precision",
        "number type of matrix products, on a CPU also of residual sums; weights are always fp32",
    )
    seed: Seed = Field(default=1, description="determines initial weights, batches and dropout")
    deterministic: bool = Field(
        default=False,
        description="use only deterministic operations, which may be slower",
    )
    compile: bool | Literal["auto"] = Field(
        default="auto",
        description="compile the layers (torch.compile) and pack micro-batches into rows of one "
        "shape; auto: only on a GPU",
    )
    checkpoint_every: Positive = _paper("training.checkpoint_every", "steps between checkpoints")
    keep_checkpoints: Positive = Field(
        default=10,
        description="newest checkpoints to keep; the best by validation is kept, too",
    )
    average_last: Positive = _paper(
        "training.average_last", "last checkpoints, whose mean is the finished model"
    )
    validate_every: Positive = Field(default=1500, description="steps between validations")
    log_every: Positive = Field(default=100, description="steps between log lines")
    early_stopping: Positive | None = Field(
        default=None,
        description="stop after this many validations in a row without a new best, by best_by",
    )
    best_by: Measure = Field(
        default="bleu",
        description="measure of the best validation: highest bleu, highest chrf or lowest nll "
        "(nats per target token)",
    )
    ema_decay: Decay | None = Field(
        default=None,
        description="decay of an exponential moving average of the weights, which every checkpoint "
        "contains beside the weights: e <- decay * e + (1 - decay) * weights after each step",
    )
    finished_model: Literal["better", "average", "ema"] = Field(
        default="better",
        description="average: the mean of the last average_last checkpoints (§6.1); better: that "
        "mean or the best checkpoint, whichever has the better validation by best_by; without "
        "data.validation the mean; ema: the moving average of ema_decay at the last step",
    )
    initialize_from: Word | None = Field(
        default=None, description="model, checkpoint or run directory to fine-tune"
    )
    process_group_timeout_s: Positive = Field(
        default=600, description="seconds after which a hanging rank ends the job"
    )

    @model_validator(mode="after")
    def _enough_to_average(self) -> Self:
        if self.average_last > self.keep_checkpoints:
            raise ValueError(
                f"training.average_last ({self.average_last}) must not exceed "
                f"training.keep_checkpoints ({self.keep_checkpoints})"
            )
        return self

    @model_validator(mode="after")
    def _rises_before_it_falls(self) -> Self:
        if self.decay_after is not None and self.decay_after < self.warmup_steps:
            raise ValueError(
                f"training.decay_after ({self.decay_after}) must be at least "
                f"training.warmup_steps ({self.warmup_steps})"
            )
        return self

    @model_validator(mode="after")
    def _moving_average_exists(self) -> Self:
        if self.finished_model == "ema" and self.ema_decay is None:
            raise ValueError("training.finished_model: ema requires training.ema_decay")
        return self


class Decoding(Section):
    """Beam search (§6.1)."""

    beam: Annotated[int, Field(ge=1, le=MAX_BEAM)] = _paper(
        "decoding.beam", "beam size (§6.1); 1 is greedy search"
    )
    length_penalty: Annotated[float, Field(ge=0, le=100)] = _paper(
        "decoding.length_penalty", "alpha: scores are divided by ((5 + tokens) / 6)^alpha (§6.1)"
    )
    max_extra_length: Annotated[int, Field(ge=0, le=100_000)] = _paper(
        "decoding.max_extra_length", "tokens by which a target may exceed its source (§6.1)"
    )


class Config(Section):
    """A whole configuration."""

    data: Data = Field(description="the corpora and the data prepared from them")
    tokenizer: Tokenizer = Field(default=Tokenizer(), description="the shared BPE vocabulary")
    model: Model = Field(default=Model(), description="the sizes of the Transformer")
    training: Training = Field(description="how the model is trained, and what is kept")
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
        """Refuses a misspelled prefix, which the model would learn as text."""
        known = self.tokenizer.symbols
        for split in ("train", "validation", "test"):
            for number, corpus in enumerate(getattr(self.data, split)):
                prefix = corpus.source_prefix
                if prefix is not None and not set(prefix.split(" ")) <= {*known}:
                    raise ValueError(
                        f"data.{split}.{number}.source_prefix must consist of tokenizer.symbols "
                        f"({' '.join(known) or 'none'}), not {prefix:.60}"
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
            raise ValueError("training.early_stopping requires data.validation, which is empty")
        return self

    def to_yaml(self) -> str:
        """Returns the resolved configuration as YAML, with every setting."""
        return dump(self.model_dump(mode="json", exclude_none=True))
