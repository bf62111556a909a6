"""The sampler for Optuna: what it promises beyond Optuna's own tests, which are in `test_optuna_suite.py`."""

import functools
import importlib
import math
import pickle
import sys
from datetime import datetime, timedelta

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import scalable_bandits as sb
from scalable_bandits.integrations.optuna import BanditSampler

optuna.logging.set_verbosity(optuna.logging.WARNING)


# ---- what policies are told

X = FloatDistribution(0.0, 10.0)


class Spy(sb.RandomSearch):
    """Random search that knows what it was told, and what was pending when it was asked."""

    def __attrs_post_init__(self):
        super().__attrs_post_init__()
        self.told, self.pending_then = [], []

    def observe(self, candidate, y, noise_variance=None):
        self.told.append((self.domain.value(candidate), y))
        super().observe(candidate, y, noise_variance)

    def choose(self, allowed=None):
        self.pending_then.append([self.domain.value(number) for number in self.pending_points.numbers])
        return super().choose(allowed)


def spy(space, seed, minimize):
    return Spy(space, seed=seed)


def spied(direction="minimize", **options):
    sampler = BanditSampler(policy=spy, seed=0, **options)
    return optuna.create_study(direction=direction, sampler=sampler)


def added(study, x, value=None, state=TrialState.COMPLETE, **more):
    """Add a trial that ended now."""
    study.add_trial(
        optuna.create_trial(state=state, value=value, params={"x": x}, distributions={"x": X}, **more)
    )  # fmt: skip


def told(study):
    """What the policy of the parameters of all trials was told: x and y, for smaller is better."""
    policy = study.sampler.current_policy(study)
    sign = 1.0 if study.direction.name == "MAXIMIZE" else -1.0
    return [(setting["x"], sign * y) for setting, y in policy.told]


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_completed_trials_are_told_in_the_order_in_which_they_end(direction):
    study = spied(direction)
    trials = [study.ask({"x": X}) for _ in range(3)]
    for i in (1, 0):
        study.tell(trials[i], float(i))
    assert told(study) == [(trials[1].params["x"], 1.0), (trials[0].params["x"], 0.0)]
    study.tell(trials[2], 2.0)
    assert told(study)[2:] == [(trials[2].params["x"], 2.0)]


@pytest.mark.parametrize(
    "value",
    [math.inf, -math.inf, 1e200, -1.7976931348623157e308, None],
    ids=["inf", "-inf", "large", "-large", "failed"],
)
def test_evaluations_without_a_value(value):
    """They are not told, and not chosen again."""
    study = spied()
    added(study, 1.0, 5.0)
    added(study, 2.0, value, TrialState.FAIL if value is None else TrialState.COMPLETE)
    assert told(study) == [(1.0, 5.0)]
    study.ask({"x": X})
    assert study.sampler.current_policy(study).pending_then[-1] == [{"x": 2.0}]


def test_a_setting_that_fails_is_not_asked_for_again():
    """Also where the trial fails before it comes to all of its parameters."""
    study = optuna.create_study(sampler=BanditSampler(seed=0))
    asked = []

    def objective(trial):
        asked.append(trial.relative_params)
        if trial.suggest_float("x", 0, 1) > -1 and trial.number > 1:
            raise ArithmeticError
        return trial.suggest_float("y", 0, 1)

    study.optimize(objective, n_trials=25, catch=ArithmeticError)
    chosen = [tuple(values.values()) for values in asked if values]
    assert len(chosen) >= 23
    assert len(set(chosen)) == len(chosen)


def test_failures_that_are_not_avoided():
    """The setting is chosen again; one without a value is avoided all the same."""
    study = optuna.create_study(sampler=BanditSampler(seed=0, avoid_failures=False))
    added(study, 1.0, 5.0)
    first = study.ask({"x": X})
    study.tell(first, state=TrialState.FAIL)
    second = study.ask({"x": X})
    study.tell(second, math.inf)
    assert second.params == first.params
    assert study.ask({"x": X}).params != first.params


