"""The figures agree with the paper's formulas, and their files are written."""

import math
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nmt.cli.terminal import run_script
from nmt.data.tokenizer import Tokenizer
from nmt.decoding.score import score_translations
from nmt.demo_language import DemoPair, aligned, demo_pairs
from nmt.errors import InputError
from nmt.evaluation.attention_maps import AttentionMaps
from nmt.model.positions import sinusoids
from nmt.model.tokens import Tokens
from nmt.runs.model_directory import new_transformer
from nmt.translator import Translator
from recipes.paper_figures import alignment, embeddings, formulas, layers, order, paper_figures
from recipes.paper_figures import positions as places
from tests.fixtures.make import TRAINED

PAIRS = list(demo_pairs(12, 1, "test"))


@pytest.fixture
def translator(settings, tiny_data: Path) -> Translator:
    config = settings()
    transformer = new_transformer(config).eval()
    transformer.initialize(1)
    return Translator.of(transformer, Tokenizer.load(tiny_data / "data/tokenizer.model"), config)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_without_positions_a_shuffled_sentence_has_the_same_states(seed: int):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, 100, (20,), generator=generator)
    shuffle = torch.randperm(20, generator=generator)
    transformer = order.random_transformer(seed)
    there = order.state_distances(transformer, tokens, shuffle.tolist())[shuffle, range(20)]
    assert there.min() > 0.1
    transformer.positions = order.NoPositions()
    there = order.state_distances(transformer, tokens, shuffle.tolist())[shuffle, range(20)]
    assert there.max() < 1e-5
    read = Tokens.of_rows(torch.arange(1, 9)[None])
    logits = [
        transformer.logits(transformer(Tokens.of_rows(row[None]), read))
        for row in (tokens, tokens[shuffle])
    ]
    torch.testing.assert_close(*logits, atol=1e-5, rtol=0)  # so translations are equal


def test_masks_allow_what_their_names_say():
    causal, packed, restricted = order.masks(6).values()
    for query in range(6):
        for key in range(6):
            assert causal[query, key] == (key <= query)
            assert packed[query, key] == ((query < 3) == (key < 3))
            assert restricted[query, key] == (abs(query - key) <= 2)


@pytest.mark.parametrize("d_model", [2, 64, 512])
@pytest.mark.parametrize("offset", [0, 1, 7, 150])
def test_a_rotation_leads_from_every_position_to_the_one_after(offset: int, d_model: int):
    table, matrix = sinusoids(400, d_model).double(), places.rotation(offset, d_model)
    torch.testing.assert_close(table[: 400 - offset] @ matrix.T, table[offset:], atol=2e-7, rtol=0)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(d_model, dtype=torch.float64))
    torch.testing.assert_close(places.rotation(2 * offset, d_model), matrix @ matrix)


def test_similarity_depends_on_the_distance_alone():
    distances = (0, 1, -1, 10, 100)
    frequencies = [10_000 ** (-i / 64) for i in range(0, 64, 2)]
    by_formula = [np.mean([math.cos(k * w) for w in frequencies]) for k in distances]
    for position in (200, 1000):
        found = places.similarity(64, distances, position)
        np.testing.assert_allclose(found, by_formula, atol=1e-6)


def test_a_moved_model_numbers_positions_from_there_on(translator):
    transformer, own = translator.transformer, translator.transformer.positions
    src = torch.tensor([[5, 6, 7]])
    at = torch.arange(3)[None]
    expected = F.embedding(src, transformer.embedding) * transformer.d_model**0.5
    expected = expected + sinusoids(700, transformer.d_model)[600:603]
    with pytest.raises(KeyError), places.moved(transformer, 600):
        torch.testing.assert_close(transformer.embed(src, at, 3), expected)
        raise KeyError
    assert transformer.positions is own


def test_nll_is_that_of_score_and_joined_sentences_are_one(translator):
    found = places.nll(translator.transformer, places.pairs_of_ids(translator, PAIRS, 3))
    texts = [
        [" ".join(getattr(p, side) for p in PAIRS[i : i + 3]) for i in range(0, 12, 3)]
        for side in ("source", "target")
    ]
    scored = list(score_translations(translator, *texts))
    total = -sum(each.log_probability for each in scored)
    assert found == pytest.approx(total / sum(len(each.pieces) for each in scored), rel=1e-6)


