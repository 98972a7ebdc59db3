"""Files of the user in the data directory are reported and never changed."""

import json
from pathlib import Path

import pytest

from nmt.cli import main
from nmt.data.prepare import prepare
from nmt.data.prepared_data import PreparedData
from nmt.errors import InputError
from nmt.storage import manifest

APPLICATION = json.dumps({"name": "app", "files": {"index.html": {}}})


def run(config) -> None:
    prepare(config, note=lambda line: None)


def test_a_manifest_of_another_program_is_named_and_stays(settings, tmp_path: Path):
    data = tmp_path / "data"
    path = data / manifest.NAME
    data.mkdir()
    path.write_text(APPLICATION)
    with pytest.raises(InputError, match=rf"{path} was not created by nmt prepare"):
        run(settings(data__directory=str(data)))
    assert path.read_text() == APPLICATION
    path.unlink()
    run(settings(data__directory=str(data)))
    path.write_bytes(path.read_bytes()[:3000])  # of ours, damaged
    run(settings(data__directory=str(data)))
    PreparedData.open(data).verify_files()


@pytest.mark.parametrize("name", ["model", "checkpoint", "ctranslate2"])
def test_a_model_is_no_place_for_data_and_stays(settings, tmp_path: Path, name: str, capsys):
    """All of them have a manifest of nmt and a tokenizer, as prepared data does."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "tokenizer.model").write_text("mine")
    manifest.write(folder, name, {"step": 1})
    before = {path: path.read_bytes() for path in folder.iterdir()}
    config = tmp_path / "config.yaml"
    config.write_text(settings(data__directory=str(folder)).to_yaml())
    assert main(["prepare", str(config)]) == 2
    said = capsys.readouterr().err
    assert f"{folder}/manifest.json was not created by nmt prepare, " in said
    assert main(["train", str(config)]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"{folder} is a {name} directory. Choose another data.directory.\n")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["train/.tmp-notes.txt", "test_set/.tmp-mine", ".work/.tmp-notes"])
def test_a_persons_temporary_file_is_named_and_stays(settings, tmp_path: Path, name: str):
    data = tmp_path / "data"
    run(settings(data__directory=str(data)))
    path = data / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(InputError, match=str(path)):
        run(settings(data__directory=str(data), data__max_length=12))
    assert path.read_text() == "mine"
