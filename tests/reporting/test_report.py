"""The page of `nmt report` has the run's figures and errors, is self-contained, and is safe."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nmt import config as configuration
from nmt.cli import main
from nmt.config import validate
from nmt.data.prepare import prepare
from nmt.demo_language import contrastive_pairs
from nmt.errors import InputError
from nmt.evaluation.analysis import Analysis, Faults
from nmt.evaluation.bleu import bleu_metric
from nmt.paper import TABLE_3, sustained_flops
from nmt.reporting import run_record
from nmt.reporting.analysis import reliability
from nmt.reporting.chart import Point, progress_axis, thinned, value_axis
from nmt.reporting.curves import charts
from nmt.reporting.info import info
from nmt.reporting.paper_models import table_3_row
from nmt.reporting.report import render, report
from nmt.reporting.run_record import RunRecord, TestScores, read_runs
from nmt.reporting.samples import samples
from nmt.reporting.tables import cleaning_tables, cost_table, settings_tables
from nmt.runs.run_directory import RunDirectory
from nmt.storage import manifest
from nmt.training.run_log import RunLog, read_log
from nmt.training.train import train
from tests.fixtures.make import TRAINED
from tests.page import Page
from tests.tiny import tiny_settings

CONFIGS = Path(__file__).parents[2] / "configs"


def row(page: Page, name: str) -> list[str]:
    """Returns the other cells of the row with this name."""
    return next(cells[1:] for cells in page.rows if cells[0] == name)


def page_of(*runs: Path) -> tuple[Page, list[str]]:
    said: list[str] = []
    output = runs[0].parent / "page.html"
    report(runs, output, said.append)
    return Page(output.read_text(encoding="utf-8")), said


def keep(path: Path, scores: dict) -> None:
    """Writes scores with their hash, as `nmt report` does."""
    scores = {key: value for key, value in scores.items() if key != "sha256"}
    path.write_text(json.dumps(scores | {"sha256": manifest.value_hash(scores)}))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 12 steps with its own data and a translated test set."""
    directory = tmp_path_factory.mktemp("report")
    config = validate(tiny_settings(directory), {}, "tiny")
    prepare(config, note=lambda line: None)
    train(config, lambda line: None)
    page_of(directory / "run")
    return directory / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def test_figures_are_the_runs(trained: Path):
    page, _ = page_of(trained)
    lines = [line for line in read_log(trained) if "event" not in line]
    drawn = {line["label"]: line["points"] for line in page.charts[2]["lines"]}
    assert [point[0] for point in drawn["training"]] == list(range(1, 13))
    assert [point[2] for point in drawn["training"]] == pytest.approx(
        [line["loss"] for line in lines], rel=1e-5
    )
    assert [point[0] for point in drawn["validation"]] == [6, 12]
    kept = json.loads((trained / "evaluation/test.json").read_text())
    low, high = kept["scores"]["bleu_interval"]
    assert row(page, "BLEU") == [f"{kept['scores']['bleu']:.2f} (95%: {low:.2f} to {high:.2f})"]
    counts = json.loads((Path(trained.parent) / "data/manifest.json").read_text())["corpora"]
    assert row(page, "pairs read") == [f"{entry['read']:,}" for entry in counts]
    assert row(page, "model.d_model") == ["32", "512"]
    assert row(page, "FLOPs by the paper&#39;s method")[0].startswith("the paper states no")
    assert (
        f"{info(read_runs([trained], print)[0].config)['parameters']['total'] / 1e6:.1f} M"
        in page.text
    )


