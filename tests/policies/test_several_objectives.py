"""`GPEHVI`, `HypervolumeUCB`: the index, the choice, the front, and what is told, beside an oracle."""

import copy
import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import fronts

import scalable_bandits as sb
from scalable_bandits.formulas.acquisition import FeasibleImprovement
from scalable_bandits.formulas.hypervolume import (
    HypervolumeImprovement,
    ScalarizedConfidence,
    hypervolume,
    on_front,
)
from scalable_bandits.posteriors.models.model import Model
from scalable_bandits.randomness import generator

GRID = sb.Grid([[0, 1], [0, 2]], 9)
BOX = sb.Box([[0, 1], [0, 2]])
GOALS = ["loss", "seconds"]
LIMITS = {"cost": sb.AtMost(2.2)}


def measured(x):
    """Two objectives that are smallest at (0.9, 0.4) and (0.1, 1.6), and an output that rules out the corner."""
    return {
        "loss": (x[0] - 0.9) ** 2 + (x[1] - 0.4) ** 2,
        "seconds": 3.0 + (x[0] - 0.1) ** 2 + 0.5 * (x[1] - 1.6) ** 2,
        "cost": x[0] + x[1],
    }


def make(kind=sb.GPEHVI, space=GRID, **options):
    return kind(space, **{"objectives": GOALS, "minimize": True, **options})


def play(policy, rounds):
    xs = []
    for _ in range(rounds):
        x = policy.ask()
        policy.tell(x, measured(x))
        xs.append(x)
    return np.array(xs)


# ---- fronts and hypervolumes

coordinates = st.integers(-3, 4).map(float)
points = st.integers(1, 3).flatmap(lambda p: st.lists(st.tuples(*[coordinates] * p), min_size=1, max_size=6))


@given(points)
def test_front_and_hypervolume(rows):
    values, reference = np.array(rows), np.zeros(len(rows[0]))
    np.testing.assert_array_equal(values[on_front(values)], fronts.front(rows))
    assert hypervolume(values, reference) == pytest.approx(fronts.hypervolume(rows, reference), abs=1e-9)


# ---- the indices

moments = st.tuples(st.floats(-3, 3), st.floats(0.05, 3))


def arrays(*rows):
    return np.array([[mean] for mean, _ in rows]), np.array([[std**2] for _, std in rows])


def check_slopes(index, mean, variance, tolerance=1e-3):
    for moved, slope in zip((mean, variance), index.slopes(mean, variance), strict=True):
        for row in range(len(mean)):
            before, step = moved[row, 0], 1e-6 * max(1.0, abs(moved[row, 0]))
            moved[row, 0] = before + step
            above = index(mean, variance)[0]
            moved[row, 0] = before - step
            below = index(mean, variance)[0]
            moved[row, 0] = before
            assert slope[row, 0] == pytest.approx((above - below) / (2 * step), rel=tolerance, abs=1e-4)


@given(moments, moments, st.lists(st.tuples(st.floats(-1.9, 2), st.floats(-1.9, 2)), max_size=5))
def test_hypervolume_improvement(first, second, rows):
    """Expected growth beyond (-2, -2), with its slopes."""
    front = np.array(fronts.front(list(dict.fromkeys(rows)))).reshape(-1, 2)
    index, reference = HypervolumeImprovement.over(front, np.full(2, -2.0)), (-2.0, -2.0)
    mean, variance = arrays(first, second)
    expected = fronts.expected_improvement(first, second, [tuple(p) for p in front], reference)
    if expected > 1e-9:  # the oracle subtracts numbers that are nearly equal
        assert index(mean, variance)[0] == pytest.approx(math.log(expected), abs=1e-5)
    check_slopes(index, mean, variance)


