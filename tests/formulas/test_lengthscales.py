"""Bounds of lengthscale balancing, against numbers worked out by hand and what they promise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalable_bandits as sb
from scalable_bandits.formulas import confidence, lengthscales


def test_by_hand():
    ratio = np.array([1.0, 4.0])
    np.testing.assert_allclose(lengthscales.norm_bound(3.0, ratio, 2), [3.0, 12.0])
    np.testing.assert_allclose(lengthscales.norm_bound(3.0, ratio, 1), [3.0, 6.0])
    t = np.array([math.e, math.e])
    np.testing.assert_allclose(lengthscales.gain_rate(t, ratio, 2, math.inf, volume=5.0), [5.0, 80.0])
    np.testing.assert_allclose(lengthscales.gain_rate(t, ratio, 2, 3.0), [math.e**0.5, 16 * math.e**0.5])  # 6 / 12
    np.testing.assert_allclose(
        lengthscales.suspected_regret(np.array([9.0]), np.array([2.0]), np.array([4.0])), [3 * (2 * 2 + 4)]
    )


@given(t=st.integers(2, 10**6), d=st.integers(1, 6))
def test_the_gain_of_an_rbf_kernel_is_srinivas(t, d):
    found = lengthscales.gain_rate(np.array([float(t)]), np.array([1.0]), d, math.inf)
    assert found == pytest.approx(sb.growth_rate(sb.RBF(0.3), t, d))


@given(t=st.integers(2, 10**6), d=st.integers(1, 6), nu=st.floats(1.1, 9.0))
def test_the_gain_of_a_matern_kernel_is_srinivas_but_for_the_power_of_the_logarithm(t, d, nu):
    found = lengthscales.gain_rate(np.array([float(t)]), np.array([1.0]), d, nu) * math.log(t) ** (d / (2 * nu + d))
    assert found == pytest.approx(sb.growth_rate(sb.Matern(0.3, nu=nu), t, d))


@pytest.mark.parametrize("nu", [0.5, 2.5, math.inf])
def test_one_play_is_suspected_of_nothing(nu):
    gain = lengthscales.gain_rate(np.ones(3), np.array([1.0, 2.0, 3.0]), 2, nu)
    np.testing.assert_array_equal(lengthscales.suspected_regret(np.ones(3), np.ones(3), gain), np.zeros(3))


@given(t=st.integers(1, 10**6), count=st.integers(1, 60), delta=st.floats(0.001, 0.3), noise=st.floats(0.01, 9.0))
def test_allowance(t, count, delta, noise):
    found = lengthscales.mean_allowance(t, count, delta, noise)
    assert found == pytest.approx(confidence.error_allowance(t, count, 3 * delta, noise))
    # A Gaussian mean of n rounds is above sqrt(xi_t / n) with probability at most delta * 3 / (A pi^2 t^2).
    assert math.exp(-found / (2 * noise**2)) == pytest.approx(3 * delta / (count * math.pi**2 * t**2))


@pytest.mark.parametrize(("options", "name"), [({"delta": 1.0}, "delta"), ({"t": 0}, "t"), ({"lengthscales": 0}, "le")])
def test_refused(options, name):
    with pytest.raises(ValueError, match=rf"^{name}.*: got .*; allowed: "):
        lengthscales.mean_allowance(**{"t": 1, "lengthscales": 2, "delta": 0.1, "noise": 1.0, **options})


def test_a_longer_lengthscale_bounds_the_norm_of_a_shorter_one():
    """Of functions drawn in the space of theta_0: their norm under theta is at most B(theta)."""
    rng, x = np.random.default_rng(0), np.linspace(0, 1, 12)[:, None]
    for kernel in (sb.Matern(0.4, nu=1.5), sb.RBF(0.4)):
        weights = rng.standard_normal(12)
        values = kernel.block(x) @ weights
        norm = math.sqrt(weights @ values)
        for ratio in (1.5, 3.0):
            shorter = type(kernel)(0.4 / ratio, **({"nu": 1.5} if isinstance(kernel, sb.Matern) else {}))
            # The minimum norm interpolant of the values has no larger norm than f.
            found = math.sqrt(values @ np.linalg.solve(shorter.block(x), values))
            assert found <= lengthscales.norm_bound(norm, np.array(ratio), 1)
