"""`CONFIG` and `CKB`: choices, bounds, infeasibility, dual variables and recommendations beside an oracle."""

import copy
import json
import math
import pickle
import re

import numpy as np
import pytest
from cases.rounds import assert_alike
from naive import bounded
from naive import kernels as naive_kernels

import scalable_bandits as sb

LINE, SQUARE = sb.Grid([[0, 2]], 25), sb.Grid([[0, 1], [0, 2]], (6, 7))
NOISE, REGULARIZATION, DELTA, HORIZON, RHO = 0.05, 0.004, 0.1, 20, 3.0
SHARED = {"noise": NOISE, "regularization": REGULARIZATION, "delta": DELTA, "rkhs_norm": 1.5}
KERNELS = {"kernel": sb.Matern(0.5, nu=2.5), "kernels": {"yield": 1.4 * sb.RBF(0.7)}}
OWN = {"rkhs_norms": {"yield": 1.2}, "noises": {"yield": 0.02}}
LIMITS = {"cost": sb.AtMost(3.4), "yield": sb.AtLeast(-1.2)}
TIGHT = {"cost": sb.AtMost(2.7), "yield": sb.AtLeast(-0.6)}
ONE = {"cost": LIMITS["cost"]}


def measured(x):
    """Cost rises and yield falls, around their limits."""
    last = float(x[-1])
    return {
        "gain": math.sin(2.5 * last) + 0.4 * x[0],
        "cost": 3.3 + 0.5 * math.sin(1.3 * last) - 0.2 * x[0],
        "yield": -1.1 + 0.6 * math.cos(1.9 * last),
    }


def hopeless(x):
    """Far from both limits everywhere."""
    return {**measured(x), "cost": 4.3 + 0.1 * x[0], "yield": -1.7 - 0.1 * x[0]}


