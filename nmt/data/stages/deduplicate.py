"""Finds duplicate training pairs within a corpus and across corpora.

Of several equal pairs, only the first pair is kept. The stage reads the hashes in the shards of
training text and writes the file kept.npy in `Job.text`.
"""

import io
from collections.abc import Sequence

import numpy as np

from nmt.data import shards
from nmt.data.cleaning import first_occurrences
from nmt.data.stages.job import FinishedShard, Job, Shards, finish, is_finished
from nmt.storage import atomic

KeptText = Sequence[tuple[FinishedShard, np.ndarray]]


def deduplicate(job: Job, text: Shards) -> KeptText:
    """Returns each shard of training text with a mask of the pairs to keep: (pairs,) bool."""
    path = job.text / "kept.npy"
    hashes = [shards.read_text(shard.path).column("hash").to_numpy() for shard in text]
    if not is_finished(path):
        content = io.BytesIO()
        np.save(content, first_occurrences(np.concatenate(hashes)))
        atomic.write_file(path, content.getvalue())
        finish(path)
    kept = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    ends = np.cumsum([len(each) for each in hashes])
    return list(zip(text, np.split(kept, ends[:-1]), strict=True))
