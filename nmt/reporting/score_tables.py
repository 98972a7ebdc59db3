"""Creates tables of the final scores of runs, and compares these scores with the paper's scores."""

from collections.abc import Sequence
from typing import Any

from nmt import config as configuration
from nmt.evaluation.table import Table
from nmt.paper import EN_FR_BIG_IN_TEXT, TABLE_2, TABLE_2_OTHERS
from nmt.reporting.differences import System, difference_table
from nmt.reporting.paper_models import newstest, table_3_row
from nmt.reporting.run_record import RunRecord, number
from nmt.reporting.tables import described, signed

# Displayed names of keys of `Evaluation.as_json`, in the order of the table; other keys follow
METRICS = {
    "bleu": "BLEU",
    "paper_bleu": "paper BLEU",
    "chrf": "chrF",
    "ter": "TER (lower is better)",
    "comet": "COMET",
}


def score_tables(runs: Sequence[RunRecord]) -> list[Table]:
    """Returns the tables of the runs' scores.

    The tables contain the scores on the test set, the differences between systems, the scores on
    the validation set, and the comparison of each run with the paper. Empty tables are omitted.
    """
    tables = [_test_table(runs), *_differences(runs), _validation_table(runs)]
    tables += map(_paper_table, runs)
    return [table for table in tables if table.rows]


def _test_table(runs: Sequence[RunRecord]) -> Table:
    tested = [run for run in runs if run.test]
    rows, notes = [], []
    keys = dict.fromkeys(
        [*METRICS, *(key for run in tested if run.test for key in run.test.scores)]
    )
    for key in keys:
        cells = [_score(run, key) for run in tested]
        if any(cells):
            rows.append([METRICS.get(key, key), *cells])
    for run in tested:
        assert run.test
        for key, value in run.test.scores.items():
            if isinstance(value, str):  # a signature, or another remark on a metric
                metric = key.rpartition("_")[0]
                notes.append(f"{METRICS.get(metric, metric)}: {value}")
    sets = {run.name: described(run, "test") for run in tested}
    if len(set(sets.values())) == 1:
        notes.append(f"Test set: {described(tested[0], 'test')}")
    else:
        notes += [f"Test set of {name}: {text}" for name, text in sets.items()]
    caption = "Test set, finished model"
    return Table(caption, ["", *(run.name for run in tested)], rows, tuple(dict.fromkeys(notes)))


def _differences(runs: Sequence[RunRecord]) -> list[Table]:
    """Returns a list with a table that compares systems, or [] if there is only one system.

    Runs belong to the same system if their settings differ only in `training.seed` and
    `training.run_directory`. Systems are compared on the test set of the first system.
    """
    systems: list[list[RunRecord]] = []
    for run in runs:
        if run.test:
            own = next((some for some in systems if _is_same(some[0], run)), None)
            if own is None:
                systems.append([run])
            else:
                own.append(run)
    if len(systems) < 2:
        return []
    references = _texts(systems[0][0])
    comparable = [some for some in systems if all(_texts(run) == references for run in some)]
    others = [_system_name(some) for some in systems if some not in comparable]
    return [difference_table(list(map(_system, comparable)), others)]


def _is_same(one: RunRecord, other: RunRecord) -> bool:
    found = configuration.differences(one.config, other.config)
    return found.keys() <= {"training.seed", "training.run_directory"}


def _texts(run: RunRecord) -> tuple[list[str], list[str]]:
    assert run.test
    return run.test.sources, run.test.references


def _system(runs: Sequence[RunRecord]) -> System:
    translations = [run.test.translations for run in runs if run.test]
    language = runs[0].config.data.target_language
    return System.of(_system_name(runs), translations, _texts(runs[0])[1], language)


def _system_name(runs: Sequence[RunRecord]) -> str:
    others = len(runs) - 1
    return runs[0].name + (f" and {others} more" if others else "")


def _score(run: RunRecord, key: str) -> str:
    assert run.test
    value = number(run.test.scores.get(key))
    if value is None:
        return ""
    if value == int(value) and not key.endswith("bleu"):
        return f"{int(value):,}"
    interval = interval_text(run.test.scores, key)
    return f"{value:.2f} ({interval})" if interval else f"{value:.2f}"


def _validation_table(runs: Sequence[RunRecord]) -> Table:
    rows = []
    for run in runs:
        best = max(run.points("bleu", validation=True), key=lambda p: p.value, default=None)
        entries = [(f"weights of step {line['step']:,}", line) for line in run.validations[-1:]]
        if run.final_validation:
            entries.append((finished(run), run.final_validation))
        for name, line in entries:
            bleu, ppl = number(line.get("bleu")), number(line.get("ppl"))
            if bleu is None or ppl is None:
                continue
            highest = f"{best.value:.2f} at step {best.step:,}" if best else ""
            full_name = f"{run.name}, {name}" if len(runs) > 1 else name
            rows.append([full_name, f"{bleu:.2f}", f"{ppl:.3f}", highest])
    columns = ["", "BLEU", "Perplexity per token", "Highest BLEU during training"]
    signatures = [line.get("bleu_signature") for run in runs for line in run.validations[-1:]]
    notes = [f"BLEU: {signature}" for signature in dict.fromkeys(signatures) if signature]
    return Table("Validation set", columns, rows, tuple(notes))


