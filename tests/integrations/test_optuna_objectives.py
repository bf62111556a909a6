"""The sampler in Optuna's studies with several objectives."""

import functools
import math
import pickle
import subprocess
import sys

import numpy as np
import optuna
import pytest
from cases.paths import TESTS
from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

import scalable_bandits as sb
from scalable_bandits.formulas.hypervolume import hypervolume
from scalable_bandits.integrations.optuna import BanditSampler

optuna.logging.set_verbosity(optuna.logging.WARNING)
X = FloatDistribution(0.0, 10.0)
TWO, THREE = ["maximize", "minimize"], ["minimize", "maximize", "minimize"]
CONSTRAINED = pytest.mark.skipif(not hasattr(optuna.Trial, "set_constraint"), reason="from Optuna 5 on")


def losses(x, y):
    """Three values to be minimised; the first two are smallest at (0.9, 0.4) and (0.1, 1.6)."""
    return [(x - 0.9) ** 2 + (y - 0.4) ** 2, 3.0 + (x - 0.1) ** 2 + 0.5 * (y - 1.6) ** 2, (x - y) ** 2]


def objective(trial, directions=TWO):
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 2)
    trial.set_user_attr("cost", 1.5 - x - y)
    found = zip(losses(x, y), directions, strict=False)
    return [-value if direction == "maximize" else value for value, direction in found]


def cost(trial):
    return (trial.user_attrs["cost"],)


def played(sampler, trials, directions=TWO):
    study = optuna.create_study(directions=directions, sampler=sampler)
    study.optimize(functools.partial(objective, directions=directions), n_trials=trials)
    return study


def params(study):
    return [trial.params for trial in study.trials]


# ---- what policies are told


class Spy(sb.GPEHVI):
    """Policy that knows what it was told."""

    def __attrs_post_init__(self):
        super().__attrs_post_init__()
        self.told, self.failed = [], []

    def learn(self, candidate, y, noise_variance):
        values = {"values_0": 0.0 - y if self.minimize else y, "values_1": float(self._beside[0])}
        self.told.append((float(self.domain.value(candidate)["x"]), values))
        super().learn(candidate, y, noise_variance)

    def tell_failure(self, x, error=""):
        self.failed.append(float(np.ravel(x).item()))
        super().tell_failure(x, error)


def added(study, x, values=None, state=TrialState.COMPLETE):
    study.add_trial(optuna.create_trial(state=state, values=values, params={"x": x}, distributions={"x": X}))


def test_values_of_all_objectives_are_told_and_what_failed():
    """Of a pruned trial, each value or the median of those before it; an infinite one is a failure of all."""
    study = optuna.create_study(directions=TWO, sampler=BanditSampler(policy=Spy, seed=0))
    for x in (1.0, 2.0, 3.0):
        added(study, x, [x, -x])
    added(study, 4.0, [9.0, -9.0], TrialState.PRUNED)
    added(study, 5.0, [1.5, -1.5], TrialState.PRUNED)
    added(study, 6.0, None, TrialState.PRUNED)
    added(study, 7.0, None, TrialState.FAIL)
    added(study, 8.0, [0.0, math.inf])
    added(study, 9.0, [1e200, 0.0])
    policy = study.sampler.current_policy(study)
    expected = [(1.0, 1.0, -1.0), (2.0, 2.0, -2.0), (3.0, 3.0, -3.0), (4.0, 2.0, -2.0), (5.0, 1.5, -1.5)]
    assert policy.told == [(x, {"values_0": first, "values_1": second}) for x, first, second in expected]
    assert policy.failed == [6.0, 7.0, 8.0, 9.0]


def test_branches_are_told_to_the_policy():
    made = []

    def policy(space, **rest):
        made.append(sb.GPEHVI(space, **rest))
        return made[-1]

    def branches(trial):
        name = "left" if trial.suggest_categorical("kind", ["a", "b"]) == "a" else "right"
        x = trial.suggest_float(name, 0, 1)
        return x, x**2

    study = optuna.create_study(directions=TWO, sampler=BanditSampler(policy=policy, seed=1))
    study.optimize(branches, n_trials=12)
    assert made[-1].space.names == ("kind", "left", "right")
    assert made[-1].domain.values(range(11)) == [trial.params for trial in study.trials[:11]]


# ---- the front


@pytest.mark.parametrize(("directions", "kind"), [(TWO, sb.GPEHVI), (TWO[::-1], sb.GPEHVI), (THREE, sb.HypervolumeUCB)])
@pytest.mark.sampled(3)
def test_the_policy_has_the_best_trials(directions, kind):
    study = played(BanditSampler(seed=1), 25, directions)
    policy = study.sampler.current_policy(study)
    assert type(policy) is kind
    assert list(policy.directions.values()) == directions
    found = {(point.x["x"], point.x["y"]): list(point.values.values()) for point in policy.front()}
    assert found.keys() == {(trial.params["x"], trial.params["y"]) for trial in study.best_trials}
    for trial in study.best_trials:
        assert found[trial.params["x"], trial.params["y"]] == pytest.approx(trial.values, abs=1e-6)