class Duel:
    """A policy and the oracle, told the same; the oracle has larger values better everywhere."""

    def __init__(self, kind=sb.CONFIG, space=LINE, limits=LIMITS, truth=measured, minimize=False, seed=0, **more):
        self.kind, self.limits, self.truth, self.sign = kind, limits, truth, -1.0 if minimize else 1.0
        own = {} if "yield" not in limits else {"kernels": KERNELS["kernels"], **OWN}
        if kind is sb.CKB:
            more = {"horizon": HORIZON, "rho": RHO, **more}
        options = {**SHARED, **own, "constraints": limits, "minimize": minimize, "seed": seed, **more}
        self.make = lambda: kind(space, KERNELS["kernel"], **options)
        self.policy, self.points, self.pending = self.make(), space.points(), []
        self.signs = [limit.SIGN for limit in limits.values()]
        self.rng = np.random.default_rng(seed)
        delta, matern = DELTA / (1 + len(limits)), naive_kernels.matern52(0.5)
        objective = bounded.Output(matern, self.points, 1.5, NOISE, REGULARIZATION, delta)
        known, others = {"yield": (naive_kernels.scaled(1.4, naive_kernels.rbf(0.7)), 1.2, 0.02)}, []
        oriented = [limit.SIGN * limit.limit for limit in limits.values()]
        for name, least in zip(limits, oriented, strict=True):
            kernel, norm, noise = known.get(name, (matern, 1.5, NOISE))
            others.append(bounded.Output(kernel, self.points, norm, noise, REGULARIZATION, delta, least))
        of_ckb = (HORIZON, RHO) if kind is sb.CKB else ()
        oracle = bounded.Ckb if kind is sb.CKB else bounded.Config
        self.oracle = oracle(objective, others, oriented, *of_ckb)

    def number(self, x):
        return int(np.flatnonzero((self.points == np.asarray(x)).all(axis=1))[0])

    def scores(self, available=None):
        return self.oracle.scores(range(len(self.points)) if available is None else available, self.pending)

    def ask(self, available=None):
        """One point, among the best of the oracle's."""
        scores = self.scores(available)
        chosen = self.number(self.policy.ask(available=available))
        assert chosen in scores
        assert scores[chosen] >= max(scores.values()) - 1e-8
        self.pending.append(chosen)
        return chosen

    def tell(self, number, without=(), noise=None):
        x, asked = self.points[number], number in self.pending
        row = {name: value + NOISE * self.rng.uniform(-1, 1) for name, value in self.truth(x).items()}
        row = {name: value for name, value in row.items() if name == "gain" or name in self.limits}
        row.update(dict.fromkeys(without))
        self.policy.tell(x, row, noise=noise)
        signs = {"gain": self.sign, **dict(zip(self.limits, self.signs, strict=True))}
        values = [None if row[name] is None else sign * row[name] for name, sign in signs.items()]
        variance = None if noise is None else REGULARIZATION * (noise / NOISE) ** 2
        self.oracle.observe(number, values, asked, variance)
        if asked:
            self.pending.remove(number)
        self.check()

    def check(self):
        """Widths, bounds, dual variables and recommendation are the oracle's."""
        every = (self.oracle.objective, *self.oracle.others)
        np.testing.assert_allclose(self.policy.widths, [output.width for output in every], rtol=1e-9)
        assert self.policy.width == self.policy.widths[0]
        for name, sign, output in zip((None, *self.limits), (self.sign, *self.signs), every, strict=True):
            low, high = output.bounds()
            low, high = (low, high) if sign > 0 else (np.negative(high), np.negative(low))
            np.testing.assert_allclose(self.policy.bounds_of(name, self.points), (low, high), atol=1e-8)
        if self.kind is sb.CKB:
            assert list(self.policy.dual_variables) == list(self.limits)
            np.testing.assert_allclose(list(self.policy.dual_variables.values()), self.oracle.duals, atol=1e-8)
        if self.oracle.objective.gp.observations:
            (numbers, mean), best = self.oracle.best(), self.policy.best()
            assert self.number(best.x) in numbers
            assert best.mean == pytest.approx(self.sign * mean, abs=1e-8)

    def play(self, rounds):
        for _ in range(rounds):
            self.tell(self.ask())


every_kind = pytest.mark.parametrize("kind", [sb.CONFIG, sb.CKB])


# ---- choices


@every_kind
@pytest.mark.sampled(5)
@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize(
    ("space", "limits"), [(LINE, LIMITS), (LINE, ONE), (SQUARE, LIMITS), (SQUARE, {"yield": LIMITS["yield"]})]
)
def test_chooses_as_the_oracle(kind, minimize, space, limits):
    duel = Duel(kind, space, limits, minimize=minimize)
    duel.check()
    duel.play(20)
    assert len({number for number, _, _ in duel.oracle.objective.gp.observations}) > 3
    if kind is sb.CONFIG:
        assert limits is not LIMITS or len(duel.scores()) < len(duel.points)  # some were ruled out
        assert not duel.policy.infeasible


@pytest.mark.parametrize("limits", [TIGHT, {"cost": TIGHT["cost"]}])
def test_dual_variables_are_those_of_the_oracle(limits):
    duel = Duel(sb.CKB, limits=limits)
    duel.play(HORIZON)
    assert all(0.0 < phi < RHO for phi in duel.oracle.duals)


@every_kind
def test_points_are_pending_available_and_told_without_being_asked_for(kind):
    """In any order; where some values are missing; and with noise of their own."""
    duel, rng = Duel(kind, seed=4), np.random.default_rng(2)
    for t in range(20):
        available = np.sort(rng.choice(25, 14, replace=False)).tolist() if t % 3 == 1 else None
        duel.ask(available)
        if t % 4 == 2:
            duel.tell(int(rng.integers(25)))  # mostly not pending
        if len(duel.pending) > 2:
            number = duel.pending[int(rng.integers(len(duel.pending)))]
            duel.tell(number, [(), ("gain",), ("cost",), ("gain", "yield")][t % 4], [None, 0.1][t % 2])