def test_a_space_of_which_everything_failed():
    """The study goes on, with random values."""
    study = optuna.create_study(sampler=BanditSampler(seed=0))

    def objective(trial):
        value = trial.suggest_categorical("c", [1, 2, 3])
        if 0 < trial.number < 12:
            raise ArithmeticError
        return value

    study.optimize(objective, n_trials=18, catch=ArithmeticError)
    assert study.best_value == 1
    assert {each["c"] for each in params(study)} == {1, 2, 3}


@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1.0), ("maximize", -1.0)])
def test_pruned_trials(direction, sign):
    """The last report, or the median of what was completed before if that is worse; none without a report."""
    study = spied(direction)
    for value in (1.0, 2.0, 3.0):
        added(study, value, sign * value)
    for value in (2.5, 1.5, None):
        added(study, 5.0, None if value is None else sign * value, TrialState.PRUNED)
    added(study, 9.0, sign * 0.5)
    added(study, 6.0, sign * 1.7, TrialState.PRUNED)
    assert [y * sign for _, y in told(study)] == [1.0, 2.0, 3.0, 2.5, 2.0, 0.5, 2.0]


def test_a_trial_that_is_pruned_by_optuna():
    study = optuna.create_study(sampler=BanditSampler(policy=spy, seed=0))

    def objective(trial):
        x = trial.suggest_float("x", 0, 10)
        trial.report(x + 7.0, step=3)
        trial.report(x + 5.0, step=4)
        if trial.number == 2:
            raise optuna.TrialPruned
        return x

    study.optimize(objective, n_trials=3)
    x = [trial.params["x"] for trial in study.trials]
    assert told(study) == [(x[0], x[0]), (x[1], x[1]), (x[2], max(x[2] + 5.0, *x[:2]))]


def test_running_trials_are_pending():
    study = spied()
    added(study, 1.0, 5.0)
    first = study.ask({"x": X})
    study.enqueue_trial({"x": 7.0})
    enqueued = study.ask()  # has not suggested x yet
    study.ask({"x": X})
    policy = study.sampler.current_policy(study)
    assert policy.pending_then == [[], [{"x": first.params["x"]}, {"x": 7.0}]]
    study.tell(first, 1.0)
    enqueued.suggest_float("x", 0, 10)
    study.tell(enqueued, 2.0)
    study.ask({"x": X})
    policy = study.sampler.current_policy(study)
    assert len(policy.pending_then[-1]) == 1
    assert told(study)[1:] == [(first.params["x"], 1.0), (7.0, 2.0)]


def test_enqueued_values_outside_of_their_distribution_are_not_told():
    study = spied()
    study.enqueue_trial({"x": 2.0})
    study.enqueue_trial({"x": 20.0})
    with pytest.warns(UserWarning, match="out of range"):
        study.optimize(lambda trial: trial.suggest_float("x", 0, 10), n_trials=3)
    assert [trial.params["x"] for trial in study.trials][:2] == [2.0, 20.0]
    assert [x for x, _ in told(study)] == [2.0, study.trials[2].params["x"]]


@pytest.mark.parametrize("group", [True, False])
def test_some_values_of_a_trial_are_given(group):
    """The others are those that the policy chooses in the context of these."""

    def objective(trial):
        x, load = trial.suggest_float("x", 0, 1), trial.suggest_float("load", 1, 100, log=True)
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return (x - np.log10(load) / 2) ** 2 + (kind == "b")

    study = optuna.create_study(sampler=BanditSampler(seed=0, group=group))
    study.optimize(objective, n_trials=15)
    for given in ({"load": 30.0}, {"load": 3.0, "kind": "b"}):
        study.enqueue_trial(given)
        expected = study.sampler.current_policy(study).ask(context=given)
        study.optimize(objective, n_trials=1)
        assert study.trials[-1].params == expected
        assert {**expected, **given} == expected
    assert expected != study.sampler.current_policy(study).ask()
    study.enqueue_trial({"load": 1000.0, "kind": "a"})  # one is not in its distribution
    expected = study.sampler.current_policy(study).ask(context={"kind": "a"})
    trial = study.ask()
    assert trial.suggest_float("x", 0, 1) == expected["x"]


def test_all_values_of_a_trial_are_given():
    """The policy is not asked."""
    study = spied()
    added(study, 1.0, 5.0)
    study.enqueue_trial({"x": 7.0})
    assert study.ask().suggest_float("x", 0, 10) == 7.0
    assert not study.sampler.current_policy(study).pending_then