def test_each_chart_draws_its_own_quantity(trained: Path):
    """`keys` maps each title to the log keys of its training line and validation line."""
    keys = {
        "Negative log-likelihood": ("nll", "nll"), "BLEU": (None, "bleu"), "Loss": ("loss", "loss"),
        "Perplexity": (None, "ppl"), "Learning rate": ("learning_rate", None),
        "Speed": ("tokens_per_second", None), "Gradient norm": ("gradient_norm", None),
    }  # fmt: skip
    log = read_log(trained)
    page, _ = page_of(trained)
    drawn = {}
    for chart, title, heading in zip(page.charts, keys, page.texts["h3"], strict=False):
        assert heading.startswith(f"{title} ")
        for line in chart["lines"]:
            points = [(point[0], point[2]) for point in line["points"]]
            drawn[title, line["label"]] = points
    assert len(page.charts) == len(keys)
    for title, both in keys.items():
        for kind, key in zip(("training", "validation"), both, strict=True):
            event = None if kind == "training" else kind
            lines = [line for line in log if key and line.get("event") == event]
            expected = [(line["step"], pytest.approx(line[key], rel=1e-5)) for line in lines]
            assert drawn.get((title, kind), []) == expected


def test_the_page_is_whole_and_asks_for_nothing_outside(trained: Path):
    page, _ = page_of(trained)
    ids = {attributes.get("id") for _, attributes in page.tags}
    for tag, attributes in page.tags:
        assert tag not in {"link", "img", "iframe", "base"}
        assert not attributes.keys() & {"src", "srcset", "action"}
        if "href" in attributes:
            assert attributes["href"][0] == "#"
            assert attributes["href"][1:] in ids
    assert not re.search(r"//[a-z]|@import|url\(", "".join(page.texts["style"]))
    scripts = "".join(page.texts["script"]).replace("http://www.w3.org/2000/svg", "")  # namespace
    scripts = scripts.replace("https://arxiv.org/html/1706.03762", "")  # link
    assert not re.search(r"https?:|fetch\(|XMLHttp|import\(", scripts)
    policy = [
        a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy[0].startswith("default-src 'none'")
    tables = [t for t, _ in page.tags if t == "table"]
    assert len(tables) == len(page.texts["caption"]) > 4
    assert all(attributes.get("scope") for tag, attributes in page.tags if tag == "th")


def test_the_analysis_is_shown(trained: Path, run: Path):
    """Also of several runs, with their accuracy on contrastive pairs and a reliability diagram."""
    kept = json.loads((trained / "evaluation/test.json").read_text())
    analysis = kept["analysis"]
    assert "analysis" not in kept["scores"]
    assert analysis["missing"] == []
    page, _ = page_of(trained)
    lengths = analysis["by_source_length"]
    for each in lengths:
        bleu = "" if each["bleu"] is None else f"{each['bleu']:.2f}"
        assert row(page, each["words"])[:2] == [f"{each['sentences']:,}", bleu]
    assert sum(each["sentences"] for each in lengths) == 20
    calibration = analysis["calibration"]
    assert row(page, "all")[0] == f"{calibration['tokens']:,}"
    assert f"{calibration['ece']:.2%}" in page.text
    pairs = run.with_name("pairs.tsv")
    cells = (vars(pair).values() for pair in contrastive_pairs(2, 1, "test"))
    pairs.write_text("".join("\t".join(each) + "\n" for each in cells))
    runs = read_runs([trained, run], print, pairs)
    assert [each.contrastive.total.pairs for each in runs] == [12, 12]
    diagram = reliability(runs)
    assert [line.label for line, _ in diagram.lines] == [each.name for each in runs]
    used = sum(each["tokens"] > 0 for each in calibration["bins"])
    assert [drawn.marks.count("h0") for drawn in diagram.view.lines] == [0, used, used]
    both = Page(render(runs, print))
    assert row(both, "separable verb")[0] == "2"
    assert diagram.summary.endswith(f"error {calibration['ece']:.1%}.")


@pytest.mark.parametrize("value", ["null", '{"sentences": 20}', "[1]"])
def test_a_damaged_analysis_is_computed_again(run: Path, value: str):
    path = run / "evaluation/test.json"
    kept = json.loads(path.read_text())
    whole = kept["analysis"]
    keep(path, kept | {"analysis": json.loads(value)})
    _, said = page_of(run)
    assert any("ranslating the test set" in line for line in said)
    assert json.loads(path.read_text())["analysis"] == whole


def test_word_frequencies_are_counted_once_the_training_data_is_back(run: Path):
    path = run / "evaluation/test.json"
    whole = json.loads(path.read_text())
    less = whole["analysis"] | {"by_word_frequency": None, "missing": ["word frequencies: gone"]}
    keep(path, whole | {"analysis": less})
    data = Path(RunDirectory(run).settings().data.directory)
    data.rename(away := data.with_name("away"))
    try:
        _, said = page_of(run)
        assert not any("ranslating the test set" in line for line in said)
    finally:
        away.rename(data)
    page_of(run)
    assert json.loads(path.read_text())["analysis"] == whole["analysis"]


def test_text_is_never_markup(run: Path):
    hostile = "</script><img src=x>\"'&amp;"
    path = run / "evaluation/test.json"
    kept = json.loads(path.read_text())
    for side in ("sources", "references", "translations"):
        kept[side] = [f"{hostile} {side}"] * len(kept[side])
    keep(path, kept)
    harmless = run.with_name("<script>alert(3)<")
    run.rename(harmless)
    page, _ = page_of(harmless)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 4  # data and code, for charts and for attention
    assert "img" not in tags
    assert f"{hostile} translations" in page.text
    assert harmless.name in page.text


def test_runs_of_one_name_are_told_apart_and_compared(run: Path, trained: Path):
    path = run / "config.yaml"
    text = path.read_text().replace("dropout: 0.1\n", "dropout: 0.25\n", 1)
    path.write_text(text.replace(f"run_directory: {trained}", f"run_directory: {run}"))
    page, _ = page_of(run, trained, run)
    names = [f"{run.parent.name}/run", f"{trained.parent.name}/run"]
    labels = {line["label"] for chart in page.charts for line in chart["lines"]}
    assert labels == {name + kind for name in names for kind in ("", ", training", ", validation")}
    assert row(page, "model.dropout")[:2] == ["0.25", "0.1"]
    assert not [cells for cells in page.rows if cells[0] == "training.run_directory"]
    assert len(row(page, "BLEU")) == 2


def test_a_model_is_translated_with_once(run: Path, monkeypatch):
    calls = []

    def refusing(*arguments, **options):
        calls.append(arguments)
        raise InputError("no such file, test.en, restore it")

    monkeypatch.setattr(run_record, "evaluate", refusing)
    page, _ = page_of(run)
    assert not calls
    kept = run / "evaluation/test.json"
    former = json.loads(kept.read_text()) | {"model_sha256": "of a former model"}
    other = json.loads(kept.read_text())  # as if saved by an earlier version
    other["scores"]["paper_bleu_convention"] = "straight quotes on both sides"
    whole = kept.read_text()
    edited = whole.replace('"bleu": ', '"bleu": 9', 1)
    texts = []
    for each in (former, other):
        keep(kept, each)
        texts.append(kept.read_text())
    for number, text in enumerate([*texts, edited, whole[:-9], "{}", "[]"], start=1):
        kept.write_text(text)
        page, said = page_of(run)
        assert len(calls) == number
    assert "no such file, test.en, restore it" in page.text  # the page is written
    assert any("no such file" in line for line in said)
    assert len(page.charts) == 7


def nothing_yet(run: Path):
    for name in ("model", "checkpoints"):
        shutil.rmtree(run / name)
    (run / "log.jsonl").write_text("")


def no_log(run: Path):
    (run / "log.jsonl").unlink()
    shutil.rmtree(run / "model")


def half_a_log(run: Path):
    os.truncate(run / "log.jsonl", (run / "log.jsonl").stat().st_size // 2)


def one_step_in_a_torn_log(run: Path):
    first, second = (run / "log.jsonl").read_bytes().splitlines(keepends=True)[:2]
    (run / "log.jsonl").write_bytes(first + second[:50])
    shutil.rmtree(run / "model")


def odd_values(run: Path):
    line = {"step": 3, "loss": None, "nll": float("nan"), "gradient_norm": 0.0,
            "learning_rate": "x", "elapsed_s": None, "tokens_per_second": True}  # fmt: skip
    (run / "log.jsonl").write_text(json.dumps(line) + "\n")


def damaged_model(run: Path):
    (run / "model/manifest.json").write_text("{}")


def model_of_a_former_end(run: Path):
    """Simulates a run that continues because `training.max_steps` was raised."""
    with (run / "log.jsonl").open("a") as log:
        log.write(json.dumps({"step": 20, "loss": 1.0, "nll": 1.0}) + "\n")


def lost_data(run: Path):
    (run / "data.json").unlink()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (nothing_yet, "nothing is logged yet"),
        (no_log, "log.jsonl is missing or has no valid entry."),
        (half_a_log, "but the finished model is from step 12. Restore it from a copy."),
        (half_a_log, "log.jsonl has 1 invalid line, which the report skips."),
        (one_step_in_a_torn_log, "not finished: step 1 of 12"),
        (odd_values, "Steps12of 12"),
        (damaged_model, "manifest.json is damaged"),
        (
            model_of_a_former_end,
            "scores of step 20: the finished model and its scores are from step 12",
        ),
        (lost_data, "no data.json"),
    ],
)
def test_what_cannot_be_had_is_said_and_the_rest_shown(run: Path, change, text: str):
    change(run)
    page, said = page_of(run)
    assert text in page.text
    if text.endswith("."):
        assert any(line.startswith("nmt: warning: ") and text in line for line in said)
    assert row(page, "model.d_model") == ["32", "512"]