def test_hypervolume_improvement_is_the_average_growth():
    """What the closed form says is what draws of the two objectives add, up to 4 standard errors."""
    front, reference, rng = np.array([[0.0, 2.0], [1.0, 1.0], [2.0, -0.5]]), np.full(2, -1.0), np.random.default_rng(0)
    index, before = HypervolumeImprovement.over(front, reference), hypervolume(front, reference)
    for first, second in (((0.5, 1.0), (0.5, 0.7)), ((2.5, 0.3), (1.5, 0.3)), ((-1.0, 0.5), (3.0, 0.5))):
        draws = np.array([first[0], second[0]]) + rng.standard_normal((4000, 2)) * [first[1], second[1]]
        growth = [hypervolume(np.concatenate([front, y[None]]), reference) - before for y in draws]
        error = np.std(growth) / math.sqrt(len(growth))
        assert math.exp(index(*arrays(first, second))[0]) == pytest.approx(np.mean(growth), abs=4 * error)


def test_far_below_the_front_the_index_still_rises():
    index = HypervolumeImprovement.over(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([-1.0, -1.0]))
    mean, variance = np.full((2, 2), [-50.0, -1e6]), np.full((2, 2), 1e-3)
    assert np.isfinite(index(mean, variance)).all()
    assert all((slopes > 0.0).all() for slopes in index.slopes(mean, variance))


@given(st.lists(moments, min_size=2, max_size=4), st.floats(0.1, 3))
def test_scalarized_confidence(rows, width):
    reference = np.linspace(-1.0, 1.0, len(rows))
    direction = np.linspace(1.0, 0.4, len(rows))
    index = ScalarizedConfidence(width, reference, direction)
    mean, variance = arrays(*rows)
    expected = fronts.scalarized(rows, width, reference, direction)
    assert index(mean, variance)[0] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    scaled = np.sort((mean + width * np.sqrt(variance))[:, 0] / direction - reference / direction)
    if scaled[1] - scaled[0] > 1e-3:  # where two are smallest, it has an edge
        check_slopes(index, mean, variance)


@given(moments, moments, moments, st.floats(-2, 2))
def test_limits_beside(first, second, limited, limit):
    improvement = HypervolumeImprovement.over(np.array([[0.0, 0.5]]), np.full(2, -1.0))
    index, (mean, variance) = FeasibleImprovement(improvement, np.array([limit])), arrays(first, second, limited)
    chance = fronts.NORMAL.cdf((limited[0] - limit) / limited[1])
    if chance > 1e-12:
        expected = improvement(mean[:2], variance[:2])[0] + math.log(chance)
        assert index(mean, variance)[0] == pytest.approx(expected, abs=1e-6)
    check_slopes(index, mean, variance)


# ---- the choice


def front_of(policy, xs, limits):
    """Values of the front by the oracle, in units of the engines' y, and the point a tenth of its ranges beyond it."""
    models, rows = [policy.model, *policy._goals.models], [measured(x) for x in xs]
    kept = [row for row in rows if all(limit.holds(row[name]) for name, limit in limits.items())]
    values = [
        tuple(float(model.transform(np.array([-row[name]]))[0]) for model, name in zip(models, GOALS, strict=True))
        for row in kept
    ]
    found = fronts.front(list(dict.fromkeys(values)))
    reference = tuple(1.1 * min(column) - 0.1 * max(column) for column in zip(*found, strict=True))
    return found, reference


