"""What every engine is held to."""

import numpy as np
import pytest


def assert_posterior(engine, gp, atol=1e-8):
    """Mean, deviation and information gain are the oracle's."""
    mean, variance = gp.mean_variance()
    np.testing.assert_allclose(engine.mean(), mean, rtol=0, atol=atol)
    assert engine.variance().min() >= 0
    np.testing.assert_allclose(np.sqrt(engine.variance()), np.sqrt(np.maximum(variance, 0)), rtol=0, atol=atol)
    assert engine.information_gain == pytest.approx(gp.information_gain(), abs=atol)
