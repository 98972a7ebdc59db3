"""Translates sentences: cuts them to the model's length, batches, searches, restores the order."""

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, zip_longest
from pathlib import Path
from typing import Self, overload

import numpy as np
import torch

from nmt.config import Config
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.alignment import Links, cross_attention, links, word_of_each_token
from nmt.decoding.mbr import expected_chrf
from nmt.decoding.options import SearchOptions
from nmt.decoding.part_search import Part, PartSearch, Progress
from nmt.decoding.search import NEVER_GENERATED, Hypothesis
from nmt.errors import ArgumentError, Note, count
from nmt.model.prepacking import Precision, prepack
from nmt.model.special_ids import BOS_ID, EOS_ID
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import LoadedModel, load_model

# Characters of Chinese and Japanese, which put no blank between sentences: their punctuation, kana,
# bopomofo, ideographs, full-width and half-width forms.
_UNSPACED = re.compile(
    "[\u3001-\u3020\u3030-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]"
)
_SENTENCE_ENDS = re.compile(r"""(?:(?<=[.!?…])|(?<=[.!?…]["'”’»)\]]))\s+|(?<=[。！？])""")


@dataclass(frozen=True)
class Translation:
    """A translation of a text that may have been translated in several parts."""

    text: str  # one line, without a tab
    score: float  # log_probability / length penalty; summed over the parts
    log_probability: float  # natural log, summed over `tokens`
    tokens: list[int]  # with the end symbol of each part that has one
    parts: int  # in which the source was translated; 0: it was blank
    alignment: Links | None = None  # if asked for, see nmt.decoding.alignment


EMPTY = Translation("", 0.0, 0.0, [], 0)


@dataclass(frozen=True)
class NextToken:
    """A token with which a translation may go on."""

    token: int
    piece: str  # as a person reads it, see Tokenizer.pieces
    text: str  # the translation so far, with it
    probability: float  # the model's


