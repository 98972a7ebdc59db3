"""Times translation with the `Translator` that `nmt translate` uses.

The workload consists of random sentences or of the sentences of a text. For random sentences, EOS
is suppressed, so that each translation is as long as its source. The amount of work therefore
depends neither on the weights nor on the machine. For the sentences of a text, EOS is not
suppressed.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from nmt.benchmark import machine, workload
from nmt.benchmark.flops import translation_flops
from nmt.benchmark.gate import Gate
from nmt.config import Config
from nmt.cpu_memory import keep_freed_memory
from nmt.data.cleaning import normalize
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.loading import choose_device, set_precision
from nmt.errors import ArgumentError, InputError, Note
from nmt.model.kernels.prepacking import Precision
from nmt.model.special_ids import EOS_ID
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import new_transformer, refuse_exported
from nmt.storage.opening import read_lines
from nmt.training.distributed import Ranks
from nmt.translator import SearchOptions, Translation, Translator

_CPU_SENTENCES, _GPU_SENTENCES = 200, 3003  # defaults; newstest2014 has 3,003 sentences
_FEWEST, _MOST, _ENOUGH_S = 3, 20, 3.0  # minimum and maximum number of passes, target total time
_SINGLE = 7  # number of timings of a single sentence
_TOGETHER = 32  # batch size for the time per decoding step


@dataclass(frozen=True)
class Work:
    """A translator, and the sentences that it translates while the time is measured."""

    translator: Translator
    options: SearchOptions
    sentences: list[str]  # texts, or token ids if the translator takes token ids
    one: str  # a sentence of typical length
    is_forced: bool = False  # whether each translation is as long as its source


def benchmark_translation(
    origin: Path | Config,
    *,
    options: SearchOptions,
    device: str | None = None,
    precision: Precision | None = None,
    input: Path | None = None,
    sentences: int | None = None,
    note: Note,
) -> dict[str, Any]:
    """Measures the translation speed of a model; docs/speed.md lists the keys of the result.

    Args:
        origin: the path of a model, or a configuration from which a model with random weights is
            created.
        input: a text file to translate, with one sentence per line, or None to translate random
            sentences.
        sentences: the number of sentences to translate. The default is the whole text or, without a
            text, 200 random sentences on a CPU and 3,003 on a GPU.
        note: called with each progress message.

    Raises:
        InputError: the model or the text does not exist, or the machine does not support the device
            or the precision.
    """
    keep_freed_memory()
    if input is not None and isinstance(origin, Config):
        raise ArgumentError(
            "{input} {} needs a trained model. Specify a model instead of a configuration.", input
        )
    lines = _lines(input, sentences) if input is not None else None
    began = time.perf_counter()
    if isinstance(origin, Config):
        transformer = random_transformer(origin, device, precision)
        translator, load_s = forced(transformer, origin), None
    else:
        refuse_exported(Path(origin))
        translator = Translator.load(origin, device=device, precision=precision, note=note)
        load_s = time.perf_counter() - began
        if lines is None:
            translator = forced(translator.transformer, translator.config)
    if lines is None:
        work = _drawn(translator, options, sentences)
    else:
        work = Work(translator, options, lines, sorted(lines, key=len)[len(lines) // 2])
    where = translator.device
    chosen: Precision = precision or ("fp32" if where.type == "cpu" else "bf16")
    return _measured(work, chosen, note) | {
        "load_seconds": load_s,
        "beam": translator.beam(options),
        "precision": chosen,
        "lengths": "forced" if work.is_forced else "natural",
        "device": Ranks(0, 1, where).device_name,
        "torch": str(torch.__version__),
    }


def _measured(work: Work, precision: Precision, note: Note) -> dict[str, Any]:
    """Measures the model's translation speed and latency, and the machine's ceilings."""
    translator = work.translator
    note("Translating the first sentence.")
    first_s = _seconds(work, [work.one])
    gate = Gate(machine.probe(translator.device))
    found, largest_batch = _timed(work, gate, note)
    if work.is_forced:
        found["milliseconds_per_step"] = _milliseconds_per_step(work, gate)
    found["peak_memory_bytes"] = machine.peak_memory(translator.device)
    note("Measuring the machine's ceilings.")
    ceilings = machine.measured_ceilings(
        translator.config.model,
        translator.config.tokenizer.vocabulary_size,
        translator.beam(work.options) * largest_batch,
        precision,
        translator.device,
        gate,
        gradients=False,
    )
    return found | {
        "first_translation_seconds": first_s,
        "ceiling_share": found["flops_per_second"] / ceilings.best,
        "ceilings": ceilings.as_json(),
    }


def _lines(text: Path, sentences: int | None) -> list[str]:
    # a line may contain only characters that the tokenizer removes
    lines = list(islice((line for line in read_lines(text) if normalize(line)), sentences))
    if not lines:
        raise InputError(f"{text} contains no text to translate. Specify another file.")
    return lines


def _drawn(translator: Translator, options: SearchOptions, sentences: int | None) -> Work:
    """Returns a `Work` with random sentences of token ids.

    `translator` must take token ids instead of text, like the translators that `forced` returns.
    """
    is_cpu, config = translator.device.type == "cpu", translator.config
    number = sentences or (_CPU_SENTENCES if is_cpu else _GPU_SENTENCES)
    longest = min(config.data.max_length, translator.transformer.max_length or workload.MAX_LENGTH)
    usual = np.array([min(workload.MEAN_LENGTH, longest)])
    texts, (one,) = (
        _as_texts(lengths, config.tokenizer.vocabulary_size)
        for lengths in (workload.lengths(number, longest)[0], usual)
    )
    return Work(translator, options, texts, one, is_forced=True)


def _as_texts(lengths: np.ndarray, vocabulary_size: int) -> list[str]:
    """Returns random sources of the given lengths, as strings of token ids."""
    side = workload.side(lengths, vocabulary_size)
    return [" ".join(map(str, side[i][:-1])) for i in range(len(lengths))]


class _Ids:
    """A substitute for the tokenizer, for texts that consist of token ids."""

    symbol_ids: Mapping[str, int] = {}

    def normalize(self, text: str) -> str:
        """Returns the text unchanged."""
        return text

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids that each text consists of."""
        return [[int(word) for word in text.split()] for text in texts]

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids that each text consists of."""
        return self.encode_batch(texts)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns each id as a string."""
        return list(map(str, ids))

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the token ids as a string, separated by spaces."""
        return " ".join(map(str, ids))


class _NeverEnding(nn.Module):
    """Wraps an output projection so that the probability of EOS is 0."""

    def __init__(self, projection: nn.Module):
        super().__init__()
        self.projection = projection

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Computes logits, with -inf for EOS: (..., D), (V, D) -> (..., V)."""
        logits = self.projection(hidden, embedding)
        logits[..., EOS_ID].fill_(-torch.inf)
        return logits


