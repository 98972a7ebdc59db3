"""Defines Translator, which splits long texts, searches for translations, and joins the results.

This module imports torch only for PyTorch models, so that exported models work without torch.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self, Unpack, cast, overload

import numpy as np

from nmt.config import Config
from nmt.data.pair import Pair
from nmt.data.tokenizer import Tokenizer, with_eos
from nmt.decoding.alignment import links, word_of_each_token
from nmt.decoding.ctranslate2_search import CTranslate2Search
from nmt.decoding.engine import Engine, Hypothesis, Progress, SearchInput
from nmt.decoding.glossary import Glossary, token_kinds, unmet
from nmt.decoding.mbr import expected_chrf
from nmt.decoding.options import SearchOptions, SearchSettings
from nmt.decoding.term_banks import Terms, TokenKinds
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
from nmt.model.special_ids import EOS_ID
from nmt.processes import refuse_forked
from nmt.runs.exported_model import is_exported, load_exported, refuse_unsupported

if TYPE_CHECKING:
    import torch

    from nmt.data.shortlist import Shortlist
    from nmt.decoding.batched_search import BatchedSearch
    from nmt.decoding.score import ScoredTranslation
    from nmt.model.kernels.prepacking import Precision
    from nmt.model.transformer import Transformer

_WINDOW_CHARACTERS = 4_000_000


class Translator:
    """Translates plain text with a model, an ensemble, or a model exported to CTranslate2.

    Several threads may share a Translator, but their calls run one after another. Processes cannot
    share a Translator, because it cannot be pickled, copied or used in a forked process.

    Args:
        engine: the search engine, which runs the model in PyTorch or CTranslate2.
        config: the model's configuration. `data.max_length` limits the length of a source, and
            `decoding` provides the default values of search options.

    Attributes:
        directory: the directory of the model, or of the first model of an ensemble. `directory` is
            None if the model was not loaded from a directory.
        sha256: the SHA-256 hash of the first model's files, or "" if the model was not loaded from
            files.
    """

    directory: Path | None = None
    sha256 = ""

    def __init__(self, engine: Engine, tokenizer: Tokenizer, config: Config):
        self.engine, self.tokenizer, self.config = engine, tokenizer, config
        # maximum number of tokens per part, excluding EOS; no training source was longer
        self.max_part = min(config.data.max_length, engine.max_tokens or sys.maxsize) - 1
        self._cutter = Cutter(tokenizer, self.max_part)
        self._text = partial(_text, tokenizer)
        # Concurrent searches would compete for cores and, on a GPU, for the same buffers. The lock
        # is reentrant because `progress` may call this Translator.
        self._one_at_a_time = threading.RLock()
        self._pid = os.getpid()

    @classmethod
    def of(
        cls,
        transformer: Transformer,
        tokenizer: Tokenizer,
        config: Config,
        target_symbols: Collection[str] = (),
        others: Sequence[Transformer] = (),
        shortlist: Shortlist | None = None,
    ) -> Self:
        """Creates a Translator from a PyTorch model or from an ensemble of PyTorch models.

        Args:
            transformer: the model, in evaluation mode.
            target_symbols: the symbols of the vocabulary that may be generated. All other symbols
                of the vocabulary are never generated.
            others: the other models of an ensemble, which must have the same vocabulary.
            shortlist: selects the tokens that may be generated. If `shortlist` is None, all tokens
                may be generated.
        """
        from nmt.decoding.batched_search import BatchedSearch  # imports torch

        symbols = tokenizer.symbol_ids.items()
        search = BatchedSearch(
            [transformer, *others],
            config.decoding,
            # a method would form a reference cycle and keep GPU memory until garbage collection
            partial(_text, tokenizer),
            untrained=[i for symbol, i in symbols if symbol not in target_symbols],
            shortlist=shortlist,
            symbols=tokenizer.symbol_ids.values(),
        )
        return cls(search, tokenizer, config)

    def __getstate__(self) -> NoReturn:
        raise ArgumentError(
            "A Translator cannot be pickled or copied. Use Translator.load in each process; "
            "threads may share a Translator."
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lets only one thread compute at a time, and raises ArgumentError in a forked process."""
        refuse_forked(self._pid)
        with self._one_at_a_time:
            yield

    @property
    def is_exported(self) -> bool:
        """Whether the model was exported to CTranslate2."""
        return self.engine.is_exported

    @property
    def search(self) -> BatchedSearch:
        """The PyTorch search engine.

        Raises:
            ArgumentError: the model was exported.
        """
        if self.engine.is_exported:
            raise ArgumentError("An exported model can only translate. Use the original model.")
        return cast("BatchedSearch", self.engine)

    @property
    def transformers(self) -> list[Transformer]:
        """The models of the ensemble, or a list that contains only the single model.

        Raises:
            ArgumentError: the model was exported.
        """
        return self.search.transformers

    @property
    def transformer(self) -> Transformer:
        """The model, or the first model of an ensemble.

        Raises:
            ArgumentError: the model was exported.
        """
        return self.transformers[0]

    @property
    def device(self) -> torch.device:
        """The device on which the model runs.

        Raises:
            ArgumentError: the model was exported.
        """
        return self.search.device

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
        """Loads a model from a model directory, a checkpoint directory or a run directory.

        Models that `nmt export` has exported to CTranslate2 are loaded without torch. Exported
        models do not support the arguments `precision`, `ensemble` and `shortlist`. Exported models
        also do not support sampling, glossaries, `Translator.score` and
        `Translation.token_log_probabilities`. The scores that an exported model computes do not
        include the log-probabilities of prefix tokens.

        Args:
            device: the name of the device, such as "cpu", "cuda" or "cuda:1". If `device` is None,
                a GPU is used if one is available, and the CPU otherwise.
            precision: the precision of matrix multiplications; int8 is supported only on a CPU. If
                `precision` is None, fp32 is used on a CPU and bf16 on a GPU.
            ensemble: the paths of the other models of an ensemble. The probabilities of all models
                are averaged.
            shortlist: if True, only the logits of likely tokens are computed, which can be faster.
                Shortlists require a CPU. Likely tokens are the most frequent tokens of the
                vocabulary, the source tokens in the batch, and the most likely translations of
                these source tokens according to the first model's shortlist. With a shortlist, a
                translation may depend on the other sentences in the batch, and log-probabilities
                are normalized over the shortlist.
            note: a function that is called with each message for the user.

        Raises:
            NoModelError: a path does not contain a usable model.
            ArgumentError: an argument is invalid or unsupported, the device does not exist, or the
                models of the ensemble have different vocabularies.
        """
        if not isinstance(path, str | os.PathLike):
            raise ArgumentError(
                "{path} must be a string or a path object, not {}.", type(path).__name__
            )
        if isinstance(ensemble, str | Path):
            raise ArgumentError("{ensemble} must be a list of paths, not one path: {}.", ensemble)
        if not str(path):
            raise ArgumentError("{path} is empty. Specify a model, checkpoint or run directory.")
        if is_exported(path):
            refuse_unsupported(precision=precision, ensemble=ensemble, shortlist=shortlist)
            exported = load_exported(Path(path), device)
            found = cls(CTranslate2Search(exported), exported.tokenizer, exported.config)
            found.directory, found.sha256 = Path(path), exported.sha256
            return found
        from nmt.decoding.loading import load_models  # imports torch

        models = load_models(path, device, precision, ensemble, shortlist, note)
        first = models[0]
        found = cls.of(
            first.transformer, first.tokenizer, first.config,
            set.intersection(*(set(model.target_symbols) for model in models)),
            [model.transformer for model in models[1:]],
            first.shortlist if shortlist else None,
        )  # fmt: skip
        found.directory, found.sha256 = first.directory, first.sha256
        return found

    @property
    def source_language(self) -> str:
        """The language that the model translates from, such as "en"."""
        return self.config.data.source_language

    @property
    def target_language(self) -> str:
        """The language that the model translates into, such as "de"."""
        return self.config.data.target_language

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
        """Returns the best translation of a text, or a list with one translation per text.

        For example:

            translator.translate("The man reads.").text  # "Der Mann liest."
            translator.translate("The man reads.", n_best=3).alternatives  # the 2nd and 3rd best

        Args:
            text: one text, or a list of texts.
            document: whether each text is a document, whose lines are preserved and translated
                sentence by sentence. See `nmt.documents.documents`.
            prefix, progress: see `n_best`.
            settings: fields of `SearchOptions`, which override the same fields of `options`.
        """
        options = SearchOptions.of(options, settings)
        texts = [text] if isinstance(text, str) else listed(text, "text", "a string or ")
        if not isinstance(document, bool):
            raise ArgumentError("{document} must be true or false, not {}.", repr(document))
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
        """Translates `texts` lazily, in input order and with bounded memory use.

        For example:

            for found in translator.stream(open("news.en")):
                print(found.text)

        Args:
            texts: an iterable of strings, which is read lazily. A trailing line break of a text
                is ignored.
            prefix: the prefix with which every translation must begin.
            window: the maximum number of texts that are translated together, in batches of texts of
                similar length. A smaller window lowers both latency and throughput.
            settings: see `translate`.

        Raises:
            ArgumentError: `texts` is a single string, `prefix` is not a string, or `window` is not
                a positive integer. For other errors, see `n_best`.
        """
        options = SearchOptions.of(options, settings)
        self.beam(options)
        if isinstance(texts, str):
            raise ArgumentError(
                "{texts} must be an iterable of strings, not a single string. Use translate() for "
                "one text."
            )
        if not isinstance(prefix, str):
            raise ArgumentError("{prefix} must be a single string, used for all translations.")
        if not isinstance(window, Integral) or window < 1:
            raise ArgumentError("{window} must be a positive integer, not {}.", window)
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
        """Returns up to `n_best` distinct translations of each sentence, best translation first.

        If a source has k tokens, excluding EOS, and its prefix has p tokens, the translation has at
        most max(k, p) + decoding.max_extra_length tokens, including EOS. The translation of a
        sentence without text is `EMPTY`.

        A text that exceeds `data.max_length` is split at sentence ends if possible, otherwise at
        spaces, and as a last resort between tokens. Symbols such as <2de> at the start of the text
        are repeated at the start of each part. The n-th best translation of the text joins the n-th
        best translations of its parts.

        With `options.sample`, the translations are independent samples and may be equal. With
        `options.mbr`, the score of a translation is the mean of its chrF scores (0 to 100) against
        each of the samples.

        Args:
            sentences: the texts to translate, which are normalized in the same way as the training
                data.
            options: the search options. `batch_tokens` limits the number of tokens in a batch. This
                number counts the source tokens, including padding, and, for each source, the tokens
                of `beam` translations of the maximum length. If a single sentence exceeds the
                limit, the sentence forms a separate batch.
            prefix: one prefix for all translations, or a list with one prefix per sentence. An
                empty string means that there is no prefix. The length, score and log-probability of
                a translation include the prefix. If a text is split, the prefix applies only to the
                first part of the text.
            progress: a function that is called after each batch with the number of parts in the
                batch.

        Returns:
            A list of 1 to `n_best` translations for each sentence.

        Raises:
            ArgumentError: `n_best` exceeds the beam width, a prefix is too long, the number of
                prefixes differs from the number of sentences, or memory ran out.
        """
        with self._alone():
            return self._n_best(
                listed(sentences, "sentences"), SearchOptions.of(options, {}), prefix, progress
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
        of_parts = [
            self._translations(hypotheses, options)
            for hypotheses in self.engine.find(parts, options, progress)
        ]
        glossary = None if options.glossary is None else Glossary.of(options.glossary)
        if glossary:
            self._keep_terms(parts, of_parts, glossary, options)
        in_order = iter(of_parts)
        found = [[next(in_order) for _ in line] for line in lines]
        if options.align or options.attention:
            self._add_attention(sentences, lines, found, options)
        best = [_listed(parts, options) for parts in found]
        if not glossary:
            return best
        return [
            [replace(each, unmet_terms=unmet(glossary.required(text), each.text)) for each in some]
            for text, some in zip(sentences, best, strict=True)
        ]

    def _keep_terms(
        self,
        parts: Sequence[SearchInput],
        found: list[list[Translation]],
        glossary: Glossary,
        options: SearchOptions,
    ) -> None:
        """Decodes parts again, with constraints, if their best translations lack required terms.

        The new translations of a part are used only if the best of them contains more of the
        required terms than the previous best translation. A translation is removed if more required
        terms are missing from it than from the best translation of the same part.
        """
        required = [glossary.required(self._text(part.tokens)) for part in parts]
        lacking = [i for i, some in enumerate(found) if unmet(required[i], some[0].text)]
        targets = dict.fromkeys(target for i in lacking for _, target in required[i])
        ids = dict(zip(targets, self.tokenizer.encode_targets(list(targets)), strict=True))
        again = [
            replace(parts[i], terms=self._terms(parts[i], [ids[t] for _, t in required[i]]))
            for i in lacking
        ]
        for i, hypotheses in zip(lacking, self.search.find(again, options), strict=True):
            new = self._translations(hypotheses, options)
            if len(unmet(required[i], new[0].text)) < len(unmet(required[i], found[i][0].text)):
                found[i] = new
        for terms, some in zip(required, found, strict=True):
            best = len(unmet(terms, some[0].text))
            some[1:] = [each for each in some[1:] if len(unmet(terms, each.text)) <= best]

    def _terms(self, part: SearchInput, phrases: list[list[int]]) -> Terms:
        """Returns as many terms, shortest first, as fit into a translation of maximum length.

        Terms with tokens that are never generated, such as UNK, are omitted.
        """
        from nmt.decoding.beam_search import NEVER_GENERATED  # imports torch

        never = {*NEVER_GENERATED, *self.search.untrained}
        phrases = sorted((each for each in phrases if never.isdisjoint(each)), key=len)
        while sum(map(len, phrases)) >= self.search.limit(part) - len(part.prefix):
            phrases.pop()
        stops, forced = (int(self._kinds.stops[ids].sum()) for ids in (part.tokens, part.prefix))
        return Terms(phrases, self._kinds, max(stops - 1, forced))

    @cached_property
    def _kinds(self) -> TokenKinds:
        return token_kinds(self.tokenizer)

    def next_tokens(self, text: str, prefix: str = "", k: int = 10) -> list[NextToken]:
        """Returns the k most likely tokens after `prefix` in a translation of `text`.

        Returns:
            The tokens, most likely first, or an empty list if `text` is blank.

        Raises:
            ArgumentError: the text or the prefix exceeds the maximum length, or k is not a positive
                integer.
        """
        refuse_no_text(text, "text")
        refuse_no_text(prefix, "prefix")
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
            raise ArgumentError("{k} must be a positive integer, not {}.", k)
        [parts], [forced] = self._cutter.cut([text]), self._cutter.prefixes(prefix, 1)
        if len(parts) > 1:
            raise ArgumentError("{text} has more than {} tokens. Shorten it.", self.max_part)
        if not parts:
            return []
        with self._alone():
            found = self.engine.next_tokens(SearchInput(parts[0], forced), k)
        pieces = self.tokenizer.pieces([token for token, _ in found])
        return [
            NextToken(token, piece, self._text([*forced, token]), probability)
            for (token, probability), piece in zip(found, pieces, strict=True)
        ]

    @overload
    def score(  # type: ignore[overload-overlap]  # as in `translate`
        self, sources: str, targets: str
    ) -> ScoredTranslation: ...

    @overload
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[ScoredTranslation]: ...

    def score(
        self, sources: str | Sequence[str], targets: str | Sequence[str]
    ) -> ScoredTranslation | list[ScoredTranslation]:
        """Computes the log-probabilities of a given translation, or of one translation per source.

        For example:

            translator.score("The man reads.", "Der Mann liest.").log_probability  # -0.2

        Raises:
            ArgumentError, NoModelError: see `score_translations`.
        """
        is_one = isinstance(sources, str) and isinstance(targets, str)
        if isinstance(sources, str) != isinstance(targets, str):
            raise ArgumentError(
                "{sources} and {targets} must be two strings or two lists, not one of each."
            )
        pairs = (
            ([sources], [targets])
            if is_one
            else (listed(sources, "sources"), listed(targets, "targets"))
        )
        if self.is_exported:
            raise ArgumentError(
                "An exported model cannot score translations. Use the original model."
            )
        from nmt.decoding.score import score_translations

        with self._alone():
            scored = list(score_translations(self, *pairs))
        return scored[0] if is_one else scored

    def beam(self, options: SearchOptions) -> int:
        """Returns the beam width; raises ArgumentError if `n_best` exceeds the beam width."""
        return options.width(self.config.decoding.beam)

    def _translations(
        self, hypotheses: list[Hypothesis], options: SearchOptions
    ) -> list[Translation]:
        """Converts a part's hypotheses to translations.

        With `mbr`, the translations are scored by their mean chrF and sorted by this score.
        """
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

    def _add_attention(
        self,
        sentences: Sequence[str],
        lines: list[list[list[int]]],
        found: list[list[list[Translation]]],
        options: SearchOptions,
    ) -> None:
        """Adds word alignments or attention weights to the translations of all parts.

        In the word alignment of a part, source words are numbered within the whole text, and target
        words are numbered within the part's translation.
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
                    pairs.append(Pair(with_eos(part), np.array(each.tokens)))
                    words.append((source, target))
        weights = self.engine.cross_attention(pairs)
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
    """Converts token ids to text without line breaks, tabs or control characters."""
    return tokenizer.normalize(tokenizer.decode(tokens))


def _windows(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    """Groups texts into lists of up to `most` texts.

    A list also ends once its texts contain at least `_WINDOW_CHARACTERS` characters in total.
    """
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
    except Exception:  # raised by `texts`; the earlier texts are translated first
        if window:
            yield window
        raise
    if window:
        yield window


def _listed(parts: list[list[Translation]], options: SearchOptions) -> list[Translation]:
    """Joins the n-best lists of a text's parts into an n-best list for the text."""
    joined = combine(parts)
    if options.sample and options.mbr is None:
        return sorted(joined, key=lambda each: each.score, reverse=True)
    return different(joined)
