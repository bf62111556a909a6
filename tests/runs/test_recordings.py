"""Policies that are asked and told, and kept."""

import copy
import functools
import os
import pickle

import numpy as np
import pytest
import xarray
from cases.policies import EVERY_POLICY, PROBLEMS, on
from cases.store import (
    BOTH,
    Function,
    crash,
    described,
    everything,
)

import scalable_bandits as sb
from scalable_bandits.store import ObservationStore, StoreError, StoreLocked

pytest_plugins = ["cases.store_fixtures"]


def assert_same_policy(policy, twin, points):
    """They know the same, to the last bit, and choose the same."""
    assert policy.rounds == twin.rounds
    np.testing.assert_array_equal(policy.pending, twin.pending)
    if twin.rounds:
        np.testing.assert_array_equal(policy.best().x, twin.best().x)
        # The large engine's last bits follow what was asked in between (`best` and `posterior` too).
        np.testing.assert_allclose(policy.best()[1:], twin.best()[1:], rtol=1e-12)
    for found, expected in zip(policy.posterior(points), twin.posterior(points), strict=True):
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def use(policy, step):
    """One thing after another: asked singly and in batches, told in and out of order, with noise, and not asked."""
    function, space = Function(), policy.space
    draw = np.random.default_rng(step)
    match step % 9:
        case 0:
            x = policy.ask()
            policy.tell(x, function(x))
        case 1:
            policy.ask(3)
        case 2:
            x = policy.pending[-1]
            policy.tell(x, function(x), noise=0.3)
        case 3:
            policy.ask()
            policy.abandon(policy.pending[0])
        case 4:
            xs = policy.pending[::-1]
            policy.tell(xs, [function(x) for x in xs], noise=np.linspace(0.1, 0.5, len(xs)))
        case 5:
            xs = draw.integers(0, 90, 3) if isinstance(space, sb.Arms) else self_made(space, draw, 3)
            policy.tell(xs, [function(x) for x in xs])
        case 6:
            policy.ask(2)
            policy.abandon()
            policy.ask(2)
        case 7:
            x = policy.pending[0]
            xs = [x, x]
            policy.tell(xs, [function(x), function(x) + 0.1])
        case 8:
            policy.tell_failure(policy.ask(), "broken")
            policy.tell_failure(policy.pending[0] if policy.pending else self_made(space, draw, 1)[0])


def self_made(space, draw, count):
    """Points of a box that no candidate set has; candidates of any other space."""
    if isinstance(space, sb.Box):
        return np.array([[0, -1]]) + np.array([[1, 1.5]]) * draw.random((count, 2))
    return space.points()[draw.integers(0, space.size, count)]


def assert_same_pending(policy, twin):
    """The same points are pending, under the same numbers."""
    np.testing.assert_array_equal(policy.pending, twin.pending)
    numbers = (each.domain.numbered.index(each.pending) if each.pending else [] for each in (policy, twin))
    np.testing.assert_array_equal(*numbers)


