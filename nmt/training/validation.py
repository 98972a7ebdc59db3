"""Validates a model by computing its loss on the references and scoring its translations."""

import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain

import numpy as np
import torch

from nmt.config import Config
from nmt.data.layout import by_length, one_per_row
from nmt.data.pair import TokenPair
from nmt.data.shards import Shard, pairs_of
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.alignment import cross_attention
from nmt.errors import DivergedError, InputError
from nmt.evaluation.attention_png import HeatMaps, write_png
from nmt.evaluation.bleu import score
from nmt.model.devices import is_gpu, supports_bf16
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import new_transformer
from nmt.training.compiling import uncompiled
from nmt.training.distributed import Ranks, StopRequest
from nmt.training.health import IF_DIVERGED, unigram_nll
from nmt.training.loss import TransformerLoss
from nmt.training.step import autocast
from nmt.translator import Translator

_BATCH_TOKENS = 4096
_MAX_PLOTTED = 60  # tokens per side

Sample = tuple[str, str, str]  # source, reference, translation


@dataclass(frozen=True)
class Validation:
    """The results of a validation, with losses in nats per target token."""

    loss: float  # smoothed
    nll: float  # unsmoothed
    bleu: float  # 0 to 100, like chrf
    bleu_signature: str
    samples: list[Sample]
    chrf: float = 0.0
    chrf_signature: str = ""
    unigram_nll: float = 0.0  # nll of predictions from token frequencies alone
    attention: bytes | None = None  # see `_attention`; only on the main process

    @property
    def ppl(self) -> float:
        """Returns the perplexity, which is limited to e^700 to prevent an overflow."""
        return math.exp(min(self.nll, 700.0))

    @property
    def facts(self) -> dict[str, float | str]:
        """Returns the values that are written to log.jsonl."""
        values = asdict(self)
        del values["samples"], values["attention"]
        return values | {"ppl": self.ppl}


class _Interrupted(Exception):
    """Interrupts the validation on a rank that has received a stop signal."""


def _check(stop: StopRequest) -> None:
    """Raises _Interrupted if this rank has received a stop signal."""
    if stop.signal_number:
        raise _Interrupted


class InferenceCopy:
    """Provides a translator, equivalent to `nmt translate`, for the model that is being trained.

    On a GPU, the translator uses a copy of the model, in bf16 if the GPU supports it. All
    validations of a run use the same copy of the model, so that its decode buffers and CUDA graphs
    are reused. Because CUDA graphs read weights at fixed addresses, new weights are copied into the
    same memory. On a CPU, the translator uses the fp32 model that is being trained.
    """

    def __init__(self) -> None:
        self._translator: Translator | None = None

    def refreshed(
        self,
        transformer: Transformer,
        tokenizer: Tokenizer,
        config: Config,
        target_symbols: Sequence[str],
    ) -> Translator:
        """Returns a translator with the current weights of `transformer`.

        Args:
            transformer: the model that is being trained, which must be in evaluation mode.
            target_symbols: see `Translator.of`.
        """
        device, translator = transformer.embedding.device, self._translator
        if translator is None:
            if is_gpu(device):
                dtype = torch.bfloat16 if supports_bf16(device) else torch.float32
                translating = new_transformer(config).to(device, dtype).eval()
            else:
                translating = transformer
            translator = Translator.of(translating, tokenizer, config, target_symbols)
            translator.search.out_of_memory = "Lower decoding.beam."
        if is_gpu(device):
            translator.transformer.load_state_dict(transformer.state_dict())
            self._translator = translator
        return translator


