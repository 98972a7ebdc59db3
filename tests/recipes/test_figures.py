"""The pictures: what is drawn is what the paper's formulas say, and files appear."""

import sys

import pytest
import torch

from nmt.errors import InputError
from nmt.model.attention import attention_bias
from nmt.model.dropout import Dropout, Randomness
from recipes.paper_figures import figures


@pytest.mark.parametrize("length", [8, 12, 32])
def test_restricted_self_attention_is_full_attention_with_a_band_mask(length: int):
    torch.manual_seed(0)
    layer = figures.RestrictedSelfAttention(16, 2, 8, Dropout(0.0, Randomness()))
    x = torch.randn(1, length, 16)
    at = torch.arange(length)
    far = (at[:, None] - at).abs() > 4
    segments = torch.ones(1, length, dtype=torch.int64)
    bias = attention_bias(segments, segments, causal=False, dtype=x.dtype)
    full = layer.combine(*layer.project(x), bias.masked_fill(far, -torch.inf), None)
    torch.testing.assert_close(layer(x), full)


@pytest.mark.parametrize("is_scaled", [True, False])
def test_jacobian_norm_is_that_of_autograd(is_scaled: bool, monkeypatch):
    monkeypatch.setattr(figures, "QUERIES", 1)
    generator = torch.Generator().manual_seed(7)
    query = torch.randn(1, 12, generator=generator, dtype=torch.float64)
    key = torch.randn(figures.KEYS, 12, generator=generator, dtype=torch.float64)
    scores = (query @ key.T)[0] / (12**0.5 if is_scaled else 1)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    found = figures.jacobian_norm(12, 7, is_scaled)
    assert found == pytest.approx(float(jacobian.norm()), rel=1e-9)


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"matplotlib is missing.*plots"):
        figures.main(str(tmp_path))


def test_every_picture_is_written(monkeypatch, tmp_path, capsys):
    for name, small in (("SEEDS", 2), ("QUERIES", 4), ("D_MODEL", 8), ("HEADS", 2)):
        monkeypatch.setattr(figures, name, small)
    draw = figures.draw_table1
    monkeypatch.setattr(figures, "draw_table1", lambda axes: draw(axes, (32, 64), 1))
    figures.main(str(tmp_path))
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["learning_rate.png", "positions.png", "scaling.png", "table1.png"]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in written)
