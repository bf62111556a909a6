"""Studies of Optuna as a policy sees them: distributions as parameters, trials as points, and how trials ended."""

from __future__ import annotations

import bisect
import datetime
import functools
import math
import weakref
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import attrs
import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from scalable_bandits.checks import Floats
from scalable_bandits.policies import measurements
from scalable_bandits.spaces import Categorical, Integer, Ordinal, Parameter, Real, SearchSpace
from scalable_bandits.spaces.parameters import LARGEST, Choice
from scalable_bandits.spaces.parameters_from import to_parameter

MOST_LISTED = 1000  # largest number of steps that are an `Ordinal` of the values; more are an `Integer` of positions
ROUNDING = 1e-8  # largest distance of a value from a step, in steps
CONSTRAINTS = "constraints"  # system attribute of a trial with the values of its constraints, or beginning of several
PROPOSED = "bandit:"  # beginning of the names of system attributes with the values chosen for a trial
VALUE = "value of the trial"  # output of a policy of one objective
MOST_BRANCHES = 64  # largest number of values of a parameter that others may depend on
LONGEST = 2000  # number of characters of a system attribute, which databases limit to 2,045
Key = tuple[str, str]  # name and description of a distribution


def parameter_of(distribution: BaseDistribution) -> Parameter | None:
    """Return a distribution as a parameter; None if no parameter has its values, or if it has a single value.

    Parameters
    ----------
    distribution
        Distribution of Optuna. Categories that cannot be compared or hashed, and sets, become their texts; the numbers
        of the parameter are always positions in the list of choices, or of steps. A range of more whole numbers, or
        steps, than float64 can count is continuous, and its values are rounded.
    """
    if distribution.single():
        return None
    step = _step(distribution)
    try:
        if step is not None and (count := _steps(distribution, step)) > MOST_LISTED:
            return Integer(0, count - 1) if count < LARGEST else Real(0, count - 1)
        if isinstance(distribution, IntDistribution) and max(-distribution.low, distribution.high) >= LARGEST:
            return Real(distribution.low, distribution.high, log=distribution.log)
        if not any(isinstance(choice, set | frozenset) for choice in getattr(distribution, "choices", ())):
            return to_parameter("distribution", distribution)
    except ValueError:
        if not isinstance(distribution, CategoricalDistribution):
            return None
    assert isinstance(distribution, CategoricalDistribution)
    return Categorical([f"{position}: {choice!r}" for position, choice in enumerate(distribution.choices)])


def distribution_of(parameter: Parameter) -> BaseDistribution:
    """Return a parameter as a distribution, of which `parameter_of` makes an equal one where it has several values.

    Parameters
    ----------
    parameter
        Parameter. Values that Optuna does not keep, or that it takes for equal, become their texts; evenly spaced
        numbers of an `Ordinal` become a range with steps.
    """
    if isinstance(parameter, Real):
        return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    if isinstance(parameter, Integer):
        return IntDistribution(parameter.low, parameter.high, log=parameter.log)
    assert isinstance(parameter, Choice)
    stepped = _stepped(parameter.values) if isinstance(parameter, Ordinal) else None
    if stepped is not None:
        return stepped
    values = list(parameter.values)
    kept = all(each is None or isinstance(each, bool | int | float | str) for each in values)
    if not kept or len(set(values)) < len(values):
        values = [f"{position}: {choice!r}" for position, choice in enumerate(values)]
    return CategoricalDistribution(values)


def _stepped(values: Sequence[Any]) -> BaseDistribution | None:
    """Return the distribution of evenly spaced numbers; None if they are not, or one apart."""
    kinds = set(map(type, values))
    if len(values) < 2 or kinds not in ({int}, {float}) or not values[0] < values[1]:
        return None
    first, second, count = *(Decimal(str(each)) for each in values[:2]), len(values)
    step = second - first
    even = all(abs(float((Decimal(str(each)) - first) / step) - i) < ROUNDING for i, each in enumerate(values))
    if not even or (kinds == {int} and step == 1):
        return None
    if kinds == {int}:
        return IntDistribution(values[0], values[-1], step=int(step))
    return FloatDistribution(values[0], float(first + (count - 1) * step), step=float(step))