@pytest.mark.parametrize("own", [False, pytest.param(True, marks=CONSTRAINED)])
@pytest.mark.sampled(2, first="False")
def test_constraints_beside(own):
    """As other samplers have them, or set by the objective; that of x + y >= 1.5 cuts off one end of the front."""

    def limited(trial):
        values = objective(trial)
        if own:
            trial.set_constraint("cost", trial.user_attrs["cost"])
        return values

    given = {} if own else {"constraints_func": cost}
    study = optuna.create_study(directions=TWO, sampler=BanditSampler(seed=3, **given))
    study.optimize(limited, n_trials=30)
    policy = study.sampler.current_policy(study)
    assert policy.constraints == {"cost" if own else "0": sb.AtMost(0.0)}
    best = study.best_trials
    assert {point.x["x"] for point in policy.front()} == {trial.params["x"] for trial in best}
    assert all(trial.user_attrs["cost"] <= 0 for trial in best)
    assert len(best) > 8
    chosen = [trial.user_attrs["cost"] <= 0 for trial in study.trials[15:]]
    assert sum(chosen) >= 10  # of fifteen; a third of the space is allowed


@pytest.mark.parametrize(
    ("directions", "worst"), [(TWO, [1.0, 5.0]), pytest.param(THREE, [1.0, 5.0, 1.0], marks=pytest.mark.long)]
)
@pytest.mark.slow
def test_more_of_the_front_than_random_search(directions, worst):
    """Hypervolume beyond a point, for each of two seeds."""
    for seed in range(2):
        volumes = []
        for sampler in (BanditSampler(seed=seed), optuna.samplers.RandomSampler(seed)):
            best = played(sampler, 25, directions).best_trials
            values = [[-value for value in losses(**trial.params)[: len(worst)]] for trial in best]
            volumes.append(hypervolume(np.array(values), -np.array(worst)))
        assert volumes[0] > volumes[1]


# ---- the same storage, the same trials


@pytest.mark.slow
@pytest.mark.parametrize("directions", [TWO, THREE])
def test_a_new_sampler_goes_on_like_the_old_one(directions):
    kept = played(BanditSampler(seed=5, constraints_func=cost), 16, directions)
    made = optuna.create_study(directions=directions)
    for number in range(16):
        made.sampler = pickle.loads(pickle.dumps(BanditSampler(seed=5, constraints_func=cost)))
        made.optimize(functools.partial(objective, directions=directions), n_trials=1)
        assert made.trials[number].params == kept.trials[number].params
    assert params(played(BanditSampler(seed=6), 3, directions)) != params(kept)[:3]


SCRIPT = """
import sys
from integrations.test_optuna_objectives import objective, opened
opened(sys.argv[1]).optimize(objective, n_trials=int(sys.argv[2]))
"""


def opened(path):
    storage = JournalStorage(JournalFileBackend(str(path)))
    given = {"directions": TWO, "sampler": BanditSampler(seed=3)}
    return optuna.create_study(study_name="one", storage=storage, load_if_exists=True, **given)


@pytest.mark.slow
def test_a_study_resumed_in_another_process(tmp_path):
    opened(tmp_path / "journal").optimize(objective, n_trials=12)
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT, tmp_path / "journal", "4"]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, cwd=TESTS, check=False)
    assert done.returncode == 0, done.stderr
    assert params(opened(tmp_path / "journal")) == params(played(BanditSampler(seed=3), 16))


# ---- policies that are given


def test_policies_that_are_given():
    """They are called with the objectives, whose names are those of Optuna's tables."""
    reference = {"values_0": -1.0, "values_1": 5.0}
    study = played(BanditSampler(policy=functools.partial(sb.GPEHVI, reference=reference), seed=0), 3)
    assert study.sampler.current_policy(study).reference_point == reference
    assert set(reference) < set(study.trials_dataframe().columns)
    study = played(BanditSampler(policy=sb.HypervolumeUCB, seed=0), 3)
    assert type(study.sampler.current_policy(study)) is sb.HypervolumeUCB


@pytest.mark.parametrize(
    ("policy", "directions", "error"),
    [
        (sb.GPUCB, TWO, "^policy: .*'objectives'; it is called with a space, seed=, minimize= and objectives="),
        (lambda space, objectives, **rest: sb.GPEI(space, **rest), TWO, "^policy: got .*a policy of the study's obj"),
        (lambda space, objectives, **rest: sb.GPEHVI(space, objectives=["a", "b"]), TWO, "^policy: got .*'values_0'"),
        (sb.GPEHVI, THREE, "^objectives: got .*; allowed: two; `HypervolumeUCB` takes more"),
    ],
)
def test_policies_that_are_refused(policy, directions, error):
    with pytest.raises((ValueError, TypeError), match=error):
        played(BanditSampler(policy=policy, seed=0), 2, directions)


@CONSTRAINED
def test_refuses_a_constraint_with_the_name_of_an_objective():
    def named(trial):
        trial.set_constraint("values_1", -1.0)
        return objective(trial)

    study = optuna.create_study(directions=TWO, sampler=BanditSampler(seed=0))
    with pytest.raises(ValueError, match=r"^constraints: got 'values_1'; allowed: names of outputs that are no obj"):
        study.optimize(named, n_trials=3)
