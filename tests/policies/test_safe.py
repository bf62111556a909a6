"""SafeOpt, StageOpt and LoSBO against an oracle that recomputes every set from the formulas in every round."""

import copy
import json
import warnings

import numpy as np
import pytest
from attrs.exceptions import FrozenAttributeError
from cases.rounds import assert_alike
from hypothesis import given
from hypothesis import strategies as st
from naive import kernels as naive_kernels
from naive import safe as naive
from naive.gp import GP

import scalable_bandits as sb
from scalable_bandits.policies.pending import AllFailed

NOISE, REGULARIZATION, DELTA, NORM = 0.05, 0.004, 0.1, 2.5
SHARED = {"noise": NOISE, "regularization": REGULARIZATION, "rkhs_norm": NORM, "delta": DELTA}
LINE, SQUARE = sb.Grid([[0, 2]], 31), sb.Grid([[0, 1], [0, 2]], (7, 8))
SCATTERED = sb.Points(np.random.default_rng(4).random((45, 2)) * [1.0, 2.0])
DOUBLED = sb.Points(np.concatenate([LINE.points()[::2]] * 2))  # every point has two numbers
MIXED = sb.Settings({"rate": sb.Real(1e-3, 1e-1, log=True), "depth": sb.Integer(1, 6)}, [
    {"rate": rate, "depth": depth} for rate in (1e-3, 3e-3, 1e-2, 5e-2) for depth in range(1, 7)
])  # fmt: skip


def hill(x):
    return float(1.3 - 4.0 * (x[0] - 0.8) ** 2 - 0.5 * x[-1] * (len(x) > 1))


def waves(x):
    return float(1.1 * np.sin(3.5 * x[0] + 1.0) + 0.4 * np.cos(2.0 * x[-1]) + 0.3)


KINDS = {
    "SafeOpt": (sb.SafeOpt, naive.SafeOpt, {}),
    "SafeOpt, L": (sb.SafeOpt, naive.SafeOpt, {"lipschitz": 5.0}),
    "SafeOpt, constant": (sb.SafeOpt, naive.SafeOpt, {"width": 2.0}),
    "StageOpt": (sb.StageOpt, naive.StageOpt, {"epsilon": 0.3}),
    "StageOpt, L": (sb.StageOpt, naive.StageOpt, {"epsilon": 0.5, "stage": 12, "lipschitz": 5.0}),
    "StageOpt, rounds": (sb.StageOpt, naive.StageOpt, {"stage": 9}),
    "LoSBO": (sb.LoSBO, naive.LoSBO, {"lipschitz": 5.0, "noise_bound": NOISE, "width": 2.0}),
    "LoSBO, proven": (sb.LoSBO, naive.LoSBO, {"lipschitz": 5.0, "noise_bound": NOISE, "width": None}),
}
PLACES = {
    "line": (LINE, [0.8], hill, 0.0),
    "waves": (LINE, [[0.2], [0.4]], waves, 0.0),
    "square": (SQUARE, [0.5, 0.0], hill, -1.0),
    "scattered": (SCATTERED, SCATTERED.points([35])[0], waves, -0.5),
}
every_kind = pytest.mark.parametrize("name", KINDS)
every_place = pytest.mark.parametrize("place", PLACES)
pytestmark = pytest.mark.filterwarnings("ignore:.*nothing is proven for the constant width")