HUGE = "9" * 400
STEP = '{"step": 1, "nll": 2.0, "loss": 2.0}\n'


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 1.5}', "[]", "3", '{"step": 1, "lo',
        '{"step": 1, "loss": ' + "9" * 300 + ', "nll": 1e308, "gradient_norm": 1e-320}',
        '{"step": 1, "loss": -1e308, "nll": 1e308}\n{"step": 2, "loss": 1e308, "nll": -1e308}',
        '{"step": 1, "gradient_norm": 1e-99}\n{"step": 2, "gradient_norm": 1e99}',
        '{"step": 1, "nll": 1.0}\n{"step": 2, "nll": 1.0000000000000002}',
        '{"step": 1, "nll": NaN, "loss": Infinity, "elapsed_s": -Infinity}',
        '{"step": 1, "nll": 1.0, "elapsed_s": -5}',
        '{"step": 1, "nll": 1.0, "elapsed_s": 1e300, "world_size": 1e300, "device": ["x"]}',
        '{"event": "validation", "step": 1, "bleu": ' + HUGE + ', "ppl": 1e308}',
    ],
    ids=lambda line: line[:60],
)  # fmt: skip
def test_odd_lines_of_a_log_spoil_no_page(run: Path, line: str):
    (run / "log.jsonl").write_text(f"{line}\n{STEP}")
    page, _ = page_of(run)
    assert any("Loss" in caption for caption in page.texts["h3"])
    assert row(page, "model.d_model") == ["32", "512"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("bleu", HUGE), ("chrf", HUGE), ("chrf", "1e308"), ("ter", "[1]"), ("sentences", "-" + HUGE),
     ("bleu_interval", f"[{HUGE}, 1]"), ("bleu_interval", "[1]"), ("bleu_signature", "[1]"),
     ("baseline", '{"bleu": {}}'), ("other", "[" * 50 + "]" * 50)],
)  # fmt: skip
def test_odd_figures_of_kept_scores_spoil_no_page(run: Path, key: str, value: str):
    """Invalid figures are not shown. If BLEU is invalid, the test set is translated again."""
    path = run / "evaluation/test.json"
    kept = json.loads(path.read_text())
    bleu = kept["scores"]["bleu"]
    kept["scores"][key] = "VALUE"
    keep(path, json.loads(json.dumps(kept).replace('"VALUE"', value)))
    page, said = page_of(run)
    assert row(page, "BLEU")[0].startswith(f"{bleu:.2f}")
    assert HUGE not in page.text
    assert any("ranslating the test set" in line for line in said) == (key == "bleu")


