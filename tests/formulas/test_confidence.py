"""Confidence widths and growth rates: the formulas, what they promise, and whether the promise is kept."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import kernels as naive_kernels
from naive import policies as naive

import scalable_bandits as sb
from scalable_bandits.formulas import confidence
from scalable_bandits.formulas.confidence import fixed_points

rounds = st.integers(1, 10**7)
deltas = st.floats(1e-6, 0.999)
gains = st.floats(0, 1e4)


@given(t=rounds, size=st.integers(1, 10**9), delta=deltas)
def test_srinivas_theorem_1(t, size, delta):
    beta = confidence.srinivas_finite(t, size, delta)
    assert beta == pytest.approx(naive.gpucb_width1(t, size, delta) ** 2, rel=1e-12)
    # Why it has this value: |D| exp(-beta_t / 2) is delta / t^2 over the sum of all 1 / t^2, which is pi^2 / 6.
    assert size * math.exp(-beta / 2) == pytest.approx(delta / (t**2 * math.pi**2 / 6), rel=1e-9)


@given(
    t=rounds, d=st.integers(1, 8), delta=deltas, a=st.floats(0.3, 20), b=st.floats(1.0, 20), side=st.floats(1.0, 100)
)
def test_srinivas_theorem_2(t, d, delta, a, b, side):
    beta = confidence.srinivas_continuous(t, d, delta, a, b, side)
    assert beta == pytest.approx(naive.gpucb_width2(t, d, side, delta, a, b) ** 2, rel=1e-12)
    # The proof's way: 2 log(4 pi_t / delta) + 2 d log(points a side of the t-th discretisation), pi_t = pi^2 t^2 / 6.
    side_points = t**2 * d * b * side * math.sqrt(math.log(4 * d * a / delta))
    assert beta == pytest.approx(2 * math.log(4 * (math.pi**2 * t**2 / 6) / delta * side_points**d), rel=1e-9)


@given(t=rounds, gain=gains, delta=deltas, norm=st.floats(0.01, 100))
def test_srinivas_theorem_3(t, gain, delta, norm):
    beta = confidence.srinivas_rkhs(t, gain, delta, norm)
    assert beta == pytest.approx(naive.gpucb_width3(t, gain, norm, delta) ** 2, rel=1e-9)
    assert beta >= 2 * norm**2


@given(gain=gains, delta=deltas, norm=st.floats(0.01, 100), noise=st.floats(0.01, 100))
def test_chowdhury_gopalan_theorems_2_and_4(gain, delta, norm, noise):
    width = confidence.improved(gain, delta, norm, noise)
    assert width == pytest.approx(naive.igpucb_width(gain, norm, noise, delta), rel=1e-12)
    # The other way round: the failure probability that the width stands for.
    assert math.exp(gain + 1 - ((width - norm) / noise) ** 2 / 2) == pytest.approx(delta, rel=1e-5)
    assert confidence.improved(gain, delta / 2, norm, noise) == pytest.approx(
        naive.gpts_width(gain, norm, noise, delta), rel=1e-12
    )


@given(
    seed=st.integers(0, 10**6),
    norm=st.floats(0.01, 10),
    noise=st.floats(0.01, 10),
    delta=deltas,
    lam=st.floats(0.01, 10),
)
def test_fixed_points(seed, norm, noise, delta, lam):
    """Bias and noise that the estimate's own weights allow lie within the width, which is no larger than their sum."""
    rng = np.random.default_rng(seed)
    points, kernel = rng.random((6, 2)), naive_kernels.matern32(0.5)
    gram = np.array([[kernel(p, q) for q in points] for p in points])
    inside, cross, prior = gram[1:, 1:], gram[1:, 0], gram[0, 0]
    weights = np.linalg.solve(inside + lam * np.eye(5), cross)
    bias = math.sqrt(max(prior - 2 * weights @ cross + weights @ inside @ weights, 0))
    std = math.sqrt(prior - weights @ cross)
    largest = norm * bias + noise * math.sqrt(2 * math.log(2 * 7 / delta)) * np.linalg.norm(weights)
    width = fixed_points(7, delta, norm, noise, lam)
    assert largest <= width * std * (1 + 1e-9)
    assert width <= confidence.independent(7, delta, norm, noise, lam)


