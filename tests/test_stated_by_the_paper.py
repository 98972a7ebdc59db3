"""The paper's figures agree with each other; config/test_shipped.py checks configs/."""

import pytest

from nmt.paper import MODELS, SUSTAINED_FLOPS, TABLE_3, TRAINING_FLOPS


@pytest.mark.parametrize(("size", "hours"), [("base", 12), ("big", 3.5 * 24)])
def test_training_costs_are_time_by_gpus_by_sustained_flops(size: str, hours: float):
    """Base and big trained for 12 hours and for 3.5 days on eight P100 (§5.2)."""
    cost = hours * 3600 * 8 * SUSTAINED_FLOPS["P100"]
    assert cost == pytest.approx(TRAINING_FLOPS[size], rel=0.01)


def test_heads_share_the_width_of_the_model_but_in_rows_b():
    """In §3.2.2, d_k = d_v = d_model / h; rows (B) of Table 3 change only d_k."""
    base = MODELS["de", "base"]
    rows = {f"{pair}": model for pair, model in MODELS.items()}
    rows |= {row.name: base | row.changes for row in TABLE_3}
    assert len(rows) == 24
    for name, model in rows.items():
        share = model["model.d_model"] / model["model.heads"]
        assert model["model.d_v"] == share, name
        assert (model["model.d_k"] == share) == (not name.startswith("b_")), name
