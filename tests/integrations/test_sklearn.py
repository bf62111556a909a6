"""`BanditSearchCV`: scikit-learn's own checks of searches, and what its searches do, with a policy that chooses."""

import math
import pickle
from functools import partial

import joblib
import numpy as np
import pytest
from scipy.stats import loguniform, norm, randint, uniform
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, RandomizedSearchCV, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tests import test_metaestimators_metadata_routing as routing
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import check_param_validation, parametrize_with_checks

import scalable_bandits as sb
from scalable_bandits.integrations.param_distributions import ParameterMap
from scalable_bandits.integrations.sklearn import BanditSearchCV
from scalable_bandits.store import ObservationStore

X, Y = load_iris(return_X_y=True)
ROWS = np.random.default_rng(0).permutation(len(Y))[:90]
X, Y = X[ROWS], Y[ROWS]
SVC_SPACE = {"C": loguniform(1e-2, 1e3), "kernel": ["linear", "rbf"]}


def folds(seed=0):
    return StratifiedKFold(3, shuffle=True, random_state=seed)


def search(estimator=None, parameters=None, **keywords):
    """A search of few candidates with random points: the tests of this file do not ask for good ones."""
    given = {"n_iter": 6, "cv": folds(), "policy": sb.RandomSearch, **keywords}
    return BanditSearchCV(SVC() if estimator is None else estimator, parameters or SVC_SPACE, **given)


# ---- scikit-learn's own checks


def checked():
    """Searches as scikit-learn makes its own for these checks."""
    pipeline = make_pipeline(PCA(), LogisticRegression())
    for estimator, name in ((Ridge(), "alpha"), (pipeline, "logisticregression__C")):
        yield BanditSearchCV(estimator, {name: [0.1, 1.0]}, n_iter=2, cv=2, error_score="raise", random_state=0)


# Those that it expects of its own searches, GridSearchCV and RandomizedSearchCV, too.
EXPECTED = {
    "check_supervised_y_2d": "DataConversionWarning not caught",
    "check_requires_y_none": "Doesn't fail gracefully",
}


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([*checked()], expected_failed_checks=lambda _: EXPECTED)
@pytest.mark.sampled(8)
def test_passes_the_checks_of_estimators(estimator, check):
    check(estimator)


ROUTED = {
    **next(each for each in routing.METAESTIMATORS if each["metaestimator"] is RandomizedSearchCV),
    "metaestimator": partial(BanditSearchCV, n_iter=2),
}


@pytest.mark.parametrize(
    "name",
    [
        "test_error_on_missing_requests_for_sub_estimator",
        "test_setting_request_on_sub_estimator_removes_error",
        "test_non_consuming_estimator_works",
        "test_metadata_is_routed_correctly_to_scorer",
        "test_metadata_is_routed_correctly_to_splitter",
    ],
)
@pytest.mark.sampled(5)
def test_routes_metadata(name):
    with config_context(enable_metadata_routing=True):
        getattr(routing, name)(ROUTED)


def test_checks_its_arguments():
    """Each argument, by scikit-learn's own check; and those that it does not know."""
    check_param_validation("BanditSearchCV", search())
    for wrong in ({"n_iter": 0}, {"batch": 0}, {"policy": sb.RandomSearch(sb.Arms(2))}, {"random_state": -1}):
        with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
            search(**wrong).fit(X, Y)


# ---- results


