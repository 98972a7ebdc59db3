"""Hostile models with matching manifests, and reading a run during training."""

import json
import os
import pickle
import resource
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from nmt.cli import main
from nmt.config import Config
from nmt.errors import DeniedError, LastingError, NoModelError
from nmt.runs import checkpoint as checkpoints
from nmt.runs.model_directory import (
    find_model,
    load_model,
    new_transformer,
    open_model,
    save_model,
)
from nmt.runs.run_directory import RunDirectory
from nmt.runs.tensor_files import read_tensors, shapes_of
from nmt.storage import manifest
from tests.hostile import Canary
from tests.patience import PATIENCE_S
from tests.runs.steps import save_step

CPU = torch.device("cpu")


@pytest.fixture
def model(config: Config, files: dict[str, bytes], hashes: dict[str, str], tmp_path: Path) -> Path:
    """A valid model with random weights."""
    transformer = new_transformer(config)
    transformer.initialize(1)
    folder = tmp_path / "model"
    save_model(folder, config, files, transformer.state_dict(), hashes | {"step": 1})
    return folder


def describe(folder: Path, **changes: Any) -> None:
    """Writes a manifest that matches the current content of the folder."""
    content = manifest.read(folder, "model")
    facts = {
        key: content[key] for key in ("step", "tokenizer_sha256", "data_sha256", "target_symbols")
    }
    manifest.write(folder, "model", facts)
    manifest.rewrite(folder, manifest.read(folder, "model") | changes)


def refusal(capsys: pytest.CaptureFixture[str], folder: Path, status: int = 3) -> str:
    """Returns the error, on one line, with which `nmt translate` refuses a model."""
    assert main(["translate", str(folder), "--input", os.devnull]) == status
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("nmt: error: ")
    return line


def test_r15_tokenizer_or_vocabulary_of_another_model(model: Path, capsys):
    own = manifest.read(model, "model")["tokenizer_sha256"]
    (model / "tokenizer.model").write_bytes((model / "tokenizer.model").read_bytes() + b"\x1a\x00")
    other = manifest.file_hash(model / "tokenizer.model")
    assert "but the manifest lists" in refusal(capsys, model)
    describe(model)  # as if someone had repaired the manifest
    line = refusal(capsys, model)
    assert own[:12] in line and other[:12] in line and "the tokenizer of another model" in line
    describe(model, tokenizer_sha256=other)
    assert main(["translate", str(model), "--input", os.devnull]) == 0
    capsys.readouterr()
    text = (model / "config.yaml").read_text()
    (model / "config.yaml").write_text(text.replace("vocabulary_size: 400", "vocabulary_size: 401"))
    describe(model, tokenizer_sha256=other)
    assert "has 400 tokens, but the configuration requires 401" in refusal(capsys, model)


@pytest.mark.parametrize("text", ["", "[]", "3"])
def test_a_configuration_without_settings_is_one_line(model: Path, text: str, capsys):
    (model / "config.yaml").write_text(text)
    describe(model)
    assert "no settings" in refusal(capsys, model)


def test_r15_data_or_tokenizer_of_another_run(settings, tiny_data, tmp_path: Path, capsys):
    shutil.copytree(tiny_data / "data", tmp_path / "data")
    path = tmp_path / "config.yaml"
    path.write_text(
        settings(
            data__directory=str(tmp_path / "data"), data__validation=[], training__max_steps=1
        ).to_yaml()
    )
    content = manifest.read(tmp_path / "data", "data")
    del content["settings"]["data"]["validation"]  # an empty list is the default
    content["shards"]["validation"] = []
    manifest.rewrite(tmp_path / "data", content)
    assert main(["train", str(path)]) == 0
    manifest.rewrite(tmp_path / "data", content | {"data_sha256": "0" * 64})
    capsys.readouterr()
    assert main(["train", str(path), "training.max_steps=2"]) == 3
    [line] = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert "0" * 12 in line and content["data_sha256"][:12] in line


def tensor_file(header: dict[str, Any] | bytes, data: bytes = b"", length: int = -1) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length < 0 else length) + text + data