def test_trials_of_an_earlier_study():
    """Also if they ended long ago, in another order than they are added."""
    study, now = spied(), datetime.now()
    for hours, x in ((1, 1.0), (3, 3.0), (2, 2.0)):
        trial = optuna.create_trial(params={"x": x}, distributions={"x": X}, value=x)
        trial.datetime_complete = now - timedelta(hours=hours)
        study.add_trial(trial)
    assert [x for x, _ in told(study)] == [3.0, 2.0, 1.0]


def test_trials_that_the_policy_chose_were_asked_for():
    """Its search around the best point knows its own steps by that; the first trial was drawn, one was enqueued."""

    known = []

    class Noting(sb.GPEI):
        def learn(self, candidate, y, noise_variance):
            known.append(self._asked)
            super().learn(candidate, y, noise_variance)

    study = optuna.create_study(sampler=BanditSampler(policy=Noting, seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", 0, 10), n_trials=3)
    study.enqueue_trial({"x": 5.0})
    study.optimize(lambda trial: trial.suggest_float("x", 0, 10), n_trials=2)
    study.sampler.current_policy(study)
    assert known == [False, True, True, False, True]


def test_ctrl_c_while_a_policy_is_told():
    """It is told of each trial once, all the same."""

    class Interrupted(Spy):
        stop = False

        def observe(self, candidate, y, noise_variance=None):
            if y == -3.0 and Interrupted.stop:
                Interrupted.stop = False
                raise KeyboardInterrupt
            super().observe(candidate, y, noise_variance)

    study = optuna.create_study(sampler=BanditSampler(policy=lambda space, seed, minimize: Interrupted(space)))
    for value in (1.0, 2.0, 3.0):
        added(study, value, value)
        if value == 1.0:
            study.ask({"x": X})
    Interrupted.stop = True
    with pytest.raises(KeyboardInterrupt):
        study.ask({"x": X})
    study.ask({"x": X})
    assert told(study) == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


def test_one_sampler_for_two_studies():
    sampler = BanditSampler(policy=spy, seed=0)
    for value in (1.0, 2.0):
        study = optuna.create_study(sampler=sampler)
        added(study, value, value)
        study.optimize(lambda trial: trial.suggest_float("x", 0, 10), n_trials=2)
        assert next(y for _, y in told(study)) == value
        assert len(told(study)) == 3


# ---- the same storage, the same trials


def objective(trial):
    """Mixed parameters, one of which only some trials have; one trial fails."""
    x = trial.suggest_float("x", -5, 5)
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    step = trial.suggest_float("step", 0.0, 1.0, step=0.25)
    kind = trial.suggest_categorical("kind", ["a", None, 3])
    deep = trial.suggest_int("depth", 1, 9, step=2) if kind == "a" else 0
    if trial.number == 7:
        raise optuna.TrialPruned
    return (x - 1) ** 2 + (math.log10(rate) + 2) ** 2 + step + deep + (kind is None)


POLICIES = {
    "default": None,
    "random": lambda space, seed, minimize: sb.RandomSearch(space, seed=seed),
    "given kernel": lambda space, seed, minimize: sb.GPUCB(
        space, sb.Matern(0.5, nu=2.5), scale=5, noise=0.1, seed=seed
    ),
    "candidates": lambda space, seed, minimize: sb.SWGPUCB(space, sb.Matern(0.5, nu=2.5), memory=9, seed=seed),
}


def params(study):
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.sampled(4)
def test_a_new_sampler_goes_on_like_the_old_one(name):
    kept, made, other = (optuna.create_study(sampler=BanditSampler(policy=POLICIES[name], seed=s)) for s in (5, 5, 6))
    kept.optimize(objective, n_trials=18)
    for _ in range(18):
        made.sampler = BanditSampler(policy=POLICIES[name], seed=5)
        made.optimize(objective, n_trials=1)
    assert params(made) == params(kept)
    other.optimize(objective, n_trials=3)
    assert params(other) != params(kept)[:3]


@pytest.mark.slow
def test_a_pickled_sampler_goes_on_like_the_old_one():
    kept, pickled = (optuna.create_study(sampler=BanditSampler(seed=5)) for _ in range(2))
    kept.optimize(objective, n_trials=14)
    for _ in range(14):
        pickled.sampler = pickle.loads(pickle.dumps(pickled.sampler))
        pickled.optimize(objective, n_trials=1)
    assert params(pickled) == params(kept)


@pytest.mark.parametrize("name", ["default", "given kernel"])
@pytest.mark.sampled(2)
def test_batches_told_in_another_order(name):
    def played(again):
        study = optuna.create_study(sampler=BanditSampler(policy=POLICIES[name], seed=2))
        for _ in range(4):
            batch = []
            for _ in range(4):
                if again:
                    study.sampler = BanditSampler(policy=POLICIES[name], seed=2)
                batch.append(study.ask({"x": X, "k": IntDistribution(0, 9)}))
            for i in (2, 0, 3, 1):
                study.tell(batch[i], batch[i].params["x"] + batch[i].params["k"])
        return params(study)

    assert played(True) == played(False)


@pytest.mark.parametrize("name", ["default", "random"])
def test_trials_that_choose_at_the_same_time_choose_differently(monkeypatch, name):
    """Neither knows of the other's choice, only that it is running."""
    study = optuna.create_study(sampler=BanditSampler(policy=POLICIES[name], seed=0))
    study.optimize(lambda trial: math.sin(2 * trial.suggest_float("x", 0, 10)), n_trials=12)
    trials = [study._storage.get_trial(study._storage.create_new_trial(study._study_id)) for _ in range(3)]
    monkeypatch.setattr(study._storage, "set_trial_system_attr", lambda *attribute: None)  # not yet
    samplers = [BanditSampler(policy=POLICIES[name], seed=0) for _ in range(3)]
    found = [each.sample_relative(study, trial, {"x": X})["x"] for each, trial in zip(samplers, trials, strict=True)]
    assert len(set(found)) == 3


def test_threads():
    study = optuna.create_study(sampler=BanditSampler(seed=0))
    study.optimize(objective, n_trials=24, n_jobs=4)
    assert study.sampler.current_policy(study).rounds == 23
    assert len({tuple(each.values()) for each in params(study)}) > 18  # a few may choose at the same time


def test_another_seed_after_reseeding():
    study = optuna.create_study(sampler=BanditSampler(seed=0, independent_sampler=optuna.samplers.RandomSampler(0)))
    before = pickle.dumps(study.sampler)
    study.sampler.reseed_rng()
    assert pickle.dumps(study.sampler) != before
    assert pickle.dumps(BanditSampler()) != pickle.dumps(BanditSampler())


# ---- parameters


def test_the_parameters_that_all_completed_trials_have():
    study = optuna.create_study(sampler=BanditSampler(seed=0))
    wide, narrow = FloatDistribution(0.0, 9.0), FloatDistribution(0.0, 8.0)
    category = CategoricalDistribution(["a", "b"])

    def space():
        return study.sampler.infer_relative_search_space(study, study.ask())

    assert space() == {}
    study.tell(study.ask({"x": X, "z": wide, "c": category, "one": IntDistribution(3, 3)}), 1.0)
    assert list(space().items()) == [("c", category), ("x", X), ("z", wide)]
    study.tell(study.ask({"x": X}), state=TrialState.FAIL)
    study.tell(study.ask({"x": X}), state=TrialState.PRUNED)
    assert list(space()) == ["c", "x", "z"]
    study.tell(study.ask({"x": X, "z": narrow, "c": category}), 1.0)
    assert space() == {"c": category, "x": X}
    study.tell(study.ask({"x": X}), 1.0)
    assert space() == {"x": X}
    study.tell(study.ask(), 1.0)
    assert space() == {}


def test_an_independent_sampler_has_the_rest():
    class Constant(optuna.samplers.RandomSampler):
        calls = 0

        def sample_independent(self, study, trial, name, distribution):
            return 4

        def before_trial(self, study, trial):
            self.calls += 1

        def after_trial(self, study, trial, state, values):
            self.calls += 1

    constant = Constant()
    sampler = BanditSampler(policy=spy, seed=0, independent_sampler=constant)
    study = optuna.create_study(sampler=sampler)

    def objective(trial):
        more = trial.suggest_int(f"n{trial.number}", 0, 99)  # which no search space has: it is not in every trial
        return more + trial.suggest_int("k", 0, 9)

    study.optimize(objective, n_trials=4)
    assert params(study)[0] == {"n0": 4, "k": 4}
    assert all(each[f"n{number}"] == 4 for number, each in enumerate(params(study)))
    assert any(each["k"] != 4 for each in params(study))
    assert constant.calls == 8


def test_partly_fixed():
    study = optuna.create_study(sampler=BanditSampler(seed=0))
    study.optimize(objective, n_trials=3)
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        study.sampler = optuna.samplers.PartialFixedSampler({"x": 2.0}, study.sampler)
    study.optimize(objective, n_trials=3)
    assert [each["x"] for each in params(study)[3:]] == [2.0] * 3


DISTRIBUTIONS = [
    FloatDistribution(-1.5, 2.0),
    FloatDistribution(1e-5, 1.0, log=True),
    FloatDistribution(0.1, 0.7, step=0.1),
    FloatDistribution(-10.2, 10.2, step=0.1),
    FloatDistribution(0.0, 1.0, step=1e-6),
    IntDistribution(-3, 12),
    IntDistribution(1, 1000, log=True),
    IntDistribution(5, 29, step=3),
    IntDistribution(0, 10**7, step=2),
    CategoricalDistribution(["a", None, 2, 2.5, True]),
    CategoricalDistribution([1, True, math.nan]),  # which a search space does not tell apart
    CategoricalDistribution(["one"]),
    FloatDistribution(3.0, 3.0),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_values(distribution):
    """What is chosen is in the distribution, of its type, and told as what it was."""
    study = spied()
    for i in range(12):
        study.tell(study.ask({"v": distribution, "x": X}), float(i))
    for trial, (setting, y) in zip(study.trials, study.sampler.current_policy(study).told, strict=True):
        value = trial.params["v"]
        assert distribution._contains(distribution.to_internal_repr(value))
        assert type(value) is type(distribution.to_external_repr(distribution.to_internal_repr(value)))
        assert y == -trial.value
        if distribution.single():
            assert "v" not in setting
        elif isinstance(distribution, CategoricalDistribution):
            assert str(value) in str(setting["v"])
        elif distribution.high / (distribution.step or 1) > 1e5:  # the policy sees the number of the step
            assert distribution.low + distribution.step * setting["v"] == pytest.approx(value)
        else:
            assert setting["v"] == pytest.approx(value, rel=1e-12)


@pytest.mark.filterwarnings("ignore:.*settings have been measured")
def test_categories_that_cannot_be_hashed():
    lists = [[64, 64], [128], []]
    with pytest.warns(UserWarning, match="Choices for a categorical distribution"):
        category = CategoricalDistribution(lists)
    study = optuna.create_study(sampler=BanditSampler(seed=0))
    for _ in range(14):
        trial = study.ask({"c": category})
        study.tell(trial, len(trial.params["c"]))
    assert study.sampler.infer_relative_search_space(study, study.trials[0]) == {"c": category}
    chosen = [each["c"] for each in params(study)]
    assert all(each in lists for each in chosen)
    assert chosen[12:] == [[], []]


def test_ranges_that_change():
    study = optuna.create_study(sampler=BanditSampler(seed=0))
    for i in range(12):
        high = 10 + i % 3
        trial = study.ask()
        assert 0 <= trial.suggest_int("k", 0, high) <= high
        study.tell(trial, trial.suggest_float("x", 0, 1))
    assert list(study.sampler.infer_relative_search_space(study, study.trials[0])) == ["x"]


@pytest.mark.slow
def test_long_names_on_a_database(tmp_path):
    """What is chosen is stored in attributes of at most 2,045 characters."""
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db", sampler=BanditSampler(policy=spy, seed=0))
    space = {f"{'n' * 100}{i}": FloatDistribution(0, 1) for i in range(40)}
    study.tell(study.ask(space), 1.0)
    trial = study.ask()
    chosen = trial.relative_params
    assert chosen.keys() == space.keys()
    other = optuna.load_study(study_name=study.study_name, storage=f"sqlite:///{tmp_path}/study.db")
    stored = other.get_trials()[1].system_attrs
    assert functools.reduce(lambda a, b: {**a, **b}, stored.values()) == chosen
    assert max(map(len, map(str, stored.values()))) < 2046
    other.sampler = BanditSampler(policy=spy, seed=0)
    other.ask(space)
    assert other.sampler.current_policy(other).pending_then == [[chosen]]
    for each in (study, other):
        each._storage.remove_session()
        each._storage._backend.engine.dispose()


def test_hyperband():
    """Whose brackets are studies of their own to other samplers; here a policy is told of all trials."""
    study = optuna.create_study(sampler=BanditSampler(policy=spy, seed=0), pruner=optuna.pruners.HyperbandPruner(1, 9))

    def objective(trial):
        x = trial.suggest_float("x", 0, 10)
        for step in range(9):
            trial.report(x + 9 - step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return x

    study.optimize(objective, n_trials=12)
    assert len(told(study)) == 12


# ---- finding the best


# ---- bad arguments


def test_refusals():
    with pytest.raises(ValueError, match=r"^policy: got 'GPEI'; allowed: a function \(space, seed, minimize\)"):
        BanditSampler(policy="GPEI")
    with pytest.raises(ValueError, match=r"^seed: got -1; allowed: a non-negative integer"):
        BanditSampler(seed=-1)
    with pytest.raises(ValueError, match=r"^independent_sampler: got 3; allowed: a sampler of Optuna, or None"):
        BanditSampler(independent_sampler=3)
    with pytest.raises(ValueError, match=r"^avoid_failures: got 'no'; allowed: True or False"):
        BanditSampler(avoid_failures="no")
    with pytest.raises(TypeError):
        BanditSampler(lambda space, seed, minimize: None)
    study = optuna.create_study(sampler=BanditSampler(policy=lambda space, seed, minimize: "GPEI"))
    with pytest.raises(ValueError, match=r"^study: got .*; allowed: a study whose completed trials have a parameter"):
        study.sampler.current_policy(study)
    study.tell(study.ask({"x": X}), 1.0)
    with pytest.raises(ValueError, match=r"^policy: got 'GPEI'; allowed: .* that returns a policy"):
        study.ask({"x": X})


def test_without_optuna(monkeypatch):
    monkeypatch.delitem(sys.modules, "scalable_bandits.integrations.optuna")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"pip install 'scalable_bandits\[optuna\]'"):
        importlib.import_module("scalable_bandits.integrations.optuna")


# ---- found by review


@pytest.mark.slow
def test_a_study_that_was_deleted_is_not_mixed_up_with_the_next(tmp_path):
    """SQLite gives the number of a deleted study to the next one."""
    storage = optuna.storages.get_storage(f"sqlite:///{tmp_path}/trials.db")
    sampler = BanditSampler(policy=spy, seed=0)
    for values in (range(12), range(3), range(100, 120)):
        study = optuna.create_study(study_name="same", storage=storage, sampler=sampler)
        for value in values:
            added(study, value % 10, float(value))
        study.optimize(lambda trial: trial.suggest_float("x", 0.0, 10.0), n_trials=1)
        assert [y for _, y in sampler.current_policy(study).told][:-1] == [-float(value) for value in values]
        optuna.delete_study(study_name="same", storage=storage)


def test_the_seed_holds_with_several_jobs():
    """Optuna calls `reseed_rng` for each of them."""
    first = set()
    for jobs in (1, 2, 2):
        study = optuna.create_study(sampler=BanditSampler(seed=1))
        study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=2, n_jobs=jobs)
        first.add(study.trials[0].params["x"])
    assert len(first) == 1


def test_steps_far_from_zero():
    """Where rounding is more than a hundred-millionth of a step."""
    study = spied()
    study.optimize(lambda trial: trial.suggest_float("f", 1e6, 1e6 + 10, step=0.001), n_trials=20)
    assert study.sampler.current_policy(study).rounds == 20


def test_the_current_policy_is_a_copy():
    study = spied()
    added(study, 3.0, 1.0)
    study.sampler.current_policy(study).tell({"x": 9.0}, 7.0)
    assert study.sampler.current_policy(study).rounds == 1


def told_before(space, seed, minimize):
    policy = sb.RandomSearch(space)
    policy.tell(policy.ask(), 1.0)
    return policy


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda space, seed, minimize: sb.RandomSearch(sb.SearchSpace({"y": sb.Real(0, 1)})), "^policy: got .*on that"),
        (
            lambda space, seed: sb.RandomSearch(space),
            "^policy: .*unexpected keyword.*; it is called with a space, seed=",
        ),
        (told_before, "^policy: got .*; allowed: a fresh one"),
    ],
)
def test_policies_that_are_refused(make, error):
    study = optuna.create_study(sampler=BanditSampler(policy=make, seed=0))
    added(study, 3.0, 1.0)
    with pytest.raises((ValueError, TypeError), match=error):
        study.sampler.current_policy(study)


