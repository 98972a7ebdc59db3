"""The command as users run it: results, exit statuses, and one line per error."""

import ast
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from nmt.cli import main
from nmt.config import Config
from nmt.data import workers
from nmt.evaluation.attention_png import write_png
from nmt.training import validation
from nmt.training.train import train
from nmt.translator import Translator
from tests.fixtures.make import TRAINED
from tests.patience import PATIENCE_S
from tests.training import children


@pytest.fixture(scope="module")
def model(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of a run with two steps; its translations are bad."""
    from nmt.config import validate
    from tests.tiny import tiny_settings

    content = tiny_settings(tiny_data)
    directory = tmp_path_factory.mktemp("cli") / "run"
    content["training"] |= {"run_directory": str(directory), "max_steps": 2}
    train(validate(content, {}, "tiny"), lambda line: None)
    return directory


SEVERAL = """\
import sys, tempfile
tempfile._candidate_tempdir_list = lambda: ["/proc"]  # not writable, even for root
from nmt.cli import main
commands = [[]]
for word in sys.argv[1:]:
    commands.append([]) if word == "then" else commands[-1].append(word)
print([int(main(words)) for words in commands], file=sys.stderr)
"""


def in_turn(*commands: tuple[object, ...], **options):
    """Runs commands in one new interpreter that has no temporary directory.

    The last line on stderr has their exit statuses.
    """
    words = [str(word) for command in commands for word in (*command, "then")][:-1]
    return subprocess.run(
        [sys.executable, "-c", SEVERAL, *words],
        capture_output=True, timeout=PATIENCE_S, **options,
    )  # fmt: skip


def done(capsys, *arguments: object) -> str:
    """Runs a command in this process, which must succeed, and returns its standard output."""
    capsys.readouterr()
    assert main(list(map(str, arguments))) == 0
    return capsys.readouterr().out


def refused(capsys, *arguments: object) -> tuple[int, list[str]]:
    """Runs a command that must fail without a traceback; returns its status and error lines."""
    status = main(list(map(str, arguments)))
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("nmt: error: ")]
    assert "Traceback" not in captured.err
    assert lines
    return status, lines


def saved(config: Config, folder: Path) -> Path:
    path = folder / "config.yaml"
    path.write_text(config.to_yaml(), encoding="utf-8")
    return path


def test_help_is_prompt_and_names_an_example(capsys):
    command = [sys.executable, "-m", "nmt", "--help"]
    result = subprocess.run(command, capture_output=True, timeout=PATIENCE_S)
    assert result.returncode == 0
    commands = ("prepare", "train", "translate", "evaluate", "score", "average", "info", "report",
                "config")  # fmt: skip
    for command in commands:
        assert command.encode() in result.stdout
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert not ended.value.code
        assert "example:" in capsys.readouterr().out


def test_help_loads_no_library():
    """Loads only what the interpreter loads itself, and our own light modules."""
    code = """if True:
        import sys
        before = set(sys.modules)
        from nmt.cli import main
        try:
            main(["translate", "--help"])
        except SystemExit:
            loaded = {name.split(".")[0] for name in set(sys.modules) - before}
            print(sorted(loaded - set(sys.stdlib_module_names)))
            print(sorted(n for n in sys.modules if n.startswith("nmt.") and "cli" not in n))
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    libraries, ours = map(ast.literal_eval, run.stdout.splitlines()[-2:])
    assert libraries == ["nmt"]
    assert ours == ["nmt.errors", "nmt.lines", "nmt.lines.formats", "nmt.signals", "nmt.system"]


def test_translate_gives_a_line_for_each_line(model: Path, tmp_path: Path, capsys):
    text = "The dog sees a cat.\n\n  \nBücher 😀\r\nno\u2028end".encode()
    (tmp_path / "in").write_bytes(text)
    files = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    done(capsys, "translate", model, "--beam", 2, *files)
    lines = (tmp_path / "out").read_bytes().split(b"\n")
    assert len(lines) == 6  # five input lines, of which the last has no line ending
    assert lines[1] == lines[2] == lines[5] == b""
    done(capsys, "translate", model, "--n-best", 2, *files)
    best = (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1]
    assert [line.split("\t")[0] for line in best] == list("1122334455")
    assert best[2] == "2\t0.000000\t"


NO_UTF8 = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0",
           "PYTHONCOERCECLOCALE": "0"}  # fmt: skip


