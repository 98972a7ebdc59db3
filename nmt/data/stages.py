"""The stages of `nmt prepare`, each of which takes up what an interrupted call has left.

A folder .work in the directory that is prepared holds:

    text-*/        cleaned pairs with their hashes, a shard for each 100,000 pairs of a corpus
    text-*/kept.npy    which training pairs are the first of their kind
    tokenizer-*.model  learnt from a bounded sample of what is kept
    tokens-*/      the same shards as token ids, with BPE-dropout in several segmentations each
    tokens-*/final/    those with their final names, the tokenizer and the manifest

The names end in a hash of what the content depends on, so that a changed vocabulary does not
clean the text again and nothing stale is ever taken up. `clean_shard` and `encode_shard` turn one
piece of input into one file and depend on nothing else, so any number of processes gives the same
files.
"""

import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from nmt.config import Config, Corpus
from nmt.data import cleaning, languages, shards, test_set, workers
from nmt.data.corpora import describe, read_chunks
from nmt.data.tokenizer import Tokenizer, train_tokenizer
from nmt.errors import InputError
from nmt.model.special_ids import EOS_ID
from nmt.storage import atomic, manifest
from nmt.storage.names import TEST_SET, TOKENIZER, WORK

RECIPE = 1  # raised when the same input and settings would give other bytes
SHARD_PAIRS = 100_000  # pairs read for each shard; fewer remain in it
SAMPLE_SENTENCES = 2_000_000  # the tokenizer learns from at most so many, half of each language
SAMPLE_BYTES = 300_000_000  # and from about so much text; learning takes 3.5 times the memory
SEGMENTATIONS = 16  # of each training pair with BPE-dropout: as many times the disk space
_ENCODE_BATCH = 10_000  # pairs whose ids are Python objects at a time
# From so much text on, a vocabulary is learnt in a process of its own: sentencepiece keeps its
# memory, and a signal has no effect until it has finished.
_LEARN_APART_BYTES = 20_000_000

Report = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """A corpus with its place in the configuration."""

    split: str  # train, validation or test
    number: int  # in its list, from 0
    corpus: Corpus

    @property
    def title(self) -> str:
        return f"{self.split} {self.number + 1}"

    def shard(self, folder: Path, index: int) -> Path:
        return folder / f"{self.split}-{self.number:03}-{index:05}.arrow"

    def marker(self, folder: Path) -> Path:
        """Says how many text shards the corpus has, once all are written."""
        return folder / f"{self.split}-{self.number:03}.json"


@dataclass(frozen=True)
class Job:
    """What is prepared from what, and where the intermediate files stand."""

    config: Config
    directory: Path
    parts: tuple[Part, ...]
    origin: dict[str, Any]  # settings and input files' fingerprints: all that the result depends on
    given_tokenizer: Path | None = None  # taken instead of learning one
    processes: int = 1  # the result does not depend on it

    def of(self, split: str) -> list[Part]:
        return [part for part in self.parts if part.split == split]

    @property
    def work(self) -> Path:
        return self.directory / WORK

    @property
    def text(self) -> Path:
        data = {k: v for k, v in self.origin["settings"]["data"].items() if k != "max_length"}
        return self.work / f"text-{_short_hash([RECIPE, data, self.origin['inputs']])}"

    @property
    def tokenizer(self) -> Path:
        size = self.config.tokenizer.vocabulary_size
        given = self.origin.get("given_tokenizer")
        return self.work / f"tokenizer-{_short_hash([self.text.name, size, given])}.model"

    @property
    def tokens(self) -> Path:
        return self.work / f"tokens-{_short_hash(self.origin)}"

    @property
    def final(self) -> Path:
        return self.tokens / "final"

    def text_shards(self, split: str) -> list[tuple[Part, Path]]:
        return [
            (part, part.shard(self.text, index))
            for part in self.of(split)
            for index in range(_load(part.marker(self.text))["shards"])
        ]

    def token_shards(self, text: Path, split: str) -> list[Path]:
        """Where the token ids of a text shard stand, a file for each segmentation of its pairs."""
        sampled = split == "train" and self.config.tokenizer.bpe_dropout
        more = [f"{text.stem}-{number:02}.arrow" for number in range(1, SEGMENTATIONS)]
        return [self.tokens / name for name in [text.name, *(more if sampled else [])]]


def run(job: Job, report: Report) -> None:
    """Does what is left to do until `job.final` is complete, its manifest written last."""
    if (job.final / manifest.NAME).exists():
        return
    for folder in (job.text, job.tokens):
        folder.mkdir(parents=True, exist_ok=True)
    _clean(job, report)
    for warning in languages.misplaced([_sample_lines(job, part) for part in job.parts]):
        report(f"nmt: warning: {warning}")
    kept = _deduplicate(job)
    if not kept.any():
        raise _nothing_left(job)
    if not job.tokenizer.exists():
        _make_tokenizer(job, report)
    _encode(job, kept, report)
    _assemble(job, report)


