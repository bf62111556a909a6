"""Simulations and maximizations that are kept: in pieces as in one go."""

import os

import numpy as np
import pytest
import xarray
import zarr
from cases import store as cases
from cases.policies import EVERY_POLICY, NOISE, PROBLEMS, on
from cases.store import BOTH, Function, assert_equal, change_attributes, described, everything

import scalable_bandits as sb
from scalable_bandits.runs.trajectory import SERIES
from scalable_bandits.store import ObservationStore, SpecificationDiffers, StoreLocked

pytest_plugins = ["cases.store_fixtures"]


def environment_of(space, seed=7, noise=NOISE):
    problem = PROBLEMS[space]
    if space == "box":
        return sb.FunctionEnvironment(problem.space, problem.truth, sb.GaussianNoise(noise), seed, optimum=2.0)
    values = [problem.truth(x) for x in problem.space.points()]
    return sb.TableEnvironment(problem.space, values, sb.GaussianNoise(noise), seed)


def every_third(t):
    return np.arange(t % 3, 90, 3)


def every_second(t):
    return np.arange(t % 2, 90, 2)


def assert_same_run(run, whole):
    """All that a run tells, but for how it is kept."""
    one, other = run.dataset().compute(), whole.dataset()
    xarray.testing.assert_identical(one, other)
    for name in ("candidate", *SERIES):
        values = getattr(run, name)
        assert values.dtype == getattr(whole, name).dtype
        np.testing.assert_array_equal(values, getattr(whole, name))
    assert (len(run), run.first_round, run.specification) == (len(whole), 1, whole.specification)
    for arguments in ((), (7,), (1,), (20, True)):
        for values, expected in zip(run.curve(*arguments), whole.curve(*arguments), strict=True):
            np.testing.assert_array_equal(values, expected)


def play_in_pieces(name, space, place, horizons=(13, 14, 40), available=None, durability="block", **given):
    """A fresh policy for every piece."""
    for horizon in horizons:
        policy = EVERY_POLICY[name].make(PROBLEMS[space], **given)
        run = sb.simulate(
            policy, environment_of(space), horizon, available=available, store=place, durability=durability
        )
        assert (len(run), policy.rounds) == (horizon, horizon)
    return run


def play_whole(name, space, horizon=40, available=None, **given):
    policy = EVERY_POLICY[name].make(PROBLEMS[space], **given)
    return sb.simulate(policy, environment_of(space), horizon, available=available)