def test_learned_positions_are_not_left(settings, tiny_data):
    """Learned positions end at `data.max_length`, here 60; figures have no points beyond them."""
    config = settings(model__positions="learned")
    transformer = new_transformer(config).eval()
    transformer.initialize(1)
    tokenizer = Tokenizer.load(tiny_data / "data/tokenizer.model")
    learned = Translator.of(transformer, tokenizer, config)
    short = sorted(PAIRS, key=lambda pair: len(pair.target))[:4]
    some = places.pairs_of_ids(learned, short)
    longest = max(len(side) for pair in some for side in pair)
    moves = (0, 60 - longest, 61 - longest)
    assert [*places.nll_when_moved(learned, some, moves)] == [*moves[:2]]
    assert len(places.nll_when_joined(learned, short, (1, 4))) == 1


@pytest.mark.parametrize("d_k", [1, 16, 512])
def test_scores_have_the_variance_of_the_footnote(d_k: int):
    assert formulas.score_variance(d_k) == pytest.approx(d_k, rel=0.1)


@pytest.mark.parametrize("is_scaled", [True, False])
def test_jacobian_norm_is_that_of_autograd(is_scaled: bool, monkeypatch):
    monkeypatch.setattr(formulas, "QUERIES", 1)
    generator = torch.Generator().manual_seed(7)
    query = torch.randn(1, 12, generator=generator, dtype=torch.float64)
    key = torch.randn(formulas.KEYS, 12, generator=generator, dtype=torch.float64)
    scores = (query @ key.T)[0] / (12**0.5 if is_scaled else 1)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    found = formulas.jacobian_norm(12, 7, is_scaled)
    assert found == pytest.approx(float(jacobian.norm()), rel=1e-9)


@pytest.mark.parametrize("length", [8, 12, 32])
def test_restricted_self_attention_is_full_attention_with_a_band_mask(length: int):
    torch.manual_seed(0)
    model = layers.Model(d_model=16, heads=2, d_k=8, d_v=8, attention_window=8)
    layer = layers.RestrictedSelfAttention(model, layers.Randomness())
    x, at = torch.randn(1, length, 16), torch.arange(length)[None]
    visibility = layers.Visibility(positions=(at, at), window=8)
    full = layers.SelfAttention.forward(layer, x, visibility)
    torch.testing.assert_close(layer(x, layers.Visibility()), full)


def dependence(layer: torch.nn.Module, length: int) -> torch.Tensor:
    """Returns a matrix, from gradients: whether output i (row) depends on input j (column)."""
    x = torch.randn(1, length, layers.D_MODEL, requires_grad=True)
    is_attention = isinstance(layer, layers.SelfAttention)
    out = layer(x, layers.Visibility()) if is_attention else layer(x)
    rows = [torch.autograd.grad(out[0, i].sum(), x, retain_graph=True)[0] for i in range(length)]
    return torch.stack([row[0].abs().sum(-1) > 0 for row in rows])


@pytest.mark.parametrize("length", [4, 8, 20])
def test_longest_paths_are_those_of_the_layers(length: int, monkeypatch):
    """The longest path is the number of layers after which every output depends on every input."""
    for name, small in (("D_MODEL", 8), ("HEADS", 2), ("NEIGHBOURHOOD", 4), ("KERNEL", 5)):
        monkeypatch.setattr(layers, name, small)
    for name, layer in layers.layers().items():
        one = dependence(layer, length)
        if name == "recurrent":  # in one step, a signal moves by one position
            assert torch.equal(one, torch.ones(length, length).tril().bool())
            one = one & ~one.tril(-2)
        reached, count = one, 1
        while not torch.equal(further := (reached.float() @ one.float()) > 0, reached):
            reached, count = further, count + 1
        assert layers.longest_path(name, length) == count, name


def test_neighbours_are_those_of_cosine_and_never_the_word_itself():
    vectors = torch.tensor([[1.0, 0.0], [50.0, 40.0], [0.5, 0.1], [-1.0, 0.0]])
    vocabulary = embeddings.Words(["a", "b", "c", "d"], vectors)
    assert vocabulary.neighbours(vectors[0], without={0}) == [2, 1, 3]
    assert (vocabulary.at("c"), vocabulary.at("e")) == (2, None)