def test_results_are_those_of_a_grid_search():
    found = search(return_train_score=True).fit(X, Y)
    listed = [{name: [value] for name, value in each.items()} for each in found.cv_results_["params"]]
    grid = GridSearchCV(SVC(), listed, cv=folds(), return_train_score=True).fit(X, Y)
    assert set(found.cv_results_) == set(grid.cv_results_)
    for name, expected in grid.cv_results_.items():
        if "time" in name:
            assert (found.cv_results_[name] >= 0).all()
        else:
            np.testing.assert_array_equal(found.cv_results_[name], expected)
            assert type(found.cv_results_[name]) is type(expected)
    assert (found.best_params_, found.best_score_, found.best_index_, found.n_splits_, found.multimetric_) == (
        grid.best_params_, grid.best_score_, grid.best_index_, grid.n_splits_, grid.multimetric_,
    )  # fmt: skip
    np.testing.assert_array_equal(found.predict(X), grid.predict(X))
    assert found.score(X, Y) == grid.score(X, Y)
    assert found.best_estimator_.get_params() == grid.best_estimator_.get_params()
    made = {name for name in vars(found) if name.endswith("_") and not name.startswith("__")}
    assert made == {*(name for name in vars(grid) if name.endswith("_") and not name.startswith("_")), "policy_"}


def test_the_policy_is_told_the_score_of_refit(tmp_path):
    found = search(scoring=["accuracy", "neg_log_loss"], refit="neg_log_loss", store=tmp_path / "run",
                   estimator=LogisticRegression(), parameters={"C": loguniform(1e-3, 10)}).fit(X, Y)  # fmt: skip
    assert found.multimetric_
    stored = ObservationStore.open(tmp_path / "run").read(names=["y"])["y"]
    np.testing.assert_allclose(stored, found.cv_results_["mean_test_neg_log_loss"])
    assert found.best_index_ == np.argmax(stored)
    assert set(found.scorer_) == {"accuracy", "neg_log_loss"}


def both(estimator, X, y):
    accuracy = accuracy_score(y, estimator.predict(X))
    return {"accuracy": accuracy, "error": 1.0 - accuracy}


def test_several_scores_of_one_function():
    found = search(scoring=both, refit="error").fit(X, Y)
    assert found.best_score_ == found.cv_results_["mean_test_error"].max()
    with pytest.raises(ValueError, match="For multi-metric scoring, the parameter refit must be set"):
        search(scoring=both).fit(X, Y)
    unfitted = search(scoring=both, refit=False).fit(X, Y)
    assert not hasattr(unfitted, "best_index_")
    least = search(scoring=both, refit=lambda results: int(np.argmin(results["mean_test_accuracy"]))).fit(X, Y)
    assert least.best_index_ == np.argmin(least.cv_results_["mean_test_accuracy"])
    assert not hasattr(least, "best_score_")


def test_the_default_policy_learns_where_scores_are_high():
    """A peak of 1 in a plain of 0, told by a scorer of the parameter alone."""

    def height(estimator, X, y):
        return float(np.exp(-((np.log10(estimator.C) - 1.0) ** 2)))

    found = BanditSearchCV(SVC(), {"C": loguniform(1e-3, 1e3)}, n_iter=20, cv=2, scoring=height).fit(X, Y)
    assert found.best_score_ > 0.99
    assert found.policy_.rounds == 20
    assert set(found.policy_.best().x) == {"C"}


# ---- spaces


def test_distributions_lists_and_parameters():
    space = {
        "C": loguniform(1e-2, 10), "degree": randint(1, 4), "coef0": uniform(0, 2),
        "kernel": ["poly", "sigmoid"], "gamma": sb.Real(1e-3, 1, log=True), "class_weight": [None, "balanced"],
    }  # fmt: skip
    made = [search(parameters=given).fit(X, Y) for given in (space, sb.SearchSpace(space))]
    params = made[0].cv_results_["params"]
    assert params == made[1].cv_results_["params"]
    assert {type(each["degree"]) for each in params} == {int}
    assert all(1 <= each["degree"] <= 3 and 0 <= each["coef0"] <= 2 for each in params)


