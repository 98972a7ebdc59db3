"""Parts of the comparison of exports; tests/export/test_export.py runs a whole comparison."""

import pytest

from recipes.exports import compare, timed


def test_lines_come_back_in_their_order_and_blank_ones_empty():
    batches = []

    def reversing(texts: list[str]) -> list[str]:
        batches.append(len(texts))
        return [text[::-1] for text in texts]

    lines = ["abc", "", "ab", "abcd", " ", "a"]
    assert timed.in_batches(reversing, lines, 2) == ["cba", "", "ba", "dcba", "", "a"]
    assert batches == [2, 2]


@pytest.mark.parametrize("name", compare.EXPORTS)
def test_every_export_is_translated_by_a_system(name):
    assert name in {folder for _, folder, _ in compare.SYSTEMS.values()}
