"""Named studies that are too large, or too much alike, for the tests that go through all of them: a few rounds."""

import numpy as np
import pytest
from cases.measured import OWN_TESTS, first_values, needs

from scalable_bandits.studies import Study

SMALL = [name for name in OWN_TESTS if name != "scalability-workers"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in SMALL])
@pytest.mark.sampled(5)
@pytest.mark.slow
def test_some_rounds(name: str) -> None:
    """All policies in the first case, at the first value of each axis; twice the same."""
    axes = {axis: values[:1] for axis, values in (first_values(name) or {}).items()}
    study = Study.load(name)
    first, again = (study.run(replicates=1, horizon=3, axes=axes, cases=study.cases[:1]) for _ in range(2))
    assert first.sizes["policy"] == len(study.labels or ())
    assert np.isfinite(first["regret"]).all()
    assert (first["regret"] >= 0.0).all()
    np.testing.assert_array_equal(first["regret"], again["regret"])