@pytest.mark.parametrize("limits", [{}, LIMITS], ids=["free", "limited"])
@pytest.mark.parametrize("kind", [sb.GPEHVI, sb.HypervolumeUCB])
@pytest.mark.sampled(2)
def test_chooses_the_maximum_of_the_oracle(kind, limits):
    """With the models that the policy learned, and the front, the reference point and the index from the formulas."""
    policy, at = make(kind, constraints=limits), GRID.points()
    xs = play(policy, 12)
    for _ in range(9):
        front, reference = front_of(policy, xs, limits)
        found = [Model.believed(model, at) for model in (policy.model, *policy._goals.models)]
        direction = np.abs(generator(policy.seed, "direction", policy.round).standard_normal(2))
        direction = np.maximum(direction / np.linalg.norm(direction), 1e-3)
        chances = policy._limited.chances(at).prod(axis=0)
        index = []
        for i, chance in enumerate(chances):
            pair = [(mean[i], math.sqrt(max(variance[i], 1e-15))) for mean, variance in found]
            if policy.round % 5 == 0:
                row = policy.round // 5 % 2
                best = max(point[row] for point in front)
                index.append(chance * fronts.partial(*pair[row], best, math.inf))
            elif kind is sb.GPEHVI:
                index.append(chance * fronts.expected_improvement(*pair, front, reference))
            else:
                scalarized = fronts.scalarized(pair, policy.width, reference, direction)
                index.append(scalarized + math.log(max(chance, 1e-300)))
        x, index = policy.ask(), np.array(index)
        chosen = int(np.flatnonzero((at == x).all(axis=1))[0])
        free = [i for i in range(len(at)) if not (xs == at[i]).all(axis=1).any()]
        assert index[chosen] >= index[free].max() - 1e-5 * max(1e-3, abs(index[free].max()))
        policy.tell(x, measured(x))
        xs = np.append(xs, [x], axis=0)


@pytest.mark.parametrize("space", [BOX, sb.Grid([[0, 1], [0, 2]], 400)], ids=["box", "large grid"])
@pytest.mark.parametrize("kind", [sb.GPEHVI, sb.HypervolumeUCB])
@pytest.mark.sampled(2)
def test_a_search_finds_what_an_enumeration_would(kind, space):
    policy = make(kind, space, constraints=LIMITS)
    xs = play(policy, 12)
    index, x = policy.acquisition(None), policy.ask()
    policy.abandon()
    some = np.concatenate([x[None], np.random.default_rng(0).random((20_000, 2)) * [1, 2], xs])
    if isinstance(space, sb.Grid):
        some = np.rint(some / [1, 2] * 399) / 399 * [1, 2]  # the nearest points of the grid
    models = (policy.model, *policy._goals.models, *policy._limited.models)
    found = [Model.believed(model, some) for model in models]  # as the search has it
    values = index(*(np.stack(part) for part in zip(*found, strict=True)))
    assert values[0] >= values.max() - 0.01


def test_pending_points_count_with_their_means():
    """Points that are asked for together differ, and each adds to the front that the next one improves."""
    policy = make(space=BOX)
    play(policy, 15)
    xs = policy.ask(4)
    assert min(np.abs(a - b).max() for i, a in enumerate(xs) for b in xs[:i]) > 1e-3
    front = policy._front_with_pending()
    models = [policy.model, *policy._goals.models]
    means = np.stack([Model.believed(model, xs)[0] for model in models], axis=1)
    added = [mean for mean in means if not any(fronts.dominates(point, mean) for point in front.values.tolist())]
    assert all((front.values == mean).all(axis=1).any() for mean in added if (mean > front.reference).all())
    assert added


def test_no_point_of_a_batch_is_chosen_again():
    """The front of the third batch is next to one corner, which was chosen five times."""
    space = sb.Box([[0, 1]] * 4)
    policy = sb.GPEHVI(space, objectives=["first", "second"], minimize=True, seed=2)
    for _ in range(4):
        batch = policy.ask(8)
        assert len(np.unique(batch, axis=0)) == 8
        spread = 1.0 + 9.0 * batch[:, 1:].mean(axis=1)
        second = spread * (1.0 - np.sqrt(batch[:, 0] / spread))
        policy.tell(batch, [{"first": a, "second": b} for a, b in zip(batch[:, 0], second, strict=True)])


def test_a_batch_is_single_choices():
    policy, twin = make(space=BOX), make(space=BOX)
    play(policy, 12)
    play(twin, 12)
    np.testing.assert_array_equal(policy.ask(3), [twin.ask() for _ in range(3)])


# ---- the front


