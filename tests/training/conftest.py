"""Runs of these tests are smaller still: nothing is learned that a search could find."""

from functools import partial

import pytest

from tests.training.runs import LITTLE


@pytest.fixture
def settings(settings):
    """`tests.conftest.settings` with the changes of `LITTLE`."""
    return partial(settings, **LITTLE)