class Duel:
    """A policy and the oracle, told the same; the oracle maximises, so that values are turned for it.

    `added` are points (k, d) behind the candidates, which can be told.
    """

    def __init__(
        self, name, space=LINE, start=(0.8,), truth=hill, threshold=0.0, minimize=False, seed=0, added=(), **more
    ):  # fmt: skip
        kind, oracle, given = KINDS[name]
        self.sign, self.truth, self.rng = -1.0 if minimize else 1.0, truth, np.random.default_rng(seed)
        self.make = lambda: kind(
            space, sb.Matern(0.5, nu=2.5), threshold=self.sign * threshold, safe_start=start, minimize=minimize,
            seed=seed, **SHARED, **given, **more,
        )  # fmt: skip
        self.policy, self.pending = self.make(), []
        candidates = self.policy.domain.points()
        self.points = np.concatenate([candidates, np.reshape(added, (-1, candidates.shape[1]))])
        gp = GP(naive_kernels.matern52(0.5), self.points)
        known = {"bound" if key == "noise_bound" else key: value for key, value in given.items()}
        options = {"noise": NOISE, "regularization": REGULARIZATION, "norm": NORM, "delta": DELTA, **known}
        self.oracle = oracle(gp, threshold, self.numbers(start), size=len(candidates), **options)

    def numbers(self, x):
        rows = np.reshape(np.asarray(x, dtype=float), (-1, self.points.shape[1]))
        return [i for i, point in enumerate(self.points.tolist()) for row in rows.tolist() if point == row]

    def number(self, x):
        return self.numbers(x)[0]

    def ask(self, available=None):
        """One point, among the best of the oracle's."""
        scores = self.oracle.scores(available, self.pending)
        x = self.policy.ask(available=available)
        chosen = self.number(x)
        assert chosen in scores
        assert scores[chosen] >= max(scores.values()) - 1e-8
        self.pending.append(chosen)

    def tell(self, number, noise=None):
        y = self.truth(self.points[number]) + NOISE * self.rng.uniform(-1, 1)
        self.policy.tell(self.points[number], self.sign * y, noise=noise)
        variance = REGULARIZATION * (1.0 if noise is None else noise / NOISE) ** 2
        self.oracle.observe(number, y, variance)
        if number in self.pending:
            self.pending.remove(number)
        self.check()

    def check(self):
        """Safe sets, width, stage and recommendation are the oracle's."""
        assert set(np.flatnonzero(self.policy.safe).tolist()) == self.oracle.safe
        assert self.policy.width == pytest.approx(self.oracle.width, rel=1e-9)
        if isinstance(self.policy, sb.StageOpt):
            assert self.policy._ended == self.oracle.ended
        (_, mean), best = self.oracle.best(), self.policy.best()
        assert self.number(best.x) in self.oracle.safe
        assert best.mean == pytest.approx(self.sign * mean, abs=1e-8)

    def play(self, rounds):
        for _ in range(rounds):
            self.ask()
            self.tell(self.pending[0])


@every_place
@every_kind
@pytest.mark.sampled(5)
def test_the_choices_of_the_oracle(name, place):
    space, start, *rest = PLACES[place]
    duel = Duel(name, space, start, *rest)
    duel.check()
    duel.play(25)
    assert len(duel.oracle.safe) > len(duel.numbers(start)) + 1


@every_kind
@pytest.mark.sampled(2)
def test_minimising(name):
    """What is safe is at most the threshold."""
    duel = Duel(name, LINE, [[0.2], [0.4]], waves, threshold=-0.2, minimize=True)
    duel.play(25)
    values = np.array([-waves(x) for x in LINE.points()])
    assert duel.policy.threshold == 0.2
    assert (values[duel.policy.safe] <= 0.2).all()


@every_kind
@pytest.mark.parametrize("available", [False, True], ids=["all", "some"])
@pytest.mark.sampled(3, first="all-StageOpt")
def test_pending_points_and_availability_sets(name, available):
    """Up to four points are pending; told in any order, some by nobody's wish, with a noise of their own."""
    duel, rng = Duel(name, SQUARE, [0.5, 0.0], hill, threshold=-1.0), np.random.default_rng(0)
    for t in range(20):
        safe = sorted(duel.oracle.safe)
        some = {*rng.permutation(56)[:20].tolist(), int(rng.choice(safe))}
        duel.ask(sorted(some) if available and t % 3 == 0 else None)
        if t % 5 == 4:
            duel.tell(int(rng.choice(safe)), noise=0.1)
        while len(duel.pending) > rng.integers(4):
            duel.tell(int(rng.choice(duel.pending)))
    assert duel.policy.rounds > 15