def test_pending_points_rule_nothing_out():
    """Means are assumed at pending points, so that what may be feasible does not depend on them."""
    policy = Duel(sb.CONFIG).policy
    policy.tell([0.0], measured([0.0]))
    before = policy._possible().tolist()
    asked = policy.ask(12)
    assert len(np.unique(asked)) > 3
    assert policy._possible().tolist() == before


@every_kind
def test_one_that_minimises_with_limits_turned_is_its_mirror(kind):
    turned = {"cost": sb.AtLeast(-3.4), "yield": sb.AtMost(1.2)}
    policy, twin = Duel(kind).policy, Duel(kind, limits=turned, minimize=True).policy
    for _ in range(10):
        x = policy.ask()
        np.testing.assert_array_equal(twin.ask(), x)
        policy.tell(x, measured(x))
        twin.tell(x, {name: -each for name, each in measured(x).items()})
    assert twin.best().mean == -policy.best().mean
    low, high = policy.bounds_of("cost", [0.3])
    assert twin.bounds_of("cost", [0.3]) == (-high, -low)


@every_kind
@pytest.mark.parametrize("engine", ["dense", "tiled"])
def test_engines_agree(kind, engine):
    policy, twin = Duel(kind).policy, Duel(kind, engine=engine).policy
    assert_alike((policy, twin), 8, measured)


@every_kind
def test_spaces_without_coordinates_and_of_named_parameters(kind):
    more = {"noise": 0.1, "regularization": 0.01, **({"horizon": 9, "rho": 2.0} if kind is sb.CKB else {})}
    matrix = np.eye(6) + 0.5
    mixed = sb.Settings({"kind": sb.Categorical(["a", "b"]), "depth": sb.Integer(1, 4)}, [
        {"kind": one, "depth": depth} for one in "ab" for depth in range(1, 5)
    ])  # fmt: skip
    for space, kernel in ((sb.Arms(6), sb.Covariance(matrix)), (mixed, sb.RBF(0.3))):
        policy = kind(space, kernel, constraints={"cost": sb.AtMost(1.0)}, kernels={"cost": 2.0 * kernel}, **more)
        seen = []
        for _ in range(9):
            x = policy.ask()
            policy.tell(x, {"gain": 1.0 + len(seen) % 2, "cost": 0.5})
            seen.append(str(x))
        assert len(set(seen)) > 2
        assert policy.bounds_of("cost", x)[0] < 0.5 < policy.bounds_of("cost", x)[1]


# ---- infeasible problems


@pytest.mark.parametrize("limits", [LIMITS, ONE])
def test_infeasible_when_the_oracle_says(limits):
    duel = Duel(limits=limits, truth=hopeless)
    for _ in range(40):
        assert duel.policy.infeasible == (not duel.scores())
        if not duel.scores():
            break
        duel.tell(duel.ask())
    every, state = range(len(duel.points)), duel.policy.state()
    assert duel.policy.infeasible
    assert 2 < duel.policy.rounds < 40
    with pytest.raises(sb.Infeasible, match=r"^ask: no candidate .* keeps all constraints, at delta=0.1: ") as raised:
        duel.policy.ask()
    bounds = duel.oracle.largest_bounds(every)
    for (name, limit), bound, least in zip(limits.items(), bounds, duel.oracle.limits, strict=True):
        said = re.search(rf"{name} \({limit}\) is missed by at least (\S+)[;,]", str(raised.value))
        assert (said is None) == (bound >= least)
        assert said is None or float(said[1]) == pytest.approx(least - bound, rel=1e-2)
    assert not duel.policy.pending
    for name, held in duel.policy.state().items():
        np.testing.assert_array_equal(held, state[name])


