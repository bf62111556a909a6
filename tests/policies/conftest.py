"""Sizes that tests of policies change."""

import functools

import pytest

from scalable_bandits.posteriors.partition import cell_posteriors


@pytest.fixture
def cells_cache(monkeypatch):
    """Set how many bytes of posteriors the cells of a partition keep."""
    return functools.partial(monkeypatch.setattr, cell_posteriors, "CACHE_BYTES")
