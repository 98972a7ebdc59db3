"""Runs the commands of README, docs and recipes in the order in which they appear.

Every `nmt` line is run, with small sizes for training and with local text instead of a download.
Its input must exist in the repository, be created by an earlier line, or be a file that the reader
provides. If a line needs a finished run that no earlier line has trained, a small run is copied to
its place. Python blocks are run too. If no test can run a block, the document gives the reason
before the block, as `<!-- not run: REASON -->`; the `nmt` lines in it are still parsed.
"""

import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from nmt import cli
from nmt.benchmark import machine, training, translating
from nmt.cli import main
from nmt.cli.parser import parse
from nmt.config import Config, Hub, load
from nmt.errors import InputError
from recipes.averaging import averaging
from recipes.back_translation import halves
from recipes.baselines import baselines
from recipes.demo import contrastive
from recipes.paper_figures import paper_figures
from recipes.speed import compare
from recipes.table3 import table3
from recipes.your_own_text import stand_in
from tests.fixtures.make import TRAINED
from tests.manual import (
    DOCUMENTS,
    PROGRAMS,
    ROOT,
    Command,
    broken_links,
    commands,
    messages,
    nearest,
    what_the_code_says,
    yaml_files,
)

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
SMALL_DEMO = [
    "data.train=[{demo: {pairs: 150}}]", "data.validation=[{demo: {pairs: 5}}]",
    "data.test=[{demo: {pairs: 20}}]",
]  # fmt: skip
STANDS_FOR = {  # placeholders that a reader replaces
    "CONFIG": "configs/demo.yaml", "MODEL": "runs/demo", "RUN": "runs/demo", "NAME": "demo",
    "F": "news.en", "F.html": "new.html", "DIR": "new", "TEXT": "The man reads.", "L": "de",
    "KEY=VALUE": "training.max_steps=3",
}  # fmt: skip
OFFERED = {  # the reader's own files, and the files of the fixture that replace them
    "news.en": "train.en", "news.de": "train.de", "back.en": "train.en", "mono.de": "train.de",
    "all.en": "train.en", "all.de": "train.de",
}  # fmt: skip
OFFERED |= {
    f"{corpus}{s}.{side}": f"{s}.{side}"
    for corpus in ("", "second.")
    for s in ("train", "valid", "test")
    for side in ("en", "de")
}
OFFERED |= {f"{name}.gz": kept for name, kept in OFFERED.items()}  # uncompressed content is fine
OFFERED |= {f"test_2016_flickr.{side}.gz": f"test.{side}" for side in ("en", "de")}
MINE = "[{text: {source: %s.en, target: %s.de}}]"  # instead of a download
TEXT_DATA = [
    f"data.{part}={MINE % (name, name)}"
    for part, name in (("train", "train"), ("validation", "valid"), ("test", "test"))
]
SCRIPTS = {  # scripts that take too long here, and the tests that run them on less data
    "docs/reference.py": "test_documents.py",
    "recipes/back_translation/halves.py": "recipes/test_demo_scripts.py",  # run if its input exists
    "recipes/paper_figures/paper_figures.py": "recipes/test_paper_figures.py",
    "recipes/at_scale/translate.py": "recipes/test_at_scale.py",
    "recipes/averaging/averaging.py": "recipes/test_averaging.py",
    "recipes/baselines/baselines.py": "recipes/test_baselines.py",
    "recipes/exports/compare.py": "export/test_export.py",
    "recipes/glossaries/glossaries.py": "recipes/test_glossaries.py",
    "recipes/page_examples/choose.py": "serving/test_telling.py",
    "recipes/scaling/scaling.py": "recipes/test_scaling.py",
    "recipes/table3/table3.py": "recipes/test_table3.py",
    "recipes.speed.compare": "recipes/test_speed.py",
    "recipes.speed.gpu": "recipes/test_speed.py",
    "recipes.speed.memory": "gpu/test_simulated_gpu.py",
    "recipes.speed.shortlist": "recipes/test_speed.py",
}
OTHERS = {  # programs that are not run here, and the tests that check their lines
    "make": "test_targets_exist_and_call_existing_commands",
    "pip": "test_documented_extras_and_constraints_exist",
    "python3": "test_documented_extras_and_constraints_exist",
    "bash": "recipes/test_at_scale.py",
    "sbatch": "recipes/test_slurm.py",
}
READ = (
    "config",
    "model",
    "runs",
    "source",
    "target",
    "reference",
    "hypothesis",
    "baseline",
    "contrastive",
    "input",
    "ensemble",
    "prefix_file",
)


