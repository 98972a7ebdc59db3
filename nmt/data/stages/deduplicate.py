"""Deduplicating: keeps the first of equal training pairs, within and across corpora.

Input: the hashes in the training shards of `Job.text`. Output: kept.npy beside them.
"""

import io

import numpy as np

from nmt.data import shards
from nmt.data.cleaning import first_occurrences
from nmt.data.stages.job import Job, finish, is_finished
from nmt.storage import atomic


def deduplicate(job: Job) -> np.ndarray:
    """Returns which training pairs are kept: (pairs,) bool, in the order of the shards."""
    path = job.text / "kept.npy"
    if not is_finished(path):
        hashes = [
            shards.read_text(p).column("hash").to_numpy() for _, p in job.text_shards("train")
        ]
        content = io.BytesIO()
        np.save(content, first_occurrences(np.concatenate(hashes)))
        atomic.write_file(path, content.getvalue())
        finish(path)
    return np.load(path, mmap_mode="r", allow_pickle=False)
