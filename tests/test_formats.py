"""What an earlier nmt has written: it is read as it was, and not written otherwise unnoticed.

`fixtures/format_N` is what the code of format version N wrote, made once by `fixtures/make.py`,
with what that code said of it in `expected.json`.
"""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from safetensors import safe_open

from nmt.config import strict_yaml
from nmt.storage import manifest
from nmt.training.run_log import read_log
from tests.fixtures.make import FROZEN, MORE_STEPS, STEPS, make, nmt, observe

NEWEST = FROZEN[-1].parent / f"format_{manifest.FORMAT_VERSION}"

# What has been written besides since the newest fixture was made, each as `form` names it. Only
# what every nmt of that format version can do without, and whose absence means what was before.
ADDED = {
    "data/test_set",
    "data/test_set/source.txt",
    "data/test_set/target.txt",
    "run/model/manifest.json: validation.unigram_nll",
    "run/model/manifest.json: validation.chrf",
    "run/model/manifest.json: validation.chrf_signature",
    "run/model/manifest.json: warnings[]",
    "run/checkpoints/step-N/state.json: best.chrf",
    "run/checkpoints/step-N/state.json: best.nll",
    "run/checkpoints/step-N/state.json: path",
    # of a step that was validated after it was saved; without it, it is validated again
    *(
        f"run/checkpoints/step-N/manifest.json: state.{key}"
        for key in ("step", "elapsed_s", "world_size", "threads", "torch")
    ),
    *(
        f"run/checkpoints/step-N/manifest.json: state.best.{key}"
        for key in ("step", "bleu", "chrf", "nll", "worse_since", "validated")
    ),
    *(f"run/{folder}/config.yaml: data.shortlist" for folder in ("checkpoints/step-N", "model")),
    *(
        f"run/{folder}/config.yaml: training.{key}"
        for folder in ("checkpoints/step-N", "model")
        for key in ("best_by", "finished_model")
    ),
}

# What is not written any more: an older nmt of that format version takes its absence for the same.
DROPPED = {
    f"run/{folder}/config.yaml: tokenizer.bpe_dropout" for folder in ("checkpoints/step-N", "model")
}

ADVICE = (
    "What nmt writes has changed while its format version has not. Either raise FORMAT_VERSION in "
    "nmt/storage/manifest.py, go on reading what is below it, and run tests/fixtures/make.py for "
    "fixtures of the new format beside the old. Or, if it is something more that an nmt of this "
    "version does without (a setting whose default means what was before), put it into ADDED here."
)


def copied(fixture: Path, to: Path) -> Path:
    """A copy that may be written, of a checkout that perhaps may not."""
    for path in fixture.rglob("*"):
        if path.is_file():
            target = to / path.relative_to(fixture)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return to


@pytest.fixture(params=FROZEN, ids=lambda path: path.name)
def frozen(request, tmp_path: Path, monkeypatch) -> dict[str, Any]:
    """The expectations of a fixture; the current directory is a copy of it."""
    monkeypatch.chdir(copied(request.param, tmp_path / "frozen"))
    return json.loads(Path("expected.json").read_text(encoding="utf-8"))


def test_the_format_of_today_has_its_fixture():
    assert NEWEST in FROZEN, "run tests/fixtures/make.py and keep what it writes"
    assert sum(path.stat().st_size for path in NEWEST.rglob("*")) < 600_000


def test_a_frozen_run_is_read_translated_scored_and_trained_on(frozen, capsys):
    found, said = observe(), capsys.readouterr().err
    for name in ("translate", "checkpoint"):
        assert found[name] == frozen[name]
    for line, wanted in zip(found["n_best"], frozen["n_best"], strict=True):
        (index, score, text), (wanted_index, wanted_score, wanted_text) = (
            row.split("\t") for row in (line, wanted)
        )
        assert (index, text) == (wanted_index, wanted_text)
        assert float(score) == pytest.approx(float(wanted_score), abs=1e-4)
    scores = [float(score) for score in found["score"]]
    assert scores == pytest.approx([float(score) for score in frozen["score"]], abs=1e-4)
    assert found["bleu"] == pytest.approx(frozen["bleu"], abs=1e-6)
    assert f"resumed from step {STEPS}" in said
    assert "cleaning" not in said  # the data were taken as they are
    assert len(found["losses"]) == MORE_STEPS
    assert found["losses"] == pytest.approx(frozen["losses"], abs=1e-5)


def test_frozen_data_need_no_preparing(frozen, capsys):
    before = {path: path.read_bytes() for path in Path("data").rglob("*") if path.is_file()}
    nmt("prepare", "config.yaml")
    assert "data is prepared already and whole: nothing to do" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in before}


def test_a_frozen_run_is_averaged_described_and_reported(frozen):
    validations = [line for line in read_log(Path("run")) if line.get("event") == "validation"]
    nmt("average", "run", "--last", "3", "--output", "mean")
    content = json.loads(nmt("info", "mean", "--json"))
    assert content["vocabulary_size"] == 320
    nmt("report", "run", "--output", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert f"{validations[-1]['bleu']:.2f}" in page


def form(folder: Path) -> dict[str, str]:
    """What written files consist of: "path: key" -> its kind. Numbers in names count as one."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = re.sub(r"\d+", "N", str(path.relative_to(folder)))
        if path.suffix == ".json":
            keys = dict(_kinds(json.loads(path.read_text(encoding="utf-8"))))
        elif path.suffix == ".yaml":
            keys = dict(_kinds(strict_yaml.read(path)[0]))
        elif path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                parts = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
                keys = {k: f"{part.get_dtype()} {part.get_shape()}" for k, part in parts.items()}
        elif path.suffix == ".arrow":
            with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
                keys = {field.name: str(field.type) for field in reader.schema}
        else:
            keys = {}
        found |= {name: "folder" if path.is_dir() else "file"}
        found |= {f"{name}: {key}": kind for key, kind in keys.items()}
    return found


_OPEN = {"files", "inputs", "dropped", "repaired"}  # mappings whose keys are no part of a format


def _kinds(value: Any, key: str = ""):
    if isinstance(value, dict):
        is_open = key.rpartition(".")[2] in _OPEN
        for name, part in value.items():
            yield from _kinds(part, f"{key}.{'*' if is_open else name}".lstrip("."))
    elif isinstance(value, list):
        for part in value:
            yield from _kinds(part, f"{key}[]")
    else:
        yield key, type(value).__name__


@pytest.mark.parametrize("part", ["data", "run/checkpoints", "run/model"])
def test_what_is_written_today_is_what_the_frozen_fixture_holds(part: str, written: Path):
    found, wanted = form(written / part), form(NEWEST / part)
    assert len(wanted) > 30
    found = {f"{part}/{key}": kind for key, kind in found.items()}
    wanted = {f"{part}/{key}": kind for key, kind in wanted.items()}
    changed = {
        key: (wanted.get(key, "nothing"), found.get(key, "nothing"))
        for key in (wanted.keys() - DROPPED) | (found.keys() - ADDED)
        if wanted.get(key) != found.get(key)
    }
    assert not changed, f"{changed} (what it was, what it is). {ADVICE}"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fixture as today's code writes it, but for three short stretches of training."""
    folder = tmp_path_factory.mktemp("written") / "format"
    often = [f"training.{key}=2" for key in ("checkpoint_every", "validate_every")]
    with contextlib.redirect_stderr(None):
        make(folder, "training.max_steps=6", *often)
    return folder