def validate(
    loss_module: TransformerLoss,
    tokenizer: Tokenizer,
    shards: Sequence[Shard],
    config: Config,
    ranks: Ranks,
    stop: StopRequest,
    copy: InferenceCopy,
    target_symbols: Sequence[str] = (),
) -> Validation | None:
    """Measures the loss, BLEU and chrF on the validation data, which is divided among the ranks.

    Sources are translated as in `nmt translate`, with the decoding settings in `config`.

    Args:
        copy: a copy of the model for translation, which provides the translator. All validations of
            a run must use the same `InferenceCopy`.
        target_symbols: see `Translator.of`.

    Returns:
        The results of the validation, or None on all ranks if a stop signal interrupted any rank.

    Raises:
        InputError: every pair is too long for the model's learned positions.
        DivergedError: the loss is not finite.
    """
    training = loss_module.training
    loss_module.eval()
    own = np.arange(ranks.rank, sum(map(len, shards)), ranks.world_size)
    pairs = pairs_of(shards, own)
    is_interrupted, own_sums, own_samples = False, [0.0, 0.0, 0.0], list[Sample]()
    attention = None
    try:
        with uncompiled(loss_module.transformer):
            own_sums = _losses(loss_module, pairs, config, ranks.device, stop)
            translator = copy.refreshed(loss_module.transformer, tokenizer, config, target_symbols)
            own_samples = _translated(translator, pairs, stop)
            if ranks.is_main:
                attention = _attention(translator, pairs)
    except _Interrupted:
        is_interrupted = True
    loss_module.train(training)
    if ranks.max(is_interrupted):
        return None
    sums = ranks.sum(own_sums)
    if not sums[2]:
        limit = loss_module.transformer.max_length
        raise InputError(
            "In every pair of data.validation, the source or target exceeds the model's maximum "
            f"of {limit} tokens (data.max_length). Use shorter validation text, or raise "
            "data.max_length for a new run."
        )
    numbered = list(zip(own.tolist(), own_samples, strict=True))
    samples = [sample for _, sample in sorted(chain(*ranks.gather(numbered)))]
    _, references, translations = map(list, zip(*samples, strict=True))
    scores = score(translations, references, target_language=config.data.target_language)
    picks = np.linspace(0, len(samples) - 1, num=min(5, len(samples)), dtype=int)
    return Validation(
        loss=sums[0] / sums[2],
        nll=sums[1] / sums[2],
        bleu=scores.bleu,
        bleu_signature=scores.bleu_signature,
        chrf=scores.chrf,
        chrf_signature=scores.chrf_signature,
        samples=[samples[pick] for pick in picks],
        unigram_nll=unigram_nll(shards),
        attention=attention,
    )


def _translated(
    translator: Translator, pairs: Sequence[TokenPair], stop: StopRequest
) -> list[Sample]:
    """Returns the source, reference and translation of each pair as text."""
    decode = translator.tokenizer.decode
    sources = [decode(pair.source.tolist()) for pair in pairs]
    references = [decode(pair.target.tolist()) for pair in pairs]
    found = translator.translate(sources, progress=lambda _: _check(stop))
    return list(zip(sources, references, (each.text for each in found), strict=True))


def _attention(translator: Translator, pairs: Sequence[TokenPair]) -> bytes | None:
    """Returns a PNG plot of the cross-attention for the first pair that is not too long.

    The plot shows the attention of the reference tokens to the source tokens in the last layer,
    averaged over the heads. All validations plot the same pair, so that the plots can be compared.
    The function returns None if all pairs are too long, or if matplotlib is not installed or cannot
    write its files.
    """
    limit = min(_MAX_PLOTTED, translator.transformer.max_length or _MAX_PLOTTED)
    pair = next((pair for pair in pairs if max(map(len, pair)) <= limit), None)
    if pair is None:
        return None
    [weights] = cross_attention([translator.transformer], [pair])
    source, target = (translator.tokenizer.pieces(side.tolist()) for side in pair)
    title, picture = "cross-attention of the last layer, mean of its heads", io.BytesIO()
    try:
        write_png([HeatMaps(title, weights[None, None], target, source)], picture)
    except (InputError, OSError):
        return None
    return picture.getvalue()


@torch.inference_mode()
def _losses(
    loss_module: TransformerLoss,
    pairs: Sequence[TokenPair],
    config: Config,
    device: torch.device,
    stop: StopRequest,
) -> list[float]:
    """Computes the loss on the references of `pairs`, without loss weights.

    Pairs that are too long for the model's learned positions are skipped.

    Returns:
        Three numbers: the smoothed loss and the nll, both in nats and summed over target tokens,
        and the number of target tokens.

    Raises:
        DivergedError: the loss is not finite.
    """
    limit = loss_module.transformer.max_length or math.inf
    pairs = [pair for pair in pairs if max(map(len, pair)) <= limit]
    sums = [0.0, 0.0, 0.0]
    for indices in by_length(pairs, _BATCH_TOKENS):
        _check(stop)
        batch = replace(one_per_row([pairs[i] for i in indices], device), columns={})
        with autocast(config, device):
            own = torch.stack(loss_module(batch))
        tokens = sum(len(pairs[i].target) for i in indices)
        # waits for the GPU, once per batch
        sums = [a + b for a, b in zip(sums, (*own.tolist(), tokens), strict=True)]
    if not math.isfinite(sums[0]):
        raise DivergedError(f"Training diverged: the validation loss is {sums[0]}. {IF_DIVERGED}")
    return sums
