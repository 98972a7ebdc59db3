"""Creates the report's tables of settings, data and training cost."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from statistics import median_high
from typing import Any

from nmt import config as configuration
from nmt.data.corpora import describe
from nmt.evaluation.table import Table
from nmt.paper import TRAINING_FLOPS, sustained_flops
from nmt.reporting.curves import time_unit
from nmt.reporting.run_record import RunRecord, Sitting


def settings_tables(runs: Sequence[RunRecord]) -> list[Table]:
    """Returns tables of the settings in which runs differ from each other or from the paper."""
    tables = []
    if len(runs) > 1:
        tables.append(_between_runs(runs))
    for run in runs:
        paper = run.info["paper"]
        differing = paper["differences"].items()
        rows = [[key, _plain(both["ours"]), _plain(both["paper"])] for key, both in differing]
        columns = ["", "this run", f"paper, {paper['nearest']}"]
        caption = f"{run.name}: differences from the paper's {paper['nearest']} model"
        notes = () if rows else (f"None: the settings are those of {paper['nearest']}.",)
        tables.append(Table(caption, columns, rows, notes))
    return tables


def _between_runs(runs: Sequence[RunRecord]) -> Table:
    found: dict[str, None] = {}
    for run in runs[1:]:
        found |= dict.fromkeys(configuration.differences(runs[0].config, run.config))
    found.pop("training.run_directory", None)
    rows = [[key, *(_setting(run, key) for run in runs)] for key in found]
    notes = () if rows else ("None: the runs have the same settings.",)
    return Table("Settings in which the runs differ", ["", *(r.name for r in runs)], rows, notes)


def _setting(run: RunRecord, key: str) -> str:
    if key in ("data.train", "data.validation", "data.test"):
        return described(run, key.removeprefix("data."))
    return _plain(attrgetter(key)(run.config))


def _plain(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "none" if value is None else str(value)


def described(run: RunRecord, split: str) -> str:
    """Returns a short description of the corpora in a split."""
    return ", ".join(
        describe(corpus) + (f", weight {corpus.weight:g}" if corpus.weight != 1 else "")
        for corpus in getattr(run.config.data, split)
    )


def cleaning_tables(runs: Sequence[RunRecord]) -> list[Table]:
    """Returns one table per data set, with the numbers of kept, repaired and dropped pairs."""
    by_data = {run.data["data_sha256"]: run for run in reversed(runs) if run.data}
    return [_cleaning_table(run) for run in runs if run in by_data.values()]


def _cleaning_table(run: RunRecord) -> Table:
    assert run.data
    corpora = run.data["corpora"]
    splits = [entry["split"] for entry in corpora]
    names = [
        f"{split} {splits[: i + 1].count(split)}" if splits.count(split) > 1 else split
        for i, split in enumerate(splits)
    ]
    rows = [["pairs read", *(f"{entry['read']:,}" for entry in corpora)]]
    for group in ("dropped", "repaired"):
        for rule in dict.fromkeys(rule for entry in corpora for rule in entry[group]):
            counts = [entry[group].get(rule, 0) for entry in corpora]
            if any(counts):
                rows.append([f"{group}: {rule}", *(f"{count:,}" for count in counts)])
    rows.append(["pairs kept", *(f"{entry['pairs']:,}" for entry in corpora)])
    notes = [f"{name}: {entry['corpus']}" for name, entry in zip(names, corpora, strict=True)]
    for split, shards in run.data["shards"].items():
        source, target = (
            sum(shard[key] for shard in shards) for key in ("source_tokens", "target_tokens")
        )
        notes.append(f"{split}: {source:,} source tokens, {target:,} target tokens")
    notes.append("Rules that applied to no pair are left out.")
    return Table(f"{run.name}: sentence pairs", ["", *names], rows, tuple(notes))


def cost_table(runs: Sequence[RunRecord]) -> Table:
    """Returns a table of the time, hardware, tokens and FLOPs that training required."""
    names: list[tuple[str, Callable[[RunRecord], str]]] = [
        (
            "Training time, including validation",
            lambda run: time_spent(run) if run.sittings else "not in the log",
        ),
        ("Hardware", lambda run: "; ".join(map(machine, run.sittings)) or "not in the log"),
        ("Steps", lambda run: f"{run.step:,}"),
        ("Target tokens in training (estimate)", lambda run: _scientific(_tokens(run)[1])),
        ("Target tokens per second, median", _median_speed),
        ("FLOPs by formula", _counted_flops),
        ("FLOPs by the paper's method", _paper_method_flops),
        ("FLOPs that the paper states", _papers_own),
    ]
    rows = [[name, *(cell(run) for run in runs)] for name, cell in names]
    notes = (
        "Training time excludes pauses, preparation, and steps that were lost and repeated.",
        "By formula: the number of operations in training, estimated from the mean number of "
        "tokens in the logged steps. A multiply-add counts as two operations; normalization, "
        "softmax, embedding look-ups and padding are not counted.",
        "The paper's method (Table 2): time × GPUs × sustained single-precision FLOP/s of the "
        "GPU, which footnote 5 gives for K80, K40, M40 and P100. The FLOPs by formula and by the "
        "paper's method are not comparable, because no model fully uses its hardware.",
    )
    return Table("Cost of training", ["", *(run.name for run in runs)], rows, notes)


def signed(value: float) -> str:
    """Formats a difference with its sign, such as "+1.23" or "−0.40"."""
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")


def time_spent(run: RunRecord) -> str:
    """Formats the training time in a suitable unit, such as "3.5 h"."""
    unit, seconds = time_unit(run.elapsed_s)
    return f"{run.elapsed_s / seconds:.3g} {unit}"


def machine(sitting: Sitting) -> str:
    """Formats the number of processes and the name of their device as text."""
    return f"{sitting.world_size} × {sitting.device}"


def _tokens(run: RunRecord) -> tuple[float, float]:
    """Estimates how many source and target tokens training used, based on the logged steps."""
    means = []
    for key in ("source_tokens", "target_tokens"):
        values = [point.value for point in run.points(key)]
        means.append(sum(values) / len(values) if values else 0.0)
    return means[0] * run.step, means[1] * run.step


def _median_speed(run: RunRecord) -> str:
    values = [point.value for point in run.points("tokens_per_second")]
    return f"{median_high(values):,.0f}" if values else "not in the log"


def _counted_flops(run: RunRecord) -> str:
    (source, target), flops = _tokens(run), run.info["flops"]
    if not source + target:
        return _scientific(0)
    per_pair, of_optimizer = flops["per_token_pair"], flops["optimizer_per_step"] * run.step
    return _scientific(per_pair * (source + target) / 2 + of_optimizer)


def _paper_method_flops(run: RunRecord) -> str:
    if not run.sittings:
        return "no times in the log"
    total = 0.0
    for sitting in run.sittings:
        peak = sustained_flops(sitting.device)
        if peak is None:
            return f"the paper states no sustained FLOP/s for {sitting.device}"
        total += sitting.hours * 3600 * sitting.world_size * peak
    return _scientific(total)


def _papers_own(run: RunRecord) -> str:
    nearest = run.info["paper"]["nearest"]
    return f"{_scientific(TRAINING_FLOPS[nearest])} ({nearest})"


def _scientific(value: float) -> str:
    """Formats a number in scientific notation. For example, 3.3e18 becomes 3.30 × 10¹⁸."""
    if not value:
        return "not in the log"
    digits, exponent = f"{value:.2e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"{digits} × 10{raised}"
