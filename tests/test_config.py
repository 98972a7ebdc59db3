"""Configuration: strict, with every problem named at once where it stands."""

import os
from pathlib import Path

import pytest
import yaml

from nmt import config as configuration
from nmt.cli import main
from nmt.config import Config, differences, load
from nmt.data.corpora import read_corpus
from nmt.errors import InputError
from nmt.runs.run_directory import MAY_CHANGE
from nmt.storage import names
from nmt.training.train import train

CONFIGS = Path(__file__).parent.parent / "configs"
RECIPES = CONFIGS.parent / "recipes"

GOOD = """\
data:
  directory: data/x
  source_language: en
  target_language: no
  train:
    - {hub: wmt/wmt14, name: de-en, split: train}
    - {text: {source: a.en.gz, target: a.de.gz}, weight: 2}
    - {tsv: {path: p.tsv, source_column: 1, target_column: 0}}
    - {parquet: {path: p.parquet, source_column: translation.en, target_column: de}}
    - {jsonl: {path: p.jsonl, source_column: en, target_column: de}}
    - {demo: {pairs: 600, seed: 1}}
training:
  run_directory: runs/x
  label_smoothing: 1e-9
"""


def write(folder: Path, text: str, name: str = "c.yaml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def problems(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(InputError) as error:
        load(path, overrides)
    assert error.value.status == 2
    return list(error.value.problems)


def test_yaml_1_2_scalars_and_the_papers_defaults(tmp_path: Path):
    config = load(write(tmp_path, GOOD))
    assert config.data.target_language == "no"
    assert config.training.label_smoothing == 1e-9
    assert (config.model.d_model, config.model.heads, config.training.warmup_steps) == (
        512,
        8,
        4000,
    )
    assert len({type(corpus) for corpus in config.data.train}) == 6


def test_what_is_written_out_reads_back_the_same(tmp_path: Path):
    awkward = ["training.gradient_clip=1.5", "data.source_language='1e5'", "data.directory='08'"]
    config = load(write(tmp_path, GOOD), awkward)
    again = load(write(tmp_path, config.to_yaml(), "again.yaml"))
    assert again == config
    assert differences(config, again) == {}


def test_base_and_overrides(tmp_path: Path):
    write(tmp_path, GOOD)
    above = write(tmp_path, "base: c.yaml\nmodel: {d_ff: 7}\ndata: {max_length: 9}\n", "above.yaml")
    config = load(above, ["training.max_steps=3", "model.norm=pre", "training.gradient_clip=null"])
    assert (config.model.d_ff, config.data.max_length, config.model.norm) == (7, 9, "pre")
    assert config.training.max_steps == 3
    assert config.data.directory == "data/x"
    assert differences(load(tmp_path / "c.yaml"), config).keys() == {
        "model.d_ff", "data.max_length", "training.max_steps", "model.norm",
    }  # fmt: skip


def test_r18_a_base_that_leads_back(tmp_path: Path):
    write(tmp_path, "base: b.yaml\n", "a.yaml")
    assert "leads back" in problems(write(tmp_path, "base: a.yaml\n", "b.yaml"))[0]


def test_r18_every_problem_is_named_at_once_with_line_and_key(tmp_path: Path):
    text = GOOD.replace("directory: data/x", "directory: data/x\n  max_lenght: 3").replace(
        "target: a.de.gz", "targt: a.de.gz"
    )
    text += "  max_steps: ten\n  gradient_clip: -1\n  micro_batches: 10001\nmodle: {}\n"
    path = write(tmp_path, text)
    found = problems(path, "model.d_modl=3", "decoding.beam=0")
    whole = "a whole number from 1 to 1,000,000,000"
    for expected in (
        f"unknown key data.max_lenght, {path}:3, did you mean max_length?",
        f"unknown key data.train.1.text.targt, {path}:8, did you mean target?",
        f'training.max_steps must be {whole}, found "ten", {path}:16, correct it',
        "training.gradient_clip must be a number above 0 to 1,000,000 or null, found -1, "
        f"{path}:17, correct it",
        "training.micro_batches must be a whole number from 1 to 10,000 or auto, found 10001, "
        f"{path}:18, correct it",
        f"unknown key modle, {path}:19, did you mean model?",
        "unknown key model.d_modl, overrides, did you mean d_model?",
        "decoding.beam must be a whole number from 1 to 1,000, found 0, overrides, correct it",
    ):
        assert expected in found
    assert len(found) == 8  # all at once, each once


BAD_FILES: list[tuple[str | bytes, str]] = [
    ("", "no settings found"),
    ("# nothing\n", "no settings found"),
    ("- a\n", "no settings found"),
    ("data: {directory: a\n", "not valid YAML"),
    ("\tdata: 1\n", "not valid YAML"),
    ("data:\n\tdirectory: x\n", "c.yaml:2"),
    ("--- 1\n--- 2\n", "not valid YAML (but found another document)"),
    ("data: \x00\n", "not valid YAML"),
    (b"a: 1\nb: \xe4\n", "not valid UTF-8, c.yaml:2"),
    ("data: 1\n".encode("utf-16"), "not valid UTF-8"),
    ("data: 1\ndata: 2\nmodel: 3\nmodel: 4\n", "duplicate key data (first on line 1), c.yaml:2"),
    ("data: 1\ndata: 2\nmodel: 3\nmodel: 4\n", "duplicate key model (first on line 3), c.yaml:4"),
    ("data: {a: 1, a: 2}\n", "duplicate key data.a"),
    ("a: !!python/object/apply:os.system [touch canary]\n", "not valid YAML"),
    ("a: !!python/name:os.system\n", "not valid YAML"),
    ("a: !!bool maybe\n", "not valid YAML"),
    ("a: !!timestamp x\n", "not valid YAML (!!timestamp is wrong here), c.yaml:1, leave it out"),
    ("a: !!int one\n", "not valid YAML (!!int is wrong here), c.yaml:1"),
    ("a: !!float x\n", "not valid YAML (!!float is wrong here), c.yaml:1"),
    ("a:\n- !!set {b, c}\n", "not valid YAML (!!set is wrong here), c.yaml:2"),
    ("a: !!binary AAAA\n", "not valid YAML (!!binary is wrong here), c.yaml:1"),
    ("a: !x b\n", "not valid YAML (!x is wrong here), c.yaml:1"),
    ("--- !!omap [a]\n", "not valid YAML (!!omap is wrong here), c.yaml:1"),
    ("a: !!map x\n", "not valid YAML (!!map is wrong here), c.yaml:1"),
    ("a: !!str [b]\n", "not valid YAML (!!str is wrong here), c.yaml:1"),
    ("!!bool a: 1\n", "a key that is not a word, c.yaml:1"),
    ("? [a, b]\n: 1\n", "a key that is not a word"),
    (GOOD + "1.5: 2\n", "a key that is not a word, c.yaml:15"),
    ("x: " + "1" * 10_000_000, "larger than"),
    ("x: 1" + "0" * 5000, "not valid YAML (Exceeds the limit"),
    ("[" * 100_000, "nested more than 50 deep, c.yaml:1"),
    ("a: &x [1]\nb: [" + ", ".join(["*x"] * 101) + "]\n", "more than 100 aliases"),
    ("a: &a [*a]\n", "not valid YAML (maximum recursion depth"),
    (
        "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 4}]\n" for n in range(1, 20)),
        "more than 10000 entries",
    ),
    ("base: c.yaml\n", "leads back to this file"),
    ("base: none.yaml\n", "no such file, none.yaml"),
    ('base: "a\\0b"\n', "no such file"),
    ('base: "\\ud800"\n', "no such file"),
    ("base: .\n", "a folder"),
    ("base: [c.yaml]\n", "base must be a file name, c.yaml:1"),
    (GOOD + "  seed: .nan\n", "training.seed must be a whole number from 0 to 4,294,967,295"),
    (GOOD + "  seed: 1.5\n", "training.seed must be a whole number from 0 to"),
    (GOOD + "  compile: yes\n", 'training.compile must be true or false, found "yes", c.yaml:15'),
    (GOOD + "  precision: fp16\n", 'training.precision must be fp32 or bf16, found "fp16"'),
    (GOOD + "  learning_rate_factor: .inf\n", "a number above 0 to 1,000,000, found Infinity"),
    (GOOD + "  average_last: 20\n", "average_last (20) must not exceed"),
    (GOOD + "  batch_tokens: 100\n", "data.max_length (256) must not exceed"),
    (
        GOOD + "  max_steps: 1" + "0" * 30 + "\n",
        "max_steps must be a whole number from 1 to 1,000,",
    ),
    (GOOD + "  micro_batches: 10001\n", "from 1 to 10,000 or auto, found 10001"),
    (GOOD + "  early_stopping: 3\n", "early_stopping needs data.validation"),
    (
        GOOD + "  max-steps: 1\n",
        "unknown key training.max-steps, c.yaml:15, did you mean max_steps?",
    ),
    (GOOD + "foo-bar: 1\n", "unknown key foo-bar"),
    (
        GOOD + "model: {d_model: 1_000_000_000}\n",
        "d_model must be a whole number from 1 to 100,000",
    ),
    (GOOD + "model: {d_model: 7}\n", "d_model must be even"),
    (GOOD.replace("runs/x", '"a\\0b"'), "training.run_directory must be text"),
    (GOOD.replace("runs/x", '"\\ud800"'), "training.run_directory must be text"),
    (GOOD.replace("runs/x", "data/x"), "are both data/x"),
    (GOOD.replace("pairs: 600", "pair: 600"), "did you mean pairs?"),
    (GOOD.replace("- {demo: {pairs: 600, seed: 1}}", "- {foo: 1}"), "exactly one of hub, text"),
    (GOOD.replace("  target_language: no\n", ""), "missing key data.target_language"),
]


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The error lines of `nmt train`, which must end in exit status 2 and say nothing else."""
    assert main(["train", *arguments]) == 2
    found = capfd.readouterr().err.splitlines()
    assert all(line.startswith("nmt: error: ") for line in found), found
    return found


@pytest.mark.parametrize(("text", "expected"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_r18_bad_files(tmp_path: Path, monkeypatch, capfd, text: str | bytes, expected: str):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert any(expected in line for line in refused(capfd, "c.yaml"))
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.d_ff", "not an override"),
        ("=3", "not an override"),
        ("model..d_ff=3", "not an override"),
        (".".join(["model"] * 2000) + "=3", "not an override: model.model."),
        ("model.d_ff=[", "not valid YAML"),
        ("model={d_ff: 1, d_ff: 2}", "duplicate key d_ff"),
        ("model.d_ff=", "model.d_ff must be a whole number from 1 to 100,000, found null"),
        ("model=null", "model must be a mapping of settings, found null"),
        ("data.train=[]", "data.train must not be empty"),
        ("data.train.0.weight=3", "data.train must be a list of corpora"),
        ("base=x.yaml", "unknown key base"),
        # so rarely that no epoch would ever have a pair
        ("data.train=[{hub: x, split: y, weight: 1e-9}]", "weight must be a number from 0.0001"),
        ("training.learning_rate_factor=!!python/name:os.system", "not valid YAML"),
    ],
)
def test_r18_bad_overrides(tmp_path: Path, monkeypatch, capfd, override: str, expected: str):
    """A second mistake on the same command line is named as well."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, GOOD)
    found = refused(capfd, "c.yaml", override, "decoding.beam=0")
    assert any(expected in line for line in found)
    assert any("decoding.beam must be a whole number from 1 to 1,000, found 0" in f for f in found)
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_r18_files_that_cannot_be_read(tmp_path: Path):
    assert "no such file" in problems(tmp_path / "none.yaml")[0]
    assert "a folder" in problems(tmp_path)[0]
    os.mkfifo(tmp_path / "pipe.yaml")  # opening it would wait for ever
    assert "a pipe or device" in problems(tmp_path / "pipe.yaml")[0]
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    with pytest.raises(OSError, match="symbolic links"):
        load(tmp_path / "loop.yaml")
    for number in range(30):
        write(tmp_path, f"base: {number + 1}.yaml\n", f"{number}.yaml")
    assert "more than 20 files" in problems(tmp_path / "0.yaml")[0]