def nmt_words(command: Command) -> list[str] | None:
    """Returns the arguments of `nmt` in a line, also after a pipe or in torchrun.

    Returns None if the line does not call `nmt`, or if it only names a command, as sentences do.
    """
    if command.is_python:
        return None
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


def test_blocks_of_the_documents_are_found():
    """Fails if the format of the documents changes so that blocks are no longer found."""
    assert len(DOCUMENTS) >= 8
    without = {document.name for document, found in COMMANDS.items() if not found}
    assert without <= {"README.md"}  # docs/README.md has only links
    assert len([c for c in ALL if nmt_words(c)]) > 35
    assert len([c for c in ALL if c.is_python]) >= 2


BLOCKS = [c for c in ALL if c.is_block and not c.is_python]


@pytest.mark.parametrize("command", BLOCKS, ids=lambda c: c.where)
def test_a_block_of_commands_contains_only_commands(command: Command):
    """If a block also contained output, a command could be taken for output and not be run."""
    assert command.program in PROGRAMS, f"{command.program}: {nearest(command.program)}?"


def test_documented_extras_and_constraints_exist():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = [c.text for c in ALL if " install " in f"{c.text} " and c.program.startswith("p")]
    assert len(lines) > 3
    for line in lines:
        for extras in re.findall(r"\[([\w,]+)\]", line):
            assert set(extras.split(",")) <= pyproject["project"]["optional-dependencies"].keys()
        for constraints in re.findall(r"-c (\S+)", line):
            assert (ROOT / constraints).is_file()


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_links_are_not_broken(document: Path):
    assert broken_links(document) == []


def test_quoted_messages_exist_in_the_code():
    said = what_the_code_says()
    quoted = [message for document in DOCUMENTS for message in messages(document)]
    assert len(quoted) > 15
    unsaid = [m for m in quoted if not any(pattern.search(m) for pattern in said)]
    assert unsaid == []


def test_the_reference_is_current():
    page = runpy.run_path(str(ROOT / "docs" / "reference.py"))["page"]()
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert page == written, "python docs/reference.py > docs/reference.md"


def test_the_map_from_paper_to_code_names_existing_code():
    text = (ROOT / "docs" / "from_paper_to_code.md").read_text(encoding="utf-8")
    entries = re.findall(r"`(\w+(?:/\w+)?\.py)`(?:: (`[\w.`, ]+`))?", text)
    assert len(entries) > 20
    for file, names in entries:
        code = (ROOT / "nmt" / file).read_text(encoding="utf-8")
        for name in re.findall(r"[\w.]+", names):
            for part in name.split("."):
                assert re.search(rf"^ *(def|class) {part}\b", code, re.M), f"{file}: {name}"


