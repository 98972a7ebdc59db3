"""Shortlists: learning, writing and reading."""

from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from nmt.data import shortlist
from nmt.data.prepare import prepare
from nmt.data.prepared_data import PreparedData
from nmt.data.shards import Side
from nmt.data.shortlist import Shortlist, learn_shortlist
from nmt.errors import NoModelError
from nmt.model.special_ids import EOS_ID, PAD_ID
from nmt.storage import manifest
from tests.conftest import Settings

V = 40
Pairs = list[tuple[list[int], list[int]]]


def random_pairs(n: int) -> Pairs:
    """Returns pairs whose targets are mostly their sources plus 1, in any order."""
    rng = np.random.default_rng(1)
    pairs = []
    for _ in range(n):
        source = rng.integers(4, V - 1, rng.integers(1, 9))
        target = np.where(rng.random(len(source)) < 0.8, source + 1, rng.integers(4, V))
        pairs.append(([*source.tolist(), EOS_ID], [*rng.permutation(target).tolist(), EOS_ID]))
    return pairs


def side(sentences: list[list[int]]) -> Side:
    offsets = np.cumsum([0, *map(len, sentences)])
    return Side(np.concatenate(sentences).astype(np.int32), offsets.astype(np.int32))


def shards(*each: Pairs) -> list[tuple[Side, Side]]:
    return [(side([s for s, _ in some]), side([t for _, t in some])) for some in each]


def plain_model_1(pairs: Pairs, frequent: set[int], rounds: int) -> dict[int, dict[int, float]]:
    """Computes IBM Model 1 as in a textbook, for target tokens that are not frequent."""
    p: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(rounds):
        expected: dict[int, Counter[int]] = defaultdict(Counter)
        for source, target in pairs:
            for t in target:
                if t not in frequent:
                    total = sum(p[s][t] for s in source)
                    for s in source:
                        expected[s][t] += p[s][t] / total  # type: ignore[assignment]
        p = defaultdict(dict)
        for s, counts in expected.items():
            p[s] = {t: count / sum(counts.values()) for t, count in counts.items()}
    return p


@pytest.mark.parametrize("cells", [2_000_000, 60])
def test_the_likeliest_translations_are_those_of_model_1(monkeypatch, cells: int):
    monkeypatch.setattr(shortlist, "_BLOCK_CELLS", cells)
    pairs = random_pairs(120)
    found = learn_shortlist(shards(pairs[:50], pairs[50:]), V, frequent=3, translations=6)
    counts = Counter(t for _, target in pairs for t in target)
    assert found.frequent[0] == EOS_ID
    assert [counts[t] for t in found.frequent.tolist()] == sorted(counts.values())[:-4:-1]
    p = plain_model_1(pairs, set(found.frequent.tolist()), 4)
    assert len(p) > 30
    for s in range(V):
        row = [t for t in found.translations[s].tolist() if t != PAD_ID]
        assert len(row) == len(set(row)) == min(6, len(p.get(s, {})))
        best = sorted(p.get(s, {}).values(), reverse=True)[:6]
        assert [p[s][t] for t in row] == pytest.approx(best)  # equal ones in any order
    assert sum(found.translations[s, 0] == s + 1 for s in range(4, V - 1)) > 25


def test_a_large_corpus_is_sampled_evenly(monkeypatch):
    pairs = random_pairs(2000)
    whole = sum(len(s) * len(t) for s, t in pairs)
    monkeypatch.setattr(shortlist, "MOST_CELLS", whole // 4)
    model = shortlist._Model1(shards(pairs[:700], pairs[700:]), np.ones(V, dtype=bool))
    assert sum(len(links) for links, _ in model.cells) == pytest.approx(whole / 4, rel=0.1)


def test_a_vocabulary_of_frequent_pieces_alone():
    found = learn_shortlist(shards(random_pairs(20)), V)
    assert sorted(found.frequent.tolist()) == list(range(V))
    assert (found.translations == PAD_ID).all()
    assert found.candidates([7], []).tolist() == list(range(V))


def test_candidates():
    """Special ids, the source's tokens, frequent tokens, translations, `always`."""
    table = np.full((V, 2), PAD_ID, np.int32)
    table[7] = [20, 21]
    table[8] = [22, PAD_ID]
    found = Shortlist(np.array([30, 31], np.int32), table)
    assert found.candidates([8, 7, 8], [35]).tolist() == [
        0, 1, 2, 3, 7, 8, 20, 21, 22, 30, 31, 35,
    ]  # fmt: skip
    assert found.candidates([EOS_ID], {}).tolist() == [0, 1, 2, 3, 30, 31]


@pytest.mark.parametrize(
    "change",
    [
        {"frequent": np.array([V], np.int32)},
        {"frequent": np.array([-1], np.int32)},
        {"frequent": np.array([[1]], np.int32)},
        {"frequent": np.array([1], np.int64)},
        {"translations": np.zeros((V - 1, 2), np.int32)},
        {"translations": np.full((V, 2), V, np.int32)},
        {"translations": np.zeros(V, np.int32)},
        {"other": np.zeros(1, np.int32)},
    ],
    ids=str,
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, change: dict[str, np.ndarray]):
    sound = {"frequent": np.array([1], np.int32), "translations": np.zeros((V, 2), np.int32)}
    path = tmp_path / "s"
    path.write_bytes(safetensors.numpy.save(sound))
    assert Shortlist.load(path, V).translations.shape == (V, 2)
    path.write_bytes(safetensors.numpy.save(sound | change))
    with pytest.raises(NoModelError, match=f"{path} is not a .*shortlist"):
        Shortlist.load(path, V)
    path.write_bytes(b"\x80\x04N.")  # a pickle
    with pytest.raises(NoModelError, match="not a valid shortlist"):
        Shortlist.load(path, V)


def told(config) -> str:
    lines: list[str] = []
    prepare(config, note=lines.append, processes=1)
    return "\n".join(lines)


def test_prepared_data_have_one_if_they_are_asked(settings: Settings, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "nmt.data.stages.learn_table.learn_shortlist",
        partial(learn_shortlist, frequent=50, translations=5),
    )
    before = manifest.read(Path(settings().data.directory), "data")
    assert "shortlist" not in before["settings"]["data"]  # at its default
    own = {"data__directory": str(tmp_path / "data")}
    asked = settings(**own, data__shortlist=True)
    assert "Learning a shortlist." in told(asked)
    data = PreparedData.of(asked)
    now = data.manifest
    assert now["files"].keys() - before["files"].keys() == {"shortlist.safetensors"}
    assert now["data_sha256"] == before["data_sha256"]
    found = Shortlist.load(tmp_path / "data/shortlist.safetensors", 400)
    assert (found.frequent.shape, found.translations.shape) == ((50,), (400, 5))
    assert data.shortlist_file() == found.to_bytes()
    assert "nothing to do" in told(asked)
    assert "data.shortlist was true, is false" in told(settings(**own))
    assert not (tmp_path / "data/shortlist.safetensors").exists()
    assert manifest.read(tmp_path / "data", "data") == before
    assert PreparedData.of(settings(**own)).shortlist_file() is None