def hostile_models(sound: Path, place: Path) -> dict[str, str]:
    """Writes model directories; maps each to a part of its error message."""
    canary = Canary(place / "canary")
    weights = new_transformer(load_model(sound, device=CPU).config).state_dict()
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    late = entry | {"data_offsets": [4, 12]}
    biased = next(key for key in weights if key.endswith("bias"))
    huge = 100_000_000  # numbers, in a sparse file without blocks on the disk
    sparse = json.dumps({"x": entry | {"shape": [huge], "data_offsets": [0, 4 * huge]}}).encode()

    def safetensors(content: bytes) -> Callable[[Path], object]:
        return lambda folder: (folder / "model.safetensors").write_bytes(content)

    def tensors(changes: dict[str, Any]) -> Callable[[Path], object]:
        changed = {k: v.contiguous() for k, v in (weights | changes).items() if v is not None}
        return safetensors(save(changed))

    def config(old: str, new: str) -> Callable[[Path], object]:
        text = (sound / "config.yaml").read_text()
        assert old in text
        return lambda folder: (folder / "config.yaml").write_text(text.replace(old, new))

    def sparse_file(folder: Path) -> None:
        with (folder / "model.safetensors").open("wb") as file:
            file.write(tensor_file(sparse))
            file.truncate(8 + len(sparse) + 4 * huge)

    def zip_of_torch(folder: Path) -> None:
        torch.save({"x": canary}, folder / "model.safetensors")

    def no_file(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        os.mkfifo(folder / "model.safetensors")
        # has content, so that a process that opens it is detected and does not block
        os.write(os.open(folder / "model.safetensors", os.O_RDWR), bytes(50_000))

    def endless(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").symlink_to("/dev/zero")

    pickled, unsound = pickle.dumps(canary), "not a valid safetensors file"
    run_canary = f"!!python/object/apply:os.system ['touch {canary.path}']"
    cases: list[tuple[str, Callable[[Path], object]]] = [
        (unsound, safetensors(pickled)),
        (unsound, zip_of_torch),
        (unsound, safetensors(b"")),
        ("its header of 10,737,418,240 bytes", safetensors(tensor_file(b"{}", length=10 << 30))),
        ("its header of 90,000,000 bytes", safetensors(tensor_file(b"{}", length=90_000_000))),
        (unsound, safetensors(tensor_file(b"{}", length=9_000_000))),
        (unsound, safetensors(tensor_file(b"[" * 100_000))),
        (unsound, safetensors(tensor_file({"a": entry, "b": late}, b"x" * 12))),
        (unsound, safetensors(tensor_file({"a": late}, b"x" * 12))),
        (unsound, safetensors(tensor_file({"a": entry}, b"x" * 4))),
        (unsound, safetensors(tensor_file({"a": entry | {"shape": [1 << 62] * 2}}, b"x" * 8))),
        ("type F16", tensors({biased: weights[biased].half()})),
        ("type I64", tensors({biased: weights[biased].long()})),
        ("has a tensor extra that the conf", tensors({"extra": torch.zeros(1)})),
        (f"has no tensor {biased}, which", tensors({biased: None})),
        (f"Tensor {biased} in ", tensors({biased: weights[biased][None]})),
        ("which the configuration requires", sparse_file),
        ("not a regular file", no_file),
        ("not a regular file", endless),
        ("model.d_model must be", config("d_model: 32", "d_model: 1000000000")),
        ("100000", config("d_model: 32", "d_model: 100000")),
        ("tensor decoder.10.", config("decoder_layers: 2", "decoder_layers: 20")),
        ("model.encoder_layers must be", config("encoder_layers: 2", "encoder_layers: 100000000")),
        ("decoding.beam must be", config("beam: 2", "beam: 100000000")),
        ("extra_length must be", config("max_extra_length: 10", f"max_extra_length: {10**12}")),
        ("Invalid YAML", config("beam: 2", f"beam: {run_canary}")),
        ("Unknown key base", config("decoding:", "base: /dev/tty\ndecoding:")),
        ("not a valid tokenizer", lambda folder: (folder / "tokenizer.model").write_bytes(pickled)),
    ]
    made = {}
    for number, (expected, spoil) in enumerate(cases):
        folder = place / f"hostile-{number:02}"
        shutil.copytree(sound, folder)
        spoil(folder)
        if (folder / "model.safetensors").is_file():
            describe(folder, tokenizer_sha256=manifest.file_hash(folder / "tokenizer.model"))
        else:
            content = manifest.read(folder, "model")
            content["files"]["model.safetensors"] = {"size": 0, "sha256": "0" * 64}
            manifest.rewrite(folder, content)
        made[str(folder)] = expected
    sound_files = manifest.read(sound, "model")["files"]
    for changes in (
        {"files": {f"../{sound.name}/config.yaml": sound_files["config.yaml"]}},
        {"files": {"/etc/passwd": sound_files["config.yaml"]}},
        {"files": sound_files | {"a\0b": sound_files["config.yaml"]}},
        {"files": sound_files | {"\ud800": sound_files["config.yaml"]}},
        {"files": [1]},
        {"files": {"config.yaml": {"size": "1", "sha256": "x"}}},
        {"format_version": "1"},
        {"format_version": 0},
        {"step": "1"},
        {"tokenizer_sha256": 5},
        {"kind": "\x1b[2Jmodel"},
    ):
        folder = place / f"manifest-{len(made)}"
        shutil.copytree(sound, folder)
        content = manifest.read(folder, "model") | changes
        content["sha256"] = manifest.value_hash({k: v for k, v in content.items() if k != "sha256"})
        (folder / manifest.NAME).write_text(json.dumps(content))
        kinds = {"step": "damaged (step: ", "tokenizer_sha256": "(tokenizer_", "kind": "a  [2J"}
        made[str(folder)] = kinds.get(next(iter(changes)), "manifest.json is damaged")
    return made


CHILD = """
import json, resource, sys
from nmt.runs.run_directory import RunDirectory
from nmt.cli import main

sound, *hostile = sys.argv[1:]
assert main(["translate", sound, "--input", "/dev/null"]) == 0
names = ("pickle", "marshal", "exec", "compile", "os.system", "os.exec", "os.posix_spawn",
         "os.fork", "subprocess", "socket", "shutil", "os.remove", "os.rename")
events = []

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for model in hostile:
    main(["translate", model, "--input", "/dev/null"])
growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
sys.addaudithook(lambda event, _: events.append(event) if event.startswith(names) else None)
found = [main(["translate", model, "--input", "/dev/null"]) for model in hostile]
print(json.dumps({"found": found, "events": events, "growth_mb": growth / 1024}))
"""


def test_r16_hostile_models_are_refused_and_run_nothing(model: Path, tmp_path: Path):
    """Each model matches its manifest. A child process reads all models twice. Its memory is
    measured the first time; then, with all modules imported, an audit hook records events.
    """
    hostile = hostile_models(model, tmp_path)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(model), *hostile], capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    result = json.loads(child.stdout)
    lines = child.stderr.split("\n")[:-1]
    assert result["found"] == [3] * len(hostile), lines
    assert lines[: len(hostile)] == lines[len(hostile) :]
    for line, (folder, expected) in zip(lines, hostile.items(), strict=False):
        assert line.startswith("nmt: error: ")
        assert expected in line, (folder, line)
    assert result["events"] == []
    assert result["growth_mb"] < 300
    assert not (tmp_path / "canary").exists()


def test_r16_no_tensor_is_read_before_all_are_known_to_fit(model: Path):
    state = load_model(model, device=CPU).transformer.state_dict()
    path, content = model / "model.safetensors", save(state | {"extra": torch.zeros(1)})
    path.write_bytes(content)
    with path.open("rb", buffering=0) as file:
        with pytest.raises(NoModelError, match="has a tensor extra"):
            read_tensors(file, path, shapes_of(state))
        assert file.tell() == 8 + int.from_bytes(content[:8], "little")


def test_a_file_that_changes_after_loading_has_no_effect(model: Path):
    """Another program may write a new model into the same files, or truncate them."""
    loaded = load_model(model, device=CPU).transformer.state_dict()
    before = {key: tensor.clone() for key, tensor in loaded.items()}
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + struct.pack("<f", 5))  # does not replace the inode
    assert all(torch.equal(loaded[key], tensor) for key, tensor in before.items())
    os.truncate(path, 100)  # access to a memory map would end the process
    assert all(torch.equal(loaded[key], tensor) for key, tensor in before.items())