def test_r20_the_locale_does_not_matter(model: Path, settings, tmp_path: Path, capsys):
    """Text, standard streams and file names are handled as bytes in any locale.

    A file name that the locale cannot represent gives a one-line error. No temporary directory is
    needed.
    """
    path = tmp_path / "mödel"
    path.symlink_to(model)
    text = "Größe\n\n".encode() + b"\xff\xfe\x80\n" + "\U0001f600\u2028".encode()
    (tmp_path / "in").write_bytes(text)
    done(capsys, "translate", path, "--input", tmp_path / "in", "--output", tmp_path / "out")
    expected = (tmp_path / "out").read_bytes()
    assert expected.count(b"\n") == 4
    (tmp_path / "text").write_text("Größe\n", encoding="utf-8")
    sides = ("--source", tmp_path / "text", "--target", tmp_path / "text")
    files = {"text": {"source": "größe.en", "target": "größe.de"}}
    config = settings(data__directory=str(tmp_path / "data"), data__train=[files])
    found = in_turn(
        ("translate", path), ("score", model, "--tokens", *sides),
        ("prepare", saved(config, tmp_path)),
        input=text, env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "", **NO_UTF8},
    )  # fmt: skip
    *_, error, statuses = found.stderr.splitlines()
    assert statuses == b"[0, 0, 2]"
    assert found.stdout.startswith(expected)
    assert "▁".encode() in found.stdout[len(expected) :]  # the pieces, with their scores
    assert b" has 1 line (3) with invalid UTF-8" in found.stderr
    assert error.startswith(b"nmt: error: The file name ")
    assert found.stderr.count(b"error") == 1 and b"Traceback" not in found.stderr


def test_evaluate_prints_what_programs_read(model: Path, tmp_path: Path, capsys):
    content = json.loads(done(capsys, "evaluate", model, "--json", "--output", tmp_path / "out"))
    assert {"bleu", "bleu_signature", "bleu_interval", "chrf", "sentences"} <= content.keys()
    assert content["sentences"] == 20 == (tmp_path / "out").read_bytes().count(b"\n")
    reference = tmp_path / "reference"
    reference.write_text("Ein Hund sieht eine Katze.\n" * 2, encoding="utf-8")
    perfect = done(capsys, "evaluate", "--hypothesis", reference, "--reference", reference,
                   "--target-language", "de")  # fmt: skip
    assert perfect.startswith("BLEU = 100.00")


def test_score_prints_a_number_a_line(model: Path, tmp_path: Path, capsys):
    (tmp_path / "en").write_text("The dog sees a cat.\nWhy?\n")
    (tmp_path / "de").write_text("Der Hund sieht eine Katze.\nWarum?\n")
    arguments = ("score", model, "--source", tmp_path / "en", "--target", tmp_path / "de")
    sums = [float(line) for line in done(capsys, *arguments).split()]
    assert len(sums) == 2
    rows = done(capsys, *arguments, "--tokens").splitlines()
    for total, row in zip(sums, rows, strict=True):
        parts = [float(cell.rsplit(" ", 1)[1]) for cell in row.split("\t")]
        assert sum(parts) == pytest.approx(total, abs=1e-4)


def test_info_reads_configurations_and_models(model: Path, capsys):
    content = json.loads(done(capsys, "info", model, "--json"))
    assert content["vocabulary_size"] == 400
    assert content["parameters"]["total"] == sum(
        count for part, count in content["parameters"].items() if part != "total"
    )


