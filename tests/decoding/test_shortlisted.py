"""Translation with a shortlist is translation with a restricted output vocabulary."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.cli import main
from nmt.config import Decoding, Model
from nmt.data.shortlist import Shortlist
from nmt.decoding.batched_search import BatchedSearch, SearchInput
from nmt.decoding.beam_search import search
from nmt.decoding.options import SearchOptions
from nmt.model.kernels.prepacking import Precision, prepack
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.model.stepper import Stepper
from nmt.model.transformer import Transformer
from nmt.runs.model_directory import new_transformer, save_model
from nmt.storage import manifest
from nmt.storage.names import SHORTLIST, TOKENIZER
from nmt.translator import Translator
from tests.conftest import Settings

V = 300
SPECIAL = {PAD_ID, BOS_ID, EOS_ID, UNK_ID}
ALL = Shortlist(np.arange(V, dtype=np.int32), np.zeros((V, 0), np.int32))
SEARCHES = [
    {"beam": 3, "n_best": 3},
    {"beam": 1},
    {"beam": 2, "no_repeat_ngram": 1},
    {"sample": True, "n_best": 2},
]


def transformer(seed: int = 1, precision: Precision | None = "fp32") -> Transformer:
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 32, "d_ff": 48, "heads": 2}
    model = Transformer(Model(**sizes, d_k=16, d_v=16), V, 40).eval()
    model.initialize(seed)
    with torch.no_grad():  # a sharper distribution
        model.embedding.mul_(3)
    if precision:  # None on a CPU without oneDNN
        prepack(model, precision)
    return model


def searching(shortlist: Shortlist | None, *models: Transformer, **more) -> BatchedSearch:
    defaults = Decoding(max_extra_length=4)
    return BatchedSearch(models or [transformer()], defaults, tuple, shortlist=shortlist, **more)


def parts(n: int = 7, prefix: tuple[int, ...] = ()) -> list[SearchInput]:
    rng = np.random.default_rng(2)
    return [
        SearchInput(rng.integers(4, V, rng.integers(1, 8)).tolist(), list(prefix)) for _ in range(n)
    ]


def some_pieces() -> Shortlist:
    """Returns a shortlist with three translations per token and ten frequent tokens."""
    rng = np.random.default_rng(3)
    frequent, table = rng.integers(4, V, 10), rng.integers(4, V, (V, 3))
    return Shortlist(frequent.astype(np.int32), table.astype(np.int32))


@pytest.mark.parametrize(
    ("precision", "options"),
    [
        *(("fp32", options) for options in SEARCHES),
        *((precision, SEARCHES[0]) for precision in (None, "bf16", "int8")),
    ],
    ids=str,
)
def test_the_whole_vocabulary_as_a_shortlist_changes_nothing(
    precision: Precision | None, options: dict
):
    models = [transformer(1, precision), transformer(2, precision)]
    for members in (models[:1], models):
        for given in (parts(), parts(prefix=(250, 9))):
            plain, shortlisted = (
                searching(each, *members, untrained=[5], symbols=[5, 6]).find(
                    given, SearchOptions(**options)
                )
                for each in (None, ALL)
            )
            assert shortlisted == plain  # tokens, scores and log-probabilities are identical


class AllOthersOut(Stepper):
    """Steps over the whole vocabulary in which all but the allowed tokens have logits of -inf."""

    allowed: list[int]

    def step(self, last_tokens: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        logits = super().step(last_tokens, parents)
        out = torch.full_like(logits, -torch.inf)
        out[..., self.allowed] = logits[..., self.allowed]
        return out


@pytest.mark.parametrize("beam", [1, 4])
def test_it_finds_what_a_search_finds_to_which_all_others_are_impossible(beam: int):
    model, table, given = transformer(), some_pieces(), parts()
    found = searching(table, model).find(given, SearchOptions(beam=beam, n_best=beam))
    length = max(len(part.tokens) for part in given)
    rows = [[*part.tokens, EOS_ID] + [PAD_ID] * (length - len(part.tokens)) for part in given]
    steps = AllOthersOut(model, torch.tensor(rows), beam, length + 4)
    source = {token for row in rows for token in row} - {PAD_ID}
    steps.allowed = sorted(
        SPECIAL | source | set(table.frequent.tolist())
        | {int(token) for piece in source for token in table.translations[piece]}
    )  # fmt: skip
    limits = [len(part.tokens) + 4 for part in given]
    with torch.inference_mode():
        expected = search(steps, limits, beam=beam, alpha=0.6, n_best=beam)
    assert len(steps.allowed) < V / 2 and max(t for f in found for t in f[0].tokens) > 150
    for ours, theirs in zip(found, expected, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


def test_a_prefix_is_on_the_shortlist_and_symbols_are():
    table = some_pieces()
    [part] = parts(1)
    near = table.candidates([*part.tokens, EOS_ID], [])
    outside = [token for token in range(4, V) if token not in near]
    prefix, symbols = outside[5:7], outside[:2]
    search = searching(table, symbols=symbols, untrained=symbols[:1])
    [[best]] = search.find([replace(part, prefix=prefix)], SearchOptions(beam=2))
    assert best.tokens[:2] == prefix
    seen: set[int] = set()
    search.find([part], SearchOptions(beam=64), on_step=lambda p, _, tokens: seen.update(
        tokens[np.isfinite(p)].tolist()))  # fmt: skip
    on_it = set(table.candidates([*part.tokens, EOS_ID], symbols).tolist())
    assert seen <= on_it and symbols[1] in seen and symbols[0] not in seen


def test_what_reads_alike_counts_once_by_its_tokens():
    """Texts are compared by token ids, not by positions on the shortlist."""

    def reads_as(tokens: list[int]) -> tuple[int, ...]:
        return tuple(token // 100 for token in tokens)

    search = searching(some_pieces())
    search.reads_as = reads_as
    for best in search.find(parts(), SearchOptions(beam=6, n_best=4)):
        assert len({reads_as(each.tokens) for each in best}) == len(best) == 4


@pytest.fixture
def models(settings: Settings, tiny_data: Path, tmp_path: Path) -> Path:
    """A directory with two copies of a model: `with` a shortlist of all tokens, and `without`."""
    config, data = settings(), tiny_data / "data"
    new = new_transformer(config)
    new.initialize(1)
    content = manifest.read(data, "data")
    facts = {key: content[key] for key in ("tokenizer_sha256", "data_sha256", "target_symbols")} | {
        "step": 1
    }
    size = config.tokenizer.vocabulary_size
    table = Shortlist(np.arange(size, dtype=np.int32), np.zeros((size, 0), np.int32)).to_bytes()
    vocabulary = {TOKENIZER: (data / TOKENIZER).read_bytes()}
    for name, files in (("with", vocabulary | {SHORTLIST: table}), ("without", vocabulary)):
        save_model(tmp_path / name, config, files, new.state_dict(), facts)
    return tmp_path


def translate(model: Path, capsys, *flags: str) -> str:
    """Translates the lines of a short text."""
    text = model.with_name("text")
    text.write_text("The man reads.\nA dog sleeps.\n")
    assert main(["translate", str(model), "--input", str(text), "--device", "cpu", *flags]) == 0
    return capsys.readouterr().out


def refused(model: Path, capsys, *flags: str, status: int = 2) -> str:
    assert main(["translate", str(model), "--input", os.devnull, *flags]) == status
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("nmt: error: ")
    return line


def test_nmt_translate_uses_it_if_asked(models: Path, capsys, monkeypatch):
    both = models / "with", models / "without"
    of_all = [translate(model, capsys, "--n-best", "2") for model in both]
    assert translate(both[0], capsys, "--n-best", "2", "--shortlist") == of_all[0] == of_all[1]
    used: list[int] = []
    asked = Shortlist.candidates

    def candidates(self, source, always):
        used.append(len(source))
        return asked(self, source, always)

    monkeypatch.setattr(Shortlist, "candidates", candidates)
    translate(both[0], capsys)
    assert not used
    translate(both[0], capsys, "--shortlist", "--ensemble", str(both[1]))
    assert used


def test_what_cannot_be_is_one_line(models: Path, capsys, monkeypatch):
    line = refused(models / "without", capsys, "--shortlist", "--device", "cpu")
    assert "has no shortlist. Remove --shortlist" in line and "set data.shortlist to true" in line
    monkeypatch.setattr("nmt.decoding.loading.choose_device", lambda _: torch.device("cuda"))
    line = refused(models / "with", capsys, "--shortlist", "--device", "cuda")
    assert "--shortlist is supported only on a CPU, but --device is cuda" in line


def test_a_damaged_one_is_refused(models: Path, capsys):
    path = models / "with" / "shortlist.safetensors"
    sound = path.read_bytes()
    path.write_bytes(sound[:-1])
    assert "shortlist.safetensors" in refused(models / "with", capsys, status=3)
    content = manifest.read(models / "with", "model")
    path.write_bytes(Shortlist(np.zeros(1, np.int32), np.zeros((7, 1), np.int32)).to_bytes())
    facts = {
        key: content[key] for key in ("step", "tokenizer_sha256", "data_sha256", "target_symbols")
    }
    manifest.write(models / "with", "model", facts)
    assert "is not a shortlist for a vocabulary of 400 " in refused(
        models / "with", capsys, status=3
    )
    path.unlink()
    assert "shortlist.safetensors is missing" in refused(models / "with", capsys, status=3)


def test_it_goes_from_the_data_into_all_models_of_a_run(settings: Settings, tmp_path, capsys):
    config = settings(
        data__directory=str(tmp_path / "data"), data__shortlist=True, training__max_steps=4,
        training__checkpoint_every=2,
    )  # fmt: skip
    (tmp_path / "c.yaml").write_text(config.to_yaml(), encoding="utf-8")
    assert main(["train", str(tmp_path / "c.yaml")]) == 0
    run, mean = tmp_path / "run", tmp_path / "mean"
    assert main(["average", str(run), "--last", "2", "--output", str(mean)]) == 0
    whole = (tmp_path / "data/shortlist.safetensors").read_bytes()
    for folder in (run / "model", run / "checkpoints/step-00000004", mean):
        assert (folder / "shortlist.safetensors").read_bytes() == whole
    translator = Translator.load(run, device="cpu", shortlist=True)
    assert translator.translate("The man reads.") == Translator.load(run, device="cpu").translate(
        "The man reads."
    )