@pytest.mark.usefixtures("small")
class TestRecordings:
    """What a policy is asked and told is kept, and told again."""

    @staticmethod
    def play(name, space, place, ends, steps=17, durability="round", singly=False, **given):
        """One step after another, with an end of the process after some; the last is left open."""
        problem, case = PROBLEMS[space], EVERY_POLICY[name]
        twin = case.make(problem, **given)
        points = (
            problem.space.points()[:9] if "box" not in space else self_made(problem.space, np.random.default_rng(0), 9)
        )
        policy = case.make(problem, **given)
        held = sb.record(policy, place, durability=durability)
        for step in range(steps):
            for one in (policy, twin):
                use(one, 0 if singly else step)
            if step in ends:
                held.close()
                policy = case.make(problem, **given)
                held = sb.record(policy, place, durability=durability)
                assert_same_policy(policy, twin, points)
        assert_same_policy(policy, twin, points)
        return held, policy, twin

    @on(["points"], EVERY_POLICY)
    @pytest.mark.sampled(20, slow=8)
    def test_every_policy(self, name, space, tmp_path):
        held, policy, twin = self.play(name, space, tmp_path / "run.zarr", (1, 4, 9, 14))
        np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
        held.close()

    @pytest.mark.parametrize("name", ["igpucb", "ei", "variance", "ts"])
    @pytest.mark.sampled(4)
    def test_a_whole_box(self, name, tmp_path):
        """Where points exist only because they were asked for; those abandoned keep their numbers to themselves."""
        held, policy, twin = self.play(name, "whole box", tmp_path / "run.zarr", (0, 1, 4, 6, 9, 14))
        assert policy.domain.size == twin.domain.size
        assert_same_pending(policy, twin)
        np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
        assert_same_pending(policy, twin)
        held.close()

    @pytest.mark.usefixtures("often")
    @on(["whole box"], EVERY_POLICY)
    @pytest.mark.sampled(20, slow=8)
    @pytest.mark.slow
    def test_every_policy_from_checkpoints(self, name, space, tmp_path):
        held, policy, twin = self.play(name, space, tmp_path / "run.zarr", (3, 8, 16))
        np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
        held.close()

    @pytest.mark.usefixtures("small_tiles")
    @pytest.mark.parametrize("singly", [True, False])
    @pytest.mark.parametrize("space", ["grid", "box"])
    @pytest.mark.parametrize("name", ["gpucb-1", "igpucb", "ei", "variance"])
    @pytest.mark.sampled(10)
    def test_by_blocks(self, name, space, singly, tmp_path):
        """Where asking leaves traces in the last bits."""
        place = tmp_path / "run.zarr"
        held, policy, twin = self.play(name, space, place, (5, 12, 30), 40, singly=singly, engine="tiled")
        np.testing.assert_array_equal(policy.ask(3), twin.ask(3))
        held.close()

    @BOTH
    @pytest.mark.sampled(10)
    def test_every_durability(self, durability, tmp_path):
        place = tmp_path / "run.zarr"
        held, _, twin = self.play("igpucb", "box", place, (1, 4, 6, 11), durability=durability)
        held.close()
        store = ObservationStore.open(place)
        assert (len(store), store.orderly) == (twin.rounds, True)

    def test_what_was_not_asked_for(self, tmp_path):
        """It is no play of a choice to the policy that is made of the store, as it was none to the first."""
        options = {"noise": 1.0, "regularization": 1.0, "shrinkage": 3.0}
        policy, again = (sb.MiniGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.1), **options) for _ in range(2))
        place = tmp_path / "run.zarr"
        with sb.record(policy, place) as held:
            policy.tell([0.0], 3.0)
            policy.tell(policy.ask(), 1.0)
            np.testing.assert_array_equal(held.store.read(names=["call"])["call"], [-1, 2])
        with sb.record(again, place):
            assert again.choices == 1
            assert again.ask() == policy.ask()

    def test_what_is_kept(self, tmp_path):
        """Of every observation: the call, the point and its candidate, the value, its noise where it was given."""
        policy = EVERY_POLICY["ei"].make(PROBLEMS["grid"])
        with sb.record(policy, tmp_path / "run.zarr", planned=10):
            first = policy.ask(2)
            policy.tell(first[1], 1.0)
            policy.tell([first[0], [0.0, 2.0]], [2.0, 3.0], noise=[0.2, 0.3])
        with xarray.open_zarr(tmp_path / "run.zarr", consolidated=False) as dataset:
            np.testing.assert_array_equal(dataset["call"], [1, 2, -2])  # the last was not asked for
            np.testing.assert_array_equal(dataset["x"], [first[1], first[0], [0.0, 2.0]])
            np.testing.assert_array_equal(dataset["candidate"], policy.space.index(dataset["x"].to_numpy()))
            np.testing.assert_array_equal(dataset["y"], [1.0, 2.0, 3.0])
            np.testing.assert_array_equal(dataset["noise"], [np.nan, 0.2, 0.3])
            assert dataset.attrs["planned"] == 10
            assert dataset.attrs["specification"]["policy"]["type"] == "GPEI"

    @pytest.mark.parametrize("durability", ["round", "flushed"])
    @pytest.mark.sampled(5)
    def test_owed_after_a_crash(self, durability, tmp_path):
        """`ask` gives first what was asked for and not told, in order; then it chooses anew."""
        make = functools.partial(EVERY_POLICY["ts"].make, PROBLEMS["arms"])
        policy, place = make(), tmp_path / "run.zarr"
        durability = "round" if durability == "round" else "block"
        held = sb.record(policy, place, durability=durability)
        asked = policy.ask(4)
        policy.tell(asked[1], 0.5)
        policy.abandon(asked[2])
        if durability == "block":
            held.flush()
        crash(held.store)
        again = make()
        held = sb.record(again, place, durability=durability)
        owed = [asked[0], asked[3]]
        assert (again.pending, again.rounds) == (owed, 1)
        assert again.ask() == owed[0]
        assert again.pending == owed
        crash(held.store)
        again = make()
        held = sb.record(again, place)  # given again or not, they are owed
        given = again.ask(3)
        assert given[:2].tolist() == owed
        assert again.pending == given.tolist()
        again.tell(given, [0.1, 0.2, 0.3])
        assert again.pending == []
        held.close()
        assert ObservationStore.open(place).pending == []

    def test_owed_and_not_available(self, tmp_path):
        """What is owed waits until it is available."""
        make = functools.partial(EVERY_POLICY["igpucb"].make, PROBLEMS["arms"])
        policy = make()
        held = sb.record(policy, tmp_path / "run.zarr")
        asked = policy.ask(2).tolist()
        crash(held.store)
        again = make()
        with sb.record(again, tmp_path / "run.zarr"):
            others = [arm for arm in range(90) if arm not in asked]
            new = again.ask(available=others)
            assert new in others
            assert again.ask(available=[asked[1], *others]) == asked[1]
            assert again.ask() == asked[0]
            assert sorted(again.pending) == sorted([*asked, new])

    @pytest.mark.sampled(5)
    def test_pending_after_an_orderly_end(self, tmp_path):
        """Stays so, and is not asked for again."""
        make = functools.partial(EVERY_POLICY["igpucb"].make, PROBLEMS["arms"])
        policy, twin, place = make(), make(), tmp_path / "run.zarr"
        with sb.record(policy, place):
            asked = policy.ask(3).tolist()
        twin.ask(3)
        for _ in range(2):
            again = make()
            with sb.record(again, place):
                assert again.pending == asked
        again = make()
        with sb.record(again, place):
            new = again.ask(2)
            np.testing.assert_array_equal(new, twin.ask(2))
            again.tell(asked[1], 1.0)
            assert again.pending == [asked[0], asked[2], *new]
        store = ObservationStore.open(place)
        assert (store.pending, store.orderly) == ([asked[0], asked[2], *new], True)

    @pytest.mark.parametrize("told", [0, 2])
    @pytest.mark.parametrize("kind", [sb.RandomSearch, sb.GPEI])
    def test_an_exception_leaves_settings_owed(self, kind, told, tmp_path):
        space = sb.SearchSpace({"rate": sb.Real(0.0, 1.0), "side": ["left", "right"]})
        policy = kind(space)
        held = sb.record(policy, tmp_path / "run")
        for _ in range(told):
            policy.tell(policy.ask(), 1.0)
        asked = policy.ask(2)
        with pytest.raises(ZeroDivisionError), held:
            raise ZeroDivisionError
        policy = kind(space)
        with sb.record(policy, tmp_path / "run"):
            assert policy.pending == asked
            assert policy.ask(2) == asked

    def test_stored_but_not_learned(self, tmp_path, monkeypatch):
        """Workers were gone, or somebody pressed Ctrl-C: it is not stored twice, and the next policy learns it."""
        policy, twin, again = (EVERY_POLICY["ei"].make(PROBLEMS["box"]) for _ in range(3))
        with sb.record(policy, tmp_path / "run.zarr") as held:
            x = policy.ask()
            with monkeypatch.context() as broken:
                broken.setattr(type(policy), "learn", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    policy.tell(x, 0.5)
            with pytest.raises(StoreError, match="an observation that the policy has not learned"):
                policy.tell(x, 0.5)
            assert len(held.store) == 1
        twin.tell(twin.ask(), 0.5)
        with sb.record(again, tmp_path / "run.zarr"):
            assert_same_policy(again, twin, [[0.1, 0.1]])

    def test_used_on_unrecorded(self, tmp_path):
        """A policy whose recording has ended."""
        policy, twin = (EVERY_POLICY["ei"].make(PROBLEMS["box"]) for _ in range(2))
        with sb.record(policy, tmp_path / "run.zarr"):
            use(policy, 0)
        use(twin, 0)
        before = everything(tmp_path)
        for step in range(4):
            use(policy, step)
            use(twin, step)
        assert everything(tmp_path) == before
        assert_same_policy(policy, twin, [[0.1, 0.1]])

    def test_what_is_refused_is_not_kept(self, tmp_path):
        policy = EVERY_POLICY["ei"].make(PROBLEMS["box"])
        with sb.record(policy, tmp_path / "run.zarr") as held:
            asked = policy.ask()
            for x, y in ((asked, np.nan), ([7.0, 7.0], 1.0), ([asked, asked], [1.0])):
                with pytest.raises(ValueError, match="got"):
                    policy.tell(x, y)
            with pytest.raises(ValueError, match="got"):
                policy.abandon([0.5, 0.0])
            assert len(held.store) == 0
            assert len(held.store.pending) == 1
            policy.tell(asked, 1.0)
        assert len(ObservationStore.open(tmp_path / "run.zarr")) == 1

    def test_one_recording(self, tmp_path):
        make = functools.partial(EVERY_POLICY["ei"].make, PROBLEMS["grid"])
        with sb.record(make(), tmp_path / "run.zarr"), pytest.raises(StoreLocked, match=str(os.getpid())):
            sb.record(make(), tmp_path / "run.zarr")

    def test_another_policy(self, tmp_path):
        place = tmp_path / "run.zarr"
        policy = EVERY_POLICY["ei"].make(PROBLEMS["grid"])
        with sb.record(policy, place):
            use(policy, 0)
            policy.ask(2)
        before = described(place)
        with pytest.raises(sb.SpecificationDiffers, match=r"policy\.regularization: stored 0\.05, given 0\.5"):
            sb.record(EVERY_POLICY["ei"].make(PROBLEMS["grid"], regularization=0.5), place, planned=7)
        with pytest.raises(ValueError, match=r"^policy: got .*told 1 rounds and has 2 pending.*; allowed: a fresh one"):
            sb.record(policy, place)
        with pytest.raises(sb.SpecificationDiffers, match=r"lab: stored nothing, given 'north'"):
            sb.record(EVERY_POLICY["ei"].make(PROBLEMS["grid"]), place, parts={"lab": "north"})
        assert described(place) == before


def made():
    return sb.IGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.2), noise=0.1, regularization=0.01)


