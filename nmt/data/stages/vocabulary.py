"""Trains a tokenizer on a sample of the kept text, or copies an existing tokenizer.

The stage reads either an existing tokenizer or the training text and the masks of the kept pairs.
The stage writes `Job.tokenizer`.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from nmt import config
from nmt.data import shards, workers
from nmt.data.foreign_tokenizer import adapted
from nmt.data.stages.deduplicate import KeptText
from nmt.data.stages.job import Job, finish, is_finished
from nmt.data.tokenizer import MAX_MODEL_BYTES, Tokenizer, train_tokenizer
from nmt.errors import InputError, Note
from nmt.storage import atomic
from nmt.storage.opening import small_file

SAMPLE_SENTENCES = 2_000_000  # maximum number; half of the sentences are in each language
SAMPLE_BYTES = 300_000_000  # approximate maximum; training takes 3.5 times as much memory
# If the training text is at least this large, the tokenizer is trained in a separate process,
# because sentencepiece does not free its memory and reacts to signals only after training.
_LEARN_APART_BYTES = 20_000_000


def learn_vocabulary(job: Job, text: KeptText, note: Note) -> Tokenizer:
    """Trains a tokenizer or copies the given tokenizer, unless an earlier call has done so.

    Raises:
        InputError: the training text does not allow this vocabulary size, or the given tokenizer
            has another vocabulary size or other symbols than the settings require.
    """
    if not is_finished(job.tokenizer):
        _write_tokenizer(job, text, note)
        finish(job.tokenizer)
    return Tokenizer.load(job.tokenizer)


def given_tokenizer(job: Job) -> Tokenizer | None:
    """Returns the tokenizer to use instead of training one, or None if no tokenizer is given.

    Raises:
        InputError: the given tokenizer cannot be used, or its vocabulary size or its symbols differ
            from the settings.
    """
    settings = job.tokenizer_settings
    given = job.given_tokenizer or (Path(settings.model) if settings.model else None)
    if not given:
        return None
    tokenizer = Tokenizer.load(given) if job.given_tokenizer else _adapted(given)
    if tokenizer.symbols != settings.symbols:
        theirs, ours = (" ".join(of) or "none" for of in (tokenizer.symbols, settings.symbols))
        raise InputError(
            f"tokenizer.symbols is {ours}, but the tokenizer {given} has the symbols {theirs}. Set "
            "tokenizer.symbols to the symbols of the tokenizer, or use another tokenizer."
        )
    size, found = settings.vocabulary_size, tokenizer.vocabulary_size
    if found != size:
        raise InputError(
            f"tokenizer.vocabulary_size is {size:,}, but the tokenizer {given} has "
            f"{found:,} tokens. Set tokenizer.vocabulary_size to {found}."
        )
    return tokenizer


def _write_tokenizer(job: Job, text: KeptText, note: Note) -> None:
    settings = job.tokenizer_settings
    if tokenizer := given_tokenizer(job):
        note(f"Using the tokenizer {job.given_tokenizer or settings.model}.")
        atomic.write_file(job.tokenizer, tokenizer.model)
        return
    note(
        f"Training a tokenizer with {settings.vocabulary_size:,} tokens on up to "
        f"{SAMPLE_SENTENCES:,} sentences."
    )
    if _text_bytes(text) < _LEARN_APART_BYTES:
        _learn(text, settings, job.tokenizer)
    else:
        workers.run_apart(_learn, text, settings, job.tokenizer)


def _adapted(path: Path) -> Tokenizer:
    """Loads the SentencePiece model that `tokenizer.model` names, adapted to nmt's token ids."""
    try:
        return Tokenizer(adapted(small_file(path, MAX_MODEL_BYTES)))
    except ValueError as error:
        raise InputError(
            f"{path} (tokenizer.model) cannot be used: {error}. Set "
            "tokenizer.model to another SentencePiece model."
        ) from None


def _learn(text: KeptText, settings: config.Tokenizer, output: Path) -> None:
    train_tokenizer(_sample(text), settings.vocabulary_size, output, settings.symbols)


def _text_bytes(text: KeptText) -> int:
    return sum(shard.path.stat().st_size for shard, _ in text)


def _sample(text: KeptText) -> Iterator[str]:
    """Yields the source and target texts of evenly spaced pairs of the cleaned data."""
    total = sum(int(np.count_nonzero(mask)) for _, mask in text)
    wanted = max(1, total * SAMPLE_BYTES // _text_bytes(text))
    wanted = min(total, SAMPLE_SENTENCES // 2, wanted)
    before = 0  # number of kept pairs in earlier shards
    for shard, mask in text:
        rows = np.flatnonzero(mask)
        ranks = np.arange(before, before + len(rows))
        before += len(rows)
        chosen = rows[(ranks + 1) * wanted // total > ranks * wanted // total]
        batch = shards.read_text(shard.path).take(pa.array(chosen))
        for side in ("source", "target"):
            yield from batch.column(side).to_pylist()
