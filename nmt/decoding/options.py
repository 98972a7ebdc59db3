"""How to translate: what a search keeps and forbids, or how samples are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import NoReturn, TypedDict

from nmt.config import MAX_BEAM
from nmt.decoding.glossary import Glossary
from nmt.errors import ArgumentError

_MAX_ALPHA = 100  # as of decoding.length_penalty
_MAX_TEMPERATURE = 100
_MAX_SEED = 2**63 - 1
_COUNTS = ("beam", "n_best", "batch_tokens", "no_repeat_ngram", "mbr", "top_k")


@dataclass(frozen=True)
class Distribution:
    """From which distribution a token is drawn."""

    temperature: float = 1.0  # > 0, divides the logits
    top_k: int | None = None  # of the k likeliest tokens
    top_p: float = 1.0  # of the fewest likeliest tokens with this share of what `top_k` leaves


class SearchSettings(TypedDict, total=False):
    """The fields of SearchOptions, as arguments by name."""

    beam: int | None
    length_penalty: float | None
    n_best: int
    batch_tokens: int | None
    no_repeat_ngram: int | None
    sample: bool
    mbr: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    align: bool
    attention: bool
    glossary: Glossary | Mapping[str, str] | str | Path | None


@dataclass(frozen=True)
class SearchOptions:
    """How to search; None: the model's configuration decides, or for `batch_tokens` the device.

    With `sample` or `mbr` nothing is searched for: translations are drawn by chance, from what
    `temperature`, `top_k` and `top_p` leave of the model's distribution. They depend on the text,
    the model, these options and `seed` alone.

    Raises:
        ArgumentError: a value out of its range, or values that do not go together.
    """

    beam: int | None = None  # hypotheses kept for each sentence; 1: greedy
    length_penalty: float | None = None  # alpha
    n_best: int = 1  # at most the beam; of samples, how many; with `mbr`, at most as many
    batch_tokens: int | None = None  # see Translator.n_best
    no_repeat_ngram: int | None = None  # no n tokens in a row come twice in a translation
    sample: bool = False
    mbr: int | None = None  # draw so many samples; best is what is most like all of them
    temperature: float | None = None  # divides the logits; None: 1
    top_k: int | None = None  # draw from the k likeliest tokens; None: from all
    top_p: float | None = None  # from the fewest with this share of the probability; None: 1
    seed: int | None = None  # of samples; None: 1
    align: bool = False  # find Translation.alignment too
    attention: bool = False  # find Translation.attention too
    # target terms that translations must contain by their source terms, or a TSV file of both
    glossary: Glossary | Mapping[str, str] | str | Path | None = None

    def __post_init__(self) -> None:
        for name in (*_COUNTS, "seed"):
            self._must_be(name, Integral, "a whole number")
        for name in ("length_penalty", "temperature", "top_p"):
            self._must_be(name, Real, "a number")
        for name in ("sample", "align", "attention"):
            if getattr(self, name) not in (True, False):
                self._refuse(name, "true or false")
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(f"must be at least 1, {{{name}}} {{}}, correct it", value)
        for name in ("beam", "mbr"):
            self._at_most(name, MAX_BEAM)
        if self.samples:
            self._at_most("n_best", MAX_BEAM)
        self._in_range("length_penalty", 0, _MAX_ALPHA)
        self._in_range("temperature", 0.001, _MAX_TEMPERATURE)
        self._in_range("top_p", 0.001, 1)
        self._in_range("seed", 0, _MAX_SEED)
        if self.glossary is not None:
            object.__setattr__(self, "glossary", Glossary.of(self.glossary))
        self._go_together()

    @property
    def samples(self) -> int:
        """How many are drawn for each sentence; 0: none, it is a search."""
        return self.mbr or (self.n_best if self.sample else 0)

    def width(self, default: int) -> int:
        """The beam width; ArgumentError if `n_best` exceeds it. `default`: if none was given."""
        beam = self.beam or default
        if self.n_best > beam and not self.samples:
            raise ArgumentError(
                "more translations wanted than hypotheses kept, {n_best} {} with {beam} {}, "
                "raise {beam} or lower {n_best}",
                self.n_best, beam,
            )  # fmt: skip
        return beam

    @property
    def distribution(self) -> Distribution:
        """From which distribution samples are drawn."""
        return Distribution(
            1.0 if self.temperature is None else float(self.temperature),
            self.top_k,
            1.0 if self.top_p is None else float(self.top_p),
        )

    def _must_be(self, name: str, kind: type, called: str) -> None:
        """Raises ArgumentError for a value of another kind; numpy's numbers are of either."""
        value = getattr(self, name)
        is_kind = isinstance(value, kind) and not isinstance(value, bool)
        if not is_kind and not (value is None and name != "n_best"):
            self._refuse(name, called)

    def _refuse(self, name: str, wanted: str) -> NoReturn:
        value = repr(getattr(self, name))[:60]
        raise ArgumentError(f"must be {wanted}, {{{name}}} {{}}, correct it", value)

    def _at_most(self, name: str, limit: int) -> None:
        value = getattr(self, name)
        if value is not None and value > limit:
            raise ArgumentError(f"must be at most {{}}, {{{name}}} {{}}, correct it", limit, value)

    def _in_range(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if value is not None and not least <= value <= most:
            raise ArgumentError(
                f"must be a number from {{}} to {{}}, {{{name}}} {{}}, correct it",
                least, most, value,
            )  # fmt: skip

    def _go_together(self) -> None:
        for name in ("temperature", "top_k", "top_p", "seed"):
            if getattr(self, name) is not None and not self.samples:
                raise ArgumentError(
                    f"only for samples, {{{name}}} {{}}, add {{sample}} or {{mbr}}",
                    getattr(self, name),
                )
        if self.beam is not None and self.samples:
            raise ArgumentError(
                f"samples are drawn, not searched for, {{beam}} {{}} with {self._drawn}, leave "
                "one out", self.beam,
            )  # fmt: skip
        if self.glossary is not None and self.samples:
            raise ArgumentError(
                f"{{glossary}} cannot be combined with {self._drawn}. Remove one of them."
            )
        if self.mbr is not None and self.n_best > self.mbr:
            raise ArgumentError(
                "more translations wanted than samples drawn, {n_best} {} with {mbr} {}, "
                "raise {mbr} or lower {n_best}",
                self.n_best, self.mbr,
            )  # fmt: skip

    @property
    def _drawn(self) -> str:
        return "{sample}" if self.mbr is None else "{mbr}"
