"""`ConstrainedGPEI`: the choice, the recommendation, and what is told, beside an oracle."""

import copy
import functools
import math
import pickle
import re

import numpy as np
import pytest
from cases.rounds import assert_alike
from hypothesis import given
from hypothesis import strategies as st
from naive import constrained, kernels, learned

import scalable_bandits as sb
from scalable_bandits.formulas.acquisition import ExpectedImprovement, FeasibleImprovement
from scalable_bandits.posteriors.hyperparameters.transform import around_limit
from scalable_bandits.posteriors.models.model import Model

GRID = sb.Grid([[0, 1], [0, 2]], 9)
LIMITS = {"cost": sb.AtMost(1.1), "yield": sb.AtLeast(0.2)}


def measured(x):
    """Objective and two outputs: the best point that keeps both limits is on the line of the first."""
    return {"loss": (x[0] - 0.9) ** 2 + (x[1] - 0.9) ** 2, "cost": x[0] + x[1], "yield": math.sin(3 * x[1]) + x[0]}


def make(space=GRID, limits=LIMITS, **options):
    return sb.ConstrainedGPEI(space, constraints=limits, minimize=True, **options)


def play(policy, rounds, function=measured):
    xs = []
    for _ in range(rounds):
        x = policy.ask()
        policy.tell(x, function(x))
        xs.append(x)
    return np.array(xs)


@functools.cache
def _histories():
    """Policies after some rounds, by their number, with their points: one run, which the tests share."""
    policy, xs, found = make(), [], {}
    for count in range(1, 21):
        xs.extend(play(policy, 1))
        if count in (12, 13, 20):
            found[count] = copy.deepcopy(policy), np.array(xs)
    return found


def played(rounds):
    """A policy for the grid after some rounds, and its points."""
    policy, xs = _histories()[rounds]
    return copy.deepcopy(policy), xs


# ---- the index

moments = st.tuples(st.floats(-4, 4), st.floats(0.05, 3))


@given(moments, moments, moments, st.none() | st.floats(-2, 2), st.tuples(st.floats(-2, 2), st.floats(-2, 2)))
def test_index_and_slopes(objective, first, second, best, limits):
    index = FeasibleImprovement(None if best is None else ExpectedImprovement(best), np.array(limits))
    mean, variance = (np.array([[row[0]] for row in (objective, first, second)]), np.zeros((3, 1)))
    variance[:, 0] = [row[1] ** 2 for row in (objective, first, second)]
    expected = constrained.constrained_improvement(objective, (first, second), best, limits)
    if expected > 1e-12:  # the oracle underflows
        assert index(mean, variance)[0] == pytest.approx(math.log(expected), abs=1e-6)
    slopes = index.slopes(mean, variance)
    for moved, slope in zip((mean, variance), slopes, strict=True):
        for row in range(3):
            step = 1e-6 * max(1.0, abs(moved[row, 0]))
            before = moved[row, 0]
            moved[row, 0] = before + step
            above = index(mean, variance)[0]
            moved[row, 0] = before - step
            below = index(mean, variance)[0]
            moved[row, 0] = before
            assert slope[row, 0] == pytest.approx((above - below) / (2 * step), rel=1e-3, abs=1e-4)


def test_far_from_any_limit_the_index_has_a_slope():
    """Where the probability underflows, its logarithm still rises towards the limit."""
    index = FeasibleImprovement(None, np.array([0.0]))
    mean, variance = np.array([[0.0, 0.0], [-1e3, -1e9]]), np.full((2, 2), 1e-4)
    assert np.isfinite(index(mean, variance)).all()
    by_mean, by_variance = index.slopes(mean, variance)
    np.testing.assert_allclose(by_mean[1], [1e3 / 1e-4, 1e9 / 1e-4], rtol=1e-4)
    assert (by_variance[1] > 0).all()


# ---- the scale of an output


