"""The results of validation do not depend on the number of ranks."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from nmt.data.prepared_data import PreparedData
from nmt.data.shards import pairs_of
from nmt.runs.model_directory import new_transformer
from nmt.training.distributed import Ranks, StopRequest
from nmt.training.loss import TransformerLoss
from nmt.training.validation import InferenceCopy, Validation, validate
from tests.model.paper import PaperTransformer, new_model
from tests.patience import PATIENCE_S


class Table:
    """Exchanges the values of ranks that are threads of this process."""

    def __init__(self, world_size: int):
        self.values = [None] * world_size
        self.round = threading.Barrier(world_size, timeout=PATIENCE_S)


class Seated(Ranks):
    """A rank that exchanges values through a table instead of a process group."""

    table: Table

    def gather(self, value):
        self.table.values[self.rank] = value
        self.table.round.wait()
        found = list(self.table.values)
        self.table.round.wait()
        return found

    def sum(self, values):
        return [sum(column) for column in zip(*self.gather(values), strict=True)]

    def max(self, value):
        return max(self.gather(value))


def test_four_ranks_measure_what_one_does_and_the_equations_say(settings):
    config = settings()
    data, split = PreparedData.of(config), "validation"
    tokenizer = data.tokenizer()
    weights = new_model(config, seed=1).state_dict()

    def measured(ranks: Ranks) -> Validation | None:
        transformer = new_transformer(config)
        transformer.load_state_dict(weights)
        module = TransformerLoss(transformer.eval(), 0.1)
        return validate(
            module, tokenizer, data.shards(split), config, ranks, StopRequest(), InferenceCopy()
        )

    alone = measured(Ranks(0, 1, torch.device("cpu")))
    Seated.table = Table(4)  # of six pairs, two ranks have one less
    with ThreadPoolExecutor(4) as pool:
        ranks = [Seated(rank, 4, torch.device("cpu")) for rank in range(4)]
        together = list(pool.map(measured, ranks))
    for found in together:
        assert found and alone and found.samples == alone.samples
        assert (found.loss, found.nll) == pytest.approx((alone.loss, alone.nll), rel=1e-6)
        assert (found.bleu, found.unigram_nll) == (alone.bleu, alone.unigram_nll)

    pairs = [(s.tolist(), t.tolist()) for s, t in pairs_of(data.shards(split), np.arange(6))]
    sums = PaperTransformer(weights, config.model).loss(pairs, 0.1)
    tokens = sum(len(target) for _, target in pairs)
    assert alone and [alone.loss, alone.nll] == pytest.approx([s.item() / tokens for s in sums])
    assert alone.ppl == pytest.approx(math.exp(alone.nll))
    texts = [tuple(map(tokenizer.decode, pair)) for pair in pairs]
    assert [sample[:2] for sample in alone.samples] == [texts[i] for i in (0, 1, 2, 3, 5)]
