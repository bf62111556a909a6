"""Sizes that tests of policies change."""

import functools

import pytest

from scalable_bandits.posteriors.partition import finite_cells


@pytest.fixture
def cells_cache(monkeypatch):
    """Set how many bytes of posteriors the cells of a partition keep."""
    return functools.partial(monkeypatch.setattr, finite_cells, "CACHE_BYTES")
