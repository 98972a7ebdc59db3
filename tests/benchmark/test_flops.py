"""The formulas for FLOPs agree with torch's FlopCounterMode."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from nmt.benchmark.flops import (
    flops_per_token_pair,
    training_flops,
    translation_flops,
)
from nmt.config import Model
from nmt.model.kernels import products
from nmt.model.special_ids import BOS_ID
from nmt.model.stepper import Stepper
from nmt.model.tokens import Tokens
from nmt.model.transformer import Transformer

MODEL = Model(encoder_layers=2, decoder_layers=3, d_model=8, d_ff=20, heads=2, d_k=3, d_v=5,
              dropout=0.0)  # fmt: skip
GATED = MODEL.model_copy(update={"feed_forward": "swiglu"})
VOCABULARY, SOURCE, TARGET = 40, 7, 9


@pytest.fixture
def model(request) -> Model:
    return getattr(request, "param", MODEL)


@pytest.fixture
def transformer(model: Model, monkeypatch) -> Transformer:
    monkeypatch.setattr(products, "has_onednn", lambda dtype: False)  # FlopCounterMode ignores it
    transformer = Transformer(model, VOCABULARY, max_length=20)
    transformer.initialize(1)
    return transformer


def drawn(length: int) -> Tokens:
    return Tokens.of_rows(torch.randint(4, VOCABULARY, (1, length)))


@pytest.mark.parametrize("model", [MODEL, GATED], indirect=True, ids=["relu", "swiglu"])
def test_training_is_forward_and_backward_as_counted(transformer: Transformer, model: Model):
    with FlopCounterMode(display=False) as counter:
        logits = transformer.logits(transformer(drawn(SOURCE), drawn(TARGET)))
        F.cross_entropy(logits[0], torch.zeros(TARGET, dtype=torch.long)).backward()
    formula = training_flops(model, VOCABULARY, [SOURCE], [TARGET])
    assert formula == counter.get_total_flops()


@torch.no_grad()
def test_greedy_translation_as_counted(transformer: Transformer):
    with FlopCounterMode(display=False) as counter:
        steps = Stepper(transformer.eval(), drawn(SOURCE).tokens, 1, TARGET)
        for _ in range(TARGET):
            steps.step(torch.full((1, 1), BOS_ID), torch.zeros(1, 1, dtype=torch.long))
    formula = translation_flops(MODEL, VOCABULARY, [SOURCE], [TARGET], beam=1)
    assert formula == counter.get_total_flops()


def test_a_beam_multiplies_the_decoder_alone():
    of_source = translation_flops(MODEL, VOCABULARY, [SOURCE], [0], beam=1)
    one, four = (
        translation_flops(MODEL, VOCABULARY, [SOURCE], [TARGET], beam=beam) for beam in (1, 4)
    )
    assert four - of_source == 4 * (one - of_source) > 0


def test_sentences_add_up_and_a_pair_is_divided_by_its_tokens():
    both = training_flops(MODEL, VOCABULARY, [3, 7], [5, 9])
    alone = [training_flops(MODEL, VOCABULARY, [s], [t]) for s, t in ((3, 5), (7, 9))]
    assert both == sum(alone)
    assert training_flops(MODEL, VOCABULARY, [5], [5]) == 5 * flops_per_token_pair(
        MODEL, VOCABULARY, 5
    )
