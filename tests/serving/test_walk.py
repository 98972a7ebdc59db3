"""*One token, step by step* has the values of the paper's equations, computed separately."""

import math

import numpy as np
import pytest
import torch

from nmt.data.tokenizer import Tokenizer
from nmt.decoding.score import score_translations
from nmt.errors import ArgumentError, InputError
from nmt.evaluation.attention_maps import attention_of
from nmt.model.special_ids import BOS_ID, EOS_ID
from nmt.runs.model_directory import new_transformer
from nmt.serving.microscope import inspect
from nmt.serving.steps import steps
from nmt.translator import Translator
from tests.model.paper import PaperTransformer
from tests.serving.models import ending_translator
from tests.serving.served import ask, served

SOURCE, TARGET = "The old man reads a book 😀.", "Der alte Mann liest."
LAYERS, TOKEN, HEAD = 3, 4, 1


@pytest.fixture(params=["post", "pre", "window"])
def translator(request, settings, tiny_data) -> Translator:
    changes = {"model__attention_window": 4} if request.param == "window" else {}
    norm = "pre" if request.param == "pre" else "post"
    return ending_translator(
        settings(
            model__encoder_layers=LAYERS, model__decoder_layers=LAYERS, model__norm=norm, **changes
        ),
        tiny_data,
    )


class Walked(PaperTransformer):
    """Stores the intermediate results of the paper's equations, by the name of the sub-layer."""

    def __init__(self, translator: Translator):
        super().__init__(translator.transformer.state_dict(), translator.config.model)
        self.kept: dict[str, dict[str, torch.Tensor]] = {}

    def sublayer(self, name, x, function):
        def kept(y):
            output = function(y)
            self.kept.setdefault(name, {}).update(before=x, output=output, sum=x + output)
            return output

        return super().sublayer(name, x, kept)

    def linear(self, name, x):
        self.kept[f"into {name}"] = {"x": x}
        return super().linear(name, x)

    def attention(self, name, q, k, v, sees):
        heads, d_k = self.model.heads, self.model.d_k
        query, key, value = q.chunk(heads, -1), k.chunk(heads, -1), v.chunk(heads, -1)
        scores = query[HEAD] @ key[HEAD].T
        weights = (scores / math.sqrt(d_k)).masked_fill(~sees, -math.inf).softmax(-1)
        self.kept.setdefault(name, {}).update(
            query=query[HEAD], scores=scores, scaled=scores / math.sqrt(d_k), allowed=sees,
            weights=weights, attended=weights @ value[HEAD], keys=key[HEAD], values=value[HEAD],
        )  # fmt: skip
        return super().attention(name, q, k, v, sees)


def close(found, expected) -> None:
    np.testing.assert_allclose(found, expected.detach(), atol=1e-5)


