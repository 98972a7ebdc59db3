"""Exported models give the same translations in CTranslate2 and transformers as in nmt."""

import itertools
import json
import random
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
import yaml

from nmt.cli import main
from nmt.config import Config
from nmt.data.cleaning import normalize
from nmt.data.tokenizer import Tokenizer, train_tokenizer
from nmt.decoding.options import SearchOptions
from nmt.demo_language import demo_pairs
from nmt.errors import ExportError, InputError
from nmt.evaluation.analysis import Analysis, Faults
from nmt.evaluation.paper_bleu import CONVENTIONS
from nmt.export import check, huggingface
from nmt.export import export as exporting
from nmt.export.model_card import _evaluation, model_card
from nmt.export.tokenizer_json import tokenizer_json
from nmt.model.special_ids import EOS_ID
from nmt.reporting import run_record
from nmt.reporting.run_record import TestScores
from nmt.runs.model_directory import load_model, new_transformer, save_model
from nmt.runs.run_directory import RunDirectory
from nmt.storage import manifest
from nmt.storage.names import TOKENIZER
from nmt.translator import Translator
from recipes.exports import compare, timed
from tests.fixtures.make import TRAINED
from tests.full_disk import full_disk

EQUAL_HEADS = {"model__d_k": 16, "model__d_v": 16}
PRE = {"model__norm": "pre"}
LEARNED = {"model__positions": "learned", "model__encoder_layers": 3}


def saved(config: Config, folder: Path) -> str:
    """Saves a model with random weights, including the biases and norms."""
    transformer = new_transformer(config)
    transformer.initialize(1)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in transformer.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    tokenizer = (Path(config.data.directory) / "tokenizer.model").read_bytes()
    facts = {"step": 1, "tokenizer_sha256": Tokenizer(tokenizer).sha256, "data_sha256": ""}
    facts |= {"target_symbols": []}
    save_model(folder, config, {TOKENIZER: tokenizer}, transformer.state_dict(), facts)
    return str(folder)


def export(model: str, format: str, output: Path, *more: str) -> int:
    return main(["export", model, "--format", format, "--output", str(output), *more])


@pytest.mark.parametrize("changes", [EQUAL_HEADS, PRE, LEARNED | EQUAL_HEADS, {}], ids=str)
def test_ctranslate2_gives_our_translations(changes, settings, tmp_path: Path, capsys):
    model = saved(settings(**changes), tmp_path / "model")
    assert export(model, "ctranslate2", tmp_path / "out") == 0
    assert f"Wrote {tmp_path / 'out'} (ctranslate2). 40 greedy" in capsys.readouterr().err
    found = {path.name for path in (tmp_path / "out").iterdir()}
    assert found >= {"model.bin", "config.json", "tokenizer.model", "translate.py"}


def test_an_export_needs_no_temporary_directory(settings, tmp_path: Path, monkeypatch):
    model = saved(settings(), tmp_path / "model")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert export(model, "ctranslate2", tmp_path / "out", "--quantization", "int8") == 0
    assert not [path for path in (tmp_path / "out").iterdir() if path.is_dir()]