def random_transformer(
    config: Config, device: str | None, precision: Precision | None
) -> Transformer:
    """Returns a model with random weights, in evaluation mode on the chosen device."""
    transformer = new_transformer(config)
    transformer.initialize(config.training.seed)
    chosen = choose_device(device)
    set_precision(transformer.to(chosen).eval(), chosen, precision)
    return transformer


def forced(transformer: Transformer, config: Config) -> Translator:
    """Returns a translator that takes token ids instead of text and never generates EOS.

    Each translation has one token more than its source text, not counting the source's EOS.
    """
    transformer.projection = _NeverEnding(transformer.projection)
    decoding = config.decoding.model_copy(update={"max_extra_length": 1})
    config = config.model_copy(update={"decoding": decoding})
    return Translator.of(transformer, cast(Tokenizer, _Ids()), config)


def _seconds(work: Work, sentences: Sequence[str]) -> float:
    return machine.seconds(
        lambda: work.translator.translate(sentences, work.options), work.translator.device
    )


@dataclass(frozen=True)
class Pass:
    """The result of translating all sentences once."""

    seconds: float
    translations: list[Translation]
    batches: int
    largest_batch: int  # number of sentences, or of parts of long sentences


def _timed(work: Work, gate: Gate, note: Note) -> tuple[dict[str, Any], int]:
    """Times the translation of all sentences and of one sentence.

    Returns:
        The speeds and times in the benchmark's result, and the size of the largest batch.
    """
    note(f"Warming up with {len(work.sentences):,} sentences.")
    warm, _ = _pass(work, gate)
    wanted = min(max(_FEWEST, round(_ENOUGH_S / warm.seconds)), _MOST)
    note(f"Timing {wanted} passes of about {warm.seconds:.2g} s each.")
    passes = gate.measured(partial(_pass, work, gate), wanted)
    single = gate.measured(lambda: (_seconds(work, [work.one]), ()), _SINGLE)
    seconds = statistics.median(each.seconds for each in passes.kept)
    found = passes.kept[0].translations
    target = [len(each.tokens) for each in found]
    translator = work.translator
    tokenizer = translator.tokenizer
    ids = tokenizer.encode_batch(work.sentences)
    source = [len(each) + 1 for each in ids]
    flops = translation_flops(
        translator.config.model, translator.config.tokenizer.vocabulary_size, source, target,
        translator.beam(work.options),
    )  # fmt: skip
    return {
        "sentences_per_second": len(found) / seconds,
        "target_tokens_per_second": sum(target) / seconds,
        "flops_per_second": flops / seconds,
        "sentence_seconds": statistics.median(single.kept),
        "sentences": len(found),
        "source_tokens": sum(source),
        "target_tokens": sum(target),
        "passes": {
            "timed": len(passes.kept),
            "dropped": passes.dropped,
            "seconds": [each.seconds for each in passes.kept],
        },
    }, warm.largest_batch


def _pass(work: Work, gate: Gate) -> tuple[Pass, list[float]]:
    """Translates all sentences, and also returns the rates that the probe measured meanwhile.

    On a CPU, the probe runs after each batch, and its time is subtracted from the measured time. On
    a GPU, the probe does not run and the list of rates is empty, because batches are computed
    asynchronously and without pauses.
    """
    translator, is_cpu = work.translator, work.translator.device.type == "cpu"
    rates: list[float] = []
    batches: list[int] = []
    found: list[Translation] = []
    paused_s = 0.0

    def progress(parts: int) -> None:
        nonlocal paused_s
        batches.append(parts)
        if is_cpu:
            began = time.perf_counter()
            rates.append(gate.rate())
            paused_s += time.perf_counter() - began

    def translate() -> None:
        found.extend(translator.translate(work.sentences, work.options, progress=progress))

    seconds = machine.seconds(translate, translator.device) - paused_s
    return Pass(seconds, found, len(batches), max(batches)), rates


def _milliseconds_per_step(work: Work, gate: Gate) -> dict[str, float]:
    """Returns the time per decoding step in milliseconds for each of two batch sizes.

    The time includes the encoder's time, which is divided evenly among the decoding steps.
    """
    steps = len(work.one.split()) + 1
    found = {}
    for number in (1, _TOGETHER):
        several = replace(work, sentences=[work.one] * number)
        passes = gate.measured(partial(_pass, several, gate), _FEWEST)
        seconds = [each.seconds / each.batches for each in passes.kept]
        found[str(number)] = 1e3 * statistics.median(seconds) / steps
    return found