def test_kept_scores_are_a_file(run: Path):
    (run / "evaluation/test.json").unlink()
    os.mkfifo(run / "evaluation/test.json")
    _, said = page_of(run)  # must not wait for a writer
    assert any("ranslating the test set" in line for line in said)


@pytest.mark.parametrize(
    "changes",
    [{"step": -1}, {"validation": {"bleu": int(HUGE), "ppl": 1e308}},
     {"validation": [1]}, {"validation": {"bleu": "x", "ppl": None}}],
)  # fmt: skip
def test_odd_facts_of_a_model_spoil_no_page(run: Path, changes: dict):
    manifest.rewrite(run / "model", manifest.read(run / "model", "model") | changes)
    page, said = page_of(run)
    assert row(page, "model.d_model") == ["32", "512"]
    assert any("manifest.json is damaged" in line for line in said) == ("step" in changes)


@pytest.mark.parametrize(
    ("runs", "output", "found"),
    [
        (["gone"], "page.html", "gone is not a run directory"),
        (["run/model"], "page.html", "not a run directory"),
        ([""], "page.html", "not a run directory"),
        (["run"], "no/page.html", "/no for --output does not exist"),
        (["run"], "run", "run is a directory"),
        (["run"], "page.pdf", "must end in .html"),
    ],
)
def test_wrong_arguments_are_one_line(run: Path, capsys, runs, output, found):
    folder = run.parent
    status = main(
        ["report", *(str(folder / name) for name in runs), "--output", str(folder / output)]
    )
    error = capsys.readouterr().err
    assert status == 2
    assert error.startswith("nmt: error: ")
    assert found in error
    assert error.count("\n") == 1