@pytest.mark.parametrize("kind", [sb.IGPUCB, sb.PEGPUCB])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_a_copy_of_a_recorded_policy_is_not_recorded(kind, copied, tmp_path):
    """It knows and chooses the same; what it is told then is no part of the run."""
    prior = sb.RBF(0.2) if kind is sb.IGPUCB else [sb.Prior("a", sb.RBF(0.2)), sb.Prior("b", sb.RBF(0.1))]
    policy = kind(sb.Grid([[0, 1]], 11), prior, noise=0.1, regularization=0.01)
    with sb.record(policy, tmp_path / "run.zarr") as recording:
        policy.tell([0.3], 1.0)
        policy.ask(2)
        twin = copied(policy)
        assert_same_policy(policy, twin, np.array([[0.1], [0.7]]))
        assert twin.ask() == policy.ask()
        twin.tell([0.5], 2.0)
        assert policy.rounds == len(recording.store) == 1
        policy.tell([0.9], 0.5)
    assert ObservationStore.open(tmp_path / "run.zarr").read(names=["y"])["y"].tolist() == [1.0, 0.5]


def test_a_recorded_policy_is_not_recorded_elsewhere_nor_simulated(tmp_path):
    """The first recording would miss what comes then, and go on as if there had been nothing."""
    policy, environment = made(), sb.TableEnvironment(sb.Grid([[0, 1]], 11), np.zeros(11))
    taken = r"^policy: got 'a policy that an open recording records'; allowed: a policy without"
    with sb.record(policy, tmp_path / "run.zarr"):
        for store in (None, tmp_path / "other.zarr"):
            with pytest.raises(ValueError, match=taken):
                sb.simulate(policy, environment, 3, store=store)
        with pytest.raises(ValueError, match=taken):
            sb.record(policy, tmp_path / "other.zarr")
        with pytest.raises(ValueError, match=taken):
            sb.maximize(Function(), policy, 3, store=tmp_path / "other.zarr")
        with pytest.raises(ValueError, match=taken):
            sb.maximize(Function(), policy, 3)
    assert not (tmp_path / "other.zarr").exists()
    assert len(ObservationStore.open(tmp_path / "run.zarr")) == policy.rounds == 0
    sb.simulate(policy, environment, 3)  # closed, it is nobody's


