"""The pictures: what is drawn is what the paper's formulas say, and files appear."""

import sys

import pytest
import torch

from nmt.config import Model
from nmt.errors import InputError
from nmt.model.attention import SelfAttention, Visibility
from nmt.model.dropout import Randomness
from recipes.paper_figures import figures


@pytest.mark.parametrize("length", [8, 12, 32])
def test_restricted_self_attention_is_full_attention_with_a_band_mask(length: int):
    torch.manual_seed(0)
    model = Model(d_model=16, heads=2, d_k=8, d_v=8, attention_window=8)
    layer = figures.RestrictedSelfAttention(model, Randomness())
    x, at = torch.randn(1, length, 16), torch.arange(length)[None]
    full = SelfAttention.forward(layer, x, Visibility(positions=(at, at), window=8))
    torch.testing.assert_close(layer(x, Visibility()), full)


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
        figures.main([str(tmp_path / "figures")])
    assert not (tmp_path / "figures").exists()


def test_every_picture_is_written(monkeypatch, tmp_path, capsys):
    for name, small in (("SEEDS", 2), ("QUERIES", 4), ("D_MODEL", 8), ("HEADS", 2)):
        monkeypatch.setattr(figures, name, small)
    draw = figures.draw_table1
    monkeypatch.setattr(figures, "draw_table1", lambda axes: draw(axes, (32, 64), 1))
    figures.main([str(tmp_path)])
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["learning_rate.png", "positions.png", "scaling.png", "table1.png"]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in written)