@pytest.mark.parametrize("kind", [sb.GPEHVI, sb.HypervolumeUCB])
@pytest.mark.sampled(2)
def test_front(kind):
    policy = make(kind, BOX, constraints=LIMITS)
    xs = play(policy, 25)
    assert max(model.noise for model in (policy.model, *policy._goals.models)) < 1e-4  # so that values are exact
    rows = [measured(x) for x in xs]
    values = [tuple(-row[name] for name in GOALS) for row in rows if row["cost"] <= 2.2]
    expected = sorted((tuple(-v for v in point) for point in fronts.front(values)), key=lambda point: point[0])
    found = policy.front()
    assert [[point.values[name] for name in GOALS] for point in found] == pytest.approx(np.array(expected), abs=1e-12)
    assert all(measured(point.x)["cost"] <= 2.2 for point in found)
    # The recommended point is the one that alone dominates most beyond the reference point.
    ends, models = policy.reference_point, [policy.model, *policy._goals.models]

    def alone(values):
        sides = [
            float((model.transform(np.array([-value])) - model.transform(np.array([-ends[name]])))[0])
            for model, name, value in zip(models, GOALS, values, strict=True)
        ]
        return math.prod(max(side, 0.0) for side in sides)

    best = policy.best()
    row = measured(best.x)
    assert alone([row[name] for name in GOALS]) == pytest.approx(max(map(alone, expected)), rel=1e-9)
    assert best.mean == pytest.approx(row["loss"], abs=1e-12)


def test_finds_the_front_of_a_box():
    """Points between the two minima are optimal; of all that could be dominated, 97 % are after 30 evaluations."""
    policy = make(space=BOX)
    rows = [measured(x) for x in play(policy, 30)]
    values = -np.array([[row[name] for name in GOALS] for row in rows])
    share = np.linspace(0.0, 1.0, 2001)[:, None]
    # Gradients of the two objectives are opposite on this curve.
    weights = share * np.array([1.0, 0.5]) + (1.0 - share)
    line = (share * np.array([0.1, 0.8]) + (1.0 - share) * np.array([0.9, 0.4])) / weights
    optimal = -np.array([[measured(x)[name] for name in GOALS] for x in line])
    reference = -np.array([2.2, 4.5])
    assert hypervolume(values, reference) >= 0.97 * hypervolume(optimal, reference)


def test_directions():
    """A dict of directions; an objective that is maximised is the mirror of one that is minimised."""
    policy = make()
    twin = sb.GPEHVI(GRID, objectives={"loss": "minimize", "speed": "maximize"}, minimize=True)
    for _ in range(16):
        x, same = policy.ask(), twin.ask()
        np.testing.assert_array_equal(x, same)
        row = measured(x)
        policy.tell(x, row)
        twin.tell(x, {"loss": row["loss"], "speed": -row["seconds"]})
    assert [-point.values["speed"] for point in twin.front()] == [point.values["seconds"] for point in policy.front()]
    assert twin.reference_point["speed"] == -policy.reference_point["seconds"]


def test_reference():
    """Points beyond a reference point that was given do not count."""
    policy = make(space=BOX, reference={"loss": 0.4, "seconds": 3.6})
    rows = [measured(x) for x in play(policy, 30)]
    assert policy.reference_point == pytest.approx({"loss": 0.4, "seconds": 3.6})
    late = [row["loss"] <= 0.45 and row["seconds"] <= 3.65 for row in rows[10:]]
    assert sum(late) >= 14  # but for the rounds of one objective


def test_without_a_feasible_point():
    policy = make(constraints={"cost": sb.AtMost(-1.0)})
    play(policy, 15)
    assert policy.front() == []
    assert policy.reference_point is None
    np.testing.assert_array_equal(policy.best().x, [0.0, 0.0])  # it misses by least


# ---- what is told


def test_a_value_that_was_not_measured():
    policy = make()
    for i in range(16):
        x = policy.ask()
        row = measured(x)
        if i in (2, 11):
            row["loss"] = None
        if i in (3, 12):
            row["seconds"] = math.nan
        policy.tell(x, row)
    assert [len(model.ys) for model in (policy.model, *policy._goals.models)] == [14, 14]
    assert policy.rounds == 16
    assert policy.front()


