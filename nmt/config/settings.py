"""Defines every setting with its meaning, unit, range and default value.

The settings are listed in the order in which they appear in a configuration file. `BASE` contains
the settings of the base model of Vaswani et al. (2017), which `nmt config` prints. Relative paths
are resolved against the current directory, so that the same configuration works in several
checkouts. In all paths, a leading `~` is replaced with the home directory. Apart from the
replacement of `~`, paths are stored as written, so that a run can be resumed after all its files
have been moved together.
"""

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union

from pydantic import (
    AfterValidator,
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
# The configuration of a model may come from an untrusted source, so its values must be bounded.
Layers = Annotated[int, Field(ge=1, le=1000)]
Width = Annotated[int, Field(ge=1, le=100_000)]
Word = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]


def with_home(path: str) -> str:
    """Replaces a leading `~` with the home directory."""
    return os.path.expanduser(path)  # noqa: PTH111, because a Path would change "./x" to "x"


PathName = Annotated[Word, AfterValidator(with_home)]
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
Measure = Literal["bleu", "chrf", "nll"]  # the metric by which validations are compared
# A symbol consists of printable ASCII characters without spaces, which normalization does not
# change. It begins and ends with punctuation, so that no word is mistaken for a symbol.
_SYMBOL = re.compile(r"[!-/:-@\[-`{-~][!-~]{1,14}[!-/:-@\[-`{-~]")
_MAX_SYMBOLS = 1000
_RESERVED = re.compile("<(pad|s|/s|unk|0x[0-9A-F]{2})>")


def _symbols_fault(symbols: Sequence[str]) -> str | None:
    """Returns a message about the first problem with `symbols`, or None if there is no problem."""
    if len(symbols) > _MAX_SYMBOLS:
        return f"{len(symbols):,} symbols exceed the maximum of {_MAX_SYMBOLS:,}"
    for number, symbol in enumerate(symbols):
        if not _SYMBOL.fullmatch(symbol):
            return (
                f"{symbol!r:.60} is not a valid symbol; a symbol, such as <2de>, has 3 to 16 "
                "printable ASCII characters without spaces, and begins and ends with punctuation"
            )
        if _RESERVED.fullmatch(symbol):
            return f"{symbol} is already a token of every vocabulary"
        if symbol in symbols[:number]:
            return f"{symbol} is listed twice"
    return None


def _paper(key: str, meaning: str) -> Any:
    """Returns a pydantic field whose default is the value in the paper's base model."""
    return Field(default=BASE[key], description=meaning)


