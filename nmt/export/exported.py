"""An exported CTranslate2 model with the methods of Translator that a server needs.

Nothing here imports torch, so that an exported directory can be served without it.
"""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from nmt import config as configuration
from nmt.config import Config
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.options import SearchOptions
from nmt.decoding.translation import (
    EMPTY,
    NextToken,
    Translation,
    combine,
    different,
    length_penalty,
)
from nmt.documents.cutting import Cutter
from nmt.errors import ArgumentError, InputError, NoModelError
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.processes import refuse_forked
from nmt.storage import manifest
from nmt.storage.names import CONFIG, CTRANSLATE2_WEIGHTS, TOKENIZER

if TYPE_CHECKING:
    from ctranslate2 import TranslationResult
    from ctranslate2 import Translator as Engine

KIND = "ctranslate2"  # kind of the manifest
POSITIONS = 4096  # of the sinusoidal table; CTranslate2 refuses longer texts
_BATCH = 64  # parts of similar length per batch
_NOT_HERE = ("sample", "mbr", "align", "attention", "glossary")

_Part = tuple[list[int], list[int]]  # token ids of a part of a text, and of its prefix


class ExportedTranslator:
    """A model that `nmt export` has written for CTranslate2.

    Greedy translations equal those of the original model. With a beam they may differ occasionally,
    because CTranslate2 stops its search by another rule. Several threads may share a translator.

    Args:
        target_symbols: the symbols that may be generated.

    Attributes:
        sha256: of the manifest, which identifies the model; "" if it was not loaded from files.
    """

    sha256 = ""

    def __init__(
        self,
        engine: "Engine",
        tokenizer: Tokenizer,
        config: Config,
        target_symbols: Sequence[str] = (),
    ):
        self.engine, self.tokenizer, self.config = engine, tokenizer, config
        self._pid = os.getpid()
        longest = config.data.max_length
        self._most = longest if config.model.positions == "learned" else POSITIONS
        self.max_part = min(longest, POSITIONS) - 1
        self._cutter = Cutter(tokenizer, self.max_part)
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self._ids = {piece: i for i, piece in enumerate(pieces)}
        symbols = tokenizer.symbol_ids.items()
        untrained = [i for symbol, i in symbols if symbol not in target_symbols]
        self._never = [[pieces[i]] for i in (PAD_ID, BOS_ID, *untrained)]

    @staticmethod
    def is_in(path: Path) -> bool:
        """Returns whether a directory contains an exported model, complete or not."""
        return (path / CTRANSLATE2_WEIGHTS).is_file()

    @classmethod
    def load(cls, path: Path, *, device: str | None = None) -> Self:
        """Loads an exported directory.

        Args:
            device: "cpu" or "cuda"; None for a GPU if CTranslate2 finds one.

        Raises:
            InputError: CTranslate2 cannot load it, or has no such device.
            NoModelError: a file is missing or damaged, or there is no manifest.
        """
        import ctranslate2

        content = manifest.read(path, KIND)
        manifest.verify(path, content)
        try:
            config = configuration.load_resolved(path / CONFIG)
        except InputError as error:
            raise NoModelError(*error.problems) from None
        try:
            engine = ctranslate2.Translator(str(path), device=device or "auto")
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"CTranslate2 cannot load {path} ({error}). Choose another device."
            ) from None
        tokenizer = Tokenizer.load(path / TOKENIZER)
        found = cls(engine, tokenizer, config, content["target_symbols"])
        found.sha256 = content["sha256"]
        return found

    def n_best(
        self,
        sentences: Sequence[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | Sequence[str] = "",
        progress: Callable[[int], object] | None = None,
    ) -> list[list[Translation]]:
        """Returns translations of each sentence, best first, like `Translator.n_best`.

        They have no `token_log_probabilities`, and their scores exclude the tokens of a prefix.

        Raises:
            ArgumentError: as `Translator.n_best`, or for an option that exports do not support.
        """
        refuse_forked(self._pid)
        options = options or SearchOptions()
        for name in _NOT_HERE:
            if getattr(options, name):
                raise ArgumentError(
                    f"An exported model does not support {{{name}}}. Use the original model."
                )
        lines = self._cutter.cut(sentences)
        forced = self._cutter.prefixes(prefix, len(sentences))
        parts = [
            (part, [] if place else forced[number])
            for number, line in enumerate(lines)
            for place, part in enumerate(line)
        ]
        found = iter(self._found(parts, options, progress))
        return [different(combine([next(found) for _ in line])) for line in lines]

    def next_tokens(self, text: str, prefix: str = "", k: int = 10) -> list[NextToken]:
        """See `Translator.next_tokens`."""
        refuse_forked(self._pid)
        [parts], [forced] = self._cutter.cut([text]), self._cutter.prefixes(prefix, 1)
        if k < 1:
            raise ArgumentError("{k} must be at least 1, not {}.", k)
        if len(parts) > 1:
            most = self._cutter.max_part
            raise ArgumentError("{text} has more than {} tokens. Shorten it.", most)
        if not parts:
            return []
        never = {piece for [piece] in self._never} | {self.tokenizer.pieces([UNK_ID])[0]}
        most = min(k + len(never), self.tokenizer.vocabulary_size)
        [result] = self.engine.translate_batch(
            [self.tokenizer.pieces(parts[0])], [self.tokenizer.pieces(forced)],
            num_hypotheses=most, beam_size=1, return_alternatives=True, return_scores=True,
            return_end_token=True, length_penalty=0, min_decoding_length=0, max_input_length=0,
            max_decoding_length=len(forced) + 1,
        )  # fmt: skip
        # These alternatives exclude EOS, whose probability is a part of the whole
        [scored] = self.engine.score_batch(
            [self.tokenizer.pieces(parts[0])], [self.tokenizer.pieces(forced)], max_input_length=0
        )
        end = math.exp(scored.log_probs[-1])
        found = [
            NextToken(token, piece, self._text([*forced, token]), math.exp(score) * (1 - end))
            for (*_, piece), score in zip(result.hypotheses, result.scores, strict=True)
            if piece not in never
            for token in [self._ids[piece]]
        ]
        found.append(NextToken(EOS_ID, self.tokenizer.pieces([EOS_ID])[0], self._text(forced), end))
        return sorted(found, key=lambda each: -each.probability)[:k]

    def beam(self, options: SearchOptions) -> int:
        """Returns the beam size; ArgumentError if `n_best` exceeds it."""
        return options.width(self.config.decoding.beam)

    def _found(
        self,
        parts: Sequence[_Part],
        options: SearchOptions,
        progress: Callable[[int], object] | None,
    ) -> list[list[Translation]]:
        """Returns non-empty translations of each part, best first."""
        order = sorted(range(len(parts)), key=lambda i: len(parts[i][0]))
        found: list[list[Translation]] = [[] for _ in parts]
        for begin in range(0, len(order), _BATCH):
            some = order[begin : begin + _BATCH]
            for i, each in zip(some, self._batch([parts[i] for i in some], options), strict=True):
                found[i] = each
            if progress:
                progress(len(some))
        return found

    def _batch(self, parts: Sequence[_Part], options: SearchOptions) -> list[list[Translation]]:
        """Translates parts as if each were translated alone.

        CTranslate2 applies the length limit of the longest part to the whole batch. A translation
        that exceeds the limit of its own part is repeated alone.
        """
        alpha = options.length_penalty
        if alpha is None:
            alpha = self.config.decoding.length_penalty
        limits = [self._limit(part) for part in parts]
        results = self.engine.translate_batch(
            [self.tokenizer.pieces(tokens) for tokens, _ in parts],
            [self.tokenizer.pieces(prefix) for _, prefix in parts],
            beam_size=self.beam(options), num_hypotheses=options.n_best, length_penalty=alpha,
            no_repeat_ngram_size=options.no_repeat_ngram or 0,
            max_batch_size=options.batch_tokens or 0, batch_type="tokens", max_input_length=0,
            min_decoding_length=0, max_decoding_length=max(limits),
            disable_unk=True, suppress_sequences=self._never,
            return_scores=True, return_end_token=True,
        )  # fmt: skip
        found = []
        for part, limit, result in zip(parts, limits, results, strict=True):
            if max(map(len, result.hypotheses)) > limit < max(limits):
                found += self._batch([part], options)
            else:
                found.append(self._translations(result, alpha))
        return found

    def _limit(self, part: _Part) -> int:
        """Returns the maximum tokens of a translation with EOS, as in `BatchedSearch`."""
        longest = max(map(len, part)) + self.config.decoding.max_extra_length
        return min(max(longest, len(part[1]) + 1), self._most)

    def _translations(self, result: "TranslationResult", alpha: float) -> list[Translation]:
        translations = []
        for pieces, score in zip(result.hypotheses, result.scores, strict=True):
            tokens = [self._ids[piece] for piece in pieces]
            total = score * len(tokens) ** alpha  # undoes CTranslate2's length normalization
            ours = total / length_penalty(len(tokens), alpha)
            found = Translation(self._text(tokens), ours, total, tokens, 1, pieces=list(pieces))
            translations.append(found)
        return sorted(translations, key=lambda each: each.score, reverse=True) or [EMPTY]

    def _text(self, tokens: list[int]) -> str:
        """Decodes tokens as Translator does: without EOS, line ends, tabs or control characters."""
        return self.tokenizer.normalize(self.tokenizer.decode(tokens))
