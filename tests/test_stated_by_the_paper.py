"""The paper's figures agree with each other; config/test_shipped.py checks configs/."""

import re

import pytest

from nmt.paper import (
    MODELS,
    SUSTAINED_FLOPS,
    TABLE_2,
    TABLE_2_OTHERS,
    TABLE_3,
    TRAINING_FLOPS,
)
from tests.manual import ROOT


@pytest.mark.parametrize(("size", "hours"), [("base", 12), ("big", 3.5 * 24)])
def test_training_costs_are_time_times_gpus_times_sustained_flops(size: str, hours: float):
    """Base and big trained for 12 hours and for 3.5 days on eight P100 (§5.2)."""
    cost = hours * 3600 * 8 * SUSTAINED_FLOPS["P100"]
    assert cost == pytest.approx(TRAINING_FLOPS[size], rel=0.01)


def test_heads_share_the_width_of_the_model_except_in_rows_b():
    """In §3.2.2, d_k = d_v = d_model / h; rows (B) of Table 3 change only d_k."""
    base = MODELS["de", "base"]
    rows = {f"{pair}": model for pair, model in MODELS.items()}
    rows |= {row.name: base | row.changes for row in TABLE_3}
    assert len(rows) == 24
    for name, model in rows.items():
        share = model["model.d_model"] / model["model.heads"]
        assert model["model.d_v"] == share, name
        assert (model["model.d_k"] == share) == (not name.startswith("b_")), name


def test_the_page_of_figures_lists_the_other_systems_of_table_2():
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    for each in TABLE_2_OTHERS:
        [row] = re.findall(rf"^\| {re.escape(each.name)} \| (.*) \|$", page, re.M)
        source, *cells = (cell.strip() for cell in row.split("|"))
        figures = [
            *(each.bleu.get(side) for side in ("de", "fr")),
            *(each.training_flops.get(side) for side in ("de", "fr")),
        ]
        assert source == each.source
        assert [float(cell) if cell else None for cell in cells] == figures


def test_the_big_model_is_the_best_of_table_2_as_the_abstract_says():
    """§6.1: for EN-DE, better than all other systems and ensembles by more than 2.0 BLEU."""
    best = {side: max(each.bleu.get(side, 0) for each in TABLE_2_OTHERS) for side in ("de", "fr")}
    assert TABLE_2["de", "big"] - best["de"] > 2.0
    assert TABLE_2["fr", "big"] > best["fr"]
    assert TABLE_2["de", "base"] > best["de"]
    costs = [cost for each in TABLE_2_OTHERS for cost in each.training_flops.values()]
    assert TRAINING_FLOPS["base"] < min(costs)
