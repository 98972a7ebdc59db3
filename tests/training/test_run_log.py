"""The log of a run is read strictly; TensorBoard shows its texts as text, never as HTML."""

import contextlib
import json
import shutil
import threading
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.errors import InputError
from nmt.training.console import Console
from nmt.training.run_log import RunLog, read_log
from nmt.training.validation import Validation
from tests.conftest import make_settings


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by TensorBoard's dependencies
def test_a6_samples_are_harmless_in_tensorboard(tmp_path: Path):
    """Converts the samples to HTML as TensorBoard's text dashboard does."""
    from tensorboard import plugin_util

    evil = "<script>alert(1)</script> <img src=x onerror=alert(1)> [x](javascript:alert(1)) | a"
    with RunLog(tmp_path, 0, 1) as log:
        log.validation(1, Validation(1.0, 1.0, 0.0, "s", [(evil, evil, evil)]))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    [tag] = events.Tags()["tensors"]
    [event] = events.Tensors(tag)
    html = plugin_util.markdown_to_safe_html(event.tensor_proto.string_val[0])
    assert "alert(1)" in html  # as plain text
    for active in ("<script", "<img", 'href="javascript', "href='javascript"):
        assert active not in html
    assert html.count("<tr>") == 2


def test_a_slow_run_without_a_terminal_shows_a_line_every_minute(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr("nmt.training.console.time.monotonic", lambda: clock[0])
    console = Console(4, 9, most_s=101.0)  # ends before step 9
    for _ in range(4):  # steps of 25 s
        clock[0] += 25
        console.advance()
    facts = {"step": 8, "epoch": 1, "loss": 2.0, "nll": 1.0, "learning_rate": 1e-3}
    console.step(facts | {"tokens_per_second": 10.0})
    clock[0] += 25
    console.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "step 6/9" and lines[1].startswith("step 8/9 epoch 1") and len(lines) == 2
    assert lines[1].endswith(", 1 s left")


def test_only_whole_lines_are_read_back(tmp_path: Path):
    first, last = {"step": 1, "loss": 1.5}, {"event": "validation", "step": 2, "bleu": 3}
    odd = ['{"step": 1.5}', '{"step": null}', '{"loss": 1.0}', "[1]", "1", '{"step": 1, "loss"', ""]
    lines = [json.dumps(first), *odd, json.dumps(last)]
    torn = '{"step": 4, "loss": 1.0}'
    (tmp_path / "log.jsonl").write_text("".join(f"{line}\n" for line in lines) + torn)
    assert read_log(tmp_path) == [first, last]
    RunLog(tmp_path, step=3, validated=3).__exit__()
    assert read_log(tmp_path) == [first, last]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by TensorBoard's dependencies
def test_tensorboard_shows_each_step_once_as_the_log_has_it(tmp_path: Path):
    facts = {"epoch": 1, "nll": 2.0, "learning_rate": 0.5, "gradient_norm": 1.0}
    with RunLog(tmp_path) as log:
        for step, loss in ((1, 4.0), (2, 3.5), (3, 3.0)):
            log.step({"step": step, "loss": loss} | facts)
    with RunLog(tmp_path, step=1) as log:  # resumed after step 1
        log.step({"step": 2, "loss": 3.25} | facts)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("training/loss")] == [(1, 4.0), (2, 3.25)]
    assert [e.value for e in events.Scalars("training/learning_rate")] == [0.5, 0.5]


def test_resuming_through_a_link_leaves_the_events_of_another_run(tmp_path: Path):
    facts = {"epoch": 1, "nll": 2.0, "learning_rate": 0.5, "gradient_norm": 1.0, "loss": 4.0}
    other, linked = tmp_path / "other", tmp_path / "linked"
    other.mkdir()
    linked.mkdir()
    with RunLog(other) as log:
        for step in (1, 2, 3):
            log.step({"step": step} | facts)
    before = {path: path.read_bytes() for path in (other / "tensorboard").iterdir()}
    (linked / "tensorboard").symlink_to(other / "tensorboard")
    with RunLog(linked, step=1) as log:
        log.step({"step": 2} | facts)
    found = {path: path.read_bytes() for path in (other / "tensorboard").iterdir()}
    assert found.items() > before.items()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_run_that_is_moved_meanwhile_ends_with_one_line(tmp_path: Path):
    facts = {"epoch": 1, "nll": 2.0, "learning_rate": 0.5, "gradient_norm": 1.0, "loss": 4.0}
    (tmp_path / "run").mkdir()
    log = RunLog(tmp_path / "run")
    log.step({"step": 1} | facts)
    (tmp_path / "run").rename(tmp_path / "moved")
    with pytest.raises(InputError, match="was moved or removed during training"):
        log.step({"step": 2} | facts)
    log.__exit__()
    assert [line["step"] for line in read_log(tmp_path / "moved")] == [1, 2]


def test_an_error_of_tensorboards_thread_is_raised_and_not_printed(tmp_path: Path, monkeypatch):
    printed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    log = RunLog(tmp_path)
    shutil.rmtree(tmp_path / "tensorboard")  # a validation does not check whether it exists
    with pytest.raises(FileNotFoundError):
        for step in range(1, 100):
            log.validation(step, Validation(2.5, 1.0, 1.0, "s", [("a", "b", "c")]))
    with contextlib.suppress(FileNotFoundError):
        log.__exit__()
    assert printed == []


def test_a_validation_made_again_is_in_the_log_once_and_its_step_stays(tmp_path: Path):
    """A run may crash after it logs a validation and before the checkpoint has the result."""
    facts = {"epoch": 1, "nll": 2.0, "learning_rate": 0.5, "gradient_norm": 1.0}
    with RunLog(tmp_path) as log:
        log.step({"step": 5, "loss": 4.0} | facts)
        log.validation(5, Validation(2.5, 1.0, 1.0, "s", [("a", "b", "c")]))
    with RunLog(tmp_path, step=5, validated=3) as log:
        log.validation(5, Validation(2.5, 1.0, 2.0, "s", [("a", "b", "c")]))
    found = [(line["step"], line.get("bleu")) for line in read_log(tmp_path)]
    assert found == [(5, None), (5, 2.0)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised by TensorBoard's dependencies
def test_the_outcome_of_a_run_is_shown_beside_its_settings(tmp_path: Path):
    from tensorboard.plugins.hparams import metadata

    for max_steps, bleu in ((12, 20.0), (24, 30.0)):  # finished, then continued
        config = make_settings(tmp_path, tmp_path, training__max_steps=max_steps)
        scores = {"loss": 2.0, "nll": 1.0, "ppl": 2.7, "bleu": bleu, "chrf": 40.0}
        with RunLog(tmp_path, step=max_steps) as log:
            log.model(config, {"step": max_steps, "validation": scores | {"bleu_signature": "s"}})
    board = EventAccumulator(str(tmp_path / "tensorboard" / "outcome-24"))
    board.Reload()
    assert [(e.step, e.value) for e in board.Scalars("model/bleu")] == [(24, 30.0)]
    plugin = board.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data
    shown = metadata.parse_session_start_info_plugin_data(plugin.content).hparams
    assert shown["training.max_steps"].number_value == 24
    assert shown["model.norm"].string_value == "post"
    plugin = board.SummaryMetadata(metadata.EXPERIMENT_TAG).plugin_data
    metrics = metadata.parse_experiment_plugin_data(plugin.content).metric_infos
    assert {each.name.tag for each in metrics} == {f"model/{name}" for name in scores}