@pytest.mark.parametrize("name", ["SafeOpt", "StageOpt", "LoSBO"])
@pytest.mark.parametrize("engine", ["tiled", "on threads"])
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.sampled(2)
def test_other_engines(name, engine):
    given = {"engine": "tiled"} if engine == "tiled" else {"engine": "tiled", "on": "threads:2"}
    duel = Duel(name, SQUARE, [0.5, 0.0], hill, **given)
    duel.play(12)
    duel.policy.close()


@every_kind
@pytest.mark.sampled(2)
def test_blocks_of_any_size_are_the_same(name, monkeypatch):
    whole, small = Duel(name), Duel(name)
    whole.play(12)
    monkeypatch.setattr("scalable_bandits.policies.safe.NUMBERS", 70)  # two candidates of 31
    small.play(12)
    assert small.oracle.gp.observations == whole.oracle.gp.observations


class TestState:
    @every_kind
    @pytest.mark.sampled(2)
    def test_goes_on_alike(self, name):
        """Restored, pickled to plain data and copied, after any number of rounds; reading `safe` leaves no trace."""
        duel = Duel(name, seed=5)
        policy, played = duel.policy, []
        parts, unread = duel.make(), duel.make()
        for t in range(24):
            again = duel.make()
            again.restore({key: value.copy() for key, value in parts.state().items()})
            parts = copy.deepcopy(again) if t % 2 else again
            assert parts.safe.tolist() == policy.safe.tolist()
            x = policy.ask()
            for each in (parts, unread):
                assert each.ask().tolist() == x.tolist()
            y = hill(x) + NOISE * np.sin(t)
            for each in (policy, parts, unread):
                each.tell(x, y)
            played.append(x.tolist())
        assert unread.safe.tolist() == policy.safe.tolist()
        assert parts.best() == policy.best()
        assert len({tuple(x) for x in played}) > 3

    @every_kind
    @pytest.mark.sampled(4)
    def test_a_recording_goes_on_alike(self, name, tmp_path):
        duel = Duel(name, seed=6)
        twin = duel.make()
        for t in range(12):
            policy = duel.make()
            with sb.record(policy, tmp_path / "run.zarr"):
                assert policy.safe.tolist() == twin.safe.tolist()
                x = policy.ask()
                assert x.tolist() == twin.ask().tolist()
                for each in (policy, twin):
                    each.tell(x, hill(x) + NOISE * np.cos(t))

    @every_kind
    @pytest.mark.parametrize("space", [LINE, MIXED], ids=["line", "settings"])
    @pytest.mark.sampled(3)
    def test_is_made_again_from_plain_data(self, name, space):
        start = [0.8] if space is LINE else [space.value(3), space.value(9)]
        kind, _, given = KINDS[name]
        policy = kind(space, sb.RBF(0.3), threshold=-0.3, safe_start=start, **SHARED, **given)
        again = sb.Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
        assert again.to_dict() == policy.to_dict()
        assert again.safe.tolist() == policy.safe.tolist()
        assert_alike((policy, again), 5, lambda x: 0.4)

    def test_a_refused_tell_changes_nothing(self):
        policy = Duel("SafeOpt").policy
        policy.tell([0.8], 1.0)
        before = policy.safe.tolist()
        with pytest.raises(ValueError, match=r"^y: "):
            policy.tell([0.8], np.nan)
        assert policy.safe.tolist() == before
        with pytest.raises(ValueError, match="read-only"):
            policy.safe[0] = True


def test_telling_at_once_is_telling_one_by_one():
    """What an observation certifies stays safe when a later one lowers the bounds."""
    for name in KINDS:
        one, other = Duel(name).policy, Duel(name).policy
        points, ys = LINE.points([12, 12, 13, 13, 14]), [1.3, 1.3, 0.2, 0.2, 0.1]
        for x, y in zip(points, ys, strict=True):
            one.tell(x, y)
        other.tell(points, ys)
        assert one.safe.tolist() == other.safe.tolist()


