"""First points of policies that learn everything; while all values are equal they go on."""

import numpy as np
import pytest

import scalable_bandits as sb

LINE = {"x": sb.Real(0, 1), "y": sb.Real(0, 1)}
SPACES = {
    "box": sb.Box([[0, 1]] * 3),
    "grid": sb.Grid([[0, 1]] * 3, 20),
    "points": sb.Points(np.random.default_rng(0).random((500, 3))),
    "settings": sb.SearchSpace({**LINE, "kind": ["a", "b"]}),
    "whole numbers": sb.SearchSpace({"a": sb.Integer(1, 1000), "b": sb.Integer(1, 1000)}),
    "some settings": sb.SearchSpace(LINE, where=lambda s: s["x"] + s["y"] <= 1.0),
}


def window(x):
    """0 outside 4.5 % of the unit cube."""
    return max(0.0, 0.05 - float(((np.asarray(x) - [0.31, 0.72, 0.25]) ** 2).sum()))


def corners(space, points):
    """Share of points (n, d) whose coordinates all are at an end of the space."""
    coordinates = space.encode(np.asarray(points))
    ends = np.stack([coordinates == coordinates.min(axis=0), coordinates == coordinates.max(axis=0)])
    return ends.any(axis=0).all(axis=1).mean()


def told(policy, value, rounds):
    """Points (rounds, d) that a policy asks for one by one, of which all have the same value."""
    points = []
    for _ in range(rounds):
        points.append(policy.space.parse(x := policy.ask())[0][0])
        policy.tell(x, value)
    return np.array(points)


@pytest.mark.parametrize("name", ["GPEI", "GPUCB"])
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.filterwarnings("ignore:.*known kernel")
def test_they_fill_the_space_while_all_values_are_equal(space, name):
    policy, other = (getattr(sb, name)(space, seed=3) for _ in range(2))
    points = told(policy, 7.0, 40)
    assert len(np.unique(points, axis=0)) == 40
    assert corners(space, points) < 0.1
    together = other.space.parse(other.ask(40))[0]  # nothing is known at all
    np.testing.assert_array_equal(together, points)
    other.tell(together, [*[7.0] * 39, 8.0])
    assert not any((other.space.parse(other.ask())[0] == x).all() for x in told(policy, 7.0, 1))


@pytest.mark.slow
def test_a_small_window_is_found():
    """Random search finds it in 39 evaluations with probability .83; by corners it was found in two runs of eight."""
    found = 0
    for seed in range(8):
        policy, space = sb.GPEI(SPACES["box"], seed=seed), []
        for _ in range(45):
            x = policy.ask()
            space.append(window(x))
            policy.tell(x, space[-1])
        found += max(space) > 0.03
    assert found >= 5


def test_they_go_on_in_a_context():
    policy = sb.GPEI(sb.Box([[0, 1]] * 3), seed=1)
    points = []
    for k in range(30):
        points.append(policy.ask(context={2: 0.1 * (k % 4)}))
        policy.tell(points[-1], 0.0)
    assert len(np.unique(np.array(points)[:, :2], axis=0)) == 30
    assert corners(policy.space, np.array(points)) == 0.0


def test_outputs_that_decide_on_nothing():
    limited = sb.ConstrainedGPEI(SPACES["box"], constraints={"works": sb.AtLeast(0.5)}, seed=2)
    several = sb.GPEHVI(SPACES["box"], objectives=["a", "b"], seed=2)
    for policy, value in ((limited, lambda x: {"gain": x[0], "works": 0.0}), (several, lambda _: {"a": 0.0, "b": 1.0})):
        points = []
        for _ in range(30):
            points.append(policy.ask())
            policy.tell(points[-1], value(points[-1]))
        assert len(np.unique(np.array(points), axis=0)) == 30
        assert corners(policy.space, np.array(points)) == 0.0
        wanted = sb.GPEI(SPACES["box"], seed=2).ask(31)
        np.testing.assert_array_equal(points, wanted[:30])
    limited.tell([0.5, 0.5, 0.5], {"gain": 0.0, "works": 1.0})
    assert not any((limited.ask() == x).all() for x in wanted)


def test_equal_values_beside_failures_keep_off_the_corners():
    policy, points, equal = sb.GPEI(SPACES["box"], seed=4), [], 0
    while equal < 10 or len(points) < 20:
        x = policy.ask()
        points += [x] if equal >= 10 else []
        if x[0] < 0.5:
            policy.tell_failure(x, "diverged")
        else:
            policy.tell(x, 0.0)
            equal += 1
    points = np.array(points)
    assert len(np.unique(points, axis=0)) == len(points) == 20
    assert (points[:, 0] >= 0.5).mean() > 0.65
    assert (np.abs(points - 0.5).max(axis=1) < 0.5).all()
