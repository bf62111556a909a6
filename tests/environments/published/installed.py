"""Which data packages are installed, and where; none is imported to find out."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare


def needs(source):
    """Mark of tests that need a package."""
    return pytest.mark.skipif(not source.installed, reason=f"{source.package} is not installed: {source.command}")


def folder(source):
    """Folder of an installed package."""
    return Path(importlib.util.find_spec(source.module).submodule_search_locations[0])


def check_pulls(environment, arm, measured, rounds=1000):
    """Each measurement of an arm is pulled as often as the others, and by seed and round alone.

    A chi-square test that would fail for one of a million right seeds; the seed is fixed.
    """
    x = environment.space.value(arm)
    pulled = [environment.observe(x, t) for t in range(1, rounds + 1)]
    values, often = np.unique(measured, return_counts=True)
    assert set(pulled) == set(values.tolist())
    if len(values) > 1:
        assert chisquare([pulled.count(y) for y in values], rounds * often / often.sum()).pvalue > 1e-6
    again = type(environment)(**environment.parameters())
    assert [again.observe(x, t) for t in (77, 3, 900)] == [pulled[t - 1] for t in (77, 3, 900)]
    assert environment.mean(x) == pytest.approx(np.mean(measured), rel=1e-12)