def test_parameters_of_a_pipeline_its_steps_and_other_objects():
    """Estimators and tuples are given to the pipeline themselves; the policy has labels for them."""
    first, second = StandardScaler(), PCA(2)
    space = {
        "scale": [first, second, "passthrough"],
        "clf__C": loguniform(1e-2, 10),
        "clf__class_weight": [None, {0: 2}],
    }
    pipeline = Pipeline([("scale", "passthrough"), ("clf", SVC())])
    found = search(pipeline, space, n_iter=12).fit(X, Y)
    used = [each["scale"] for each in found.cv_results_["params"]]
    assert {id(each) for each in used} <= {id(first), id(second), id(space["scale"][2])}
    assert len(set(map(id, used))) > 1
    assert set(found.policy_.space.kinds[0].values) == {"StandardScaler()", "PCA(n_components=2)", "'passthrough'"}
    assert not hasattr(first, "mean_")
    assert not hasattr(second, "components_")


def test_arrays_among_the_values():
    priors = [None, np.array([0.2, 0.2, 0.6]), np.array([0.4, 0.3, 0.3])]
    found = search(GaussianNB(), {"priors": priors, "var_smoothing": [1e-9, 1e-3]}, n_iter=5).fit(X, Y)
    used = [each["priors"] for each in found.cv_results_["params"]]
    assert {id(each) for each in used} <= set(map(id, priors))
    assert len(set(map(id, used))) > 1


def test_one_of_several_dicts():
    """A candidate has the parameters of one dict; those that all dicts describe alike are one for the policy."""
    linear, other = {"C": loguniform(1e-2, 10), "kernel": ["linear"]}, {"kernel": ["rbf", "poly"], "gamma": [0.1, 1.0]}
    found = search(parameters=[linear, {**other, "C": linear["C"]}], n_iter=10).fit(X, Y)
    kinds = {(each["kernel"], "gamma" in each) for each in found.cv_results_["params"]}
    assert kinds <= {("linear", False), ("rbf", True), ("poly", True)}
    assert ("linear", False) in kinds
    assert len(kinds) > 1
    assert all("C" in each for each in found.cv_results_["params"])
    np.testing.assert_array_equal(found.cv_results_["param_gamma"].mask, found.cv_results_["param_kernel"] == "linear")
    assert found.policy_.space.names == ("param_distributions", "C", "kernel [0]", "kernel [1]", "gamma [1]")


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "at least one parameter"),
        ([], "a dict of parameters, a list of such dicts"),
        ([{"C": [1, 2]}, {}], "at least one parameter"),
        ({"C": norm(0, 1)}, "'C'.*norm.*uniform, loguniform or randint"),
        ({"C": 1.0}, "'C'.*can be converted"),
        ({"C": []}, "'C'.*at least one value"),
        ({"C": [1, 1]}, "'C'.*distinct"),
        ({1: [1, 2]}, "names that are strings"),
        ([{"C": sb.Real(1, 2, when={"kernel": "rbf"}), "kernel": ["rbf"]}, {"kernel": ["linear"]}], "without `when`"),
    ],
)
def test_refuses_spaces_that_say_nothing(space, message):
    with pytest.raises(ValueError, match=message):
        BanditSearchCV(SVC(), space).fit(X, Y)


def test_each_setting_once_however_often_the_policy_asks_for_it():
    """A space of six settings, by a policy that knows none but its best one."""
    space = {"C": [1, 10, 100], "kernel": ["linear", "rbf"]}
    with pytest.warns(UserWarning, match="n_iter: got 50, but all 6 settings"):
        found = BanditSearchCV(SVC(), space, cv=2, policy=partial(sb.MeanOnly, kernel=sb.RBF(1.0))).fit(X, Y)
    assert len({tuple(each.items()) for each in found.cv_results_["params"]}) == 6
    conditional = sb.SearchSpace(
        {"kernel": ["linear", "poly"], "degree": sb.Integer(1, 3, when={"kernel": "poly"}), "C": [1, 10]},
        where=lambda setting: setting["C"] == 1 or setting["kernel"] == "linear",
    )
    with pytest.warns(UserWarning, match="all 5 settings"):
        found = BanditSearchCV(SVC(), conditional, cv=2, policy=sb.RandomSearch).fit(X, Y)
    assert len(found.cv_results_["params"]) == 5


