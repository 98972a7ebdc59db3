"""Attention maps have the weights of the forward pass; `nmt attention` plots any text."""

import base64
import io
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.image import imread

from nmt.cli import main
from nmt.data.layout import one_per_row
from nmt.data.pair import Pair
from nmt.data.tokenizer import Tokenizer
from nmt.errors import InputError, NoModelError
from nmt.evaluation import attention_png
from nmt.evaluation.attention_maps import (
    AttentionMaps,
    attention_of,
    heat_maps,
    html_fragment,
)
from nmt.evaluation.attention_png import HeatMaps, write_png
from nmt.model.special_ids import BOS_ID, EOS_ID
from nmt.runs.model_directory import new_transformer, save_model
from nmt.storage.names import TOKENIZER
from nmt.training import validation
from nmt.translator import Translator
from tests.page import Page

SOURCE, TARGET = "The old man reads <b>.", "Der alte Mann liest </script>$x$ 😀."


@pytest.fixture
def translator(settings, tiny_data) -> Translator:
    config = settings(model__encoder_layers=3)
    transformer = new_transformer(config).eval()
    transformer.initialize(1)
    tokenizer = Tokenizer.load(tiny_data / "data" / "tokenizer.model")
    return Translator.of(transformer, tokenizer, config)


@pytest.fixture
def maps(translator) -> AttentionMaps:
    return attention_of(translator, SOURCE, TARGET)


def test_rows_sum_to_one_and_the_decoder_sees_no_future(maps):
    S, T = len(maps.source_pieces), len(maps.target_pieces)
    assert maps.encoder.shape == (3, 2, S, S)
    assert maps.decoder.shape == (2, 2, T, T) and maps.cross.shape == (2, 2, T, S)
    for weights in (maps.encoder, maps.decoder, maps.cross):
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert not np.triu(maps.decoder, k=1).any()
    assert maps.read_pieces == ["<s>", *maps.target_pieces[:-1]]
    assert "".join(maps.source_pieces).startswith("▁The") and maps.source_pieces[-1] == "</s>"


def test_weights_are_those_of_the_forward_pass(translator, maps):
    """The maps' weights give the output of each attention sub-layer in a plain forward pass."""
    seen = {}
    transformer = translator.transformer
    modules = [
        (layer.self_attention, maps.encoder[i]) for i, layer in enumerate(transformer.encoder)
    ]
    for i, layer in enumerate(transformer.decoder):
        modules += [(layer.self_attention, maps.decoder[i]), (layer.cross_attention, maps.cross[i])]
    for module, _ in modules:
        module.register_forward_hook(lambda m, args, output: seen.update({m: (args, output)}))
    ids = [np.array([*translator.tokenizer.encode(text), EOS_ID]) for text in (SOURCE, TARGET)]
    batch = one_per_row([Pair(ids[0], ids[1])])
    with torch.inference_mode():
        transformer(batch.src, batch.tgt_in)
        for module, weights in modules:
            args, output = seen[module]
            value = module.project(args[0])[2] if hasattr(module, "project") else args[1][1]
            attended = (torch.from_numpy(weights) @ value).transpose(1, 2).flatten(2)
            torch.testing.assert_close(module.output(attended), output, atol=1e-5, rtol=1e-4)
    assert batch.tgt_in.tokens[0, 0] == BOS_ID


def test_without_a_target_the_models_own_translation(translator):
    tokens = translator.translate(SOURCE).tokens
    assert attention_of(translator, SOURCE).target_pieces == translator.tokenizer.pieces(tokens)


@pytest.mark.parametrize(
    ("source", "message"),
    [(" ", "source is empty"), ("man " * 99, r"source has \d+ tokens, .* 60\.")],
)
def test_what_cannot_be_drawn(translator, source, message):
    with pytest.raises(InputError, match=message):
        attention_of(translator, source, TARGET)


def test_fragment_holds_the_weights_and_asks_for_nothing_outside(maps):
    maps = replace(maps, source_pieces=["</script><b>", "&amp;", *maps.source_pieces[2:]])
    fragment = html_fragment(maps)
    page = Page(fragment)
    content = json.loads(page.data)
    assert content["source"] == maps.source_pieces and content["target"] == maps.target_pieces
    cross = np.frombuffer(base64.b64decode(content["weights"]["cross"]), np.uint8) / 255
    np.testing.assert_allclose(cross.reshape(maps.cross.shape), maps.cross, atol=0.5 / 255 + 1e-6)
    assert content["layers"] == {"encoder": 3, "decoder": 2, "cross": 2}
    assert [tag for tag, _ in page.tags].count("script") == 2 and "<b>" not in fragment
    assert not any({"src", "href"} & set(attributes) for _, attributes in page.tags)
    for address in ("http://www.w3.org/2000/svg", "https://arxiv.org/html/1706.03762"):
        fragment = fragment.replace(address, "")  # a namespace, and a link that loads nothing
    assert not re.search(r"https?:|@import|url\(|fetch\(", fragment)


@pytest.fixture
def model(translator, tmp_path, tiny_data):
    weights = {name: value.detach() for name, value in translator.transformer.named_parameters()}
    tokenizer = (tiny_data / "data" / "tokenizer.model").read_bytes()
    facts = {
        "step": 1,
        "tokenizer_sha256": translator.tokenizer.sha256,
        "data_sha256": "",
        "target_symbols": [],
    }
    save_model(tmp_path / "model", translator.config, {TOKENIZER: tokenizer}, weights, facts)
    return tmp_path / "model"


