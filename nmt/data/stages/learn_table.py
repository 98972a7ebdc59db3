"""Learns a shortlist from the training pairs if `data.shortlist` is set.

The stage reads the training shards of token ids and writes `Job.shortlist`.
"""

from nmt.data.shards import read_shard
from nmt.data.shortlist import learn_shortlist
from nmt.data.stages.job import Job, Shards, finish, is_finished
from nmt.errors import Note
from nmt.storage import atomic


def learn_table(job: Job, training: Shards, note: Note) -> None:
    """Learns and writes the shortlist if `data.shortlist` is set, unless the file is finished."""
    if not job.data.shortlist or is_finished(job.shortlist):
        return
    note("Learning a shortlist.")
    found = [read_shard(shard.path) for shard in training if shard.counts["pairs"]]
    sides = [(shard.source, shard.target) for shard in found]
    table = learn_shortlist(sides, job.tokenizer_settings.vocabulary_size)
    atomic.write_file(job.shortlist, table.to_bytes())
    finish(job.shortlist)
