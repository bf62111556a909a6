"""The papers' exponents and rates, against numbers worked out by hand and the identities between them."""

from fractions import Fraction

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.formulas import rates as theory

EVERY = [(nu, d) for nu in (1.5, 2.5, 3.5, 10.0) for d in (1, 2, 3, 6)]


@pytest.mark.parametrize(
    ("d", "b", "q", "regret"),
    [
        (1, Fraction(1, 2), Fraction(1, 3), Fraction(2, 3)),  # 2/4, 2/6, (5 + 3)/(6 + 6)
        (2, Fraction(3, 5), Fraction(6, 11), Fraction(17, 22)),  # 3/5, 6/11, (14 + 3)/(16 + 6)
        (3, Fraction(2, 3), Fraction(2, 3), Fraction(5, 6)),  # 4/6, 12/18, (27 + 3)/(30 + 6)
    ],
)
def test_by_hand(d, b, q, regret):
    assert sb.partition_exponents(1.5, d) == pytest.approx((float(b), float(q)))
    assert sb.partition_regret_exponent(1.5, d) == pytest.approx(float(regret))


@pytest.mark.parametrize(("nu", "d"), EVERY)
def test_identities(nu, d):
    """q is b d / (1 + b d) (proof of Lemma 2), the regret sqrt(T T^q) (proof of Theorem 3), between its neighbours."""
    b, q = sb.partition_exponents(nu, d)
    assert q == pytest.approx(b * d / (1 + b * d))
    regret = sb.partition_regret_exponent(nu, d)
    assert regret == pytest.approx((1 + q) / 2)
    assert theory.least_regret_exponent(nu, d) < regret < 1
    assert regret < theory.improved_regret_exponent(nu, d)
    assert sb.improved_matern_rate(nu, 10_000, d) == pytest.approx(sb.cells_rate(nu, 10_000, d))


def test_igpucb_has_no_guarantee_where_the_kernel_is_rough():
    """2 nu <= d^2."""
    assert theory.improved_regret_exponent(1.5, 2) == 1.0
    assert theory.improved_regret_exponent(2.5, 2) == pytest.approx(17 / 18)


def test_rates():
    t = np.array([1, 10, 10_000])
    np.testing.assert_allclose(sb.cells_rate(1.5, t, 1), [1.0, 10 ** (1 / 3), 10_000 ** (1 / 3)])
    np.testing.assert_allclose(sb.cell_gain_rate(t), [0.0, np.log(10) * np.log(np.log(10)), 9.21034 * 2.22033], 1e-5)
    assert sb.cell_gain_rate(10) == pytest.approx(1.92043, rel=1e-5)
    assert theory.most_cells(1.5, 99, 1) == pytest.approx(40.0)  # 4 * 100^(1/2)


@pytest.mark.parametrize("arguments", [(1.0, 2), (np.nan, 2), ("x", 2)])
def test_refuses_smoothness(arguments):
    with pytest.raises(ValueError, match=r"^nu: got .*; allowed: a number above 1"):
        sb.partition_exponents(*arguments)


@pytest.mark.parametrize("dimension", [0, 1.5, True])
def test_refuses_dimensions(dimension):
    with pytest.raises(ValueError, match=r"^dimension: got"):
        sb.partition_regret_exponent(1.5, dimension)