def finished(run: RunRecord) -> str:
    """Describes the finished model and how its weights were averaged."""
    if decay := (run.model or {}).get("ema_decay"):
        return f"finished model, moving average with decay {decay}"
    steps = (run.model or {}).get("averaged_steps")
    many = len(steps) if isinstance(steps, list) else 0
    return f"finished model, mean of {many} checkpoints" if many > 1 else "finished model"


def _paper_table(run: RunRecord) -> Table:
    """Returns a table of the run's scores and the paper's scores on the same data.

    The table is empty if the paper has no scores on the run's data.
    """
    language, nearest = run.config.data.target_language, run.info["paper"]["nearest"]
    tested = newstest(run.config.data, run.config.data.test) if run.test else None
    rows, notes = [], []
    if tested == "newstest2014":
        paper = TABLE_2[language, nearest]
        rows.append(_tested_beside(run, f"{tested}, Table 2, {nearest}", paper))
        if language == "fr" and nearest == "big":
            notes.append(f"The text of §6.1 gives {EN_FR_BIG_IN_TEXT} for this model.")
        for other in TABLE_2_OTHERS:
            if language in other.bleu:
                name = f"Table 2, {other.name} ({other.source})"
                rows.append(_tested_beside(run, name, other.bleu[language]))
    row = table_3_row(run.config)
    last = run.validations[-1] if run.validations else {}
    if row and tested == "newstest2013" and run.config.training.average_last == 1:
        rows.append(_tested_beside(run, f"{tested}, Table 3, {row.name}", row.bleu))
    elif row and last:
        name = f"newstest2013, Table 3, {row.name}: sacreBLEU at step {last['step']:,}"
        rows.append(_beside(name, number(last.get("bleu")), None, row.bleu))
    if row and last:
        name = f"newstest2013, Table 3, {row.name}: perplexity at step {last['step']:,}"
        rows.append(_beside(name, number(last.get("ppl")), None, row.ppl))
        notes.append(
            "Scores at a step are for the weights of that step without averaging, as in Table 3. "
            f"Perplexity is per token with a vocabulary of {run.info['vocabulary_size']:,}. Values "
            "for other vocabularies are not directly comparable."
        )
    if rows:
        notes.insert(0, "The 95% intervals express the uncertainty from the choice of test "
                        "sentences. The paper gives no intervals.")  # fmt: skip
        if any("sacreBLEU" in name for name, *_ in rows):
            notes.insert(0, "sacreBLEU is only roughly comparable with the paper's BLEU: for the "
                            "same translations, sacreBLEU was lower by 1.5 on newstest2014 EN-DE, "
                            "by 0.25 on newstest2013, and by about 1.8 for EN-FR.")  # fmt: skip
        differing = len(run.info["paper"]["differences"])
        if differing:
            notes.insert(0, f"Settings that differ from the paper's {nearest} model: {differing} "
                            "(listed in the section Settings).")  # fmt: skip
    columns = ["", "this run", "paper", "difference", "95% interval of the difference"]
    return Table(f"{run.name} compared with the paper", columns, rows, tuple(notes))


def _tested_beside(run: RunRecord, name: str, paper: float) -> list[str]:
    """Returns a table row with the run's test score and the score that the paper reports.

    The run's score is its paper BLEU, or, if it has none, its sacreBLEU.
    """
    assert run.test
    scores = run.test.scores
    key = "paper_bleu" if "paper_bleu" in scores else "bleu"
    full_name = f"{name}: {METRICS[key] if key != 'bleu' else 'sacreBLEU'}"
    return _beside(full_name, number(scores.get(key)), _bounds(scores, key), paper)


def _beside(
    name: str, ours: float | None, bounds: tuple[float, float] | None, paper: float
) -> list[str]:
    if ours is None:
        return [name, "", f"{paper:g}", "", ""]
    interval = f"{signed(bounds[0] - paper)} to {signed(bounds[1] - paper)}" if bounds else ""
    return [name, f"{ours:.2f}", f"{paper:g}", signed(ours - paper), interval]


def interval_text(scores: dict[str, Any], key: str, digits: int = 2) -> str:
    """Returns the 95% confidence interval of a score as text, or "" if no interval is known."""
    bounds = _bounds(scores, key)
    return f"95%: {bounds[0]:.{digits}f} to {bounds[1]:.{digits}f}" if bounds else ""


def _bounds(scores: dict[str, Any], key: str) -> tuple[float, float] | None:
    found = scores.get(f"{key}_interval")
    if not isinstance(found, list) or len(found) != 2:
        return None
    low, high = map(number, found)
    return None if low is None or high is None else (low, high)