def test_what_is_safe_once_stays_safe():
    policy = Duel("SafeOpt").policy
    policy.tell([0.8], 1.3)
    before = policy.safe
    policy.tell([[0.8]] * 3, [-1.0, -1.0, -1.0])
    assert before.sum() > 1
    assert policy.safe[before].all()


@every_kind
@pytest.mark.sampled(2)
def test_points_that_are_told_and_are_no_candidates(name):
    """Of a grid too large to be enumerated, which is played on some candidates: they teach, and are never chosen."""
    space = sb.Grid([[0, 1], [0, 1]], 2000)
    start = space.candidate_set(40, 0).points([7])
    duel = Duel(name, space, start, waves, candidates=40, added=space.points([1_234_567, 3_999_999]))
    duel.policy.ask()
    duel.policy.abandon()
    for number in (40, 7, 41, 7):
        duel.tell(number)
    assert duel.policy.domain.size == len(duel.policy.safe) == 42
    again = duel.make()
    again.restore({key: value.copy() for key, value in duel.policy.state().items()})
    duel.policy = again
    duel.play(6)


def test_equal_candidates_are_one_point():
    """Each number of the start is safe."""
    policy = sb.SafeOpt(DOUBLED, sb.RBF(0.3), threshold=0.5, safe_start=[0.8], **SHARED)
    assert (
        np.flatnonzero(policy.safe).tolist()
        == np.flatnonzero(DOUBLED.points()[:, 0] == policy.safe_start[0, 0]).tolist()
    )
    assert policy.safe.sum() == 2


def test_arms_and_settings():
    covariance = np.exp(-np.abs(np.subtract.outer(np.arange(6), np.arange(6))) / 50.0)
    policy = sb.SafeOpt(sb.Arms(6), sb.Covariance(covariance), threshold=0.0, safe_start=2, **SHARED)
    assert policy.safe.tolist() == [False, False, True, False, False, False]
    policy.tell([2, 2], [1.5, 1.5])
    assert policy.safe[[1, 2, 3]].all()
    assert policy.ask() in np.flatnonzero(policy.safe)
    mixed = sb.LoSBO(
        MIXED, sb.RBF(0.3), threshold=0.0, safe_start=MIXED.value(3), lipschitz=2.0, noise_bound=0.1, **SHARED
    )
    mixed.tell(MIXED.value(3), 0.52)  # reaches 0.21: one step of the depth, which is 0.2 of the unit cube
    assert np.flatnonzero(mixed.safe).tolist() == [2, 3, 4]


