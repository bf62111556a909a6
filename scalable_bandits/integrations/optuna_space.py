"""Optuna's distributions as parameters of a search space, and trials as its points."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Categorical, Integer, Parameter, Real, SearchSpace
from scalable_bandits.spaces.parameters import LARGEST
from scalable_bandits.spaces.parameters_from import to_parameter

MOST_LISTED = 1000  # largest number of steps that are an `Ordinal` of the values; more are an `Integer` of positions
ROUNDING = 1e-8  # largest distance of a value from a step, in steps
PROPOSED = "bandit:"  # beginning of the names of system attributes with the values chosen for a trial
LONGEST = 2000  # number of characters of a system attribute, which databases limit to 2,045


def parameter_of(distribution: BaseDistribution) -> Parameter | None:
    """Return a distribution as a parameter; None if no parameter has its values, or if it has a single value.

    Parameters
    ----------
    distribution
        Distribution of Optuna. Categories that cannot be compared or hashed become their texts; the numbers of the
        parameter are always positions in the list of choices, or of steps. A range of more whole numbers, or steps,
        than float64 can count is continuous, and its values are rounded.
    """
    if distribution.single():
        return None
    step = _step(distribution)
    try:
        if step is not None and (count := _steps(distribution, step)) > MOST_LISTED:
            return Integer(0, count - 1) if count < LARGEST else Real(0, count - 1)
        if isinstance(distribution, IntDistribution) and max(-distribution.low, distribution.high) >= LARGEST:
            return Real(distribution.low, distribution.high, log=distribution.log)
        return to_parameter("distribution", distribution)
    except ValueError:
        if not isinstance(distribution, CategoricalDistribution):
            return None
        return Categorical([f"{position}: {choice!r}" for position, choice in enumerate(distribution.choices)])


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


class TrialSpace:
    """Search space of some parameters of a study.

    Parameters
    ----------
    distributions
        Distributions by name; those without a `parameter_of` are left out.

    Attributes
    ----------
    distributions : dict
        Distributions of the space's parameters by name, sorted by name.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]):
        found = {name: parameter_of(each) for name, each in sorted(distributions.items())}
        self.distributions = {name: distributions[name] for name, each in found.items() if each is not None}
        self._parameters = {name: found[name] for name in self.distributions}

    @functools.cached_property
    def space(self) -> SearchSpace:
        """Space of the parameters, of which there must be one."""
        return SearchSpace(self._parameters)

    def point(self, trial: FrozenTrial) -> Floats | None:
        """Return the point (p,) of a trial; None if a value is not known, or not in its distribution.

        Where a trial has not come to suggesting a parameter, its value is the one that was chosen for it.
        """
        proposed: dict[str, float] | None = None
        numbers = []
        for name, distribution in self.distributions.items():
            if name in trial.params:
                internal = _internal(distribution, trial.params[name])
            elif trial.state == TrialState.COMPLETE:
                return None
            else:
                proposed = _proposed(trial, self.distributions) if proposed is None else proposed
                internal = proposed.get(name)
            number = None if internal is None else number_of(distribution, internal)
            if number is None:
                return None
            numbers.append(number)
        return np.array(numbers)

    def internal(self, point: Floats) -> dict[str, float]:
        """Return the values at a point (p,), in Optuna's internal form, by name."""
        return {
            name: internal_of(distribution, number)
            for (name, distribution), number in zip(self.distributions.items(), point.tolist(), strict=True)
        }


def _internal(distribution: BaseDistribution, value: Any) -> float | None:
    try:
        return float(distribution.to_internal_repr(value))
    except ValueError:
        return None


def _proposed(trial: FrozenTrial, distributions: Mapping[str, BaseDistribution]) -> dict[str, float]:
    """Return the values, in internal form, that were chosen for a trial, also those that it has not suggested yet."""
    found: dict[str, float] = {}
    for key, values in trial.system_attrs.items():
        if key.startswith(PROPOSED):
            found.update(values)
    for name, value in trial.system_attrs.get("fixed_params", {}).items():  # values given to an enqueued trial
        internal = _internal(distributions[name], value) if name in distributions else None
        if internal is not None:
            found[name] = internal
    return found


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
    known = trial.params or any(key == "fixed_params" or key.startswith(PROPOSED) for key in trial.system_attrs)
    return not trial.state.is_finished() and not known