@given(st.lists(st.sampled_from([-3.0, 0.0, 0.0, 0.0, 1e-3, 0.5, 40.0]), min_size=2, max_size=9))
def test_scale_around_a_limit(ys):
    """Also where most values, such as violations of 0, are at the limit."""
    transform = around_limit(np.array(ys), 0.0)
    if len(set(ys)) == 1:
        assert transform(np.array(ys)).tolist() == [0.0] * len(ys)
    else:
        expected = constrained.around_limit(ys, 0.0)
        np.testing.assert_allclose(transform(np.array([*ys, 0.1])), [expected(y) for y in [*ys, 0.1]], rtol=1e-9)


def test_equal_values():
    """Of the objective, at one point that was measured twice; and of an output, at its limit."""
    policy = make(sb.Box([[0, 1], [0, 2]]))
    play(policy, 10, lambda x: {"loss": None, "cost": 1.1, "yield": 0.2})
    for _ in range(2):
        policy.tell([0.5, 0.5], {"loss": -7822.7, "cost": 1.1, "yield": 0.2})
    assert policy.best().mean == pytest.approx(-7822.7)
    assert not np.array_equal(policy.ask(), [0.5, 0.5])


# ---- the choice


def posterior_of(model, xs, zs, at):
    """Mean and standard deviation at points by the oracle, with the hyperparameters that a model has learned."""
    scale, *lengths = (p.value for p in model.kernel.hyperparameters)
    kernel = kernels.scaled(scale, kernels.matern52(tuple(lengths)))
    mean, variance = learned.posterior(xs, zs, kernel, [model.noise] * len(xs), model.constant_mean, at)
    return mean, np.sqrt(np.maximum(variance, 1e-15))  # below 0 by rounding, at observed points


@pytest.mark.parametrize("feasible", [True, False])
def test_chooses_the_maximum_of_the_oracle(feasible):
    """With the hyperparameters that the policy learned, and transforms, posteriors and index from the formulas."""
    limits = LIMITS if feasible else {"cost": sb.AtMost(-0.5), "yield": sb.AtLeast(0.2)}
    policy, at = make(limits=limits), GRID.points()
    xs = play(policy, 12)
    oriented = [-limits["cost"].limit, limits["yield"].limit]
    for _ in range(5):
        told = [measured(x) for x in xs]
        values, outputs = [-row["loss"] for row in told], [(-row["cost"], row["yield"]) for row in told]
        position = constrained.best_feasible(values, outputs, oriented)
        center = np.median(values) if position is None else values[position]
        z = [constrained.around_limit(values, center)(y) for y in values]
        assert (position is not None) == feasible
        objective = posterior_of(policy.model, xs, z, at)
        others, least = [], []
        for model, column, limit in zip(policy._limited.models, zip(*outputs, strict=True), oriented, strict=True):
            transform = constrained.around_limit(column, limit)
            others.append(posterior_of(model, xs, [transform(y) for y in column], at))
            least.append(transform(limit))
        index = [
            constrained.constrained_improvement(
                (objective[0][i], objective[1][i]),
                [(mean[i], std[i]) for mean, std in others],
                None if position is None else z[position], least,
            )
            for i in range(len(at))
        ]  # fmt: skip
        x = policy.ask()
        chosen = int(np.flatnonzero((at == x).all(axis=1))[0])
        free = [i for i in range(len(at)) if not (xs == at[i]).all(axis=1).any()]
        assert index[chosen] >= (1 - 1e-6) * max(index[i] for i in free)
        policy.tell(x, measured(x))
        xs = np.append(xs, [x], axis=0)


@pytest.mark.parametrize("space", [sb.Box([[0, 1], [0, 2]]), sb.Grid([[0, 1], [0, 2]], 400)], ids=["box", "large grid"])
def test_a_search_finds_what_an_enumeration_would(space):
    policy = make(space)
    xs = play(policy, 14)
    index, x = policy.acquisition(None), policy.ask()  # of which x is not yet pending
    policy.abandon()
    some = np.concatenate([x[None], np.random.default_rng(0).random((20_000, 2)) * [1, 2], xs])
    if isinstance(space, sb.Grid):
        some = np.rint(some / [1, 2] * 399) / 399 * [1, 2]  # the nearest points of the grid
    found = [Model.believed(model, some) for model in (policy.model, *policy._limited.models)]  # as the search has it
    values = index(*(np.stack(part) for part in zip(*found, strict=True)))
    assert values[0] >= values.max() - 0.01