def _step(distribution: BaseDistribution) -> float | None:
    """Return the distance between two values; None for a continuous range, all whole numbers, and categories."""
    if isinstance(distribution, IntDistribution):
        return None if distribution.step == 1 else distribution.step
    return distribution.step if isinstance(distribution, FloatDistribution) else None


def _steps(distribution: Any, step: float) -> int:
    return math.floor((distribution.high - distribution.low) / step + ROUNDING) + 1


def number_of(distribution: BaseDistribution, internal: float) -> float | None:
    """Return the number in a search space of a value; None if the value is not in the distribution.

    Parameters
    ----------
    distribution
        Distribution of Optuna.
    internal
        Value in Optuna's internal form: of a category its position.
    """
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        return internal
    if not distribution.low <= internal <= distribution.high:
        return None
    step = _step(distribution)
    if step is None:
        return internal if isinstance(distribution, FloatDistribution) or internal.is_integer() else None
    steps = (internal - distribution.low) / step
    rounding = 4.0 * np.finfo(np.float64).eps * max(abs(distribution.low), abs(distribution.high)) / step
    return float(round(steps)) if abs(steps - round(steps)) < ROUNDING + rounding else None


def internal_of(distribution: BaseDistribution, number: float) -> float:
    """Return a value, in Optuna's internal form, from its number in a search space.

    Parameters
    ----------
    distribution
        Distribution of Optuna.
    number
        Number in the search space.
    """
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        return number
    step = _step(distribution)
    whole = round(number) if isinstance(distribution, IntDistribution) else number
    value = whole if step is None else distribution.low + round(number) * step
    return float(min(max(value, distribution.low), distribution.high))


def value_of(distribution: BaseDistribution, internal: float) -> Any:
    """Return the value that the user's function gets from its internal form, as a Python object."""
    value = distribution.to_external_repr(internal)
    return int(value) if isinstance(distribution, IntDistribution) else value


class Branch(NamedTuple):
    """Parameters that a trial has where another one, the parent, has some values."""

    distributions: Mapping[str, BaseDistribution]  # by name
    parent: Key
    values: tuple[float, ...]  # numbers of the parent's values

    @property
    def key(self) -> tuple[Any, ...]:
        """Key that is equal for equal branches."""
        return self.parent, self.values, *keys_of(self.distributions)


def dependent(
    distributions: Mapping[str, BaseDistribution], branches: Sequence[Branch], given: Collection[str] = ()
) -> list[Branch]:  # fmt: skip
    """Return the branches, by their order, that depend on some parameters, and have none of given names."""
    known, found = set(keys_of(distributions)), []
    for branch in branches:
        if branch.parent in known and not any(name in given for name in branch.distributions):
            known.update(keys_of(branch.distributions))
            found.append(branch)
    return found


