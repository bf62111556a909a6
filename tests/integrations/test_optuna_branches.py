"""Studies with branches: parameters that a trial has where another one has some values."""

import math
from collections import Counter

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrations.test_optuna import Spy, params
from scalable_bandits.integrations.optuna import BanditSampler
from scalable_bandits.integrations.optuna_study import ParameterGroups, TrialSpace, dependent, key_of


def models(trial):
    """Two models; the one that is worse in the end is better in most trials."""
    if trial.suggest_categorical("model", ["forest", "machine"]) == "forest":
        return 0.5 + 0.02 * abs(trial.suggest_int("depth", 1, 20) - 6)
    c, gamma = trial.suggest_float("c", 1e-3, 1e3, log=True), trial.suggest_float("gamma", 1e-4, 10, log=True)
    return 0.2 + 0.15 * (math.log10(c) - 1) ** 2 + 0.15 * (math.log10(gamma) + 2) ** 2


def layers(trial):
    """Each layer has its size; the number of layers says how many there are."""
    count, rate = trial.suggest_int("layers", 1, 4), trial.suggest_float("rate", 1e-5, 0.1, log=True)
    sizes = [trial.suggest_int(f"size {i}", 8, 256, log=True) for i in range(count)]
    away = [(math.log2(size) - 7 + 0.5 * i) ** 2 for i, size in enumerate(sizes)]
    return 0.2 * (math.log10(rate) + 3) ** 2 + 0.1 * abs(count - 3) + 0.05 * sum(away) / count


def boosters(trial):
    """A branch within a branch, and a name whose range is another one in each."""
    booster = trial.suggest_categorical("booster", ["linear", "tree", "dart"])
    loss = 0.02 * (math.log10(trial.suggest_float("lambda", 1e-8, 1, log=True)) + 4) ** 2
    if booster == "linear":
        return loss + 0.6 + 0.1 * trial.suggest_float("alpha", 0, 1)
    loss += 0.03 * abs(trial.suggest_int("depth", 1, 9 if booster == "tree" else 5) - 4)
    loss += 0.1 * (math.log10(trial.suggest_float("eta", 1e-4, 1, log=True)) + 1.5) ** 2
    return loss + (0.05 + 0.3 * (trial.suggest_float("drop", 0, 1) - 0.3) ** 2 if booster == "dart" else 0.2)


@pytest.mark.parametrize(("objective", "count", "least"), [(models, 30, 0.2), (layers, 40, 0.0), (boosters, 45, 0.05)])
@pytest.mark.sampled(3, slow=2, first="models")
def test_the_best_branch_is_found_and_tuned(objective, count, least):
    study = optuna.create_study(sampler=BanditSampler(seed=3))
    study.optimize(objective, n_trials=count)
    assert study.best_value < least + 0.02
    assert max(Counter(map(str, params(study))).values()) <= 6


@pytest.mark.parametrize("group", [True, False])
def test_one_policy_has_all_branches(group):
    made = []

    def policy(space, seed, minimize):
        made.append(Spy(space, seed=seed))
        return made[-1]

    study = optuna.create_study(sampler=BanditSampler(policy=policy, seed=1, group=group))
    study.optimize(models, n_trials=20)
    names = {each.space.names for each in made}
    assert ("model",) in names or group
    assert (("model", "c", "gamma", "depth") in names) == group
    if group:
        last = max(made, key=lambda each: each.rounds)
        assert [setting for setting, _ in last.told] == params(study)[:19]
        model, *others = dict(zip(last.space.names, last.space.kinds, strict=True)).values()
        assert model.when is None
        assert [each.when for each in others] == [(("model", ("machine",)),)] * 2 + [(("model", ("forest",)),)]


def test_what_depends_on_no_value_of_a_parameter_has_a_policy_of_its_own():
    made = []

    def policy(space, seed, minimize):
        made.append(Spy(space, seed=seed))
        return made[-1]

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        return x + (trial.suggest_float("y", 0, 1) if x < 0.5 else 0.0)

    study = optuna.create_study(sampler=BanditSampler(policy=policy, seed=1))
    study.optimize(objective, n_trials=20)
    assert {each.space.names for each in made} == {("x", "y"), ("x",), ("y",)}
    last = max((each for each in made if each.space.names == ("y",)), key=lambda each: each.rounds)
    having = [trial.params["y"] for trial in study.trials if "y" in trial.params]
    assert len(having) > 4
    assert [setting["y"] for setting, _ in last.told] == having[: last.rounds]
    assert last.rounds >= len(having) - 1