def test_r22_a_reader_beside_a_trainer_sees_the_old_or_the_new(
    config: Config, files: dict[str, bytes], hashes: dict, tmp_path: Path
):
    run, over, steps = tmp_path / "run", threading.Event(), [1]

    def trainer() -> None:
        while not over.is_set():
            steps.append(steps[-1] + 1)
            save_step(run, steps[-1], config, files, hashes)
            checkpoints.rotate(RunDirectory(run).identity(), steps[-1], every=1, keep=1, best=None)

    save_step(run, 1, config, files, hashes)
    thread = threading.Thread(target=trainer)
    thread.start()
    notes: list[str] = []
    try:
        finds = 0
        while finds < 30 or (steps[-1] <= 3 and thread.is_alive()):
            find_model(run)
            finds += 1
        for _ in range(6):
            begun = steps[-1]
            found = load_model(run, device=CPU, note=notes.append)
            assert found.step >= begun - 1
            assert all(
                bool((t == found.step).all()) for t in found.transformer.state_dict().values()
            )
    finally:
        over.set()
        thread.join()
    assert steps[-1] > 3


def test_r28_checkpoints_are_ordered_by_step_not_by_time(
    config: Config, files: dict[str, bytes], hashes: dict, tmp_path: Path
):
    for step in (2, 10, 9):
        save_step(tmp_path, step, config, files, hashes)
    for times in ({2: 300, 9: 200, 10: 100}, dict.fromkeys((2, 9, 10), 100)):
        for step, time in times.items():
            folder = RunDirectory(tmp_path).checkpoint(step)
            for path in (*folder.iterdir(), folder):
                os.utime(path, (time, time))
        newest = checkpoints.newest(RunDirectory(tmp_path).identity(), print)
        assert newest is not None and newest.step == 10
        assert find_model(tmp_path).directory == RunDirectory(tmp_path).checkpoint(10)
        sound = checkpoints.sound_checkpoints(RunDirectory(tmp_path).identity(), 2, print)
        assert [checkpoint.step for checkpoint in sound] == [10, 9]