@pytest.mark.parametrize("goals", [GOALS, GOALS[::-1]])
@pytest.mark.parametrize("missing", GOALS)
@pytest.mark.sampled(2)
def test_where_an_objective_cannot_be_measured_is_learned(goals, missing):
    """It was taken for a success: 45 of 50 points were there, and the front had guesses of what was not measured."""
    policy, inside = make(space=BOX, objectives=goals, seed=1), []
    for _ in range(40):
        x = policy.ask()
        inside.append(x[1] >= 1.0)
        policy.tell(x, measured(x) | ({} if inside[-1] else {missing: None}))
    assert sum(inside) >= 20
    front = policy.front()
    assert len(front) >= 5
    for point in front:
        assert point.x[1] >= 1.0
        assert point.values == pytest.approx({name: measured(point.x)[name] for name in goals}, abs=0.05)
    assert policy.best().x[1] >= 1.0


def test_objectives_that_are_never_measured_together():
    policy = make(space=BOX)
    for i, x in enumerate(np.random.default_rng(0).random((12, 2)) * [1, 2]):
        policy.tell(x, measured(x) | {GOALS[i % 2]: None})
    assert policy.front()
    x = policy.ask()
    policy.tell(x, measured(x))
    assert [point.x.tolist() for point in policy.front()] == [x.tolist()]


def test_an_objective_that_was_never_measured():
    policy = make(space=BOX)
    for x in ([0.1, 0.2], [0.3, 0.4]):
        policy.tell(x, measured(np.array(x)) | {"seconds": None})
    for point in policy.front():
        assert math.isnan(point.values["seconds"])
        assert math.isnan(point.stds["seconds"])
        assert point.values["loss"] == pytest.approx(measured(np.array(point.x))["loss"], abs=0.2)


def test_failures_are_avoided():
    policy, failed = make(space=BOX), 0
    for i in range(30):
        x = policy.ask()
        if x[0] > 0.8:
            policy.tell_failure(x, "too large")
            failed += i >= 15
        else:
            policy.tell(x, measured(x))
    assert failed <= 5


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"objectives": ["loss"]}, "objectives: got ['loss']; allowed: names of two outputs or more"),
        ({"objectives": "loss"}, "objectives: got 'loss'"),
        ({"objectives": ["loss", "loss"]}, "objectives: got ['loss', 'loss']"),
        ({"objectives": ["a", "b", "c"]}, "objectives: got ['a', 'b', 'c']; allowed: two; `HypervolumeUCB` takes more"),
        ({"objectives": {"a": "minimise", "b": "maximize"}}, "objectives['a']: got 'minimise'"),
        (
            {"objectives": {"a": "maximize", "b": "minimize"}},
            "objectives['a']: got 'maximize'; allowed: 'minimize' first",
        ),
        ({"constraints": {"loss": sb.AtMost(1)}}, "constraints: got 'loss'; allowed: names of outputs that are no obj"),
        ({"reference": {"loss": 1.0}}, "reference: got {'loss': 1.0}; allowed: a number for each objective"),
        ({"reference": {"loss": 1.0, "seconds": math.inf}}, "reference['seconds']: got inf"),
        ({"kernel": sb.RBF(0.2)}, "kernel: got RBF"),
        ({"pending": "sample"}, "pending: got 'sample'"),
    ],
)
def test_refuses_arguments(arguments, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        make(**arguments)


# ---- copies, state


@pytest.mark.parametrize("kind", [sb.GPEHVI, sb.HypervolumeUCB])
@pytest.mark.sampled(2)
def test_copies_and_states_go_on_alike(kind):
    policy = make(kind, objectives={"loss": "minimize", "seconds": "minimize"}, constraints=LIMITS, reference=None)
    play(policy, 13)
    restored = sb.policies.Policy.from_dict(policy.to_dict())
    restored.restore(copy.deepcopy(policy.state()))
    twins = [copy.deepcopy(policy), pickle.loads(pickle.dumps(policy)), restored]
    expected = play(policy, 6)
    for twin in twins:
        np.testing.assert_array_equal(play(twin, 6), expected)
        assert repr(twin.front()) == repr(policy.front())