@pytest.mark.parametrize("changes", [{}, PRE | LEARNED], ids=str)
def test_transformers_gives_our_translations(changes, settings, tmp_path: Path, capsys, caplog):
    """Loads the export with transformers, and again after transformers has saved it."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = saved(settings(**EQUAL_HEADS | changes), tmp_path / "model")
    out, again = tmp_path / "out", tmp_path / "again"
    assert export(model, "huggingface", out) == 0
    assert not [each for each in caplog.records if each.name.startswith("transformers")]
    [wrote] = capsys.readouterr().err.splitlines()  # without transformers' progress bar
    assert wrote.startswith(f"Wrote {out} (huggingface). 40 greedy ")
    theirs = AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    # True would end the search as soon as `num_beams` hypotheses are finished
    assert theirs.generation_config.early_stopping == "never"
    tokenizer = AutoTokenizer.from_pretrained(out)
    theirs.save_pretrained(again)
    tokenizer.save_pretrained(again)
    tokens = tokenizer(["the man reads a book", "the dog"], return_tensors="pt", padding=True)
    assert set(tokens) == {"input_ids", "attention_mask"}
    assert tokenizer("<s> the </s>").input_ids.count(EOS_ID) == 1  # "</s>" in a text is plain text
    other = AutoModelForSeq2SeqLM.from_pretrained(again).eval()
    with torch.inference_mode():
        read = torch.tensor([[1, 300, 301], [1, 302, 303]])
        before, after = (m(**tokens, decoder_input_ids=read).logits for m in (theirs, other))
    torch.testing.assert_close(before, after, rtol=0, atol=1e-4)
    reread = AutoTokenizer.from_pretrained(again)
    assert reread("the man <s>").input_ids == tokenizer("the man <s>").input_ids
    theirs.generate(**tokens)  # a translation ends at the latest where learned positions end


def test_an_export_is_told_where_it_is_loaded(settings, tmp_path: Path, capsys):
    model = saved(settings(**EQUAL_HEADS), tmp_path / "model")
    for format, told in {
        "ctranslate2": 'run "nmt translate {}"',
        "huggingface": "load the exported model with AutoModelForSeq2SeqLM",
    }.items():
        out = tmp_path / format
        assert export(model, format, out) == 0
        capsys.readouterr()
        assert main(["info", str(out)]) == 3
        line = capsys.readouterr().err
        assert line.startswith(f"nmt: error: {out} is a model for ")
        assert line.endswith(f"the original model, or {told.format(out)}.\n")


CHARACTERS = [
    *map(chr, [*range(0x20, 0x7F), *range(0x100), 0x301, 0x308, 0xFB01, 0x4E2D, 0x1F600]),
    *map(chr, [0x1680, 0x180E, *range(0x2000, 0x2070), 0x3000, 0xFEFF, 0x2581, 0xF2581] * 2),
]
WORDS = [" ", "the", "\u2581", "\U000f25811", "\U000f25810", "<s>", "</s>", "<unk>", "<0x41>"]


def test_the_tokenizers_library_gives_our_ids_and_texts(tiny_data: Path):
    tokenizer = Tokenizer.load(tiny_data / "data" / "tokenizer.model")
    made = tokenizer_json(tokenizer)
    theirs = type(made).from_str(made.to_str())
    theirs.encode_special_tokens = True  # as tokenizer_config.json does
    drawn = random.Random(1)
    texts = ["".join(drawn.choices(CHARACTERS, k=drawn.randint(0, 30))) for _ in range(2000)]
    texts += ["".join(drawn.choices(WORDS, k=drawn.randint(0, 9))) for _ in range(500)]
    texts += [text for pair in demo_pairs(250, 2, "test") for text in (pair.source, pair.target)]
    assert len(texts) == 3000
    for text in texts:
        ids = tokenizer.encode(normalize(text))
        assert theirs.encode(text).ids == [*ids, EOS_ID], ascii(text)
        assert theirs.decode(ids) == tokenizer.decode(ids)


def test_symbols_are_not_for_the_tokenizers_library(tmp_path: Path):
    texts = [text for pair in demo_pairs(99, 1, "train") for text in (pair.source, pair.target)]
    train_tokenizer(texts, 400, tmp_path / "tokenizer.model", ["<2de>"])
    with pytest.raises(InputError, match=r"symbols \(<2de>\)"):
        tokenizer_json(Tokenizer.load(tmp_path / "tokenizer.model"))


def test_the_script_beside_the_model_translates_as_nmt_does(settings, tmp_path: Path, capsys):
    """The script runs in an environment without nmt and torch."""
    config = settings(decoding__beam=1)
    model = saved(config, tmp_path / "model")
    out, lines = tmp_path / "out", tmp_path / "lines"
    assert export(model, "ctranslate2", out, "--quantization", "int8") == 0
    texts = ["the man reads", "", "the\u00a0old  dog", "\u2581 of \x07 it", "a\tb"]
    # the check uses float32; the effect of the quantization is reported
    assert re.search(
        rf"Wrote {out} \(ctranslate2, int8\). In float32, 40 greedy .* identical to nmt's, .* "
        r"In int8, \d+ of the 40 translations of random .* by up to \d.* nmt evaluate",
        capsys.readouterr().err,
    )
    lines.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    namespace = runpy.run_path(str(out / "translate.py"))
    assert [namespace["normalize"](each) for each in texts] == list(map(normalize, texts))
    code = "import sys; sys.modules['nmt'] = sys.modules['torch'] = None; sys.argv = ['x']\n"
    code += f"import runpy; runpy.run_path({str(out / 'translate.py')!r}, run_name='__main__')"
    with lines.open() as file:
        run = subprocess.run(
            [sys.executable, "-c", code], stdin=file, capture_output=True, text=True, check=True
        )
    many = subprocess.Popen(
        [sys.executable, str(out / "translate.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    many.stdout.close()  # like `head`
    assert many.communicate(b"the man\n" * 300)[1] == b"" and many.returncode == 0
    words = [sys.executable, str(out / "translate.py"), "--beam", "1", str(lines)]
    wrong = subprocess.run(words, capture_output=True, text=True)
    assert wrong.returncode == 2 and f"unrecognized arguments: {lines}" in wrong.stderr
    wrong = subprocess.run([*words[:2], "--beam", "0"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "--beam must be at least 1" in wrong.stderr
    words[-1:] = ["--length-penalty", "0"]
    with lines.open() as file:
        same = subprocess.run(words, stdin=file, capture_output=True, text=True, check=True)
    assert same.stdout == run.stdout  # greedy search has no length penalty
    found = run.stdout.split("\n")
    assert len(found) == len(texts) + 1 and found[1] == ""
    exact = tmp_path / "exact"
    assert export(model, "ctranslate2", exact) == 0
    sizes = [(folder / "model.bin").stat().st_size for folder in (out, exact)]
    assert sizes[1] - sizes[0] > 100_000  # bytes
    namespace = runpy.run_path(str(exact / "translate.py"))
    ours = [each.text for each in Translator.load(model, device="cpu").translate(texts)]
    each = [namespace["translate"]([text])[0] for text in texts]  # a batch has one maximum length
    assert each == ours
    for name in ("tokenizer.model", "model.bin"):
        (exact / name).write_bytes((exact / name).read_bytes()[:-9])
        with pytest.raises(SystemExit, match=r"exact is damaged .* Restore it from a copy"):
            runpy.run_path(str(exact / "translate.py"))


def test_what_differs_from_our_translations_is_found():
    sample = check.Sample("a", [5], [6, 7, EOS_ID], [-0.5, -0.25, -0.125], 9)
    close = [-0.5, -0.25, -0.12505]
    for tokens in ([6, 7], [6, 7, EOS_ID]):
        check.compare([sample] * 2, [tokens] * 2, [close] * 2, "x")
    for tokens, logs in (([6, 8], close), ([6], close), ([6, 7], [-0.5, -0.2502, -0.125])):
        with pytest.raises(ExportError, match=r"x model .* Nothing was exported"):
            check.compare([sample] * 2, [[6, 7], tokens], [close, logs], "x")


def test_nothing_is_exported_among_a_runs_own_files(tmp_path: Path, monkeypatch, capsys):
    """Later commands would take the export for a damaged model of the run."""
    run = shutil.copytree(TRAINED / "run", tmp_path / "run")
    monkeypatch.setattr(exporting, "load_model", None)
    for name in ("model/out", "checkpoints/step-00000099"):
        assert export(str(run), "ctranslate2", run / name) == 2
        said = capsys.readouterr().err
        assert f"--output {run / name} is inside {run}, " in said


def test_a_difference_exports_nothing(settings, tmp_path: Path, monkeypatch, capsys):
    model = saved(settings(**EQUAL_HEADS), tmp_path / "model")
    for format in ("ctranslate2", "huggingface"):
        with monkeypatch.context() as patched:
            patched.setattr(check, "TOLERANCE", -1.0)
            patched.setattr(check, "_NUMBER", 3)
            assert export(model, format, tmp_path / format) == 1
        *_, line = capsys.readouterr().err.splitlines()
        assert f"{format} model" in line and "Nothing was exported" in line
        assert not (tmp_path / format).exists()


def test_r12_a_full_disk_leaves_no_half_export(settings, tmp_path: Path, capsys):
    """The disk fills up while the tokenizer, the model or the configuration is written."""
    model = saved(settings(**EQUAL_HEADS), tmp_path / "model")
    for format, room in itertools.product(("ctranslate2", "huggingface"), (100, 10_000, 100_000)):
        with full_disk(room):
            assert export(model, format, tmp_path / "out") == 5
        errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
        assert len(errors) == 1 and errors[0].startswith("nmt: error: "), errors
        assert re.search(rf"{tmp_path}/(\.tmp-nmt-\w+-)?out", errors[0]), errors
        assert [path.name for path in tmp_path.iterdir()] == ["model"], room


@pytest.mark.parametrize(
    ("format", "changes", "reason"),
    [
        ("ctranslate2", {"model__attention_window": 4}, "model.attention_window"),
        ("huggingface", {"model__attention_window": 4} | EQUAL_HEADS, "model.attention_window"),
        ("huggingface", {}, "model.d_k"),
        ("huggingface", {"model__d_k": 8, "model__d_v": 8}, "model.d_k"),
        ("huggingface", LEARNED | EQUAL_HEADS, "model.positions"),
        ("huggingface", {"model__norm_type": "rms"} | EQUAL_HEADS, "model.norm_type: rms"),
        ("ctranslate2", {"model__feed_forward": "swiglu"}, "model.feed_forward: swiglu"),
        ("ctranslate2", {"model__positions": "rotary"}, "model.positions: rotary"),
    ],
    ids=str,
)
def test_what_cannot_be_expressed_is_refused(format, changes, reason, settings, tmp_path, capsys):
    model = saved(settings(**changes), tmp_path / "model")
    assert export(model, format, tmp_path / "out") == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("nmt: error: ") and reason in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("format", "package"), [("ctranslate2",) * 2, ("huggingface", "transformers")]
)
def test_a_missing_extra_is_told(format, package, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert export(str(tmp_path), format, tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert f"{package} is not installed, but nmt export needs it." in said
    assert f"pip install 'nmt[{format}]'" in said


def test_a_quantization_is_ctranslate2s(tmp_path, capsys):
    assert export(str(tmp_path), "huggingface", tmp_path / "out", "--quantization", "int8") == 2
    assert "--quantization int8 is supported only for" in capsys.readouterr().err


def test_the_model_cards_table_has_three_cells_a_row():
    """sacreBLEU's signatures contain "|", which would end a cell."""
    scores = {"bleu": 31.5, "bleu_signature": "nrefs:1|case:mixed|tok:13a"}
    *_, row, _ = _evaluation(scores)
    assert len(re.findall(r"(?<!\\)\|", row)) == 4, row


