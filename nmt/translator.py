"""Translates sentences: cuts them to the model's length, batches, searches, restores the order."""

import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Self, Unpack, get_args, overload

import numpy as np
import torch

from nmt.config import Config
from nmt.data.pair import Pair
from nmt.data.shortlist import Shortlist
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.alignment import cross_attention, links, word_of_each_token
from nmt.decoding.batched_search import BatchedSearch, Progress, SearchInput
from nmt.decoding.beam_search import NEVER_GENERATED, Hypothesis
from nmt.decoding.mbr import expected_chrf
from nmt.decoding.options import SearchOptions, SearchSettings
from nmt.decoding.score import ScoredTranslation, score_translations
from nmt.decoding.translation import (
    EMPTY,
    Attention,
    NextToken,
    Translation,
    combine,
    different,
)
from nmt.documents.cutting import Cutter, listed, refuse_no_text
from nmt.documents.documents import translate_documents
from nmt.errors import ArgumentError, Note
from nmt.model.devices import avoid_cudnn, is_gpu
from nmt.model.kernels.prepacking import Precision, prepack
from nmt.model.special_ids import BOS_ID, EOS_ID
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import LoadedModel, load_model

_WINDOW_CHARACTERS = 4_000_000


class Translator:
    """A model that translates plain text, on its own device and in its own precision.

    Threads may share one: it computes for one of them at a time. So that several processes use
    one, each loads its own.

    Args:
        transformer: in evaluation mode.
        config: of the model; its `data.max_length` bounds a source, its `decoding` is the default.
        target_symbols: the symbols that may be generated.
        others: models of the same vocabulary that translate together with the first: at each step
            their probabilities are averaged.
        shortlist: of the pieces that sentences may be translated into; None: into any pieces.

    Attributes:
        directory: that the first model was read from; None: it was not read from one.
    """

    directory: Path | None = None

    def __init__(
        self,
        transformer: Transformer,
        tokenizer: Tokenizer,
        config: Config,
        target_symbols: Collection[str] = (),
        others: Sequence[Transformer] = (),
        shortlist: Shortlist | None = None,
    ):
        self.transformer, self.tokenizer, self.config = transformer, tokenizer, config
        self.transformers = [transformer, *others]
        self.device = transformer.embedding.device
        # no method: a search that refers to its translator would keep a GPU's memory until Python
        # collects garbage
        self._text = partial(_text, tokenizer)
        symbols = tokenizer.symbol_ids.items()
        self.search = BatchedSearch(
            self.transformers,
            config.decoding,
            self._text,
            untrained=[i for symbol, i in symbols if symbol not in target_symbols],
            shortlist=shortlist,
            symbols=tokenizer.symbol_ids.values(),
        )
        # tokens; no source in training was longer
        self.max_part = min(config.data.max_length, self.search.max_tokens or sys.maxsize) - 1
        self._cutter = Cutter(tokenizer, self.max_part)
        # Threads of torch would contend for the same cores, and on a GPU for the same graphs.
        # Again by the same thread: `progress` may translate, too.
        self._one_at_a_time = threading.RLock()

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str | None = None,
        precision: Precision | None = None,
        ensemble: Sequence[str | Path] = (),
        shortlist: bool = False,
        note: Note = lambda text: None,
    ) -> Self:
        """Reads a model directory, a checkpoint directory or a run directory.

        Args:
            device: "cpu", "cuda", "cuda:1", ...; None: a GPU if there is one.
            precision: of matrix products; None: fp32 on a CPU, bf16 on a GPU. int8 is for CPUs.
            ensemble: more models, which translate together with the first, see `Translator`.
            shortlist: compute the logits of likely pieces alone, which can be faster on a CPU:
                the most frequent ones and, from the first model's shortlist, the likeliest
                translations of all pieces in a batch. So neighbours may change a translation.
                Log-probabilities are of a choice among these pieces.
            note: is told which model of a run is used.

        Raises:
            NoModelError: there is no sound model.
            ArgumentError: no such device, or it has no int8; models of different vocabularies;
                no shortlist, or one on a GPU.
        """
        if isinstance(ensemble, str | Path):
            raise ArgumentError("one path, {ensemble} {}, give a list of them", ensemble)
        chosen = choose_device(device)
        if shortlist and chosen.type != "cpu":
            raise ArgumentError(
                "only on a CPU, {shortlist} with {device} {}, leave one out, or choose cpu", chosen,
            )  # fmt: skip
        models: list[LoadedModel] = []
        for each in (path, *ensemble):
            model = load_model(Path(each), device=chosen, note=note)
            if models and model.tokenizer.sha256 != models[0].tokenizer.sha256:
                raise ArgumentError(
                    "another vocabulary than that of {}, {ensemble} {}, name models trained on the "
                    "same prepared data", path, each,
                )  # fmt: skip
            if shortlist and not models and not model.shortlist:
                raise ArgumentError(
                    "no shortlist, {shortlist} with {}, leave it out, or prepare data with "
                    "data.shortlist: true and train on them", path,
                )  # fmt: skip
            set_precision(model.transformer, chosen, precision)
            models.append(model)
        transformer, *others = (model.transformer for model in models)
        symbols = set.intersection(*(set(model.target_symbols) for model in models))
        first = models[0]
        table = first.shortlist if shortlist else None
        found = cls(transformer, first.tokenizer, first.config, symbols, others, table)
        found.directory = first.directory
        return found

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is a sequence of texts too
        self,
        text: str,
        options: SearchOptions | None = None,
        *,
        prefix: str = "",
        document: bool = False,
        progress: Progress | None = None,
        **settings: Unpack[SearchSettings],
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | Sequence[str] = "",
        document: bool = False,
        progress: Progress | None = None,
        **settings: Unpack[SearchSettings],
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | Sequence[str] = "",
        document: bool = False,
        progress: Progress | None = None,
        **settings: Unpack[SearchSettings],
    ) -> Translation | list[Translation]:
        """The best translation of a sentence, or of each sentence of several; see `n_best`.

        translator.translate("The man reads.").text -> "Der Mann liest."
        translator.translate("The man reads.", n_best=3).alternatives -> the other two

        Args:
            document: keep the lines of a text, and translate each sentence by sentence; see
                `nmt.documents.documents`.
            settings: fields of `SearchOptions`; they go before those of `options`.
        """
        options = replace(options or SearchOptions(), **settings)
        texts = [text] if isinstance(text, str) else listed(text, "text")
        if document:
            found = translate_documents(self, texts, options, prefix=prefix, progress=progress)
        else:
            found = self.n_best(texts, options, prefix=prefix, progress=progress)
        best = [replace(each[0], alternatives=each[1:]) for each in found]
        return best[0] if isinstance(text, str) else best

    def stream(
        self,
        texts: Iterable[str],
        options: SearchOptions | None = None,
        *,
        prefix: str = "",
        window: int = 2048,
        **settings: Unpack[SearchSettings],
    ) -> Iterator[Translation]:
        """The translation of each text, in order; for more texts than memory holds.

        for found in translator.stream(open("news.en")): print(found.text)

        Args:
            texts: taken as they are needed; a line end behind a text does not count.
            prefix: how every translation begins.
            window: most texts that are taken, sorted by length and translated together. With
                fewer, the first translations come earlier and all of them later.
            settings: see `translate`.

        Raises:
            ArgumentError: a single text, several prefixes, such a window; see also `n_best`.
        """
        options = replace(options or SearchOptions(), **settings)
        self.beam(options)
        if isinstance(texts, str):
            raise ArgumentError("one text, {texts}, give several, or translate it")
        if not isinstance(prefix, str):
            raise ArgumentError("must be one text for all, {prefix}, translate window by window")
        if not isinstance(window, Integral) or window < 1:
            raise ArgumentError("must be a whole number from 1, {window} {}, correct it", window)
        return (
            found
            for some in _windows(texts, window)
            for found in self.translate(some, options, prefix=prefix)
        )

    def n_best(
        self,
        sentences: Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | Sequence[str] = "",
        progress: Progress | None = None,
    ) -> list[list[Translation]]:
        """Translations of each sentence, best score first, no two of them the same text.

        A source of k tokens, its end symbol not counted, gets a translation of at most
        k + decoding.max_extra_length tokens, the end symbol counted if there is one. A blank
        sentence gets `EMPTY` without a call of the model. A text longer than data.max_length is
        split at ends of sentences, else at spaces, else between tokens, and translated in parts,
        each with the symbols that the text begins with: the n-th best translations of the parts,
        joined, are its n-th best.

        With `options.sample` they are independent samples, which may well be the same text; with
        `options.mbr` a score is the mean chrF, 0 to 100, with all samples.

        Args:
            sentences: plain text, normalized here as the training data was.
            options: `batch_tokens` bounds a batch: the padded tokens of its sources and of `beam`
                translations of the greatest length for each. A single sentence always fits.
            prefix: how translations begin, all of them or each its own; "": as the model likes.
                Its tokens are counted in length, score and log-probability as any others. Of a text
                in several parts it begins the first.
            progress: called after each batch with its number of parts.

        Returns:
            For each sentence 1 to `n_best` translations; fewer if fewer were found.

        Raises:
            ArgumentError: n_best exceeds the beam; prefixes too long, or not as many as sentences;
                out of memory.
        """
        with self._one_at_a_time:
            return self._n_best(
                listed(sentences, "sentences"), options or SearchOptions(), prefix, progress
            )

    def _n_best(
        self,
        sentences: Sequence[str],
        options: SearchOptions,
        prefix: str | Sequence[str],
        progress: Progress | None,
    ) -> list[list[Translation]]:
        lines = self._cutter.cut(sentences)
        forced = self._cutter.prefixes(prefix, len(sentences))
        parts = [
            SearchInput(part, [] if place else forced[number])
            for number, line in enumerate(lines)
            for place, part in enumerate(line)
        ]
        in_order = iter(self.search.find(parts, options, progress))
        found = [[self._translations(next(in_order), options) for _ in line] for line in lines]
        if options.align or options.attention:
            self._look(sentences, lines, found, options)
        return [_listed(parts, options) for parts in found]

    def next_tokens(self, text: str, prefix: str = "", k: int = 10) -> list[NextToken]:
        """The k likeliest tokens with which the translation of a sentence goes on after `prefix`.

        Returns:
            Likeliest first; none for a blank sentence.

        Raises:
            ArgumentError: more tokens than the model takes at once; k below 1.
        """
        refuse_no_text(text, "text")
        refuse_no_text(prefix, "prefix")
        if not isinstance(k, Integral) or k < 1:
            raise ArgumentError("must be a whole number from 1, {k} {}, correct it", k)
        [parts], [forced] = self._cutter.cut([text]), self._cutter.prefixes(prefix, 1)
        if len(parts) > 1:
            raise ArgumentError("more than {} tokens, {text}, shorten it", self.max_part)
        if not parts:
            return []
        with self._one_at_a_time, torch.inference_mode():
            src = torch.tensor([[*parts[0], EOS_ID]], device=self.device)
            steps = self.search.started(src, 1, len(forced) + 1)
            for token in [BOS_ID, *forced]:
                last = torch.tensor([[token]], device=self.device)
                logits = steps.step(last, torch.zeros_like(last))[0, 0]  # (V)
            p = logits.float().softmax(-1)
            never = [*NEVER_GENERATED, *self.search.untrained]
            p[never] = -1.0
            top = p.topk(min(k, len(p) - len(never)))
        tokens = top.indices.tolist()
        pieces = self.tokenizer.pieces(tokens)
        return [
            NextToken(token, piece, self._text([*forced, token]), probability)
            for token, piece, probability in zip(tokens, pieces, top.values.tolist(), strict=True)
        ]

    @overload
    def score(  # type: ignore[overload-overlap]  # as of `translate`
        self, sources: str, targets: str
    ) -> ScoredTranslation: ...

    @overload
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[ScoredTranslation]: ...

    def score(
        self, sources: str | Sequence[str], targets: str | Sequence[str]
    ) -> ScoredTranslation | list[ScoredTranslation]:
        """What the model gives to a translation of yours, or to one of each source.

        translator.score("The man reads.", "Der Mann liest.").log_probability -> -0.2

        Raises:
            ArgumentError, InputError, NoModelError: see `score_translations`.
        """
        is_one = isinstance(sources, str) and isinstance(targets, str)
        if isinstance(sources, str) != isinstance(targets, str):
            raise ArgumentError("one text and several, {sources} and {targets}, give one of each")
        pairs = (
            ([sources], [targets])
            if is_one
            else (listed(sources, "sources"), listed(targets, "targets"))
        )
        with self._one_at_a_time:
            scored = list(score_translations(self, *pairs))
        return scored[0] if is_one else scored

    def beam(self, options: SearchOptions) -> int:
        """The beam width, W. Raises ArgumentError if `n_best` exceeds it."""
        return options.width(self.config.decoding.beam)

    def _translations(
        self, hypotheses: list[Hypothesis], options: SearchOptions
    ) -> list[Translation]:
        """Translations of a part, best first; plain samples as they were drawn."""
        translations = [
            Translation(
                self._text(h.tokens), h.score, h.log_probability, h.tokens, 1,
                pieces=self.tokenizer.pieces(h.tokens),
                token_log_probabilities=h.token_log_probabilities,
            )
            for h in hypotheses
        ] or [EMPTY]  # fmt: skip
        if options.mbr is None:
            return translations
        likeness = expected_chrf([each.text for each in translations]).tolist()
        scored = [replace(t, score=s) for t, s in zip(translations, likeness, strict=True)]
        scored.sort(key=lambda each: each.score, reverse=True)
        return different(scored)[: options.n_best]

    def _look(
        self,
        sentences: Sequence[str],
        lines: list[list[list[int]]],
        found: list[list[list[Translation]]],
        options: SearchOptions,
    ) -> None:
        """Replaces the translations of all parts by such with links or attention.

        Links number source words in the whole text, those of the translation in the part's.
        """
        places, pairs, words = [], [], []
        for sentence, line, parts in zip(sentences, lines, found, strict=True):
            text = self.tokenizer.normalize(sentence)
            tag = self.tokenizer.encode(self.tokenizer.split_tag(text)[0].strip())
            sources = word_of_each_token(self._text, line, text, tag)
            for part, source, translations in zip(line, sources, parts, strict=True):
                for place, each in enumerate(translations):
                    if not each.tokens:
                        continue
                    content = [token for token in each.tokens if token != EOS_ID]
                    [target] = word_of_each_token(self._text, [content], each.text)
                    places.append((translations, place))
                    pairs.append(Pair(np.array([*part, EOS_ID]), np.array(each.tokens)))
                    words.append((source, target))
        weights = cross_attention(self.search.transformers, pairs)
        for (translations, place), matrix, (source, target), (src, _) in zip(
            places, weights, words, pairs, strict=True
        ):
            each = translations[place]
            if options.align:
                each = replace(each, alignment=links(matrix, source, target))
            if options.attention:
                attention = Attention(
                    self.tokenizer.pieces(src.tolist()), each.pieces, matrix.copy()
                )
                each = replace(each, attention=[attention])
            translations[place] = each


