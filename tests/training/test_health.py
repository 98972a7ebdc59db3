"""Runs that diverge or learn nothing with finite losses, and messages about a run."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.config import Measure
from nmt.data.shards import Shard, Side
from nmt.errors import InputError, Status
from nmt.runs.run_directory import RunDirectory
from nmt.runs.state import Best
from nmt.storage import manifest
from nmt.training import console, run_log, saving
from nmt.training import loop as training
from nmt.training import step as steps
from nmt.training.health import Divergence, rate_warnings, shortcomings, unigram_nll
from nmt.training.run_log import RunLog, read_log
from nmt.training.validation import Validation
from tests.training.runs import LITTLE, run


def test_a_run_that_diverges_with_finite_figures_ends_and_keeps_its_good_checkpoints(
    settings, monkeypatch
):
    """A good run is continued with a learning rate at which every model diverges."""
    good = settings(training__max_steps=8)
    run(good)
    directory = Path(good.training.run_directory)
    rate = steps.learning_rate
    monkeypatch.setattr(steps, "learning_rate", lambda *facts: 300 * rate(*facts))
    bad = settings(training__max_steps=60, training__checkpoint_every=1, training__validate_every=3)
    with pytest.raises(InputError, match=r"diverged at step .* in a row.*learning_rate_f") as e:
        run(bad)
    assert e.value.status == Status.DIVERGED
    assert len(e.value.problems) == 1
    nll = {line["step"]: line["nll"] for line in read_log(directory) if "event" not in line}
    assert max(nll.values()) > 20
    saved = [int(path.name[5:]) for path in directory.glob("checkpoints/step-*")]
    assert 8 in saved
    assert all(nll[step] < math.log(400) + 1 for step in saved)  # at most the first diverging step
    assert manifest.read(directory / "model", "model")["step"] == 8


def ended(config, nlls) -> int | None:
    """Returns the step at which the losses of steps 1, 2, ... count as divergence, or None."""
    divergence = Divergence(config)
    for step, nll in enumerate(nlls, start=1):
        try:
            divergence.is_diverging(step, nll)
        except InputError:
            return step
    return None


def test_what_counts_as_divergence(settings):
    """Guessing among 400 tokens has nll ln 400 = 5.99; during warm-up, the limit is 3 ln 400."""
    config = settings(training__max_steps=2000, training__warmup_steps=50)
    assert ended(config, [348.0] * 200) == 100  # counts from step 1
    assert ended(config, [8.0] * 200) == 149
    assert ended(config, [6.5] * 200) is None  # as high as a new model's
    assert ended(config, [16.0] * 49 + [6.9] * 500) is None  # as in fine-tuning on other text
    assert ended(config, ([2.0] * 60 + [30.0] * 99) * 3) is None  # temporary spikes
    short = settings(training__max_steps=30, training__warmup_steps=50)
    assert ended(short, [348.0] * 30) == 10


def test_the_frequencies_of_pieces_by_hand():
    def shard(*ids: int) -> Shard:
        side = Side(np.array(ids, np.int32), np.array([0, len(ids)], np.int32))
        return Shard(Path("x"), side, side, 1.0, 0)

    assert unigram_nll([shard(5, 5), shard(9, 7)]) == pytest.approx(1.5 * math.log(2))
    assert unigram_nll([]) == 0


def test_a_run_that_learns_nothing_says_so(settings, capsys):
    directory, _ = run(
        settings(
            training__max_steps=2, training__learning_rate_factor=1e-9, training__log_every=9,
            training__average_last=1,
        )
    )  # fmt: skip
    said = capsys.readouterr().err
    assert re.search(
        r"^validation at step 2: .*almost nothing learned so far.* nll of 4\.\d+\)$", said, re.M
    )
    warning = re.search(
        r"^nmt: warning: (The model in .* has learned almost nothing.*Continue the training.*)$",
        said,
        re.M,
    )
    assert warning
    told = manifest.read(directory / "model", "model")["warnings"]
    assert told[1:] == [warning[1]]
    assert "will rise until the last step" in told[0] and said.count(told[0]) == 1


@pytest.mark.parametrize(
    ("precision", "has_bf16", "expected"),
    [("bf16", False, 1), ("bf16", True, 0), ("fp32", False, 0)],
)
def test_emulated_bf16_is_warned_of(settings, monkeypatch, capsys, precision, has_bf16, expected):
    monkeypatch.setattr("nmt.training.begin.supports_bf16", lambda device: has_bf16)
    run(settings(**LITTLE, training__max_steps=1, training__precision=precision))
    assert capsys.readouterr().err.count("no instructions for bf16") == expected


GOOD = {"nll": 2.0, "bleu": 20.0, "chrf": 40.0, "unigram_nll": 5.0}
WORSE = {"bleu": 15.0, "chrf": 39.0, "nll": 2.5}


@pytest.mark.parametrize("by", WORSE)
def test_a_mean_that_is_worse_than_a_single_step_is_told(by: Measure):
    """Only the chosen measure counts, and an equal value is not worse."""
    directory, best = RunDirectory(Path("r")), Best()
    assert shortcomings(GOOD, best, by, directory) == []  # without an earlier validation
    assert best.update(3, GOOD, by)
    [told] = shortcomings(GOOD | {by: WORSE[by]}, best, by, directory)
    name = {"bleu": "BLEU", "chrf": "chrF", "nll": "nll"}[by]
    best_step = f"the best checkpoint, step 3 ({name} {GOOD[by]:.3f})"
    assert f"r is worse ({name} {WORSE[by]:.3f}) than {best_step}" in told
    assert "Use r/checkpoints/step-00000003, set training.finished_model to better, or" in told
    others = {measure: value for measure, value in WORSE.items() if measure != by}
    assert shortcomings(GOOD | others, best, by, directory) == []
    [told] = shortcomings(GOOD | {"nll": 4.1, "bleu": 0.0}, best, by, directory)
    assert "almost nothing" in told


@pytest.mark.parametrize("by", WORSE)
def test_the_best_is_chosen_by_the_measure(by: Measure):
    best = Best()
    assert best.update(2, GOOD, by)
    assert not best.update(4, GOOD, by)  # with equal scores, the earlier step stays
    assert not best.update(6, GOOD | {by: WORSE[by]}, by)
    assert best.model_dump() == {
        "step": 2, "bleu": 20.0, "chrf": 40.0, "nll": 2.0, "worse_since": 2, "validated": 6,
    }  # fmt: skip
    assert not Best(step=2).beats(GOOD, by)  # a state without scores
    assert best.update(8, WORSE | {by: GOOD[by] + (-1 if by == "nll" else 1)}, by)
    assert (best.step, best.worse_since) == (8, 0)


def test_fewer_checkpoints_than_wanted_are_told_in_the_models_facts(settings, capsys):
    directory, _ = run(settings(training__average_last=3, training__max_steps=8))
    told = "was made from 2 checkpoints, but training.average_last is 3. "
    [warning] = [line for line in capsys.readouterr().err.splitlines() if told in line]
    assert warning.startswith("nmt: warning: ")
    facts = manifest.read(directory / "model", "model")
    assert warning.removeprefix("nmt: warning: ") in facts["warnings"]
    assert facts["averaged_steps"] == [4, 8]


def test_progress_has_what_a_person_wants_to_know(settings, capsys):
    """The first step after a start or resumption is shown at once; every step shown is logged."""
    directory, _ = run(settings(training__max_steps=5, training__log_every=4))
    run(settings(training__max_steps=7, training__log_every=4))
    said = capsys.readouterr().err
    shown = re.findall(
        r"^step (\d+)/\d+ epoch 1 loss [\d.]+ nll [\d.]+ lr \d\.\de-\d\d \d+ target tokens/s"
        r"(, \d+ s left)?$",
        said, re.M,
    )  # fmt: skip
    assert [(int(step), bool(left)) for step, left in shown] == [
        (1, True), (4, True), (5, False), (6, True), (7, False),
    ]  # fmt: skip
    logged = [line["step"] for line in read_log(directory) if "event" not in line]
    assert logged == [1, 4, 5, 6, 7]
    assert re.search(r"^Training on .+, \d+ threads?\.$", said, re.M)
    assert re.search(r"^An epoch has [\d,]+ target tokens and takes about \d+ steps\.$", said, re.M)


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """A simulated clock for the log of a run."""
    clock = SimpleNamespace(now=0.0)
    for module in (console, run_log):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_speed_is_that_of_steps_alone(settings, clock, monkeypatch):
    """A step takes one second; a validation and a checkpoint take a thousand seconds each."""

    def taking(seconds: float, function):
        def timed(*arguments):
            clock.now += seconds
            return function(*arguments)

        return timed

    for owner, name, seconds in (
        (training, "optimizer_step", 1), (training, "validate", 1000),
        (saving.CheckpointWriter, "save", 1000),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, taking(seconds, getattr(owner, name)))
    changes = {"training__checkpoint_every": 2, "training__validate_every": 3}
    directory, _ = run(settings(**changes, training__max_steps=6))
    steps = [line for line in read_log(directory) if "event" not in line]
    speeds = [line["tokens_per_second"] for line in steps]
    assert speeds == [line["target_tokens"] for line in steps]


def test_the_time_left_is_at_the_pace_of_this_sitting(tmp_path: Path, clock, capsys):
    facts = {"epoch": 1, "loss": 2.0, "nll": 2.0, "learning_rate": 0.5, "gradient_norm": 1.0}
    with RunLog(tmp_path, step=90, max_steps=100) as log:
        clock.now += 10
        log.step({"step": 91} | facts)
    assert ", 90 s left" in capsys.readouterr().err


def test_a_warm_up_beyond_the_run_is_not_to_be_longer(settings):
    steps = {"training__warmup_steps": 1000, "training__max_steps": 500}
    too_high, rising = rate_warnings(settings(**steps, training__learning_rate_factor=60.0))
    assert too_high.endswith(". Lower training.learning_rate_factor (60).")
    assert "Lower training.warmup_steps" in rising
    fine_tuned = settings(**steps, training__initialize_from="m")
    assert rate_warnings(fine_tuned) == []


def test_a_rate_that_is_too_high_is_told_before_the_first_step(settings, capsys):
    """The limit is 0.08 / sqrt(32) = 0.0141; 10 steps of warm-up reach 2.5 / sqrt(320) = 0.14."""
    run(settings(training__max_steps=1, training__learning_rate_factor=2.5))  # ends at 0.0140
    said = capsys.readouterr().err
    assert "will rise to" not in said
    longer = "training.warmup_steps is 10, but training.max_steps is 1. Lower training.warmup_steps"
    assert longer in said and said.index(longer) < said.index("step 1/1")
    run(settings(training__max_steps=10, training__learning_rate_factor=2.5))
    said = capsys.readouterr().err
    assert (
        "\nnmt: warning: The learning rate will rise to 1.4e-01, but models with d_model 32" in said
    )
    assert said.index("will rise to") < said.index("step 2/10")
    assert "until the last step" not in said  # the warm-up is as long as the run


def test_a_huge_perplexity_is_printed_in_short(tmp_path, capsys):
    result = Validation(401.3, 401.3, 0.0, "s", [], 5.0)
    with RunLog(tmp_path) as log:
        log.validation(1, result)
    assert "ppl 1.9e+174 bleu" in capsys.readouterr().err