def wmt_record(lines: list[dict], texts: dict[str, list[str]], **scores) -> RunRecord:
    config = configuration.load(CONFIGS / "transformer_base.yaml")
    analysis = Analysis(1, 1.0, *[Faults(0, 0, 0)] * 2, [], None, None, [])
    test = TestScores(model_sha256="", scores=scores, analysis=analysis, **texts)
    model = {"step": 100_000, "data_sha256": ""}
    return RunRecord(Path("wmt"), "wmt", config, info(config), lines, model, test)


ONE = {"sources": ["a"], "references": ["b"], "translations": ["b"]}


def test_the_papers_figures_stand_beside_with_difference_and_interval():
    """The paper states 27.3 (Table 2), 25.8 and 4.92 (Table 3); 12 h of 8 P100 is 3.28e18 FLOPs."""
    hardware = {"device": "Tesla P100-SXM2-16GB", "world_size": 8}
    lines = [
        {"step": 50_000, "source_tokens": 25_000, "target_tokens": 25_000, "elapsed_s": 21_600},
        {"step": 100_000, "source_tokens": 25_000, "target_tokens": 25_000, "elapsed_s": 43_200},
        {"event": "validation", "step": 100_000, "bleu": 25.5, "ppl": 5.0, "elapsed_s": 43_200},
    ]
    scores = {"bleu": 26.4, "bleu_interval": [25.7, 27.1]}
    scores |= {"paper_bleu": 27.0, "paper_bleu_interval": [26.2, 27.8]}
    run = wmt_record([line | hardware for line in lines], ONE, **scores)
    page = Page(render([run], print))
    beside = [cells for cells in page.rows if cells[0].startswith("newstest")]
    assert [cells[0].rpartition(": ")[2] for cells in beside] == [
        "paper BLEU", "sacreBLEU at step 100,000", "perplexity at step 100,000",
    ]  # fmt: skip
    assert "sacreBLEU is only roughly comparable with the paper's BLEU" in page.text
    assert [cells[1:] for cells in beside] == [
        ["27.00", "27.3", "−0.30", "−1.10 to +0.50"],
        ["25.50", "25.8", "−0.30", ""],
        ["5.00", "4.92", "+0.08", ""],
    ]
    assert row(page, "FLOPs by the paper&#39;s method") == ["3.28 × 10¹⁸"]
    counted = info(run.config)["flops"]["per_token_pair"] * 2.5e9
    assert row(page, "FLOPs by formula")[0].startswith(f"{counted:.2e}"[:4])
    flops = run.info["flops"] | {
        "optimizer_per_step": 4 * counted / 100_000
    }  # as for Muon, for each step
    of_muon = replace(run, info=run.info | {"flops": flops})
    found = row(Page(render([of_muon], print)), "FLOPs by formula")[0]
    assert found.startswith(f"{5 * counted:.2e}"[:4])
    assert row(page, "Training time, including validation") == ["12 h"]