class Translator:
    """A model that translates plain text, on its own device and in its own precision.

    Args:
        transformer: in evaluation mode.
        config: of the model; its `data.max_length` bounds a source, its `decoding` is the default.
        target_symbols: the symbols that may be generated.
        others: models of the same vocabulary that translate together with the first: at each step
            their probabilities are averaged.
    """

    def __init__(
        self,
        transformer: Transformer,
        tokenizer: Tokenizer,
        config: Config,
        target_symbols: Collection[str] = (),
        others: Sequence[Transformer] = (),
    ):
        self.transformer, self.tokenizer, self.config = transformer, tokenizer, config
        self.device = transformer.embedding.device
        symbols = tokenizer.symbol_ids.items()
        self.search = PartSearch(
            [transformer, *others],
            config.decoding,
            self._text,
            untrained=[i for symbol, i in symbols if symbol not in target_symbols],
        )
        # tokens; no source in training was longer
        self.max_part = min(config.data.max_length, self.search.max_tokens or sys.maxsize) - 1

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str | None = None,
        precision: Precision | None = None,
        ensemble: Sequence[str | Path] = (),
        note: Note = lambda text: None,
    ) -> Self:
        """Reads a model directory, a checkpoint directory or a run directory.

        Args:
            device: "cpu", "cuda", "cuda:1", ...; None: a GPU if there is one.
            precision: of matrix products; None: fp32 on a CPU, bf16 on a GPU. int8 is for CPUs.
            ensemble: more models, which translate together with the first, see `Translator`.
            note: is told which model of a run is used.

        Raises:
            NoModelError: there is no sound model.
            ArgumentError: no such device, or it has no int8; models of different vocabularies.
        """
        chosen = choose_device(device)
        models: list[LoadedModel] = []
        for each in (path, *ensemble):
            model = load_model(Path(each), device=chosen, note=note)
            if models and model.tokenizer.sha256 != models[0].tokenizer.sha256:
                raise ArgumentError(
                    "another vocabulary than that of {}, {ensemble} {}, name models trained on the "
                    "same prepared data", path, each,
                )  # fmt: skip
            set_precision(model.transformer, chosen, precision)
            models.append(model)
        transformer, *others = (model.transformer for model in models)
        symbols = set.intersection(*(set(model.target_symbols) for model in models))
        return cls(transformer, models[0].tokenizer, models[0].config, symbols, others)

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is a sequence of texts too
        self,
        text: str,
        options: SearchOptions | None = None,
        *,
        prefix: str = "",
        progress: Progress | None = None,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | Sequence[str] = "",
        progress: Progress | None = None,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | Sequence[str] = "",
        progress: Progress | None = None,
    ) -> Translation | list[Translation]:
        """The best translation of a sentence, or of each sentence of several; see `n_best`.

        translator.translate("The man reads.").text -> "Der Mann liest."
        """
        if isinstance(text, str):
            return self.n_best([text], options, prefix=prefix, progress=progress)[0][0]
        return [best[0] for best in self.n_best(text, options, prefix=prefix, progress=progress)]

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
        options = options or SearchOptions()
        lines = self._cut(sentences)
        forced = self._prefixes(prefix, len(sentences))
        parts = [
            Part(part, [] if place else forced[number])
            for number, line in enumerate(lines)
            for place, part in enumerate(line)
        ]
        in_order = iter(self.search.find(parts, options, progress))
        found = [[self._translations(next(in_order), options) for _ in line] for line in lines]
        if options.align:
            self._align(sentences, lines, found)
        return [_listed(parts, options) for parts in found]

    def next_tokens(self, text: str, prefix: str = "", k: int = 10) -> list[NextToken]:
        """The k likeliest tokens with which the translation of a sentence goes on after `prefix`.

        Returns:
            Likeliest first; none for a blank sentence.

        Raises:
            ArgumentError: more tokens than the model takes at once; k below 1.
        """
        if k < 1:
            raise ArgumentError("must be at least 1, {k} {}, correct it", k)
        [parts], [forced] = self._cut([text]), self._prefixes(prefix, 1)
        if len(parts) > 1:
            raise ArgumentError("more than {} tokens, {text}, shorten it", self.max_part)
        if not parts:
            return []
        with torch.inference_mode():
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

    def beam(self, options: SearchOptions) -> int:
        """The beam width, W. Raises ArgumentError if `n_best` exceeds it."""
        return self.search.beam(options)

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
        tag_ids = self.tokenizer.encode(tag.strip())
        room = self.max_part - len(tag_ids)
        if room < len(tag_ids):
            return [ids[i : i + self.max_part] for i in range(0, len(ids), self.max_part)]
        if texts == [rest]:
            ids = self.tokenizer.encode(rest)
            return [tag_ids + ids[i : i + room] for i in range(0, len(ids), room)]
        encoded = self.tokenizer.encode_batch(texts := [tag + each for each in texts])
        return [
            part
            for each, part_ids in zip(texts, encoded, strict=True)
            for part in self._parts(each, part_ids)
        ]

    def _prefixes(self, prefix: str | Sequence[str], n: int) -> list[list[int]]:
        """Token ids of the prefixes of n translations."""
        texts = [prefix] * n if isinstance(prefix, str) else list(prefix)
        if len(texts) != n:
            found = count(n, "sentence"), count(len(texts), "prefix").replace("xs", "xes")
            raise ArgumentError("{} but {}, {prefix}, give one for each", *found)
        different = {text: self.tokenizer.normalize(text).strip() for text in texts}
        ids = dict(
            zip(different, self.tokenizer.encode_batch(list(different.values())), strict=True)
        )
        longest = max(map(len, ids.values()), default=0)
        if longest > self.max_part:
            raise ArgumentError(
                "{} tokens, the model takes {}, {prefix}, shorten it", longest, self.max_part
            )
        return [ids[text] for text in texts]

    def _translations(
        self, hypotheses: list[Hypothesis], options: SearchOptions
    ) -> list[Translation]:
        """Translations of a part, best first; plain samples as they were drawn."""
        translations = [
            Translation(self._text(h.tokens), h.score, h.log_probability, h.tokens, 1)
            for h in hypotheses
        ] or [EMPTY]
        if options.mbr is None:
            return translations
        likeness = expected_chrf([each.text for each in translations]).tolist()
        scored = [replace(t, score=s) for t, s in zip(translations, likeness, strict=True)]
        scored.sort(key=lambda each: each.score, reverse=True)
        return _different(scored)[: options.n_best]

    def _text(self, tokens: list[int]) -> str:
        """How a hypothesis reads: no line ends, tabs or control characters, no end symbol."""
        return self.tokenizer.normalize(self.tokenizer.decode(tokens))

    def _align(
        self,
        sentences: Sequence[str],
        lines: list[list[list[int]]],
        found: list[list[list[Translation]]],
    ) -> None:
        """Replaces the translations of all parts by such with links.

        They number source words in the whole text, those of the translation in the part's.
        """
        places, pairs, words = [], [], []
        for sentence, line, parts in zip(sentences, lines, found, strict=True):
            text = self.tokenizer.normalize(sentence)
            sources = word_of_each_token(self._text, line, text)
            for part, source, translations in zip(line, sources, parts, strict=True):
                for place, each in enumerate(translations):
                    if not each.tokens:
                        continue
                    content = [token for token in each.tokens if token != EOS_ID]
                    [target] = word_of_each_token(self._text, [content], each.text)
                    places.append((translations, place))
                    pairs.append((np.array([*part, EOS_ID]), np.array(each.tokens)))
                    words.append((source, target))
        weights = cross_attention(self.search.transformers, pairs)
        for (translations, place), matrix, (source, target) in zip(
            places, weights, words, strict=True
        ):
            alignment = links(matrix, source, target)
            translations[place] = replace(translations[place], alignment=alignment)


