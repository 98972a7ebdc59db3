"""A run has a copy of its test set; files that a received model names are never read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from nmt import demo_language as demo
from nmt.cli import main
from nmt.config import validate
from nmt.data.prepare import prepare
from nmt.storage import manifest
from nmt.training.train import train
from tests.tiny import tiny_settings

SECRET = "the key under the mat"
PAIRS = [("The dog sees a cat.", "Der Hund sieht eine Katze."), ("Why?", "Warum?")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was moved after training, and whose data and test file were deleted."""
    directory = tmp_path_factory.mktemp("own")
    text = "".join(json.dumps({"en": s, "de": t}) + "\n" for s, t in PAIRS)
    (directory / "test.jsonl").write_text(text)
    columns = {"path": str(directory / "test.jsonl"), "source_column": "en", "target_column": "de"}
    content = tiny_settings(directory)
    content["data"]["test"] = [{"jsonl": columns}]
    content["training"] |= {"max_steps": 2}
    config = validate(content, {}, "tiny")
    prepare(config, note=lambda line: None)
    train(config, lambda line: None)
    (directory / "elsewhere").mkdir()
    (directory / "test.jsonl").unlink()
    shutil.rmtree(directory / "data")
    return (directory / "run").rename(directory / "elsewhere" / "moved")


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A writable copy of the run; the current directory is not that of training."""
    shutil.copytree(trained, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def evaluated(model: Path, capsys, *more: str) -> dict:
    assert main(["evaluate", str(model), "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("model", [".", "model", "checkpoints/step-00000002"])
def test_a_run_is_evaluated_wherever_it_is(run: Path, model: str, capsys):
    source, reference = run / "test_set/source.txt", run / "test_set/target.txt"
    assert source.read_text() == "".join(f"{pair[0]}\n" for pair in PAIRS)
    found = evaluated(run / model, capsys)
    assert found["sentences"] == 2
    given = evaluated(run / model, capsys, "--source", str(source), "--reference", str(reference))
    assert found == given


def test_a_report_of_a_moved_run_has_its_data_and_its_test_set(run: Path, capsys):
    assert main(["report", str(run), "--output", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert "The report is incomplete" not in capsys.readouterr().err
    assert "pairs read" in page and PAIRS[1][1] in page


def test_an_averaged_model_elsewhere_has_no_text(run: Path, tmp_path: Path, capsys):
    averaged = tmp_path / "averaged"
    assert main(["average", str(run), "--last", "1", "--output", str(averaged)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(averaged)]) == 2
    assert f"{averaged} has no copy of its test set" in capsys.readouterr().err


def test_kept_text_that_is_damaged_or_of_other_settings(run: Path, capsys):
    (run / "test_set/target.txt").write_text("Nein.\nNie.\n")
    assert main(["evaluate", str(run)]) == 3
    assert "target.txt is damaged" in capsys.readouterr().err
    shutil.rmtree(run / "model")
    configure(run / "checkpoints/step-00000002", [{"jsonl": {
        "path": "other", "source_column": "a", "target_column": "b"}}])  # fmt: skip
    assert main(["evaluate", str(run)]) == 2
    assert "no copy of its test set (jsonl other)" in capsys.readouterr().err


@pytest.mark.parametrize("model", [".", "model", "checkpoints/step-00000002"])
def test_the_test_set_of_another_run_gives_no_figure(run: Path, model: str, capsys):
    corpora = manifest.read(run / "test_set", "test set")["corpora"]
    (run / "test_set/target.txt").write_text("Nein.\nNie.\n")
    manifest.write(run / "test_set", "test set", {"corpora": corpora})
    assert main(["evaluate", str(run / model), "--output", "out"]) == 3
    [error] = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert "is not the test set that belongs to this run." in error
    assert not Path("out").exists()


@pytest.mark.parametrize("command", ["evaluate run/model", "report run", "report run/unfinished"])
def test_the_data_of_another_run_are_told(run: Path, tmp_path: Path, command: str, capsys):
    """Without a finished model, the newest checkpoint states which data belongs to the run."""
    shutil.copytree(run, run / "unfinished", ignore=shutil.ignore_patterns("model", "unfinished"))
    content = manifest.read(run, "data", "data.json") | {"data_sha256": "0" * 64}
    manifest.rewrite(tmp_path, content)
    for place in (run, run / "unfinished"):
        shutil.copy(tmp_path / "manifest.json", place / "data.json")
    assert main([*command.split(), "--output", "page.html"]) == 3
    [error] = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert "not trained on the data of this run" in error and "restore " in error
    assert not Path("page.html").exists()


def test_training_on_restores_text_that_is_damaged(settings):
    config = settings(training__max_steps=1)
    run = Path(config.training.run_directory)
    train(config, print)
    for name in ("test_set/target.txt", "test_set/manifest.json", "data.json"):
        sound = (run / name).read_bytes()
        (run / name).write_bytes(sound[:-20])
        train(config, print)
        assert (run / name).read_bytes() == sound


def configure(folder: Path, test: list[dict]) -> None:
    """Changes `data.test` of a model or checkpoint, and makes its manifest match."""
    kind = "checkpoint" if (folder / "state.json").exists() else "model"
    content = manifest.read(folder, kind)
    settings = tiny_settings(folder)
    settings["data"]["test"] = test
    (folder / "config.yaml").write_text(validate(settings, {}, "tiny").to_yaml())
    facts = {
        key: content[key] for key in ("step", "tokenizer_sha256", "data_sha256", "target_symbols")
    }
    manifest.write(folder, kind, facts)


def of_a_file(place: Path) -> list[dict]:
    (place / "secret").write_text(f"{SECRET}\n")
    return [{"text": {"source": str(place / "secret"), "target": str(place / "secret")}}]


def of_the_hub(place: Path) -> list[dict]:
    return [{"hub": "somebody/counts-who-asks", "split": "test"}]


def without_end(place: Path) -> list[dict]:
    return [{"demo": {"pairs": 999, "seed": seed}} for seed in range(20)]


@pytest.mark.parametrize("test", [of_a_file, of_the_hub, without_end])
def test_a_received_model_reads_nothing_that_it_names(
    run: Path, tmp_path: Path, test: Callable[[Path], list[dict]], monkeypatch, capsys
):
    """This holds for a single model and for a run directory that claims to be trained here."""

    def called(*_, **__):
        raise AssertionError("followed")

    monkeypatch.setattr(datasets, "load_dataset", called)
    monkeypatch.setattr(demo, "demo_pairs", called)
    shutil.rmtree(run / "checkpoints")
    configure(run / "model", test(tmp_path))
    shutil.copy(run / "model/config.yaml", run / "config.yaml")
    shutil.copytree(run / "model", tmp_path / "received")
    for model in (tmp_path / "received", run):
        assert main(["evaluate", str(model), "--output", "out"]) == 2
        (error,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
        assert "no copy of its test set" in error and "--source and --reference" in error
        assert SECRET not in error and not Path("out").exists()
    assert main(["report", str(run), "--output", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert SECRET not in page and "no copy of its test set" in page
    assert not (run / "evaluation").exists()


def test_a_small_demo_test_set_needs_no_text(run: Path, tmp_path: Path, capsys):
    shutil.copytree(run / "model", tmp_path / "received")
    configure(tmp_path / "received", [{"demo": {"pairs": 7, "seed": 1}}])
    assert evaluated(tmp_path / "received", capsys)["sentences"] == 7


def test_a_received_run_is_not_built_upon_other_files(run: Path, tmp_path: Path, capsys):
    (run / "config.yaml").rename(tmp_path / "elsewhere.yaml")
    (run / "config.yaml").write_text("base: ../elsewhere.yaml\n")
    assert main(["report", str(run), "--output", "page.html"]) == 2
    assert "Unknown key base" in capsys.readouterr().err


def test_a_folder_of_ones_own_is_not_replaced(settings, tmp_path: Path, capsys):
    (tmp_path / "run/test_set").mkdir(parents=True)
    (tmp_path / "run/test_set/mine").write_text("")
    (tmp_path / "config.yaml").write_text(settings(training__max_steps=1).to_yaml())
    assert main(["train", str(tmp_path / "config.yaml")]) == 2
    assert "run/test_set was not created by nmt train, " in capsys.readouterr().err
    assert (tmp_path / "run/test_set/mine").exists()
