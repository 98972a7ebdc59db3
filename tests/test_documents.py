"""What README and recipes tell a reader to type works, in the order in which they tell it.

Every `nmt` line is parsed as the command parses it, and what it reads must be there: in the
repository, made by a line before it, or a file of the reader's own. What needs no download is run,
training with sizes for tests; where a finished run is needed whose training is not, a frozen one
stands in for it.
"""

import difflib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from nmt import cli
from nmt.benchmark import machine, training, translating
from nmt.cli import main
from nmt.cli.parser import parse
from nmt.config import Config, Hub, load, load_resolved
from nmt.data import test_set, workers
from nmt.errors import InputError
from nmt.storage import manifest
from nmt.storage.names import TEST_SET
from recipes.back_translation import halves
from recipes.paper_figures import paper_figures
from recipes.speed import compare
from recipes.table3 import table3
from recipes.your_own_text import stand_in
from tests.documents import DOCUMENTS, PROGRAMS, ROOT, Command, commands, links, yaml_files
from tests.fixtures.make import FROZEN

COMMANDS = {document: commands(document) for document in DOCUMENTS}
ALL = [command for found in COMMANDS.values() for command in found]
IDS = [str(document.relative_to(ROOT)) for document in DOCUMENTS]
RUNS = {
    load(path).training.run_directory: path
    for path in [*ROOT.glob("configs/**/*.yaml"), *ROOT.glob("recipes/**/*.yaml")]
}
SMALL = [
    "tokenizer.vocabulary_size=380", "model.encoder_layers=1", "model.decoder_layers=1",
    "model.d_model=16", "model.d_ff=16", "model.heads=2", "model.d_k=8", "model.d_v=8",
    "training.max_steps=2", "training.average_last=1", "training.precision=fp32",
    "decoding.beam=1", "decoding.max_extra_length=2",
]  # fmt: skip
SMALL_DEMO = ["data.train=[{demo: {pairs: 150}}]", "data.test=[{demo: {pairs: 9}}]"]
STANDS_FOR = {  # words of a sentence that a reader replaces
    "CONFIG": "configs/demo.yaml", "MODEL": "runs/demo", "RUN": "runs/demo", "NAME": "demo",
    "F": "news.en", "F.html": "new.html", "DIR": "new", "TEXT": "The man reads.", "L": "de",
    "KEY=VALUE": "training.max_steps=3",
}  # fmt: skip
OFFERED = {"news.en": "train.en", "news.de": "train.de"}  # the reader's own, from the frozen text
OFFERED |= {
    f"{corpus}{s}.{side}": f"{s}.{side}"
    for corpus in ("", "second.")
    for s in ("train", "valid", "test")
    for side in ("en", "de")
}
NEEDS_A_DOWNLOAD = {"--test-set", "--comet"}
READ = (
    "config",
    "model",
    "runs",
    "source",
    "target",
    "reference",
    "hypothesis",
    "baseline",
    "input",
    "ensemble",
    "prefix_file",
)


def nmt_words(command: Command) -> list[str] | None:
    """The arguments of the `nmt` in a line, after a pipe or in torchrun; None if there is none.

    Also None if the line only names a command, as sentences do.
    """
    words = shlex.split(command.text)
    if ">" in words:
        words = words[: words.index(">")]
    starts = [i for i, word in enumerate(words) if word.removeprefix(".venv/bin/") == "nmt"]
    calls = [i for i in starts if i == 0 or words[i - 1] in ("|", "-m")]
    if not calls:
        return None
    found = words[calls[0] + 1 :]
    if not command.is_block:
        found = [STANDS_FOR.get(word, word) for word in found]
    return found if len(found) > 1 or found == ["config"] else None


def test_the_documents_are_read():
    """A change of how they are written must not leave them unread."""
    assert len(DOCUMENTS) >= 8
    assert all(COMMANDS.values())
    assert len([c for c in ALL if c.program in PROGRAMS and nmt_words(c)]) > 35