@pytest.mark.parametrize("version", [2, 10**9])
def test_r30_a_newer_format_stops_and_names_both_versions(
    config: Config,
    files: dict[str, bytes],
    hashes: dict,
    model: Path,
    tmp_path: Path,
    capsys,
    version: int,
):
    """Neither an older checkpoint nor the finished model is used instead."""
    expected = (
        f"format version {version}; this version of nmt supports versions up to "
        f"{manifest.FORMAT_VERSION}"
    )
    run = tmp_path / "run"
    for step in (1, 2):
        save_step(run, step, config, files, hashes)
    shutil.copytree(model, run / "model")
    for folder in (model, RunDirectory(run).checkpoint(2)):
        # a newer manifest may have other keys
        content = {"format_version": version, "entries": []}
        (folder / manifest.NAME).write_text(json.dumps(content))
    for place in (model, run, RunDirectory(run).checkpoint(2)):
        assert expected in refusal(capsys, place, status=2)
    with pytest.raises(LastingError, match=expected):
        checkpoints.newest(RunDirectory(run).identity(), print)
    with pytest.raises(LastingError, match=expected):
        next(checkpoints.sound_checkpoints(RunDirectory(run).identity(), 1, print))


def test_r30_newer_data(settings, tiny_data: Path, tmp_path: Path, capsys):
    shutil.copytree(tiny_data / "data", tmp_path / "data")
    config = settings(data__directory=str(tmp_path / "data"))
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    content = manifest.read(tmp_path / "data", "data")
    manifest.rewrite(tmp_path / "data", content | {"format_version": 7})
    for command in ("train", "prepare"):
        assert main([command, str(tmp_path / "config.yaml")]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "format version 7; this version of nmt supports versions up to 1" in line
    with pytest.raises(NoModelError, match=r"manifest\.json is damaged"):
        manifest.rewrite(tmp_path / "data", content | {"format_version": 0})
        manifest.read(tmp_path / "data", "data")


def test_r16_a_model_file_that_links_to_itself_is_damaged(model: Path, capsys):
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").symlink_to("model.safetensors")
    assert "model.safetensors is damaged (a symbolic link to itself)" in refusal(capsys, model)


def test_too_many_open_files_are_not_damage(model: Path):
    load_model(model, device=CPU)  # imports all modules
    content = manifest.read(model, "model")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[1]), limits[1]))
    taken: list[int] = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(DeniedError, match="Too many open files: "):
            open_model(model, content)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
