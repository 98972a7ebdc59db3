"""Counts the kept and dropped pairs of each corpus."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nmt.data import cleaning
from nmt.data.corpora import describe
from nmt.data.stages.job import CorpusEntry, FinishedShard, Job, Shards
from nmt.errors import InputError, Note


def total_counts(shards: Iterable[FinishedShard]) -> Counter[str]:
    """Sums the counts of shards, and adds the number of kept pairs as the count "kept".

    All pairs of a test set are kept. The shards of a test set lack its pairs with an empty side,
    because the shards serve only to find leaks.
    """
    total: Counter[str] = Counter()
    for shard in shards:
        total.update(shard.counts)
        if shard.entry.split == "test":
            total[cleaning.EMPTY] -= shard.counts.get(cleaning.EMPTY, 0)
    total["kept"] = total["read"] - sum(total[rule] for rule in cleaning.RULES)
    return total


def in_targets(symbol: str) -> str:
    """Returns the key of the number of shards whose targets contain the given symbol."""
    return f"{symbol} in targets"


def target_symbols(symbols: Iterable[str], training: Shards) -> list[str]:
    """Returns the symbols that occur in training targets; models never generate other symbols."""
    counts = total_counts(training)
    return [symbol for symbol in symbols if counts[in_targets(symbol)]]


def nothing_left(shards: Shards) -> InputError:
    """Returns the error to raise if cleaning or encoding dropped every pair of a split."""
    counts, split = total_counts(shards), shards[0].entry.split
    dropped = ", ".join(f"{rule}: {counts[rule]:,}" for rule in cleaning.RULES if counts[rule])
    kind = "training" if split == "train" else split
    return InputError(
        f"No {kind} pairs are left after cleaning (dropped: {dropped}). Check the "
        f"corpora in data.{split}."
    )


def facts_of(entry: CorpusEntry, counts: Counter[str]) -> dict[str, Any]:
    """Returns the manifest entry of a corpus."""
    return {
        "split": entry.split,
        "corpus": describe(entry.corpus),
        "weight": entry.corpus.weight,
        "read": counts["read"],
        "repaired": {kind: counts[kind] for kind in cleaning.REPAIRS},
        "dropped": {rule: counts[rule] for rule in cleaning.RULES},
        "pairs": counts["kept"],
    }


def report_counts(job: Job, counts: Sequence[Counter[str]], note: Note) -> None:
    """Prints a table of counts with one row per cleaning rule and one column per corpus."""
    rows = {"pairs read": "read"} | {rule: rule for rule in cleaning.RULES}
    rows |= {"pairs kept": "kept"} | {f"repaired: {kind}": kind for kind in cleaning.REPAIRS}
    cells = [["", *(entry.title for entry in job.entries)]]
    cells += [[label, *(f"{count[row]:,}" for count in counts)] for label, row in rows.items()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for label, *numbers in cells:
        note("  ".join([label.ljust(widths[0]), *map(str.rjust, numbers, widths[1:])]))