@pytest.mark.parametrize(
    ("data", "run", "origin", "problem"),
    [
        ("exp", "exp/run", "exp/model", None),
        ("exp/data", "exp", "exp/former/model", None),
        ("trainer", "trainer/training", None, None),
        ("exp", "exp/train", None, "training.run_directory is exp/train, in what nmt prepare"),
        ("exp", "exp/validation/x/y", None, "in what nmt prepare replaces in data.directory exp"),
        ("exp", "exp/.work", None, "training.run_directory is exp/.work"),
        ("exp", "link", None, "training.run_directory is link"),
        ("exp/model", "exp", None, "data.directory is exp/model, in what nmt train replaces in"),
        ("exp/checkpoints/x", "exp", None, "in what nmt train replaces in training.run_directory"),
        ("exp/tensorboard", "exp", None, "data.directory is exp/tensorboard"),
        ("exp/evaluation", "./exp/../exp", None, "data.directory is exp/evaluation"),
        ("exp", "run", "exp/train/model", "training.initialize_from is exp/train/model"),
        ("exp", "run", "run/checkpoints/step-00000004", "training.initialize_from is run/checkp"),
        ("run/.tmp-x", "run", None, "data.directory is run/.tmp-x"),
    ],
)
def test_no_directory_lies_where_another_is_replaced(
    tmp_path: Path, monkeypatch, data: str, run: str, origin: str | None, problem: str | None
):
    """`nmt prepare` into exp would else remove a run in exp/train, checkpoints and all."""
    monkeypatch.chdir(tmp_path)
    Path("exp/train/run").mkdir(parents=True)
    Path("link").symlink_to("exp/train/run")
    path = write(tmp_path, GOOD.replace("runs/x", run).replace("data/x", data))
    # both sections, so that nothing is inherited from a model that is not there
    whole = ["model={}", "tokenizer={}"]
    overrides = [f"training.initialize_from={origin}", *whole] if origin else []
    if problem is None:
        load(path, overrides)
    else:
        [found] = problems(path, *overrides)
        assert problem in found


