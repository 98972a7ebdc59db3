"""Configuration: strict, with every problem named at once where it stands."""

from pathlib import Path

import pytest
import yaml

from nmt import config as configuration
from nmt.config import Config, differences, load
from nmt.errors import InputError

CONFIGS = Path(__file__).parent.parent / "configs"

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


def test_a_base_that_leads_back_is_refused(tmp_path: Path):
    write(tmp_path, "base: b.yaml\n", "a.yaml")
    assert "leads back" in problems(write(tmp_path, "base: a.yaml\n", "b.yaml"))[0]


def test_every_problem_is_named_with_line_and_key(tmp_path: Path):
    text = GOOD.replace("directory: data/x", "directory: data/x\n  max_lenght: 3").replace(
        "target: a.de.gz", "targt: a.de.gz"
    )
    text += "  max_steps: ten\n  gradient_clip: -1\n  micro_batches: 0\nmodle: {}\n"
    path = write(tmp_path, text)
    found = problems(path, "model.d_modl=3", "decoding.beam=0")
    for expected in (
        f"unknown key data.max_lenght, {path}:3, did you mean max_length?",
        f"unknown key data.train.1.text.targt, {path}:8, did you mean target?",
        f'training.max_steps must be a whole number, found "ten", {path}:16, correct it',
        f"training.gradient_clip should be greater than 0, found -1, {path}:17, correct it",
        f"unknown key modle, {path}:19, did you mean model?",
        "unknown key model.d_modl, command line, did you mean d_model?",
        "decoding.beam should be greater than or equal to 1, found 0, command line, correct it",
    ):
        assert expected in found
    assert sum("micro_batches" in line and ":18" in line for line in found) >= 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "no settings found"),
        ("- a\n", "no settings found"),
        ("data: {directory: a\n", "not valid YAML"),
        ("\tdata: 1\n", "not valid YAML"),
        ("data: 1\ndata: 2\n", "duplicate key data (first on line 1)"),
        ("data: {a: 1, a: 2}\n", "duplicate key data.a"),
        ("a: !!python/object/apply:os.system [ls]\n", "not valid YAML"),
        ("? [a, b]\n: 1\n", "a key that is not a word"),
        ("a: &x [1]\nb: [" + ", ".join(["*x"] * 101) + "]\n", "aliases"),
        (GOOD + "  seed: .nan\n", "training.seed"),
        (GOOD + "  seed: 1.5\n", "training.seed must be a whole number"),
        (GOOD + "  compile: yes\n", "training.compile must be true or false"),
        (GOOD + "  average_last: 20\n", "average_last (20) must not exceed"),
        (GOOD + "  batch_tokens: 100\n", "data.max_length (256) must not exceed"),
        (GOOD.replace("- {demo: {pairs: 600, seed: 1}}", "- {foo: 1}"), "exactly one of hub, text"),
        ("x: " + "1" * 1_000_001, "larger than"),
        (
            "a0: &a0 [1]\n"
            + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 4}]\n" for n in range(1, 20)),
            "more than 10000 entries",
        ),
        ("a: !!bool maybe\n", "not valid YAML"),
        ("a: !!timestamp x\n", "not valid YAML"),
        (GOOD + "  max_steps: 1" + "0" * 30 + "\n", "training.max_steps should be less than"),
        (GOOD.replace("runs/x", '"a\\0b"'), "training.run_directory must not hold a NUL"),
        (GOOD.replace("runs/x", "data/x"), "are both data/x"),
        (GOOD.replace("pairs: 600", "pair: 600"), "did you mean pairs?"),
        (GOOD + "foo-bar: 1\n", "unknown key foo-bar"),
        (GOOD + "  max-steps: 1\n", "unknown key training.max-steps"),
        (GOOD + "  early_stopping: 3\n", "early_stopping needs data.validation"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path: Path, text: str, expected: str):
    assert any(expected in line and "\n" not in line for line in problems(write(tmp_path, text)))


def test_files_that_cannot_be_read(tmp_path: Path):
    assert "no such file" in problems(tmp_path / "none.yaml")[0]
    assert "a folder" in problems(tmp_path)[0]
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe4\n")
    assert "not valid UTF-8" in (found := problems(tmp_path / "latin.yaml")[0])
    assert "latin.yaml:2" in found
    assert "not an override" in problems(write(tmp_path, GOOD), "model.d_ff")[0]


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_loads(path: Path):
    assert isinstance(load(path), Config)


def test_the_shipped_configurations_that_others_name_are_there():
    names = {str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml")}
    wanted = {"demo.yaml", "multi30k.yaml", "transformer_base.yaml", "transformer_big.yaml",
              "wmt14_en_fr_base.yaml", "wmt14_en_fr_big.yaml"}  # fmt: skip
    assert wanted <= names
    demo = load(CONFIGS / "demo.yaml")
    assert (demo.data.directory, demo.training.run_directory) == ("data/demo", "runs/demo")


def test_defaults_stand_in_one_place():
    """A file with the required keys alone is the paper's base model."""
    required = yaml.safe_load(GOOD)
    required["training"].pop("label_smoothing")
    required["data"]["target_language"] = "no"  # a YAML 1.1 reader takes it for false
    config = configuration.validate(required, {}, "x")
    assert config.model == Config.model_fields["model"].default
