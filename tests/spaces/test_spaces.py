"""Spaces: what a candidate is, and how points and numbers go to and fro."""

from __future__ import annotations

import json
import math
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scalable_bandits import Arms, Box, Grid, Points
from scalable_bandits.spaces import FiniteSpace, Space

SPACES = [
    Points([[0.0, 1.0], [2.0, 3.0], [0.0, -0.0]]),
    Points([0.25, 0.5]),
    Arms(1),
    Arms(7),
    Box([[-1.0, 2.0]]),
    Box([[0, 1], [-5.5, 1e3]]),
    Grid([[0, 1]], 1),
    Grid([[0, 1], [-2.0, 3.5]], 4),
    Grid([[0, 1], [-2.0, 3.5], [1e-3, 1e3]], (1, 3, 5)),
    Grid([[0.0, 1.0]] * 6, 30),
]
FINITE = [space for space in SPACES if isinstance(space, FiniteSpace) and space.size < 1000]


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    dimension = draw(st.integers(1, 4))
    lows = draw(st.lists(st.floats(-1e3, 1e3), min_size=dimension, max_size=dimension))
    widths = draw(st.lists(st.floats(1e-2, 1e3), min_size=dimension, max_size=dimension))
    sides = draw(st.lists(st.integers(1, 50), min_size=dimension, max_size=dimension))
    bounds = [(low, low + width) for low, width in zip(lows, widths, strict=True)]
    return Grid(bounds, draw(st.sampled_from([tuple(sides), sides[0]])))


class TestEverySpace:
    """What holds for each of them."""

    @pytest.mark.parametrize("space", SPACES, ids=repr)
    def test_survives_pickle_and_json(self, space: Space) -> None:
        """A copy through pickle or through a dict in JSON is equal, and hashes equally."""
        for copy in (pickle.loads(pickle.dumps(space)), Space.from_dict(json.loads(json.dumps(space.to_dict())))):
            assert type(copy) is type(space)
            assert copy == space
            assert hash(copy) == hash(space)

    def test_compare_by_value(self) -> None:
        """Two spaces are equal exactly if their class and their values are."""
        again = [Space.from_dict(space.to_dict()) for space in SPACES]
        for i, first in enumerate(SPACES):
            assert [first == second for second in again] == [i == j for j in range(len(again))]
        assert len({*SPACES, *again}) == len(SPACES)

    @pytest.mark.parametrize("space", SPACES, ids=repr)
    def test_is_frozen(self, space: Space) -> None:
        """No attribute can be set."""
        name = next(key for key in space.to_dict() if key != "type")
        with pytest.raises(AttributeError):
            setattr(space, name, getattr(space, name))

    @pytest.mark.parametrize("space", FINITE, ids=repr)
    def test_numbers_all_candidates(self, space: FiniteSpace) -> None:
        """`points` is (size, d); `index` gives a number at the same point; subsets are rows of the whole."""
        points = space.points()
        assert points.shape == (space.size, space.dimension)
        assert points.dtype == np.float64
        np.testing.assert_array_equal(space.points(space.index(points)), points)
        chosen = np.arange(space.size)[::-2]
        np.testing.assert_array_equal(space.points(chosen), points[chosen])
        assert space.points([]).shape == (0, space.dimension)
        for i in (0, space.size - 1):
            np.testing.assert_array_equal(np.ravel(space.value(i)), points[i])

    @pytest.mark.parametrize("space", SPACES, ids=repr)
    def test_parses_one_point_or_many(self, space: Space) -> None:
        """(d,) is one point; (k, d) many; a bare number one, and a flat array many, where d = 1."""
        d = space.dimension
        assert space.parse(np.zeros(d))[1]
        assert space.parse(np.zeros(d))[0].shape == (1, d)
        for k in (1, 3):
            points, single = space.parse(np.zeros((k, d)))
            assert points.shape == (k, d)
            assert not single
        if d == 1:
            assert space.parse(0.0)[1]
            points, single = space.parse([0.0, 1.0])
            assert points.shape == (2, 1)
            assert not single