@pytest.mark.usefixtures("small")
class TestSimulations:
    """A run in pieces is the run in one go, to the last bit."""

    @on(["grid"], EVERY_POLICY)
    @pytest.mark.sampled(12, slow=4)
    def test_every_policy(self, name, space):
        run = play_in_pieces(name, space, zarr.storage.MemoryStore(), (17, 30))
        assert_same_run(run, play_whole(name, space, 30))

    @pytest.mark.usefixtures("often", "small_tiles")
    @on(["arms"], EVERY_POLICY)
    @pytest.mark.sampled(12, slow=4)
    @pytest.mark.slow
    def test_every_policy_from_checkpoints(self, name, space):
        run = play_in_pieces(name, space, zarr.storage.MemoryStore(), available=every_third)
        assert_same_run(run, play_whole(name, space, available=every_third))

    @pytest.mark.usefixtures("small_tiles")
    @pytest.mark.parametrize("available", [None, every_third])
    @pytest.mark.parametrize("name", ["gpucb-1", "igpucb", "ei", "pi", "mean", "variance"])
    @pytest.mark.sampled(6)
    def test_by_blocks(self, name, available):
        run = play_in_pieces(name, "grid", zarr.storage.MemoryStore(), available=available, engine="tiled")
        assert_same_run(run, play_whole(name, "grid", available=available, engine="tiled"))

    @BOTH
    @pytest.mark.parametrize(("name", "available"), [("ts", every_third), ("random", None)])
    @pytest.mark.sampled(12, slow=4)
    def test_every_place(self, place, name, durability, available):
        run = play_in_pieces(name, "arms", place, (13, 14, 27), available=available, durability=durability)
        assert_same_run(run, play_whole(name, "arms", 27, available=available))
        with xarray.open_zarr(cases.plain(place), consolidated=False) as dataset:
            np.testing.assert_array_equal(dataset["y"], run.y)

    @pytest.mark.usefixtures("often")
    @pytest.mark.sampled(5)
    def test_every_place_with_checkpoints(self, place):
        assert_same_run(play_in_pieces("ts", "grid", place), play_whole("ts", "grid"))

    @BOTH
    @pytest.mark.parametrize("failure", [KeyboardInterrupt, ZeroDivisionError, "not finite"])
    @pytest.mark.sampled(10)
    def test_goes_on_after_a_failure(self, tmp_path, durability, failure):
        """The rounds before it stand; the function is called once a candidate."""
        fails = [12]

        def function(x):
            if len(calls) in fails:
                fails.clear()
                if failure == "not finite":
                    return np.nan
                raise failure
            calls.append(x)
            return PROBLEMS["box"].truth(x)

        def play(**given):
            environment = sb.FunctionEnvironment(PROBLEMS["box"].space, function, seed=1, optimum=2.0)
            return sb.simulate(EVERY_POLICY["igpucb"].make(PROBLEMS["box"]), environment, 40, **given)

        calls = []
        kept = {"store": tmp_path / "run.zarr", "durability": durability}
        with pytest.raises(ValueError if failure == "not finite" else failure):
            play(**kept)
        stand = len(ObservationStore.open(kept["store"]))
        assert 12 <= stand < 40
        run = play(**kept)
        assert len(calls) == 12 + len(np.unique(run.candidate[stand:]))
        assert_same_run(run, play())

    def test_a_finished_run_is_only_read(self, tmp_path):
        whole = play_in_pieces("ei", "grid", tmp_path / "run.zarr")
        policy = EVERY_POLICY["ei"].make(PROBLEMS["grid"])
        again = sb.simulate(policy, environment_of("grid"), 40, store=tmp_path / "run.zarr")
        assert_same_run(again, whole)
        assert policy.rounds == 40

    @pytest.mark.parametrize("part", ["prior_mean", "available"])
    def test_lambdas_are_told_apart_by_their_code(self, part, tmp_path):
        """Not by what they refer to, which may change as they run; a store of before has their names alone."""
        line, calls = sb.Grid([[0, 1]], 12), []
        environment = sb.GPSample(line, sb.RBF(0.3), sb.GaussianNoise(0.1), seed=1)

        def play(function, horizon):
            policy = sb.GPUCB(
                line, sb.RBF(0.3), noise=0.1, scale=2.0, prior_mean=function if part == "prior_mean" else 0.0
            )
            available = function if part == "available" else None
            return sb.simulate(policy, environment, horizon, store=tmp_path / "run", available=available)

        def same(x):
            calls.append(x)
            return np.arange(3) if part == "available" else 0.5 * x[:, 0]

        play(same, 10)
        assert len(play(same, 20).regret) == 20
        assert calls

        def same(x):  # other code of the same name
            return np.arange(2) if part == "available" else x[:, 0]

        with pytest.raises(SpecificationDiffers, match=rf"{part}\.code: stored"):
            play(same, 30)

        def forget(attributes):
            (attributes["specification"] if part == "available" else attributes["specification"]["policy"])[part].pop(
                "code"
            )

        change_attributes(tmp_path / "run", forget)
        assert len(play(same, 30).regret) == 30

    def test_planned(self, tmp_path):
        """The horizon, also while it is played and when it grows."""
        seen = []

        def available(t):
            seen.append(ObservationStore.open(tmp_path / "run.zarr").planned)
            return every_third(t)

        for horizon in (10, 30):
            policy = EVERY_POLICY["random"].make(PROBLEMS["arms"])
            sb.simulate(policy, environment_of("arms"), horizon, available=available, store=tmp_path / "run.zarr")
            assert ObservationStore.open(tmp_path / "run.zarr").planned == horizon
        assert seen[:10] == [10] * 10
        assert seen[-20:] == [30] * 20

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"policy": {"delta": 0.2}}, r"policy\.delta: stored 0\.1, given 0\.2"),
            (
                {"policy": {"seed": 4, "rkhs_norm": 2.0}},
                r"(?s)policy\.seed: stored 3, given 4.*rkhs_norm: stored 0\.8",
            ),
            ({"name": "ei"}, r"policy\.type: stored 'IGPUCB', given 'GPEI'"),
            ({"environment": {"seed": 8}}, r"environment\.seed: stored 7, given 8"),
            ({"environment": {"noise": 0.5}}, r"environment\.noise\.scale: stored 0\.2, given 0\.5"),
            ({"available": every_second}, r"available\.function: stored '.*every_third', given '.*every_second'"),
            ({"available": None}, r"available: stored .*every_third.*, given nothing"),
            ({"values": 1.5}, r"environment\.values\.array: stored '\w+', given '\w+'"),
        ],
        ids=lambda value: "" if isinstance(value, str) else "-".join(value),
    )
    @pytest.mark.sampled(4)
    def test_another_specification(self, tmp_path, change, message):
        """Is refused, with what differs; the store is as it was."""
        place = tmp_path / "run.zarr"
        play_in_pieces("igpucb", "arms", place, (20,), available=every_third)
        before = described(place)
        policy = EVERY_POLICY[change.get("name", "igpucb")].make(PROBLEMS["arms"], **change.get("policy", {}))
        environment = environment_of("arms", **change.get("environment", {}))
        if "values" in change:
            values = environment.table() + change["values"]
            environment = sb.TableEnvironment(environment.space, values, sb.GaussianNoise(NOISE), seed=7)
        available = change.get("available", every_third)
        with pytest.raises(sb.SpecificationDiffers, match=message) as caught:
            sb.simulate(policy, environment, 60, available=available, store=place)
        assert str(place) in str(caught.value)
        assert described(place) == before
        assert policy.rounds == 0
        run = play_in_pieces("igpucb", "arms", place, (30,), available=every_third)
        np.testing.assert_array_equal(run.y, play_whole("igpucb", "arms", 30, available=every_third).y)

    def test_a_policy_that_is_not_fresh(self, tmp_path):
        place = tmp_path / "run.zarr"
        policy = EVERY_POLICY["ei"].make(PROBLEMS["grid"])
        sb.simulate(policy, environment_of("grid"), 10)
        with pytest.raises(ValueError, match=r"^policy: got .*told 10 rounds.*; allowed: a fresh one"):
            sb.simulate(policy, environment_of("grid"), 20, store=place)
        assert not any(tmp_path.iterdir())
        play_in_pieces("ei", "grid", place)
        before = everything(place)
        with pytest.raises(ValueError, match=r"^policy: got .*; allowed: a fresh one"):
            sb.simulate(policy, environment_of("grid"), 60, store=place)
        assert everything(place) == before

    def test_a_run_of_another_kind(self, tmp_path):
        place = tmp_path / "run.zarr"
        with sb.record(EVERY_POLICY["ei"].make(PROBLEMS["grid"]), place):
            pass
        with pytest.raises(sb.SpecificationDiffers, match="kind: stored 'record', given 'simulate'"):
            play_in_pieces("ei", "grid", place)

    def test_a_locked_run(self, tmp_path):
        play_in_pieces("ei", "grid", tmp_path / "run.zarr")
        with ObservationStore.open(tmp_path / "run.zarr", "a"), pytest.raises(StoreLocked, match=str(os.getpid())):
            play_in_pieces("ei", "grid", tmp_path / "run.zarr", (50,))
        play_in_pieces("ei", "grid", tmp_path / "run.zarr", (50,))


