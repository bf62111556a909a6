"""Trials of an Optuna study: how they ended, which run, and which parameters occur together."""

from __future__ import annotations

import bisect
import datetime
import math
import weakref
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import optuna
from optuna.distributions import BaseDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from scalable_bandits.integrations.optuna_space import parameter_of
from scalable_bandits.policies.measurements import LARGEST

Key = tuple[str, str]  # name and description of a distribution


def key_of(name: str, distribution: BaseDistribution) -> Key:
    """Return a key that is equal for equal distributions of a name, also where choices cannot be hashed."""
    return name, repr(distribution)


class Outcome(NamedTuple):
    """Finished trial."""

    trial: FrozenTrial
    value: float | None  # value to be told to a policy, in units of y; None for a failed evaluation


class ParameterGroups:
    """Groups of the parameters that occur together: in the same completed trials, with the same distributions."""

    def __init__(self) -> None:
        self._every = 0  # a bit for each completed trial
        self._trials: dict[Key, int] = {}  # by parameter, the bits of the trials that have it
        self._distributions: dict[Key, BaseDistribution] = {}  # of the parameters that a search space can hold

    def __len__(self) -> int:
        return len(set(self._trials.values()))

    def add(self, distributions: Mapping[str, BaseDistribution]) -> None:
        """Add a completed trial by the distributions of its parameters."""
        trial = self._every + 1
        self._every += trial
        for name, distribution in distributions.items():
            key = key_of(name, distribution)
            if key not in self._trials and parameter_of(distribution) is not None:
                self._distributions[key] = distribution
            self._trials[key] = self._trials.get(key, 0) | trial

    def of_all_trials(self) -> dict[str, BaseDistribution]:
        """Return the distributions, by name, of the parameters that all completed trials have alike."""
        return self._in(self._every)

    def around(self, name: str, distribution: BaseDistribution) -> dict[str, BaseDistribution]:
        """Return the distributions, by name, of a parameter's group; empty if no completed trial has the parameter."""
        key = key_of(name, distribution)
        return self._in(self._trials[key]) if key in self._distributions else {}

    def _in(self, trials: int) -> dict[str, BaseDistribution]:
        """Return the distributions, by name, of the parameters that occur in these trials and no others."""
        return {key[0]: self._distributions[key] for key in sorted(self._distributions) if self._trials[key] == trials}


class StudyHistory:
    """Trials of a study in the order in which they ended.

    A function of the trials in the study's storage: two processes that read the same trials have the same history.

    Parameters
    ----------
    study
        Study with one objective.
    failures
        Whether failed trials are among the outcomes.

    Attributes
    ----------
    outcomes : list of Outcome
        Finished trials.
    running : list of FrozenTrial
        Running trials, by number.
    groups : ParameterGroups
        Parameters that occur together.
    """

    def __init__(self, study: optuna.Study, failures: bool = True):
        self.minimize = study.directions[0] != StudyDirection.MAXIMIZE
        self.outcomes: list[Outcome] = []
        self.running: list[FrozenTrial] = []
        self.groups = ParameterGroups()
        self._failures = failures
        self._study_id, self._name = study._study_id, study.study_name
        self._first: datetime.datetime | None = None  # when the first trial began
        self._storage = weakref.ref(study._storage)
        self._seen = 0  # number of trials that have been read
        self._unfinished: list[int] = []  # numbers of those that had not ended
        self._values: list[float] = []  # values of the completed trials, ascending, negated if the study maximises

    def is_of(self, study: optuna.Study) -> bool:
        """Return whether the history is that of a study."""
        return self._storage() is study._storage and (self._study_id, self._name) == (study._study_id, study.study_name)

    def goes_on(self, trials: Sequence[FrozenTrial]) -> bool:
        """Return whether trials go on from those read; a new study may have the number and name of a deleted one."""
        count = trials[-1].number + 1 if trials else 0
        return not self._seen or (count >= self._seen and trials[0].datetime_start == self._first)

    def update(self, trials: Sequence[FrozenTrial]) -> None:
        """Add what is new among the trials of the study.

        Parameters
        ----------
        trials
            All trials of the study, by number.
        """
        count = trials[-1].number + 1 if trials else 0
        found = trials if count == len(trials) else {trial.number: trial for trial in trials}
        ended, self.running, unfinished = [], [], []
        for number in (*self._unfinished, *range(self._seen, count)):
            trial = found[number] if count == len(trials) or number in found else None
            if trial is None or not trial.state.is_finished():
                unfinished.append(number)
            else:
                ended.append(trial)
            if trial is not None and trial.state == TrialState.RUNNING:
                self.running.append(trial)
        self._seen, self._unfinished = max(self._seen, count), unfinished
        self._first = trials[0].datetime_start if trials else None
        for trial in sorted(ended, key=_end):
            self._add(trial)

    def _add(self, trial: FrozenTrial) -> None:
        value = trial.values[0] if trial.values and trial.state != TrialState.FAIL else None
        if value is not None and not (math.isfinite(value) and abs(value) <= LARGEST):
            value = None
        if trial.state == TrialState.COMPLETE:
            self.groups.add(trial.distributions)
            if value is not None:
                bisect.insort(self._values, value if self.minimize else -value)
        elif value is not None:
            value = self._pruned(value)
        if self._failures or trial.state != TrialState.FAIL:
            self.outcomes.append(Outcome(trial, value))

    def _pruned(self, last: float) -> float:
        """Return the worse of a pruned trial's last report and the median of the completed trials before it."""
        if not self._values:
            return last
        median = self._values[len(self._values) // 2]
        return max(last, median) if self.minimize else min(last, -median)


def _end(trial: FrozenTrial) -> tuple[float, int]:
    return (0.0 if trial.datetime_complete is None else trial.datetime_complete.timestamp()), trial.number