def test_finds_the_best_point_on_a_limit():
    policy = make(sb.Box([[0, 1], [0, 2]]))
    play(policy, 30)
    best = policy.best()
    np.testing.assert_allclose(best.x, [0.55, 0.55], atol=0.02)  # nearest to (.9, .9) with x + y = 1.1
    assert measured(best.x)["cost"] <= 1.1


def test_one_that_maximises_is_its_mirror():
    """-f with limits on the negative outputs has the same trajectory."""
    policy = make()
    twin = sb.ConstrainedGPEI(GRID, constraints={"cost": sb.AtLeast(-1.1), "yield": sb.AtMost(-0.2)})
    for _ in range(14):
        x, same = policy.ask(), twin.ask()
        np.testing.assert_array_equal(x, same)
        policy.tell(x, measured(x))
        twin.tell(x, {name: -value for name, value in measured(x).items()})
    assert policy.best().mean == -twin.best().mean


def test_named_spaces_with_conditions():
    space = sb.SearchSpace({
        "kind": sb.Categorical(["plain", "fine"]), "depth": sb.Integer(1, 9),
        "rate": sb.Real(0.01, 1.0, log=True, when={"kind": "fine"}),
    })  # fmt: skip

    def function(setting):
        rate = setting.get("rate", 3.0)
        return {"loss": abs(setting["depth"] - 7) + rate, "seconds": setting["depth"] + (setting["kind"] == "fine")}

    found = sb.minimize(function, space, 40, constraints={"seconds": sb.AtMost(6)})
    assert found.measured.x["depth"] == 5  # with "fine", whose rate may be small; 6 would be too slow
    assert found.measured.y < 2.1


# ---- the recommendation


def test_recommends_the_best_that_keeps_its_limits():
    policy, xs = played(20)
    rows = [measured(x) for x in xs]
    kept = [i for i, row in enumerate(rows) if row["cost"] <= 1.1 and row["yield"] >= 0.2]
    best = min(kept, key=lambda i: rows[i]["loss"])
    np.testing.assert_array_equal(policy.best().x, xs[best])
    assert policy.best().mean == pytest.approx(rows[best]["loss"], abs=1e-12)
    assert [margin.probability for margin in policy.margins(xs[best])] == [1.0, 1.0]
    assert [margin.missed_by for margin in policy.margins(xs[best])] == [0.0, 0.0]


def test_says_by_how_much_a_constraint_fails():
    found = sb.minimize(lambda x: measured(x), GRID, 15, constraints={"cost": sb.AtMost(-1.0)}, objective="loss")
    assert found.measured is None
    assert not found.feasible.any()
    (margin,) = found.constraints
    assert margin.output == "cost"
    assert margin.missed_by == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_array_equal(found.best.x, [0.0, 0.0])
    assert "0 keep all constraints" in repr(found)
    assert "cost (at most -1) is missed by 1" in found.summary()
    assert found.history()["best"].isna().all()


@pytest.mark.filterwarnings("ignore::scalable_bandits.AllMeasured")
@pytest.mark.parametrize("limit", [30.0, 0.3, 7e-5, 1e9 + 0.1])
@pytest.mark.parametrize("repeats", [1, 3, 7])
def test_a_value_exactly_at_the_limit_keeps_it(limit, repeats):
    """Also to the last bit, where the noise is learned and a weighted average would differ in it."""
    xs = np.linspace(0.0, 1.0, 11)[:, None].tolist()
    for kept, scale in ((sb.AtMost(limit), 2.0), (sb.AtLeast(limit), -2.0)):
        policy = sb.ConstrainedGPEI(sb.Grid([[0, 1]], 11), constraints={"g": kept}, minimize=False, seed=2)
        for x in xs * repeats:
            policy.tell(x, {"gain": x[0], "g": limit + scale * limit * (x[0] - 0.5)})
        (margin,) = policy.margins(xs[5])
        assert (margin.mean, margin.std, margin.probability, margin.missed_by) == (limit, 0.0, 1.0, 0.0)
        assert policy.best().x.tolist() == xs[5]


