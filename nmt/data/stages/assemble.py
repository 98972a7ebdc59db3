"""Collects all files of the prepared data under their final names, and writes the manifest.

The stage reads the shards of token ids, the tokenizer and the corpora in `data.test`. The stage
writes the folder `Job.final`, which contains the splits, the tokenizer and the raw text of the test
set. `Job.final` is complete once it contains a manifest.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from nmt.data import kept_test_set, shards
from nmt.data.stages.counts import (
    facts_of,
    nothing_left,
    report_counts,
    target_symbols,
    total_counts,
)
from nmt.data.stages.job import Job, Shards, Splits, short_hash
from nmt.data.tokenizer import Tokenizer
from nmt.errors import Note
from nmt.storage import atomic, manifest
from nmt.storage.names import SHORTLIST, TEST_SET, TOKENIZER


def assemble(
    job: Job,
    text: Splits,
    tokens: Splits,
    tokenizer: Tokenizer,
    warnings: Sequence[str],
    note: Note,
) -> dict[str, Any]:
    """Collects all files of the prepared data in `Job.final`, and writes the manifest.

    Args:
        text: the shards of cleaned text, whose counts are written to the manifest.
        tokens: the shards of token ids, which are linked into `Job.final`.
        warnings: the warnings about the input, which are written to the manifest.

    Returns:
        The manifest.

    Raises:
        InputError: cleaning and encoding have dropped all training pairs.
    """
    atomic.remove(job.final)  # from an interrupted call
    entries = {split: _collect(job, split, tokens[split]) for split in ("train", "validation")}
    if not entries["train"]:
        raise nothing_left([*text["train"], *tokens["train"]])
    atomic.write_file(job.final / TOKENIZER, tokenizer.model)
    if job.data.shortlist:
        atomic.link(job.shortlist, job.final / SHORTLIST)
    kept_test_set.write(job.final / TEST_SET, job.data)
    files = manifest.sizes_and_hashes(job.final)
    names = [entry["file"] for listed in entries.values() for entry in listed]
    made = [*chain.from_iterable(text.values()), *chain.from_iterable(tokens.values())]
    counts = [total_counts(each for each in made if each.entry == entry) for entry in job.entries]
    symbols = target_symbols(tokenizer.symbols, tokens["train"])
    facts = {
        "data_sha256": manifest.value_hash([[name, files[name]["sha256"]] for name in names]),
        "tokenizer_sha256": tokenizer.sha256,
        "shards": entries,
        "corpora": [facts_of(*both) for both in zip(job.entries, counts, strict=True)],
        "origin_sha256": job.origin_sha256,
        "target_symbols": symbols,
        "warnings": list(warnings),
        **job.origin,
    }
    report_counts(job, counts, note)
    return manifest.write(job.final, "data", facts, files)


def _collect(job: Job, split: str, tokens: Shards) -> list[dict[str, Any]]:
    """Links a split's shards of token ids into `Job.final`, and returns their manifest entries."""
    found = [shard for shard in tokens if shard.counts["pairs"]]
    folder = job.final / split
    names = [f"data-{i:05}-of-{len(found):05}.arrow" for i in range(len(found))]
    entries = []
    for name, shard in zip(names, found, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        atomic.link(shard.path, folder / name)
        sizes = {key: shard.counts[key] for key in ("pairs", "source_tokens", "target_tokens")}
        weight = shard.entry.corpus.weight
        entries.append({"file": f"{split}/{name}", **sizes, "weight": weight})
    if names:
        shards.write_split_description(folder, names, short_hash([job.tokens.name, split]))
    return entries
