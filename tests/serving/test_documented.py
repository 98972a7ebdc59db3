"""The calls in docs/serving.md are answered, and its limits are the server's defaults."""

import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nmt.serving.limits import MAX_BEAM, Limits
from nmt.translator import Translator
from tests.fixtures.make import TRAINED
from tests.manual import ROOT
from tests.serving.served import ask, served

TEXT = Path(ROOT, "docs/serving.md").read_text(encoding="utf-8")
CALLS = re.findall(r"^    (curl .*)$", TEXT, re.MULTILINE)


@pytest.fixture(scope="module")
def port():
    translator = Translator.load(TRAINED / "run", device="cpu")
    with served(translator) as port:
        yield port


@pytest.mark.parametrize("call", CALLS)
def test_documented_calls_are_answered(port: int, call: str):
    assert len(CALLS) == 3
    _, url, *_, body = shlex.split(call)
    status, answer = ask(port, urlsplit(url).path, body.encode())
    assert status == 200 and "error" not in answer


def test_documented_paths_exist_and_no_others(port: int):
    paths = {"/openapi.json", *ask(port, "/openapi.json")[1]["paths"]}
    documented = set(re.findall(r"`(?:GET|POST) (/[\w/.]+)`", TEXT)) | {"/ready"}
    assert documented >= paths - {"/api/inspect", "/api/search", "/api/steps"}  # see page.md
    assert documented <= paths


def test_documented_bounds_are_the_defaults():
    limits = Limits()
    for bound in (
        f"{limits.texts} texts", f"{limits.characters:,} characters",
        f"`beam` at most {MAX_BEAM}; `n_best` at most `beam`",
        f"`alternatives` at most {MAX_BEAM - 1} (`/translate`)",
        f"incomplete {limits.arrival_s:g} s after the server began to read it",
        f"{limits.body_bytes:,} bytes", f"within {limits.answer_s:g} s",
        f"finished within {limits.shutdown_s:g} s", f"(default: {limits.queue})",
        f"{limits.connections:,} connections may be open",
    ):  # fmt: skip
        assert bound in " ".join(TEXT.split())