def test_nothing_is_said_of_an_output_that_was_never_measured():
    """Whatever its limit: in another unit it would be as unknown."""
    for limit in (-5.0, 0.5, 30.0):
        constraints = {"seconds": sb.AtMost(limit), "cost": sb.AtMost(1.1)}
        options = {"constraints": constraints, "objective": "loss", "seed": 3}
        found = sb.minimize(lambda x: {**measured(x), "seconds": None}, GRID, 6, **options)
        seconds, cost = found.policy.margins(found.best.x)
        assert math.isnan(seconds.mean)
        assert math.isnan(seconds.missed_by)
        assert seconds.probability == 0.5
        assert cost.probability in (0.0, 1.0)
        assert "not measured" in repr(found)
        assert f"seconds (at most {limit:g}) was not measured" in found.summary()


def test_noise_makes_it_careful():
    """Where outputs are noisy, a point whose measured value keeps the limit by chance is not recommended."""
    rng = np.random.default_rng(1)
    policy = sb.ConstrainedGPEI(sb.Grid([[0, 1]], 21), constraints={"g": sb.AtMost(0.5)}, delta=0.05)
    for _ in range(60):
        x = policy.ask()
        policy.tell(x, {"gain": x[0] + 0.01 * rng.normal(), "g": x[0] + 0.1 * rng.normal()})
    best = policy.best()
    assert 0.2 <= best.x[0] <= 0.5
    assert policy.feasibility(best.x) > 0.9
    assert policy._limited.models[0].noise > 1e-4  # so that the posterior decides


def test_one_precise_value_makes_others_no_more_precise():
    """Noise that is given decides by the largest whether values are exact, wherever it comes in the order."""
    rng, found = np.random.default_rng(0), []
    xs = rng.random((12, 1))
    ys = [{"f": float(x[0]) + rng.standard_normal(), "c": 0.0} for x in xs]
    for last in (1e-6, 1.0):
        given = {"constraints": {"c": sb.AtMost(10.0)}, "objective": "f", "noise": 1.0, "minimize": True}
        policy = sb.ConstrainedGPEI(sb.Box([[0, 1]]), **given)
        policy.tell(xs, ys)
        policy.tell([[0.9]], [{"f": 0.9, "c": 0.0}], noise=last)
        found.append(policy.best())
        assert policy.model.noise == pytest.approx(1.0 / policy.model.transform.scale**2)
    assert all(best.mean > min(y["f"] for y in ys) + 0.5 for best in found)


def test_feasibility_at_other_points():
    policy, _ = played(20)
    found = policy.feasibility([[0.1, 0.3], [1.0, 2.0]])
    assert found[0] > 0.9
    assert found[1] < 0.01
    assert policy.feasibility([0.1, 0.3]) == found[0]


# ---- what is told


def test_a_value_that_was_not_measured():
    """None and NaN are the same; the other outputs are learned, and the point is not asked for again."""
    policy, twin = make(), make()
    for i in range(16):
        x, same = policy.ask(), twin.ask()
        np.testing.assert_array_equal(x, same)
        row = measured(x)
        if i in (2, 11):
            row["loss"] = None
        if i in (3, 12):
            row["cost"] = None
        policy.tell(x, row)
        twin.tell(x, {name: math.nan if value is None else value for name, value in row.items()})
    assert policy.rounds == 16
    assert [len(model.ys) for model in (policy.model, *policy._limited.models)] == [14, 14, 16]
    assert np.isfinite(policy.best().mean)