class Section(BaseModel):
    """An immutable group of settings that rejects unknown keys and values of other types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    def below(cls, key: str) -> "type[Section] | None":
        """Returns the section that `key` names, or None if `key` is a single setting or unknown."""
        field = cls.model_fields.get(key)
        inner = field.annotation if field else None
        return inner if isinstance(inner, type) and issubclass(inner, Section) else None


_SOURCE_NAME = "name of the source column, or of a field in a struct, such as translation.en"
_TARGET_NAME = "name of the target column"
_LOSS_WEIGHT: Any = Field(
    default=None,
    description="column with a loss weight for each pair: a finite number >= 0, by which the loss "
    "of the pair's target tokens is multiplied. Without this setting, all loss weights are 1. "
    "(The setting weight determines how often a pair occurs, not its loss weight)",
)
_WEIGHT: Any = Field(
    default=1.0, description="average number of times that each pair occurs in an epoch"
)
_PREFIX: Any = Field(
    default=None,
    description="one or more of tokenizer.symbols, separated by spaces, that are prepended to each "
    "source, such as <BT> for back-translated text or <2de> for a translation direction. Cleaning "
    "rules and language checks ignore the prefix",
)


class Corpus(Section):
    """An entry in data.train, data.validation or data.test; each kind of corpus is a subclass."""

    if TYPE_CHECKING:  # the last fields of every kind
        weight: Weight
        source_prefix: Word | None

    @classmethod
    def kind(cls) -> str:
        """Returns the key that identifies this kind of corpus (the name of the first field)."""
        return next(iter(cls.model_fields))

    @property
    def settings(self) -> Any:
        """The value of the key that identifies this kind of corpus."""
        return getattr(self, self.kind())


class Hub(Corpus):
    """A dataset on the Hugging Face Hub, or in a local directory with the same layout."""

    hub: PathName = Field(
        description="name of the dataset, such as wmt/wmt14, or a local directory"
    )
    name: Word | None = Field(
        default=None, description="configuration of the dataset, such as de-en"
    )
    split: Word = Field(description="split of the dataset, such as train")
    loss_weight_column: Word | None = _LOSS_WEIGHT
    weight: Weight = _WEIGHT
    source_prefix: Word | None = _PREFIX

    @property
    def settings(self) -> "Hub":
        """The corpus entry itself, whose keys are the settings of the Hub dataset."""
        return self


class TextFiles(Section):
    """Two text files that are aligned line by line."""

    source: PathName = Field(description="source file, one sentence per line, plain or compressed")
    target: PathName = Field(description="target file, aligned with the source file line by line")


class TsvFile(Section):
    """A file with tab-separated columns."""

    path: PathName = Field(description="path of the file, plain or compressed")
    source_column: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0, description="number of the source column, counted from 0"
    )
    target_column: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=1, description="number of the target column, counted from 0"
    )
    loss_weight_column: Annotated[int, Field(ge=0, le=10_000)] | None = _LOSS_WEIGHT


class ColumnsFile(Section):
    """A Parquet file with columns, or a JSON Lines file whose keys are used as columns."""

    path: PathName = Field(description="path of the file")
    source_column: Word = Field(description=_SOURCE_NAME)
    target_column: Word = Field(description=_TARGET_NAME)
    loss_weight_column: Word | None = _LOSS_WEIGHT


class DemoPairs(Section):
    """Sentence pairs that the demo grammar generates."""

    pairs: Positive = Field(description="number of sentence pairs")
    seed: Seed = Field(default=1, description="random seed; another seed gives other sentences")


def _kind(key: str, settings: Any, about: str) -> type[Corpus]:
    """Creates a corpus class with a field named `key` and the fields that all kinds share.

    For pickling, the class must be assigned to a variable with the name of the class, such as `Tsv`
    for the key `tsv`.
    """
    fields: Any = {
        key: (settings, Field(description=about)),
        "weight": (Weight, _WEIGHT),
        "source_prefix": (Word | None, _PREFIX),
    }
    name = key.capitalize()
    return create_model(name, __base__=Corpus, __doc__=about, __module__=__name__, **fields)


Text = _kind("text", TextFiles, "Two text files, plain or compressed with gzip, bzip2 or xz.")
Tsv = _kind(
    "tsv",
    TsvFile,
    "A file with tab-separated columns, plain or compressed with gzip, bzip2 or xz.",
)
Parquet = _kind("parquet", ColumnsFile, "A Parquet file with named columns.")
Jsonl = _kind(
    "jsonl",
    ColumnsFile,
    "A file with one JSON object per line, plain or compressed with gzip, bzip2 or xz.",
)
Demo = _kind("demo", DemoPairs, "Sentence pairs from the built-in English-German grammar.")

CORPUS_KINDS = {kind.kind(): kind for kind in Corpus.__subclasses__()}


def _kind_of(corpus: Any) -> str | None:
    """Returns the kind of a corpus entry if exactly one key names a kind, and otherwise None."""
    keys = dict(corpus) if isinstance(corpus, dict | Section) else {}
    kinds = [kind for kind in CORPUS_KINDS if kind in keys]
    return kinds[0] if len(kinds) == 1 else None


if TYPE_CHECKING:
    Corpora = tuple[Corpus, ...]
else:
    _TAGGED = tuple(Annotated[kind, Tag(key)] for key, kind in CORPUS_KINDS.items())
    _ANY_KIND = Annotated[Union[_TAGGED], Discriminator(_kind_of)]  # noqa: UP007
    Corpora = Annotated[tuple[_ANY_KIND, ...], Field(strict=False)]  # accepts lists from YAML


class Data(Section):
    """The settings for the languages, the corpora and the preparation of the data."""

    directory: PathName = Field(description="directory of the prepared data")
    source_language: Word = Field(description="code of the language to translate from, such as en")
    target_language: Word = Field(description="code of the language to translate into, such as de")
    max_length: Annotated[int, Field(ge=2, le=100_000)] = Field(
        default=256,
        description="maximum number of tokens per side, including EOS; longer pairs are dropped "
        "from the training data",
    )
    train: Corpora = Field(
        description="corpora to train on; empty only for an imported model, which was not trained "
        "by nmt"
    )
    validation: Corpora = Field(default=(), description="corpora for validation during training")
    test: Corpora = Field(default=(), description="corpora of the default test set of nmt evaluate")
    shortlist: bool = Field(
        default=False,
        description="whether to learn a lexical shortlist: the target tokens that each source "
        "token may be translated into. A shortlist can make translation on a CPU faster",
    )


class Tokenizer(Section):
    """The BPE vocabulary, which both languages share (Vaswani et al., 2017, §5.1)."""

    vocabulary_size: Annotated[int, Field(ge=264, le=1_000_000)] = _paper(
        "tokenizer.vocabulary_size",
        "number of tokens: 4 special tokens, symbols, 256 bytes, and subwords of both languages",
    )
    symbols: Annotated[tuple[Word, ...], Field(strict=False)] = Field(
        default=(),
        description="at most 1,000 tokens of your own, such as <2de> or <BT>. A symbol consists of "
        "3 to 16 printable ASCII characters without spaces, with punctuation at both ends. In "
        "text, it is always a single token; vocabulary_size includes the symbols. A symbol that "
        "does not occur in the training targets never occurs in a translation",
    )
    model: PathName | None = Field(
        default=None,
        description="an existing SentencePiece model, BPE or unigram, to use instead of training "
        "one. Its normalization is kept; pieces for padding, BOS and EOS are added if they are "
        "missing. vocabulary_size must be the resulting number of pieces",
    )

    @model_validator(mode="after")
    def _symbols_are_sound(self) -> Self:
        if self.model is not None and self.symbols:
            raise ValueError("tokenizer.symbols cannot be added to an existing tokenizer.model")
        if fault := _symbols_fault(self.symbols):
            raise ValueError(f"tokenizer.symbols: {fault}")
        return self


class Model(Section):
    """The architecture of the Transformer.

    If Table 3 of Vaswani et al. (2017) has a symbol for a setting, the name or the description of
    the setting contains the symbol.
    """

    encoder_layers: Layers = _paper("model.encoder_layers", "number of encoder layers, N")
    decoder_layers: Layers = _paper("model.decoder_layers", "number of decoder layers, N")
    d_model: Width = _paper(
        "model.d_model", "width of the embeddings and of every layer; must be even"
    )
    d_ff: Width = _paper("model.d_ff", "inner width of the feed-forward networks")
    heads: Annotated[int, Field(ge=1, le=1000)] = _paper(
        "model.heads", "number of attention heads, h"
    )
    d_k: Width = _paper("model.d_k", "width of the queries and keys of each head")
    d_v: Width = _paper("model.d_v", "width of the values of each head")
    dropout: Probability = _paper(
        "model.dropout",
        "P_drop, dropout on the outputs of sub-layers, and on the sums of embeddings and "
        "positional encodings (§5.4)",
    )
    attention_dropout: Probability = _paper(
        "model.attention_dropout", "dropout on the attention weights; not in the paper"
    )
    activation_dropout: Probability = _paper(
        "model.activation_dropout",
        "dropout on the inner activations of the feed-forward networks; not in the paper",
    )
    positions: Literal["sinusoidal", "learned", "rotary"] = _paper(
        "model.positions",
        "positional encoding. sinusoidal and learned (§3.5): added to the embeddings; rotary: the "
        "queries and keys of self-attention are rotated (Su et al., 2021)",
    )
    norm: Literal["post", "pre"] = _paper(
        "model.norm",
        "position of the normalization. post: LayerNorm(x + Sublayer(x)) (§3.1); pre: x + "
        "Sublayer(LayerNorm(x))",
    )
    feed_forward: Literal["relu", "swish", "swiglu"] = Field(
        default="relu",
        description="activation of the feed-forward networks: ReLU (§3.3), Swish (also called "
        "SiLU; Ramachandran et al., 2017) or SwiGLU (Shazeer, 2020). SwiGLU has three weight "
        "matrices instead of two; with 2/3 of d_ff, it has as many weights as ReLU",
    )
    output_bias: bool = Field(
        default=False,
        description="whether the logits have a bias for each token, as in Marian's models. The "
        "paper's model has none (§3.4)",
    )
    norm_type: Literal["layer", "rms"] = Field(
        default="layer",
        description="type of normalization. layer: LayerNorm (§3.1); rms: RMSNorm (Zhang & "
        "Sennrich, 2019)",
    )
    attention_window: Positive | None = _paper(
        "model.attention_window",
        "size r of the neighborhood to which self-attention is restricted (§4). Each token can "
        "attend to itself and r // 2 tokens on each side, in the decoder only to preceding tokens. "
        "Cross-attention is not restricted. The paper's models do not use this setting",
    )

    @model_validator(mode="after")
    def _even(self) -> Self:
        if self.d_model % 2:
            raise ValueError(f"model.d_model must be even, but is {self.d_model}")
        if self.positions == "rotary" and self.d_k % 2:
            raise ValueError(
                f"model.d_k must be even if model.positions is rotary, but is {self.d_k}"
            )
        return self


# The settings that may change when a run is resumed; nmt train rejects all other changes.
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
    """The settings for training (Vaswani et al., 2017, §5) and for keeping checkpoints."""

    run_directory: PathName = Field(
        description="directory for the checkpoints, the log and the model"
    )
    max_steps: Positive = _paper("training.max_steps", "total number of optimizer steps")
    max_hours: Hours | None = Field(
        default=None,
        description="maximum number of hours of training, including the hours before a run was "
        "resumed; the run then saves a checkpoint and writes its finished model. A run that has "
        "ended can be resumed with a higher value",
    )
    batch_tokens: Positive = _paper(
        "training.batch_tokens",
        "maximum number of tokens per step on each side, summed over all ranks",
    )
    micro_batches: MicroBatches | Literal["auto"] = Field(
        default="auto",
        description="number of micro-batches per step, summed over all ranks; auto: one per rank",
    )
    warmup_steps: Positive = _paper(
        "training.warmup_steps",
        "number of steps in which the learning rate rises (Eq. 3); without decay_after, it also "
        "determines the peak of the learning rate",
    )
    decay_after: Positive | None = Field(
        default=None,
        description="step until which the learning rate stays at its peak; at least warmup_steps. "
        "After this step, the rate falls as in Eq. 3, with this step in place of warmup_steps. "
        "With this setting, warmup_steps affects neither the peak nor the later rates",
    )
    learning_rate_factor: Scale = _paper(
        "training.learning_rate_factor",
        "factor by which the learning rate of Eq. 3 is multiplied; 1 in the paper",
    )
    optimizer: Literal["adam", "lion", "muon"] = Field(
        default="adam",
        description="adam (§5.3); lion (Chen et al., 2023), whose authors recommend a third to "
        "a tenth of Adam's learning rate; or muon (Jordan et al., 2024), which updates the weight "
        "matrices of the layers, while Adam updates all other parameters with the same learning "
        "rate",
    )
    label_smoothing: Probability = _paper(
        "training.label_smoothing",
        "probability mass that is spread evenly over the vocabulary (§5.4)",
    )
    gradient_clip: Scale | None = _paper(
        "training.gradient_clip",
        "maximum norm to which the gradient of each step is clipped; not in the paper",
    )
    precision: Literal["fp32", "bf16", "auto"] = _paper(
        "training.precision",
        "data type of matrix multiplications and of residual sums; auto: bf16 if the machine has "
        "instructions for bf16, otherwise fp32 (a resumed run keeps its precision); the weights "
        "are always fp32",
    )
    seed: Seed = Field(
        default=1, description="random seed for the initial weights, the batches and dropout"
    )
    deterministic: bool = Field(
        default=False,
        description="whether to use only deterministic operations, which may be slower",
    )
    compile: bool | Literal["auto"] = Field(
        default="auto",
        description="whether to compile the layers with torch.compile and pack micro-batches into "
        "tensors of one shape; auto: only on a GPU",
    )
    checkpoint_every: Positive = _paper(
        "training.checkpoint_every", "number of steps between checkpoints"
    )
    keep_checkpoints: Positive = Field(
        default=10,
        description="number of newest checkpoints to keep; the checkpoint with the best validation "
        "is also kept",
    )
    average_last: Positive = _paper(
        "training.average_last", "number of last checkpoints to average for the finished model"
    )
    validate_every: Positive = Field(
        default=1500, description="number of steps between validations"
    )
    log_every: Positive = Field(default=100, description="number of steps between log lines")
    early_stopping: Positive | None = Field(
        default=None,
        description="number of consecutive validations without a new best result (by best_by) "
        "after which training stops",
    )
    best_by: Measure = Field(
        default="bleu",
        description="measure by which validations are compared; the best validation has the "
        "highest bleu, the highest chrf or the lowest nll (in nats per target token)",
    )
    ema_decay: Decay | None = Field(
        default=None,
        description="decay of an exponential moving average e of the weights, which is updated "
        "after each step: e <- decay * e + (1 - decay) * weights. The newest two checkpoints "
        "contain the average in addition to the weights",
    )
    finished_model: Literal["better", "average", "ema"] = Field(
        default="better",
        description="weights of the finished model. average: the mean of the last average_last "
        "checkpoints (§6.1); better: that mean or the best checkpoint, whichever has the better "
        "validation by best_by (without data.validation, the mean); ema: the moving average after "
        "the last step (see ema_decay)",
    )
    initialize_from: PathName | None = Field(
        default=None,
        description="directory of the model, checkpoint or run to fine-tune",
    )
    process_group_timeout_s: Positive = Field(
        default=600, description="number of seconds after which the job exits if a rank hangs"
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
    """The settings for beam search (Vaswani et al., 2017, §6.1)."""

    beam: Annotated[int, Field(ge=1, le=MAX_BEAM)] = _paper(
        "decoding.beam", "beam size (§6.1); 1 is greedy search"
    )
    length_penalty: Annotated[float, Field(ge=0, le=100)] = _paper(
        "decoding.length_penalty",
        "exponent alpha; the log-probability of n tokens is divided by ((5 + n) / 6)^alpha (§6.1)",
    )
    max_extra_length: Annotated[int, Field(ge=0, le=100_000)] = _paper(
        "decoding.max_extra_length",
        "number of tokens by which a translation may be longer than its source (§6.1)",
    )


class Config(Section):
    """A complete configuration."""

    data: Data = Field(description="the corpora and the data prepared from them")
    tokenizer: Tokenizer = Field(default=Tokenizer(), description="the shared BPE vocabulary")
    model: Model = Field(default=Model(), description="the architecture of the model")
    training: Training = Field(description="how the model is trained, and what is saved")
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
        """Rejects a `source_prefix` with unknown symbols, which the model would learn as text."""
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
        """Returns the resolved configuration as YAML, without settings whose value is null."""
        return dump(self.model_dump(mode="json", exclude_none=True))