@pytest.mark.filterwarnings("ignore:.*(not be persistable|out of range)", "ignore:Choices for a categorical")
@pytest.mark.parametrize("sets", [True, False])
def test_unusual_values_of_a_parent(sets):
    """Sets as categories, which are their texts; and a number outside its distribution, which was enqueued."""
    choices = [frozenset({1}), frozenset({1, 2})] if sets else [1, 2]

    def objective(trial):
        count = trial.suggest_int("count", 1, 4)
        opened = trial.suggest_categorical("features", choices)
        x = trial.suggest_float("x", 0, 1) if opened == choices[0] else 0.5
        return count + x + (trial.suggest_float("y", 0, 1) if count > 2 else 1.0)

    study = optuna.create_study(sampler=BanditSampler(seed=4))
    study.enqueue_trial({"count": 9})
    study.optimize(objective, n_trials=16)
    assert params(study)[0]["count"] == 9
    assert study.best_value < 2.2


def test_a_value_of_a_branch_that_is_given():
    study = optuna.create_study(sampler=BanditSampler(seed=2))
    study.optimize(models, n_trials=14)
    for values in ({"model": "machine", "c": 30.0}, {"model": "forest"}, {"model": "forest", "depth": 3}):
        study.enqueue_trial(values)
        study.optimize(models, n_trials=1)
        assert values.items() <= study.trials[-1].params.items()


@pytest.mark.parametrize("objective", [models, layers, boosters])
@pytest.mark.sampled(3, slow=1)
def test_a_new_sampler_goes_on_like_the_old_one(objective):
    kept, made = (optuna.create_study(sampler=BanditSampler(seed=5)) for _ in range(2))
    kept.optimize(objective, n_trials=16)
    for _ in range(16):
        made.sampler = BanditSampler(seed=5)
        made.optimize(objective, n_trials=1)
    assert params(made) == params(kept)


def test_running_trials_of_a_branch_are_pending():
    """Also with what was chosen for them and they have not suggested yet."""
    study = optuna.create_study(sampler=BanditSampler(seed=1))
    study.optimize(models, n_trials=12)
    running = [study.ask() for _ in range(3)]
    for trial in running:
        models(trial)
    assert len({str(trial.params) for trial in running}) == 3


# ---- what depends on what

CHOICES = optuna.distributions.CategoricalDistribution(["a", "b", None])
WHOLE = optuna.distributions.IntDistribution(0, 3)


def drawn_tree(rng, again, depth=0, path=""):
    """A parameter, and by its values the trees that are there besides."""
    distribution = (CHOICES, WHOLE)[rng.integers(2)]
    values = CHOICES.choices if distribution is CHOICES else range(4)
    below = [
        drawn_tree(rng, again, depth + 1, f"{path}{i}") if depth < 3 and rng.random() < 0.5 else []
        for i in range(len(values))
    ]
    # Some names occur again in other branches, with the same distribution or another.
    name = f"p{rng.integers(3)} at {depth}" if rng.random() < again else f"p{path}"
    return [(name, distribution, dict(zip(values, below, strict=True)))]


def drawn_trial(rng, tree):
    found, distributions = {}, {}
    for name, distribution, below in tree:
        value = list(below)[rng.integers(len(below))]
        found[name], distributions[name] = value, distribution
        more, others = drawn_trial(rng, below[value])
        found, distributions = {**more, **found}, {**others, **distributions}
    return found, distributions


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([0.0, 0.3]))
def test_completed_trials_are_points_of_the_space(seed, count, again):
    """And their points are their values, whatever depends on whatever."""
    rng = np.random.default_rng(seed)
    tree = [*drawn_tree(rng, again, 0, "x"), *drawn_tree(rng, again, 1, "y")]
    groups, trials = ParameterGroups(), []
    for _ in range(count):
        values, distributions = drawn_trial(rng, tree)
        trials.append(optuna.trial.create_trial(value=0.0, params=values, distributions=distributions))
        groups.add(trials[-1])
    common = groups.of_all_trials()
    if not common:
        return
    branches = dependent(common, groups.branches())
    space = TrialSpace(common, branches)
    points = np.array([space.point(trial) for trial in trials])
    np.testing.assert_array_equal(space.space.check(points), points)
    held = {
        key_of(name, each)
        for part in (common, *(branch.distributions for branch in branches))
        for name, each in part.items()
    }
    if again == 0.0:
        assert held == {key_of(name, each) for trial in trials for name, each in trial.distributions.items()}
    for trial, point in zip(trials, points, strict=True):
        kept = {n: d.to_internal_repr(trial.params[n]) for n, d in trial.distributions.items() if key_of(n, d) in held}
        assert space.internal(point) == kept