@every_kind
@given(data=st.data())
@pytest.mark.sampled(2)
def test_nothing_is_safe_that_the_oracle_does_not_certify(name, data):
    """Whatever is told, wherever."""
    threshold = data.draw(st.floats(-1.0, 1.0), label="threshold")
    start = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=3), label="start")
    told = data.draw(st.lists(st.tuples(st.integers(0, 30), st.floats(-3.0, 3.0)), max_size=5), label="told")
    duel = Duel(name, LINE, LINE.points(start), threshold=threshold)
    lenient = Duel(name, LINE, LINE.points(start), threshold=threshold - 1e-7)
    for number, y in told:
        duel.policy.tell(LINE.points([number])[0], y)
        lenient.oracle.observe(number, y)
    assert set(np.flatnonzero(duel.policy.safe).tolist()) <= lenient.oracle.safe
    assert duel.policy.safe[start].all()


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"safe_start": [0.01]}, r"safe_start: got \[0.01\]; allowed: one or more of the 31 candidates"),
            ({"safe_start": [[0.8], [3.0]]}, "safe_start: got"),
            ({"safe_start": []}, r"safe_start: got \[\]; allowed: one or more"),
            ({"safe_start": np.nan}, "safe_start: got nan"),
            ({"safe_start": None}, "safe_start: got None"),
            ({"safe_start": {"rate": 1.0}}, "safe_start: got"),
            ({"threshold": np.inf}, "threshold: got inf; allowed: a finite number"),
            ({"threshold": np.nan}, "threshold: got nan"),
            ({"width": 0.0}, "width: got 0.0; allowed: a positive number, or None"),
            ({"width": "wide"}, "width: got 'wide'"),
            ({"rkhs_norm": "double"}, "rkhs_norm: got 'double'; allowed: a positive number"),
            ({"lipschitz": -1.0}, "lipschitz: got -1.0; allowed: a positive number"),
            ({"refit": 3}, "refit: got 3; allowed: None"),
            ({"engine": "sketched"}, "engine: got 'sketched'; allowed: .*, which are exact"),
            ({"pending": "sample"}, "pending: got 'sample'; allowed: 'mean' for SafeOpt"),
            ({"kernel": sb.RBF(0.2) * sb.TemporalDecay(0.1)}, "kernel: got .*; allowed: one without TemporalDecay"),
            ({"kernel": None}, "kernel: got None; allowed: a kernel, such as .*SafeOpt learns none"),
            ({"space": sb.Box([[0, 2]])}, r"space: got Box.*; allowed: a finite space for SafeOpt .*of a box a grid"),
            ({"space": sb.SearchSpace({"a": sb.Real(0, 1)})}, "space: got .*; allowed: a finite space"),
        ],
    )
    def test_at_construction(self, given, message):
        with pytest.raises((ValueError, TypeError), match=f"(?s)^{message}"):
            sb.SafeOpt(**{"space": LINE, "kernel": sb.RBF(0.2), "threshold": 0.0, "safe_start": [0.8], **given})

    def test_a_pool(self, tmp_path):
        pool = sb.Pool.write(tmp_path / "pool.zarr", LINE.points(), progress=False)
        with pytest.raises(ValueError, match=r"(?s)^space: got Pool.*; allowed: a finite space for LoSBO"):
            sb.LoSBO(pool, sb.RBF(0.2), threshold=0.0, safe_start=[0.8], lipschitz=1.0, noise_bound=0.1)

    @pytest.mark.parametrize(
        ("space", "kernel"),
        [(sb.Arms(3), sb.Covariance(np.eye(3))), (sb.Settings({"a": sb.Categorical(["x", "y", "z"])}), sb.RBF(0.2))],
        ids=["arms", "categories"],
    )
    def test_no_distances(self, space, kernel):
        with pytest.raises(ValueError, match=r"^lipschitz: got 1\.0; allowed: None for arms and unordered parameters"):
            sb.SafeOpt(space, kernel, threshold=0.0, safe_start=space.value(1), lipschitz=1.0)
        assert sb.SafeOpt(space, kernel, threshold=0.0, safe_start=space.value(1)).safe.tolist() == [False, True, False]

    def test_another_threshold(self):
        policy = Duel("SafeOpt").policy
        with pytest.raises(FrozenAttributeError):
            policy.threshold = 0.5

    def test_a_stage_without_an_end(self):
        with pytest.raises(ValueError, match=r"^stage: got None; allowed: a number of rounds, or `epsilon`"):
            sb.StageOpt(LINE, sb.RBF(0.2), threshold=0.0, safe_start=[0.8])

    @every_kind
    def test_no_safe_candidate_is_available(self, name):
        policy = Duel(name).policy
        policy.ask()
        pending, state = policy.pending, policy.state()
        with pytest.raises(ValueError, match=r"^available: got 'no candidate known to be safe'; allowed: a set that"):
            policy.ask(3, available=[0, 30])
        assert policy.pending == pending
        for entry, held in policy.state().items():
            np.testing.assert_array_equal(held, state[entry])

    def test_every_safe_candidate_failed(self):
        policy = Duel("SafeOpt").policy
        policy.tell_failure(policy.ask(), "broken")
        with pytest.raises(AllFailed, match="every candidate that is known to be safe has failed"):
            policy.ask()


