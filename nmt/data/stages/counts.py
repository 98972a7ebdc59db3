"""What became of the pairs of each corpus, for the manifest, a table and an error."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nmt.data import cleaning
from nmt.data.corpora import describe
from nmt.data.stages.job import Job, Part, Report, counts_of_file
from nmt.errors import InputError


def counts_of(job: Job, part: Part) -> Counter[str]:
    """What became of the pairs of a corpus, summed over its shards."""
    total: Counter[str] = Counter()
    for owner, text in job.text_shards(part.split):
        tokens = job.token_shards(text, part.split)[0]  # other segmentations drop the same pairs
        if owner == part:
            total.update(counts_of_file(text))
            total.update(counts_of_file(tokens))
    total["kept"] = total["read"] - sum(total[rule] for rule in cleaning.RULES)
    return total


def nothing_left(job: Job) -> InputError:
    """What to raise when cleaning, or encoding, has dropped every training pair."""
    counts = sum((counts_of(job, part) for part in job.of("train")), Counter[str]())
    dropped = ", ".join(f"{rule}: {counts[rule]:,}" for rule in cleaning.RULES if counts[rule])
    return InputError(
        f"no training pair is left after cleaning (dropped: {dropped}), data.train, "
        "check what these corpora hold"
    )


def facts_of(part: Part, counts: Counter[str]) -> dict[str, Any]:
    """A corpus as the manifest has it."""
    return {
        "split": part.split,
        "corpus": describe(part.corpus),
        "weight": part.corpus.weight,
        "read": counts["read"],
        "repaired": {cleaning.REPAIRED: counts[cleaning.REPAIRED]},
        "dropped": {rule: counts[rule] for rule in cleaning.RULES},
        "pairs": counts["kept"],
    }


def report_counts(job: Job, counts: Sequence[Counter[str]], report: Report) -> None:
    """Reports a table, a column for each corpus."""
    rows = ("read", *cleaning.RULES, "kept", cleaning.REPAIRED)
    labels = {
        "read": "pairs read",
        "kept": "pairs kept",
        cleaning.REPAIRED: f"repaired: {cleaning.REPAIRED}",
    }
    labelled = [{labels.get(row, row): count[row] for row in rows} for count in counts]
    columns = [part.title for part in job.parts]
    for line in _table(columns, labelled, [labels.get(row, row) for row in rows]):
        report(line)


def _table(
    columns: Sequence[str], counts: Sequence[Mapping[str, int]], rows: Sequence[str]
) -> list[str]:
    """Counts as lines of text: a row for each rule, a column for each corpus.

    Args:
        columns: the corpora's headings.
        counts: for each corpus, the number by row; 0 if a row is missing.
        rows: the rows' names, in order.
    """
    cells = [["", *columns]]
    cells += [[row, *(f"{count.get(row, 0):,}" for count in counts)] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return [
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in cells
    ]
