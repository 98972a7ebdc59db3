"""The library, used like in a program that imports nmt."""

import ast
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import nmt
from nmt import errors
from nmt.errors import ArgumentError, InputError, Status
from tests.fixtures.make import TRAINED
from tests.library_example import use
from tests.manual import ROOT


def test_one_text_gives_one_translation_and_a_list_gives_a_list():
    translator = nmt.Translator.load(TRAINED / "run", device="cpu")
    text = "The dog sees a cat."
    found = translator.translate(text)
    assert isinstance(found, nmt.Translation) and isinstance(found.text, str)
    several = translator.translate([text, "", text])
    assert [each.text for each in several] == [found.text, "", found.text]
    assert translator.translate([]) == []
    options = nmt.SearchOptions(beam=3, n_best=3)
    [best] = translator.n_best([text], options)
    assert translator.translate(text, options) == replace(best[0], alternatives=best[1:])
    assert translator.translate(text, beam=3, n_best=3) == translator.translate(text, options)
    assert [each.score for each in best] == sorted((each.score for each in best), reverse=True)


def test_a_translator_reports_errors_and_its_properties():
    with pytest.raises(nmt.ArgumentError, match="path is empty"):
        nmt.Translator.load("")
    with pytest.raises(
        nmt.ArgumentError, match="path must be a string or a path object, not NoneType"
    ):
        nmt.Translator.load(None)  # type: ignore[arg-type]
    translator = nmt.Translator.load(TRAINED / "run", device="cpu")
    assert (translator.source_language, translator.target_language) == ("en", "de")
    with pytest.raises(nmt.ArgumentError, match=r"no option beam_size\. Did you mean beam\?"):
        translator.translate("a", beam_size=3)  # type: ignore[call-overload]
    with pytest.raises(nmt.ArgumentError, match=r"no option zzz\. Choose one of beam, length_pen"):
        translator.stream(["a"], zzz=3)  # type: ignore[call-arg]
    for wrong, kind in ((None, "NoneType"), (3, "int")):
        with pytest.raises(
            nmt.ArgumentError, match=f"must be a string or a list of strings, not {kind}"
        ):
            translator.translate(wrong)  # type: ignore[call-overload]
    with pytest.raises(nmt.ArgumentError, match="document must be true or false, not 'no'"):
        translator.translate("a", document="no")  # type: ignore[call-overload]
    found = translator.translate("The dog sees a cat.", n_best=2)
    assert str(found) == found.text
    assert repr(found) == f"Translation({found.text!r}, score={found.score:.6g})"


def test_the_example_of_a_typed_program_runs():
    texts = ["The dog sees a cat.", "", "A child reads."]
    expected = nmt.Translator.load(TRAINED / "run", device="cpu").translate(texts)
    assert use(str(TRAINED / "run"), texts) == [each.text for each in expected]


def test_a_configuration_is_loaded():
    config = nmt.load_config(ROOT / "configs" / "demo.yaml", ["training.max_steps=5"])
    assert config.training.max_steps == 5
    with pytest.raises(
        nmt.InputError, match=r"overrides: Unknown key .* Did you mean model\.heads"
    ):
        nmt.load_config(ROOT / "configs" / "demo.yaml", ["model.head=5"])
    with pytest.raises(nmt.InputError, match=r"There is no model directory nowhere\."):
        nmt.Translator.load("nowhere")


def test_public_names_exist_and_are_loaded_lazily():
    assert set(nmt.__all__) <= set(dir(nmt))
    assert all(getattr(nmt, name) is not None for name in nmt.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        nmt.nothing  # noqa: B018
    code = (
        "import sys, nmt; print([n for n in sys.modules if n.startswith('nmt.') or n == 'torch'])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.stdout == "[]\n"


def test_an_error_names_the_argument_as_the_caller_does():
    error = ArgumentError("{n_best} is {}, but {beam} is {}.", 3, "{beam}")
    assert str(error) == "n_best is 3, but beam is {beam}."
    assert error.naming({"n_best": "--n-best"}) == ("--n-best is 3, but beam is {beam}.",)
    with pytest.raises(InputError, match="batch_tokens must be at least 1, not 0"):
        nmt.SearchOptions(batch_tokens=0)


@pytest.mark.parametrize(
    "error",
    [
        InputError("what, where", "more"),
        ArgumentError("{} {beam}", 3),
        errors.SettingError(("data", "train", 0), "what", "more"),
        errors.StorageError("full"),
        errors.ReportedElsewhereError(Status.DIVERGED),
        errors.Stopped(15, "saved"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_pickled(error: BaseException):
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(copy) is type(error) and str(copy) == str(error)
    assert (copy.status, vars(copy)) == (error.status, vars(error))  # type: ignore[attr-defined]


def test_each_kind_of_error_has_an_exit_status():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    statuses = {kind.__name__: kind.status for kind in kinds if issubclass(kind, InputError)}
    assert statuses == {
        "InputError": Status.INPUT,
        "ArgumentError": Status.INPUT,
        "SettingError": Status.INPUT,
        "LostRankError": Status.INPUT,
        "ReportedElsewhereError": Status.INPUT,  # instances have the other process's status
        "NoModelError": Status.NO_MODEL,
        "DivergedError": Status.DIVERGED,
        "LastingError": Status.INPUT,
        "ExportError": Status.BUG,
        "StorageError": Status.STORAGE,
        "DeniedError": Status.STORAGE,
    }


LIBRARY = [p for p in sorted(Path(nmt.__file__).parent.rglob("*.py")) if "cli" not in p.parts]
OF_THE_COMMAND_LINE = re.compile(
    r"(?<!sacrebleu )--[a-z]\w*\b(?! \(in Python)|command line|\bMODEL\b|KEY=VALUE"
)


def test_messages_of_the_library_name_no_flags():
    assert len(LIBRARY) > 80
    for path in LIBRARY:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = OF_THE_COMMAND_LINE.search(node.value)
                assert not found, f"{path}:{node.lineno}: {found}"


def test_the_words_are_known():
    for text in ("lower --beam", "on the command line, write", "a MODEL.", "KEY=VALUE"):
        assert OF_THE_COMMAND_LINE.search(text)
    assert not OF_THE_COMMAND_LINE.search("sacrebleu --list, NO_MODEL, a -- b")


@pytest.mark.parametrize(
    ("precision", "has_bf16", "expected"), [("bf16", False, 1), ("bf16", True, 0), (None, False, 0)]
)
def test_emulated_bf16_is_warned_of(monkeypatch, precision, has_bf16, expected):
    monkeypatch.setattr("nmt.decoding.loading.supports_bf16", lambda device: has_bf16)
    said: list[str] = []
    nmt.Translator.load(TRAINED / "run", device="cpu", precision=precision, note=said.append)
    assert sum("no instructions for bf16" in line for line in said) == expected