class TestGrid:
    """Arithmetic instead of arrays."""

    def test_costs_nothing(self) -> None:
        """729 million points: made, asked and repeated in less than 100 kB."""
        peaks = []
        for _ in range(3):  # what the first imports, and what other threads do, is not the grid's
            tracemalloc.start()
            grid = Grid([[0, 1]] * 6, 30)
            points = grid.points([0, grid.size // 3, grid.size - 1])
            numbers = grid.index(points)
            repr(grid), hash(grid), grid.to_dict(), pickle.dumps(grid)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert grid.size == 30**6
        assert numbers.tolist() == [0, grid.size // 3, grid.size - 1]
        assert min(peaks) < 100_000

    def test_beyond_32_bits(self) -> None:
        """Numbers of 30^12 candidates keep their last digit."""
        grid = Grid([[0, 1]] * 12, 30)
        numbers = [0, 2**31, 2**33 + 1, 2**53 + 1, grid.size - 1]
        assert grid.size == 30**12
        assert grid.index(grid.points(numbers)).tolist() == numbers

    @given(grids(), st.data())
    def test_round_trip(self, grid: Grid, data: st.DataObject) -> None:
        """`index` undoes `points`, and points stay inside the bounds."""
        numbers = data.draw(st.lists(st.integers(0, grid.size - 1), min_size=1, max_size=10))
        points = grid.points(numbers)
        low, high = np.array(grid.bounds).T
        assert (points >= low).all()
        assert (points <= high).all()
        assert grid.index(points).tolist() == numbers
        for i in numbers:
            assert grid.index(grid.value(i)).tolist() == [i]

    @given(grids())
    def test_both_ends_included(self, grid: Grid) -> None:
        """The first candidate is the lower corner; the last the upper, exactly, but for one-point dimensions."""
        first, last = grid.points([0, grid.size - 1])
        low, high = np.array(grid.bounds).T
        np.testing.assert_array_equal(first, low)
        np.testing.assert_array_equal(last, np.where(np.array(grid.sides) > 1, high, low))

    @given(grids().filter(lambda grid: grid.size <= 5000))
    def test_is_the_product_of_linspaces(self, grid: Grid) -> None:
        """Last dimension fastest, as `itertools.product` of evenly spaced numbers."""
        axes = [np.linspace(low, high, side) for (low, high), side in zip(grid.bounds, grid.sides, strict=True)]
        expected = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
        np.testing.assert_allclose(grid.points(), expected, rtol=1e-12, atol=1e-12)

    def test_one_point_dimension(self) -> None:
        """It stands at its lower end, and nowhere else."""
        grid = Grid([[2, 4], [0, 1]], (1, 3))
        assert grid.points().tolist() == [[2.0, 0.0], [2.0, 0.5], [2.0, 1.0]]
        assert grid.index([2.0, 0.5]).tolist() == [1]
        for x in ([4.0, 0.5], [3.0, 0.5]):
            with pytest.raises(ValueError, match=r"^x: got"):
                grid.index(x)

    @pytest.mark.parametrize("low", [-1e9, 1e6, 1e9, 1e12])
    def test_far_from_the_origin(self, low: float) -> None:
        """A grid knows its own points where rounding is no longer small beside a step (seconds since 1970)."""
        grid = Grid([[low, low + 1.0]], 101)
        assert grid.index(grid.points()).tolist() == list(range(101))

    @pytest.mark.parametrize(
        "x", [[0.05, 0.0], [-0.1, 0.0], [1.1, 0.0], [0.0, 3.6], [0.1 + 1e-4, -2.0], [1.7e308, 0.0]], ids=str
    )
    def test_refuses_points_off_the_grid(self, x: list[float]) -> None:
        """Between candidates or outside; the message shows the point and the grid."""
        with pytest.raises(ValueError, match=r"^x: got \[.*\]; allowed: a point of the grid of 11x12 points"):
            Grid([[0, 1], [-2, 3.5]], (11, 12)).index([[0.1, -1.5], x])

    @pytest.mark.parametrize(
        "shape", [0, -1, 2.5, 3.0, True, "3", None, (), (2,), (2, 3, 4), (2, 0), [[2, 3]]], ids=str
    )
    def test_refuses_shapes(self, shape: object) -> None:
        """A positive integer, or one a dimension, and nothing else."""
        with pytest.raises(ValueError, match=r"^shape: got .*; allowed: "):
            Grid([[0, 1], [0, 1]], shape)  # type: ignore[arg-type]

    def test_more_candidates_than_numbers(self) -> None:
        """2^62 candidates are too many to number; their points and steps are exact all the same."""
        assert Grid([[0, 1]] * 2, 2**30).finite is not None
        large = Grid([[0, 1]] * 2 + [[-3, 5]] * 60, 10)
        assert (large.size, large.finite) == (10**62, None)
        points = large.sample(0)
        steps = large.steps(points)
        assert (large.at(steps) == points).all()
        assert (large.at(large.steps(points + 1e-12)) == points).all()
        outside = points[0].copy()
        outside[-1] = 0.4
        assert large.steps(outside[None])[0, -1] == -1
        with pytest.raises(ValueError, match=r"^x: got"):
            large.check(outside)
        for numbered in (large.points, lambda: large.find(points)):
            with pytest.raises(ValueError, match=r"^space: got '10.62 candidates'; allowed: fewer than 2\^62"):
                numbered()


class TestPoints:
    """Explicit candidates."""

    @given(arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.sampled_from([-0.0, 0, 1])))
    def test_equal_rows_are_one_point(self, array: np.ndarray) -> None:
        """`index` gives the first of equal rows; 0 and -0 are equal."""
        rows = [tuple(row) for row in array.tolist()]
        space = Points(array)
        assert space.index(array).tolist() == [rows.index(row) for row in rows]
        for number, row in enumerate(rows):
            assert space.equal_to(number).tolist() == [other for other, same in enumerate(rows) if same == row]

    def test_copies_and_freezes(self) -> None:
        """Writing to the array that was given changes nothing, and the space's own cannot be written."""
        given_array = np.array([[0.0], [1.0]])
        space = Points(given_array)
        before = hash(space)
        given_array[0] = 9.0
        assert space.points().tolist() == [[0.0], [1.0]]
        for copy in (space, pickle.loads(pickle.dumps(space))):
            with pytest.raises(ValueError, match="read-only"):
                copy.points()[0] = 9.0
            assert hash(copy) == before

    @pytest.mark.parametrize("x", [[0.5, 0.5], [0.0, 1.0 + 1e-12]], ids=str)
    def test_refuses_other_points(self, x: list[float]) -> None:
        with pytest.raises(ValueError, match=r"^x: got \[.*\]; allowed: one of the 2 candidates of the space, exactly"):
            Points([[0.0, 1.0], [1.0, 0.0]]).index(x)

    @pytest.mark.parametrize(
        "array", [[], [[]], 3.0, np.zeros((2, 2, 2)), [math.nan], [math.inf], ["a"], [[1], [1, 2]], None], ids=str
    )
    def test_refuses_arrays(self, array: object) -> None:
        with pytest.raises(ValueError, match=r"^array: got .*; allowed: "):
            Points(array)  # type: ignore[arg-type]


class TestArms:
    """Numbers without coordinates."""

    def test_an_arm_is_a_number(self) -> None:
        arms = Arms(4)
        assert arms.index([3, 0.0]).tolist() == [3, 0]
        assert arms.index(2).tolist() == [2]
        assert type(arms.value(np.int64(2))) is int

    @pytest.mark.parametrize("x", [-1, 4, 0.5, 1e300], ids=str)
    def test_refuses_other_numbers(self, x: float) -> None:
        with pytest.raises(ValueError, match=r"^x: got .*; allowed: an arm number from 0 to 3"):
            Arms(4).index(x)

    @pytest.mark.parametrize("count", [0, -1, 2.5, 3.0, "3", None, True], ids=repr)
    def test_refuses_counts(self, count: object) -> None:
        with pytest.raises((ValueError, TypeError), match="count"):
            Arms(count)  # type: ignore[arg-type]


class TestBox:
    """A continuous box, and the candidates that stand for it."""

    BOX = Box([[-2.0, 3.0], [10.0, 10.5], [0.0, 1e-3]])

    @given(st.integers(1, 300), st.integers(0, 2**64 - 1))
    def test_candidates_are_inside(self, count: int, seed: int) -> None:
        points = self.BOX.candidates(count, seed)
        assert points.points().shape == (count, 3)
        np.testing.assert_array_equal(self.BOX.check(points.points()), points.points())

    @pytest.mark.parametrize("power", [0, 1, 5, 10])
    def test_candidates_are_a_sobol_sequence(self, power: int) -> None:
        """The first 2^m points have one coordinate in each of 2^m equal intervals, in every dimension."""
        count = 2**power
        low, high = np.array(self.BOX.bounds).T
        unit = (self.BOX.candidates(1024, seed=3).points()[:count] - low) / (high - low)
        for column in unit.T:
            assert sorted(np.floor(column * count).astype(int)) == list(range(count))

    def test_candidates_are_a_prefix_of_more(self) -> None:
        many = self.BOX.candidates(1000, seed=5).points()
        for count in (1, 2, 100, 512):
            np.testing.assert_array_equal(self.BOX.candidates(count, seed=5).points(), many[:count])

    def test_candidates_depend_on_the_seed_alone(self) -> None:
        assert self.BOX.candidates(64, seed=1) == self.BOX.candidates(64, seed=1)
        assert self.BOX.candidates(64, seed=1) != self.BOX.candidates(64, seed=2)

    @pytest.mark.parametrize("count", [0, -1, 2.5, True], ids=repr)
    def test_refuses_counts(self, count: object) -> None:
        with pytest.raises((ValueError, TypeError), match="count"):
            self.BOX.candidates(count)  # type: ignore[arg-type]

    def test_check_takes_the_bounds_themselves(self) -> None:
        corners = np.array(self.BOX.bounds).T
        np.testing.assert_array_equal(self.BOX.check(corners), corners)

    @pytest.mark.parametrize("x", [[-2.1, 10, 0], [3.1, 10, 0], [0, 10.6, 0], [0, 10, np.nextafter(1e-3, 1)]], ids=str)
    def test_check_refuses_points_outside(self, x: list[float]) -> None:
        with pytest.raises(ValueError, match=r"^x: got \[.*\]; allowed: a point inside the bounds"):
            self.BOX.check(x)


@pytest.mark.parametrize("kind", [Box, lambda bounds: Grid(bounds, 3)], ids=["Box", "Grid"])
@pytest.mark.parametrize(
    "bounds",
    [[], [[]], [0, 1], [[1, 0]], [[0, 0]], [[0, 1, 2]], [[0, math.nan]], [[0, math.inf]], [["a", "b"]], 3, None],
    ids=str,
)
def test_bounds_are_refused(kind: type[Space], bounds: object) -> None:
    """(d, 2), finite, each upper end above its lower end."""
    with pytest.raises(ValueError, match=r"^bounds: got .*; allowed: "):
        kind(bounds)  # type: ignore[call-arg]
