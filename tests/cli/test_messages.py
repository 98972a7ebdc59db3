"""Every message is one line without control characters, in a consistent form."""

import ast
import re
from pathlib import Path

import pytest

import nmt
from nmt.cli import main
from nmt.errors import InputError, count, one_line
from nmt.training.run_log import RunLog

HOSTILE = "a\x1b]0;title\x07\r\nb\u202ec\u2066d\u200fe\u061cf\x85g\u2028h"
HARMLESS = "a ]0;title  b c d e f g h"


def test_one_line_keeps_letters_and_loses_commands():
    assert one_line(HOSTILE) == HARMLESS
    assert InputError(HOSTILE).problems == (HARMLESS,)
    fine = "größe 漢字 שלום 👩\u200d👩 e\u0301"
    assert one_line(fine) == fine
    assert all(one_line(chr(n)).isprintable() for n in range(0xA0))


@pytest.mark.parametrize("command", ["translate", "average", "prepare"])
def test_names_of_files_do_not_command_the_terminal(command: str, settings, tmp_path: Path, capfd):
    """Neither in notes (of a cleaned corpus) nor in errors (of a missing model)."""
    place = tmp_path / "p\x1b[31m\u202el"
    place.mkdir()
    (place / "en").write_text("a b c\n")
    text = {"text": {"source": str(place / "en"), "target": str(place / "en")}}
    config = settings(
        training__max_steps=1,
        training__run_directory=str(place / "run"),
        data__validation=[],
        data__train=[text],
        data__directory=str(place / "data"),
        tokenizer__vocabulary_size=264,
    )
    (place / "config.yaml").write_text(config.to_yaml())
    arguments = {
        "prepare": ["prepare", place / "config.yaml"],
        "translate": ["translate", place / "run", "--input", "/dev/null"],
        "average": ["average", place / "run", "--last", "1", "--output", place],
    }
    main([str(word) for word in arguments[command]])
    said = capfd.readouterr().err
    assert "p [31m l" in said
    assert not re.search("[\x1b\u202e]", said)


def test_a_runs_own_notes_pass_there_too(tmp_path: Path, capsys):
    (tmp_path / "run").mkdir()
    with RunLog(tmp_path / "run") as log:
        log.note(HOSTILE)
    assert capsys.readouterr().err.rstrip("\n") == HARMLESS


def test_numbers_of_things():
    assert [count(n, "line") for n in (0, 1, 2, 1000)] == [
        "0 lines", "1 line", "2 lines", "1,000 lines",
    ]  # fmt: skip


def test_warnings_are_worded_alike():
    for path in Path(nmt.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.match(r"(?i)warning:", node.value), f"{path}:{node.lineno}"


@pytest.mark.parametrize("words", [["translate", "m"], ["benchmark", "translate", "m"]])
def test_a_wrong_option_names_the_help_of_its_own_command(words, capsys):
    assert main([*words, "--nothing"]) == 2
    program = " ".join(word for word in words if word != "m")
    assert f"See nmt {program} --help" in capsys.readouterr().err
