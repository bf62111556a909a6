"""`BanditSearchCV`: scikit-learn's search over hyperparameters, with a Gaussian-process policy that chooses candidates.

The documented extension point of scikit-learn's searches, `_run_search`, cannot take back stored evaluations, raises
when all folds of one candidate fail, and splits the data anew in every batch. `fit` is therefore written here, and all
else (scorers, routing of metadata, form of the results, prediction) is inherited.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import product
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import joblib
import numpy as np
from sklearn.base import BaseEstimator, _fit_context, clone, is_classifier
from sklearn.model_selection import _validation, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, indexable
from sklearn.utils._param_validation import Interval
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from scalable_bandits import checks, identity
from scalable_bandits.execution.connect import connect
from scalable_bandits.integrations.candidate_search import CandidateSearch, Fold
from scalable_bandits.integrations.param_distributions import ParameterMap
from scalable_bandits.policies import GPEI, ConstrainedGPEI, Policy
from scalable_bandits.policies.measurements import LARGEST
from scalable_bandits.policies.outputs import Limit, Outputs, check_limits
from scalable_bandits.posteriors.placement import threads_of
from scalable_bandits.runs.evaluations import Evaluations
from scalable_bandits.runs.recording import record
from scalable_bandits.spaces import SearchSpace


def described(value: Any) -> Any:
    """Describe an argument of a search as plain data, the same in every process.

    Parameters
    ----------
    value
        Estimator, scorer, number, text, array (...,) of any shape, or a list, tuple or dict of such values.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)  # NaN is not equal to itself
    if hasattr(value, "get_params") and not isinstance(value, type):
        parameters = {name: described(each) for name, each in value.get_params(deep=False).items()}
        return {"class": f"{type(value).__module__}:{type(value).__qualname__}", **parameters}
    if isinstance(value, Mapping):
        return {str(key): described(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [described(each) for each in value]
    if hasattr(value, "__array__"):
        return joblib.hash(value)
    return identity.described(value)


TRIED = 16  # number of random settings that are set before a search, to find names that are wrong


class _Data(NamedTuple):
    """Arguments of one `fit`, checked."""

    X: Any
    y: Any
    folds: list[tuple[Any, Any]]  # rows of training and test of each
    scorers: Any
    routed: Any  # arguments for estimator, scorers and splitter


class BanditSearchCV(BaseSearchCV):
    """Search over hyperparameters by cross-validation, in which a Gaussian-process policy chooses the candidates.

    The interface is that of scikit-learn's `RandomizedSearchCV`. All candidates are evaluated on the same folds, and
    none twice. Scores are maximised.

    Parameters
    ----------
    estimator
        Estimator whose hyperparameters are searched.
    param_distributions
        Hyperparameters: a dict of names and lists of values, distributions of scipy.stats (uniform, loguniform,
        randint) or parameters such as `Real`; a list of such dicts, of which a candidate uses one; or a `SearchSpace`.
    n_iter
        Number of candidates; with a store that has more of them, those.
    scoring
        Scorer or scorers, as in `RandomizedSearchCV`. The policy maximises the score named by `refit`; if `refit` names
        none, the first of several.
    n_jobs
        Number of fits that joblib runs at once; a fit is one candidate on one fold. None with `on`.
    refit
        Whether, by which score, or by which function of the results the best candidate is chosen and fitted to all
        data, as in `RandomizedSearchCV`.
    cv
        Folds: their number, a splitter, or an iterable of rows of training and test.
    verbose
        Amount of messages.
    pre_dispatch
        Number of evaluations that joblib dispatches ahead.
    random_state
        Seed of the policy, or a random state that it is drawn from. If not given, 0: a search that is repeated, or
        continued from a store, chooses the same candidates.
    error_score
        Score of a fold whose fit or score fails, or "raise". The policy avoids candidates with a fold whose fit failed.
    return_train_score
        Whether the results have the scores on the training rows.
    batch
        Number of candidates that are chosen and evaluated together. If not given, as many as have all their folds
        running at once in `n_jobs`, and at least one.
    on
        Executor of the evaluations: None (joblib, as it is configured), "threads:4" (threads of this process),
        "local:4" (worker processes), the address of a Dask scheduler, a `distributed.Client`, or a recipe file.
    policy
        Function of a space and `seed=` that returns the policy, such as `GPUCB` or `functools.partial(GPEI, xi=0.1)`.
        If not given, `GPEI`; with constraints `ConstrainedGPEI`. With constraints the function is called with
        `constraints=` and `objective=`, the name in `refit`, besides.
    store
        Store of the search, as in `maximize`. The same `fit` continues a search that is in the store already: its
        candidates are not evaluated again.
    constraints
        Limits of mean test scores by name of the scorer, such as ``{"precision": sb.AtLeast(0.9)}``. `scoring` has
        several scores then, and `refit` names the one that is maximised among the candidates that keep all limits.

    Attributes
    ----------
    cv_results_ : dict
        Scores, times and parameters (k,) of the k candidates evaluated, in the order of evaluation; with constraints
        "feasible", whether the candidate was evaluated and keeps all limits.
    best_estimator_ : estimator
        Estimator of the best candidate, fitted to all data.
    best_score_ : float
        Mean score of the best candidate over the folds.
    best_params_ : dict
        Hyperparameters of the best candidate.
    best_index_ : int
        Position of the best candidate in the results; if none keeps all limits, of the one that is likeliest to.
    policy_ : Policy
        Policy after the search; `policy_.best()` is the candidate of largest posterior mean.
    scorer_, n_splits_, refit_time_, multimetric_, classes_, n_features_in_, feature_names_in_
        Attributes that `RandomizedSearchCV` has, with the same meaning.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> distributions = {"C": loguniform(1e-2, 1e3), "kernel": ["linear", "rbf"]}
    >>> search = BanditSearchCV(SVC(), distributions, n_iter=12, cv=3).fit(X, y)
    >>> sorted(search.best_params_)
    ['C', 'kernel']
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSearchCV._parameter_constraints,
        "param_distributions": [dict, list, tuple, SearchSpace],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "batch": [Interval(Integral, 1, None, closed="left"), None],
        "on": "no_validation",  # by the executors
        "policy": [callable, None],
        "store": "no_validation",  # by the store
        "constraints": [dict, None],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 50,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        batch: int | None = None,
        on: Any = None,
        policy: Callable[..., Policy] | None = None,
        store: Any = None,
        constraints: Mapping[str, Limit] | None = None,
    ):
        super().__init__(
            estimator, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv, verbose=verbose, pre_dispatch=pre_dispatch,
            error_score=error_score, return_train_score=return_train_score,
        )  # fmt: skip
        self.param_distributions = param_distributions
        self.n_iter = n_iter
        self.random_state = random_state
        self.batch = batch
        self.on = on
        self.policy = policy
        self.store = store
        self.constraints = constraints

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy with the same executor and store: a client of a cluster cannot be copied."""
        alone = copy.copy(self)
        alone.on = alone.store = None
        copied: Self = BaseEstimator.__sklearn_clone__(alone)
        return copied.set_params(on=self.on, store=self.store)

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Refuse callbacks of scikit-learn, which this search does not call.

        Raises
        ------
        ValueError
            If there is a callback.
        """
        if callbacks:
            checks.refuse("callbacks", callbacks, "none: this search does not call them")
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Search, and fit the estimator with the best candidate to all data.

        Parameters
        ----------
        X
            Training data (n_samples, n_features), or what else the estimator takes.
        y
            Targets (n_samples,) or (n_samples, n_outputs); None for unsupervised learning.
        **params
            Arguments for the estimator, the scorers and the splitter, routed as in `RandomizedSearchCV`.

        Returns
        -------
        BanditSearchCV
            The search itself.

        Raises
        ------
        ValueError
            If an argument is invalid, or all fits failed.
        SpecificationDiffers
            If the store has a search of another estimator, space, data or folds.
        """
        data = self._checked(X, y, params)
        parameters = ParameterMap.of(self.param_distributions)
        search = CandidateSearch(self._policy(parameters.space), self.n_iter)
        with self._jobs(), Parallel(n_jobs=self.n_jobs, pre_dispatch=self.pre_dispatch) as parallel:
            self._try(parameters)
            with self._recording(search.policy, data, params, parameters) as recording:
                if recording is not None:
                    search.resume(recording)
                for settings in search.batches(lambda: self._batch(data)):
                    candidates = [parameters.arguments(setting) for setting in settings]
                    results = self._evaluate(parallel, data, candidates)
                    outcomes = [self._outcome(folds) for folds in results]
                    for setting, folds, outcome in zip(settings, results, outcomes, strict=True):
                        search.tell(setting, folds, *outcome)
        self.policy_ = search.policy
        candidates = [parameters.arguments(each.setting) for each in search.evaluations]
        self._take_results(data, candidates, search)
        if self.refit:
            self._fit_best(data)
        return self

    # ---- before the search

    def _checked(self, X: Any, y: Any, params: dict[str, Any]) -> _Data:
        """Check the data, and split them."""
        limits, (scorers, _) = self._limits(), self._get_scorers()
        if limits and not callable(self.scoring):
            self._check_limited(getattr(scorers, "_scorers", None), limits)
        X, y = indexable(X, y)
        routed = self._get_routed_params_for_fit(_check_method_params(X, params=params))
        splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        count = splitter.get_n_splits(X, y, **routed.splitter.split)
        folds = list(splitter.split(X, y, **routed.splitter.split))
        if len(folds) != count or not folds:
            checks.refuse(
                "cv", f"{len(folds)} folds of {splitter}, which says {count}", "as many as it says, at least one"
            )
        if self.store is not None and joblib.hash(folds) != joblib.hash(
            list(splitter.split(X, y, **routed.splitter.split))
        ):
            allowed = (
                "folds that are always the same, since the store continues the search: give an integer random_state"
            )
            checks.refuse("cv", splitter, allowed)
        return _Data(X, y, folds, scorers, routed)

    def _limits(self) -> dict[str, Limit]:
        """Return the limits by score, checked; empty without constraints."""
        limits = {} if self.constraints is None else check_limits(self.constraints)
        if limits and not isinstance(self.refit, str):
            checks.refuse("refit", self.refit, "with constraints, the name of the score that is maximised")
        if self.refit in limits:
            checks.refuse("constraints", self.refit, "names of other scores than that of `refit`, which is maximised")
        return limits

    def _check_limited(self, scores: Any, limits: Mapping[str, Limit]) -> None:
        """Raise ValueError unless there are scores by name, with those that have limits among them."""
        if not isinstance(scores, dict):
            allowed = "with constraints, several scores by name: a list, a dict, or a function that returns a dict"
            checks.refuse("scoring", self.scoring, allowed)
        for name in limits:
            if name not in scores:
                checks.refuse("constraints", name, f"names of scores: {', '.join(scores)}")

    def _policy(self, space: SearchSpace) -> Policy:
        """Make the policy."""
        state, seed, limits = self.random_state, 0, self._limits()
        more = {"constraints": limits, "objective": self.refit} if limits else {}
        if state is not None:
            seed = int(state) if isinstance(state, Integral) else int(check_random_state(state).randint(2**31 - 1))
        try:
            made = (self.policy or (ConstrainedGPEI if limits else GPEI))(space, seed=seed, **more)
        except TypeError as error:
            called = "a space, seed=, constraints= and objective=" if limits else "a space and seed="
            raise TypeError(f"policy: {error}; it is called with {called}") from error
        outputs = Outputs(self.refit, limits) if limits else None
        if not isinstance(made, Policy) or made.space != space or made.minimize or made.outputs != outputs:
            allowed = "a function of a space and `seed=` that returns a policy on that space, which maximises"
            checks.refuse("policy", self.policy, f"{allowed}, with these constraints" if limits else allowed)
        return made

    @contextmanager
    def _jobs(self) -> Iterator[None]:
        """Let joblib run its jobs on the executor."""
        if self.on is not None and self.n_jobs not in (None, -1):
            checks.refuse("n_jobs", self.n_jobs, "None with `on`, which says how many fits run at once")
        threads = threads_of(self.on)
        with ExitStack() as stack:
            if threads is not None:
                stack.enter_context(joblib.parallel_config("threading", n_jobs=threads))
            elif self.on is not None:
                client = stack.enter_context(connect(self.on))
                stack.enter_context(joblib.parallel_config("dask", client=client, n_jobs=-1))
            yield

    def _try(self, parameters: ParameterMap) -> None:
        """Set the parameters of random settings, so that a name that is wrong is refused before a store is made."""
        for point in parameters.space.draw(TRIED, np.random.default_rng(0), least=1):
            arguments = parameters.arguments(parameters.space.setting(point))
            clone(self.estimator).set_params(**{name: clone(value, safe=False) for name, value in arguments.items()})

    def _identity(self, data: _Data, params: dict[str, Any], parameters: ParameterMap) -> dict[str, Any]:
        """Return what a stored search must have in common with this one."""
        plain = {name: getattr(self, name) for name in ("estimator", "scoring", "error_score", "return_train_score")}
        objective = self.refit if isinstance(self.refit, str) else None
        if objective is None and hasattr(data.scorers, "_scorers"):  # the first of several scores is maximised
            objective = next(iter(data.scorers._scorers))
        parts = {"X": data.X, "y": data.y, "folds": data.folds, **params}
        targets = parameters.targets.items()  # a space knows no more of labelled values than a short text
        values = {name: list(target.labelled.values()) for name, target in targets if target.labelled is not None}
        found: dict[str, Any] = described({**plain, "objective": objective, **({"values": values} if values else {})})
        return {**found, "data": {k: joblib.hash(v) for k, v in parts.items()}}

    # ---- the search

    def _recording(
        self, policy: Policy, data: _Data, params: dict[str, Any], parameters: ParameterMap
    ) -> AbstractContextManager[Evaluations | None]:
        """Return the recording of the search in its store; None without one."""
        if self.store is None:
            return nullcontext()
        parts = {"search": self._identity(data, params, parameters)}
        return record(policy, self.store, planned=self.n_iter, parts=parts, kind="search")

    def _batch(self, data: _Data) -> int:
        """Return the number of candidates of the next batch."""
        return self.batch or max(joblib.effective_n_jobs(self.n_jobs) // len(data.folds), 1)

    def _evaluate(self, parallel: Any, data: _Data, candidates: list[dict[str, Any]]) -> list[list[Fold]]:
        """Fit and score candidates on all folds."""
        count, total = len(data.folds), len(data.folds) * len(candidates)
        if self.verbose > 0:
            print(f"Fitting {count} folds for each of {len(candidates)} candidates, totalling {total} fits")
        out = parallel(
            delayed(_validation._fit_and_score)(
                clone(self.estimator), data.X, data.y, scorer=data.scorers, train=train, test=test,
                verbose=self.verbose, parameters=parameters, fit_params=data.routed.estimator.fit,
                score_params=data.routed.scorer.score, return_train_score=self.return_train_score,
                return_n_test_samples=True, return_times=True, error_score=self.error_score,
                split_progress=(fold, count), candidate_progress=(number, len(candidates)),
            )
            for (number, parameters), (fold, (train, test)) in product(enumerate(candidates), enumerate(data.folds))
        )  # fmt: skip
        return [out[first : first + count] for first in range(0, total, count)]

    def _outcome(self, folds: list[Fold]) -> tuple[Any, str]:
        """Return what the policy is told of a candidate, or an error.

        It is the mean of the score that is maximised; with constraints, a dict with the means of the others too.
        """
        failures = [fold["fit_error"] for fold in folds if fold["fit_error"] is not None]
        if failures:
            return np.nan, failures[0].strip().rpartition("\n")[2] or "the fit failed"
        value, limits = float(np.mean([self._objective(fold["test_scores"]) for fold in folds])), self._limits()
        if not abs(value) <= LARGEST:  # or NaN
            return np.nan, f"the score is {value}"
        if not limits:
            return value, ""
        self._check_limited(folds[0]["test_scores"], limits)
        means = {name: float(np.mean([fold["test_scores"][name] for fold in folds])) for name in limits}
        return {self.refit: value, **{name: each if abs(each) <= LARGEST else None for name, each in means.items()}}, ""

    def _keeps(self, folds: list[Fold]) -> bool:
        """Return whether a candidate was evaluated and keeps all limits."""
        value, error = self._outcome(folds)
        return not error and all(
            value[name] is not None and limit.holds(value[name]) for name, limit in self._limits().items()
        )

    def _objective(self, scores: Any) -> Any:
        """Return the score that is maximised, of one score or of several by name."""
        if not isinstance(scores, dict):
            return scores
        self._check_refit_for_multimetric(scores)  # a scorer that is a function gives no names before it is called
        return scores[self.refit if isinstance(self.refit, str) else next(iter(scores))]

    # ---- after the search

    def _take_results(self, data: _Data, candidates: list[dict[str, Any]], search: CandidateSearch) -> None:
        """Set the results and the best candidate, as scikit-learn's searches do."""
        out = [dict(fold) for each in search.evaluations for fold in each.folds]
        _validation._warn_or_raise_about_fit_failures(out, self.error_score)
        if callable(self.scoring):
            _validation._insert_error_scores(out, self.error_score)
        self.n_splits_ = len(data.folds)
        self.scorer_ = getattr(data.scorers, "_scorers", data.scorers)  # several by name
        self.multimetric_ = isinstance(out[0]["test_scores"], dict)
        more = {"feasible": [self._keeps(each.folds) for each in search.evaluations]} if self.constraints else {}
        self.cv_results_ = self._format_results(candidates, self.n_splits_, out, more)
        if self.refit or not self.multimetric_:
            metric = self.refit if self.multimetric_ else "score"
            self.best_index_ = (
                self._best_allowed(search) if more else self._select_best_index(self.refit, metric, self.cv_results_)
            )
            if not callable(self.refit):
                self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]
            self.best_params_ = candidates[self.best_index_]

    def _best_allowed(self, search: CandidateSearch) -> int:
        """Return the position of the best candidate that keeps all limits, or of the one that is likeliest to."""
        results, feasible = self.cv_results_, self.cv_results_["feasible"]
        ranks = results[f"rank_test_{self.refit}"]
        if feasible.any():
            return int(np.where(feasible, ranks, len(ranks) + 1).argmin())
        place = search.place_of(self.policy_.best().x) if self.policy_.rounds else None
        best = int(ranks.argmin()) if place is None else place
        shown = [f"{name} {results[f'mean_test_{name}'][best]:.6g} ({limit})" for name, limit in self._limits().items()]
        text = f"constraints: none of {len(ranks)} candidates keeps all limits; the best one is the likeliest to"
        checks.warn(f"{text}, {results['params'][best]}: {', '.join(shown)}")
        return best

    def _fit_best(self, data: _Data) -> None:
        """Fit the best candidate to all data."""
        self.best_estimator_ = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        began = time.time()
        targets = () if data.y is None else (data.y,)
        self.best_estimator_.fit(data.X, *targets, **data.routed.estimator.fit)
        self.refit_time_ = time.time() - began
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