def remove_leftovers(job: Job) -> None:
    """Removes half-written files of ended processes, at every depth."""
    for folder in (job.directory, job.work, *job.work.rglob("*/")):
        atomic.remove_leftovers(folder)


def clean_shard(
    pairs: Iterable[tuple[str, str]], evaluation: cleaning.Evaluation | None, output: Path
) -> None:
    """Normalizes pairs, drops those that break a rule, and writes the rest with their counts.

    Args:
        pairs: raw.
        evaluation: what training pairs must not give away; None for pairs that are themselves
            for validation, of which only those with an empty side are dropped.
        output: the Arrow file; the counts stand beside it as .json.
    """
    counts: Counter[str] = Counter()
    kept = []
    for raw in pairs:
        counts["read"] += 1
        counts[cleaning.REPAIRED] += any(map(cleaning.needs_repair, raw))
        source, target = map(cleaning.normalize, raw)
        if evaluation is None:
            fault = cleaning.EMPTY if cleaning.is_empty(source, target) else None
        else:
            fault = cleaning.fault(source, target, evaluation)
        if fault is None:
            kept.append((source, target))
        else:
            counts[fault] += 1
    shards.write_text(output, kept, [cleaning.pair_hash(*pair) for pair in kept])
    _save(output.with_suffix(".json"), counts)


def encode_shard(
    text: Path,
    kept: np.ndarray | None,
    tokenizer: Tokenizer,
    max_length: int | None,
    output: Path,
    dropout: float = 0.0,
    segmentation: int = 0,
) -> None:
    """Turns a shard of text into one of token ids, and writes it with its counts.

    Which pairs it holds does not depend on the dropout: where a random segmentation exceeds
    `max_length` and the usual one does not, that stands instead.

    Args:
        text: a file of `shards.write_text`.
        kept: (pairs,) bool, which of them to take; all if None.
        tokenizer: for both sides.
        max_length: pairs with more tokens on a side, EOS included, are dropped; None: no bound.
        output: the Arrow file, not written if no pair is left; the counts stand beside it as .json.
        dropout: 0 for the usual segmentation, else that of `Tokenizer.sample`.
        segmentation: the number of the random one.
    """
    batch, limit = shards.read_text(text), math.inf if max_length is None else max_length
    rows = np.arange(len(batch)) if kept is None else np.flatnonzero(kept)
    counts = Counter({cleaning.DUPLICATE: len(batch) - len(rows)})
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for start in range(0, len(rows), _ENCODE_BATCH):
        some = batch.take(pa.array(rows[start : start + _ENCODE_BATCH]))
        encoded = (_encoded(some, side, tokenizer) for side in ("source", "target"))
        for row, *pair in zip(some.to_pylist(), *encoded, strict=True):
            if max(map(len, pair)) > limit:
                counts[cleaning.TOO_MANY_TOKENS] += 1
                continue
            if dropout:
                sampled = _sampled(row, tokenizer, dropout, segmentation)
                pair = sampled if max(map(len, sampled)) <= limit else pair
            for side, ids in zip(sides, pair, strict=True):
                side.append(ids)
    counts["pairs"] = len(sides[0])
    for name, side in zip(("source_tokens", "target_tokens"), sides, strict=True):
        counts[name] = sum(map(len, side))
    if counts["pairs"]:
        shards.write_shard(output, *sides)  # type: ignore[arg-type]
    _save(output.with_suffix(".json"), counts)


def _encoded(rows: pa.RecordBatch, side: str, tokenizer: Tokenizer) -> Iterator[np.ndarray]:
    for ids in tokenizer.encode_batch(rows.column(side).to_pylist()):
        yield np.array([*ids, EOS_ID], dtype=np.int32)


def _sampled(
    row: dict[str, Any], tokenizer: Tokenizer, dropout: float, segmentation: int
) -> list[np.ndarray]:
    """A random segmentation of a pair, drawn from the pair and a number alone."""
    random = Random(f"{row['hash']} {segmentation}")
    sides = (tokenizer.sample(row[side], dropout, random) for side in ("source", "target"))
    return [np.array([*ids, EOS_ID], dtype=np.int32) for ids in sides]


def _clean(job: Job, report: Report) -> None:
    evaluation_parts = [*job.of("validation"), *job.of("test")]
    for part in evaluation_parts:
        _clean_corpus(job, part, None, report)
    evaluation = cleaning.Evaluation.of(
        pair
        for split in ("validation", "test")
        for _, path in job.text_shards(split)
        for pair in _text_pairs(path)
    )
    for part in job.of("train"):
        _clean_corpus(job, part, evaluation, report)


