"""Defines the options of beam search and sampling."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NoReturn, TypedDict

from nmt.config import MAX_BEAM
from nmt.decoding.glossary import Glossary
from nmt.errors import ArgumentError

_MAX_ALPHA = 100  # the setting decoding.length_penalty has the same limit
_MAX_TEMPERATURE = 100
_MAX_SEED = 2**63 - 1
_COUNTS = ("beam", "n_best", "batch_tokens", "no_repeat_ngram", "mbr", "top_k")


@dataclass(frozen=True)
class Distribution:
    """Settings that modify the model's distribution before tokens are sampled from it."""

    temperature: float = 1.0  # > 0; divides the logits
    top_k: int | None = None  # sample from the k most likely tokens; None: all
    top_p: float = 1.0  # sample from the fewest tokens with this total probability


class SearchSettings(TypedDict, total=False):
    """The types of the keyword arguments that set fields of `SearchOptions`."""

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
    """Options for beam search and sampling.

    If `beam` or `length_penalty` is None, the value in the model's configuration is used. If
    `batch_tokens` is None, a default value for the device is used. With `sample` or `mbr`,
    translations are sampled from the model's distribution, which `temperature`, `top_k` and `top_p`
    can modify. The samples depend only on the text, the model and the options, including `seed`.

    Raises:
        ArgumentError: the value of an option is not valid, or two options conflict.
    """

    beam: int | None = None  # number of live hypotheses per sentence; 1: greedy search
    length_penalty: float | None = None  # alpha, the exponent of the length penalty
    n_best: int = 1  # number of translations per sentence, at most `beam` or `mbr`
    batch_tokens: int | None = None  # maximum batch size; see Translator.n_best
    no_repeat_ngram: int | None = None  # n-grams of this many tokens are not repeated
    sample: bool = False  # sample translations instead of searching
    mbr: int | None = None  # minimum Bayes risk decoding with this many samples
    temperature: float | None = None  # divides the logits; None: 1
    top_k: int | None = None  # sample from the k most likely tokens; None: all
    top_p: float | None = None  # sample from the fewest tokens with this probability; None: 1
    seed: int | None = None  # random seed for sampling; None: 1
    align: bool = False  # compute Translation.alignment
    attention: bool = False  # compute Translation.attention
    # a TSV file or a mapping of source terms to the target terms that translations must contain
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
                raise ArgumentError(f"{{{name}}} must be at least 1, not {{}}.", value)
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

    @classmethod
    def of(cls, options: "SearchOptions | None", settings: Mapping[str, Any]) -> "SearchOptions":
        """Returns options in which the fields in `settings` override the same fields of `options`.

        If `options` is None, the fields in `settings` override fields of the default options.

        Raises:
            ArgumentError: `options` is not a `SearchOptions` object, or `settings` contains an
                unknown field. For other errors, see `SearchOptions`.
        """
        if not isinstance(options, SearchOptions | None):
            raise ArgumentError(
                "{options} must be a SearchOptions object, not {}. Pass individual options as "
                "keyword arguments, for example beam=2.", type(options).__name__,
            )  # fmt: skip
        names = [each.name for each in fields(cls)]
        for name in settings.keys() - {*names}:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(names)}."
            raise ArgumentError("There is no option {}. {}", name, hint)
        return replace(options or cls(), **settings)

    @property
    def samples(self) -> int:
        """The number of samples per sentence, which is 0 for beam search."""
        return self.mbr or (self.n_best if self.sample else 0)

    def width(self, default: int) -> int:
        """Returns the beam width, which is `default` if the option `beam` is None.

        Raises:
            ArgumentError: `n_best` exceeds the beam width in beam search.
        """
        beam = self.beam or default
        if self.n_best > beam and not self.samples:
            raise ArgumentError(
                "{n_best} {} exceeds {beam} {}. Raise {beam} or lower {n_best}.", self.n_best, beam
            )
        return beam

    @property
    def distribution(self) -> Distribution:
        """The options that modify the distribution from which tokens are sampled."""
        return Distribution(
            1.0 if self.temperature is None else float(self.temperature),
            self.top_k,
            1.0 if self.top_p is None else float(self.top_p),
        )

    def _must_be(self, name: str, kind: type, called: str) -> None:
        """Raises ArgumentError if an option is not of type `kind`. Accepts NumPy numbers."""
        value = getattr(self, name)
        is_kind = isinstance(value, kind) and not isinstance(value, bool)
        if not is_kind and not (value is None and name != "n_best"):
            self._refuse(name, called)

    def _refuse(self, name: str, wanted: str) -> NoReturn:
        value = repr(getattr(self, name))[:60]
        raise ArgumentError(f"{{{name}}} must be {wanted}, not {{}}.", value)

    def _at_most(self, name: str, limit: int) -> None:
        value = getattr(self, name)
        if value is not None and value > limit:
            raise ArgumentError(f"{{{name}}} must be at most {{}}, not {{}}.", limit, value)

    def _in_range(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if value is not None and not least <= value <= most:
            raise ArgumentError(
                f"{{{name}}} must be between {{}} and {{}}, not {{}}.", least, most, value
            )

    def _go_together(self) -> None:
        for name in ("temperature", "top_k", "top_p", "seed"):
            if getattr(self, name) is not None and not self.samples:
                raise ArgumentError(
                    f"{{{name}}} {{}} applies to sampling only. Add {{sample}} or {{mbr}}.",
                    getattr(self, name),
                )
        sampling = "{sample}" if self.mbr is None else "{mbr}"
        if self.beam is not None and self.samples:
            raise ArgumentError(
                f"{{beam}} {{}} conflicts with {sampling}. Remove one of them.", self.beam
            )
        if self.glossary is not None and self.samples:
            raise ArgumentError(f"{{glossary}} conflicts with {sampling}. Remove one of them.")
        if self.beam is not None:
            self.width(self.beam)
        if self.mbr is not None and self.n_best > self.mbr:
            raise ArgumentError(
                "{n_best} {} exceeds {mbr} {}. Raise {mbr} or lower {n_best}.",
                self.n_best, self.mbr,
            )  # fmt: skip
