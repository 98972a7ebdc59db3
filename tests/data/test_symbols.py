"""User-defined symbols, from the configuration to prepared data and the search."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.cli import main
from nmt.config import Config, load, validate
from nmt.data import kept_test_set
from nmt.data.cleaning import COPY, EMPTY, LEAKED
from nmt.data.prepare import prepare
from nmt.data.prepared_data import PreparedData
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.beam_search import search
from nmt.decoding.constraints import Without
from nmt.decoding.options import SearchOptions
from nmt.errors import InputError
from nmt.evaluation.test_sets import own
from nmt.runs.found_model import FoundModel
from nmt.runs.model_directory import new_transformer
from nmt.storage import manifest
from nmt.training import validation
from nmt.training.distributed import Ranks, StopRequest
from nmt.training.loss import TransformerLoss
from nmt.translator import Translator
from tests.config.files import problems, write
from tests.tiny import tiny_settings

WORDS = [("dog", "Hund"), ("cat", "Kater"), ("bear", "Bär"), ("man", "Mann"), ("bird", "Vogel")]
PAIRS = [
    (f"The {a[0]} sees the {b[0]} {n} times.", f"Der {a[1]} sieht den {b[1]} {n} Mal.")
    for n in range(2, 6)
    for a in WORDS
    for b in WORDS
]  # 100
HELD_OUT = ("A fish sees the sea today.", "Ein Fisch sieht heute das Meer.")
BAD = [("", "leer"), ("not translated here", "Not translated here"), (HELD_OUT[0], "Anderes hier.")]


def corpus(folder: Path, name: str, pairs: list[tuple[str, str]], **more: object) -> dict:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return {"tsv": {"path": str(path)}} | more


def two_directions(folder: Path) -> Config:
    """English to German and back, each with its symbol; <note> is in some German targets."""
    content = tiny_settings(folder)
    there = [(english, f"{german} <note>") for english, german in PAIRS] + BAD
    back = [
        (f"{german} <note>" if i % 9 else german, english)
        for i, (english, german) in enumerate(PAIRS)
    ]
    content["data"] |= {
        "train": [
            corpus(folder, "there", there, source_prefix="<2de>"),
            corpus(folder, "back", [*back, HELD_OUT[::-1]], source_prefix="<BT> <2en>"),
        ],
        "validation": [corpus(folder, "v", [HELD_OUT], source_prefix="<2de>")],
        "test": [corpus(folder, "t", [("Nobody answers.", "Niemand antwortet."), ("", "")],
                        source_prefix="<2de>")],
    }  # fmt: skip
    content["tokenizer"] = {
        "vocabulary_size": 360, "symbols": ["<2de>", "<2en>", "<BT>", "<note>"],
    }  # fmt: skip
    return validate(content, {}, "test")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> tuple[Config, list[str]]:
    config = two_directions(tmp_path_factory.mktemp("symbols"))
    told: list[str] = []
    prepare(config, note=told.append, processes=1)
    return config, told


def test_the_prefix_stands_before_each_source_and_no_rule_sees_it(prepared):
    config, told = prepared
    data = PreparedData.of(config)
    tokenizer = data.tokenizer()
    there, back = data.shards("train")
    assert tokenizer.decode(there.source[0]) == f"<2de> {PAIRS[0][0]}"
    assert tokenizer.decode(back.source[0]) == f"<BT> <2en> {PAIRS[0][1]}"
    assert tokenizer.decode(there.target[0]) == f"{PAIRS[0][1]} <note>"
    [validation] = data.shards("validation")
    assert tokenizer.decode(validation.source[0]) == f"<2de> {HELD_OUT[0]}"
    first = data.manifest["corpora"][0]
    dropped = {rule: n for rule, n in first["dropped"].items() if n}
    assert dropped == {EMPTY: 1, COPY: 1, LEAKED: 1}
    assert data.manifest["corpora"][1]["dropped"][LEAKED] == 1  # a validation pair in reverse
    for shard in (there, back):
        for i in range(len(shard)):
            for symbol in ("<2de>", "<2en>", "<BT>"):
                here = np.count_nonzero(shard.source[i] == tokenizer.symbol_ids[symbol])
                assert here == (symbol in ("<2de>",) if shard is there else symbol != "<2de>")
    assert not any("swapped" in line for line in told)


def test_what_the_test_set_holds_is_what_a_model_is_given(prepared):
    config, _ = prepared
    folder = Path(config.data.directory) / "test_set"
    assert (folder / kept_test_set.SOURCE).read_text() == "<2de> Nobody answers.\n\n"
    demo = config.data.model_copy(update={"test": two_demo_pairs().data.test})
    found = own(FoundModel(folder.parent, {}, config.model_copy(update={"data": demo})))
    assert len(found.sources) == 2 and all(text.startswith("<2de> ") for text in found.sources)


def two_demo_pairs() -> Config:
    content = tiny_settings(Path("x"))
    content["data"]["test"] = [{"demo": {"pairs": 2}, "source_prefix": "<2de>"}]
    content["tokenizer"]["symbols"] = ["<2de>"]
    return validate(content, {}, "test")


def test_symbols_that_training_targets_hold_are_recorded(prepared, tiny_data: Path):
    config, _ = prepared
    assert PreparedData.of(config).manifest["target_symbols"] == ["<note>"]
    assert PreparedData.open(tiny_data / "data").manifest["target_symbols"] == []


class Uniform:
    """All tokens have the same probability, except for one that is more likely."""

    def __init__(self, beam: int, favourite: int, size: int):
        self.logits = torch.zeros(beam, size)
        self.logits[:, favourite] = 5.0

    def step(self, last_tokens, parents):
        return self.logits.expand(len(last_tokens), -1, -1).clone()

    def keep(self, sentences):
        pass


@pytest.mark.parametrize("beam", [1, 3])
def test_tokens_left_out_are_in_no_hypothesis_and_others_keep_their_probability(beam: int):
    size, left_out = 12, [4, 7]
    for token in left_out:
        steps = Without(Uniform(beam, token, size), left_out)
        [found] = search(steps, [5], beam=beam, alpha=0.0, n_best=beam)
        assert not any(set(hypothesis.tokens) & {*left_out} for hypothesis in found)
        each = -math.log(math.exp(5.0) + size - 1)  # of all tokens except the most likely one
        for hypothesis in found:
            assert hypothesis.log_probability == pytest.approx(each * len(hypothesis.tokens))
        [usual] = search(Uniform(beam, token, size), [5], beam=beam, alpha=0.0, n_best=beam)
        assert any(token in hypothesis.tokens for hypothesis in usual)


def translator_of(config: Config, target_symbols: list[str]) -> Translator:
    tokenizer = Tokenizer.load(Path(config.data.directory) / "tokenizer.model")
    transformer = new_transformer(config).eval()
    transformer.initialize(1)
    return Translator.of(transformer, tokenizer, config, target_symbols)


def test_only_symbols_of_training_targets_are_generated(prepared):
    config, _ = prepared
    for target_symbols in ([], ["<note>"]):
        translator = translator_of(config, target_symbols)
        size = translator.tokenizer.vocabulary_size
        found = translator.next_tokens("<2de> The dog sees the cat.", k=size)
        ids = {each.token for each in found}
        allowed = {symbol for symbol, i in translator.tokenizer.symbol_ids.items() if i in ids}
        assert allowed == {*target_symbols}
        drawn = translator.n_best(
            ["<2de> The dog."], SearchOptions(sample=True, n_best=200, temperature=100.0)
        )
        seen = {token for best in drawn[0] for token in best.tokens}
        assert seen <= ids and len(seen) > 100


def test_each_part_of_a_long_line_begins_with_its_symbols(prepared):
    config, _ = prepared
    translator = translator_of(config, [])
    limit = translator.max_part

    def parts_of(text: str) -> list[str]:
        [parts] = translator._cutter.cut([text])
        assert all(0 < len(part) <= limit for part in parts)
        return [translator.tokenizer.decode(part) for part in parts]

    sentence = "The dog sees the cat 3 times."
    many = " ".join([sentence] * 12)
    assert parts_of(f"<BT> <2de> {many}") == [f"<BT> <2de> {sentence}"] * 12
    assert parts_of(many) == [sentence] * 12
    words = " ".join(["dog", "bear", "bird"] * 60)
    found = parts_of(f"<2de> {words}")
    assert all(part.startswith("<2de> ") for part in found) and len(found) > 2
    assert " ".join(part.removeprefix("<2de> ") for part in found) == words
    found = parts_of("<2de> " + "x" * 200)
    assert "".join(part.removeprefix("<2de>").strip() for part in found) == "x" * 200
    assert "".join(parts_of("<2de>" * 300)) == "<2de>" * 300


GOOD = """\
data:
  directory: data/x
  source_language: en
  target_language: de
  train:
    - {demo: {pairs: 6}, source_prefix: "<BT> <2de>"}
    - {demo: {pairs: 6}}