def set_precision(
    transformer: Transformer, device: torch.device, precision: Precision | None
) -> None:
    """Makes a model compute in `precision`, see `Translator.load`."""
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


def _listed(parts: list[list[Translation]], options: SearchOptions) -> list[Translation]:
    """The list of a text's translations, from those of its parts."""
    joined = combine(parts)
    if options.sample and options.mbr is None:
        return sorted(joined, key=lambda each: each.score, reverse=True)
    return _different(joined)


def _different(translations: Sequence[Translation]) -> list[Translation]:
    """Of those that read alike, only the first."""
    first: dict[str, Translation] = {}
    for each in translations:
        first.setdefault(each.text, each)
    return list(first.values())


def _joined(parts: list[Translation]) -> Translation:
    text = _joined_texts([part.text for part in parts if part.text])
    return Translation(
        text,
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        [token for part in parts for token in part.tokens],
        sum(part.parts for part in parts),
        _joined_links(parts, text),
    )


def _joined_texts(texts: list[str]) -> str:
    """Consecutive texts as one: with blanks, but for Chinese or Japanese on either side."""
    gaps = [
        "" if _UNSPACED.match(before[-1]) or _UNSPACED.match(after) else " "
        for before, after in pairwise(texts)
    ]
    return "".join(chain(*zip_longest(texts, gaps, fillvalue="")))


def _joined_links(parts: list[Translation], text: str) -> Links | None:
    """The links of parts, with words numbered in the whole translation; None if a part has none."""
    words = [number for number, word in enumerate(text.split()) for _ in word]  # of each character
    joined: Links = []
    before = 0  # characters, white space left out
    for part in parts:
        if part.alignment is None:
            return None
        joined += [(source, words[before] + target) for source, target in part.alignment]
        before += sum(map(len, part.text.split()))
    return joined


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