@pytest.mark.parametrize(
    ("kernel", "exponent", "logarithms"),
    [
        (sb.Linear(), lambda d: 0, lambda d: 1),
        (sb.RBF(0.3), lambda d: 0, lambda d: d + 1),
        (sb.Matern(nu=1.5), lambda d: d * (d + 1) / (3 + d * (d + 1)), lambda d: 1),
        (2.0 * sb.Matern(nu=2.5), lambda d: d * (d + 1) / (5 + d * (d + 1)), lambda d: 1),
    ],
)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_growth_rates(kernel, exponent, logarithms, d):
    """From t to t^2 the rate t^p (log t)^q grows by a factor t^p 2^q."""
    for t in (10, 1000, 123_456):
        ratio = sb.growth_rate(kernel, t**2, d) / sb.growth_rate(kernel, t, d)
        assert ratio == pytest.approx(t ** exponent(d) * 2 ** logarithms(d), rel=1e-9)
    if isinstance(kernel, sb.Linear):
        assert sb.growth_rate(kernel, math.e, d) == pytest.approx(d)
    elif isinstance(kernel, sb.RBF):
        assert sb.growth_rate(kernel, math.e, d) == pytest.approx(1)
    else:
        assert sb.growth_rate(kernel, math.e, d) == pytest.approx(math.exp(exponent(d)))


def test_growth_rates_of_many_rounds_at_once():
    t = np.array([1, 2, 50])
    np.testing.assert_allclose(sb.growth_rate(sb.RBF(), t, 2), np.log(t) ** 3)
    np.testing.assert_allclose(sb.improved_matern_rate(1.5, t, 2), t ** (6 / 11))
    assert type(sb.growth_rate(sb.RBF(), 5, 2)) is float
    assert type(sb.improved_matern_rate(1.5, 5, 2)) is float


@pytest.mark.parametrize("kernel", [sb.Matern(nu=1.0), sb.Matern(nu=0.5), sb.Periodic(), sb.RBF() + sb.Linear()])
def test_growth_rates_the_theorem_does_not_give_are_refused(kernel):
    with pytest.raises(ValueError, match="kernel: got"):
        sb.growth_rate(kernel, 10, 1)


@pytest.mark.parametrize(("nu", "d"), [(1.5, 1), (1.5, 2), (2.5, 3), (1.1, 6)])
def test_improved_rate_of_the_matern_kernel(nu, d):
    """t^(d (d + 1) / (d (d + 2) + 2 nu)) is below the older rate, and below t, for every nu and d."""
    assert math.log(sb.improved_matern_rate(nu, 10**6, d), 10**6) == pytest.approx(d * (d + 1) / (d * (d + 2) + 2 * nu))
    assert sb.improved_matern_rate(nu, 10**6, d) < sb.growth_rate(sb.Matern(nu=nu), 10**6, d)


def test_greedy_gain_bounds_the_largest_gain():
    """Nemhauser et al. 1978: greedy <= best <= greedy / (1 - 1/e), the best over all sets of three of seven points."""
    from itertools import combinations_with_replacement

    points = np.random.default_rng(2).random((7, 1))
    K = naive_kernels.matrix(naive_kernels.rbf(0.3), points)
    best = max(
        np.linalg.slogdet(np.eye(3) + K[np.ix_(chosen, chosen)] / 0.1)[1] / 2
        for chosen in combinations_with_replacement(range(7), 3)
    )
    bound = sb.GreedyInformationGain(sb.RBF(0.3), sb.Points(points), regularization=0.1)(3)
    assert bound * (1 - 1 / math.e) <= best + 1e-12
    assert best <= bound


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: confidence.improved(1.0, 1.0, 2.0, 1.0), "delta: got 1.0; allowed: a number between 0 and 1"),
        (lambda: confidence.srinivas_finite(0, 10, 0.1), "t: got 0; allowed: a positive integer"),
        (lambda: confidence.srinivas_finite(1, 0, 0.1), "size: got 0; allowed: a positive integer"),
        (lambda: confidence.srinivas_continuous(1, 2, 0.1, 0.0125, 1.0, 1.0), r"a: got 0.0125; .*= 0.0125"),
        (lambda: confidence.unknown_prior_continuous(1, 2, 0.375, 0.125, 1.0, 1.0), "a: got 0.125; .*= 0.125"),
        (lambda: confidence.error_allowance(1, 0, 0.1, 1.0), "priors: got 0; allowed: a positive integer"),
        (lambda: confidence.width("flyn-reeb", 1.0, 0.1, 1.0, 1.0, 1.0), "name: got 'flyn-reeb'; .*'flynn-reeb'"),
    ],
)
def test_refusals(call, message):
    """Where a formula has no value, or another meaning than its paper's."""
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
