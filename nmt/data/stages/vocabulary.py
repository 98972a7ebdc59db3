"""Learning the vocabulary from a bounded sample of the text that is kept.

In: the training shards of `Job.text` and which of their pairs are kept; or a tokenizer that was
given. Out: `Job.tokenizer`.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from nmt.data import shards, workers
from nmt.data.foreign_tokenizer import adapted
from nmt.data.stages.deduplicate import deduplicate
from nmt.data.stages.job import Job, finish, is_finished
from nmt.data.tokenizer import MAX_MODEL_BYTES, Tokenizer, train_tokenizer
from nmt.errors import InputError, Note
from nmt.storage import atomic
from nmt.storage.opening import small_file

SAMPLE_SENTENCES = 2_000_000  # the tokenizer learns from at most so many, half of each language
SAMPLE_BYTES = 300_000_000  # and from about so much text; learning takes 3.5 times the memory
# From so much text on, a vocabulary is learnt in a process of its own: sentencepiece keeps its
# memory, and a signal has no effect until it has finished.
_LEARN_APART_BYTES = 20_000_000


def learn_vocabulary(job: Job, note: Note) -> None:
    """Learns the vocabulary, or takes the tokenizer that was given.

    Raises:
        InputError: the text does not suffice for the vocabulary, or the tokenizer does not fit it.
    """
    if is_finished(job.tokenizer):
        return
    settings = job.config.tokenizer
    given = job.given_tokenizer or (Path(settings.model) if settings.model else None)
    size = settings.vocabulary_size
    if given:
        tokenizer = Tokenizer.load(given) if job.given_tokenizer else _adapted(given)
        if tokenizer.symbols != settings.symbols:
            theirs, ours = (" ".join(of) or "none" for of in (tokenizer.symbols, settings.symbols))
            raise InputError(
                f"tokenizer.symbols is {ours}, the tokenizer to use has {theirs}, {given}, "
                "leave it out, or set it so too"
            )
        found = tokenizer.vocabulary_size
        if found != size:
            raise InputError(
                f"tokenizer.vocabulary_size is {size:,}, the tokenizer to use has {found:,} "
                f"pieces, {given}, set it to {found}"
            )
        note(f"using the tokenizer {given}")
        atomic.write_file(job.tokenizer, tokenizer.model)
    else:
        note(f"learning a vocabulary of {size:,} from up to {SAMPLE_SENTENCES:,} sentences")
        if _text_bytes(job) < _LEARN_APART_BYTES:
            _learn(job)
        else:
            workers.run_apart(_learn, job)
    finish(job.tokenizer)


def _adapted(path: Path) -> Tokenizer:
    """The SentencePiece model that `tokenizer.model` names, as a tokenizer of ours."""
    try:
        return Tokenizer(adapted(small_file(path, MAX_MODEL_BYTES)))
    except ValueError as error:
        raise InputError(f"{path} (tokenizer.model) cannot be used: {error}.") from None


def _learn(job: Job) -> None:
    sentences, settings = _sample(job, deduplicate(job)), job.config.tokenizer
    train_tokenizer(sentences, settings.vocabulary_size, job.tokenizer, settings.symbols)


def _text_bytes(job: Job) -> int:
    return sum(path.stat().st_size for _, path in job.text_shards("train"))


def _sample(job: Job, kept: np.ndarray) -> Iterator[str]:
    """Sentences for the tokenizer: both sides of evenly spaced pairs of all that are kept."""
    total = int(np.count_nonzero(kept))
    wanted = max(1, total * SAMPLE_BYTES // _text_bytes(job))
    wanted = min(total, SAMPLE_SENTENCES // 2, wanted)
    seen = 0
    for path, mask in job.training_text(kept):
        rows = np.flatnonzero(mask)
        ranks = np.arange(seen, seen + len(rows))
        seen += len(rows)
        chosen = rows[(ranks + 1) * wanted // total > ranks * wanted // total]
        batch = shards.read_text(path).take(pa.array(chosen))
        for side in ("source", "target"):
            yield from batch.column(side).to_pylist()