@pytest.mark.parametrize("command", [c for c in ALL if c.is_block], ids=lambda c: c.where)
def test_no_program_is_misspelt(command: Command):
    near = difflib.get_close_matches(command.program, PROGRAMS, n=1, cutoff=0.7)
    assert command.program in PROGRAMS or not near, f"{command.program}: {near[0]}?"


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_links_lead_somewhere(document: Path):
    missing = [link for link in links(document) if not (document.parent / link).exists()]
    assert missing == []


def test_the_table_of_promises_names_every_test_of_a_row():
    """tests/README.md: whatever it names exists, and tests called after a row stand in one."""
    tests = ROOT / "tests"
    text = (tests / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/*]+(?:\.py)?)::([\w*]+)`", text)
    there = [
        (path.relative_to(tests).with_suffix("").as_posix(), name)
        for path in tests.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
    ]

    def is_of(test: tuple[str, str], pattern: tuple[str, str]) -> bool:
        return fnmatch(test[0], pattern[0].removesuffix(".py")) and fnmatch(test[1], pattern[1])

    assert [pattern for pattern in named if not any(is_of(test, pattern) for test in there)] == []
    of_rows = [test for test in there if re.match(r"test_[ra]\d+_", test[1])]
    assert [test for test in of_rows if not any(is_of(test, pattern) for pattern in named)] == []
    assert len(of_rows) > 50


@pytest.fixture
def reader(tmp_path: Path, monkeypatch) -> Path:
    """The current directory: the repository's files and the reader's own, writable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "default_processes", lambda: 1)  # to start more takes longer
    monkeypatch.setattr(machine, "probe", lambda device: lambda: 1.0)  # none waits for a better
    monkeypatch.setattr(translating, "_CPU_SENTENCES", 3)
    for module in (training, translating):
        monkeypatch.setattr(module, "_ENOUGH_S", 0.0)
    for name in ("configs", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name, kept in OFFERED.items():
        shutil.copyfile(FROZEN[-1] / kept, name)
    monkeypatch.setattr(
        stand_in, "SIZES",
        {name: {"train": 60, "valid": 3, "test": 3} for name in stand_in.SIZES},
    )  # fmt: skip
    return tmp_path


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_commands_work_in_their_order(document: Path, reader: Path, monkeypatch, capfd):
    for name, text in yaml_files(document).items():
        assert not Path(name).exists(), f"{document.name}: a block would replace {name}"
        Path(name).write_text(text, encoding="utf-8")
    for command in COMMANDS[document]:
        if command.program not in PROGRAMS:
            continue  # what a command prints
        try:
            follow(command, monkeypatch)
        except (InputError, AssertionError) as error:
            pytest.fail(
                f"{command.where}: {command.text}\n{error}\n{capfd.readouterr().err[-600:]}"
            )


def follow(command: Command, monkeypatch) -> None:
    """Does what a line says, if it can be done here; checks it at least."""
    words = shlex.split(command.text)
    if command.program.startswith("python") and words[1:] and words[1].startswith("recipes/"):
        assert Path(words[1]).is_file()
        if words[1].endswith("stand_in.py"):
            stand_in.main(words[2:])
        elif words[1].endswith("halves.py") and Path(words[2]).exists():
            halves.main(words[2:])
        elif words[1].endswith("paper_figures.py"):
            paper_figures.arguments(words[2:])
        elif words[1].endswith("table3.py"):
            words = table3._arguments(words[2:]).words
            assert {word for word in words if "=" not in word} <= table3.PAPER.keys()
    elif command.program == "sed":
        *words, _, output = words  # sed ... > file
        Path(output).write_bytes(subprocess.run(words, capture_output=True, check=True).stdout)
    elif words[1:3] == ["-m", "recipes.speed.compare"]:
        compare._arguments(words[3:])
    elif (arguments := nmt_words(command)) and "COMMAND" not in arguments:
        run(arguments, command, monkeypatch)


def run(arguments: list[str], command: Command, monkeypatch) -> None:
    parsed = parse(cli.COMMANDS, arguments)
    name = arguments[0]
    for key in READ:
        value = getattr(parsed, key, None)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path):
                bring(path)
    if name in ("prepare", "train"):
        config = load(parsed.config, [*parsed.overrides, *SMALL])
        if not can_be_prepared(config):
            return
        arguments = [*arguments, *SMALL]
        if config.data.directory == "data/demo":
            arguments += SMALL_DEMO
        if Path(config.training.run_directory).exists():  # a frozen one perhaps, of other settings
            arguments.append(f"training.run_directory=runs/line-{command.where}")
    if name == "benchmark" and parsed.config.is_file():
        arguments = [*arguments, *SMALL, *SMALL_DEMO]
    if name == "serve":  # until it is told to stop: tests/serving has what it answers
        return
    if NEEDS_A_DOWNLOAD & set(arguments) or name == "export":  # the frozen run has a window
        return
    if name == "average":  # the frozen run has three checkpoints
        arguments[arguments.index("--last") + 1] = "3"
    typed = shlex.split(command.text)[1] if "|" in command.text else ""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{typed}\n".encode())))
    assert main(arguments) == 0


def bring(path: Path) -> None:
    """Puts a frozen run where a model is named whose training is no matter of seconds."""
    if path.exists():
        return
    assert str(path) in RUNS, f"{path} is nowhere made"
    shutil.copytree(FROZEN[-1] / "run", path, copy_function=shutil.copyfile)
    keep_test_set(path)


def keep_test_set(run: Path) -> None:
    """Gives a run the text of its test set, as every run has it that is trained today."""
    data = load_resolved(run / "config.yaml").data
    folder = run / TEST_SET
    folder.mkdir()
    for side, name in (("en", test_set.SOURCE), ("de", test_set.TARGET)):
        shutil.copyfile(FROZEN[-1] / f"test.{side}", folder / name)
    corpora = [corpus.model_dump(mode="json") for corpus in data.test]
    manifest.write(folder, "test set", {"corpora": corpora})


def can_be_prepared(config: Config) -> bool:
    corpora = [*config.data.train, *config.data.validation, *config.data.test]
    files = [corpus.text for corpus in corpora if hasattr(corpus, "text")]
    return not any(isinstance(corpus, Hub) for corpus in corpora) and all(
        Path(side).exists() for pair in files for side in (pair.source, pair.target)
    )


def outside_of_make() -> dict[str, str]:
    """The environment without what `make test` hands down: a make in a make says more."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFL"))}


MAKE = sorted(
    {
        command.text
        for command in ALL
        if command.program == "make" and command.text != "make" and "KEY=VALUE" not in command.text
    }
)


@pytest.mark.parametrize("line", [*MAKE, "make", "make help", "make install", "make clean"])
def test_targets_exist_and_call_nmt_as_it_is(line: str):
    program, *words = shlex.split(line)
    shown = subprocess.run(
        [program, "-n", *words],
        cwd=ROOT, env=outside_of_make(), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert shown
    for called in shown.splitlines():
        if arguments := nmt_words(Command("Makefile", called, True)):
            parsed = parse(cli.COMMANDS, arguments)
            if "DIR" not in called:
                load(ROOT / parsed.config, parsed.overrides)


def test_make_demo_ends_in_a_score(tmp_path: Path):
    """The Makefile's own lines, in a copy whose .venv calls this interpreter."""
    for name in ("nmt", "configs", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, start in (("python", ""), ("nmt", " -m nmt")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{start} "$@"\n')
        (programs / name).chmod(0o755)
    (programs.parent / "installed").touch()
    settings = [*SMALL, "data.train='[{demo: {pairs: 150}}]'"]
    environment = outside_of_make() | {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    made = subprocess.run(
        ["make", "demo", f"ARGS={' '.join(settings)}"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[-1].startswith("BLEU = ")
    assert "word for word  BLEU" in made.stdout
    assert (tmp_path / "runs" / "demo" / "model" / "manifest.json").exists()
