"""The stepper with static buffers, compared with the stepper whose caches grow."""

import random

import pytest
import torch

from nmt.decoding.buffer_pool import DecodeBufferPool
from nmt.model.kernels import static_stepper
from nmt.model.special_ids import BOS_ID, EOS_ID, PAD_ID
from nmt.model.stepper import Stepper
from nmt.runs.model_directory import new_transformer

W = 3


@pytest.fixture(
    params=[
        {},
        {"model__attention_window": 4},
        {"model__positions": "learned", "model__d_v": 6},
        {"model__positions": "rotary"},
        {"model__norm": "pre"},
    ],
    ids=str,
)
def transformer(request, settings):
    model = new_transformer(settings(**request.param))
    model.initialize(1)
    return model.eval()


def sources(lengths: list[int]) -> torch.Tensor:
    rows = [[5 + n % 7] * (n - 1) + [EOS_ID] + [PAD_ID] * (max(lengths) - n) for n in lengths]
    return torch.tensor(rows)


def test_each_step_has_the_logits_of_growing_tensors(transformer, monkeypatch):
    """Covers buffers that are reused or become too short, and sentences that leave the batch."""
    monkeypatch.setattr(static_stepper, "_LEAST_LENGTH", 2)
    random.seed(1)
    pool = DecodeBufferPool(transformer)
    with torch.inference_mode():
        for _ in range(2):  # the second batch reuses the buffers of the first
            src = sources([3, 7, 5, 2, 6])
            growing = Stepper(transformer, src, W, 12)
            with pool.stepper(src, W, 12) as static:
                B = len(src)
                tokens = torch.full((B, W), BOS_ID)
                parents = torch.arange(W).expand(B, W)
                for step in range(12):
                    expected, found = growing.step(tokens, parents), static.step(tokens, parents)
                    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
                    if step in (3, 7, 8):
                        kept = torch.tensor(sorted(random.sample(range(B), B - 1)))
                        growing.keep(kept)
                        static.keep(kept)
                        B -= 1
                    tokens = torch.randint(4, 20, (B, W))
                    parents = torch.randint(0, W, (B, W))
                with pytest.raises(ValueError, match="is 12, so no more steps"):
                    static.step(tokens, parents)
