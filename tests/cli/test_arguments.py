"""Every option of every command reaches the library with its value."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.cli import COMMANDS, main
from nmt.cli.parser import new_parser
from nmt.cli.terminal import say
from nmt.config import MAX_BEAM, Config, Decoding, Training
from nmt.decoding import batched_search, loading
from nmt.errors import ArgumentError
from nmt.lines.translate import LineOptions
from nmt.serving.limits import Limits
from nmt.translator import SearchOptions, Translator

ALL = "--beam 7 --length-penalty 1.5 --batch-tokens 99 --device cpu --precision bf16"
SEARCH = {"beam": 7, "length_penalty": 1.5, "batch_tokens": 99}
ON = {"device": "cpu", "precision": "bf16"}

# command line, called function, and expected arguments
GLOSSARY = Path(__file__).with_name("glossary.tsv")
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    f"translate M --input i --output o --n-best 3 --strict {ALL}": (
        "nmt.lines.translate.run_translate",
        {0: Path("M"), "input": Path("i"), "output": Path("o"), **ON,
         "options": LineOptions(SearchOptions(n_best=3, **SEARCH), numbered=True, strict=True)},
    ),
    "translate M": (
        "nmt.lines.translate.run_translate",
        {"input": None, "output": None, "options": LineOptions(),
         "device": None, "precision": None},
    ),
    "translate M --n-best 4 --sample --temperature 0.5 --top-k 9 --top-p 0.25 --seed 7 "
    "--no-repeat-ngram 3 --prefix Der --alignment a --ensemble N O": (
        "nmt.lines.translate.run_translate",
        {"ensemble": [Path("N"), Path("O")], "alignment": Path("a"), "prefix_file": None,
         "options": LineOptions(
             SearchOptions(n_best=4, sample=True, temperature=0.5, top_k=9, top_p=0.25, seed=7,
                           no_repeat_ngram=3),
             numbered=True, prefix="Der")},
    ),
    "translate M --mbr 30 --prefix-file p": (
        "nmt.lines.translate.run_translate",
        {"prefix_file": Path("p"), "ensemble": (), "alignment": None,
         "options": LineOptions(SearchOptions(mbr=30))},
    ),
    "translate M --format jsonl --document --shard 2/3 --shortlist": (
        "nmt.lines.translate.run_translate",
        {"shard": (2, 3), "shortlist": True, "options": LineOptions(format="jsonl", document=True)},
    ),
    f"translate M --glossary {GLOSSARY}": (
        "nmt.lines.translate.run_translate",
        {"options": LineOptions(SearchOptions(glossary=GLOSSARY))},
    ),
    "translate M --n-best 1": (
        "nmt.lines.translate.run_translate", {"options": LineOptions(numbered=True)},
    ),
    f"evaluate M --source s --reference r --baseline b --target-language de --output o {ALL}": (
        "nmt.evaluation.evaluate.evaluate",
        {0: Path("M"), "source": Path("s"), "reference": [Path("r")], "baseline": Path("b"),
         "target_language": "de", "output": Path("o"), "comet": None, "hypothesis": None,
         "test_set": None, "options": SearchOptions(**SEARCH), **ON},
    ),
    "evaluate --test-set wmt14 --hypothesis h --target-language de --comet": (
        "nmt.evaluation.evaluate.evaluate",
        {0: None, "test_set": "wmt14", "hypothesis": Path("h"), "comet": "Unbabel/wmt22-comet-da",
         "lowercase": False, "tokenize": None, "options": SearchOptions()},
    ),
    "evaluate M --source s --reference r t --lowercase --tokenize intl": (
        "nmt.evaluation.evaluate.evaluate",
        {"reference": [Path("r"), Path("t")], "lowercase": True, "tokenize": "intl"},
    ),
    "evaluate M --analysis --contrastive c": (
        "nmt.evaluation.evaluate.evaluate", {"analysis": True, "contrastive": Path("c")},
    ),
    "evaluate M --comet other --json": ("nmt.evaluation.evaluate.evaluate", {"comet": "other"}),
    "score M --source s --target t --tokens --device cpu --precision bf16": (
        "nmt.lines.score.run_score",
        {0: Path("M"), 1: Path("s"), 2: Path("t"), "each_token": True, **ON},
    ),
    "score M --source s --target t": ("nmt.lines.score.run_score", {"each_token": False}),
    "export M --format ctranslate2 --output o --quantization int8": (
        "nmt.export.export.export",
        {0: Path("M"), 1: Path("o"), 2: "ctranslate2", 3: "int8"},
    ),
    "import C --output o --source-language en --target-language de": (
        "nmt.export.marian_import.import_marian",
        {0: Path("C"), 1: Path("o"), "source_language": "en", "target_language": "de"},
    ),
    "attention M --source s --target t --output o.html": (
        "nmt.evaluation.attention_maps.run_attention", {0: Path("M"), 1: "s", 2: "t",
                                                        3: Path("o.html")},
    ),
    "average R --last 3 --output o": (
        "nmt.runs.average.average", {0: Path("R"), 1: 3, 2: Path("o")},
    ),
    "report R --output o.html --contrastive c": (
        "nmt.reporting.report.report", {0: [Path("R")], 3: Path("c")},
    ),
    "report R S --output o.html": (
        "nmt.reporting.report.report", {0: [Path("R"), Path("S")], 1: Path("o.html")},
    ),
    "prepare CONFIG --processes 3 training.max_steps=5": (
        "nmt.data.prepare.prepare", {"processes": 3, "tokenizer": None},
    ),
    "prepare CONFIG": ("nmt.data.prepare.prepare", {"processes": None}),
    "train CONFIG training.max_steps=5": ("nmt.training.train.train", {}),
    "benchmark train CONFIG --prepared --json training.max_steps=5": (
        "nmt.benchmark.training.benchmark_training",
        {"prepared": True},
    ),
    f"benchmark translate CONFIG --json --sentences 3 {ALL}": (
        "nmt.benchmark.translating.benchmark_translation",
        {"options": SearchOptions(**SEARCH), **ON, "sentences": 3, "input": None},
    ),
    "benchmark translate . --json --input i": (
        "nmt.benchmark.translating.benchmark_translation", {0: Path(), "input": Path("i")},
    ),
    "serve M --host h --port 80 --queue 9 --processes 3 --device cpu --precision bf16": (
        "nmt.serving.server.run_serve",
        {"host": "h", "port": 80, "limits": Limits(queue=9), "allow_host": ()},
    ),
    "serve M --allow-host a --allow-host *": (
        "nmt.serving.server.run_serve", {"allow_host": ["a", "*"]},
    ),
    "serve M": (
        "nmt.serving.server.run_serve",
        {"host": "127.0.0.1", "port": 8000, "limits": Limits(), "allow_host": ()},
    ),
    "info CONFIG --json training.max_steps=5": ("nmt.reporting.info.info", {}),
}  # fmt: skip


class Answer(list):
    """A return value that fits all the functions."""

    def as_json(self) -> dict:
        return {"is": "json"}

    def as_text(self) -> str:
        return "is text"


@pytest.mark.parametrize("line", CALLS)
def test_each_option_arrives(line: str, settings, tmp_path: Path, monkeypatch, capsys):
    function, expected = CALLS[line]
    calls: list[dict[str | int, Any]] = []

    def called(*positional: Any, **named: Any) -> Answer:
        calls.append(dict(enumerate(positional)) | named)
        return Answer()

    monkeypatch.setattr(function, called)
    monkeypatch.setattr("nmt.runs.model_directory.find_model", lambda path: None)
    (tmp_path / "config.yaml").write_text(settings().to_yaml())
    assert main([str(tmp_path / "config.yaml") if w == "CONFIG" else w for w in line.split()]) == 0
    (given,) = calls
    assert {key: given[key] for key in expected} == expected
    if "max_steps" in line:
        assert isinstance(given[0], Config) and given[0].training.max_steps == 5
    if "evaluate" in line and "--json" in line:
        assert json.loads(capsys.readouterr().out) == {"is": "json"}


def test_the_model_that_is_served_is_loaded_as_asked(monkeypatch):
    calls, served = [], []
    monkeypatch.setattr("nmt.runs.model_directory.find_model", lambda path: None)
    monkeypatch.setattr(
        "nmt.serving.server.run_serve", lambda loads, **_: served.append([load() for load in loads])
    )
    monkeypatch.setattr(
        "nmt.translator.Translator.load",
        lambda *path, **named: calls.append((path, named)) or "translator",
    )
    monkeypatch.setattr("nmt.processes.cores", lambda: 4)
    assert main(["serve", "M", "--device", "cpu", "--precision", "bf16"]) == 0
    words = ["serve", "M", "--device", "cpu", "--precision", "bf16", "--processes", "3"]
    assert main(words) == 0
    assert served == [["translator"] * 2, ["translator"] * 3]
    assert all(path == (Path("M"),) and named.items() >= ON.items() for path, named in calls)
    assert sum(named["note"] is say for _, named in calls) == 2  # in one process of each server
    gpu = torch.device("cuda")
    monkeypatch.setattr("nmt.decoding.loading.choose_device", lambda name: gpu)
    assert main(["serve", "M"]) == 0 and main(["serve", "M", "--processes", "2"]) == 0
    assert served[2:] == [["translator", None], ["translator"] * 2]


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    found = {option for action in parser._actions for option in action.option_strings}
    nested = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return found.union(*(options_of(each) for a in nested for each in a.choices.values()))


def test_no_option_is_forgotten_here():
    """A new option needs a line in the table above."""
    actions = new_parser(COMMANDS)._actions
    (commands,) = [a for a in actions if isinstance(a, argparse._SubParsersAction)]
    for name, parser in commands.choices.items():
        tested = {word for line in CALLS if line.split()[0] == name for word in line.split()}
        assert options_of(parser) - {"-h", "--help"} <= tested, name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--max-steps 10", "Unknown option --max-steps. Use training.max_steps=10 instead."),
        ("--max_steps=10", "Unknown option --max_steps. Use training.max_steps=10 instead."),
        ("--model.heads 2", "Unknown option --model.heads. Use model.heads=2 instead."),
        ("--beam", "Unknown option --beam. Use decoding.beam=... instead."),
        ("--nothing 3", "Unrecognized arguments: --nothing 3. See nmt train --help."),
    ],
)
def test_a_setting_taken_for_an_option(words: str, message: str, capsys):
    assert main(["train", "config.yaml", *words.split()]) == 2
    assert capsys.readouterr().err == f"nmt: error: {message}\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trian m.yaml", "Unknown command trian. Did you mean train?"),
        ("benchmark trian m.yaml", "Unknown command trian. Did you mean train?"),
        ("translate m --format jsnol", "Unknown --format jsnol. Did you mean jsonl?"),
        ("translate m --nbest 4", "Unknown option --nbest. Did you mean --n-best?"),
        ("translate --inptu=news.en m", "Unknown option --inptu. Did you mean --input?"),
        # before the message that --source is missing
        ("score m --soruce a --target b", "Unknown option --soruce. Did you mean --source?"),
        ("translate m news.en", "Unexpected argument news.en. To translate the file news.en, use "
         "--input news.en."),
        ("translate m --input -",
         '--input does not accept "-". To read standard input, omit --input.'),
        ("evaluate a.de b.de", "Unexpected argument b.de. To pass text, use "
         "--source, --reference or --hypothesis."),
        ("train m.yaml training.max_steps 3",
         "Write training.max_steps=3, without spaces around the equals sign."),
        ("info m.yaml training.max_steps = 3", "Write training.max_steps=3, without"),
    ],
)  # fmt: skip
def test_mistakes_in_spelling_are_corrected(line: str, message: str, capsys):
    assert main(line.split()) == 2
    assert capsys.readouterr().err.startswith(f"nmt: error: {message}")


def test_what_may_begin_with_hyphens_or_be_abbreviated(monkeypatch):
    """A text with spaces and what follows "--" are values; a unique prefix names an option."""
    found = []
    monkeypatch.setattr(
        "nmt.evaluation.attention_maps.run_attention", lambda *given: found.append(given[:3])
    )
    line = ["attention", "--sou", "--sorce it", "--output", "o", "--", "--targt"]
    assert main(line) == 0
    assert found == [(Path("--targt"), "--sorce it", None)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "No command was given. Choose one of prepare, train, translate, "),
        ("train", "The following arguments are required: CONFIG. See nmt train --help."),
        ("info", "The following arguments are required: CONFIG|MODEL. See nmt info --help."),
        ("translate nowhere --beam 2 --n-best 3", "--n-best 3 exceeds --beam 2. Raise --beam or"),
    ],
)
def test_what_is_missing_or_conflicts_is_told_first(words: str, message: str, capsys):
    assert main(words.split()) == 2
    assert capsys.readouterr().err.startswith(f"nmt: error: {message}")


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("translate M --beam", f"{MAX_BEAM:,}"),
        ("translate M --n-best", f"{MAX_BEAM:,}"),
        ("translate M --mbr", f"{MAX_BEAM:,}"),
        ("serve M --processes", "256"),
        ("prepare M --processes", "256"),
    ],
)
def test_a_number_that_is_too_small_or_too_large_is_told_its_range(words: str, most: str, capsys):
    for value in ("-1", str(int(most.replace(",", "")) + 1)):
        assert main([*words.split(), value]) == 2
        assert f": must be a whole number from 1 to {most}, not {value}." in capsys.readouterr().err


@pytest.mark.parametrize("value", ["-0.1", "100.1", "1e308", "nan", "inf", "x"])
def test_the_length_penalty_has_the_configurations_bounds(value: str, capsys):
    assert main(["translate", "nowhere", "--length-penalty", value]) == 2
    assert re.search("--length-penalty:? must be", capsys.readouterr().err)
    with pytest.raises(ValueError, match="length_penalty"):
        Decoding(length_penalty=float("inf" if value == "x" else value))
    assert SearchOptions(length_penalty=100).length_penalty == 100
    assert Decoding(length_penalty=100).length_penalty == 100


def test_defaults_are_those_that_help_names_and_the_papers(capsys):
    """§6.1: beam 4, alpha 0.6, 50 tokens more than the source; five checkpoints."""
    assert Decoding() == Decoding(beam=4, length_penalty=0.6, max_extra_length=50)
    assert Training.model_fields["average_last"].default == 5
    with pytest.raises(SystemExit):
        main(["translate", "--help"])
    text = capsys.readouterr().out
    least, most = batched_search._CPU_BATCH_TOKENS, batched_search._MOST_CPU_BATCH_TOKENS
    assert f"on a CPU, {least} for base and larger" in " ".join(text.split())
    assert f"up to {most} for smaller ones" in " ".join(text.split())
    assert f"{batched_search._GPU_BATCH_TOKENS} on a GPU" in " ".join(text.split())
    assert "divided by the length penalty" in " ".join(text.split())
    with pytest.raises(SystemExit):
        main(["score", "--help"])
    assert "not divided by the length penalty" in " ".join(capsys.readouterr().out.split())


def test_precision_of_a_cpu_is_fp32_unless_asked_for(settings, tiny_data, monkeypatch):
    import torch

    from nmt.data.tokenizer import Tokenizer
    from nmt.runs.model_directory import LoadedModel, new_transformer

    config = settings()

    tokenizer = Tokenizer.load(tiny_data / "data" / "tokenizer.model")

    def load_model(path, *, device, note):
        return LoadedModel(config, tokenizer, new_transformer(config), 1, path, "", "")

    monkeypatch.setattr(loading, "load_model", load_model)
    for precision, dtype in (
        (None, "float32"),
        ("fp32", "float32"),
        ("bf16", "bfloat16"),
        ("int8", "float32"),
    ):
        found = Translator.load("m", device="cpu", precision=precision)  # type: ignore[arg-type]
        assert found.transformer.embedding.dtype == getattr(torch, dtype)
    monkeypatch.setattr(loading, "choose_device", lambda name: torch.device("meta"))
    with pytest.raises(
        ArgumentError, match="precision int8 is supported only on a CPU, but device is meta"
    ):
        Translator.load("m", precision="int8")