def test_infeasible_though_each_constraint_can_be_kept():
    """The limits hold at the two ends of the line."""
    policy = Duel(truth=None).policy
    for x in np.repeat(LINE.points(), 6, axis=0):
        policy.tell(x, {"gain": 0.0, "cost": 3.0 + 0.9 * x[0], "yield": -2.1 + 0.9 * x[0]})
    with pytest.raises(sb.Infeasible, match=r"cost .*; yield .*, where least is missed; each constraint by itself can"):
        policy.ask()


def test_infeasible_among_what_is_available():
    policy = Duel(limits=ONE).policy
    for _ in range(30):
        policy.tell([2.0], {"gain": 0.0, "cost": 4.0})
    with pytest.raises(sb.Infeasible, match=r"no candidate that may be chosen keeps .*, everywhere$"):
        policy.ask(available=[24])
    assert not policy.infeasible
    assert policy.ask() != 2.0


@pytest.mark.parametrize("seed", range(5))
def test_feasible_problems_are_never_called_infeasible(seed):
    """Functions of the norm that the policy knows; the best candidate that keeps the limits is never ruled out."""
    kernel, rng = KERNELS["kernel"], np.random.default_rng(seed)
    gram = kernel.block(LINE.points())
    weights = np.linalg.cholesky(gram + 1e-10 * np.eye(25)).T
    functions = []
    for _ in range(3):
        drawn = np.linalg.solve(weights, rng.standard_normal(25)) * (np.arange(25) % 6 == 0)
        functions.append(1.5 * gram @ drawn / np.sqrt(drawn @ gram @ drawn))  # of norm 1.5
    f, g, h = functions
    kept = (g <= 0.0) & (h >= 0.0)
    shift = 0.0 if kept.any() else float(np.maximum(g, -h).min())
    kept = (g <= shift) & (h >= -shift)
    best = int(np.argmax(np.where(kept, f, -np.inf)))
    norm = 1.5 + abs(shift) * float(np.sqrt(np.linalg.solve(gram, np.ones(25)).sum()))  # of g - shift, at most
    limits = {"g": sb.AtMost(shift), "h": sb.AtLeast(-shift)}
    policy = sb.CONFIG(LINE, kernel, constraints=limits, **{**SHARED, "rkhs_norm": norm})
    for _ in range(25):
        x = policy.ask()
        i = int(np.flatnonzero((LINE.points() == x).all(axis=1))[0])
        noise = NOISE * rng.standard_normal(3)
        policy.tell(x, {"f": f[i] + noise[0], "g": g[i] + noise[1], "h": h[i] + noise[2]})
        assert policy._possible()[best]
    assert not policy.infeasible


# ---- what is told


@every_kind
def test_failures_are_not_asked_for_again(kind):
    policy = Duel(kind).policy
    failed = []
    for i in range(12):
        x = policy.ask()
        assert x.tolist() not in failed
        if i % 3 == 1:
            duals = getattr(policy, "dual_variables", None)
            policy.tell_failure(x, "too hot")
            failed.append(x.tolist())
            assert getattr(policy, "dual_variables", None) == duals
        else:
            policy.tell(x, measured(x))
    assert policy.failures == 4


@every_kind
def test_points_that_are_not_candidates_are_told_and_never_chosen(kind):
    """Of a grid for which some of its points stand."""
    more = {"horizon": 9, "rho": 2.0} if kind is sb.CKB else {}
    options = {"constraints": ONE, "candidates": 20, "noise": 0.1, "regularization": 0.01, **more}
    policy = kind(sb.Grid([[0, 1], [0, 2]], 2000), KERNELS["kernel"], **options)
    inside = policy.domain.points()[:, 0].tolist()
    for t in range(8):
        x = policy.ask() if t % 2 else [t / 1999, 0.0]
        assert t % 2 == 0 or x[0] in inside
        policy.tell(x, {"gain": 1.0 - t, "cost": 3.0})
    assert policy.domain.size == 24
    twin = kind(**policy.parameters())
    twin.restore(copy.deepcopy(policy.state()))
    for each in (policy, twin):
        np.testing.assert_array_equal(each.best().x, [0.0, 0.0])
        assert each.widths.tolist() == policy.widths.tolist()
    np.testing.assert_array_equal(twin.ask(3), policy.ask(3))


