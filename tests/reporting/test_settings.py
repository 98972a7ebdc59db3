"""`nmt config` explains every setting and prints complete shipped configurations."""

import re
from pathlib import Path

import pytest

from nmt.cli import main
from nmt.config import CORPUS_KINDS, Config, Section, load, strict_yaml, validate
from nmt.reporting.settings import shipped, shipped_text

CONFIGS = Path(__file__).parents[2] / "configs"


def printed(capsys, *words: str) -> str:
    assert main(["config", *words]) == 0
    return capsys.readouterr().out


def leaves(section: type[Section]):
    for key, field in section.model_fields.items():
        inner = section.below(key)
        if inner:
            yield from leaves(inner)
        else:
            yield key, field


def test_every_setting_is_listed_with_default_range_and_meaning(capsys):
    found = printed(capsys)
    lines, flat = found.splitlines(), " ".join(found.split())
    sections = [Config, *CORPUS_KINDS.values()]
    settings = [leaf for section in sections for leaf in leaves(section)]
    assert len(settings) > 55
    for key, field in settings:
        assert field.description and field.description in flat, key
        assert any(re.match(rf" +{key}: .*  ", line) for line in lines), key
    assert "  length_penalty: 0.6                 a number from 0 to 100" in lines
    assert "  run_directory: (required)" in found


def test_the_defaults_listed_are_those_of_the_settings(capsys):
    text = printed(capsys).split("\n\n")
    for name in ("tokenizer", "model", "decoding"):
        (block,) = (block for block in text if block.startswith(f"{name}: "))
        rows = re.findall(r"^  (\w+): (.*?)  ", block, re.MULTILINE)
        listed = {key: strict_yaml.parse(value, "")[0] for key, value in rows}
        assert listed == Config.model_fields[name].default.model_dump(mode="json")


def test_all_shipped_configurations_are_named(capsys):
    names = {str(p.relative_to(CONFIGS).with_suffix("")) for p in CONFIGS.rglob("*.yaml")}
    assert {"demo", "table3/base", "table3/d_dropout_0.2"} <= names
    assert set(shipped()) == names
    listed = printed(capsys)
    assert all(name in listed for name in names)


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_configuration_stands_alone(name: str):
    """The printed configuration has no `base:`, so it means the same in any directory."""
    content, _ = strict_yaml.parse(shipped_text(name), name)
    assert "base" not in content
    assert validate(content, {}, name) == load(CONFIGS / f"{name}.yaml")


def test_a_printed_configuration_keeps_its_comments(capsys):
    assert printed(capsys, "demo") == (CONFIGS / "demo.yaml").read_text()
    assert printed(capsys, "transformer_big").startswith("# The paper's big model, EN-DE (Table 3")


LIST = 'Run "nmt config" to list all names.'


@pytest.mark.parametrize(
    ("name", "hint"),
    [("dmo", "Did you mean demo?"), ("demo.yaml", "Did you mean demo?"),
     ("../pyproject", LIST), ("/etc/passwd", LIST)],
)  # fmt: skip
def test_an_unknown_name_is_one_line(capsys, name: str, hint: str):
    assert main(["config", name]) == 2
    said = capsys.readouterr().err
    assert said == f"nmt: error: nmt has no configuration named {name}. {hint}\n"
