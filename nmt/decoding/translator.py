"""Translates sentences: cuts them to the model's length, batches, searches, restores the order."""

import functools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, overload

import torch

from nmt.config import MAX_BEAM, Config
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.search import Hypothesis, search
from nmt.errors import ArgumentError, Note, is_out_of_memory
from nmt.model.prepacking import Precision, prepack
from nmt.model.special_ids import EOS_ID, PAD_ID
from nmt.model.stepper import Stepper
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import load_model

Progress = Callable[[int], object]

# Tokens that a batch may hold. In the paper's base model each has 24 KB of keys and values in fp32
# and half of that in bf16: together 0.4 GB, and 1.6 GB on a GPU.
_CPU_BATCH_TOKENS = 16_384
_GPU_BATCH_TOKENS = 131_072

# Characters of Chinese and Japanese, which put no blank between sentences: their punctuation, kana,
# bopomofo, ideographs, full-width and half-width forms.
_UNSPACED = re.compile(
    "[\u3001-\u3020\u3030-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]"
)

_MAX_ALPHA = 100  # as of decoding.length_penalty

_SENTENCE_ENDS = re.compile(r"""(?:(?<=[.!?…])|(?<=[.!?…]["'”’»)\]]))\s+|(?<=[。！？])""")


@dataclass(frozen=True)
class Translation:
    """A translation of a text that may have been translated in several parts."""

    text: str  # one line, without a tab
    score: float  # log_probability / length penalty; summed over the parts
    log_probability: float  # natural log, summed over `tokens`
    tokens: list[int]  # with the end symbol of each part that has one
    parts: int  # in which the source was translated; 0: it was blank


EMPTY = Translation("", 0.0, 0.0, [], 0)