def nouns(differences: torch.Tensor) -> tuple[embeddings.Words, list[tuple[int, int]]]:
    """Returns random vectors for singulars, and plurals that differ by `differences` (nouns, D)."""
    count = len(differences)
    singular = torch.randn(differences.shape, generator=torch.Generator().manual_seed(0))
    vectors = torch.cat([singular, singular + differences])
    names = [f"{i}{end}" for end in ("", "s") for i in range(count)]
    return embeddings.Words(names, vectors), [(i, count + i) for i in range(count)]


def test_plurals_are_found_by_the_difference_of_the_other_nouns():
    difference = torch.zeros(20, 32)
    difference[:, 0] = 20.0
    assert embeddings.plural_hits(*nouns(difference), use_offset=True) == 1
    assert embeddings.plural_hits(*nouns(difference), use_offset=False) < 0.5
    alone = torch.zeros(2, 32)  # only a noun's own difference finds its plural
    alone[0, 0], alone[1, 0] = 20.0, -20.0
    assert embeddings.plural_hits(*nouns(alone), use_offset=True) == 0


def test_the_plane_has_the_mean_difference_as_its_first_axis():
    differences = torch.randn(9, 16, generator=torch.Generator().manual_seed(3)) + 1
    points = embeddings.plane(*nouns(differences))
    mean = points[9:].mean(0) - points[:9].mean(0)
    torch.testing.assert_close(mean, torch.tensor([float(differences.mean(0).norm()), 0.0]))
    assert embeddings.apart(torch.tensor([[0.0, 0.5, 3.0, 5.0], [0.0, 9.0, 2.0, 2.5]]), 1) == [0, 2]


def test_alignment_error_rate_by_hand():
    """The predicted links are one of two sure links, the possible link, and a wrong link."""
    truth = alignment.Alignment(
        ["a", "b", "c"],
        ["x", "y", "z"],
        sure=frozenset({(0, 0), (1, 1)}),
        possible=frozenset({(0, 0), (1, 1), (2, 2)}),
    )
    counts = alignment.Counts()
    counts.add({(0, 0), (2, 2), (0, 1)}, truth)
    assert counts.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))
    perfect = alignment.Counts()
    perfect.add(truth.sure, truth)
    assert perfect.error_rate == 0


def test_pieces_belong_to_the_word_they_begin_in():
    pieces = ["▁", "<0xC3>", "<0x96>", "ff", "net", "▁sie", "▁die", "▁T", "ür", "?", "</s>"]
    found = alignment.owners(pieces, ["Öffnet", "sie", "die", "Tür", "?"])
    assert found.tolist() == [0, 0, 0, 0, 0, 1, 2, 3, 3, 4]
    with pytest.raises(ValueError, match="not the pieces"):
        alignment.owners(pieces, ["Öffnet", "sie"])


def test_word_weights_add_source_pieces_and_average_target_pieces():
    cross = np.zeros((1, 2, 4, 4), dtype=np.float32)  # layer, heads, T, S
    cross[0, 0] = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.3, 0.1, 0.1], [0, 0, 1, 0], [0.7, 0.1, 0.1, 0.1]]
    sides = ["▁a", "b", "▁c", "</s>"], ["▁x", "y", "▁z", "</s>"]
    maps = AttentionMaps(*sides, [], cross, cross, cross)
    truth = alignment.Alignment(["ab", "c"], ["xy", "z"], frozenset(), frozenset({(0, 1)}))
    written = alignment.word_weights(maps, truth)
    assert written.shape == (1, 3, 2, 2)
    np.testing.assert_allclose(written[0, 0], [[(0.3 + 0.8) / 2, (0.3 + 0.1) / 2], [0, 1]])
    np.testing.assert_allclose(written[0, 2], written[0, 0] / 2)
    read = alignment.word_weights(maps, truth, read=True)
    np.testing.assert_allclose(read[0, 0], [[0.4, 0.55], [0.8, 0.1]], atol=1e-7)
    assert alignment.strongest_links(written[0, 0], truth) == {(1, 1)}


