"""Bad input is refused at the call, by name, and a policy that refused is as it was.

The messages name the argument, what was given and what is allowed. For policies, everything a policy holds is compared
before and after a refused call, and its later trajectory with that of a twin that never saw one.
"""

from __future__ import annotations

import functools
import math
import pickle
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.policies import Policy
from scalable_bandits.posteriors import DenseEngine
from scalable_bandits.specification import Specification

NAMES = (
    "GPUCB", "IGPUCB", "GPTS", "GPEI", "GPPI", "MeanOnly", "VarianceOnly", "RGPUCB", "SWGPUCB", "WGPUCB", "TVGPUCB",
    "ETGPUCB", "IRGPUCB", "PIMS", "PSEI",
)  # fmt: skip
NEEDED: dict[str, dict[str, Any]] = {"RGPUCB": {"memory": 4}, "SWGPUCB": {"memory": 4}}
UNSURE = ("PEGPUCB", "MLEGPUCB", "FullyBayesianGPUCB", "RegretBalancing")
CALLED = ("IGPUCB", "GPTS", "GPEI", "RGPUCB", "TVGPUCB", "ETGPUCB", "PSEI", "RandomSearch", "PEGPUCB", "LBGPUCB")
REFUSED = {("LBGPUCB", "arms")}  # places that a policy does not take
NAN, INF = math.nan, math.inf


class Place(NamedTuple):
    """A space, its kernel, points of it, and points that are not."""

    space: sb.Box | sb.Grid | sb.Points | sb.Arms
    kernel: sb.Kernel
    inside: list[Any]
    outside: list[Any]
    candidates: int | None = 64


PLACES = {
    "grid": Place(sb.Grid([[0, 1], [0, 2]], (6, 5)), sb.RBF([0.3, 0.6]), [[0, 0], [0.2, 1.5], [1, 2]], [[0.1, 0]]),
    "points": Place(sb.Points([0.0, 0.3, 0.5, 0.9]), sb.Matern(0.3), [0.0, 0.3, 0.9], [0.4, -0.3]),
    "arms": Place(sb.Arms(5), sb.Covariance(np.eye(5) + 0.5), [0, 2, 4], [5, -1, 0.5]),
    "box": Place(sb.Box([[0, 1], [0, 2]]), sb.RBF(0.3), [[0, 0], [0.2, 1.5], [1, 2]], [[-0.1, 0], [0.5, 2.1]]),
    "whole box": Place(
        sb.Box([[0, 1], [0, 2]]), sb.RBF(0.3), [[0, 0], [0.2, 1.5], [1, 2]], [[-0.1, 0], [0.5, 2.1]], None
    ),
}


def make(name: str, place: Place = PLACES["grid"], **options: Any) -> Policy:
    options = {
        "noise": 0.1, "regularization": 0.01, "candidates": place.candidates, "seed": 3, **NEEDED.get(name, {}),
        **options,
    }  # fmt: skip
    kernel: Any = place.kernel * sb.TemporalDecay(0.1) if name == "TVGPUCB" else place.kernel
    if name in UNSURE:
        kernel = [sb.Prior("one", place.kernel), sb.Prior("two", 2.0 * place.kernel, 0.3)]
    policy: Policy = getattr(sb, name)(place.space, kernel, **options)
    return policy


def measured(x: Any) -> float:
    return float(np.sin(3.0 * np.sum(x)))


def play(policy: Policy, rounds: int) -> list[str]:
    trajectory = []
    for _ in range(rounds):
        x = policy.ask()
        policy.tell(x, measured(x))
        trajectory.append(repr((np.ravel(x).tolist(), policy.width, policy.information_gain)))  # NaN equals NaN here
    return trajectory


def warm(name: str, place: Place) -> Policy:
    """A policy in the middle of things: observations, two points pending, and every lazy part made."""
    policy = make(name, place)
    play(policy, 5)
    policy.tell(place.inside, [measured(x) for x in place.inside])
    policy.posterior(place.inside)
    policy.ask(2)
    policy.best()
    return policy


