"""Text split into subwords is an error, tokenized text causes a warning, plain text is accepted."""

import pytest

from nmt.errors import InputError
from nmt.evaluation.plain_text import check_plain_text

ORDINARY = [
    "Sie sagte: „Ja.“ 1,5 % – und ging.",
    "Que faire ? Rien !",
    "The file .bashrc, and @@ alone; mail a@@b",
    "▁▂▃▅▇ rising, falling ▇▅▃▁",
    "",
]


def notes_on(lines: list[str]) -> list[str]:
    notes: list[str] = []
    check_plain_text(lines, "hyp", notes.append)
    return notes


@pytest.mark.parametrize("line", ["▁Das ▁ist", "ein ▁Haus", "Ha@@ us", "Das ist ein Ha@@"])
def test_pieces_are_refused_with_file_and_line(line):
    with pytest.raises(InputError, match=r"^Line 6 of hyp is split into subword pieces"):
        check_plain_text([*ORDINARY, line], "hyp", print)


@pytest.mark.parametrize(
    "line", ["Das ist gut .", "gut , sagte er", "he said &quot; no", "a @-@ b", "a ##AT##-##AT## b"]
)
def test_tokenized_text_is_warned_of_in_one_line(line):
    (note,) = notes_on([*ORDINARY, line])
    assert note.startswith("nmt: warning: hyp looks tokenized (1 of 6 lines, first in line 6)")


def test_blank_lines_make_text_no_plainer():
    (note,) = notes_on(["Das ist gut ."] + [""] * 20)
    assert "(1 of 21 lines" in note


def test_ordinary_text_is_not_warned_of():
    assert notes_on(ORDINARY) == []
    assert notes_on([]) == []
    assert notes_on([*ORDINARY * 3, "One odd line , here ."]) == []