def test_the_readme_of_the_tests_lists_every_test_of_a_row():
    """Checks that the tests in tests/README.md exist, and that every test of a row is listed."""
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
    """A writable current directory with the repository's files and the reader's own files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "probe", lambda device: lambda: 1.0)  # all phases are equally fast
    monkeypatch.setattr(machine, "_COPY_BYTES", 1 << 20)
    monkeypatch.setattr(machine, "_LEAST_S", 0.0)
    monkeypatch.setattr(machine, "_LEAST_TIMING_S", 0.0)
    monkeypatch.setattr(translating, "_CPU_SENTENCES", 3)
    monkeypatch.setattr(training, "_LEAST_PAIRS", 200)
    for module in (training, translating):
        monkeypatch.setattr(module, "_ENOUGH_S", 0.0)
    for name in ("configs", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name, kept in OFFERED.items():
        shutil.copyfile(TRAINED / kept, name)
    monkeypatch.setattr(
        stand_in, "SIZES",
        {name: {"train": 60, "valid": 3, "test": 3} for name in stand_in.SIZES},
    )  # fmt: skip
    return tmp_path


@pytest.mark.parametrize("document", DOCUMENTS, ids=IDS)
def test_commands_work_in_order(document: Path, reader: Path, monkeypatch, capfd):
    for name, text in yaml_files(document).items():
        assert not Path(name).exists(), f"{document.name}: a block would replace {name}"
        Path(name).write_text(text, encoding="utf-8")
    for command in COMMANDS[document]:
        try:
            follow(command, monkeypatch)
        except (InputError, AssertionError) as error:
            pytest.fail(
                f"{command.where}: {command.text}\n{error}\n{capfd.readouterr().err[-600:]}"
            )


def follow(command: Command, monkeypatch) -> None:
    """Runs a line or a Python block, or checks that another test runs it.

    Commands within sentences are not always run, because a sentence may only describe them.
    """
    arguments = nmt_words(command)
    if command.not_run:
        if arguments:
            parse(cli.COMMANDS, arguments)
    elif command.is_python:
        python(command.text)
    elif arguments:
        if "COMMAND" not in arguments:
            run(arguments, command, monkeypatch)
    elif command.program == "python" and command.text != "python":
        script(shlex.split(command.text)[1:])
    elif command.is_block and command.program in ("head", "paste", "printf", "sed", "tail"):
        subprocess.run(["bash", "-ec", command.text], check=True)
    elif command.is_block:
        assert command.program in OTHERS, "no test runs it, and the document does not say why"
        by = OTHERS[command.program]
        assert by in globals() or (ROOT / "tests" / by).is_file()


def python(code: str) -> None:
    for path in re.findall(r'"(runs/[\w/]+)"', code):
        bring(Path(path))
    exec(compile(code, "a document", "exec"), {})  # noqa: S102


def script(words: list[str]) -> None:
    """Checks the arguments of a Python script, and runs the script if that takes little time."""
    name = words[1] if words[0] == "-m" else words[0]
    rest = words[words.index(name) + 1 :]
    if name == "pytest":
        assert (ROOT / rest[0]).is_file()
        return
    assert name in SCRIPTS or Path(name).is_file(), f"no {name}"
    if name in SCRIPTS:
        assert (ROOT / "tests" / SCRIPTS[name]).is_file()
    match Path(name).name:
        case "stand_in.py":
            stand_in.main(rest)
        case "contrastive.py":
            contrastive.main([*rest, "--pairs", "2"])
        case "halves.py":
            if Path(rest[0]).exists():
                halves.main(rest)
        case "paper_figures.py":
            paper_figures.arguments(rest)
        case "table3.py":
            rows = {word for word in table3._arguments(rest).words if "=" not in word}
            assert rows <= table3.PAPER.keys()
        case "averaging.py":
            averaging._arguments(rest)
        case "baselines.py":
            baselines._arguments(rest)
        case "recipes.speed.compare":
            compare._arguments(rest)
        case _ if name not in SCRIPTS:
            redirected(name, rest)


def redirected(name: str, words: list[str]) -> None:
    """Runs `python NAME ... < input > output`."""
    places = {sign: words[words.index(sign) + 1] for sign in "<>" if sign in words}
    ends = [words.index(sign) for sign in places]
    given = Path(places["<"]).read_bytes() if "<" in places else b""
    made = subprocess.run(
        [sys.executable, name, *words[: min(ends, default=len(words))]],
        input=given, capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr.decode()
    if ">" in places:
        Path(places[">"]).write_bytes(made.stdout)


def run(arguments: list[str], command: Command, monkeypatch) -> None:
    parsed = parse(cli.COMMANDS, arguments)
    name = arguments[0]
    for key in READ:
        value = getattr(parsed, key, None)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path):
                bring(path)
    if name in ("prepare", "train"):
        arguments = [
            *arguments,
            *in_small(load(parsed.config, [*parsed.overrides, *SMALL]), command),
        ]
    if name == "benchmark" and parsed.config.is_file():
        arguments = [*arguments, *SMALL, *SMALL_DEMO]
    if name == "serve":  # runs until it is stopped; tests/serving checks its answers
        return
    if {"--test-set", "--comet"} & set(arguments):
        assert not command.is_block, "it needs a download, which the document has to say"
        return
    if name == "export":
        if "huggingface" in arguments:
            return  # slow, because it imports transformers; export/test_export.py runs it
        arguments[1] = exportable()
    if name == "average":  # the fixture's run has three checkpoints
        arguments[arguments.index("--last") + 1] = "3"
    typed = shlex.split(command.text)[1] if "|" in command.text else ""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{typed}\n".encode())))
    assert main(arguments) == 0


def in_small(config: Config, command: Command) -> list[str]:
    """Returns settings with which `prepare` or `train` is fast and downloads nothing."""
    corpora = [*config.data.train, *config.data.validation, *config.data.test]
    small = list(SMALL)
    if any(isinstance(corpus, Hub) for corpus in corpora):
        small += TEXT_DATA
    elif config.data.directory == "data/demo":
        small += SMALL_DEMO
    if Path(config.training.run_directory).exists():  # perhaps a small run with other settings
        place = f"line-{command.where}"
        small += [f"training.run_directory=runs/{place}", f"data.directory=data/{place}"]
    return small


def exportable() -> str:
    """Trains a model without an attention window, because no export format supports windows."""
    run = "runs/exportable"
    if not Path(run).exists():
        where = [f"training.run_directory={run}", "data.directory=data/exportable"]
        assert main(["train", "configs/demo.yaml", *SMALL, *SMALL_DEMO, *where]) == 0
    return run


def bring(path: Path) -> None:
    """Copies a small run to `path`, instead of training a model, which takes too long."""
    if path.exists():
        return
    assert str(path) in RUNS, f"{path} is nowhere made"
    shutil.copytree(TRAINED / "run", path, copy_function=shutil.copyfile)


def outside_of_make() -> dict[str, str]:
    """Returns the environment without the variables of `make test`, which change its output."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFL"))}