def _clean_corpus(
    job: Job, part: Part, evaluation: cleaning.Evaluation | None, report: Report
) -> None:
    marker = part.marker(job.text)
    if marker.exists():
        return
    report(f"cleaning {part.title}: {describe(part.corpus)}")
    number = 0
    with tqdm(desc=f"cleaning {part.title}", unit=" pairs", disable=None, leave=False) as bar:

        def tasks() -> Iterator[tuple[Any, ...]]:
            nonlocal number
            for chunk in read_chunks(part.corpus, job.config.data, part.split, SHARD_PAIRS):
                path = part.shard(job.text, number)
                if not path.with_suffix(".json").exists():
                    yield chunk, evaluation, path
                number += 1
                bar.update(len(chunk))

        workers.run(clean_shard, tasks(), job.processes)
    _save(marker, {"shards": number})


def _sample_lines(job: Job, part: Part) -> tuple[str, list[str], list[str]]:
    """A corpus's title, and source and target of some pairs, evenly spaced in its first shard."""
    if not _load(part.marker(job.text))["shards"]:
        return part.title, [], []
    batch = shards.read_text(part.shard(job.text, 0))
    rows = np.linspace(0, len(batch), min(len(batch), languages.SAMPLE_LINES), endpoint=False)
    some = batch.take(pa.array(rows.astype(np.int64)))
    return part.title, some.column("source").to_pylist(), some.column("target").to_pylist()


def _text_pairs(path: Path) -> Iterator[tuple[str, str]]:
    batch = shards.read_text(path)
    return zip(batch.column("source").to_pylist(), batch.column("target").to_pylist(), strict=True)


def _deduplicate(job: Job) -> np.ndarray:
    """Which of all training pairs, in order of the shards, are the first of their kind: bool."""
    path = job.text / "kept.npy"
    if not path.exists():
        hashes = [
            shards.read_text(p).column("hash").to_numpy() for _, p in job.text_shards("train")
        ]
        content = io.BytesIO()
        np.save(content, cleaning.first_occurrences(np.concatenate(hashes)))
        atomic.write_file(path, content.getvalue())
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _with_kept(job: Job, kept: np.ndarray) -> Iterator[tuple[Part, Path, np.ndarray]]:
    """Each text shard of the training split with its own piece of `kept`."""
    start = 0
    for part, path in job.text_shards("train"):
        end = start + len(shards.read_text(path))
        yield part, path, kept[start:end]
        start = end


def _make_tokenizer(job: Job, report: Report) -> None:
    size, given = job.config.tokenizer.vocabulary_size, job.given_tokenizer
    if given is None:
        report(f"learning a vocabulary of {size:,} from up to {SAMPLE_SENTENCES:,} sentences")
        if _text_bytes(job) < _LEARN_APART_BYTES:
            learn_tokenizer(job)
        else:
            workers.run_apart(learn_tokenizer, job)
        return
    found = Tokenizer.load(given).vocabulary_size
    if found != size:
        raise InputError(
            f"tokenizer.vocabulary_size is {size:,}, the tokenizer to use has {found:,} pieces, "
            f"{given}, set it to {found}"
        )
    report(f"using the tokenizer {given}")
    atomic.write_file(job.tokenizer, given.read_bytes())


def learn_tokenizer(job: Job) -> None:
    """Learns the vocabulary from the cleaned text that `job` has by now."""
    sentences = _sample(job, _deduplicate(job))
    train_tokenizer(sentences, job.config.tokenizer.vocabulary_size, job.tokenizer)


def _text_bytes(job: Job) -> int:
    return sum(path.stat().st_size for _, path in job.text_shards("train"))