@pytest.mark.parametrize(
    ("device", "flops"),
    [("Tesla P100-SXM2-16GB", 9.5e12), ("Tesla K40m", 3.7e12), ("Tesla M40 24GB", 6.0e12),
     ("Tesla K80", 2.8e12), ("Quadro P1000", None), ("Quadro M4000", None), ("Quadro K4000", None),
     ("NVIDIA H100 80GB HBM3", None)],
)  # fmt: skip
def test_the_papers_flops_are_of_its_gpus_alone(device: str, flops: float | None):
    assert sustained_flops(device) == flops


def test_runs_that_differ_in_their_seeds_are_one_system(trained: Path):
    """Systems: two seeds of one configuration, another dropout, and one with another test set."""
    references = [f"the dog number {n} sees {m} cats ." for n in range(5) for m in range(4)]
    better, worse = ([r.replace(a, "") for r in references] for a in ("number", "sees"))

    def run(name: str, translations: list[str], *settings: str, sources: str = "a") -> RunRecord:
        texts = {"sources": [sources] * 20, "references": references, "translations": translations}
        override = [*settings, f"training.run_directory=runs/{name}"]
        config = configuration.load(CONFIGS / "transformer_base.yaml", override)
        return replace(wmt_record([], texts, bleu=1.0), name=name, config=config)

    runs = [
        run("base/1", worse), run("base/2", worse[:10] + better[10:], "training.seed=2"),
        run("dry/1", better, "model.dropout=0"), run("far/1", better, "model.d_ff=1", sources="b"),
    ]  # fmt: skip
    page = Page(render(runs, print))
    heading = ["", "runs", "BLEU", "difference from base/1 and 1 more"]
    assert heading[1:] == next(c for c in page.rows if c[:2] == heading[:2])[1:4]
    base, dry, far = (row(page, name) for name in ("base/1 and 1 more", "dry/1", "far/1"))
    assert (base[0], dry[0], far[2]) == ("2", "1", "different test set")
    scores = [bleu_metric("de").corpus_score(each, [references]).score for each in (worse, better)]
    assert dry[1] == f"{scores[1]:.2f}"
    assert dry[3] == "" and "95%: +" in dry[4]
    assert not [c for c in Page(render(runs[:2], print)).rows if c[:2] == heading[:2]]


def test_french_is_set_beside_the_paper_in_its_convention():
    run = wmt_record([], ONE, bleu=36.0, paper_bleu=37.9, paper_bleu_interval=[37.0, 38.8])
    run = replace(run, config=configuration.load(CONFIGS / "wmt14_en_fr_base.yaml"))
    [(name, *cells)] = [c for c in Page(render([run], print)).rows if c[0].startswith("newstest")]
    assert name == "newstest2014, Table 2, base: paper BLEU"
    assert cells == ["37.90", "38.1", "−0.20", "−1.10 to +0.70"]


def test_warnings_of_data_and_training_are_on_the_page_as_text():
    run = wmt_record([], ONE, bleu=1.0)
    run.model["warnings"] = ["the mean is worse <b>", 7]
    facts = {"warnings": ["In train 1, the lines are shuffled"], "shards": {}, "corpora": []}
    other = replace(run, name="other", model=None, data=facts | {"data_sha256": ""})
    page = render([run, other], print)
    assert "<li>other: In train 1, the lines are shuffled</li>" in page
    assert "<li>wmt: the mean is worse &lt;b&gt;</li>" in page and "<li>wmt: 7" not in page
    assert "Warnings of nmt prepare" in page
    run.model["warnings"] = "not a list"
    assert "Warnings of nmt prepare" not in render([run], print)


def test_corpora_of_other_weight_are_told_apart():
    run = wmt_record([], ONE, bleu=1.0)
    train = "data.train=[{hub: wmt/wmt14, name: de-en, split: train, weight: 2}]"
    other = replace(run, config=configuration.load(CONFIGS / "transformer_base.yaml", [train]))
    (cells,) = settings_tables([run, other])[0].rows
    assert cells == ["data.train", *(f"hub wmt/wmt14 de-en train{w}" for w in ("", ", weight 2"))]


