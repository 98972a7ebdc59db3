"""Makes the runs of these tests even smaller: fewer layers, and validations that hardly search."""

from functools import partial

import pytest

from tests.training.runs import LITTLE


@pytest.fixture
def settings(settings):
    """`tests.conftest.settings` with the changes of `LITTLE`."""
    return partial(settings, **LITTLE)