@BOTH
def test_a_pending_point_among_many_that_are_told_at_once(tmp_path, durability):
    """It is told, in the store too, whose rounds go to the arrays without rows of their own."""
    make = functools.partial(EVERY_POLICY["igpucb"].make, PROBLEMS["arms"])
    policy = make()
    with sb.record(policy, tmp_path / "run.zarr", durability=durability) as held:
        asked = policy.ask(2)
        held.flush()
        policy.tell(np.full(1000, asked[0]), np.zeros(1000))
        held.flush()
        assert held.store.pending == policy.pending == [asked[1]]
        assert held.store.contents.state.rounds == 1000
    again = make()
    with sb.record(again, tmp_path / "run.zarr"):
        assert (again.rounds, again.pending) == (1000, [asked[1]])
    assert sb.check(tmp_path / "run.zarr")[0].whole


def test_points_that_were_and_were_not_asked_for_in_one_call(tmp_path):
    """Each is told again as it was: only those that were asked for move the dual variable."""

    def made():
        return sb.CKB(
            sb.Grid([[0, 1]], 21), sb.RBF(0.3), constraints={"price": sb.AtMost(0.5)}, horizon=60, rho=8.0, noise=0.1,
            regularization=0.01,
        )  # fmt: skip

    policy, again = made(), made()
    with sb.record(policy, tmp_path / "recording"):
        for _ in range(6):
            x = policy.ask()
            own = {"gain": float(x[0]), "price": float(x[0])}
            policy.tell([x, [1.0]], [own, {"gain": 1.0, "price": 1.7}])
    with sb.record(again, tmp_path / "recording"):
        pass
    assert again.dual_variables == policy.dual_variables
    assert 0.0 < policy.dual_variables["price"] < 0.1
    np.testing.assert_array_equal(again.ask(), policy.ask())


