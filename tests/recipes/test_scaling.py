"""The measured curves, and the page with their figures."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from nmt.benchmark import machine, training, translating
from recipes.scaling import scaling


@pytest.mark.parametrize("length", [50.0, 800.0])
def test_the_fit_finds_where_both_parts_are_equal(length: float):
    sizes = [2**n for n in range(4, 12)]
    points = [{"size": n, "seconds": 1e-4 * (1 + n / length)} for n in sizes]
    assert scaling.measured_quadratic_length(points) == pytest.approx(length)


def test_a_time_that_does_not_grow_has_no_quadratic_part():
    points = [{"size": n, "seconds": 1e-4 - 1e-8 * n} for n in (16, 64, 256)]
    assert scaling.measured_quadratic_length(points) is None


def test_the_small_way_measures_every_curve(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(machine, "probe", lambda device: lambda: 1.0)
    monkeypatch.setattr(machine, "_COPY_BYTES", 1 << 20)
    monkeypatch.setattr(training, "_LEAST_PAIRS", 200)
    few = tmp_path / "few.yaml"  # validation and test pairs take most of the time
    few.write_text(re.sub(r"pairs: \d+", "pairs: 9", scaling.CONFIG.read_text()))
    monkeypatch.setattr(scaling, "CONFIG", few)
    for module in (training, translating):
        monkeypatch.setattr(module, "_ENOUGH_S", 0.0)
    scaling.main([str(tmp_path / "new"), "--small", "model.d_ff=24"])
    assert capsys.readouterr().out == f"{tmp_path / 'new' / 'scaling.html'}\n"
    found = json.loads((tmp_path / "new" / "scaling.json").read_text())
    assert found["settings"][-1] == "model.d_ff=24"
    # 9408 = (16 * 16 * 4 + 2 * 16 * 24 + 2 * 256) + (4 * 256 + 2 * 256 + 2 * 16 * 24 + 300 * 16)
    assert found["quadratic_length"]["by_formula"] == pytest.approx(9408 / (2 * 16 * 3))
    assert list(found["curves"]) == [
        "length", "batch", "vocabulary", "layers", "beam", "corpus", "processes",
    ]  # fmt: skip
    for name, curve in found["curves"].items():
        sizes = [point["size"] for point in curve["points"]]
        assert sizes == sorted(sizes) and len(sizes) == (1 if name == "processes" else 2)
        assert all(point["seconds"] > 0 < point["bytes"] for point in curve["points"])
    page = (tmp_path / "new" / "scaling.html").read_text()
    pictures = [part.split("</svg>")[0] for part in page.split("<svg")[1:]]
    assert len(pictures) == 2 * 7 - 1
    for picture in pictures:
        ET.fromstring(f"<svg{picture}</svg>")


def test_curves_differ_in_nothing_but_their_sizes():
    small, whole = (scaling.curves(is_small) for is_small in (True, False))
    assert [each.name for each in small] == [each.name for each in whole]
    assert all(len(each.sizes) >= 5 for each in whole if each.name != "processes")