def test_the_model_card_says_what_the_run_says(settings, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(huggingface, "_check", lambda *_: "")
    config = settings(**EQUAL_HEADS)
    assert export(saved(config, tmp_path / "model"), "huggingface", tmp_path / "out") == 0
    _, head, body = (tmp_path / "out" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    metadata = yaml.safe_load(head)
    assert metadata["language"] == ["en", "de"] and metadata["pipeline_tag"] == "translation"
    assert "model-index" not in metadata and "Not evaluated" in body
    assert "demo 200 pairs" in body and "1 steps" in body
    assert "up to 59 tokens" in body  # and EOS, 60 in total

    def settings_in(name: str) -> dict:
        return json.loads((tmp_path / "out" / name).read_text())

    assert settings_in("config.json")["d_model"] == 32
    generation = settings_in("generation_config.json")
    assert [generation[name] for name in ("num_beams", "length_penalty", "max_length")] == [
        config.decoding.beam, config.decoding.length_penalty, 60 + 10
    ]  # fmt: skip
    assert settings_in("tokenizer_config.json")["model_max_length"] == 60


def test_the_scores_on_a_card_are_those_kept_of_that_very_model(tmp_path: Path, monkeypatch):
    """The card of the model has its saved scores; the card of a checkpoint has none."""
    monkeypatch.setattr(run_record, "evaluate", None)
    run = RunDirectory(shutil.copytree(TRAINED / "run", tmp_path / "run"))
    shutil.copytree(TRAINED / "data", tmp_path / "data")
    folders = [run.model, run.by_step()[0][1]]
    models = [load_model(folder, device=torch.device("cpu")) for folder in folders]
    assert all("Not evaluated" in model_card(model) for model in models)
    scores = {"bleu": 31.5, "chrf": 50.25, "ter": 60.125, "bleu_signature": "a|b"}
    scores["paper_bleu_convention"] = CONVENTIONS.get("de")
    sha256 = manifest.read(run.model, "model")["sha256"]
    texts = {"sources": ["a"], "references": ["b"], "translations": ["c"]}
    analysis = Analysis(1, 1.0, *[Faults(0, 0, 0)] * 2, [], None, None, [])
    kept = TestScores(model_sha256=sha256, scores=scores, analysis=analysis, **texts)
    run.test_scores.parent.mkdir()
    run.test_scores.write_bytes(kept.as_file())
    ours, other = map(model_card, models)
    [index] = yaml.safe_load(ours.split("---\n")[1])["model-index"]
    [result] = index["results"]
    assert {each["type"]: each["value"] for each in result["metrics"]} == {
        "bleu": 31.5, "chrf": 50.25
    }  # fmt: skip
    assert "| BLEU | 31.50 | `a\\|b` |\n| chrF | 50.25 | `` |\n| TER | 60.12 |" in ours
    assert "Not evaluated" in other and "31.5" not in other


def test_all_systems_are_compared_on_the_same_text(settings, tmp_path: Path, monkeypatch, capsys):
    """All systems translate the test set in order and are scored, here without child processes,
    which would import transformers again.
    """
    monkeypatch.setattr(check, "_NUMBER", 3)
    model = saved(settings(**EQUAL_HEADS, decoding__max_extra_length=0), tmp_path / "model")
    out, order = tmp_path / "out", []

    def in_this_process(command: list[str], **_) -> subprocess.CompletedProcess:
        task = json.loads(command[-1])
        order.append((task["program"], task["arithmetic"]))
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", command[1:])
            timed.main()
        return subprocess.CompletedProcess(command, 0, capsys.readouterr().out, "")

    monkeypatch.setattr(compare.subprocess, "run", in_this_process)
    compare.main([model, str(out), "--beam", "1", "--rounds", "2", "--threads", "1"])
    systems = [(program, how) for program, _, how in compare.SYSTEMS.values()]
    assert order == systems + systems[::-1]
    found = json.loads((out / "results.json").read_text())
    assert found["sentences"] == 20 and list(found["results"]) == list(compare.SYSTEMS)
    for each in found["results"].values():
        assert len(each["seconds"]) == 2
        pairs = zip(each["seconds"], each["seconds_with_start_up"], strict=True)
        assert all(0 < seconds < whole for seconds, whole in pairs)
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(compare.SYSTEMS)
    sources = (out / "source.txt").read_text().splitlines()
    translator = Translator.load(model, device="cpu", precision="fp32")
    ours = [each.text for each in translator.translate(sources, SearchOptions(beam=1))]
    assert compare.text_of(out, "nmt fp32").read_text().split("\n") == [*ours, ""]