class TrialSpace:
    """Search space of some parameters of a study.

    Parameters
    ----------
    distributions
        Distributions by name; those without a `parameter_of` are left out.
    branches
        Parameters that exist under a condition, after those that they depend on.

    Attributes
    ----------
    distributions : dict
        Distributions of the space's parameters by their names in the space: those that exist always by name, then those
        of the branches. A name that has several distributions is that of the first, and has the condition beside it in
        the others.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution], branches: Sequence[Branch] = ()):
        found = {name: parameter_of(each) for name, each in sorted(distributions.items())}
        self._parameters = {name: each for name, each in found.items() if each is not None}
        self.distributions = {name: distributions[name] for name in self._parameters}
        self._names = {name: name for name in self._parameters}  # names in the study by names in the space
        places = {key_of(name, each): name for name, each in self.distributions.items()}
        for branch in branches:
            self._add(branch, places)

    def _add(self, branch: Branch, places: dict[Key, str]) -> None:
        """Add the parameters of a branch; `places` has the names in the space of those that are in it."""
        parent = places[branch.parent]
        values = [self._parameters[parent].value(number) for number in branch.values]
        for name, distribution in sorted(branch.distributions.items()):
            parameter = parameter_of(distribution)
            assert parameter is not None
            title = name if name not in self._parameters else f"{name}, {parent} {values}"
            self._parameters[title] = attrs.evolve(parameter, when={parent: values})
            self.distributions[title], self._names[title] = distribution, name
            places[key_of(name, distribution)] = title

    @functools.cached_property
    def space(self) -> SearchSpace:
        """Space of the parameters, of which there must be one."""
        return SearchSpace(self._parameters)

    def point(self, trial: FrozenTrial) -> Floats | None:
        """Return the point (p,) of a trial; None if a value is not known, or not in its distribution.

        Where a trial has not come to suggesting a parameter, its value is the one that was chosen for it.
        """
        proposed = {} if trial.state == TrialState.COMPLETE else _proposed(trial)
        numbers = [self._number(trial, title, proposed) for title in self.distributions]
        known = np.array([number is not None for number in numbers])
        first = np.array([parameter.first for parameter in self._parameters.values()])
        point = np.array([low if number is None else number for number, low in zip(numbers, first, strict=True)])
        exist = self.space.active(point[None])[0]
        return np.where(exist, point, first) if known[exist].all() else None

    def _number(self, trial: FrozenTrial, title: str, proposed: Mapping[str, float]) -> float | None:
        """Return the number of a parameter in a trial; None if its value is not known, or not in its distribution."""
        name, distribution = self._names[title], self.distributions[title]
        if name in trial.params:
            internal = _internal(distribution, trial.params[name])
        elif trial.state == TrialState.COMPLETE:
            return None
        else:
            given = _enqueued(trial, name, distribution)
            internal = proposed.get(name) if given is None else given
        return None if internal is None else number_of(distribution, internal)

    def given(self, trial: FrozenTrial) -> dict[str, float]:
        """Return the numbers, by name, of values given to an enqueued trial that are in their distributions.

        Only those of parameters that exist always.
        """
        found = {}
        for name, distribution in self.distributions.items():
            always = self._parameters[name].when is None
            internal = _enqueued(trial, name, distribution) if always else None
            number = None if internal is None else number_of(distribution, internal)
            if number is not None:
                found[name] = number
        return found

    def values(self, numbers: Mapping[str, float]) -> dict[str, Any]:
        """Return values of the space's parameters by name from their numbers."""
        return {name: self._parameters[name].value(number) for name, number in numbers.items()}

    def at(self, point: Floats) -> dict[str, tuple[BaseDistribution, float]]:
        """Return the parameters that exist at a point (p,), by name in the study: distributions and numbers."""
        exist = self.space.active(point[None])[0].tolist()
        each = zip(self.distributions.items(), point.tolist(), exist, strict=True)
        return {self._names[title]: (found, number) for (title, found), number, exists in each if exists}

    def internal(self, point: Floats) -> dict[str, float]:
        """Return the values at a point (p,), in Optuna's internal form, by name in the study."""
        return {name: internal_of(distribution, number) for name, (distribution, number) in self.at(point).items()}


def _internal(distribution: BaseDistribution, value: Any) -> float | None:
    try:
        return float(distribution.to_internal_repr(value))
    except ValueError:
        return None


def _proposed(trial: FrozenTrial) -> dict[str, float]:
    """Return the values, in internal form, that were chosen for a trial, also those that it has not suggested yet."""
    found: dict[str, float] = {}
    for key, values in trial.system_attrs.items():
        if key.startswith(PROPOSED):
            found.update(values)
    return found


def _enqueued(trial: FrozenTrial, name: str, distribution: BaseDistribution) -> float | None:
    """Return the value, in internal form, that was given to an enqueued trial; None without one."""
    given = given_values(trial)
    return _internal(distribution, given[name]) if name in given else None


def given_values(trial: FrozenTrial) -> Mapping[str, Any]:
    """Return the values that were given to an enqueued trial, by name."""
    found: Mapping[str, Any] = trial.system_attrs.get("fixed_params", {})
    return found


def was_chosen(trial: FrozenTrial) -> bool:
    """Return whether a policy chose values for a trial."""
    return any(key.startswith(PROPOSED) for key in trial.system_attrs)