# ---- failures


class Fragile(ClassifierMixin, BaseEstimator):
    """Classifier that cannot be fitted with a large x."""

    def __init__(self, x=0.0):
        self.x = x

    def fit(self, X, y):
        if self.x > 0.5:
            raise ArithmeticError(f"x = {self.x} is too large")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def test_a_candidate_that_fails_is_avoided_and_the_search_goes_on():
    with pytest.warns((FitFailedWarning, UserWarning)) as caught:
        found = search(Fragile(), {"x": uniform(0, 1)}, n_iter=16).fit(X, Y)
    failed = np.isnan(found.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(failed, [each["x"] > 0.5 for each in found.cv_results_["params"]])
    assert 0 < failed.sum() < 16
    assert (found.policy_.rounds, found.policy_.failures) == (16 - failed.sum(), failed.sum())
    assert found.policy_.pending == []
    assert sum(f"{3 * failed.sum()} fits failed out of a total of 48" in str(each.message) for each in caught) == 1
    assert not failed[found.best_index_]


def test_the_first_candidate_fails(monkeypatch):
    """Of a scorer that is a function, the names of the scores are not known yet."""
    space = {"x": [0.9, 0.1, 0.2]}
    for scoring, refit, name in ((None, True, "score"), (both, "accuracy", "error")):
        for seed in range(20):
            with pytest.warns((FitFailedWarning, UserWarning)):
                found = search(Fragile(), space, n_iter=3, scoring=scoring, refit=refit, random_state=seed).fit(X, Y)
            if found.cv_results_["params"][0]["x"] == 0.9:
                break
        scores = found.cv_results_[f"mean_test_{name}"]
        assert np.isnan(scores).tolist() == [True, False, False]


def test_a_score_for_errors_is_shown_and_not_told():
    with pytest.warns(FitFailedWarning):
        found = search(Fragile(), {"x": [0.1, 0.9]}, n_iter=2, error_score=-7.0).fit(X, Y)
    assert sorted(found.cv_results_["mean_test_score"])[0] == -7.0
    assert (found.policy_.rounds, found.policy_.failures) == (1, 1)


def test_all_fail_or_one_is_raised():
    with pytest.raises(ValueError, match=r"(?s)All the 9 fits failed.*is too large"):
        search(Fragile(), {"x": uniform(0.6, 0.4)}, n_iter=3).fit(X, Y)
    with (
        pytest.warns(UserWarning, match="n_iter: got 6, but all 2 settings"),
        pytest.raises(ValueError, match="All the 6 fits failed"),
    ):
        search(Fragile(), {"x": [0.6, 0.7]}).fit(X, Y)
    with pytest.raises(ArithmeticError, match="is too large"):
        search(Fragile(), {"x": uniform(0, 1)}, n_iter=16, error_score="raise").fit(X, Y)


# ---- in parallel


@pytest.fixture
def batches(monkeypatch):
    """Numbers of candidates that were evaluated together."""
    sizes, evaluate = [], BanditSearchCV._evaluate
    monkeypatch.setattr(
        BanditSearchCV, "_evaluate", lambda self, *rest: (sizes.append(len(rest[-1])), evaluate(self, *rest))[1]
    )
    return sizes


def scores(found):
    return {key: values for key, values in found.cv_results_.items() if "time" not in key}


@pytest.mark.slow
def test_jobs_do_not_change_the_results(batches):
    make = partial(search, policy=None, n_iter=14, batch=4)
    one, two = make(n_jobs=2).fit(X, Y), make(on="threads:2").fit(X, Y)
    np.testing.assert_equal(scores(one), scores(two))
    np.testing.assert_equal(scores(one), scores(make().fit(X, Y)))
    assert batches == [4, 4, 4, 2] * 3


@pytest.mark.parametrize(("jobs", "size"), [(None, 1), (2, 1), (3, 1), (6, 2), (8, 2), (9, 3)])
@pytest.mark.sampled(3)
def test_a_batch_fills_the_jobs(jobs, size, batches):
    """With three folds of each candidate; threads, of which any number may be started."""
    with joblib.parallel_config("threading"):
        search(n_iter=6, n_jobs=jobs).fit(X, Y)
    assert batches == [size] * (6 // size)


def test_a_batch_fills_the_executor(batches):
    search(n_iter=6, on="threads:6").fit(X, Y)
    assert batches == [2, 2, 2]


def test_a_batch_is_pending_while_it_is_chosen():
    """A policy with a kernel spreads it: without the pending ones it would choose one point four times."""
    policy = partial(sb.GPEI, kernel=sb.Matern(0.3, nu=2.5), noise=0.05, regularization=0.0025)
    found = search(parameters={"C": loguniform(1e-3, 1e3)}, policy=policy, n_iter=16, batch=4).fit(X, Y)
    last = np.log10([each["C"] for each in found.cv_results_["params"][-4:]])
    assert np.diff(np.sort(last)).min() > 1e-3


@pytest.mark.slow
def test_evaluations_on_the_workers_of_dask(client, batches):
    on = search(policy=None, n_iter=8, on=client)
    np.testing.assert_equal(scores(on.fit(X, Y)), scores(search(policy=None, n_iter=8).fit(X, Y)))
    assert batches == [1] * 16
    assert clone(on).on is client
    assert client.status == "running"
    with pytest.raises(ValueError, match="on: got 'nowhere'"):
        search(on="nowhere").fit(X, Y)


# ---- weights, groups, frames


def test_weights_and_groups():
    given = {"groups": np.arange(len(Y)) % 5, "sample_weight": np.where(Y == 0, 50.0, 1.0)}
    tree, space = DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3]}
    found = search(tree, space, n_iter=3, cv=GroupKFold(5)).fit(X, Y, **given)
    theirs = GridSearchCV(tree, space, cv=GroupKFold(5)).fit(X, Y, **given)
    order = np.argsort([each["max_depth"] for each in found.cv_results_["params"]])
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"][order], theirs.cv_results_["mean_test_score"])
    trees = (each.best_estimator_.feature_importances_ for each in (found, theirs))
    np.testing.assert_array_equal(*trees)