def attention(model, output, *more: str) -> int:
    return main(["attention", str(model), "--source", SOURCE, "--output", str(output), *more])


def test_command_writes_a_page(model, tmp_path, capsys):
    assert attention(model, tmp_path / "a.html", "--target", TARGET) == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    shown = Page(page).texts
    assert shown["title"] == [f"{SOURCE} – attention of {model}"]
    assert shown["h1"] == [f"Attention of {model}"] and f"“{SOURCE}” → “{TARGET}”" in shown["p"]
    assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.endswith(f"Wrote {tmp_path / 'a.html'}.\n")


def test_a_file_is_not_taken_for_a_sentence(tmp_path, capsys):
    (tmp_path / "test.en").write_text("The man reads.\n")
    for option, other in (("--source", ()), ("--target", ("--source", SOURCE))):
        words = [*other, option, str(tmp_path / "test.en"), "--output", str(tmp_path / "a.html")]
        assert main(["attention", "none", *words]) == 2
        error = f"nmt: error: {option} {tmp_path}/test.en is the name of a file. Write the sentence"
        assert capsys.readouterr().err.startswith(error)
    words = ["--source", "a" * 5000, "--output", str(tmp_path / "a.html")]
    assert main(["attention", "none", *words]) == 2  # too long for the name of a file
    assert "There is no model directory" in capsys.readouterr().err


@pytest.fixture
def figures(monkeypatch) -> list[Figure]:
    """Collects the figures that are plotted."""
    drawn: list[Figure] = []

    def figure(*arguments, **options):
        drawn.append(Figure(*arguments, **options))
        return drawn[-1]

    monkeypatch.setattr(attention_png, "figure_class", lambda: figure)
    return drawn


def test_a_picture_has_each_heads_weights_under_its_pieces(maps, figures):
    write_png(heat_maps(maps), io.BytesIO())
    encoder, decoder, cross = figures[0].subfigs
    for part, weights, queries, keys in (
        (encoder, maps.encoder, maps.source_pieces, maps.source_pieces),
        (decoder, maps.decoder, maps.target_pieces, maps.read_pieces),
        (cross, maps.cross, maps.target_pieces, maps.source_pieces),
    ):
        layers, heads = weights.shape[:2]
        squares = np.array(part.axes).reshape(layers, heads)
        for place, axes in np.ndenumerate(squares):
            np.testing.assert_array_equal(axes.images[0].get_array(), weights[place])
            assert axes.get_title() == f"layer {place[0] + 1}, head {place[1] + 1}"
        assert [label.get_text() for label in squares[0, 0].get_yticklabels()] == queries
        assert [label.get_text() for label in squares[-1, 0].get_xticklabels()] == keys


def test_no_piece_is_taken_for_mathematics(maps, figures, recwarn):
    """TeX parsing would fail or change the labels; glyphs that are missing become boxes."""
    strange = ["$\\nothing$", "$x$", "漢字", *maps.source_pieces[3:]]
    write_png(heat_maps(replace(maps, source_pieces=strange)), io.BytesIO())
    labels = figures[0].subfigs[0].axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == strange
    assert not any(label.get_parse_math() for label in labels)
    assert not recwarn.list


def test_letters_beyond_ascii_are_not_all_the_same_box():
    def drawn(letter: str) -> bytes:
        file = io.BytesIO()
        write_png([HeatMaps("", np.eye(1)[None, None], [letter], ["a"])], file)
        return file.getvalue()

    assert len({drawn(letter) for letter in "äß▁ж"}) == 4


def test_command_writes_a_picture(model, tmp_path):
    assert attention(model, tmp_path / "a.png", "--target", TARGET) == 0
    picture = imread(tmp_path / "a.png")  # (height, width, colors)
    assert min(picture.shape[:2]) > 200, picture.shape
    blue = picture[..., 2] - picture[..., 0] > 0.05  # pixels of neither background nor text
    assert 0.01 < blue.mean() < 0.9


def test_validation_goes_on_without_matplotlib(translator, monkeypatch):
    monkeypatch.setattr(validation, "write_png", write_png)  # undoes `one_pixel`
    pair = Pair(*(np.array([*translator.tokenizer.encode(text), EOS_ID]) for text in "ab"))
    assert validation._attention(translator, [pair]).startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert validation._attention(translator, [pair]) is None


def test_command_without_matplotlib_or_with_another_file(tmp_path, monkeypatch, capsys):
    """Both errors are reported before the model is loaded."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert attention(tmp_path / "no model", tmp_path / "a.png") == 2
    assert "pip install 'nmt[plots]'" in capsys.readouterr().err
    assert attention(tmp_path / "no model", tmp_path / "a.pdf") == 2
    assert re.search(r"--output \S+ must end in \.png or \.html", capsys.readouterr().err)
    assert not list(tmp_path.glob("a.*"))


def test_more_weights_than_can_be_drawn(translator, monkeypatch):
    """Nothing else limits the number of weights: a given target may have any length."""
    monkeypatch.setattr(translator.transformer, "forward", None)  # must not be called
    with pytest.raises(InputError, match=r"\d+ source tokens, 6,\d+ target .* 100,000,000"):
        attention_of(translator, SOURCE, "ä" * 6000)


def test_weights_that_are_not_numbers_are_no_model(translator):
    with torch.no_grad():
        translator.transformer.embedding.fill_(float("nan"))
    with pytest.raises(NoModelError, match="scores are NaN"):
        attention_of(translator, SOURCE, TARGET)