@pytest.mark.parametrize("layer", [0, LAYERS - 1])
def test_steps_are_those_of_the_papers_equations(translator, layer):
    """Covers embeddings, attention, feed-forward networks, residual connections and the output."""
    encode = translator.tokenizer.encode
    source, target = ([*encode(text), EOS_ID] for text in (SOURCE, TARGET))
    paper = Walked(translator)
    logits = paper.logits(source, target)[TOKEN]
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        found = steps(translator, SOURCE, TARGET, side=side, token=TOKEN, layer=layer, head=HEAD)
        read = source if side == "source" else [BOS_ID, *target]
        embedding = found["embedding"]
        assert embedding["id"] == read[TOKEN]
        close(embedding["sum"], paper.embed(read)[TOKEN])
        close(embedding["row"], paper.weights["embedding"][read[TOKEN]])
        close(embedding["position"], paper.positions(TOKEN + 1)[TOKEN])
        kinds = ["self", "cross"] if side == "target" else ["self"]
        for kind in kinds:
            one = paper.kept[f"{stack}.{layer}.{kind}_attention"]
            for name in ("query", "scores", "scaled", "weights", "attended"):
                close(found[kind][name], one[name][TOKEN])
            close(found[kind]["keys"], one["keys"])
            close(found[kind]["values"], one["values"])
            assert found[kind]["allowed"] == one["allowed"][TOKEN].tolist()
        width = translator.config.model.d_v
        place = slice(HEAD * width, (HEAD + 1) * width)
        assert found["self"]["joined"][place] == found["self"]["attended"]
        for kind in [*(f"{kind}_attention" for kind in kinds), "feed_forward"]:
            one, shown = paper.kept[f"{stack}.{layer}.{kind}"], found[kind.split("_attention")[0]]
            for name in ("before", "output", "sum"):
                close(shown[name], one[name][TOKEN])
            given = one["sum" if paper.model.norm == "post" else "before"][TOKEN]
            norm = f"{stack}.{layer}.{kind}_residual.norm"
            close(shown["normalized"], paper.normalize(norm, given))
            close(shown["mean"], given.mean())
            close(shown["deviation"], given.std(correction=0))
            close(shown["gain"], paper.weights[f"{norm}.weight"])
            close(shown["bias"], paper.weights[f"{norm}.bias"])
            standardized, gain, bias = (
                torch.tensor(shown[name]) for name in ("standardized", "gain", "bias")
            )
            close(standardized.mean(), torch.tensor(0.0))
            close(standardized.std(correction=0), torch.tensor(1.0))
            close(shown["normalized"], standardized * gain + bias)
        inner = f"{stack}.{layer}.feed_forward.inner"
        units = paper.linear(inner, paper.kept[f"into {inner}"]["x"])[TOKEN].clamp(min=0)
        close(found["feed_forward"]["units"], units)
        assert found["feed_forward"]["active"] == int((units > 0).sum()) > 0
        assert found["feed_forward"]["strongest"] == units.topk(5).indices.tolist()
    output = found["output"]
    close(output["log_probability"], logits.log_softmax(-1)[target[TOKEN]])
    close(output["log_sum"], logits.logsumexp(-1))
    ids = {piece: i for i, piece in enumerate(translator.tokenizer.pieces(range(400)))}
    for each in output["likeliest"]:
        close(each["logit"], logits[ids[each["piece"]]])
        close(each["probability"], logits.softmax(-1)[ids[each["piece"]]])
    epsilon, size = translator.config.training.label_smoothing, len(logits)
    assert output["target"] == pytest.approx(1 - epsilon + epsilon / size)


def test_steps_agree_with_the_commands_that_show_the_same(translator):
    maps = attention_of(translator, SOURCE, TARGET)
    [scored] = score_translations(translator, [SOURCE], [TARGET])
    listed = inspect(translator, SOURCE, TARGET)["target"]["tokens"]
    for token, log_probability in enumerate(scored.log_probabilities):
        found = steps(translator, SOURCE, TARGET, token=token, layer=1, head=HEAD)
        close(found["self"]["weights"], torch.from_numpy(maps.decoder[1, HEAD, token]))
        close(found["cross"]["weights"], torch.from_numpy(maps.cross[1, HEAD, token]))
        assert found["output"]["log_probability"] == pytest.approx(log_probability, abs=1e-5)
        assert found["output"]["piece"] == listed[token]["piece"]
        likeliest = [each["piece"] for each in found["output"]["likeliest"]]
        assert likeliest[:5] == [each["piece"] for each in listed[token]["likeliest"]]


@pytest.mark.parametrize(
    ("where", "said"),
    [({"token": 99}, "token"), ({"layer": LAYERS}, "layer"), ({"head": 2}, "head")],
)
def test_what_is_not_there_is_refused(translator, where, said):
    with pytest.raises(ArgumentError, match=rf"{said} must be from 0 to \d+, but is"):
        steps(translator, SOURCE, TARGET, **where)


def test_the_call_answers_with_the_same(translator):
    question = {"text": SOURCE, "target": TARGET, "side": "source", "token": 2, "layer": 1}
    with served(translator) as port:
        expected = steps(translator, SOURCE, TARGET, side="source", token=2, layer=1)
        assert ask(port, "/api/steps", question) == (200, expected)
        status, answer = ask(port, "/api/steps", question | {"side": "decoder"})
        assert status == 400 and "side" in answer["error"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("norm_type", "rms"), ("feed_forward", "swiglu"), ("positions", "rotary")],
)
def test_formulas_that_are_not_the_papers_are_not_explained(setting, value, settings, tiny_data):
    config = settings(**{f"model__{setting}": value})
    tokenizer = Tokenizer.load(tiny_data / "data" / "tokenizer.model")
    translator = Translator.of(new_transformer(config).eval(), tokenizer, config)
    with pytest.raises(InputError, match=rf"does not support model\.{setting}: {value}\. Use the"):
        steps(translator, SOURCE, TARGET)
