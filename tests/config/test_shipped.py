"""The shipped configurations: all load, and have the paper's settings."""

from pathlib import Path

import pytest
import yaml

from nmt.config import Config, load, validate
from nmt.paper import BASE, EN_FR_BIG_IN_TEXT, TABLE_2
from nmt.reporting.paper_models import differences_from_paper
from tests.config.files import GOOD

CONFIGS = Path(__file__).parents[2] / "configs"
RECIPES = CONFIGS.parent / "recipes"
PAPERS = {
    ("de", "base"): "transformer_base", ("de", "big"): "transformer_big",
    ("fr", "base"): "wmt14_en_fr_base", ("fr", "big"): "wmt14_en_fr_big",
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_loads(path: Path):
    assert isinstance(load(path), Config)


def test_shipped_configurations_with_one_data_directory_agree_on_its_content():
    """Otherwise `nmt prepare` for one of them would replace the data of the other."""
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


@pytest.mark.parametrize(("language", "size"), PAPERS)
def test_the_papers_models_are_those_of_the_paper(language: str, size: str):
    """Only bf16 differs; each begins with its BLEU."""
    path = CONFIGS / f"{PAPERS[language, size]}.yaml"
    precision = {"training.precision": {"ours": "bf16", "paper": "fp32"}}
    assert differences_from_paper(load(path)) == (size, precision)
    head = path.read_text(encoding="utf-8").partition("\ndata:")[0].partition("\nbase:")[0]
    assert f"BLEU {TABLE_2[language, size]}" in head
    assert (f"{EN_FR_BIG_IN_TEXT} in the text" in head) == ((language, size) == ("fr", "big"))


def test_the_defaults_are_the_papers_base_model():
    """Settings that transformer_base.yaml leaves out are those that the paper does not use.

    One default differs: the mean of a short run's checkpoints is often worse than the best of them.
    """
    required = yaml.safe_load(GOOD)
    required["training"].pop("label_smoothing")
    required["data"]["target_language"] = "de"  # a YAML 1.1 reader takes "no" for false
    better = {"training.finished_model": {"ours": "better", "paper": "average"}}
    assert differences_from_paper(validate(required, {}, "x")) == ("base", better)
    written = yaml.safe_load((CONFIGS / "transformer_base.yaml").read_text(encoding="utf-8"))
    written = {f"{section}.{key}" for section, keys in written.items() for key in keys}
    assert {key: value for key, value in BASE.items() if key not in written} == {
        "model.attention_dropout": 0.0, "model.activation_dropout": 0.0,
        "model.attention_window": None, "training.learning_rate_factor": 1.0,
        "training.gradient_clip": None,
    }  # fmt: skip