def _text(tokenizer: Tokenizer, tokens: list[int]) -> str:
    """Returns a hypothesis as text: without line ends, tabs, control characters and EOS."""
    return tokenizer.normalize(tokenizer.decode(tokens))


def _windows(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    """At most so many texts at a time, and no more characters than a few texts may have."""
    window: list[str] = []
    characters = 0
    try:
        for text in texts:
            refuse_no_text(text, "texts")
            window.append(text.rstrip("\r\n"))
            characters += len(window[-1])
            if len(window) == most or characters >= _WINDOW_CHARACTERS:
                yield window
                window, characters = [], 0
    except Exception:  # of `texts`; what came before is translated first
        if window:
            yield window
        raise
    if window:
        yield window


def set_precision(
    transformer: Transformer, device: torch.device, precision: Precision | None
) -> None:
    """Makes a model compute in `precision`, see `Translator.load`."""
    if precision is not None and precision not in get_args(Precision):
        raise ArgumentError(
            "no such precision, {precision} {}, choose {}",
            precision,
            ", ".join(get_args(Precision)),
        )
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


def choose_device(name: str | None) -> torch.device:
    """Returns the device of that name; for None a GPU if there is one, else the CPU.

    Raises:
        ArgumentError: there is no such device.
    """
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()  # "meta" has shapes but no numbers
    except (
        RuntimeError, AssertionError, NotImplementedError, ModuleNotFoundError, TypeError
    ):  # fmt: skip
        here = ", ".join(["cpu", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))])
        raise ArgumentError(
            "no such device, {device} {}, name one there is: {}", name, here
        ) from None
    if is_gpu(device):
        avoid_cudnn()
    return device


def _listed(parts: list[list[Translation]], options: SearchOptions) -> list[Translation]:
    """The list of a text's translations, from those of its parts."""
    joined = combine(parts)
    if options.sample and options.mbr is None:
        return sorted(joined, key=lambda each: each.score, reverse=True)
    return different(joined)