@every_kind
@pytest.mark.parametrize("gain", ["greedy", 2.5, lambda t: 1.0 + 0.1 * t], ids=["greedy", "number", "function"])
def test_information_gain_is_that_of_each_output(kind, gain):
    policy = Duel(kind, information_gain=gain).policy
    policy.tell([0.5], measured([0.5]))
    policy.tell([1.5], {**measured([1.5]), "cost": None})
    widths = []
    for kernel, norm, noise in ((KERNELS["kernel"], 1.5, NOISE),) * 2 + ((KERNELS["kernels"]["yield"], 1.2, 0.02),):
        found = sb.GreedyInformationGain(kernel, LINE, REGULARIZATION)(2) if gain == "greedy" else gain
        found = found(2) if callable(found) else found
        widths.append(sb.formulas.confidence.martingale_mixture(found, DELTA / 3, norm, noise, REGULARIZATION))
    np.testing.assert_allclose(policy.widths, widths, rtol=1e-12)


def test_without_values_of_the_objective_the_prior_recommends():
    policy = Duel().policy
    policy.tell([0.5], {"gain": None, "cost": 3.0, "yield": -1.0})
    assert policy.best().mean == 0.0
    low, high = policy.bounds_of("cost", [0.5])
    assert low < 3.1 < high < 4.0


def test_the_smallest_miss_is_in_units_of_what_the_norms_allow():
    """Yield misses by less, and by more of its smaller norm."""
    policy = Duel(rkhs_norms={"yield": 0.2}).policy
    for _ in range(5):
        policy.tell([0.0], {"gain": 0.0, "cost": 3.7, "yield": -1.1})
        policy.tell([2.0], {"gain": 1.0, "cost": 3.3, "yield": -1.4})
    assert policy.best().x.tolist() == [0.0]


def test_dual_variables_do_not_exceed_rho():
    policy = Duel(sb.CKB, truth=hopeless, rho=0.7).policy
    for _ in range(HORIZON):
        x = policy.ask()
        policy.tell(x, hopeless(x))
    assert max(policy.dual_variables.values()) == 0.7


@every_kind
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"constraints": {}}, "constraints: got {}; allowed: a dict of limits by output"),
        ({"constraints": {"cost": 3.0}}, "constraints['cost']: got 3.0; allowed: sb.AtMost(number)"),
        ({"objective": "cost"}, "objective: got 'cost'; allowed: the name of an output"),
        ({"kernels": {"price": sb.RBF(0.2)}}, "kernels: got 'price'; allowed: outputs that have a limit: cost, yield"),
        ({"kernels": {"cost": 0.2}}, "kernels: got 0.2; allowed: kernels"),
        ({"kernels": {"cost": sb.RBF([0.2, 0.3])}}, "lengthscale: got (0.2, 0.3); allowed: one number"),
        ({"kernels": {"cost": sb.RBF(0.2) * sb.TemporalDecay(0.1)}}, "kernel: got "),
        ({"kernels": 3}, "kernels: got 3; allowed: a dict by output"),
        ({"rkhs_norms": {"cost": 0.0}}, "rkhs_norms: got 0.0; allowed: a positive number"),
        ({"rkhs_norm": "double"}, "rkhs_norm: got 'double'; allowed: a positive number"),
        ({"noises": {"gain": 1.0}}, "noises: got 'gain'; allowed: outputs that have a limit"),
        ({"noises": {"cost": "low"}}, "noises: got 'low'; allowed: a positive number"),
        ({"pending": "sample"}, "pending: got 'sample'; allowed: 'mean'"),
        ({"refit": 3}, "refit: got 3; allowed: None"),
        ({"engine": "sketched"}, "engine: got 'sketched'; allowed: "),
        ({"on": "threads:2"}, "on: got 'threads:2'; allowed: None"),
        ({"kernel": None}, "kernel: got None; allowed: a kernel"),
        ({"space": sb.Box([[0, 1]])}, "space: got Box"),
        ({"space": sb.Box([[0, 1]]), "candidates": 9}, "space: got Box"),
    ],
)
def test_refuses_arguments(kind, arguments, text):
    more = {"horizon": HORIZON, "rho": RHO} if kind is sb.CKB else {}
    given = {"space": LINE, "kernel": sb.RBF(0.3), "constraints": LIMITS, **more, **arguments}
    with pytest.raises((ValueError, TypeError), match="^" + re.escape(text)):
        kind(**given)


