"""Compiled widths and indices are the free functions, to the last bit."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scalable_bandits.formulas import _numba_rules as rules
from scalable_bandits.formulas import confidence
from scalable_bandits.formulas.acquisition import UpperConfidence

rounds = st.integers(1, 10**6)
deltas = st.floats(1e-6, 0.999)
sizes = st.integers(1, 10**6)
gains = st.floats(0.0, 1e4)
positive = st.floats(1e-3, 1e3)


def compiled(rule, parameters, t=1, gain=0.0):
    return rules.width(rule, np.array(parameters, dtype=float), float(t), gain)


def root(beta, scale):
    return math.sqrt(max(beta, 0.0) / scale)


@given(rounds, sizes, deltas, positive)
def test_theorem_1(t, size, delta, scale):
    expected = root(confidence.srinivas_finite(t, size, delta), scale)
    assert compiled(rules.FINITE, (size, delta, scale), t) == expected


@given(rounds, st.integers(1, 30), deltas, st.floats(1.0, 1e3), positive, positive, positive)
def test_theorem_2(t, dimension, delta, a, b, side, scale):
    expected = root(confidence.srinivas_continuous(t, dimension, delta, a, b, side), scale)
    assert compiled(rules.CONTINUOUS, (dimension, delta, a, b, side, scale), t) == expected


@given(rounds, gains, deltas, positive, positive)
def test_theorem_3(t, gain, delta, norm, scale):
    expected = root(confidence.srinivas_rkhs(t, gain, delta, norm), scale)
    assert compiled(rules.RKHS, (delta, norm, scale), t, gain) == expected


@given(gains, deltas, positive, positive, positive, st.integers(1, 10**6))
def test_widths_by_gain(gain, delta, norm, noise, regularization, horizon):
    known = delta, norm, noise, regularization
    assert compiled(rules.IMPROVED, known[:3], 1, gain) == confidence.improved(gain, *known[:3])
    assert compiled(rules.REGULARISED, known, 1, gain) == confidence.regularised(gain, *known)
    assert compiled(rules.MIXTURE, known, 1, gain) == confidence.martingale_mixture(gain, *known)
    expected = confidence.sliding_theorem(gain, *known, horizon)
    assert compiled(rules.SLIDING, (*known, horizon), 1, gain) == expected
    assert compiled(rules.CONSTANT, (norm,), 1, gain) == norm


@given(rounds, sizes, deltas, st.integers(1, 100), positive)
def test_several_priors(t, size, delta, priors, noise):
    width = confidence.unknown_prior_finite(t, size, delta)
    assert compiled(rules.UNKNOWN_PRIOR, (size, delta, 1.0), t) == width
    assert compiled(rules.UNKNOWN_PRIOR, (size, delta, noise), t) == width / math.sqrt(noise)
    expected = confidence.error_allowance(t, priors, delta, noise)
    assert rules.error_allowance(float(t), float(priors), delta, noise) == expected


@given(st.integers(0, 40), st.sampled_from([0.0, 1.0, 0.3, 7.5]), st.sampled_from([1.0, 0.0, 2.5]), st.integers(0, 99))
def test_indices(count, width, mean_weight, seed):
    rng = np.random.default_rng(seed)
    mean, variance, index = rng.standard_normal(count), rng.random(count), np.empty(count)
    rules.upper_confidence(mean, variance, width, mean_weight, index)
    np.testing.assert_array_equal(index, UpperConfidence(width, mean_weight)(mean, variance))