def test_folds_are_the_same_for_all_candidates():
    """Also where the splitter would draw others every time: one candidate's scores by all others' folds."""
    always = {"x": uniform(0, 0.4)}
    y = np.random.default_rng(0).integers(0, 2, len(X))
    found = search(Fragile(), always, cv=StratifiedKFold(3, shuffle=True), scoring=make_scorer(accuracy_score)).fit(
        X, y
    )
    assert len({found.cv_results_["split0_test_score"][i] for i in range(6)}) == 1


def test_copies():
    found = search(random_state=np.random.RandomState(3)).fit(X, Y)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.predict(X), found.predict(X))
    assert again.policy_.rounds == 6
    other = clone(found.set_params(estimator__C=3.0, n_iter=4))
    assert (other.estimator.C, other.n_iter) == (3.0, 4)
    assert not hasattr(other, "cv_results_")


def test_the_seed_chooses_the_candidates():
    params = [
        search(random_state=seed).fit(X, Y).cv_results_["params"] for seed in (None, 0, 1, np.random.RandomState(1))
    ]
    assert params[0] == params[1] != params[2] != params[3]


@pytest.mark.parametrize(
    "policy",
    [
        lambda space, seed: None,
        lambda space, seed: sb.RandomSearch(sb.Arms(3)),
        partial(sb.RandomSearch, minimize=True),
    ],
)
def test_refuses_what_is_no_policy_on_the_space(policy):
    with pytest.raises(ValueError, match=r"policy: .*a function of a space and `seed=`"):
        search(policy=policy).fit(X, Y)