class TestWarnings:
    def test_of_a_start_that_the_model_contradicts(self):
        """Once; a single low value is noise."""
        policy = sb.SafeOpt(LINE, sb.RBF(0.3), threshold=0.0, safe_start=[[0.8], [1.0]], **SHARED)
        policy.tell([0.8], -0.05)
        policy.ask()
        policy.tell([[0.8]] * 9 + [[1.0]] * 9, [-1.0] * 18)
        with pytest.warns(sb.UnsafeStart, match="intervals of all safe starts are below the threshold 0: they are"):
            policy.ask()
        policy.ask()

    def test_of_a_start_when_minimising(self):
        policy = sb.LoSBO(
            LINE, sb.RBF(0.3), threshold=0.5, safe_start=[0.8], lipschitz=1.0, noise_bound=0.1, minimize=True, **SHARED
        )
        policy.tell([[0.8]] * 9, [1.5] * 9)
        with pytest.warns(sb.UnsafeStart, match=r"all safe starts are above the threshold 0\.5: "):
            policy.ask()

    @pytest.mark.filterwarnings("default")
    def test_of_widths_that_are_not_proven(self):
        given = {"threshold": 0.0, "safe_start": [0.8], "regularization": 0.1}
        with pytest.warns(sb.UnprovenWidth, match="^SafeOpt: nothing is proven for the constant width=2"):
            sb.SafeOpt(LINE, sb.RBF(0.3), width=2, **given)
        with pytest.warns(sb.UnprovenWidth, match="^StageOpt: the width 'improved' is proven for regularization >= 1"):
            sb.StageOpt(LINE, sb.RBF(0.3), stage=3, confidence="improved", **given)
        with warnings.catch_warnings(action="error"):
            sb.SafeOpt(LINE, sb.RBF(0.3), **given)
            sb.LoSBO(LINE, sb.RBF(0.3), lipschitz=1.0, noise_bound=0.1, **given)


def test_contexts():
    """Among the safe candidates of the context, against the best of these."""
    policy = sb.SafeOpt(SQUARE, sb.Matern(0.5, nu=2.5), threshold=-5.0, safe_start=[0.0, 0.0], **SHARED)
    for _ in range(6):
        x = policy.ask(context={1: 2.0})
        assert x[1] == 2.0
        policy.tell(x, waves(x))
    with pytest.raises(ValueError, match=r"^available: "):
        sb.SafeOpt(SQUARE, sb.RBF(0.2), threshold=1.0, safe_start=[0.0, 0.0]).ask(context={1: 2.0})


# ---- the guarantee

RUNS, ROUNDS, R = 60, 40, 0.1


def played(seed, **given):
    """Whether a run on a function of known norm evaluates a point below the threshold; and how many are safe."""
    space, kernel = sb.Grid([[0, 1]], 60), sb.RBF(0.1)
    function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(R), seed=seed, count=12)
    values = np.array([function.mean(x) for x in space.points()])
    threshold = float(np.quantile(values, 0.4))
    policy = sb.SafeOpt(
        space, kernel, threshold=threshold, safe_start=space.points([np.argmax(values)]), noise=R, regularization=R**2,
        rkhs_norm=function.rkhs_norm, delta=DELTA, seed=seed, **given,
    )  # fmt: skip
    run = sb.simulate(policy, function, ROUNDS)
    return bool((run.value < threshold).any()), int(policy.safe.sum())


@pytest.mark.long
def test_the_guarantee():
    """Of 60 functions, a share of at most delta = 0.1 has an evaluation below the threshold.

    If the probability were delta for each, more than 11 would have one with probability 0.015. Measured: none; with
    width=2, one.
    """
    found = [played(seed) for seed in range(RUNS)]
    assert sum(unsafe for unsafe, _ in found) <= 11
    assert np.mean([safe for _, safe in found]) > 6.0  # of 36: it does explore