tokenizer: {symbols: ["<2de>", "<BT>"]}
training: {run_directory: runs/x}
"""


def test_symbols_and_prefixes_of_a_configuration(tmp_path: Path):
    config = load(write(tmp_path, GOOD))
    assert config.tokenizer.symbols == ("<2de>", "<BT>")
    assert [c.source_prefix for c in config.data.train] == ["<BT> <2de>", None]
    again = load(write(tmp_path, config.to_yaml(), "again.yaml"))
    assert again == config
    assert load(write(tmp_path, GOOD), ["tokenizer.symbols=[<2de>, <BT>, <x>]"]).tokenizer.symbols


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("tokenizer.symbols=[<2de>]", "data.train.0.source_prefix must consist of tokenizer.symbo"),
        ("data.train=[{demo: {pairs: 1}, source_prefix: <bt>}]", "(<2de> <BT>), not <bt>"),
        ("data.test=[{demo: {pairs: 1}, source_prefix: to German}]", "data.test.0.source_prefix"),
        (
            "data.train=[{demo: {pairs: 1}, source_prefix: 3}]",
            "source_prefix must be a non-empty string",
        ),
        (
            "tokenizer.symbols=[<2de>, the]",
            "tokenizer.symbols: 'the' is not a valid symbol; a symbol",
        ),
        ("tokenizer.symbols=['<a b>']", "is not a valid symbol"),
        ("tokenizer.symbols=['<ü>']", "is not a valid symbol"),
        ("tokenizer.symbols=[<0123456789abcdef>]", "is not a valid symbol"),
        ("tokenizer.symbols=[<s>]", "<s> is already a token of every vocabulary"),
        ("tokenizer.symbols=[<0x41>]", "<0x41> is already a token of every vocabulary"),
        ("tokenizer.symbols=[<BT>, <BT>]", "<BT> is listed twice"),
        (
            f"tokenizer.symbols=[{', '.join(f'<{i}>' for i in range(1001))}]",
            "1,001 symbols exceed the maximum of",
        ),
        ("tokenizer.symbols=[3]", "tokenizer.symbols.0 must be a list of strings, not 3"),
        ("tokenizer.symbols=<BT>", "tokenizer.symbols must be a list of strings"),
    ],
)
def test_bad_symbols_and_prefixes_are_named(tmp_path: Path, override: str, expected: str):
    [line] = problems(write(tmp_path, GOOD), override)
    assert expected in line


def test_a_given_tokenizer_must_have_the_symbols(prepared, tmp_path: Path, tiny_data: Path):
    config, _ = prepared
    data = config.data.model_copy(update={"directory": str(tmp_path / "data")})
    with pytest.raises(
        InputError, match=r"symbols is <2de> <2en> <BT> <note>, but .*model has the symbols none\."
    ):
        prepare(
            config.model_copy(update={"data": data}), note=lambda line: None, processes=1,
            tokenizer=tiny_data / "data" / "tokenizer.model",
        )  # fmt: skip


def test_models_and_their_mean_know_the_symbols_of_their_targets(prepared, capsys):
    config, _ = prepared
    path = Path(config.training.run_directory).with_name("config.yaml")
    path.write_text(config.to_yaml(), encoding="utf-8")
    assert main(["train", str(path), "training.max_steps=4", "training.checkpoint_every=2"]) == 0
    run, mean = Path(config.training.run_directory), path.with_name("mean")
    assert main(["average", str(run), "--last", "2", "--output", str(mean)]) == 0
    for model in (run / "model", run / "checkpoints/step-00000004", mean):
        translator = Translator.load(model, device="cpu")
        others = {i for s, i in translator.tokenizer.symbol_ids.items() if s != "<note>"}
        assert {*translator.search.untrained} == others
    content = manifest.read(mean, "model")
    manifest.rewrite(mean, content | {"target_symbols": ["<note>", "<BT>"]})
    manifest.rewrite(run / "model", content | {"target_symbols": ["<2de>", "<note>"]})
    together = Translator.load(mean, device="cpu", ensemble=[run / "model"])
    assert {
        *together.search.untrained
    } == others  # symbols that only one model has learned are not generated


def test_validation_generates_symbols_of_training_targets_alone(prepared):
    config, _ = prepared
    data, transformer = PreparedData.of(config), new_transformer(config).eval()
    tokenizer = data.tokenizer()
    transformer.initialize(1)
    with torch.no_grad():  # the logit of a token is the sum of its embedding
        last = transformer.decoder[-1].feed_forward_residual.norm
        last.weight.zero_()
        last.bias.fill_(1.0)
        transformer.embedding[tokenizer.symbol_ids["<note>"]] = 0.5
        transformer.embedding[tokenizer.symbol_ids["<BT>"]] = 0.6
    ranks, module = Ranks(0, 1, torch.device("cpu")), TransformerLoss(transformer, 0.1)
    shards = data.shards("validation")
    found = validation.validate(
        module, tokenizer, shards, config, ranks, StopRequest(), validation.InferenceCopy(),
        ["<note>"],
    )  # fmt: skip
    assert found and found.samples
    for _, _, text in found.samples:
        assert "<note>" in text and not text.replace("<note>", "").strip()


def test_the_symbol_before_a_text_decides_how_it_is_translated(tmp_path: Path, capsys):
    """The same sources with two symbols, in one model."""
    content = tiny_settings(tmp_path)
    texts = [f"the {first} sees the {second}" for first, _ in WORDS for second, _ in WORDS[:3]]
    back = [(text, " ".join(text.split()[::-1])) for text in texts]
    there = [(text, f"{text} .") for text in texts]
    backwards = corpus(tmp_path, "b", back, source_prefix="<back>")
    forwards = corpus(tmp_path, "t", there, source_prefix="<there>")
    content["data"] |= {"train": [backwards, forwards], "validation": [], "test": []}
    content["tokenizer"] = {"vocabulary_size": 310, "symbols": ["<back>", "<there>"]}
    content["model"] |= {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    steps = {"max_steps": 200, "batch_tokens": 800, "warmup_steps": 40, "checkpoint_every": 200}
    content["training"] |= steps | {"average_last": 1, "learning_rate_factor": 0.2, "log_every": 50}
    path = tmp_path / "config.yaml"
    path.write_text(validate(content, {}, "test").to_yaml(), encoding="utf-8")
    assert main(["train", str(path)]) == 0
    translator = Translator.load(tmp_path / "run", device="cpu")
    for tag, pairs in (("<back>", back), ("<there>", there)):
        found = translator.translate([f"{tag} {source}" for source, _ in pairs])
        assert [each.text for each in found] == [target for _, target in pairs]