def attributes_of(internal: Mapping[str, float], before: int = 0) -> dict[str, dict[str, float]]:
    """Return the system attributes, each short enough for a database, that hold values chosen for a trial.

    Parameters
    ----------
    internal
        Values by name, in Optuna's internal form.
    before
        Number of values that were chosen for the trial before.
    """
    found: dict[str, dict[str, float]] = {}
    part: dict[str, float] = {}
    length = 0
    for i, (name, value) in enumerate(internal.items()):
        size = 6 * len(name) + 40  # at most, in JSON
        if not part or length + size > LONGEST:
            part, length = found.setdefault(f"{PROPOSED}{before + i}", {}), 0
        part[name] = value
        length += size
    return found


def has_no_values(trial: FrozenTrial) -> bool:
    """Return whether nothing is known yet of what a running trial will evaluate."""
    known = trial.params or "fixed_params" in trial.system_attrs or was_chosen(trial)
    return not trial.state.is_finished() and not known


# ---- the history of a study


def key_of(name: str, distribution: BaseDistribution) -> Key:
    """Return a key that is equal for equal distributions of a name, also where choices cannot be hashed."""
    return name, repr(distribution)


def keys_of(distributions: Mapping[str, BaseDistribution]) -> list[Key]:
    """Return the keys of some distributions, sorted by name."""
    return [key_of(name, each) for name, each in sorted(distributions.items())]


class Outcome(NamedTuple):
    """Finished trial."""

    trial: FrozenTrial
    values: tuple[float, ...] | None  # of the objectives (p,), to be told to a policy; None for a failed evaluation
    constraints: Mapping[str, float | None] = {}  # values by name, which are at most 0 where they are fulfilled


def constraints_of(trial: FrozenTrial) -> dict[str, float | None]:
    """Return the values of a trial's constraints by name; None for one that is not finite.

    Parameters
    ----------
    trial
        Finished trial. The constraints are those of a sampler's `constraints_func`, whose names are their positions, or
        those that the objective set (``trial.set_constraint(name, value)``, from Optuna 5 on).
    """
    listed = trial.system_attrs.get(CONSTRAINTS) or ()
    found = {str(position): value for position, value in enumerate(listed)}
    start = f"{CONSTRAINTS}:"
    named = {key.removeprefix(start): each for key, each in trial.system_attrs.items() if key.startswith(start)}
    values = {**found, **named}.items()
    return {name: float(value) if abs(value) <= measurements.LARGEST else None for name, value in values}


def directions_of(study: optuna.Study) -> dict[str, str]:
    """Return "minimize" or "maximize" by the name of each objective's output, which Optuna's tables have for several.

    Parameters
    ----------
    study
        Study with one objective or several.
    """
    directions = ["maximize" if each == StudyDirection.MAXIMIZE else "minimize" for each in study.directions]
    names = [VALUE] if len(directions) == 1 else [f"values_{position}" for position in range(len(directions))]
    return dict(zip(names, directions, strict=True))