def _sample(job: Job, kept: np.ndarray) -> Iterator[str]:
    """Sentences for the tokenizer: both sides of evenly spaced pairs of all that are kept."""
    total = int(np.count_nonzero(kept))
    wanted = max(1, total * SAMPLE_BYTES // _text_bytes(job))
    wanted = min(total, SAMPLE_SENTENCES // 2, wanted)
    seen = 0
    for _, path, mask in _with_kept(job, kept):
        rows = np.flatnonzero(mask)
        ranks = np.arange(seen, seen + len(rows))
        seen += len(rows)
        chosen = rows[(ranks + 1) * wanted // total > ranks * wanted // total]
        batch = shards.read_text(path).take(pa.array(chosen))
        for side in ("source", "target"):
            yield from batch.column(side).to_pylist()


def _encode(job: Job, kept: np.ndarray, report: Report) -> None:
    tokenizer = Tokenizer.load(job.tokenizer)
    max_length, dropout = job.config.data.max_length, job.config.tokenizer.bpe_dropout
    tasks: list[tuple[Any, ...]] = [
        (text, np.asarray(mask), tokenizer, max_length, output, dropout, segmentation)
        for _, text, mask in _with_kept(job, kept)
        for segmentation, output in enumerate(job.token_shards(text, "train"))
    ]
    tasks += [
        (text, None, tokenizer, None, output)
        for _, text in job.text_shards("validation")
        for output in job.token_shards(text, "validation")
    ]
    left = [task for task in tasks if not task[4].with_suffix(".json").exists()]
    report(f"encoding in {SEGMENTATIONS} segmentations" if dropout else "encoding")
    bar = tqdm(
        left, desc="encoding", unit=" pairs", unit_scale=SHARD_PAIRS, disable=None, leave=False
    )
    workers.run(encode_shard, bar, job.processes)


def _counts(job: Job, part: Part) -> Counter[str]:
    """What became of the pairs of a corpus, summed over its shards."""
    total: Counter[str] = Counter()
    for owner, text in job.text_shards(part.split):
        tokens = job.token_shards(text, part.split)[0]  # other segmentations drop the same pairs
        for path in (text.with_suffix(".json"), tokens.with_suffix(".json")):
            if owner == part and path.exists():
                total.update(_load(path))
    total["kept"] = total["read"] - sum(total[rule] for rule in cleaning.RULES)
    return total


def _nothing_left(job: Job) -> InputError:
    counts = sum((_counts(job, part) for part in job.of("train")), Counter[str]())
    dropped = ", ".join(f"{rule}: {counts[rule]:,}" for rule in cleaning.RULES if counts[rule])
    return InputError(
        f"no training pair is left after cleaning (dropped: {dropped}), data.train, "
        "check what these corpora hold"
    )


def _assemble(job: Job, report: Report) -> None:
    """Gives the token shards their final names, beside the tokenizer and the manifest."""
    entries = {split: _collect(job, split) for split in ("train", "validation")}
    if not entries["train"]:
        raise _nothing_left(job)
    atomic.write_file(job.final / TOKENIZER, job.tokenizer.read_bytes())
    test_set.write(job.final / TEST_SET, job.config.data)
    files = [entry["file"] for listed in entries.values() for entry in listed]
    hashes = [[file, manifest.file_hash(job.final / file)] for file in files]
    counts = [_counts(job, part) for part in job.parts]
    facts = {
        "data_sha256": manifest.value_hash(hashes),
        "tokenizer_sha256": manifest.file_hash(job.final / TOKENIZER),
        "shards": entries,
        "corpora": [_corpus_facts(*both) for both in zip(job.parts, counts, strict=True)],
        "origin_sha256": manifest.value_hash(job.origin),
        **job.origin,
    }
    manifest.write(job.final, "data", facts)
    _report_counts(job, counts, report)


def _collect(job: Job, split: str) -> list[dict[str, Any]]:
    """Moves a split's token shards into the final folder; the manifest's entry for each."""
    found = []
    for part, text in job.text_shards(split):
        for segmentation, path in enumerate(job.token_shards(text, split)):
            counts = _load(path.with_suffix(".json"))
            if counts["pairs"]:
                found.append((path, counts, part.corpus.weight, segmentation))
    folder = job.final / split
    names = [f"data-{i:05}-of-{len(found):05}.arrow" for i in range(len(found))]
    entries = []
    for name, (path, counts, weight, segmentation) in zip(names, found, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():  # not moved before an interruption
            path.replace(folder / name)
        sizes = {key: counts[key] for key in ("pairs", "source_tokens", "target_tokens")}
        entry = {"file": f"{split}/{name}", **sizes, "weight": weight}
        entries.append(entry | ({"segmentation": segmentation} if segmentation else {}))
    if names:
        shards.write_split_description(folder, names, _short_hash([job.tokens.name, split]))
    return entries


def _corpus_facts(part: Part, counts: Counter[str]) -> dict[str, Any]:
    return {
        "split": part.split,
        "corpus": describe(part.corpus),
        "weight": part.corpus.weight,
        "read": counts["read"],
        "repaired": {cleaning.REPAIRED: counts[cleaning.REPAIRED]},
        "dropped": {rule: counts[rule] for rule in cleaning.RULES},
        "pairs": counts["kept"],
    }


def _report_counts(job: Job, counts: Sequence[Counter[str]], report: Report) -> None:
    rows = ("read", *cleaning.RULES, "kept", cleaning.REPAIRED)
    labels = {
        "read": "pairs read",
        "kept": "pairs kept",
        cleaning.REPAIRED: f"repaired: {cleaning.REPAIRED}",
    }
    labelled = [{labels.get(row, row): count[row] for row in rows} for count in counts]
    columns = [part.title for part in job.parts]
    for line in cleaning.table(columns, labelled, [labels.get(row, row) for row in rows]):
        report(line)


def _short_hash(value: Any) -> str:
    return manifest.value_hash(value)[:12]


def _load(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _save(path: Path, value: Any) -> None:
    atomic.write_file(path, json.dumps(value) + "\n")
