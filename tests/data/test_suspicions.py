"""Faulty training text causes a warning; clean text, even short sentences, does not."""

import random
import re
from itertools import product
from pathlib import Path

import pytest

from nmt.cli import main
from nmt.data.prepared_data import PreparedData
from nmt.data.suspicions import suspicions
from nmt.data.tokenizer import Tokenizer
from nmt.demo_language import demo_pairs

PAIRS = [(pair.source, pair.target) for pair in demo_pairs(500, 1, "train")]
SOURCES, TARGETS = map(list, zip(*PAIRS, strict=True))


def tokenized(text: str) -> str:
    return re.sub(r"([.,?!])", r" \1", text)


def in_pieces(text: str) -> str:
    return " ".join(re.sub(r"(\w{4})(?=\w)", r"\1@@ ", word) for word in text.split())


def like_bert(text: str) -> str:
    return re.sub(r"(\w{4})(?=\w)", r"\1 ##", text)


def shuffled(texts: list[str]) -> list[str]:
    return random.Random(1).sample(texts, len(texts))


WRONG = {
    "tokenized": (list(map(tokenized, SOURCES)), list(map(tokenized, TARGETS)), "tokenized"),
    "one side": (SOURCES, list(map(tokenized, TARGETS)), "tokenized"),
    "entities": ([f"&quot;{s}&quot;" for s in SOURCES], TARGETS, "100% of the pairs are tokenized"),
    "subword-nmt": (list(map(in_pieces, SOURCES)), TARGETS, "split into subwords"),
    "bert": (SOURCES, list(map(like_bert, TARGETS)), "split into subwords"),
    "markup": ([f"<p>{s}</p>" for s in SOURCES], TARGETS, "100% of the pairs contain HTML or XML"),
    "equal": (SOURCES, [*SOURCES[:300], *TARGETS[300:]], "source and target are equal in 60%"),
    "shuffled": (SOURCES, shuffled(TARGETS), "sides are unrelated (correlation"),
    "a line behind": (SOURCES[1:], TARGETS[:-1], "sides are unrelated"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_text_is_told(name: str) -> None:
    *sides, told = WRONG[name]
    [(what, remedy)] = suspicions(*sides)
    assert told in what and remedy


def test_sentencepieces_are_told(tiny_data: Path) -> None:
    tokenizer = Tokenizer.load(tiny_data / "data" / "tokenizer.model")
    sources = [" ".join(tokenizer.pieces(tokenizer.encode(text))) for text in SOURCES]
    assert any("split into subwords" in what for what, _ in suspicions(sources, TARGETS))


PATTERN = [
    (f"The {a} sees a {b}.", f"Der {c} sieht ein {d}.")
    for (a, c), (b, d) in product([("dog", "Hund"), ("cat", "Kater"), ("bear", "Bär")], repeat=2)
]  # of lengths that hardly differ, and not together
FRENCH = [("Who is there? Me!", "Qui est là ? Moi !"), ("Note: no.", "Remarque : « non ».")]
SOUND = {
    "demo": PAIRS,
    "single words": [(f"{source.split()[0]}", f"{target.split()[0]}") for source, target in PAIRS],
    "one pattern": PATTERN * 20,
    "French spacing": FRENCH * 100,
    "dots, headings, mail": [
        ("Well ... # 1", "Nun ... # 1"),
        ("## Part 1", "## Teil 1"),
        ("Write to a@b.org, soon.", "Schreib bald an a@b.org."),
    ] * 50,
    "copies in between": [*PAIRS, *((source, source) for source, _ in PAIRS[:400])],
    "too few to tell": [(source, source) for source, _ in PAIRS[:50]],
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_sound_text_is_not(name: str) -> None:
    sources, targets = map(list, zip(*SOUND[name], strict=True))
    assert suspicions(sources, targets) == []


def test_prepare_warns_before_it_cleans_and_the_manifest_has_it(
    tmp_path: Path, settings, capsys
) -> None:
    for name, lines in (("en", SOURCES), ("de", shuffled(TARGETS))):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    text = {"source": f"{tmp_path}/en", "target": f"{tmp_path}/de"}
    wanted = settings(data__directory=str(tmp_path / "data"), data__train=[{"text": text}])
    (tmp_path / "c.yaml").write_text(wanted.to_yaml())
    assert main(["prepare", str(tmp_path / "c.yaml")]) == 0
    lines = capsys.readouterr().err.splitlines()
    told = re.compile(
        r"(nmt: warning: )?In train 1 \(text \S+ \S+\), the lengths of the two sides are unrelated "
        r"\(correlation -?0\.\d\d\)\. Check that line i of one side translates .*"
    )
    assert told.fullmatch(lines[0]) and lines[1].startswith("Cleaning")
    [noted] = PreparedData.open(tmp_path / "data").manifest["warnings"]
    assert told.fullmatch(noted)