def test_a_model_that_looks_at_the_truth_has_no_errors(translator, monkeypatch):
    def looking(translator, source: str, target: str) -> AttentionMaps:
        """Attends to the linked words with one head of the first layer; each word is one piece."""
        truth = aligned(source, target)
        S, T = len(truth.source) + 1, len(truth.target) + 1
        cross = np.full((2, 2, T, S), 1 / S)
        for s, t in truth.sure:
            cross[0, 1, t, s] = 1
        sides = [[*("▁" + word for word in side), "</s>"] for side in (truth.source, truth.target)]
        return AttentionMaps(*sides, [], cross, cross, cross)

    plain = [pair for pair in PAIRS if (truth := aligned(*texts(pair))).sure == truth.possible]
    assert len(plain) > 5
    monkeypatch.setattr(alignment, "attention_of", looking)
    rates, baseline = alignment.error_rates(translator, plain)
    assert rates.shape == (2, 3)  # layers, by heads and their mean
    assert rates[0, 1] == rates[0, 2] == 0
    assert min(rates[0, 0], *rates[1]) > 0.5
    assert 0.1 < baseline < 1


def texts(pair: DemoPair) -> tuple[str, str]:
    return pair.source, pair.target


def test_the_diagonal_is_the_nearest_word():
    known = frozenset((0, t) for t in range(5))
    truth = alignment.Alignment(["a"] * 9, ["b"] * 5, frozenset(), known)
    found = alignment.strongest_links(alignment.diagonal(truth), truth)
    assert found == {(0, 0), (2, 1), (4, 2), (6, 3), (8, 4)}


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"needs matplotlib.*plots"):
        paper_figures.main([str(tmp_path / "figures")])
    assert not (tmp_path / "figures").exists()


def test_a_folder_that_cannot_be_is_told(tmp_path, capsys):
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        run_script("paper_figures", partial(paper_figures.main, [str(tmp_path / "file")]))
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"paper_figures: error: File exists: {tmp_path / 'file'}. ")


def test_every_picture_is_written(translator, monkeypatch, tmp_path, capsys):
    for name, small in (("SEEDS", 2), ("QUERIES", 4)):
        monkeypatch.setattr(formulas, name, small)
    for name, small in (("D_MODEL", 8), ("HEADS", 2)):
        monkeypatch.setattr(layers, name, small)
    draw = partial(layers.draw_table1, lengths=(32, 64), repeats=1)
    monkeypatch.setattr(layers, "draw_table1", draw)
    paper_figures.main([str(tmp_path)])
    without = {path.stem for path in tmp_path.iterdir()}
    assert without == {name for name, _, _ in paper_figures.of_formulas()}
    assert "make demo" in capsys.readouterr().out.splitlines()[-1]

    monkeypatch.setattr(paper_figures, "of_formulas", list)
    monkeypatch.setattr(paper_figures, "PAIRS", 16)
    monkeypatch.setattr(embeddings, "words_of_demo", set)
    monkeypatch.setattr(Translator, "load", lambda *_, **__: translator)
    several = torch.randn(8, 16).tolist()
    names = ["man", "men", "boy", "boys", "dog", "dogs", "book", "books"]
    some = embeddings.Words(names, torch.tensor(several))
    monkeypatch.setattr(embeddings, "whole_words", lambda *_: some)
    paper_figures.main([str(tmp_path), "--model", "runs/demo"])
    assert "make demo" not in capsys.readouterr().out
    of_model = {path.stem for path in tmp_path.iterdir()} - without
    assert of_model == {"beyond", "embeddings", "alignment", "example"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())


def test_only_the_chosen_pictures_are_written(tmp_path, capsys):
    paper_figures.main([str(tmp_path), "--only", "masks", "learning_rate"])
    assert {path.stem for path in tmp_path.iterdir()} == {"masks", "learning_rate"}
    assert "make demo" not in capsys.readouterr().out
    with pytest.raises(
        InputError, match=r"Unknown picture example .--only.. .*table1. .*need --model"
    ):
        paper_figures.main([str(tmp_path), "--only", "example"])


def test_a_model_of_other_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="no demo test set"):
        paper_figures.main([str(tmp_path / "new"), "--model", str(TRAINED / "run")])
    assert not (tmp_path / "new").exists()