@dataclass(frozen=True)
class SearchOptions:
    """How to search; None: the model's configuration decides, or for `batch_tokens` the device.

    Raises:
        ArgumentError: a value out of its range.
    """

    beam: int | None = None  # hypotheses kept for each sentence; 1: greedy
    length_penalty: float | None = None  # alpha
    n_best: int = 1  # at most the beam
    batch_tokens: int | None = None  # see Translator.n_best

    def __post_init__(self) -> None:
        for name in ("beam", "n_best", "batch_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(f"must be at least 1, {{{name}}} {{}}, correct it", value)
        if self.beam is not None and self.beam > MAX_BEAM:
            raise ArgumentError("must be at most {}, {beam} {}, correct it", MAX_BEAM, self.beam)
        alpha = self.length_penalty
        if alpha is not None and not 0 <= alpha <= _MAX_ALPHA:
            raise ArgumentError(
                "must be a number from 0 to {}, {length_penalty} {}, correct it", _MAX_ALPHA, alpha
            )


class Translator:
    """A model that translates plain text, on its own device and in its own precision.

    Args:
        transformer: in evaluation mode.
        config: of the model; its `data.max_length` bounds a source, its `decoding` is the default.
        target_symbols: the symbols that may be generated.
    """

    def __init__(
        self,
        transformer: Transformer,
        tokenizer: Tokenizer,
        config: Config,
        target_symbols: Collection[str] = (),
    ):
        self.target_symbols = target_symbols
        self.transformer, self.tokenizer, self.config = transformer, tokenizer, config
        self.device = transformer.embedding.device
        self.max_part = config.data.max_length - 1  # tokens; no source in training was longer

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str | None = None,
        precision: Precision | None = None,
        note: Note = lambda text: None,
    ) -> Self:
        """Reads a model directory, a checkpoint directory or a run directory.

        Args:
            device: "cpu", "cuda", "cuda:1", ...; None: a GPU if there is one.
            precision: of matrix products; None: fp32 on a CPU, bf16 on a GPU. int8 is for CPUs.
            note: is told which model of a run is used.

        Raises:
            NoModelError: there is no sound model.
            ArgumentError: no such device, or it has no int8.
        """
        chosen = choose_device(device)
        model = load_model(Path(path), device=chosen, note=note)
        set_precision(model.transformer, chosen, precision)
        return cls(model.transformer, model.tokenizer, model.config, model.target_symbols)

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is a sequence of texts too
        self, text: str, options: SearchOptions | None = None, *, progress: Progress | None = None
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Sequence[str],
        options: SearchOptions | None = None,
        *,
        progress: Progress | None = None,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        options: SearchOptions | None = None,
        *,
        progress: Progress | None = None,
    ) -> Translation | list[Translation]:
        """The best translation of a sentence, or of each sentence of several; see `n_best`.

        translator.translate("The man reads.").text -> "Der Mann liest."
        """
        if isinstance(text, str):
            return self.n_best([text], options, progress=progress)[0][0]
        return [best[0] for best in self.n_best(text, options, progress=progress)]

    def n_best(
        self,
        sentences: Sequence[str],
        options: SearchOptions | None = None,
        *,
        progress: Progress | None = None,
    ) -> list[list[Translation]]:
        """Translations of each sentence, best score first.

        A source of k tokens, its end symbol not counted, gets a translation of at most
        k + decoding.max_extra_length tokens, the end symbol counted if there is one. A blank
        sentence gets `EMPTY` without a call of the model. A text longer than data.max_length is
        split at ends of sentences, else at spaces, else between tokens, and translated in parts:
        the n-th best translations of the parts, joined, are its n-th best.

        Args:
            sentences: plain text, normalized here as the training data was.
            options: `batch_tokens` bounds a batch: the padded tokens of its sources and of `beam`
                translations of the greatest length for each. A single sentence always fits.
            progress: called after each batch with its number of parts.

        Returns:
            For each sentence 1 to `n_best` translations; fewer if fewer were found.

        Raises:
            ArgumentError: n_best exceeds the beam; out of memory.
        """
        options = options or SearchOptions()
        beam = self.beam(options)
        lines = self._cut(sentences)
        flat = [part for line in lines for part in line]
        found: list[list[Translation]] = [[] for _ in flat]
        for batch in self._batches(flat, beam, options.batch_tokens):
            batch_found = self._search([flat[index] for index in batch], beam, options)
            for index, hypotheses in zip(batch, batch_found, strict=True):
                found[index] = [self._translation(h) for h in hypotheses] or [EMPTY]
            if progress:
                progress(len(batch))
        in_order = iter(found)
        return [combine([next(in_order) for _ in line]) for line in lines]

    def beam(self, options: SearchOptions) -> int:
        """The beam width, W. Raises ArgumentError if `n_best` exceeds it."""
        beam = options.beam or self.config.decoding.beam
        if options.n_best > beam:
            raise ArgumentError(
                "more translations wanted than hypotheses kept, {n_best} {} with {beam} {}, "
                "raise {beam} or lower {n_best}",
                options.n_best, beam,
            )  # fmt: skip
        return beam

    def _cut(self, sentences: Sequence[str]) -> list[list[list[int]]]:
        """Token ids, without end symbols, of the parts of each sentence; [] if it is blank."""
        texts = [self.tokenizer.normalize(sentence) for sentence in sentences]
        ids = iter(self.tokenizer.encode_batch([text for text in texts if text.strip()]))
        return [self._parts(text, next(ids)) if text.strip() else [] for text in texts]

    def _parts(self, text: str, ids: list[int]) -> list[list[int]]:
        """The ids of `text` in one part, or in several if they are too many."""
        if len(ids) <= self.max_part:
            return [ids] if ids else []
        tag, rest = self.tokenizer.split_tag(text)  # every part needs it: <2de> for one
        texts = [each for each in _SENTENCE_ENDS.split(rest) if each.strip()]
        if len(texts) == 1:
            texts = _halves(rest)
        tag_ids, ids_of_rest = self.tokenizer.encode_batch([tag.strip(), rest])
        room = self.max_part - len(tag_ids)
        if room < len(tag_ids):
            return [ids[i : i + self.max_part] for i in range(0, len(ids), self.max_part)]
        if texts == [rest]:
            pieces = range(0, len(ids_of_rest), room)
            return [tag_ids + ids_of_rest[i : i + room] for i in pieces]
        encoded = self.tokenizer.encode_batch(texts := [tag + each for each in texts])
        return [
            part
            for each, part_ids in zip(texts, encoded, strict=True)
            for part in self._parts(each, part_ids)
        ]

    def _limit(self, part: list[int]) -> int:
        """Most tokens of a translation, the end symbol counted."""
        limit = len(part) + self.config.decoding.max_extra_length
        return min(limit, self.transformer.max_length or limit)

    def _batches(
        self, parts: list[list[int]], beam: int, batch_tokens: int | None
    ) -> Iterator[list[int]]:
        """Indices of the parts of each batch: of similar length, the longest pieces first."""
        default = _CPU_BATCH_TOKENS if self.device.type == "cpu" else _GPU_BATCH_TOKENS
        order = sorted(range(len(parts)), key=lambda index: len(parts[index]), reverse=True)
        begin = 0
        while begin < len(order):
            longest = parts[order[begin]]
            tokens = len(longest) + 1 + beam * self._limit(longest)
            end = begin + max(1, (batch_tokens or default) // tokens)
            yield order[begin:end]
            begin = end

    def _search(
        self, parts: list[list[int]], beam: int, options: SearchOptions
    ) -> list[list[Hypothesis]]:
        longest = max(map(len, parts))
        rows = [part + [EOS_ID] + [PAD_ID] * (longest - len(part)) for part in parts]
        limits = [self._limit(part) for part in parts]
        alpha = options.length_penalty
        if alpha is None:
            alpha = self.config.decoding.length_penalty
        try:
            with torch.inference_mode():
                src = torch.tensor(rows, device=self.device)  # (B, S)
                steps = Stepper(self.transformer, src, beam, max(limits))
                return search(
                    steps, limits, beam=beam, alpha=alpha, n_best=options.n_best,
                    excluded=self._excluded(), device=self.device,
                )  # fmt: skip
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise ArgumentError(
                "out of memory, {} sentences of {} tokens with beam {} on {}, lower {batch_tokens} "
                "or {beam}, or decoding.beam where neither is given",
                len(rows), longest, beam, self.device,
            ) from None  # fmt: skip

    def _excluded(self) -> list[int]:
        """The symbols that no training target held."""
        ids = self.tokenizer.symbol_ids.items()
        return [i for symbol, i in ids if symbol not in self.target_symbols]

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        content = hypothesis.tokens[:-1] if hypothesis.finished else hypothesis.tokens
        text = self.tokenizer.decode(content)
        text = self.tokenizer.normalize(text)  # no line ends, tabs, control characters
        return Translation(text, hypothesis.score, hypothesis.log_probability, hypothesis.tokens, 1)


def choose_device(name: str | None) -> torch.device:
    """The device of that name; None: a GPU if there is one. ArgumentError if there is none."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()  # "meta" has shapes but no numbers
    except (RuntimeError, AssertionError, NotImplementedError, ModuleNotFoundError):
        here = ", ".join(["cpu", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))])
        raise ArgumentError(
            "no such device, {device} {}, name one there is: {}", name, here
        ) from None
    return device


def set_precision(
    transformer: Transformer, device: torch.device, precision: Precision | None
) -> None:
    """Makes a model on a device, in place, compute its products in `precision`, see `load`.

    Raises:
        ArgumentError: this device, or this build of torch, has no int8.
    """
    if device.type == "cpu":
        try:
            prepack(transformer, precision or "fp32")
        except ValueError:
            raise ArgumentError(
                "not in this build of torch, {precision} {}, choose bf16", precision
            ) from None
    elif precision == "int8":
        raise ArgumentError("int8 is for CPUs, {device} {}, choose another {precision}", device)
    elif precision != "fp32":
        transformer.to(torch.bfloat16)


def combine(parts: Sequence[Sequence[Translation]]) -> list[Translation]:
    """Translations of a text from those of its consecutive parts: the n-th best ones, joined.

    A part with fewer translations than another repeats its last. Scores and log-probabilities add
    up, so that the order stays best first.
    """
    parts = [part for part in parts if part[0].parts]
    if len(parts) <= 1:
        return list(parts[0]) if parts else [EMPTY]
    return [
        _joined([part[min(rank, len(part) - 1)] for part in parts])
        for rank in range(max(map(len, parts)))
    ]


def _joined(parts: list[Translation]) -> Translation:
    return Translation(
        functools.reduce(_joined_texts, [part.text for part in parts if part.text], ""),
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        [token for part in parts for token in part.tokens],
        sum(part.parts for part in parts),
    )


def _joined_texts(before: str, after: str) -> str:
    """Two consecutive texts as one: with a blank, but for Chinese and Japanese on either side."""
    is_close = not before or _UNSPACED.match(before[-1]) or _UNSPACED.match(after)
    return before + after if is_close else f"{before} {after}"


def _halves(text: str) -> list[str]:
    """Two parts, split at the space nearest the middle; one if there is no space inside.

    Spaces at both ends of the text are dropped.

    "to be or not" -> ["to be", "or not"]
    """
    text = text.strip(" ")
    middle = len(text) // 2
    spaces = [at for at in (text.rfind(" ", 0, middle), text.find(" ", middle)) if at > 0]
    if not spaces:
        return [text]
    at = min(spaces, key=lambda at: abs(at - middle))
    return [text[:at], text[at + 1 :]]