def test_a_function_without_a_seed_is_no_policy():
    with pytest.raises(TypeError, match=r"^policy: .*; it is called with a space and seed="):
        search(policy=lambda space: sb.RandomSearch(space)).fit(X, Y)


def test_the_number_of_jobs_is_that_of_the_executor():
    with pytest.raises(ValueError, match=r"^n_jobs: got 1; allowed: None with `on`"):
        search(on="threads:2", n_jobs=1).fit(X, Y)


def test_one_and_all_are_not_the_same_value():
    """1 is one feature, 1.0 are all of them; in one list and in several dicts."""
    tree = DecisionTreeClassifier(random_state=0)
    found = search(tree, {"max_features": [1, 1.0]}, n_iter=2).fit(X, Y).cv_results_["params"]
    assert sorted(map(str, found)) == ["{'max_features': 1.0}", "{'max_features': 1}"]
    dicts = [{"max_features": [1], "max_depth": [1]}, {"max_features": [1.0], "max_depth": [2]}]
    found = search(tree, dicts, n_iter=2).fit(X, Y).cv_results_["params"]
    assert {(each["max_depth"], str(each["max_features"])) for each in found} == {(1, "1"), (2, "1.0")}


def test_texts_of_values_that_are_taken():
    class Named:
        def __init__(self, text):
            self.text = text

        def __repr__(self):
            return self.text

    map_ = ParameterMap.of({"a": [Named("a (2)"), Named("a"), Named("a")]})
    assert [value.text for value in map_.targets["a"].labelled.values()] == ["a (2)", "a", "a"]


@pytest.mark.filterwarnings("always::UserWarning")
def test_a_large_space_of_which_little_is_allowed():
    space = sb.SearchSpace({f"C{i}": sb.Integer(1, 120) for i in range(2)}, where=lambda s: s["C0"] == s["C1"] < 9)

    class Sum(SVC):
        def __init__(self, C0=1, C1=1):
            super().__init__()
            self.C0, self.C1 = C0, C1

    with pytest.warns(
        UserWarning, match=r"n_iter: got 12, but no new one was found among \d+ random settings; \d have"
    ):
        search(Sum(), space, n_iter=12).fit(X, Y)


# ---- constraints


class Sized(Fragile):
    """Classifier whose scores are functions of x; one above .9 cannot be fitted."""

    def fit(self, X, y):
        if self.x > 0.9:
            raise ArithmeticError(f"x = {self.x} is too large")
        self.classes_ = np.unique(y)
        return self


def gain(estimator, X, y=None):
    return estimator.x


def size(estimator, X, y=None):
    return estimator.x**2


def limited(**keywords):
    """Search for the largest x with x ** 2 <= .5."""
    given = {
        "scoring": {"gain": gain, "size": size}, "refit": "gain", "constraints": {"size": sb.AtMost(0.5)},
        "n_iter": 16, "cv": 2, **keywords,
    }  # fmt: skip
    return BanditSearchCV(Sized(), given.pop("space", {"x": uniform(0, 0.9)}), **given)


def test_the_best_candidate_that_keeps_its_limits():
    found = limited().fit(X, Y)
    results = found.cv_results_
    x = np.array([each["x"] for each in results["params"]])
    np.testing.assert_array_equal(results["feasible"], x**2 <= 0.5)
    assert found.best_index_ == np.argmax(np.where(results["feasible"], x, -1.0)) != np.argmax(x)
    assert found.best_score_ == found.best_estimator_.x == found.best_params_["x"] == found.policy_.best().x["x"]
    assert 0.5**0.5 - 0.005 < found.best_score_ <= 0.5**0.5
    assert type(found.policy_) is sb.ConstrainedGPEI
    assert clone(found).constraints == {"size": sb.AtMost(0.5)}
    assert "feasible" not in limited(constraints=None, policy=sb.RandomSearch, n_iter=2).fit(X, Y).cv_results_


