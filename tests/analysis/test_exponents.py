"""Exponents of growth: against numbers known, with intervals that hold as often as they say."""

import numpy as np
import pytest
from numpy.polynomial import polynomial

from scalable_bandits.analysis import exponent


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.3])
@pytest.mark.parametrize("span", ["whole", "last decade"])
def test_exact_powers(power: float, span: str) -> None:
    x = np.arange(1, 2001)
    found = exponent(x, np.array([3.0 * x**power, 5.0 * x**power]), span)
    assert found.exponent == pytest.approx(power, abs=1e-10)
    assert found.factor == pytest.approx(4.0)
    assert (found.low, found.high) == pytest.approx((power, power), abs=1e-9)
    assert (found.first, found.last) == ((1.0, 2000.0) if span == "whole" else (200.0, 2000.0))
    assert found.runs == 2


def test_is_the_least_squares_line_of_the_mean() -> None:
    """Against numpy's, on few points, all of which count."""
    rng = np.random.default_rng(0)
    x, values = np.array([1.0, 2.0, 5.0, 30.0, 100.0]), rng.uniform(1.0, 3.0, (4, 5))
    found = exponent(x, values, "whole")
    offset, slope = polynomial.polyfit(np.log(x), np.log(values.mean(axis=0)), 1)
    assert (found.exponent, np.log(found.factor)) == pytest.approx((slope, offset))


def test_interval_is_that_of_means_drawn_again() -> None:
    """A bootstrap written straight down, with draws of its own: the ends agree up to chance."""
    rng = np.random.default_rng(1)
    x = np.arange(1, 101)
    values = x ** rng.normal(0.5, 0.1, (8, 1)) * rng.uniform(0.5, 1.5, (8, 1))
    found = exponent(x, values, "whole")
    picked = np.unique(np.searchsorted(x, np.geomspace(1, 100, 200)))
    slopes = []
    for _ in range(4000):
        mean = values[rng.integers(8, size=8)].mean(axis=0)[picked]
        slopes.append(polynomial.polyfit(np.log(x[picked]), np.log(mean), 1)[1])
    spread = np.std(slopes)
    assert found.standard_error == pytest.approx(spread, rel=0.1)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(slopes, [0.025, 0.975])), abs=0.15 * spread)
    assert found == exponent(x, values, "whole")  # the same draws in every call


@pytest.mark.slow
def test_intervals_hold_about_as_often_as_they_say() -> None:
    """200 sets of 20 runs with random exponents: 95 % +- 3 standard errors of chance and 4 % for the bootstrap."""
    rng = np.random.default_rng(2)
    x = np.array([1.0, 10.0, 100.0])
    inside = 0
    for _ in range(200):
        values = x**0.7 * rng.lognormal(0.0, 0.2, (20, 3))
        found = exponent(x, values, "whole")
        inside += found.low <= 0.7 <= found.high
    assert inside >= 200 * (0.95 - 0.04 - 3.0 * (0.95 * 0.05 / 200) ** 0.5)


def test_what_cannot_be_fitted() -> None:
    one = exponent(np.arange(1, 11), np.arange(1.0, 11.0)[None])
    assert np.isnan([one.standard_error, one.low, one.high]).all()
    assert np.isfinite(one.exponent)
    assert np.isnan(exponent([5.0], [[1.0], [2.0]]).exponent)
    half = exponent(np.arange(1, 11), np.array([np.zeros(10), np.arange(1.0, 11.0)]))
    assert (half.runs, half.exponent) == (1, pytest.approx(1.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 1.0], [[1.0, 1.0]]), r"^x: got 0\.0; allowed: positive"),
        (([1.0, 2.0], [[1.0]]), r"^values: got 'shape \(1, 1\)'"),
        (([1.0, 2.0], [[1.0, np.nan]]), "^values"),
        (([1.0, 2.0], [[1.0, 1.0]], "decade"), "^span: got 'decade'"),
        (([1.0, 2.0], [[1.0, 1.0]], "whole", 1.0), "^level: got 1.0"),
    ],
    ids=["zero", "shape", "nan", "span", "level"],
)
def test_refusals(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        exponent(*arguments)  # type: ignore[arg-type]