def test_what_stands_in_real_directories_is_known_to_be_replaced(tiny_data: Path, settings):
    data, run = tiny_data / "data", Path(settings().training.run_directory)
    train(settings(training__max_steps=1), lambda line: None)
    assert {path.name for path in data.iterdir()} <= names.IN_DATA
    assert {path.name for path in run.iterdir()} <= names.IN_RUN


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_loads(path: Path):
    assert isinstance(load(path), Config)


def test_shipped_configurations_with_one_data_directory_agree_on_its_content():
    """Otherwise the second would prepare anew what a run of the first was trained on."""
    found: dict[str, list[tuple]] = {}
    for path in [*CONFIGS.rglob("*.yaml"), *RECIPES.rglob("*.yaml")]:
        config = load(path)
        found.setdefault(config.data.directory, []).append((config.data, config.tokenizer))
    assert len(found) < sum(map(len, found.values()))
    for directory, contents in found.items():
        assert all(content == contents[0] for content in contents), directory


def test_the_shipped_configurations_that_others_name_are_there():
    names = {str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml")}
    wanted = {"demo.yaml", "multi30k.yaml", "transformer_base.yaml", "transformer_big.yaml",
              "wmt14_en_fr_base.yaml", "wmt14_en_fr_big.yaml"}  # fmt: skip
    assert wanted <= names
    demo = load(CONFIGS / "demo.yaml")
    assert (demo.data.directory, demo.training.run_directory) == ("data/demo", "runs/demo")


def test_paths_are_relative_to_where_the_command_is_run_and_base_to_its_file(
    tmp_path: Path, monkeypatch
):
    for name in ("configs", "shared", "work"):
        (tmp_path / name).mkdir()
    text = GOOD.replace("a.en.gz", "a.en").replace("a.de.gz", "a.de")
    write(tmp_path / "shared", text, "base.yaml")
    path = write(tmp_path / "configs", "base: ../shared/base.yaml\n")
    (tmp_path / "work/a.en").write_text("here\n")
    (tmp_path / "work/a.de").write_text("hier\n")
    monkeypatch.chdir(tmp_path / "work")
    config = load(Path("../configs") / path.name, ["training.run_directory=runs/y"])
    assert list(read_corpus(config.data.train[1], config.data, "train")) == [("here", "hier")]
    assert (config.data.directory, config.training.run_directory) == ("data/x", "runs/y")


def test_the_defaults_are_the_papers_base_model():
    """Table 3, first row; §5.3 Adam's schedule; §5.4 dropout and smoothing; §6.1 decoding."""
    required = yaml.safe_load(GOOD)
    required["training"].pop("label_smoothing")
    required["data"]["target_language"] = "no"  # a YAML 1.1 reader takes it for false
    config = configuration.validate(required, {}, "x")
    assert config.model.model_dump() == {
        "encoder_layers": 6, "decoder_layers": 6, "d_model": 512, "d_ff": 2048, "heads": 8,
        "d_k": 64, "d_v": 64, "dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0,
        "positions": "sinusoidal", "norm": "post", "attention_window": None,
    }  # fmt: skip
    wanted = {
        "max_steps": 100_000, "batch_tokens": 25_000, "warmup_steps": 4000,
        "learning_rate_factor": 1.0, "label_smoothing": 0.1, "gradient_clip": None,
        "average_last": 5, "early_stopping": None, "initialize_from": None,
    }  # fmt: skip
    assert {key: getattr(config.training, key) for key in wanted} == wanted
    assert config.decoding.model_dump() == {
        "beam": 4, "length_penalty": 0.6, "max_extra_length": 50,
    }  # fmt: skip
    assert config.tokenizer.model_dump() == {"vocabulary_size": 37_000, "bpe_dropout": 0.0}


def test_what_may_change_when_a_run_goes_on_is_what_is_promised():
    """Steps, how often it saves and measures, and decoding; and a run may be moved."""
    training = {"max_steps", "checkpoint_every", "keep_checkpoints", "average_last",
                "validate_every", "log_every", "early_stopping", "run_directory"}  # fmt: skip
    decoding = {"beam", "length_penalty", "max_extra_length"}
    promised = {f"training.{key}" for key in training} | {f"decoding.{key}" for key in decoding}
    assert promised == MAY_CHANGE
