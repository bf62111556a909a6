"""Searches with a store: interrupted, taken up again, and refused where they are others."""

import subprocess
import sys
import warnings

import numpy as np
import pandas
import pytest
from cases import searches
from cases.paths import TESTS
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import scalable_bandits as sb
from scalable_bandits.integrations.sklearn import BanditSearchCV
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore, SpecificationDiffers, StoreLocked

X, Y = load_iris(return_X_y=True)
FITS = searches.CANDIDATES * searches.FOLDS


def compare(found, expected):
    """Compare all that two fitted searches found, but times."""
    assert found.cv_results_.keys() == expected.cv_results_.keys()
    for name, values in expected.cv_results_.items():
        if "time" not in name:
            np.testing.assert_array_equal(found.cv_results_[name], values)
    assert (found.best_params_, found.best_index_, found.best_score_) == (
        expected.best_params_, expected.best_index_, expected.best_score_
    )  # fmt: skip
    assert vars(found).keys() == vars(expected).keys()
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The search without an interruption."""
    place = tmp_path_factory.mktemp("whole")
    found = searches.run(place / "run", place / "fits")
    assert len(searches.lines(place / "fits")) == FITS + 1
    return found


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.slow)])
def test_killed_in_candidates_and_in_the_final_fit(batch, tmp_path):
    """Two processes die: in the second fold of a candidate that is not the first, and in the final fit of all data."""
    whole = searches.run(None, tmp_path / "whole", batch=batch)
    store, file, counted = tmp_path / "run", tmp_path / "fits", 0
    stored = 0
    for last in (2 * 3 * batch + 2, "final"):
        if last == "final":
            last = FITS - 3 * stored + 1
        command = [sys.executable, "-W", "ignore", "-c", "from cases.searches import main; main()"]
        done = subprocess.run(
            [*command, str(store), str(file), str(counted + last), str(batch)], cwd=TESTS, check=False
        )
        assert done.returncode == -9
        counted = len(searches.lines(file))
        stored = status(store).rounds
    assert stored == searches.CANDIDATES
    found = searches.run(store, file, batch=batch)
    assert len(searches.lines(file)) == counted + 1  # the final fit alone
    evaluated = [line for line in searches.lines(file) if not line.startswith("150 ")]
    assert len(evaluated) <= FITS + 2 * 3 * batch  # what was in flight twice
    compare(found, whole)
    assert (found.cv_results_["mean_fit_time"] > 0).all()


def test_interrupted_in_the_final_fit(tmp_path, whole):
    """The evaluations are all in the store, and none is repeated."""
    store, file = tmp_path / "run", tmp_path / "fits"
    with pytest.raises(KeyboardInterrupt):
        searches.run(store, file, -(FITS + 1))
    found = searches.run(store, file)
    assert len(searches.lines(file)) == FITS + 2
    compare(found, whole)


def test_more_candidates_are_evaluated_later(tmp_path, whole):
    store, file = tmp_path / "run", tmp_path / "fits"
    searches.run(store, file, n_iter=4)
    compare(searches.run(store, file), whole)
    assert len(searches.lines(file)) == FITS + 2
    fewer = searches.run(store, file, n_iter=2)
    assert len(fewer.cv_results_["params"]) == searches.CANDIDATES
    tickets = ObservationStore.open(store).tickets
    assert [each.state for each in tickets.values()] == ["done"] * searches.CANDIDATES
    assert all(len(each.result) == searches.FOLDS for each in tickets.values())
    found = status(store)
    assert (found.rounds, found.planned, found.state) == (7, 7, "complete")


@pytest.mark.slow
def test_ended_before_the_policy_was_told(tmp_path, monkeypatch):
    """Candidates of which the policy was not told are evaluated again; failures too."""
    space = {"C": sb.Real(-1.0, 1.0)}  # negative values fail

    def fit(store):
        given = {"n_iter": 8, "cv": 2, "policy": sb.RandomSearch, "store": store}
        return BanditSearchCV(SVC(), space, **given).fit(X, Y)

    with pytest.warns((FitFailedWarning, UserWarning)):
        expected = fit(None)
    assert 0 < np.isnan(expected.cv_results_["mean_test_score"]).sum() < 8
    for last in range(1, 9):
        told = []

        class Ends(Exception):
            pass

        def counted(method, told=told, last=last, ends=Ends):
            def count(self, *arguments, **keywords):
                told.append(1)
                if len(told) == last:
                    raise ends
                return method(self, *arguments, **keywords)

            return count

        with monkeypatch.context() as patched:
            for name in ("tell", "tell_failure"):
                patched.setattr(sb.RandomSearch, name, counted(getattr(sb.RandomSearch, name)))
            with pytest.raises(Ends):
                fit(tmp_path / f"{last}")
        with pytest.warns((FitFailedWarning, UserWarning)):
            found = fit(tmp_path / f"{last}")
        for name in ("mean_test_score", "param_C"):
            np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])
        assert (found.policy_.rounds, found.policy_.failures) == (expected.policy_.rounds, expected.policy_.failures)


def test_interrupted_between_two_tells_of_a_batch(tmp_path, monkeypatch):
    """What is left of the batch is told before others are asked for."""
    space, kernel = {"C": sb.Real(0.1, 10.0), "gamma": sb.Real(1e-3, 1.0, log=True)}, sb.RBF(0.3)

    def fit(store):
        given = {"n_iter": 9, "cv": 2, "batch": 3, "policy": lambda s, seed: sb.IGPUCB(s, kernel, seed=seed)}
        return BanditSearchCV(SVC(), space, **given, store=store).fit(X, Y)

    expected, tell, count = fit(None), sb.IGPUCB.tell, 0

    def interrupted(self, *arguments):
        nonlocal count
        if (count := count + 1) in (5, 6):  # the second of the second batch, and the first after that
            raise KeyboardInterrupt
        return tell(self, *arguments)

    monkeypatch.setattr(sb.IGPUCB, "tell", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path / "run")
    found = fit(tmp_path / "run")
    assert found.cv_results_["params"] == expected.cv_results_["params"]


def test_refuses_another_search(tmp_path):
    def stored(estimator=None, x=X, y=Y, space=None, **keywords):
        given = {"n_iter": 2, "cv": 2, "policy": sb.RandomSearch, "store": tmp_path / "run", **keywords}
        return BanditSearchCV(estimator or SVC(), space or {"C": sb.Real(0.1, 10.0)}, **given).fit(x, y)

    stored()
    stored(n_jobs=2, batch=2, verbose=0)
    for other, named in (
        ({"estimator": SVC(degree=2)}, r"search\.estimator\.degree: stored 3, given 2"),
        ({"x": X + 1.0}, r"search\.data\.X"),
        ({"y": (Y + 1) % 3}, r"search\.data\.y"),
        ({"cv": 3}, r"search\.data\.folds"),
        ({"scoring": "neg_log_loss"}, r"search\.scoring"),
        ({"space": {"C": sb.Real(0.1, 20.0)}}, r"policy\.space"),
        ({"random_state": 1}, r"policy\.seed"),
        ({"policy": lambda space, seed: sb.GPEI(space, sb.RBF(0.3), seed=seed)}, r"policy\.type"),
    ):
        with pytest.raises(SpecificationDiffers, match=named):
            stored(**other)
    with pytest.raises(ValueError, match=r"cv: .*always the same"):
        stored(cv=KFold(2, shuffle=True))


def test_one_search_at_a_time(tmp_path):
    policy = sb.RandomSearch(sb.SearchSpace({"C": sb.Real(0.1, 10.0)}))
    searched = BanditSearchCV(
        SVC(), {"C": sb.Real(0.1, 10.0)}, n_iter=2, policy=sb.RandomSearch, store=tmp_path / "run"
    )
    with sb.record(policy, tmp_path / "run"), pytest.raises(StoreLocked):
        searched.fit(X, Y)
    with pytest.raises(SpecificationDiffers, match="kind: stored 'record', given 'search'"):
        searched.fit(X, Y)
    assert clone(searched).store == tmp_path / "run"


@pytest.mark.slow
def test_a_frame_is_the_same_data_in_another_process(tmp_path, monkeypatch, capsys):
    code = (
        "import sys, pandas, scalable_bandits as sb; from sklearn.datasets import load_iris\n"
        "from sklearn.linear_model import LogisticRegression; from sklearn.preprocessing import OrdinalEncoder\n"
        "from sklearn.pipeline import make_pipeline; from scalable_bandits.integrations.sklearn import BanditSearchCV\n"
        "X, y = load_iris(return_X_y=True, as_frame=True)\n"
        "X['kind'] = [('left', 'right')[i % 2] for i in range(len(X))]\n"
        "X['state'] = pandas.Categorical([('on', 'off', 'idle')[i % 3] for i in range(len(X))])\n"
        "made = BanditSearchCV(make_pipeline(OrdinalEncoder(), LogisticRegression()),\n"
        "                      {'logisticregression__C': [.1, 1]}, n_iter=2, cv=2, policy=sb.RandomSearch,\n"
        "                      store=sys.argv[1], error_score=0.0)\n"
        "made.fit(X, y.map({0: 'a', 1: 'b', 2: 'c'})); print(made.cv_results_['mean_fit_time'].tolist())"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "run")]
    there = subprocess.run(command, capture_output=True, text=True, check=False)
    assert there.returncode == 0, there.stderr
    monkeypatch.setattr(sys, "argv", command[-2:])
    with warnings.catch_warnings(action="ignore"):
        exec(compile(code, "script", "exec"), {})
    assert capsys.readouterr().out == there.stdout  # times: those of the store


def test_other_values_behind_the_same_text_are_refused(tmp_path):
    """The space knows estimators by the beginning of their texts alone."""

    def fit(c):
        models = [make_pipeline(StandardScaler(), SVC(C=c)), DecisionTreeClassifier(random_state=0)]
        pipeline = Pipeline([("m", SVC())])
        return BanditSearchCV(pipeline, {"m": models}, n_iter=2, cv=KFold(2), store=tmp_path / "run").fit(X, Y)

    fit(1e-4)
    fit(1e-4)
    with pytest.raises(SpecificationDiffers, match="search"):
        fit(10.0)


def test_another_score_that_is_maximised_is_refused(tmp_path):
    def fit(*scoring):
        given = {"scoring": {name: name for name in scoring}, "refit": False, "cv": KFold(2), "store": tmp_path / "run"}
        return BanditSearchCV(SVC(), {"C": [0.1, 1.0, 10.0]}, n_iter=2, **given).fit(X, Y)

    fit("accuracy", "f1_macro")
    with pytest.raises(SpecificationDiffers, match=r"objective: stored 'accuracy', given 'f1_macro'"):
        fit("f1_macro", "accuracy")


def test_a_name_that_is_wrong_leaves_no_store(tmp_path):
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        BanditSearchCV(SVC(), {"c": [0.1, 1.0]}, n_iter=2, store=tmp_path / "run").fit(X, Y)
    assert not (tmp_path / "run").exists()


# ---- with constraints


def limited(store, most, **keywords):
    """Search for the deepest tree of few leaves, some of which cannot be fitted."""

    def depth(estimator, X, y):
        return float(estimator.tree_.max_depth)

    def leaves(estimator, X, y):
        return float(estimator.tree_.n_leaves)

    space = {"max_depth": sb.Integer(0, 9), "min_samples_leaf": sb.Integer(1, 30)}  # no tree has depth 0
    given = {"n_iter": 14, "cv": KFold(2, shuffle=True, random_state=0), "store": store, **keywords}
    scoring, limits = {"depth": depth, "leaves": leaves}, {"leaves": sb.AtMost(most)}
    tree = DecisionTreeClassifier(random_state=0)
    return BanditSearchCV(tree, space, scoring=scoring, refit="depth", constraints=limits, **given).fit(X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:.*scores are non-finite")
def test_constraints_are_stored(tmp_path):
    whole = limited(None, 4.0)
    limited(tmp_path / "run", 4.0, n_iter=5)
    found = limited(tmp_path / "run", 4.0)
    compare(found, whole)
    feasible = found.cv_results_["feasible"]
    assert 0 < feasible.sum() < 14
    failed = np.isnan(found.cv_results_["mean_test_depth"])
    assert 0 < failed.sum() == found.policy_.failures
    assert limited(tmp_path / "run", 4.0).cv_results_["mean_fit_time"].tolist() == (
        found.cv_results_["mean_fit_time"].tolist()
    )  # nothing is fitted again
    with pytest.raises(SpecificationDiffers, match=r"policy\.constraints\.leaves\.limit: stored 4.*, given 5"):
        limited(tmp_path / "run", 5.0)
    assert status(tmp_path / "run").best == found.best_score_
    sb.export(tmp_path / "run", tmp_path / "run.csv")
    table = pandas.read_csv(tmp_path / "run.csv")
    for column, name in (("leaves", "mean_test_leaves"), ("value", "mean_test_depth"), ("feasible", "feasible")):
        np.testing.assert_array_equal(table[column], found.cv_results_[name])
