"""Assembling: gives all files their final names and writes the manifest.

Input: `Job.tokens`, `Job.tokenizer` and the corpora of `data.test`. Output: `Job.final`, complete
once it has its manifest: the splits, the tokenizer, the raw text of the test set.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.data import kept_test_set, shards
from nmt.data.stages.counts import counts_of, facts_of, nothing_left, report_counts
from nmt.data.stages.encode import in_targets
from nmt.data.stages.job import Job, counts_of_file, short_hash
from nmt.errors import Note
from nmt.storage import atomic, manifest
from nmt.storage.names import SHORTLIST, TEST_SET, TOKENIZER


def assemble(job: Job, warnings: Sequence[str], note: Note) -> None:
    """Collects the token shards under their final names, the tokenizer and the manifest.

    Args:
        warnings: the result of `inspect_corpora`, for the manifest.

    Raises:
        InputError: no training pair is left.
    """
    if job.final.exists():  # from an interrupted call
        shutil.rmtree(job.final)
    entries = {split: _collect(job, split) for split in ("train", "validation")}
    if not entries["train"]:
        raise nothing_left(job)
    atomic.write_file(job.final / TOKENIZER, job.tokenizer.read_bytes())
    if job.data.shortlist:
        _link(job.shortlist, job.final / SHORTLIST)
    kept_test_set.write(job.final / TEST_SET, job.data)
    files = [entry["file"] for listed in entries.values() for entry in listed]
    hashes = [[file, manifest.file_hash(job.final / file)] for file in files]
    counts = [counts_of(job, entry) for entry in job.entries]
    facts = {
        "data_sha256": manifest.value_hash(hashes),
        "tokenizer_sha256": manifest.file_hash(job.final / TOKENIZER),
        "shards": entries,
        "corpora": [facts_of(*both) for both in zip(job.entries, counts, strict=True)],
        "origin_sha256": manifest.value_hash(job.origin),
        "target_symbols": _target_symbols(job),
        "warnings": list(warnings),
        **job.origin,
    }
    manifest.write(job.final, "data", facts)
    report_counts(job, counts, note)


def _target_symbols(job: Job) -> list[str]:
    """Returns the symbols that occur in training targets; others are never generated."""
    counts = [counts_of_file(job.token_shard(text)) for _, text in job.text_shards("train")]
    symbols = job.tokenizer_settings.symbols
    return [symbol for symbol in symbols if any(count.get(in_targets(symbol)) for count in counts)]


def _collect(job: Job, split: str) -> list[dict[str, Any]]:
    """Links a split's token shards into the final folder; returns their manifest entries."""
    found = [
        (path, counts, entry.corpus.weight)
        for entry, text in job.text_shards(split)
        if (counts := counts_of_file(path := job.token_shard(text)))["pairs"]
    ]
    folder = job.final / split
    names = [f"data-{i:05}-of-{len(found):05}.arrow" for i in range(len(found))]
    entries = []
    for name, (path, counts, weight) in zip(names, found, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        _link(path, folder / name)
        sizes = {key: counts[key] for key in ("pairs", "source_tokens", "target_tokens")}
        entries.append({"file": f"{split}/{name}", **sizes, "weight": weight})
    if names:
        shards.write_split_description(folder, names, short_hash([job.tokens.name, split]))
    return entries


def _link(path: Path, name: Path) -> None:
    """Creates a hard link; copies the file if the file system has no hard links."""
    try:
        os.link(path, name)
    except OSError:
        with atomic.new_file(name) as aside:
            shutil.copyfile(path, aside)