class ParameterGroups:
    """Groups of the parameters that occur together: in the same completed trials, with the same distributions."""

    def __init__(self) -> None:
        self._every = 0  # a bit for each completed trial
        self._trials: dict[Key, int] = {}  # by parameter, the bits of the trials that have it
        self._distributions: dict[Key, BaseDistribution] = {}  # of the parameters that a search space can hold
        # Of those with few values, by the numbers of these, the bits of the trials that have them.
        self._values: dict[Key, dict[float, int]] = {}
        self._found: list[Branch] | None = None  # branches, once they are known

    def __len__(self) -> int:
        return len(set(self._trials.values()))

    def add(self, completed: FrozenTrial) -> None:
        """Add a completed trial."""
        trial, self._found = self._every + 1, None
        self._every += trial
        for name, distribution in completed.distributions.items():
            key = key_of(name, distribution)
            if key not in self._trials and (parameter := parameter_of(distribution)) is not None:
                self._distributions[key] = distribution
                if parameter.count is not None and parameter.count <= MOST_BRANCHES:
                    self._values[key] = {}
            self._trials[key] = self._trials.get(key, 0) | trial
            if key in self._values:
                internal = _internal(distribution, completed.params[name])
                number = None if internal is None else number_of(distribution, internal)
                if number is not None:  # an enqueued value may be outside its distribution
                    self._values[key][number] = self._values[key].get(number, 0) | trial

    def of_all_trials(self) -> dict[str, BaseDistribution]:
        """Return the distributions, by name, of the parameters that all completed trials have alike."""
        return self._in(self._every)

    def around(self, name: str, distribution: BaseDistribution) -> dict[str, BaseDistribution]:
        """Return the distributions, by name, of a parameter's group; empty if no completed trial has the parameter."""
        key = key_of(name, distribution)
        return self._in(self._trials[key]) if key in self._distributions else {}

    def branches(self) -> list[Branch]:
        """Return the groups whose parameters exist where one of another group has some values, after that group.

        Of several parameters whose values say so, the parent is the one with the fewest values.
        """
        if self._found is None:
            depths, found = {self._every: 0}, []
            for trials in sorted({self._trials[key] for key in self._distributions}, key=int.bit_count, reverse=True):
                parents = [key for key in self._values if self._trials[key] in depths and self._trials[key] != trials]
                for parent in sorted(parents, key=lambda key: (len(self._values[key]), key)):
                    values = self._values[parent]
                    there = tuple(sorted(number for number, having in values.items() if having & trials))
                    if sum(values[number] for number in there) == trials:  # no trial has two of them
                        depths[trials] = depths[self._trials[parent]] + 1
                        found.append((depths[trials], Branch(self._in(trials), parent, there)))
                        break
            self._found = [each for _, each in sorted(found, key=lambda pair: (pair[0], min(pair[1].distributions)))]
        return self._found

    def _in(self, trials: int) -> dict[str, BaseDistribution]:
        """Return the distributions, by name, of the parameters that occur in these trials and no others."""
        return {key[0]: self._distributions[key] for key in sorted(self._distributions) if self._trials[key] == trials}


class StudyHistory:
    """Trials of a study in the order in which they ended.

    A function of the trials in the study's storage: two processes that read the same trials have the same history.

    Parameters
    ----------
    study
        Study with one objective or several.
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
    directions : dict
        Direction, "minimize" or "maximize", by name of the objective's output.
    constraints : tuple of str
        Names of the constraints, those of the first finished trial that has some.
    """

    def __init__(self, study: optuna.Study, failures: bool = True):
        self.directions = directions_of(study)
        self.outcomes: list[Outcome] = []
        self.running: list[FrozenTrial] = []
        self.groups = ParameterGroups()
        self.constraints: tuple[str, ...] = ()
        self._failures = failures
        self._study_id, self._name = study._study_id, study.study_name
        self._first: datetime.datetime | None = None  # when the first trial began
        self._storage = weakref.ref(study._storage)
        self._seen = 0  # number of trials that have been read
        self._unfinished: list[int] = []  # numbers of those that had not ended
        # Values of the completed trials by objective, ascending, with its sign: negated where it is maximised.
        self._signs = [-1.0 if direction == "maximize" else 1.0 for direction in self.directions.values()]
        self._values: list[list[float]] = [[] for _ in self.directions]

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
        values = tuple(trial.values) if trial.values and trial.state != TrialState.FAIL else None
        if values is not None and not all(abs(value) <= measurements.LARGEST for value in values):
            values = None
        if trial.state == TrialState.COMPLETE:
            self.groups.add(trial)
            for known, sign, value in zip(self._values, self._signs, values or (), strict=values is not None):
                bisect.insort(known, sign * value)
        elif values is not None:
            values = tuple(map(self._pruned, values, self._signs, self._values))
        if self._failures or trial.state != TrialState.FAIL:
            constraints = constraints_of(trial)
            self.constraints = self.constraints or tuple(constraints)
            self.outcomes.append(Outcome(trial, values, constraints))

    @staticmethod
    def _pruned(last: float, sign: float, completed: Sequence[float]) -> float:
        """Return the worse of a pruned trial's last report and the median of the completed trials before it."""
        return sign * max(sign * last, completed[len(completed) // 2]) if completed else last


def _end(trial: FrozenTrial) -> tuple[float, int]:
    return (0.0 if trial.datetime_complete is None else trial.datetime_complete.timestamp()), trial.number