def test_steps_behind_the_last_logged_one_count_too():
    """Early stopping may end a run between two logged steps."""
    line = {"step": 100, "source_tokens": 10, "target_tokens": 10}
    run = wmt_record([line, {"event": "validation", "step": 150}], ONE, bleu=1.0)
    cells = dict(cost_table([replace(run, model=None)]).rows)
    assert cells["Target tokens in training (estimate)"] == "1.50 × 10³"


def test_the_median_speed_is_in_the_middle_by_size():
    lines = [{"step": step, "tokens_per_second": speed} for step, speed in enumerate((9, 1, 5))]
    cells = dict(cost_table([wmt_record(lines, ONE, bleu=1.0)]).rows)
    assert cells["Target tokens per second, median"] == "5"


def test_data_of_several_runs_are_told_once_under_the_first(trained: Path):
    [run] = read_runs([trained], print)
    runs = [replace(run, name=name, missing=[]) for name in ("first", "second")]
    assert [table.caption for table in cleaning_tables(runs)] == ["first: sentence pairs"]


def test_large_figures_are_the_finished_models(trained: Path):
    """Without a test set, the page shows the finished model's figures on the validation set."""
    [run] = read_runs([trained], print)
    run.model["validation"] |= {"bleu": 12.34, "ppl": 5.678}
    large = Page(render([replace(run, test=None)], print)).texts["dl"][0]
    assert "12.3" in large and "5.68" in large


def test_each_bleu_names_its_model():
    """The page has the mean's BLEU on both sets, and the BLEU of the last step's weights."""
    log = [{"event": "validation", "step": 9, "bleu": 11.0, "ppl": 6.0, "bleu_signature": "x"}]
    run = wmt_record(log, ONE, bleu=13.0)
    mean = {"averaged_steps": [7, 8, 9], "validation": {"bleu": 12.0, "ppl": 5.0}}
    page = Page(render([replace(run, model={**run.model, **mean})], print))
    assert "13.0test set, finished model, mean of 3 checkpoints" in page.texts["dl"][0]
    assert row(page, "weights of step 9")[0] == "11.00"
    assert row(page, "finished model, mean of 3 checkpoints")[0] == "12.00"
    single = Page(render([replace(run, model={**run.model, **mean, "averaged_steps": [9]})], print))
    assert row(single, "finished model")[0] == "12.00"


def test_median_samples_differ_where_most_are_perfect_and_show_where():
    texts = {"sources": [f"source {i}" for i in range(9)], "references": ["a b c d e f"] * 9}
    texts["translations"] = ["a b c d e f"] * 6 + ["a b c d e", "a b X d e f", "z"]
    found = [s for s in samples([wmt_record([], texts, bleu=1.0)]) if s.kind == "median"]
    assert len({round(sample.translations[0].chrf) for sample in found}) == 3 == len(found)
    [wrong] = [sample for sample in found if "X" in sample.translations[0].text]
    assert [part for part, differs in wrong.translations[0].parts if differs] == [" X"]
    assert [part for part, differs in wrong.reference_parts if differs] == [" c"]
    assert "".join(part for part, _ in wrong.reference_parts) == wrong.reference


def test_a_loss_that_falls_far_has_a_logarithmic_axis():
    log = [{"step": n, "loss": loss, "nll": loss} for n, loss in ((1, 9.0), (2, 3.0), (3, 1.2))]
    drawn = {chart.title: chart.values for chart in charts([wmt_record(log, ONE, bleu=1.0)])}
    assert drawn["Loss"].is_log and drawn["Negative log-likelihood"].is_log