def test_where_the_objective_cannot_be_measured_is_learned():
    """It was taken for a success, so that 45 of 50 points were there."""
    policy = sb.ConstrainedGPEI(sb.Box([[0, 1]] * 2), minimize=True, constraints={"height": sb.AtLeast(0.3)}, seed=1)
    inside = []
    for _ in range(40):
        x = policy.ask()
        inside.append(x[0] >= 0.2)
        loss = (x[0] - 0.4) ** 2 + (x[1] - 0.5) ** 2 if inside[-1] else None
        policy.tell(x, {"loss": loss, "height": x[1]})
    assert sum(inside) >= 30
    assert policy.best().x == pytest.approx([0.4, 0.5], abs=0.02)


def test_where_a_limited_output_cannot_be_measured_is_learned():
    """A sensor without a reading beyond its range: the hottest setting was measured again and again."""
    space = sb.SearchSpace({"power": sb.Real(0, 100), "speed": sb.Real(1, 100, log=True)})
    policy, seen, readings = sb.ConstrainedGPEI(space, constraints={"heat": sb.AtMost(80)}, seed=2), [], 0
    for _ in range(30):
        x = policy.ask()
        heat = 20 + 1.6 * x["power"] - 8 * math.log10(x["speed"])
        readings += heat < 100
        seen.append(tuple(x.values()))
        policy.tell(x, {"gain": x["power"], "heat": heat if heat < 100 else None})
    assert len(set(seen)) == 30
    assert readings >= 8
    assert policy.best().x["power"] > 47  # of 47.5


def test_several_at_once_in_any_order():
    (policy, xs), twin = played(12), make()
    twin.tell(xs, [measured(x) for x in xs])
    np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
    points = policy.pending
    for x in points[::-1]:
        policy.tell(x, measured(x))
    assert not policy.pending


def test_points_of_a_batch_improve_upon_each_other():
    """Where a pending point is expected to be better than the best one, its variance alone would draw others to it."""
    policy = sb.ConstrainedGPEI(sb.Box([[0, 1]] * 2), minimize=True, constraints={"sum": sb.AtLeast(0.5)})
    for x in np.random.default_rng(0).random((30, 2)):
        policy.tell(x, {"loss": ((x - 0.4) ** 2).sum(), "sum": x.sum()})
    batch = policy.ask(5)
    apart = np.abs(batch[:, None] - batch).max(axis=2)[np.triu_indices(5, 1)]
    assert apart.min() > 1e-6


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (0.3, "y: got 0.3; allowed: a dict of values by output (cost, yield), or one for each point"),
        ({"loss": 0.3, "cost": 1.0, "yeild": 1.0}, "did you mean 'yeild'"),
        ({"loss": 0.3, "cost": 1.0}, "outputs with 'yield', None where it was not measured"),
        ({"loss": 0.3, "cost": "low", "yield": 1.0}, "y['cost']: got 'low'; allowed: a number"),
        ({"loss": math.inf, "cost": 1.0, "yield": 1.0}, "y['loss']: got inf; allowed: numbers up to 1e+100"),
        ({"loss": None, "cost": None, "yield": math.nan}, "at least one value that was measured; or `tell_failure`"),
        ({"cost": 1.0, "yield": 1.0}, "one output without a limit besides cost, yield"),
        ({"a": 1.0, "b": 1.0, "cost": 1.0, "yield": 1.0}, "or objective=, its name"),
        ([{"loss": 0.3, "cost": 1.0, "yield": 1.0}] * 2, "y: got 'shape (2,)'"),
    ],
)
def test_refuses(told, text):
    policy = make()
    policy.ask()
    with pytest.raises(ValueError, match=re.escape(text)):
        policy.tell([0.0, 0.0], told)
    assert policy.rounds == 0
    assert len(policy.pending) == 1
    assert not policy.model.ys


@pytest.mark.parametrize("kernel", [None, sb.Covariance(np.eye(3))])
def test_refuses_arms(kernel):
    """One reason, with and without a kernel."""
    with pytest.raises(ValueError, match=r"^space: got Arms\(count=3\); allowed: a space with coordinates"):
        sb.ConstrainedGPEI(sb.Arms(3), kernel, constraints=LIMITS)