def snapshot(value: Any, seen: tuple[int, ...] = ()) -> Any:
    """All that an object holds, down to the bytes of its arrays, as something to compare."""
    if id(value) in seen:
        return "cycle"
    inner = functools.partial(snapshot, seen=(*seen, id(value)))
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    if isinstance(value, Mapping):
        return [(inner(key), inner(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [inner(item) for item in value]
    if isinstance(value, Specification) and not isinstance(value, sb.Policy | sb.Environment):
        return repr(value), pickle.dumps(value)
    if hasattr(value, "__dict__") and not callable(value):
        return type(value).__name__, inner(vars(value))
    return repr(value)


# ---- policies: calls

CALLS: dict[str, tuple[str, Callable[[Policy, Place], object]]] = {
    "n zero": ("n", lambda p, s: p.ask(0)),
    "n negative": ("n", lambda p, s: p.ask(-3)),
    "n float": ("n", lambda p, s: p.ask(2.0)),
    "n text": ("n", lambda p, s: p.ask("2")),
    "n True": ("n", lambda p, s: p.ask(True)),
    "available empty": ("available", lambda p, s: p.ask(available=[])),
    "available all False": ("available", lambda p, s: p.ask(available=np.zeros(p.domain.size, dtype=bool))),
    "available short mask": ("available", lambda p, s: p.ask(available=np.ones(3, dtype=bool))),
    "available long mask": ("available", lambda p, s: p.ask(available=np.ones(p.domain.size + 1, dtype=bool))),
    "available past the end": ("available", lambda p, s: p.ask(available=[0, p.domain.size])),
    "available negative": ("available", lambda p, s: p.ask(available=[-1, 0])),
    "available floats": ("available", lambda p, s: p.ask(available=[0.0, 1.0])),
    "available table": ("available", lambda p, s: p.ask(available=[[0, 1]])),
    "available in a batch": ("available", lambda p, s: p.ask(3, available=[])),
    "y NaN": ("y", lambda p, s: p.tell(s.inside[0], NAN)),
    "y infinite": ("y", lambda p, s: p.tell(s.inside[0], -INF)),
    "y text": ("y", lambda p, s: p.tell(s.inside[0], "high")),
    "y None": ("y", lambda p, s: p.tell(s.inside[0], None)),
    "y complex": ("y", lambda p, s: p.tell(s.inside[0], 1j)),
    "y one NaN in five": ("y", lambda p, s: p.tell([s.inside[0]] * 5, [1.0, 2.0, NAN, 3.0, 4.0])),
    "y too few": ("y", lambda p, s: p.tell(s.inside, [1.0])),
    "y too many": ("y", lambda p, s: p.tell(s.inside, [1.0, 2.0, 3.0, 4.0])),
    "y one for many": ("y", lambda p, s: p.tell(s.inside, 1.0)),
    "y two for one": ("y", lambda p, s: p.tell(s.inside[0], [1.0, 2.0])),
    "y table": ("y", lambda p, s: p.tell(s.inside, [[1.0], [2.0], [3.0]])),
    "x NaN": ("x", lambda p, s: p.tell(np.multiply(s.inside[0], NAN), 1.0)),
    "x infinite": ("x", lambda p, s: p.tell(np.add(s.inside[0], INF), 1.0)),
    "x None": ("x", lambda p, s: p.tell(None, 1.0)),
    "x text": ("x", lambda p, s: p.tell("here", 1.0)),
    "x outside": ("x", lambda p, s: p.tell(s.outside[0], 1.0)),
    "x one outside": ("x", lambda p, s: p.tell([*s.inside, s.outside[-1]], [1.0, 2.0, 3.0, 4.0])),
    "x wrong dimension": ("x", lambda p, s: p.tell([[0.0, 0.0, 0.0]], [1.0])),
    "x three axes": ("x", lambda p, s: p.tell(np.zeros((2, 1, p.space.dimension)), [1.0, 2.0])),
    "x nothing": ("x", lambda p, s: p.tell([], [])),
    "noise zero": ("noise", lambda p, s: p.tell(s.inside[0], 1.0, noise=0.0)),
    "noise negative": ("noise", lambda p, s: p.tell(s.inside, [1.0, 2.0, 3.0], noise=[1.0, 1.0, -1.0])),
    "noise NaN": ("noise", lambda p, s: p.tell(s.inside, [1.0, 2.0, 3.0], noise=[1.0, NAN, 1.0])),
    "noise too few": ("noise", lambda p, s: p.tell(s.inside, [1.0, 2.0, 3.0], noise=[1.0, 1.0])),
    "noise that squares to nothing": ("noise", lambda p, s: p.tell(s.inside[0], 1.0, noise=1e-170)),
    "noise whose square overflows": ("noise", lambda p, s: p.tell(s.inside, [1.0, 2.0, 3.0], noise=[1.0, 1e170, 1.0])),
    "noise text": ("noise", lambda p, s: p.tell(s.inside[0], 1.0, noise="small")),
    "abandon not pending": ("x", lambda p, s: p.abandon(not_pending(p))),
    "abandon one of two": ("x", lambda p, s: p.abandon([p.pending[0], not_pending(p)])),
    "abandon twice": ("x", lambda p, s: p.abandon([p.pending[0], p.pending[0], p.pending[0]])),
    "abandon outside": ("x", lambda p, s: p.abandon(s.outside[0])),
    "abandon NaN": ("x", lambda p, s: p.abandon(np.multiply(s.inside[0], NAN))),
    "tell_failure outside": ("x", lambda p, s: p.tell_failure(s.outside[0])),
    "tell_failure of several": ("x", lambda p, s: p.tell_failure(s.inside)),
    "tell_failure NaN": ("x", lambda p, s: p.tell_failure(np.multiply(s.inside[0], NAN))),
    "tell_failure None": ("x", lambda p, s: p.tell_failure(None)),
    "tell_failure by number": ("error", lambda p, s: p.tell_failure(s.inside[0], 7)),
    "posterior NaN": ("x", lambda p, s: p.posterior(np.multiply(s.inside[0], NAN))),
    "posterior wrong dimension": ("x", lambda p, s: p.posterior([[0.0, 0.0, 0.0]])),
    "simulate with pending points": ("policy", lambda p, s: sb.simulate(p, environment_on(p.space), 3)),
    "simulate horizon": ("horizon", lambda p, s: sb.simulate(p, environment_on(p.space), 0)),
    "simulate elsewhere": ("environment", lambda p, s: sb.simulate(p, environment_on(sb.Arms(99)), 3)),
}  # fmt: skip


def not_pending(policy: Policy) -> Any:
    """A candidate, of many where there are, that is not waiting."""
    space = policy.domain.numbered
    if not space.size:  # of a whole box nothing was visited
        return [0.5, 0.5]
    waiting = [np.ravel(x).tolist() for x in policy.pending]
    return next(space.value(c) for c in range(space.size) if np.ravel(space.value(c)).tolist() not in waiting)


def environment_on(space: sb.Box | sb.Grid | sb.Points | sb.Arms) -> sb.Environment:
    return sb.FunctionEnvironment(space, measured, sb.GaussianNoise(0.1))


class TestRefusedCalls:
    """Every bad call, on every kind of space; every policy on some of them."""

    @pytest.mark.parametrize("place", PLACES)
    def test_message_names_the_argument(self, place: str) -> None:
        """name: got ...; allowed: ..."""
        policy = warm("IGPUCB", PLACES[place])
        for argument, call in CALLS.values():
            with pytest.raises(ValueError, match=rf"(?s)^{argument}: got .+; allowed: .+"):
                call(policy, PLACES[place])

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("name", CALLED)
    @pytest.mark.sampled(8)
    def test_nothing_has_changed(self, name: str, place: str) -> None:
        """All that the policy holds is what it held, whatever the kind of error."""
        if (name, place) in REFUSED:
            return
        policy = warm(name, PLACES[place])
        before = snapshot(policy)
        for case, (_, call) in CALLS.items():
            with pytest.raises((ValueError, TypeError)):
                call(policy, PLACES[place])
            assert snapshot(policy) == before, case

    @pytest.mark.parametrize("name", ["IGPUCB", "RandomSearch"])
    def test_box_has_not_grown(self, name: str) -> None:
        """Abandoning a point of a box that nobody asked for, or looking at one, adds no candidate."""
        policy = make(name, PLACES["box"])
        play(policy, 2)
        candidates = policy.domain.numbered
        policy.posterior([0.123, 0.456])
        assert policy.domain.numbered == candidates
        with pytest.raises(ValueError, match=r"^x: got .*; allowed: a pending point"):
            policy.abandon([0.123, 0.456])
        assert policy.domain.numbered == candidates


class TestRefusedLate:
    """Refusals that can only be noticed when something has begun."""

    def test_prior_mean_given_by_candidate_on_a_box(self) -> None:
        """It says nothing of other points: refused by name, when it is given or when one is told."""
        held = []

        def make_and_tell() -> None:
            held.append(make("IGPUCB", PLACES["box"], prior_mean=np.zeros(64)))
            held[0].tell([0.123, 0.456], 1.0)

        with pytest.raises(ValueError, match=r"^prior_mean: got"):
            make_and_tell()
        assert all(policy.domain.size == 64 for policy in held)

    @pytest.mark.parametrize("place", ["box", "whole box"])
    def test_prior_mean_that_fails_at_another_point(self, place: str) -> None:
        def prior(points: np.ndarray) -> np.ndarray:
            return np.where(points[:, 0] == 0.123, NAN, 0.0)

        policy, twin = (make("IGPUCB", PLACES[place], prior_mean=prior) for _ in range(2))
        assert play(policy, 2) == play(twin, 2)
        before = snapshot(policy)
        with pytest.raises(ValueError, match=r"^prior_mean: got"):
            policy.tell([0.123, 0.456], 1.0)
        assert place == "whole box" or snapshot(policy) == before  # one remembers numbers that it gave out
        assert play(policy, 2) == play(twin, 2)

    def test_point_that_makes_the_space_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A box at the engine's limit takes its own candidates in, and refuses one more."""
        monkeypatch.setattr(DenseEngine, "limit", 64)
        policy = make("GPTS", PLACES["box"])
        play(policy, 2)
        before = snapshot(policy)
        with pytest.raises(ValueError, match="at most 64"):
            policy.tell([0.123, 0.456], 1.0)
        assert snapshot(policy) == before
        assert len(play(policy, 2)) == 2

    def test_availability_on_a_box(self) -> None:
        """Regret there has no optimum to be measured against: refused before the first round is played."""
        policy = make("IGPUCB", PLACES["box"])
        before = snapshot(policy)
        with pytest.raises(ValueError, match=r"^available: got"):
            sb.simulate(policy, environment_on(policy.space), 3, available=lambda t: [0, 1])
        assert snapshot(policy) == before

    @pytest.mark.parametrize("available", [[], [99], np.zeros(5, dtype=bool)], ids=str)
    def test_availability_of_a_later_round(self, available: Any) -> None:
        """The rounds before it stand; nothing is pending."""
        policy = make("IGPUCB", PLACES["arms"])
        with pytest.raises(ValueError, match=r"^available: got"):
            sb.simulate(policy, environment_on(policy.space), 9, available=lambda t: available if t == 4 else [0, 1])
        assert policy.rounds == 3
        assert policy.pending == []

    def test_information_gain_that_is_none(self) -> None:
        """A function that was given may say nothing sensible in a later round: no index is computed from that."""
        for answer in (NAN, INF, -1.0, None):
            policy = make("IGPUCB", information_gain=lambda count, answer=answer: 1.0 if count < 3 else answer)
            policy.tell(PLACES["grid"].inside, [0.0, 1.0, 2.0])
            before = snapshot(policy)
            with pytest.raises(ValueError, match=r"^information_gain: got '.* for 3 observations'; allowed: "):
                policy.ask()
            assert snapshot(policy) == before


class TestArraysGiven:
    """Whoever gave an array may change it afterwards: what was made of it stays as it was."""

    def test_policies(self) -> None:
        means = np.zeros(5)
        policy = make("IGPUCB", PLACES["arms"], prior_mean=means)
        means[:] = 7.0
        assert policy.posterior(2)[0] == 0.0

    def test_environments(self) -> None:
        space, kernel = sb.Grid([[0, 1]], 5), sb.RBF(0.2)
        centers, weights, rows = np.array([[0.5]]), np.array([1.0]), np.array([[1.0], [2.0]])
        fixed = sb.RKHSFunction(space, kernel, centers, weights)
        drifting = sb.DriftingFunction(space, kernel, centers, rows, [1, 5])
        centers[:], weights[:], rows[:] = 0.0, 3.0, 9.0
        assert fixed.mean(0.5) == fixed.rkhs_norm == 1.0
        assert drifting.parameters()["weights"].tolist() == [[1.0], [2.0]]
        assert drifting.parameters()["centers"].tolist() == [[0.5]]


# ---- policies: making them


class TestRefusedPolicies:
    """Arguments of the constructors."""

    @pytest.mark.parametrize(
        ("name", "argument", "value", "allowed"),
        [
            *[("GPUCB", "theorem", value, "1, 2, 3, None") for value in (0, 4, "1", 1.0, True)],
            ("IGPUCB", "confidence", "imprved", "did you mean 'improved'.*flynn-reeb.*"),
            ("GPTS", "samples", "al", "'auto', 'exact', 'pathwise'"),
            ("GPTS", "basis", None, "'fourier', 'quadrature'"),
            ("GPEI", "incumbent", "max", "'mean', 'observation', None"),
            *[(name, "pending", "draw", "'mean', 'sample'") for name in ("GPEI", "IGPUCB", "GPTS", "TVGPUCB")],
            ("GPEI", "pending", None, "'mean', 'sample'"),
        ],
    )
    def test_one_of_a_few(self, name: str, argument: str, value: object, allowed: str) -> None:
        """In one line that says which."""
        with pytest.raises(ValueError, match=rf"^{argument}: got {value!r}; allowed: {allowed}$"):
            make(name, **{argument: value})

    @pytest.mark.parametrize("name", ["GPTS", "SupKernelUCB", "PhasedElimination", "DUETS", "MiniGPUCB", "MiniGPEI"])
    def test_values_drawn_at_pending_points_without_an_index(self, name: str) -> None:
        """Only where the maximum of an index is played in every round."""
        with pytest.raises(ValueError, match=rf"^pending: got 'sample'; allowed: 'mean' for {name}; 'sample' needs"):
            make(name, horizon=9, pending="sample")

    @pytest.mark.parametrize(
        ("space", "kernel", "message"),
        [
            (sb.Arms(2), 3.0, "kernel"),
            (sb.Arms(2), None, "kernel"),
            (sb.Grid([[0, 1]], 3), sb.RBF([1.0, 2.0]), r"^lengthscale: got \(1.0, 2.0\); allowed: one number, or 1"),
            (sb.Grid([[0, 1]] * 2, 3), sb.Covariance(np.eye(9)), r"^kernel: got 'Covariance on points of dimension 2'"),
            (sb.Arms(3), sb.Covariance(np.eye(2)), r"^arm: got .*; allowed: arm numbers from 0 to 1"),
            (sb.Grid([[0, 1]], 3), 2.0 * (sb.RBF() + sb.Linear([1.0, 2.0])), r"^lengthscale: got \(1.0, 2.0\)"),
        ],
        ids=str,
    )
    def test_kernel_that_does_not_fit(self, space: sb.Grid, kernel: Any, message: str) -> None:
        for name in NAMES:
            with pytest.raises((ValueError, TypeError), match=message):
                getattr(sb, name)(space, kernel, horizon=9)

    def test_too_large_a_space(self) -> None:
        """To enumerate a grid of 30^6 points is refused at once, with the limit, and without memory for it."""
        tracemalloc.start()
        for name in NAMES:
            with pytest.raises(ValueError, match=r"^space: got '729,000,000 candidates'; allowed: at most [\d,]+ for"):
                getattr(sb, name)(sb.Grid([[0, 1]] * 6, 30), sb.RBF(0.2), horizon=9, enumerated=10**9)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000

    def test_too_large_for_joint_draws(self) -> None:
        """20 001 candidates are more than a dense covariance should hold; the blocked engine takes them."""
        for name, given in (("GPTS", {"samples": "exact"}), ("IGPUCB", {"engine": "dense"})):
            with pytest.raises(ValueError, match=r"^space: got '20,001 candidates'; allowed: at most 20,000 for the"):
                getattr(sb, name)(sb.Grid([[0, 1]], 20_001), sb.RBF(0.2), **given)
        assert sb.IGPUCB(sb.Grid([[0, 1]], 20_001), sb.RBF(0.2)).engine == "tiled"

    def test_random_search_plays_any_space(self) -> None:
        """Without a model a huge grid costs nothing."""
        policy = sb.RandomSearch(sb.Grid([[0, 1]] * 6, 30))
        for _ in range(3):
            policy.tell(policy.ask(), 1.0)
        assert policy.best().mean == 1.0

    def test_thompson_sampling_by_blocks(self) -> None:
        allowed = "'auto', 'dense', 'weights' or 'pathwise', which can draw samples"
        with pytest.raises(ValueError, match=f"^engine: got 'tiled'; allowed: {allowed}"):
            make("GPTS", engine="tiled")

    @pytest.mark.parametrize("place", ["points", "arms"])
    def test_theorem_for_boxes(self, place: str) -> None:
        with pytest.raises(ValueError, match=r"^theorem: got 2; allowed: 1 or 3 on a space without bounds"):
            make("GPUCB", PLACES[place], theorem=2)

    def test_random_search_has_no_prior_to_recommend_by(self) -> None:
        with pytest.raises(ValueError, match=r"^best: nothing has been told yet"):
            make("RandomSearch").best()


# ---- kernels


class TestRefusedKernels:
    """Parameters, and points."""

    def test_covariance_up_to_rounding(self) -> None:
        """A singular matrix, and one that a product left a little asymmetric, are welcome."""
        rng = np.random.default_rng(0)
        readings = rng.normal(size=(3, 40)) * 1e3
        product = readings.T @ readings
        product[0, 1] *= 1 + 1e-14
        sb.Covariance(product)

    @pytest.mark.parametrize(
        ("kernel", "X", "Z", "message"),
        [
            (sb.RBF(), [[NAN]], None, r"^X: got"),
            (sb.RBF(), [[0.0]], [[INF]], r"^Z: got"),
            (sb.RBF(), [[0.0]], [[0.0, 1.0]], r"^Z: got 'points of dimension 2'; allowed: dimension 1, as X"),
            (sb.RBF(), np.zeros((1, 1, 1)), None, r"^X: got 'an array of shape \(1, 1, 1\)'"),
            (sb.RBF([1.0, 2.0]), [[0.0]], None, r"^lengthscale: got \(1.0, 2.0\); allowed: one number, or 1"),
            (sb.Covariance(np.eye(2)), [0, 2], None, r"^arm: got .*; allowed: arm numbers from 0 to 1"),
            (sb.Covariance(np.eye(2)), [0.5], None, r"^arm: got .*; allowed: arm numbers from 0 to 1"),
            (sb.Covariance(np.eye(2)), [[0, 1]], None, r"^kernel: got 'Covariance on points of dimension 2'"),
        ],
        ids=str,
    )
    def test_points(self, kernel: sb.Kernel, X: Any, Z: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            kernel.block(X, Z)


# ---- environments and simulations


class TestRefusedEnvironments:
    """Points, tables, weights and availability sets."""

    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("method", ["mean", "observe"])
    def test_points(self, place: str, method: str) -> None:
        """Outside the space, of another dimension, or no numbers."""
        space, _, inside, outside, _ = PLACES[place]
        ask = getattr(environment_on(space), method)
        for x in (*outside, [*inside, outside[0]], np.multiply(inside[0], NAN), "here", None, [[0.0, 0.0, 0.0]]):
            with pytest.raises(ValueError, match=r"^x: got .*; allowed: "):
                ask(x)


class TestRefusedSimulations:
    """Before the first round: the policy stays new and no folder is made."""

    @pytest.fixture
    def policy(self) -> Policy:
        return make("IGPUCB")

    @pytest.mark.parametrize("horizon", [0, -1, 2.0, True, "10", None, NAN], ids=repr)
    def test_horizon(self, policy: Policy, horizon: Any, tmp_path: Path) -> None:
        before = snapshot(policy)
        with pytest.raises(ValueError, match=r"^horizon: got .*; allowed: a positive integer"):
            sb.simulate(policy, environment_on(policy.space), horizon, store=tmp_path / "run.zarr")
        assert snapshot(policy) == before
        assert not any(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "space", [sb.Grid([[0, 1], [0, 2]], (5, 6)), sb.Box([[0, 1], [0, 2]]), sb.Arms(30)], ids=repr
    )
    def test_environment_of_another_space(self, policy: Policy, space: sb.Box, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"^environment: got 'space .*; allowed: the policy's space Grid"):
            sb.simulate(policy, environment_on(space), 3, store=tmp_path / "run.zarr")
        assert not any(tmp_path.iterdir())

    @pytest.mark.parametrize("y", [NAN, INF, -1e101])
    def test_answers_that_are_no_numbers_to_learn_from(self, policy: Policy, y: float) -> None:
        """As `tell` has it; the rounds before stand."""
        answers = iter([0.5, 0.25, y])
        environment = sb.FunctionEnvironment(policy.space, lambda _: next(answers), optimum=1.0)
        with pytest.raises(
            ValueError, match=r"^environment: got 'y = .* in round 3'; allowed: finite numbers, up to 1e"
        ):
            sb.simulate(policy, environment, 5)
        assert policy.rounds == 2

    def test_equal_space_is_the_same(self, policy: Policy) -> None:
        """By value, not identity."""
        run = sb.simulate(policy, environment_on(sb.Grid([[0, 1], [0, 2]], (6, 5))), 2)
        assert len(run.y) == 2

    def test_pending(self, policy: Policy) -> None:
        policy.ask()
        with pytest.raises(
            ValueError, match=r"^policy: got 'pending points .*; allowed: none pending: tell or abandon"
        ):
            sb.simulate(policy, environment_on(policy.space), 3)
        policy.abandon()
        assert len(sb.simulate(policy, environment_on(policy.space), 3).y) == 3
