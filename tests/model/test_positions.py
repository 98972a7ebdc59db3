"""Positional encodings, compared with the paper's formula (§3.5)."""

import math

import pytest
import torch

from nmt.model.positions import LearnedPositions, SinusoidalPositions, sinusoids


@pytest.mark.parametrize("d_model", [8, 512])
def test_every_entry_is_the_formula(d_model: int):
    table = sinusoids(300, d_model)
    for pos in (0, 1, 2, 17, 299):
        for i in range(0, d_model // 2, max(1, d_model // 16)):
            angle = pos / 10000 ** (2 * i / d_model)
            assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_the_table_grows_with_what_is_asked():
    positions = SinusoidalPositions(8)
    short = positions(torch.arange(4), 4)
    long = positions(torch.arange(2000), 2000)
    assert torch.equal(short, long[:4])
    assert torch.equal(long, sinusoids(2000, 8))


def test_the_tables_that_captured_steps_read_stay_where_they_are():
    """A longer input gets another table, of the next power of two; existing tables are kept."""
    positions = SinusoidalPositions(8)
    positions(torch.arange(4), 4)
    [table] = positions._tables
    address = table.data_ptr()
    del table
    for length in (513, 700, 1024, 1025, 3, 1500):
        positions(torch.arange(length), length)
    assert [len(each) for each in positions._tables] == [512, 1024, 2048]
    assert positions._tables[0].data_ptr() == address


def test_learned_positions_end_where_their_table_does():
    positions = LearnedPositions(5, 8)
    assert positions(torch.arange(5), 5).shape == (5, 8)
    assert positions(torch.tensor([0, 4, 0, 1, 2, 3]), 6).shape == (6, 8)  # sentences of 2 and 4
    with pytest.raises(IndexError):
        positions(torch.arange(6), 6)
