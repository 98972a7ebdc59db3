"""Implements `nmt report`, which writes an HTML page that describes or compares runs.

The page is self-contained and loads no other files. Its charts are SVG images, which are visible
without JavaScript. With JavaScript, the charts can be smoothed and zoomed, and they show the values
at the pointer.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt import __version__
from nmt.errors import ArgumentError, InputError, Note, one_line
from nmt.lines.files import check_output, opened_output
from nmt.reporting.analysis import all_tables, reliability
from nmt.reporting.chart import HEIGHT, WIDTH
from nmt.reporting.curves import chart_data, charts
from nmt.reporting.run_record import RunRecord, number, read_runs
from nmt.reporting.samples import Sample, samples
from nmt.reporting.score_tables import finished, interval_text, score_tables
from nmt.reporting.tables import cleaning_tables, cost_table, machine, settings_tables, time_spent
from nmt.runs.run_directory import RunDirectory

if TYPE_CHECKING:
    from markupsafe import Markup


def report(runs: Sequence[Path], output: Path, note: Note, contrastive: Path | None = None) -> None:
    """Writes an HTML report on one or more runs.

    If a finished run contains no scores on its test set, this function translates and scores the
    test set, and saves the scores and translations in the run. The report lists data that cannot be
    read.

    Args:
        runs: the run directories. Duplicates are ignored.
        output: the HTML file to write. An existing file is replaced atomically.
        note: called with each user-facing message.
        contrastive: a file of contrastive pairs (see `nmt.evaluation.contrastive`), or None.

    Raises:
        ArgumentError: the name of `output` does not end in .html, or the file cannot be written
            (status 2).
        InputError: a directory is not a run directory, the settings of a run cannot be read, or
            `contrastive` is not a file of contrastive pairs (status 2).
        NoModelError: a run contains files of another run (status 3).
    """
    check_output(output, read=[("contrastive", contrastive)])
    if output.suffix.lower() not in (".html", ".htm"):
        raise ArgumentError("{output} {} must end in .html.", output)
    page = render(read_runs(runs, note, contrastive), note)
    with opened_output(output) as file:
        # text may contain control characters, and directory names need not be Unicode
        file.write("\n".join(map(one_line, page.split("\n"))).encode(errors="replace"))


def render(runs: Sequence[RunRecord], note: Note) -> str:
    """Returns the report as an HTML page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("nmt.reporting", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    curves, chosen = charts(runs), samples(runs)
    return environment.get_template("report.html").render(
        version=__version__,
        width=WIDTH,
        height=HEIGHT,
        runs=runs,
        title=" · ".join(run.name for run in runs),
        subtitles=[_subtitle(run) for run in runs],
        figures=_figures(runs[0]) if len(runs) == 1 else [],
        missing=_named(runs, _missing),
        warnings=_named(runs, lambda run: run.warnings),
        scores=score_tables(runs),
        analysis=all_tables(runs),
        reliability=reliability(runs),
        charts=curves,
        data=chart_data(curves),
        samples=chosen,
        source_language=runs[0].config.data.source_language,
        target_language=runs[0].config.data.target_language,
        attention=_attention(runs, chosen, note),
        settings=settings_tables(runs),
        cleaning=cleaning_tables(runs),
        cost=cost_table(runs),
    )


def _attention(runs: Sequence[RunRecord], chosen: Sequence[Sample], note: Note) -> "Markup | None":
    """Renders, as HTML, the attention weights of the shortest sample whose chrF is the median."""
    from markupsafe import Markup

    from nmt.evaluation.attention_maps import attention_of, html_fragment

    median = [sample for sample in chosen if sample.kind == "median"] or chosen
    if not median:
        return None
    sample = min(median, key=lambda sample: len(sample.source))
    run = next(run for run in runs if run.name == sample.translations[0].run)
    try:
        maps = attention_of(
            RunDirectory(run.directory).model, sample.source, sample.translations[0].text
        )
    except InputError as error:
        note(f"nmt: warning: The report contains no attention plot. {error.problems[0]}")
        return None
    return Markup(html_fragment(maps))  # html_fragment escapes its text


def _missing(run: RunRecord) -> list[str]:
    """Returns one line for each part that is missing from the page. Each line states the reason."""
    reasons = list(run.missing)
    if not run.log and not RunDirectory(run.directory).models():
        reasons.append("curves: nothing is logged yet")
    if not run.config.data.test:
        reasons.append("test scores: data.test is empty")
    elif run.model is None:
        reasons.append("test scores: there is no finished model yet")
    if run.model is not None and run.model["step"] < run.step:
        reasons.append(
            f"scores of step {run.step:,}: the finished model and its scores are from step "
            f"{run.model['step']:,}"
        )
    return reasons


def _named(runs: Sequence[RunRecord], lines_of: Callable[[RunRecord], list[str]]) -> list[str]:
    """Returns the results of `lines_of` for all runs.

    If there are several runs, each line is prefixed with the name of its run.
    """
    return [
        f"{run.name}: {line}" if len(runs) > 1 else line for run in runs for line in lines_of(run)
    ]


def _subtitle(run: RunRecord) -> str:
    model, data = run.config.model, run.config.data
    layers = f"{model.encoder_layers} + {model.decoder_layers} layers"
    if model.encoder_layers == model.decoder_layers:
        layers = f"{model.encoder_layers} layers per side"
    total = run.info["parameters"]["total"] / 1e6
    of = run.config.training.max_steps
    finished = run.model is not None and run.model["step"] == run.step
    state = (
        f"finished at step {run.step:,}"
        if finished
        else f"not finished: step {run.step:,} of {of:,}"
    )
    return (
        f"{data.source_language} → {data.target_language} · {layers}, d_model {model.d_model} · "
        f"{total:.1f} M parameters · {state}"
    )


def _figures(run: RunRecord) -> list[tuple[str, str, str, str]]:
    """Returns the name, value, unit and remark of each number at the top of the page."""
    found = []
    validation = run.final_validation or (run.validations or [{}])[-1]
    bleu = number(run.test.scores.get("bleu")) if run.test else None
    if run.test and bleu is not None:
        remark = f"test set, {finished(run)}, {interval_text(run.test.scores, 'bleu', 1)}"
        found.append(("BLEU", f"{bleu:.1f}", "", remark))
    elif (bleu := number(validation.get("bleu"))) is not None:
        of = finished(run) if run.final_validation else "weights of its last step"
        found.append(("BLEU", f"{bleu:.1f}", "", f"validation set, {of}"))
    if run.test and (chrf := number(run.test.scores.get("chrf"))) is not None:
        found.append(("chrF", f"{chrf:.1f}", "", "test set"))
    if (ppl := number(validation.get("ppl"))) is not None:
        found.append(("Perplexity", f"{ppl:.2f}", "", "validation set, per token"))
    found.append(("Steps", f"{run.step:,}", "", f"of {run.config.training.max_steps:,}"))
    if run.sittings:
        time, unit = time_spent(run).split(" ")
        found.append(("Training time", time, unit, machine(run.sittings[-1])))
    return found