def test_other_outputs_are_ignored_where_the_objective_is_named():
    policy, twin = make(objective="loss"), make()
    for x in play(twin, 3):
        policy.tell(x, {"seconds": 3.0, **measured(x)})
    assert policy.model.ys == twin.model.ys


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"constraints": {}}, "constraints: got {}; allowed: a dict of limits by output"),
        ({"constraints": {"cost": 3.0}}, "constraints['cost']: got 3.0; allowed: sb.AtMost(number)"),
        ({"constraints": LIMITS, "objective": "cost"}, "objective: got 'cost'; allowed: the name of an output"),
        ({"constraints": LIMITS, "kernel": sb.RBF(0.2)}, "kernel: got RBF"),
        ({"constraints": LIMITS, "pending": "sample"}, "pending: got 'sample'; allowed: 'mean'"),
    ],
)
def test_refuses_arguments(arguments, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        sb.ConstrainedGPEI(GRID, **arguments)


def test_a_limit_is_a_number():
    with pytest.raises(ValueError, match="limit: got nan; allowed: a finite number"):
        sb.AtMost(math.nan)


def test_simulations_have_one_output():
    environment = sb.TableEnvironment(GRID, np.zeros(GRID.size))
    with pytest.raises(ValueError, match="got 'one of several outputs'; allowed: a policy that is told numbers"):
        sb.simulate(sb.ConstrainedGPEI(GRID, constraints=LIMITS), environment, 3)


def test_failures_are_avoided():
    """Where the function fails, no output is known; later points are elsewhere."""
    policy, failed = make(sb.Box([[0, 1], [0, 2]])), 0
    for i in range(40):
        x = policy.ask()
        if x[1] > 1.2:
            policy.tell_failure(x, "too large")
            failed += i >= 20
        else:
            policy.tell(x, measured(x))
    assert failed <= 4


# ---- copies, state


def test_copies_and_states_go_on_alike():
    policy, _ = played(13)
    restored = sb.policies.Policy.from_dict(policy.to_dict())
    restored.restore(copy.deepcopy(policy.state()))
    copies = [copy.deepcopy(policy), pickle.loads(pickle.dumps(policy)), restored]
    assert_alike((policy, *copies), 3, measured)
    assert {each.best().mean for each in copies} == {policy.best().mean}


def test_a_state_replaces_another_life():
    """Of as many rounds, with a point that is no candidate."""
    space = sb.Box([[0, 1], [0, 2]])
    policy, other = make(space, candidates=64), make(space, candidates=64)
    play(policy, 13)
    policy.tell([0.33, 0.77], measured([0.33, 0.77]))
    play(other, 14)
    other.best()
    other.restore(copy.deepcopy(policy.state()))
    assert other.best().mean == policy.best().mean
    np.testing.assert_array_equal(other.feasibility(GRID.points()), policy.feasibility(GRID.points()))
    assert_alike((policy, other), 2, measured)


@pytest.mark.slow
def test_an_output_that_says_yes_or_no_is_believed():
    """Its step is learned as noise; what was measured to keep the limit does, until measurements disagree."""
    space = {name: sb.Real(0.0, 1.0) for name in "abc"}

    def measure(setting):
        total = sum(setting.values())
        return {"loss": sum((value - 0.7) ** 2 for value in setting.values()), "fits": float(total < 1.5)}

    for seed in range(3):
        found = sb.minimize(measure, space, 50, seed=seed, constraints={"fits": sb.AtLeast(1)})
        assert found.best == found.measured.x
        assert measure(found.best)["loss"] < 0.2  # of 50 random settings up to .29, and up to .78 were recommended
        (margin,) = found.constraints
        assert (margin.mean, margin.std, margin.missed_by) == (1.0, 0.0, 0.0)
    model = found.policy._limited.models[0]
    assert model.is_flag
    found.policy.tell(found.best, {"loss": found.value, "fits": 0.0})
    assert not model.is_flag
