"""Several priors in one compiled loop against rounds one by one: the same numbers, to the last bit."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from cases.policies import PROBLEMS, SHARED
from cases.rounds import Counted, assert_alike, assert_same, assert_same_state, environment_of, one_by_one

import scalable_bandits as sb
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy

KINDS = [sb.PEGPUCB, sb.MLEGPUCB, sb.FullyBayesianGPUCB, sb.RegretBalancing]
NAMES = ["pe", "mle", "bayes", "balance"]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=NAMES)


def make(kind: type, space: str = "grid", **given: Any) -> UnknownPriorPolicy:
    """A policy some of whose priors are out of the question."""
    problem = PROBLEMS[space]
    kernel = sb.Matern(0.1, nu=1.5) if space == "grid" else problem.kernel
    priors = [
        sb.Prior("plain", kernel), sb.Prior("wide", 2.0 * kernel), sb.Prior("off", kernel, 25.0),
        sb.Prior("low", kernel, -0.8), sb.Prior("far", kernel, 3.0),
    ]  # fmt: skip
    return kind(problem.space, given.pop("priors", priors), **{**SHARED, **given})


@every_kind
@pytest.mark.sampled(4)
def test_a_narrower_width(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, alone = make(kind, scale=5.0), make(kind, scale=5.0)
    counted, environment = Counted(monkeypatch, policy), environment_of(PROBLEMS["grid"])
    run = sb.simulate(policy, environment, 60)
    assert sum(counted.blocks) == 60
    assert_same(run, one_by_one(alone, environment, 60))


@every_kind
@pytest.mark.parametrize("space", ["grid", "arms"])
@pytest.mark.sampled(4)
def test_loops(kind: type, space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More points than a window has, rejections on the way; what follows is the same, too."""
    policy, alone = make(kind, space), make(kind, space)
    counted, environment = Counted(monkeypatch, policy), environment_of(PROBLEMS[space])
    run = sb.simulate(policy, environment, 400)
    assert sum(counted.blocks) == 400
    assert len(set(run.candidate.tolist())) > 64
    assert_same(run, one_by_one(alone, environment, 400))
    assert_same_state(policy, alone)
    assert policy.rejections == alone.rejections
    assert policy.plays == alone.plays
    assert policy.log_likelihoods == alone.log_likelihoods
    assert bool(policy.rejections) == (kind is sb.PEGPUCB or (kind is sb.RegretBalancing and space == "arms"))
    assert_alike((policy, alone), 1, lambda x: 0.3)
    assert_same(sb.simulate(policy, environment, 20), one_by_one(alone, environment, 20))
    np.testing.assert_equal(policy.best(), alone.best())


@every_kind
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_copies_go_their_own_ways(kind: type, copied: Any) -> None:
    """The arrays of all priors lie side by side; those of a copy elsewhere."""
    environment = environment_of(PROBLEMS["grid"])
    policy = make(kind)
    sb.simulate(policy, environment, 30)
    other = copied(policy)
    first = sb.simulate(policy, environment, 100)
    state = policy.state()
    assert_same(sb.simulate(other, environment, 100), first)
    assert_same_state(policy, other)
    sb.simulate(other, environment, 10)
    for name, value in policy.state().items():
        np.testing.assert_array_equal(value, state[name], err_msg=name)


def hopeless(**given: Any) -> UnknownPriorPolicy:
    kernel = 1e-6 * PROBLEMS["grid"].kernel
    return make(sb.PEGPUCB, priors=[sb.Prior("one", kernel, 20.0), sb.Prior("two", kernel, -20.0)], **given)


def test_nothing_is_played_once_every_prior_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_of(PROBLEMS["grid"])
    policy, alone = hopeless(), hopeless()
    counted = Counted(monkeypatch, policy)
    with pytest.raises(sb.PriorsExhausted) as raised:
        sb.simulate(policy, environment, 5000)
    with pytest.raises(sb.PriorsExhausted) as expected:
        one_by_one(alone, environment, 5000)
    assert str(raised.value) == str(expected.value)
    assert policy.rounds == alone.rounds == sum(counted.blocks)
    assert_same_state(policy, alone)


def test_the_last_prior_plays_on_after_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_of(PROBLEMS["grid"])
    policy, alone = hopeless(on_exhaustion="warn"), hopeless(on_exhaustion="warn")
    counted = Counted(monkeypatch, policy)
    with pytest.warns(UserWarning, match="continuing with") as warned:
        run = sb.simulate(policy, environment, 3000)
    assert len(warned) == 1
    with pytest.warns(UserWarning, match="continuing with"):
        assert_same(run, one_by_one(alone, environment, 3000))
    assert sum(counted.blocks) == 3000


class Trusting(sb.PEGPUCB):
    """A policy of the user's own, that rejects no prior."""

    def credit(self, t: int, y: float, share: float, mean: Any, std: Any) -> None:
        self.add_play(self.pick(mean), 0.0, 0.0, share)


def _seasonal(points: Any, t: int) -> Any:
    return np.full(len(points), np.sin(t))


@pytest.mark.parametrize("which", ["subclass", "seasonal", "forgetting", "tiled", "threads"])
def test_what_has_no_compiled_form_goes_the_usual_way(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = PROBLEMS["grid"].kernel
    given: dict[str, Any] = {
        "seasonal": {"priors": [sb.Prior("still", kernel), sb.Prior("seasonal", kernel, _seasonal)]},
        "forgetting": {"priors": [sb.Prior("still", kernel), sb.Prior("late", kernel * sb.TemporalDecay(0.1))]},
        "tiled": {"engine": "tiled"},
        "threads": {"on": "threads:2"},
    }.get(which, {})
    policy = make(Trusting if which == "subclass" else sb.PEGPUCB, **given)
    counted = Counted(monkeypatch, policy)
    sb.simulate(policy, environment_of(PROBLEMS["grid"]), 20)
    assert not counted.blocks
    if which == "subclass":
        assert not policy.rejections
