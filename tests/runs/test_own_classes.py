"""Policies and environments of the user's own in stored runs: what they keep is known, or it is said that it is not."""

import warnings

import attrs
import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.environments import Environment
from scalable_bandits.formulas.confidence import Width
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.base import Best
from scalable_bandits.posteriors.state import undeclared
from scalable_bandits.runs import checkpointing
from scalable_bandits.store import SpecificationDiffers

LINE = sb.Grid([[0, 1]], 12)
F = sb.GPSample(LINE, sb.RBF(0.2), sb.GaussianNoise(0.1), seed=3)


@attrs.define(eq=False, kw_only=True, slots=False)
class Counting(sb.Policy):
    """UCB1 of one's own, with counts that no `STATE` declares."""

    counts: np.ndarray = attrs.field(init=False, factory=lambda: np.zeros(12))
    sums: np.ndarray = attrs.field(init=False, factory=lambda: np.zeros(12))

    def choose(self, allowed=None):
        counts = np.maximum(self.counts, 1.0)
        index = self.sums / counts + np.sqrt(2.0 * np.log(self.round) / counts)
        return int(np.argmax(np.where(self.counts > 0, index, np.inf)))

    def learn(self, candidate, y, noise_variance):
        self.counts[candidate] += 1.0
        self.sums[candidate] += y

    def moments(self, points):
        return np.zeros(len(points)), np.ones(len(points))

    def recommend(self):
        return Best(LINE.points([int(np.argmax(self.sums))])[0], 0.0, 1.0)


class Wide(sb.GPUCB):
    """A width of its own, and nothing that it keeps."""

    def width_formula(self):
        return Width.constant(3.0)


class Often(sb.GPUCB):
    """An `__init__` of its own, without attrs."""

    def __init__(self, space, kernel, often=0.1, **others):
        super().__init__(space, kernel, **others)
        self.often = often


class Renamed(Environment):
    """Keeps its length under another name."""

    def __init__(self, space, length, noise=None, seed=0):
        super().__init__(space, noise, seed)
        self._of_a_wave = length

    def evaluate(self, points):
        return np.cos(points[:, 0] / self._of_a_wave)


def test_without_a_state_all_rounds_are_replayed(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpointing.Checkpoints, "LEAST_SECONDS", 0.0)
    whole = sb.simulate(Counting(LINE), F, 90)
    with pytest.warns(UserWarning, match="all rounds are replayed where the run goes on, since Counting has no STATE"):
        sb.simulate(Counting(LINE), F, 40, store=tmp_path / "run")
    policy = Counting(LINE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        parts = sb.simulate(policy, F, 90, store=tmp_path / "run")
    np.testing.assert_array_equal(parts.candidate, whole.candidate)
    assert policy.counts.sum() == 90.0


def test_whose_state_is_known():
    assert undeclared(Counting) is Counting
    assert undeclared(Wide) is None
    assert undeclared(sb.GPUCB) is None
    declared = type("Declared", (Counting,), {"STATE": (), "learn": Counting.learn})
    assert undeclared(declared) is Counting
    for base, hook in ((sb.PEGPUCB, "credit"), (sb.PhasedElimination, "add_value"), (sb.GPUCB, "observe")):
        changing = type("Changing", (base,), {hook: getattr(base, hook), "helper": lambda self: None})
        assert undeclared(changing) is changing
        assert undeclared(type("Declared", (changing,), {})) is changing
    assert undeclared(type("Helped", (sb.GPUCB,), {"helper": lambda self: None})) is None  # which nothing calls


@pytest.mark.parametrize(
    ("chosen", "given", "allowed"),
    [
        (-1, {}, "from 0 to 11"), (12, {}, "from 0 to 11"), (3.7, {}, "from 0 to 11"), (None, {}, "from 0 to 11"),
        (4, {"available": [5, 6]}, "the mask `allowed` has as available"), (np.int64(5), {"available": [5, 6]}, None),
    ],
)  # fmt: skip
def test_what_an_own_policy_chooses_is_checked(chosen, given, allowed):
    policy = type("Own", (Counting,), {"choose": lambda self, allowed=None: chosen})(LINE)
    if allowed is None:
        assert policy.ask(**given).tolist() == LINE.points([chosen])[0].tolist()
        return
    with pytest.raises(ValueError, match=rf"^Own\.choose: got .*{allowed}"):
        policy.ask(**given)
    assert not len(policy.pending_points.numbers)


class Plain(Kernel):
    """A kernel with an `__init__` and without attrs."""

    def __init__(self, ell):
        self.ell = ell

    def fill(self, X, Z, out):
        out[...] = np.exp(-np.abs(X - Z.T) / self.ell)

    def diagonal(self, X):
        return np.ones(len(X))


def test_a_kernel_whose_arguments_are_not_known_is_refused_with_the_reason():
    with pytest.raises(TypeError, match=r"^Plain: its arguments are not known; decorate the class with @attrs\.frozen"):
        sb.simulate(sb.GPUCB(LINE, Plain(0.3)), F, 10)


def test_arguments_of_an_own_init_are_a_part_of_the_run(tmp_path):
    given = {"noise": 0.1, "scale": 5.0}
    assert Often(LINE, sb.RBF(0.2), often=0.9, **given).parameters()["often"] == 0.9
    sb.simulate(Often(LINE, sb.RBF(0.2), often=0.9, **given), F, 10, store=tmp_path / "run")
    with pytest.raises(SpecificationDiffers, match=r"policy\.often: stored 0\.9, given 0\.1"):
        sb.simulate(Often(LINE, sb.RBF(0.2), **given), F, 20, store=tmp_path / "run")
    assert len(sb.simulate(Often(LINE, sb.RBF(0.2), often=0.9, **given), F, 20, store=tmp_path / "run").regret) == 20


def test_an_argument_that_is_not_kept_is_refused_before_there_is_a_store(tmp_path):
    environment, policy = Renamed(LINE, 0.2), sb.GPUCB(LINE, sb.RBF(0.2), noise=0.1, scale=5.0)
    assert len(sb.simulate(policy, environment, 10).regret) == 10
    with pytest.raises(ValueError, match="environment: got 'Renamed, of which the store would not know length'"):
        sb.simulate(sb.GPUCB(LINE, sb.RBF(0.2), noise=0.1, scale=5.0), environment, 10, store=tmp_path / "run")
    assert not (tmp_path / "run").exists()
