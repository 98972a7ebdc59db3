"""Converts shards of text to shards of token ids.

The stage reads the shards of training and validation text, the masks of the kept training pairs,
and the tokenizer. For each shard of text, the stage writes a shard of token ids and a file of
counts to `Job.tokens`. Test sets are not encoded.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from nmt.data import cleaning, shards, workers
from nmt.data.pair import TextPair, TokenPair
from nmt.data.stages import clean
from nmt.data.stages.counts import in_targets
from nmt.data.stages.deduplicate import KeptText
from nmt.data.stages.job import FinishedShard, Job, Shards, Splits, finish, is_finished
from nmt.data.tokenizer import Tokenizer
from nmt.errors import Note

_BATCH = 10_000  # number of pairs held as Python lists of ids at a time


def encode(
    job: Job, training: KeptText, validation: Shards, tokenizer: Tokenizer, note: Note
) -> Splits:
    """Encodes the shards that have not been encoded yet; returns the shards of token ids."""
    job.tokens.mkdir(parents=True, exist_ok=True)

    def output(text: FinishedShard) -> Path:
        return job.tokens / text.path.name

    tasks: list[tuple[Any, ...]] = [
        (text.path, mask, tokenizer, job.data.max_length, output(text)) for text, mask in training
    ]
    tasks += [(text.path, None, tokenizer, None, output(text)) for text in validation]
    left = [task for task in tasks if not is_finished(task[4])]
    note("Encoding the text.")
    bar = tqdm(
        left,
        desc="encoding",
        unit=" pairs",
        unit_scale=clean.SHARD_PAIRS,
        disable=None,
        leave=False,
    )
    workers.run(encode_shard, bar, job.processes)
    splits = {"train": [text for text, _ in training], "validation": validation}
    return {
        split: [FinishedShard.read(text.entry, output(text)) for text in texts]
        for split, texts in splits.items()
    }


def encode_shard(
    text: Path,
    kept: np.ndarray | None,
    tokenizer: Tokenizer,
    max_length: int | None,
    output: Path,
) -> None:
    """Encodes a shard of text, and writes the token ids and the counts of pairs and tokens.

    Args:
        text: path of a file that `shards.write_text` wrote.
        kept: (pairs,) bool, a mask of the pairs to encode, or None to encode all pairs.
        tokenizer: the tokenizer for both sides.
        max_length: maximum number of tokens per side, including EOS, or None for no limit. Longer
            pairs are dropped.
        output: path of the Arrow file, which is not written if all pairs are dropped. The counts
            are written to a file beside the Arrow file (see `finish`).
    """
    batch, limit = shards.read_text(text), math.inf if max_length is None else max_length
    rows = np.arange(len(batch)) if kept is None else np.flatnonzero(kept)
    pairs: list[TokenPair] = []
    for start in range(0, len(rows), _BATCH):
        some = shards.text_pairs(batch.take(pa.array(rows[start : start + _BATCH])))
        encoded = _encoded(some, tokenizer)
        pairs += [pair for pair in encoded if max(map(len, pair)) <= limit]
    counts = Counter({cleaning.DUPLICATE: len(batch) - len(rows)})
    counts[cleaning.TOO_MANY_TOKENS] = len(rows) - len(pairs)
    counts["pairs"] = len(pairs)
    counts["source_tokens"] = sum(len(pair.source) for pair in pairs)
    counts["target_tokens"] = sum(len(pair.target) for pair in pairs)
    if pairs:
        used = (
            set(chain.from_iterable(p.target.tolist() for p in pairs))
            if tokenizer.symbols
            else set()
        )
        for symbol, i in tokenizer.symbol_ids.items():
            counts[in_targets(symbol)] += i in used
        shards.write_shard(output, pairs)
    finish(output, counts)


def _encoded(pairs: Sequence[TextPair], tokenizer: Tokenizer) -> Iterator[TokenPair]:
    """Yields the encoded pairs, with their additional columns unchanged."""
    sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
    for pair, encoded in zip(pairs, tokenizer.encode_pairs(*sides), strict=True):
        yield replace(encoded, columns=pair.columns)
