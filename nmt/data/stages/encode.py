"""Encoding: shards of text become shards of token ids.

In: the shards of `Job.text` for training and validation, which of their pairs are kept, and
`Job.tokenizer`. Out: in `Job.tokens`, the same shards as token ids, and a note of counts beside
each. Test text stays text.
"""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from nmt.data import cleaning, shards, workers
from nmt.data.stages import clean
from nmt.data.stages.job import Job, finish, is_finished
from nmt.data.tokenizer import Tokenizer
from nmt.errors import Note
from nmt.model.special_ids import EOS_ID

_BATCH = 10_000  # pairs whose ids are Python objects at a time


def encode(job: Job, kept: np.ndarray, note: Note) -> None:
    """Encodes the shards that are not encoded yet."""
    job.tokens.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.load(job.tokenizer)
    max_length = job.config.data.max_length
    tasks: list[tuple[Any, ...]] = [
        (text, np.asarray(mask), tokenizer, max_length, job.token_shard(text))
        for text, mask in job.training_text(kept)
    ]
    tasks += [
        (text, None, tokenizer, None, job.token_shard(text))
        for _, text in job.text_shards("validation")
    ]
    left = [task for task in tasks if not is_finished(task[4])]
    note("encoding")
    bar = tqdm(
        left,
        desc="encoding",
        unit=" pairs",
        unit_scale=clean.SHARD_PAIRS,
        disable=None,
        leave=False,
    )
    workers.run(encode_shard, bar, job.processes)


def encode_shard(
    text: Path,
    kept: np.ndarray | None,
    tokenizer: Tokenizer,
    max_length: int | None,
    output: Path,
) -> None:
    """Turns a shard of text into one of token ids, and writes it with its counts.

    Args:
        text: a file of `shards.write_text`.
        kept: (pairs,) bool, which of them to take; all if None.
        tokenizer: for both sides.
        max_length: pairs with more tokens on a side, EOS included, are dropped; None: no bound.
        output: the Arrow file, not written if no pair is left; the counts are in its note.
    """
    batch, limit = shards.read_text(text), math.inf if max_length is None else max_length
    rows = np.arange(len(batch)) if kept is None else np.flatnonzero(kept)
    counts = Counter({cleaning.DUPLICATE: len(batch) - len(rows)})
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for start in range(0, len(rows), _BATCH):
        some = batch.take(pa.array(rows[start : start + _BATCH]))
        encoded = (_encoded(some, side, tokenizer) for side in ("source", "target"))
        for pair in zip(*encoded, strict=True):
            if max(map(len, pair)) > limit:
                counts[cleaning.TOO_MANY_TOKENS] += 1
                continue
            for side, ids in zip(sides, pair, strict=True):
                side.append(ids)
    counts["pairs"] = len(sides[0])
    for name, side in zip(("source_tokens", "target_tokens"), sides, strict=True):
        counts[name] = sum(map(len, side))
    if counts["pairs"]:
        used = set(np.concatenate(sides[1]).tolist()) if tokenizer.symbols else set()
        for symbol, i in tokenizer.symbol_ids.items():
            counts[in_targets(symbol)] += i in used
        shards.write_shard(output, *sides)  # type: ignore[arg-type]
    finish(output, counts)


def in_targets(symbol: str) -> str:
    """The count of a shard that says whether its targets hold a symbol."""
    return f"{symbol} in targets"


def _encoded(rows: pa.RecordBatch, side: str, tokenizer: Tokenizer) -> Iterator[np.ndarray]:
    for ids in tokenizer.encode_batch(rows.column(side).to_pylist()):
        yield np.array([*ids, EOS_ID], dtype=np.int32)