def test_a_policy_class():
    study = optuna.create_study(sampler=BanditSampler(policy=sb.GPEI, seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=4)
    policy = study.sampler.current_policy(study)
    assert (type(policy), policy.minimize, policy.rounds) == (sb.GPEI, True, 4)


def test_whole_numbers_beyond_float64_are_chosen_by_the_policy():
    """Not left to random search: as a continuous range, rounded."""
    study = optuna.create_study(sampler=BanditSampler(seed=1, policy=Spy))
    study.optimize(lambda trial: trial.suggest_int("c", 0, 10**18) / 1e18, n_trials=3)
    told = study.sampler.current_policy(study).told
    assert [(round(x["c"]), y) for x, y in told] == [(trial.params["c"], trial.value) for trial in study.trials]
    assert all(isinstance(trial.params["c"], int) for trial in study.trials)


# ---- constraints


def constrained(trial):
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
    trial.set_user_attr("cost", x + y - 1)
    return (x - 0.9) ** 2 + (y - 0.9) ** 2


def cost(trial):
    return (trial.user_attrs["cost"],)


def test_constraints_as_other_samplers_have_them():
    """Another process goes on alike, and trials are those of `minimize` with constraints."""
    study = optuna.create_study(sampler=BanditSampler(seed=3, constraints_func=cost))
    study.optimize(constrained, n_trials=25)
    assert study.best_trial.user_attrs["cost"] <= 0
    assert study.best_value < 0.33  # .32 at (.5, .5)
    policy = study.sampler.current_policy(study)
    assert isinstance(policy, sb.ConstrainedGPEI)
    twin = optuna.create_study(sampler=BanditSampler(seed=3, constraints_func=cost))
    for trial in study.trials:
        if trial.number == 20:
            twin.sampler = BanditSampler(seed=3, constraints_func=cost)  # made again
        twin.optimize(constrained, n_trials=1)
        assert twin.trials[-1].params == trial.params


@pytest.mark.skipif(not hasattr(optuna.Trial, "set_constraint"), reason="from Optuna 5 on")
@pytest.mark.parametrize("given", [None, 1.5, ["much"], [math.nan]])
def test_what_constraints_func_returns_is_checked(given):
    study = optuna.create_study(sampler=BanditSampler(seed=3, constraints_func=lambda trial: given))
    with pytest.raises(ValueError, match="constraints_func: got"):
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)


def test_constraints_that_the_objective_sets():
    def objective(trial):
        value = constrained(trial)
        trial.set_constraint("cost", math.inf if trial.number == 12 else trial.user_attrs["cost"])
        return value

    study = optuna.create_study(sampler=BanditSampler(seed=3))
    study.optimize(objective, n_trials=20)
    assert study.best_value < 0.36
    policy = study.sampler.current_policy(study)
    assert policy.constraints == {"cost": sb.AtMost(0.0)}
    assert len(policy._limited.models[0].ys) == 19  # one was not finite


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"constraints_func": 3}, "constraints_func: got 3; allowed: a function of a trial"),
        ({"constraints_func": cost, "policy": sb.GPUCB}, "None with a policy"),
    ],
)
def test_refuses_constraints(arguments, text):
    with pytest.raises(ValueError, match=text):
        BanditSampler(**arguments)
