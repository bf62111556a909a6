"""Widths are formulas that are written once: checked functions, values of policies and loops give the same numbers."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scalable_bandits.formulas import _numba_widths as formulas
from scalable_bandits.formulas import confidence
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.posteriors._numba_choice import upper_confidence

rounds = st.integers(1, 10**6)
deltas = st.floats(1e-6, 0.999)
sizes = st.integers(1, 10**6)
gains = st.floats(0.0, 1e4)
positive = st.floats(1e-3, 1e3)


def same(expected, formula, constants, t=1, gain=0.0):
    """A formula in a loop and as a value, to the last bit."""
    assert formulas.width(formula, np.array(constants, dtype=float), float(t), gain) == expected
    assert Width(formula, constants).at(t, gain) == expected


def root(beta, scale):
    return math.sqrt(max(beta, 0.0) / scale)


@given(rounds, sizes, deltas, positive)
def test_theorem_1(t, size, delta, scale):
    same(root(confidence.srinivas_finite(t, size, delta), scale), formulas.FINITE, (size, delta, scale), t)


@given(rounds, st.integers(1, 30), deltas, st.floats(1.0, 1e3), positive, positive, positive)
def test_theorem_2(t, dimension, delta, a, b, side, scale):
    expected = root(confidence.srinivas_continuous(t, dimension, delta, a, b, side), scale)
    same(expected, formulas.CONTINUOUS, (dimension, delta, a, b, side, scale), t)


@given(rounds, gains, deltas, positive, positive)
def test_theorem_3(t, gain, delta, norm, scale):
    expected = root(confidence.srinivas_rkhs(t, gain, delta, norm), scale)
    same(expected, formulas.RKHS, (delta, norm, scale), t, gain)


@given(gains, deltas, positive, positive, positive, st.integers(1, 10**6))
def test_widths_by_gain(gain, delta, norm, noise, regularization, horizon):
    known = delta, norm, noise, regularization
    same(confidence.improved(gain, *known[:3]), formulas.IMPROVED, known[:3], 1, gain)
    same(confidence.regularised(gain, *known), formulas.REGULARISED, known, 1, gain)
    same(confidence.martingale_mixture(gain, *known), formulas.MIXTURE, known, 1, gain)
    same(confidence.sliding_theorem(gain, *known, horizon), formulas.SLIDING, (*known, horizon), 1, gain)
    same(norm, formulas.CONSTANT, (norm,), 1, gain)
    for name in confidence.WIDTHS:
        assert confidence.named_width(name, *known).at(7, gain) == confidence.width(name, gain, *known)


@given(rounds, sizes, deltas, st.integers(1, 100), positive)
def test_several_priors(t, size, delta, priors, noise):
    assert formulas.unknown_prior(float(t), float(size), delta) == confidence.unknown_prior_finite(t, size, delta)
    expected = confidence.error_allowance(t, priors, delta, noise)
    assert formulas.error_allowance(float(t), float(priors), delta, noise) == expected


@given(st.integers(0, 40), st.sampled_from([0.0, 1.0, 0.3, 7.5]), st.sampled_from([1.0, 0.0, 2.5]), st.integers(0, 99))
def test_indices(count, width, mean_weight, seed):
    rng = np.random.default_rng(seed)
    mean, variance, index = rng.standard_normal(count), rng.random(count), np.empty(count)
    upper_confidence(mean, variance, width, mean_weight, index)
    np.testing.assert_array_equal(index, UpperConfidence(width, mean_weight)(mean, variance))