def test_r21_a_closed_pipe_is_silent(model: Path, tmp_path: Path):
    command = (
        f"yes 'The dog sees a cat.' | {sys.executable} -m nmt translate {model} 2>err | head -1"
    )
    command += "; echo ${PIPESTATUS[1]}; cat err"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, timeout=PATIENCE_S, cwd=tmp_path
    )
    _, status, said = result.stdout.split(b"\n", 2)
    assert status == b"0"
    assert said == b"Using %b.\n" % os.fsencode(model / "model")


def test_r21_closed_streams(model: Path, tmp_path: Path):
    """Closed standard error is ignored; closed or full standard output gives a one-line error."""
    code = "from nmt.cli import main; main(['x']); print(open('/dev/null').fileno() > 2)"
    closed = f'{sys.executable} -c "{code}" 2>&-'
    assert subprocess.run(["bash", "-c", closed], capture_output=True).stdout == b"True\n"
    evaluated = children.nmt("evaluate", model / "model", "--json",
                             directory=tmp_path / "evaluated", fault=without_errors)  # fmt: skip
    assert evaluated.wait() == 0 and json.loads(evaluated.written)["sentences"]
    text = tmp_path / "text"
    text.write_text("The dog.\n")
    for fault, status, error in (
        (without_output, 2, "Standard output is closed"),
        (write_to_a_full_device, 5, "No space left"),
    ):
        child = children.nmt("translate", model / "model", "--beam", 1, "--input", text,
                             directory=tmp_path / error, fault=fault)  # fmt: skip
        assert child.wait() == status
        assert child.said.startswith(f"nmt: error: {error}") and child.said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "stream", "status"),
    [("--help", 1, 5), ("--version", 1, 5), ("config", 1, 5), ("config none", 2, 2)],
)
@pytest.mark.parametrize("unbuffered", [False, True])
def test_r21_status_of_full_streams(words: str, stream: int, status: int, unbuffered: bool):
    """The interpreter's own status would be 120, if it cannot write at its end."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "nmt", *words.split()],
            stdout=full if stream == 1 else subprocess.DEVNULL,
            stderr=full if stream == 2 else subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": "1" if unbuffered else ""},
            timeout=PATIENCE_S,
        )
    assert ended.returncode == status
    if stream == 1:
        assert ended.stderr.startswith(b"nmt: error: No space left on device: standard output. ")
        assert ended.stderr.count(b"\n") == 1


def without_output() -> None:
    """Leaves the process as `>&-` does in a shell."""
    os.close(1)
    sys.stdout = None


def without_errors() -> None:
    """Leaves the process as `2>&-` does in a shell."""
    os.close(2)
    sys.stderr = None


def write_to_a_full_device() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


@pytest.fixture
def two_steps(settings, tmp_path: Path) -> Path:
    """A configuration whose run has taken two of its four steps, with a checkpoint."""
    changes = {"training__checkpoint_every": 2, "training__validate_every": 100}
    config = settings(**changes, training__max_steps=2)
    train(config, lambda line: None)
    return saved(settings(**changes, training__max_steps=4), tmp_path)


def bytes_of(checkpoint: Path) -> list[bytes]:
    names = ("model.safetensors", "optimizer.safetensors")
    return [(checkpoint / name).read_bytes() for name in names]


@pytest.mark.parametrize("kind", ["a limit on the size of files", "a full file system"])
def test_r11_a_full_disk_leaves_the_former_checkpoint(two_steps: Path, tmp_path: Path, kind: str):
    """Exit status 5 and no partial files; with free space again, the run gives the same bytes."""
    run, small = tmp_path / "run", tmp_path / "small"
    small.mkdir()
    size = (run / "checkpoints/step-00000002/optimizer.safetensors").stat().st_size
    fault = None
    if kind == "a full file system":
        used = sum(-(-path.stat().st_size // 4096) * 4096 + 4096 for path in run.rglob("*"))
        mount = ["mount", "-t", "tmpfs", "-o", f"size={used + size}", "tmpfs", str(small)]
        if subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("may not mount a file system")
    else:
        fault = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size - 1,) * 2)
    try:
        shutil.copytree(run, small / "run")
        arguments = ("train", two_steps, f"training.run_directory={small / 'run'}")
        full = children.nmt(*arguments, directory=tmp_path / "child", fault=fault)
        assert full.wait() == 5, full.said
        errors = [line for line in full.said.splitlines() if "error" in line]
        assert len(errors) == 1 and errors[0].startswith("nmt: error: ")
        assert "Traceback" not in full.said
        assert [p.name for p in small.glob("run/checkpoints/*")] == ["step-00000002"]
        assert not list((small / "run").rglob(".tmp-*"))
        assert bytes_of(small / "run/checkpoints/step-00000002") == bytes_of(
            run / "checkpoints/step-00000002"
        )
        if not fault:
            subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
        assert main(["train", *map(str, arguments[1:])]) == 0
        assert main(["train", str(two_steps)]) == 0
        ends = [bytes_of(place / "checkpoints/step-00000004") for place in (run, small / "run")]
        assert ends[0] == ends[1]
    finally:
        subprocess.run(["umount", str(small)], capture_output=True)


def test_r12_a_full_disk_leaves_no_half_translation(two_steps: Path, tmp_path: Path, capsys):
    output, text = tmp_path / "out", tmp_path / "in"
    text.write_bytes(b"The man reads.\n" * 400)
    fault = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (200, 200))
    arguments = ("translate", tmp_path / "run", "--beam", "1", "--input", text, "--output", output)
    full = children.nmt(*arguments, directory=tmp_path / "child", fault=fault)
    assert full.wait() == 5
    assert "Traceback" not in full.said
    assert [path.name for path in tmp_path.glob("*out*")] == []
    done(capsys, *arguments)
    assert output.read_bytes().count(b"\n") == 400


def test_r27_awkward_places(settings, tmp_path: Path):
    """Spaces, Unicode, line endings and links in paths, no home directory, umask 077."""
    place = tmp_path / "a b\nü\u2028😀"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    changes = {"training__run_directory": str(tmp_path / "link" / "run dir")}
    path = saved(
        settings(**changes, training__max_steps=1, data__directory=str(place / "d\td")), place
    )
    trained = children.nmt("train", path, directory=tmp_path / "child", fault=homeless)
    assert trained.wait() == 0, trained.said
    model = place / "run dir" / "model"
    assert {file.stat().st_mode & 0o777 for file in model.iterdir()} == {0o600}
    assert model.stat().st_mode & 0o777 == 0o700
    (place / "text").write_text("a\n")
    files = ("--input", place / "text", "--output", place / "ö")
    translated = children.nmt("translate", place / "run dir", *files,
                              directory=tmp_path / "child", fault=without_home)  # fmt: skip
    assert translated.wait() == 0, translated.said
    assert (place / "ö").read_bytes().count(b"\n") == 1


def homeless() -> None:
    """With umask 077, and data prepared and pictures plotted in the process itself."""
    os.umask(0o077)
    os.environ["HOME"] = "/proc/nowhere"
    workers.default_processes = lambda: 1
    validation.write_png = write_png


def without_home() -> None:
    os.environ.pop("HOME", None)


def test_r27_a_run_that_may_not_be_written(two_steps: Path, tmp_path: Path):
    """Training reports it in one line; translation needs no write permission."""
    run, text = tmp_path / "run", tmp_path / "text"
    text.write_text("a\n")
    paths = [run, *run.rglob("*")]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        trained, translated = (
            children.nmt(*words, directory=tmp_path / words[0], fault=powerless)
            for words in (("train", two_steps), ("translate", run, "--input", text))
        )
        assert (trained.wait(), translated.wait()) == (5, 0)
    finally:
        for path in paths:
            path.chmod(path.stat().st_mode | 0o200)
    [error] = [line for line in trained.said.splitlines() if "error" in line]
    assert error.startswith("nmt: error: Permission denied: ")
    assert translated.written.count("\n") == 1 and "error" not in translated.said


def powerless() -> None:
    """Drops root's permission to read and write any file: two of Linux's capabilities."""
    if os.geteuid() != 0:
        return
    libc, version = ctypes.CDLL(None, use_errno=True), 0x20080522
    header, sets = (ctypes.c_uint32 * 2)(version, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for number in range(3):  # effective, permitted, inheritable
        sets[number] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, sets) == 0


def test_configuration_mistakes(capsys, settings, tmp_path: Path):
    path = saved(settings(), tmp_path)
    status, lines = refused(capsys, "train", path, "training.max_stepps=3", "model.d_model=big")
    assert status == 2
    assert "Did you mean training.max_steps?" in lines[0] + lines[1]
    expected = 'model.d_model must be a whole number from 1 to 100,000, not "big"'
    assert expected in lines[0] + lines[1]
    assert refused(capsys, "train", tmp_path / "none.yaml")[0] == 2
    assert not Path(settings().training.run_directory).exists()


@pytest.mark.parametrize(
    ("source", "target", "size", "expected"),
    [
        (b"a b\nc d\n", b"x y\n", 300, "2 lines"),
        (b"a b\n\xff\xfe\n", b"x y\nz\n", 300, "en:2"),
        (b"", b"", 300, "empty"),
        (b"a b c\n" * 3, b"x y z\n" * 3, 5000, "5,000"),
        (b"a b\n", None, 300, "/de"),
    ],
    ids=["line counts", "not UTF-8", "empty corpus", "vocabulary too large", "missing"],
)
def test_corpus_mistakes(capsys, settings, tmp_path: Path, source, target, size, expected):
    (tmp_path / "en").write_bytes(source)
    if target is not None:
        (tmp_path / "de").write_bytes(target)
    text = {"text": {"source": str(tmp_path / "en"), "target": str(tmp_path / "de")}}
    config = settings(
        data__directory=str(tmp_path / "data"), data__train=[text], tokenizer__vocabulary_size=size
    )
    path = saved(config, tmp_path)
    status, lines = refused(capsys, "prepare", path)
    assert status == 2
    assert len(lines) == 1
    assert expected in lines[0]
    if target is None:
        number = 1 + path.read_text().splitlines().index("  - text:")
        assert lines[0].startswith(f"nmt: error: {path}:{number}: data.train.0: {tmp_path}/de does")
    assert not (tmp_path / "data" / ("manifest.json" if target is not None else "")).exists()


@pytest.mark.parametrize(
    "arguments",
    [["translate", "m", "--beam", "x"], ["nothing"], ["train"], ["info", "a", "--nothing"]],
    ids=" ".join,
)
def test_wrong_usage_is_one_line(capsys, arguments: list[str]):
    status, lines = refused(capsys, *arguments)
    assert (status, len(lines)) == (2, 1)
    assert "--help" in lines[0]


@pytest.mark.parametrize(
    "name", ["model.safetensors", "tokenizer.model", "config.yaml", "manifest.json"]
)
def test_a_model_with_a_file_missing_or_damaged(capsys, model: Path, tmp_path: Path, name: str):
    copy = tmp_path / "model"
    shutil.copytree(model / "model", copy)
    path = copy / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    status, lines = refused(capsys, "translate", copy)
    assert (status, len(lines)) == (3, 1)
    path.unlink()
    status, lines = refused(capsys, "translate", copy)
    assert (status, len(lines)) == (3, 1)
    assert name in lines[0]


def test_a_tokenizer_that_does_not_belong_to_the_data(capsys, settings, tiny_data, tmp_path: Path):
    shutil.copytree(tiny_data / "data", tmp_path / "data")
    config = settings(data__directory=str(tmp_path / "data"))
    tokenizer = tmp_path / "data" / "tokenizer.model"
    tokenizer.write_bytes(tokenizer.read_bytes() + b" ")
    status, lines = refused(capsys, "train", saved(config, tmp_path))
    assert status == 2
    assert "tokenizer.model is damaged" in lines[0] and "Run nmt prepare again" in lines[0]


def test_files_that_a_configuration_names_are_named_with_their_setting(
    capsys, settings, tmp_path: Path
):
    path = saved(settings(data__directory=str(tmp_path / "data")), tmp_path)
    given = "data.train=[{text: {source: none.en, target: none.de}}]"
    for command in ("prepare", "train"):
        _, [line] = refused(capsys, command, path, given)
        assert line.startswith("nmt: error: command line: data.train.0: none.en does not exist.")
        assert "Check the path, which is relative to the current directory." in line
        assert not (tmp_path / "data").exists()
    _, [line] = refused(capsys, "prepare", path, "tokenizer.model=none.model")
    assert "command line: tokenizer.model: none.model is not a file." in line
    for key in ("data.directory", "training.run_directory"):
        _, [line] = refused(capsys, "train", path, f"{key}={path}/below")
        assert f"command line: {key}: {path} is not a directory." in line
    (tmp_path / "above.yaml").write_text("\nbase: none.yaml\n")
    _, [line] = refused(capsys, "prepare", tmp_path / "above.yaml")
    assert f"{tmp_path}/above.yaml:2: base {tmp_path}/none.yaml does not exist." in line


def test_a_wrong_path_to_a_model_names_those_near_it(capsys, model: Path, tmp_path: Path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(model)
    for wrong, near in (
        ("runs/deom", "runs/demo"),
        ("runs", "runs/demo"),
        ("runs/demo/checkpoints/step-99", "runs/demo/checkpoints/step-00"),
        ("runs/demo/checkpoint/step-00000001", "runs/demo/checkpoints/step-00"),
        ("runs/demo/modle", "runs/demo/model"),
    ):
        _, [line] = refused(capsys, "translate", tmp_path / wrong)
        assert f" Specify a model, checkpoint or run, such as {tmp_path}/" in line
        assert f"{tmp_path / near}" in line.partition("Specify")[2]
    _, [line] = refused(capsys, "translate", tmp_path / "none" / "x")
    assert line.endswith("Specify a model, checkpoint or run.")


def test_n_best_is_compared_with_the_models_beam_before_it_is_loaded(
    capsys, model: Path, monkeypatch
):
    monkeypatch.setattr(Translator, "load", None)
    _, [line] = refused(capsys, "translate", model, "--n-best", "9")
    assert "--n-best 9 exceeds --beam " in line


def test_output_mistakes(capsys, model: Path, tmp_path: Path):
    status, lines = refused(
        capsys, "translate", model, "--output", tmp_path / "missing" / "out", "--input", "/dev/null"
    )
    assert status == 2
    assert "missing" in lines[0]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    assert refused(capsys, "average", model, "--last", 1, "--output", tmp_path / "full")[0] == 2
    for flag, path, problem in (
        ("--output", f"{tmp_path}/nothing/", "must be a file, not the directory"),
        ("--output", "-", "must be the name of a file, not -"),
        ("--output", "", "must not be empty"),
        ("--input", "", "must not be empty"),
    ):
        _, [line] = refused(capsys, "translate", model, flag, path)
        assert line.startswith(f"nmt: error: Argument {flag}: {problem}")
    assert not (tmp_path / "nothing").exists()
    assert refused(capsys, "translate", tmp_path / "nothing")[0] == 2
    assert refused(capsys, "translate", model, "--input", tmp_path / "nothing")[0] == 2
    assert (
        refused(capsys, "translate", model, "--beam", 2, "--n-best", 3, "--input", "/dev/null")[0]
        == 2
    )


def test_settings_may_stand_behind_options(model: Path, settings, tmp_path: Path, capsys):
    path = saved(settings(), tmp_path)
    content = done(capsys, "info", path, "model.heads=1", "--json", "model.d_ff=12")
    changed = json.loads(content)["paper"]["differences"]
    assert (changed["model.heads"]["ours"], changed["model.d_ff"]["ours"]) == (1, 12)
    for words in (("info", path, "--json", "x"), ("info", path, "--jsn"), ("score", model, "a=b")):
        assert refused(capsys, *words)[0] == 2


def test_a_current_directory_that_was_removed_is_named(tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["translate", str(TRAINED / "run")]) == 2
    assert "The current directory no longer exists." in capsys.readouterr().err
