"""What `import nmt` offers."""

import subprocess
import sys

import pytest

import nmt
from tests.fixtures.make import FROZEN


def test_a_text_has_its_translations_and_a_list_those_of_each():
    translator = nmt.Translator.load(FROZEN[-1] / "run" / "model")
    lines = ["The baker opens his shop.", "Where is the letter?"]
    alone, together = [translator.translate(line) for line in lines], translator.translate(lines)
    assert [[t.text for t in found] for found in alone] == [[t.text for t in f] for f in together]
    assert alone[0][0].text == "Der Bäcker öffnet seinen Laden."


def test_every_name_is_there_and_no_other():
    assert all(getattr(nmt, name) for name in nmt.__all__)
    with pytest.raises(AttributeError, match="no attribute 'translate'"):
        _ = nmt.translate


def test_nothing_slow_is_loaded_before_it_is_asked_for():
    program = "import nmt, sys; print('torch' in sys.modules, 'pydantic' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "False False\n"