def test_scores_of_one_function_with_limits():
    """Of which an infinite one, and NaN, keep no limit; a policy that is given is called with the limits."""

    def scores_of(estimator, X, y):
        cost = {-2: math.inf, -1: math.nan}.get(estimator.x, float(estimator.x))
        return {"gain": float(estimator.x), "cost": cost, "more": -cost}

    given = {"constraints": {"cost": sb.AtLeast(-3), "more": sb.AtMost(3.0)}, "space": {"x": [-4, -3, -2, -1]}}
    policy = partial(sb.ConstrainedGPEI, delta=0.2)
    with pytest.warns((UserWarning, RuntimeWarning), match="non-finite|invalid value"):
        found = limited(**given, scoring=scores_of, policy=policy, n_iter=4).fit(X, Y)
    order = np.argsort([each["x"] for each in found.cv_results_["params"]])
    assert found.cv_results_["feasible"][order].tolist() == [False, True, False, False]
    assert found.best_params_ == {"x": -3}
    assert found.policy_.delta == 0.2


def test_no_candidate_keeps_its_limits():
    with pytest.warns(
        UserWarning, match=r"none of 12 candidates keeps .* likeliest to, \{'x': 0.*size 0.*at most -1\)"
    ):
        found = limited(constraints={"size": sb.AtMost(-1.0)}, n_iter=12).fit(X, Y)
    assert not found.cv_results_["feasible"].any()
    assert found.best_index_ == np.argmin(found.cv_results_["mean_test_size"])


def test_a_candidate_that_failed_keeps_no_limits():
    """Also where the score for errors would."""
    with pytest.warns((FitFailedWarning, UserWarning)):
        found = limited(space={"x": [0.8, 0.85, 0.95]}, error_score=0.0, n_iter=3).fit(X, Y)
    assert not found.cv_results_["feasible"].any()
    assert found.best_params_ == {"x": 0.8}
    assert (found.policy_.rounds, found.policy_.failures) == (2, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"constraints": {}}, "^constraints: got {}; allowed: a dict of limits"),
        ({"constraints": {"size": 0.5}}, r"^constraints\['size'\]: got 0.5; allowed: sb.AtMost"),
        ({"constraints": {"sice": sb.AtMost(1)}}, "^constraints: got 'sice'; allowed: names of scores: gain, size"),
        ({"constraints": {"gain": sb.AtMost(1)}}, "^constraints: got 'gain'; allowed: names of other scores than"),
        ({"refit": False}, "^refit: got False; allowed: with constraints, the name of the score"),
        ({"refit": lambda results: 0}, "^refit: got .*; allowed: with constraints, the name"),
        ({"scoring": "accuracy"}, "^scoring: got 'accuracy'; allowed: with constraints, several scores by name"),
        ({"scoring": gain}, "^scoring: got .*; allowed: with constraints, several scores by name"),
        ({"scoring": both, "refit": "error"}, "^constraints: got 'size'; allowed: names of scores: accuracy, error"),
        ({"policy": lambda space, seed, **_: sb.GPEI(space, seed=seed)}, "^policy: got .*, with these constraints"),
    ],
)
def test_refuses_constraints(given, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        limited(**given, store=tmp_path / "run").fit(X, Y)
    assert (tmp_path / "run").exists() == (callable(given.get("scoring")))  # whose names are not known before


def test_policies_without_constraints_are_refused():
    with pytest.raises(TypeError, match=r"^policy: .*called with a space, seed=, constraints= and objective="):
        limited(policy=sb.GPUCB).fit(X, Y)
    constrained = partial(sb.ConstrainedGPEI, constraints={"size": sb.AtMost(0.5)})
    with pytest.raises(ValueError, match=r"^policy: got .*; allowed: .*which maximises$"):
        limited(policy=constrained, constraints=None).fit(X, Y)