def other_function(x):
    return 0.0


def assert_same_maximum(found, whole):
    assert_equal({"x": found.x, "y": found.y}, {"x": whole.x, "y": whole.y})
    np.testing.assert_array_equal(found.best.x, whole.best.x)
    assert found.best[1:] == whole.best[1:]
    xarray.testing.assert_identical(found.dataset(), whole.dataset())


@pytest.mark.usefixtures("small")
class TestMaximize:
    """As with simulations."""

    @staticmethod
    def make(space="box", name="ei", **given):
        return EVERY_POLICY[name].make(PROBLEMS[space], **given)

    @pytest.mark.sampled(12, slow=4)
    def test_in_pieces(self, tmp_path):
        place = tmp_path / "run.zarr"
        for budget in (5, 6, 6, 25):
            found = sb.maximize(Function(), self.make(), budget, store=place)
        assert_same_maximum(found, sb.maximize(Function(), self.make(), 25))

    @on(["arms"], EVERY_POLICY)
    @pytest.mark.sampled(12, slow=4)
    def test_every_policy(self, name, space, tmp_path):
        place = tmp_path / "run.zarr"
        for budget in (3, 20):
            found = sb.maximize(Function(), self.make(space, name), budget, store=place)
        assert_same_maximum(found, sb.maximize(Function(), self.make(space, name), 20))

    @pytest.mark.parametrize("often", [False, True], ids=["replayed", "checkpoints"])
    @pytest.mark.parametrize("durability", ["round", "block"])
    @pytest.mark.sampled(4)
    def test_goes_on_after_ctrl_c(self, tmp_path, durability, often, request):
        """At the same point, which is the only one evaluated twice."""
        if often:
            request.getfixturevalue("often")
        place = tmp_path / "run.zarr"
        function = Function([1, 9, 20, 21], KeyboardInterrupt)
        for told in (0, 7, 17, 17):
            found = sb.maximize(function, self.make(), 25, store=place, durability=durability)
            assert (found.interrupted, len(found)) == (True, told)
            store = ObservationStore.open(place)
            assert (len(store), len(store.pending), store.planned) == (told, 1, 25)
        found = sb.maximize(function, self.make(), 25, store=place, durability=durability)
        assert function.calls == 25 + 4
        assert_same_maximum(found, sb.maximize(Function(), self.make(), 25))
        store = ObservationStore.open(place)
        assert (store.pending, store.orderly) == ([], True)

    def test_what_is_refused(self, tmp_path):
        place = tmp_path / "run.zarr"
        sb.maximize(Function(), self.make(), 5, store=place)
        before = described(place)
        with pytest.raises(sb.SpecificationDiffers, match=r"function\.function: stored '.*:Function', given '"):
            sb.maximize(other_function, self.make(), 9, store=place)
        with pytest.raises(sb.SpecificationDiffers, match=r"policy\.xi: stored 0\.0, given 0\.3"):
            sb.maximize(Function(), self.make(xi=0.3), 9, store=place)
        with pytest.raises(sb.SpecificationDiffers, match="kind: stored 'maximize', given 'record'"):
            sb.record(self.make(), place)
        told = self.make()
        told.tell([0.5, 0.0], 1.0)
        with pytest.raises(ValueError, match=r"^policy: got .*; allowed: a fresh one"):
            sb.maximize(Function(), told, 9, store=place)
        with pytest.raises(ValueError, match=r"^budget: got 0"):
            sb.maximize(Function(), self.make(), 0, store=place)
        assert described(place) == before
