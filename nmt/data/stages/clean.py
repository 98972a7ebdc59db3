"""Converts corpora to shards of normalized pairs, and counts the pairs that each rule drops.

The stage reads the corpora, and writes each corpus's shards and numbers of pairs to `Job.text`.
After the last shard of a corpus, a marker file with the number of shards is written. Validation and
test sets are cleaned first, because training pairs that leak a validation or test pair are dropped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from nmt.data import cleaning, shards, workers
from nmt.data.corpora import describe, read_chunks, with_prefix, without_prefix
from nmt.data.pair import TextPair
from nmt.data.stages import job as jobs
from nmt.data.stages.counts import nothing_left, total_counts
from nmt.data.stages.job import CorpusEntry, FinishedShard, Job, Splits, finish, is_finished
from nmt.errors import Note

SHARD_PAIRS = 100_000  # pairs read per shard, before any are dropped


def clean(job: Job, note: Note) -> Splits:
    """Cleans each corpus that has not been cleaned yet; returns the shards of all corpora.

    Raises:
        InputError: a corpus cannot be read, or all validation pairs have been dropped.
    """
    job.text.mkdir(parents=True, exist_ok=True)

    def cleaned(split: str, held_out: cleaning.HeldOut | None) -> list[FinishedShard]:
        return [
            FinishedShard.read(entry, path)
            for entry in job.of(split)
            for path in _clean_corpus(job, entry, held_out, note)
        ]

    text = {split: cleaned(split, None) for split in ("validation", "test")}
    if text["validation"] and not total_counts(text["validation"])["kept"]:
        raise nothing_left(text["validation"])
    held_out = cleaning.HeldOut.of(
        pair for found in text.values() for shard in found for pair in _held_out_pairs(shard)
    )
    return text | {"train": cleaned("train", held_out)}


def _clean_corpus(
    job: Job, entry: CorpusEntry, held_out: cleaning.HeldOut | None, note: Note
) -> list[Path]:
    """Cleans the unfinished shards of a corpus; returns the paths of all its shards."""
    marker = entry.marker(job.text)
    number = jobs.load(marker).get("shards")
    paths = [entry.shard(job.text, i) for i in range(number or 0)]
    if number is not None and all(map(is_finished, paths)):
        return paths
    note(f"Cleaning {entry.title}: {describe(entry.corpus)}.")
    paths = []
    with tqdm(desc=f"cleaning {entry.title}", unit=" pairs", disable=None, leave=False) as bar:

        def tasks() -> Iterator[tuple[Any, ...]]:
            for chunk in read_chunks(entry.corpus, job.data, entry.split, SHARD_PAIRS):
                paths.append(entry.shard(job.text, len(paths)))
                if not is_finished(paths[-1]):
                    yield chunk, held_out, paths[-1], entry.corpus.source_prefix
                bar.update(len(chunk))

        workers.run(clean_shard, tasks(), job.processes)
    jobs.save(marker, {"shards": len(paths)})
    return paths


def _held_out_pairs(shard: FinishedShard) -> Iterator[tuple[str, str]]:
    """Yields the pairs that `clean_shard` wrote, without the prefix of the corpus.

    If the corpus has a prefix, each pair is also yielded with source and target exchanged, because
    a prefix may select a translation direction, and the training data may then contain the same
    pairs in the opposite direction.
    """
    batch, prefix = shards.read_text(shard.path), shard.entry.corpus.source_prefix
    sources = (without_prefix(prefix, text) for text in batch.column("source").to_pylist())
    for source, target in zip(sources, batch.column("target").to_pylist(), strict=True):
        yield source, target
        if prefix is not None:
            yield target, source


def clean_shard(
    pairs: Iterable[TextPair],
    held_out: cleaning.HeldOut | None,
    output: Path,
    source_prefix: str | None = None,
) -> None:
    """Normalizes pairs, drops those that break a rule, and writes the rest and the counts of pairs.

    The additional columns of a pair are not changed.

    Args:
        pairs: pairs of the corpus, which have not been normalized yet.
        held_out: the validation and test pairs; training pairs that overlap with them are dropped.
            If `held_out` is None, `pairs` are validation or test pairs, which are dropped only if a
            side is empty.
        output: path of the Arrow file to write. The counts are written to a file beside the Arrow
            file (see `finish`).
        source_prefix: prefix to prepend to each source after the cleaning rules have been applied.
    """
    counts: Counter[str] = Counter()
    kept = []
    for raw in pairs:
        counts["read"] += 1
        counts[cleaning.REPAIRED] += any(map(cleaning.needs_repair, raw))
        counts[cleaning.SPACING] += any(map(cleaning.has_odd_spacing, raw))
        source, target = map(cleaning.normalize, raw)
        if held_out is None:
            fault = cleaning.EMPTY if cleaning.is_empty(source, target) else None
        else:
            fault = cleaning.fault(source, target, held_out)
        if fault is None:
            source = with_prefix(source_prefix, source)
            kept.append(replace(raw, source=source, target=target))
        else:
            counts[fault] += 1
    shards.write_text(output, kept, [cleaning.pair_hash(*pair) for pair in kept])
    finish(output, counts)
