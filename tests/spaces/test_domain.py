"""Domains number the points that a policy plays or is told of, and never change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalable_bandits as sb
from scalable_bandits.spaces import make_domain

GRID, BOX = sb.Grid([[0, 1], [0, 2]], 4), sb.Box([[0, 1], [0, 2]])
INSIDE = st.tuples(st.floats(0, 1), st.floats(0, 2))


def domains():
    return {
        "grid": make_domain(GRID, None, 0),
        "arms": make_domain(sb.Arms(7), None, 0),
        "set": make_domain(BOX, 16, 3),
        "box": make_domain(BOX, None, 3),
    }


@pytest.mark.parametrize("name", ["grid", "arms", "set"])
def test_candidates_of_a_finite_domain(name):
    domain = domains()[name]
    assert domain.size == domain.choosable == len(domain.points())
    assert not domain.by_visit
    assert domain.find(domain.points([2, 5])).tolist() == [2, 5]
    assert domain.allowed(None) is None
    assert np.flatnonzero(domain.allowed([1, 3])).tolist() == [1, 3]
    assert domain.added().shape == (0, domain.space.dimension)


def test_a_finite_space_has_all_its_points():
    for name in ("grid", "arms"):
        assert domains()[name].find(np.full((1, domains()[name].space.dimension), 0.123)).tolist() == [-1]
        with pytest.raises(ValueError, match="x: got"):
            domains()[name].grown(np.full((1, domains()[name].space.dimension), 0.123))


@pytest.mark.parametrize("name", ["set", "box"])
@given(points=st.lists(INSIDE, min_size=1, max_size=6, unique=True))
def test_points_of_a_box_get_the_next_numbers(name, points):
    domain, x = domains()[name], np.array(points)
    before, unknown = domain.size, domain.find(x) < 0
    grown = domain.grown(x[unknown])
    assert domain.size == before, "a domain never changes"
    assert grown.choosable == domain.choosable
    assert sorted(grown.find(x[unknown]).tolist()) == list(range(before, before + int(unknown.sum())))
    np.testing.assert_array_equal(grown.points(grown.find(x)), x + 0.0)
    np.testing.assert_array_equal(grown.added(), x[unknown] + 0.0)
    mask = grown.allowed(None)
    assert mask is None if name == "box" or not unknown.any() else mask.sum() == grown.choosable


def test_outside_of_a_box():
    outside, candidates, box = np.array([[0.5, 3.0]]), domains()["set"], domains()["box"]
    assert candidates.find(outside).tolist() == [-1]
    for refusing in (candidates.grown, box.find):
        with pytest.raises(ValueError, match="a point inside the bounds"):
            refusing(outside)


def test_a_whole_box_is_not_restricted():
    box = domains()["box"]
    assert box.by_visit
    assert box.choosable == 0
    with pytest.raises(ValueError, match=r"available: got .* allowed: None on a whole box"):
        box.allowed([0])
    assert box.allowed(None, {0: 0.5}) is None  # no mask says it, but coordinates that are fixed
    np.testing.assert_array_equal(box.fixed({0: 0.5}), [0.5, np.nan])
    assert domains()["grid"].fixed({0: 0.5}) is None


def test_numbers_of_an_earlier_process():
    """A number whose point is lost stays taken."""
    box = domains()["box"].placed(np.array([2]), np.array([[0.5, 0.25]]))
    assert box.size == 3
    assert box.find(np.array([[0.5, 0.25]])).tolist() == [2]
    assert np.isnan(box.points([0])).all()
    grid = domains()["grid"]
    assert grid.placed(np.array([2]), np.array([[0.5, 0.25]])) is grid


@pytest.mark.parametrize("name", ["grid", "arms", "set", "box"])
def test_uniform_draws(name):
    """Also after points were told, which may not be chosen."""
    domain, rng = domains()[name], np.random.default_rng(1)
    if name in ("set", "box"):
        domain = domain.grown(np.array([[0.2, 0.2]]))
    drawn = [domain.draw_uniform(rng, None) for _ in range(200)]
    if name == "box":
        low, high = np.array(BOX.bounds).T
        assert all(((x >= low) & (x <= high)).all() for x in drawn)
    else:
        assert set(drawn) == set(range(domain.choosable))  # 16 candidates: one is missed with probability 4e-5
        mask = domain.allowed([1, 2])
        assert {domain.draw_uniform(rng, mask) for _ in range(50)} == {1, 2}


def test_equal_points():
    domain = make_domain(sb.Points([[0.0], [1.0], [0.0]]), None, 0)
    assert domain.numbered.canonical(2) == 0
    assert domain.without([0], None).tolist() == [False, True, False]