def test_refuses_outputs_that_it_does_not_have():
    named = Duel(objective="gain").policy
    for policy, known in ((Duel().policy, "None, 'cost', 'yield'"), (named, "'gain', 'cost', 'yield'")):
        with pytest.raises(ValueError, match=f"^output: got 'price'; allowed: {known}"):
            policy.bounds_of("price", [0.0])
    assert named.bounds_of("gain", [0.0]) == Duel().policy.bounds_of(None, [0.0])
    with pytest.raises(ValueError, match=r"^y: got 0.3; allowed: a dict of values by output"):
        named.tell([0.0], 0.3)


@every_kind
def test_warns_of_a_width_that_is_not_proven(kind):
    with pytest.warns(sb.UnprovenWidth, match=f"{kind.__name__}: the width 'improved'"):
        Duel(kind, confidence="improved")


# ---- copies, state, stores


def same_from_here(policies, rounds=4):
    assert_alike(policies, rounds, measured)
    first = policies[0]
    assert all(each.best() == first.best() for each in policies)
    assert all(each.widths.tolist() == first.widths.tolist() for each in policies)
    if isinstance(first, sb.CKB):
        assert all(each.dual_variables == first.dual_variables for each in policies)


@every_kind
def test_copies_and_states_go_on_alike(kind):
    duel = Duel(kind, minimize=True)
    duel.play(7)
    duel.tell(3, without=("gain",))
    policy = duel.policy
    data = json.loads(json.dumps(policy.to_dict()))
    restored = sb.Policy.from_dict(data)
    assert restored.to_dict() == policy.to_dict()
    restored.tell([0.5], measured([0.5]))  # forgotten
    restored.restore(copy.deepcopy(policy.state()))
    same_from_here([policy, copy.deepcopy(policy), pickle.loads(pickle.dumps(policy)), restored])


@every_kind
def test_a_recording_goes_on_alike(kind, tmp_path):
    duel = Duel(kind)
    twin = duel.make()
    for t in range(8):
        policy = duel.make()
        with sb.record(policy, tmp_path / "run.zarr"):
            x = policy.ask()
            np.testing.assert_array_equal(twin.ask(), x)
            row = {**measured(x), **({"cost": None} if t == 3 else {})}
            for each in (policy, twin):
                each.tell(x, row)
                each.tell([0.5], {**row, "gain": None})  # not asked for
    same_from_here([twin, policy])


@every_kind
@pytest.mark.parametrize("minimize", [True, False])
def test_minimize_takes_one(kind, minimize):
    policy, twin = Duel(kind, minimize=minimize, objective="gain").policy, Duel(kind, minimize=True).policy
    found = sb.minimize(lambda x: measured(x), policy, 12)
    for x in found.x:
        np.testing.assert_array_equal(twin.ask(), x)
        twin.tell(x, measured(x))
    assert found.best.mean == twin.best().mean
    assert found.feasible.any()
    assert found.measured.y == found.y[found.feasible].min()