@pytest.mark.parametrize("count", [3, 1200])
def test_a_recording_says_of_each_point_whether_it_was_asked_for(tmp_path, count):
    policy = sb.RandomSearch(sb.Box([[0, 1]]), seed=1)
    with sb.record(policy, tmp_path / "recording"):
        x = policy.ask(2)
        others = np.linspace(0.0, 1.0, count - 2)[:, None]
        policy.tell(np.concatenate([x[:1], others, x[1:]]), np.zeros(count))
    calls = ObservationStore.open(tmp_path / "recording").read(names=["call"])["call"]
    assert (calls > 0).tolist() == [True, *[False] * (count - 2), True]
    assert len(set(np.abs(calls).tolist())) == 1


@pytest.mark.parametrize("given_up", [True, False])
def test_the_order_of_what_is_pending_twice(given_up, tmp_path):
    """The first of two is given up, and the second one asked for is the new one; policies go by the last."""

    def use(policy):
        for arm in (0, 1, 0):
            policy.ask(available=[arm])
        if given_up:
            policy.abandon(0)
        return policy

    def make():
        return sb.MiniGPUCB(sb.Arms(3), sb.Covariance(np.eye(3)), shrinkage=3.0)

    twin = use(make())
    with sb.record(policy := make(), tmp_path / "run"):
        use(policy)
    with sb.record(again := make(), tmp_path / "run"):
        assert again.pending == twin.pending == ([1, 0] if given_up else [0, 1, 0])
        np.testing.assert_array_equal(again.ask(4), twin.ask(4))
