"""The table of the demo has a clear example of each phenomenon."""

from nmt.demo_language import PHENOMENA, demo_pairs
from recipes.demo import show


def test_examples_show_little_beside_their_phenomenon(capsys):
    pairs = list(demo_pairs(500, 1, "test"))  # as in configs/demo.yaml
    translations = [pair.target for pair in pairs]
    by_source = {pair.source: i for i, pair in enumerate(pairs)}
    wrong = by_source["In the evening the boss finds the magazine."]
    translations[wrong] = "falsch"
    show.print_examples(pairs, translations)
    rows = capsys.readouterr().out.splitlines()[2:-1]
    shown = {}
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        name, source = first.strip().split("  ", 1)
        index = by_source[source]
        assert second.strip().lstrip("* ") == translations[index]
        assert second.strip().startswith("*") == (index == wrong)
        shown[name] = pairs[index].phenomena
    assert list(shown) == list(PHENOMENA)
    assert all(name in shown[name] for name in PHENOMENA)
    assert shown["verb second"] == {"verb second"}
    assert max(map(len, shown.values())) <= 3


def test_a_small_test_set_lacks_some_phenomena(capsys):
    pair = next(iter(demo_pairs(1, 1, "test")))
    show.print_examples([pair], [pair.target])
    assert capsys.readouterr().out.count(pair.source) == 1