MAKE = sorted(
    {
        command.text
        for command in ALL
        if command.program == "make" and command.text != "make" and "KEY=VALUE" not in command.text
    }
)


@pytest.mark.parametrize("line", [*MAKE, "make", "make help", "make install", "make clean"])
def test_targets_exist_and_call_existing_commands(line: str):
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


def test_make_demo_prints_a_score(tmp_path: Path, monkeypatch, capsys):
    """Runs the Makefile's own lines, with small settings, in this process."""
    monkeypatch.chdir(tmp_path)
    for name in ("configs", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    settings = " ".join(map(shlex.quote, [*SMALL, *SMALL_DEMO]))
    lines = subprocess.run(
        ["make", "-n", "-o", ".venv/installed", "demo", f"ARGS={settings}"],
        cwd=ROOT, env=outside_of_make(), capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    *calls, (python, script, run) = map(shlex.split, lines)
    assert [program for program, *_ in calls] == [".venv/bin/nmt"] * 2
    assert [main(words) for _, *words in calls] == [0, 0]
    assert python == ".venv/bin/python"
    monkeypatch.setattr(sys, "argv", [script, run])
    runpy.run_path(script, run_name="__main__")
    said = capsys.readouterr().out
    assert said.splitlines()[-1].startswith("BLEU = ")
    assert "word for word  BLEU" in said
    assert (tmp_path / "runs" / "demo" / "model" / "manifest.json").exists()
