"""Formats an analysis as tables for `nmt evaluate` and for the report."""

from nmt.evaluation.analysis import Analysis
from nmt.evaluation.calibration import Calibration
from nmt.evaluation.contrastive import Accuracy, Contrastive
from nmt.evaluation.table import Table


def analysis_tables(analysis: Analysis) -> list[Table]:
    """Formats an analysis as tables, and adds a note for each measure that was not computed."""
    tables = [_by_length(analysis), _faults(analysis)]
    if analysis.by_word_frequency is not None:
        rows = [
            [each.occurrences, f"{each.reference_words:,}", f"{each.translation_words:,}",
             *map(_percent, (each.precision, each.recall, each.f_measure))]
            for each in analysis.by_word_frequency
        ]  # fmt: skip
        columns = ["occurrences", "in references", "in translations", "precision", "recall", "F1"]
        caption = "Accuracy of words by their frequency in the training targets"
        tables.insert(1, Table(caption, columns, rows))
    if analysis.calibration is not None:
        tables.append(_calibration(analysis.calibration))
    return tables


def _by_length(analysis: Analysis) -> Table:
    rows = []
    for each in analysis.by_source_length:
        row = [each.words, f"{each.sentences:,}", "", "", ""]
        if each.bleu is not None and each.chrf is not None and each.bleu_interval is not None:
            low, high = each.bleu_interval
            row[2:] = f"{each.bleu:.2f}", f"{low:.2f} to {high:.2f}", f"{each.chrf:.2f}"
        rows.append(row)
    columns = ["words", "sentences", "BLEU", "95% interval", "chrF"]
    return Table("Scores by length of the source", columns, rows)


def _faults(analysis: Analysis) -> Table:
    ours, theirs = analysis.translations, analysis.references
    rows = [
        ["length ratio", f"{analysis.length_ratio:.3f}", "1"],
        ["empty", f"{ours.empty:,}", f"{theirs.empty:,}"],
        ["copies of the source", f"{ours.copies:,}", f"{theirs.copies:,}"],
        ["repetitive", f"{ours.repetitive:,}", f"{theirs.repetitive:,}"],
    ]
    missing = tuple(f"Not computed: {reason}" for reason in analysis.missing)
    columns = [f"of {analysis.sentences:,} sentences", "translations", "references"]
    return Table("Length and faults", columns, rows, missing)


def _calibration(found: Calibration) -> Table:
    rows = [
        [f"{each.low:.3f} to {each.high:.3f}", f"{each.tokens:,}",
         *map(_percent, (each.confidence, each.accuracy))]
        for each in found.bins
        if each.tokens
    ]  # fmt: skip
    total = (found.confidence, found.accuracy)
    rows.append(["all", f"{found.tokens:,}", *map(_percent, total)])
    notes = [f"Expected calibration error: {found.ece:.2%} in {found.sentences:,} sentences; "
             f"training.label_smoothing: {found.label_smoothing:g}"]  # fmt: skip
    if found.too_long:
        notes.append(f"Skipped because of the maximum length: {found.too_long:,} sentences")
    columns = ["confidence", "tokens", "mean confidence", "accuracy"]
    return Table("Calibration on the references", columns, rows, tuple(notes))


def contrastive_table(found: Contrastive) -> Table:
    """Returns a table with the accuracy on contrastive pairs for each category and in total."""
    rows = [_accuracy(name, each) for name, each in found.categories.items()]
    rows.append(_accuracy("total", found.total))
    columns = ["category", "pairs", "right", "accuracy", "95% interval"]
    return Table(f"Contrastive pairs in {found.file}", columns, rows)


def _accuracy(name: str, found: Accuracy) -> list[str]:
    low, high = map(_percent, found.interval)
    return [name, f"{found.pairs:,}", f"{found.right:,}", _percent(found.accuracy),
            f"{low} to {high}"]  # fmt: skip


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
