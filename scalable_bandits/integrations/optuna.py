"""A sampler for Optuna that asks a policy of this package.

An `Adviser` has a policy over some parameters: it is told what ended, and asked with what runs as pending. The sampler
keeps one for the parameters that all trials have, with the branches that depend on them, and one for each other group
of parameters that occur together.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

try:
    import optuna
except ImportError as error:
    raise ImportError(f"{error}; pip install 'scalable_bandits[optuna]'") from error

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.integrations import optuna_study
from scalable_bandits.integrations.optuna_study import VALUE, Key, Outcome, StudyHistory, TrialSpace, key_of
from scalable_bandits.policies import GPEHVI, GPEI, AtMost, ConstrainedGPEI, HypervolumeUCB, Policy
from scalable_bandits.policies.pending import AllFailed
from scalable_bandits.randomness import derived_seed
from scalable_bandits.runs.evaluations import check_fresh

__all__ = ["BanditSampler"]

MakePolicy = Callable[..., Policy]  # (space, seed, minimize); of several objectives with their directions besides
# Number of the preceding trials that are searched for ones whose parameters are still being chosen by another process.
# The policy is asked for one more point for each of them and the last point is used, so that parallel processes do not
# choose the same one.
PRECEDING = 16
MOST_REPEATED = 3  # number of times that a policy is asked again if it chooses what runs, or was chosen meanwhile
FEWEST_KEPT = 32  # number of policies that are kept, at least; others are made again from the history


class BanditSampler(BaseSampler):
    """Optuna sampler that asks a policy of this package.

    Parameters
    ----------
    policy
        Policy class, such as `GPUCB`, or function ``(space, seed, minimize)`` that makes a fresh policy on a
        `SearchSpace`, where `minimize` is whether small values are better; the default policy if not given. In a study
        with several objectives it is called with `objectives` besides: "minimize" or "maximize" by name of the output,
        ``values_0``, ``values_1``, ... in the order of the study, whose first direction `minimize` says.
    seed
        Seed of the policies and of random values; a random one if not given. Several processes that share a storage may
        have the same seed.
    independent_sampler
        Sampler of the parameters that no policy chooses; if not given, their values are uniform.
    group
        Whether parameters that only some trials have are chosen by policies; otherwise they are left to
        `independent_sampler`.
    constraints_func
        Function from a finished trial to a sequence of numbers, which are at most 0 where constraints are fulfilled, as
        other samplers have it. Constraints that the objective sets itself (``trial.set_constraint``) need none. With
        constraints the default policy of one objective is `ConstrainedGPEI`; a policy that is given takes none.
    avoid_failures
        Whether the settings of failed trials are avoided; False where trials fail for other reasons than their setting,
        such as Ctrl-C or a machine that is switched off.

    Raises
    ------
    ValueError
        If an argument is invalid.

    Notes
    -----
    Everything that the sampler chooses is a function of its arguments and of the trials in the study's storage. What it
    keeps in memory is a cache: a sampler that is made again, pickled, or used in several processes goes on alike.

    - The default policy is `GPEI`; in a study with two objectives `GPEHVI`, with more `HypervolumeUCB`.
    - Completed trials are told to the policy. Trials that run, in this or another process, are pending.
    - A pruned trial is told with the last value that it reported, or with the median of the trials completed before it
      if that is worse: what it would have reached in the end is not known.
    - Where a trial failed, was pruned without a report, or returned an infinite value or one above 1e100 in size, the
      policy is told of a failure.
    - A policy chooses a parameter once a completed trial has it, with the same distribution; before that its value is
      random. One policy chooses the parameters that all completed trials have, and those that depend on them: that
      occur in just those trials where a parameter of few values has some of its values. Of the others, those that occur
      together have a policy of their own.
    - Where some values of a trial are given (``study.enqueue_trial``), it chooses the others for these. An
      enqueued value outside its distribution is not told to the policy.

    Examples
    --------
    >>> import optuna
    >>> from scalable_bandits.integrations.optuna import BanditSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=BanditSampler(seed=1))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -5, 5) - 2) ** 2, n_trials=20)
    >>> round(study.best_params["x"])
    2
    """

    def __init__(
        self,
        *,
        policy: MakePolicy | None = None,
        seed: int | None = None,
        independent_sampler: BaseSampler | None = None,
        group: bool = True,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        avoid_failures: bool = True,
    ):
        if policy is not None and not callable(policy):
            checks.refuse("policy", policy, "a function (space, seed, minimize) that returns a policy, or None")
        if independent_sampler is not None and not isinstance(independent_sampler, BaseSampler):
            checks.refuse("independent_sampler", independent_sampler, "a sampler of Optuna, or None")
        if constraints_func is not None and not callable(constraints_func):
            checks.refuse("constraints_func", constraints_func, "a function of a trial, or None")
        if constraints_func is not None and policy is not None:
            checks.refuse("constraints_func", constraints_func, "None with a policy, which has its own")
        self._make_policy, self._constraints_func = policy, constraints_func
        self._seed = secrets.randbits(63) if seed is None else checks.integer("seed", seed, 0)
        self._independent_sampler = independent_sampler
        self._group = checks.flag("group", group)
        self._avoid_failures = checks.flag("avoid_failures", avoid_failures)
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.RLock()  # threads share the sampler
        self._history: StudyHistory | None = None
        self._advisers: dict[tuple[Any, ...], Adviser] = {}  # the last used comes last
        self._chosen: dict[int, dict[Key, Any]] = {}  # values of running trials, by number
        self._begun: set[int] = set()  # numbers of the trials of this process

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments alone, from which the rest follows."""
        cache = ("_lock", "_history", "_advisers", "_chosen", "_begun")
        return {name: value for name, value in vars(self).items() if name not in cache}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._clear()

    def reseed_rng(self) -> None:
        """Pass the call on to `independent_sampler`; values of the sampler itself differ by their trials' numbers."""
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    # ---- what Optuna calls

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the distributions, by name, of the parameters that all completed trials have alike.

        Parameters
        ----------
        study
            Study with one objective or several.
        trial
            Trial that begins.
        """
        with self._caches():
            return self._read(study).groups.of_all_trials()

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the values that a policy chooses for a trial, by name.

        Parameters
        ----------
        study
            Study with one objective or several.
        trial
            Trial that begins.
        search_space
            Distributions by name, as `infer_relative_search_space` returns them, or some of them.
        """
        if not search_space:
            return {}
        with self._caches():
            return self._choose(study, self._read(study), trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return the value of a parameter that is not in the relative search space.

        Parameters
        ----------
        study
            Study with one objective or several.
        trial
            Trial that runs.
        param_name
            Name of the parameter.
        param_distribution
            Distribution of the parameter.
        """
        if self._group:
            with self._caches():
                found = self._chosen_together(study, trial, param_name, param_distribution)
            if param_name in found:
                return found[param_name]
        sampler = self._independent_sampler
        if sampler is None:
            sampler = RandomSampler(derived_seed(self._seed, "independent", trial.number, param_name) % 2**32)
        return sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Prepare for a trial that begins.

        Parameters
        ----------
        study
            Study of the trial.
        trial
            Trial that begins.
        """
        self._begun.add(trial.number)  # without the lock, which may be held for long
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Forget the values that were chosen for a trial that ends.

        Parameters
        ----------
        study
            Study of the trial.
        trial
            Trial that ends.
        state
            State in which the trial ends.
        values
            Values (p,) of the trial by objective; None of one that failed or was pruned.

        Raises
        ------
        ValueError
            If `constraints_func` returns NaN, or anything but a sequence of numbers.
        """
        self._begun.discard(trial.number)
        with self._lock:
            self._chosen.pop(trial.number, None)
        if self._constraints_func is not None and state in (TrialState.COMPLETE, TrialState.PRUNED):
            given = self._constraints_func(trial)
            try:
                found = [float(value) for value in given]
            except (TypeError, ValueError):
                checks.refuse("constraints_func", given, "a function that returns a sequence of numbers")
            if any(map(math.isnan, found)):
                checks.refuse("constraints_func", found, "a function that returns no NaN")
            study._storage.set_trial_system_attr(trial._trial_id, optuna_study.CONSTRAINTS, found)
        if self._independent_sampler is not None:
            self._independent_sampler.after_trial(study, trial, state, values)

    # ---- for users

    def current_policy(self, study: optuna.Study) -> Policy:
        """Return a copy of the policy of the parameters that all completed trials have, told of all that ended.

        Parameters
        ----------
        study
            Study with one objective or several.

        Raises
        ------
        ValueError
            If the completed trials have no parameter in common.
        """
        with self._caches():
            history = self._read(study)
            adviser = self._adviser(history, history.groups.of_all_trials())
            if adviser is None:
                checks.refuse("study", study.study_name, "a study whose completed trials have a parameter in common")
            adviser.follow(history)
            return copy.deepcopy(adviser.policy)

    # ---- the policies

    @contextmanager
    def _caches(self) -> Iterator[None]:
        """Keep other threads out, and drop the caches after an error or Ctrl-C, which may leave them half changed."""
        with self._lock:
            try:
                yield
            except BaseException:
                self._history = None
                raise

    def _history_of(self, study: optuna.Study) -> StudyHistory:
        """Return the history of a study, as it was read last."""
        if self._history is None or not self._history.is_of(study):
            self._history = StudyHistory(study, self._avoid_failures)
            self._advisers, self._chosen = {}, {}
        return self._history

    def _read(self, study: optuna.Study) -> StudyHistory:
        """Return the history of a study, up to date."""
        trials = study._storage.get_all_trials(study._study_id, deepcopy=False)
        if not self._history_of(study).goes_on(trials):
            self._history = None
        history = self._history_of(study)
        history.update(trials)
        return history

    def _adviser(
        self, history: StudyHistory, distributions: Mapping[str, BaseDistribution], trial: FrozenTrial | None = None
    ) -> Adviser | None:
        """Return the adviser of some parameters, and of those that depend on them.

        None if no search space can hold any of them. Branches of which a trial is given values are left out.
        """
        given = () if trial is None else optuna_study.given_values(trial)
        branches = optuna_study.dependent(distributions, history.groups.branches(), given) if self._group else []
        constraints = history.constraints if self._make_policy is None else ()
        key = (constraints, *optuna_study.keys_of(distributions), *(branch.key for branch in branches))
        adviser = self._advisers.pop(key, None)
        if adviser is None:
            space = TrialSpace(distributions, branches)
            if not space.distributions:
                return None
            seed = derived_seed(self._seed, "policy", *space.distributions)
            make = self._make_policy or _default(len(history.directions), constraints)
            adviser = Adviser(space, make, seed, history.directions, constraints)
        self._advisers[key] = adviser
        while len(self._advisers) > max(FEWEST_KEPT, 2 * len(history.groups)):
            del self._advisers[next(iter(self._advisers))]
        return adviser

    def _choose(
        self, study: optuna.Study, history: StudyHistory, trial: FrozenTrial, distributions: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the values of some parameters by name; store them, and those that depend on them."""
        for _ in range(MOST_REPEATED):
            adviser = self._adviser(history, distributions, trial)
            if adviser is None:
                return {}
            space = adviser.space
            try:
                point = adviser.choose(history, trial, self._begun)
            except AllFailed:  # every setting has failed: the choice is left to the independent sampler
                return {}
            known = {trial.number, *(each.number for each in history.running if not optuna_study.has_no_values(each))}
            ended, history = len(history.outcomes), self._read(study)
            since = history.running + [outcome.trial for outcome in history.outcomes[ended:]]
            if not adviser.occurs(point, [each for each in since if each.number not in known]):
                break
        chosen = self._chosen.setdefault(trial.number, {})
        internal = space.internal(point)
        for attribute, part in optuna_study.attributes_of(internal, len(chosen)).items():
            study._storage.set_trial_system_attr(trial._trial_id, attribute, part)
        values = {}
        for name, (distribution, _) in space.at(point).items():
            value = optuna_study.value_of(distribution, internal[name])
            chosen[key_of(name, distribution)] = value
            if name in distributions:
                values[name] = value
        return values

    def _chosen_together(
        self, study: optuna.Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
    ) -> dict[str, Any]:
        """Return the values of a parameter and of those that occur together with it; empty if that is not known."""
        history, key = self._history_of(study), key_of(name, distribution)
        chosen = self._chosen.get(trial.number, {})
        if key in chosen:
            return {name: chosen[key]}
        together = history.groups.around(name, distribution)
        return self._choose(study, self._read(study), trial, together) if together else {}


def _default(objectives: int, constraints: Sequence[str]) -> MakePolicy:
    """Return the class of the default policy, or what calls it, with constraints that are to be at most 0."""
    limits = {name: AtMost(0.0) for name in constraints}
    if objectives > 1:
        return functools.partial(GPEHVI if objectives == 2 else HypervolumeUCB, constraints=limits)
    return functools.partial(ConstrainedGPEI, constraints=limits, objective=VALUE) if limits else GPEI


class Adviser:
    """Policy over some parameters of a study, told of the trials that ended.

    What it chooses is a function of the study's history; the policy is a cache of what follows from it.

    Parameters
    ----------
    space
        Space of the parameters.
    make_policy
        Function that makes the policy, from its space, its seed, whether small values of the first objective are
        better, and of several objectives their directions.
    seed
        Seed of the policy.
    directions
        Direction, "minimize" or "maximize", by name of the objective's output.
    constraints
        Names of the constraints that the policy is told.

    Attributes
    ----------
    policy : Policy
        The policy.

    Raises
    ------
    ValueError
        If the function does not return a fresh policy on the space, with the objectives if there are several.
    """

    def __init__(
        self,
        space: TrialSpace,
        make_policy: MakePolicy,
        seed: int,
        directions: Mapping[str, str],
        constraints: Sequence[str] = (),
    ):
        self.space, self._objectives, self._constraints = space, tuple(directions), constraints
        minimize, several = next(iter(directions.values())) == "minimize", len(directions) > 1
        more = {"objectives": directions} if several else {}
        try:
            self.policy = make_policy(space.space, seed=seed, minimize=minimize, **more)
        except TypeError as error:
            called = "a space, seed=, minimize= and objectives=" if several else "a space, seed= and minimize="
            raise TypeError(f"policy: {error}; it is called with {called}") from error
        if not isinstance(self.policy, Policy) or self.policy.space != space.space:
            allowed = "a policy class, or a function (space, seed, minimize) that returns a policy on that space"
            checks.refuse("policy", self.policy, allowed)
        if several and getattr(self.policy, "directions", None) != directions:
            checks.refuse("policy", self.policy, f"a policy of the study's objectives, {directions}")
        check_fresh(self.policy)
        self._sign = 1.0 if self.policy.minimize == minimize else -1.0
        self._told = 0  # number of the history's outcomes

    def follow(self, history: StudyHistory, number: int | None = None) -> list[Floats]:
        """Tell the policy what ended, and return the points (p,) of the running trials, in their order.

        Parameters
        ----------
        history
            History of the study.
        number
            Number of the trial to be left out of the running ones; None for none.
        """
        new = history.outcomes[self._told :]
        running = [trial for trial in history.running if trial.number != number]
        ended = [(outcome, point) for outcome in new if (point := self.space.point(outcome.trial)) is not None]
        pending = [(trial, point) for trial in running if (point := self.space.point(trial)) is not None]
        known = [(outcome.trial, point) for outcome, point in ended] + pending
        self._number_points([point for _, point in sorted(known, key=lambda pair: pair[0].number)])
        for failed, group in itertools.groupby(ended, key=lambda pair: pair[0].values is None):
            outcomes, points = zip(*group, strict=True)
            asked = np.array([optuna_study.was_chosen(outcome.trial) for outcome in outcomes])
            if not failed and (self._constraints or len(self._objectives) > 1):
                assert self.policy.outputs is not None
                told = self.policy.outputs.split([self._outputs(outcome) for outcome in outcomes], "y")
                self.policy._tell(asked, np.array(points), told[0], None, told[1])
            elif not failed:
                values = np.array([outcome.values[0] for outcome in outcomes])
                self.policy._tell(asked, np.array(points), self._sign * values, None)
            for point in points if failed else ():
                self.policy.tell_failure(point[None])
        self._told = len(history.outcomes)
        return [point for _, point in pending]

    def _outputs(self, outcome: Outcome) -> dict[str, float | None]:
        """Return values and constraints of an outcome by name of the output."""
        values = dict(zip(self._objectives, outcome.values or (), strict=True))
        return {**values, **{name: outcome.constraints.get(name) for name in self._constraints}}

    def _number_points(self, points: list[Floats]) -> None:
        """Number points in the order of their trials, so that the order in which they end does not matter."""
        domain = self.policy.domain
        if not points or not domain.by_visit:
            return
        new = np.array(list(dict.fromkeys(map(tuple, points))))
        new = new[domain.find(new) < 0]
        if len(new):
            self.policy._introduce(np.arange(domain.size, domain.size + len(new)), new)

    def choose(self, history: StudyHistory, trial: FrozenTrial, own: Collection[int] = ()) -> Floats:
        """Return the point (p,) chosen for a trial.

        Parameters
        ----------
        history
            History of the study.
        trial
            Trial that the values are for.
        own
            Numbers of the trials of this process.
        """
        given = self.space.given(trial)
        if len(given) == len(self.space.distributions):
            return np.array(list(given.values()))
        context = self.space.values(given) or None
        pending = self.follow(history, trial.number)
        numbers = self.policy.domain.find(np.array(pending)) if pending else np.empty(0, dtype=np.int64)
        self.policy._restore_pending([number for number in numbers.tolist() if number >= 0], reissue=False)
        running = {tuple(point) for point in pending}
        preceding = set(range(trial.number - PRECEDING, trial.number)).difference(own)  # of other processes
        others = [other for other in history.running if other.number in preceding]
        try:
            chosen = self._ask(1 + sum(map(optuna_study.has_no_values, others)), context)
            for _ in range(MOST_REPEATED):
                if tuple(chosen) in running:
                    chosen = self._ask(1, context)
        finally:
            self.policy.abandon()
        return chosen

    def occurs(self, point: Floats, trials: Sequence[FrozenTrial]) -> bool:
        """Return whether a point (p,) is that of one of some trials."""
        points, internal = map(self.space.point, trials), self.space.internal(point)
        return any(each is not None and self.space.internal(each) == internal for each in points)

    def _ask(self, count: int, context: Mapping[str, Any] | None) -> Floats:
        """Return the last (p,) of the next points, in the context of the values that are given."""
        setting = self.policy.ask(count, context=context)[-1]
        return self.space.space.parse(setting)[0][0]