def test_samples_are_best_median_and_worst():
    """Sentence i of 20 has i wrong letters; of two perfect ones, the longer one is shown first."""
    references = [chr(97 + i) * 20 for i in range(20)]
    texts = {
        "sources": ["a"] * 20,
        "references": references,
        "translations": [line[i:] + "-" * i for i, line in enumerate(references)],
    }
    for side, text in (("sources", "longer"), ("references", "yes"), ("translations", "yes")):
        texts[side].append(text)
    found = samples([wmt_record([], texts, bleu=1.0)])
    assert [sample.kind for sample in found] == ["best"] * 3 + ["median"] * 3 + ["worst"] * 3
    assert (found[0].source, found[1].reference, found[-1].reference) == (
        "longer",
        "a" * 20,
        "t" * 20,
    )
    chrf = [sample.translations[0].chrf for sample in found]
    assert chrf == sorted(chrf, reverse=True)
    assert chrf[0] == pytest.approx(100)


def test_scores_on_other_data_stand_alone(trained: Path):
    page, _ = page_of(trained)
    assert not [cells for cells in page.rows if "Table" in cells[0]]


def test_every_row_of_table_3_is_found_by_its_settings():
    files = sorted((CONFIGS / "table3").glob("*.yaml"))
    assert len(files) == len(TABLE_3) == 20
    for path in files:
        found = table_3_row(configuration.load(path))
        assert found is not None, path
        assert found.name == path.stem
    changed = configuration.load(
        CONFIGS / "table3" / "c_d_ff_1024.yaml", ["training.initialize_from=runs/x"]
    )
    assert table_3_row(changed).name == "base"  # no row is fine-tuned; base is nearest


def test_a_long_log_is_thinned_without_losing_a_peak():
    values = [((step * 7919) % 1000) / 1000 for step in range(100_000)]
    values[31_234], values[77_777] = 99.0, -99.0
    points = [Point(step, None, value) for step, value in enumerate(values)]
    kept = thinned(points)
    assert len(kept) <= 1000
    assert {31_234, 77_777, 0, 99_999} <= {point.step for point in kept}
    assert [point.step for point in kept] == sorted({point.step for point in kept})
    assert set(kept) <= set(points)
    assert thinned(points[:1000]) == points[:1000]


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        [0.3, 0.31],
        [1e-9, 3e-4],
        [2.0, 2e5],
        [7, 5, 6],
        [0.999, 10.0],
        [1000.0],
        [1e-100, 1e100],
        [1.0, 1 + 1e-15],
        [1e100, 1.1e100],
    ],
)
def test_axes_hold_their_values_between_few_ticks(values, is_log: bool):
    axis = value_axis(values, from_zero=not is_log, is_log=is_log)
    assert all(-1e-9 <= axis.place(value) <= 1 + 1e-9 for value in values)
    assert 2 <= len(axis.ticks) <= 12
    assert sorted(set(axis.ticks)) == axis.ticks
    assert len({label for label, _ in axis.labels}) == len(axis.ticks)
    steps = progress_axis(max(values))
    assert steps.high == max(values)
    assert 2 <= len(steps.ticks) <= 8


def test_time_goes_on_where_the_checkpoint_left_it(settings):
    from tests.training.runs import run as trained_to

    directory, _ = trained_to(settings(training__max_steps=4))
    saved = directory / "checkpoints/step-00000004/state.json"
    before = json.loads(saved.read_text())["elapsed_s"]
    assert 0 < before <= read_log(directory)[-1]["elapsed_s"]  # the log's time includes validation
    with RunLog(directory, 4, 4, 8, 3600.0, {"device": "P100", "world_size": 8}) as log:
        log.model(settings(training__max_steps=4), {"step": 4})
        assert log.elapsed_s >= 3600
    last = read_log(directory)[-1]
    assert last["elapsed_s"] >= 3600
    assert (last["device"], last["world_size"]) == ("P100", 8)
    trained_to(settings(training__max_steps=8))
    times = [line["elapsed_s"] for line in read_log(directory) if line["step"] > 4]
    assert before < times[0]
    assert times == sorted(times)


def test_no_control_character_of_a_name_reaches_the_page(trained_run: Path, tmp_path: Path):
    run = trained_run.rename(trained_run.with_name("\x1b[31mred\x07\u202e"))
    report([run], tmp_path / "page.html", lambda line: None)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "red" in page and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page)


@pytest.fixture
def trained_run(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    shutil.copytree(TRAINED / "run", run, copy_function=shutil.copyfile)
    return run
