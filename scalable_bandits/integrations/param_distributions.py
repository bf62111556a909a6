"""Search spaces of scikit-learn's `param_distributions`, and settings as arguments of `set_params`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.spaces import Categorical, Parameter, SearchSpace
from scalable_bandits.spaces.parameters_from import check_values, check_whole, to_parameter

ALLOWED = "a dict of parameters, a list of such dicts, or a SearchSpace"
SELECTOR = "param_distributions"  # name of the parameter that selects one of several dicts
LONGEST_LABEL = 60


class Target(NamedTuple):
    """Parameter of the space, and where its values go."""

    parameter: Parameter
    name: str  # name for `set_params`; empty for the parameter that selects a dict
    labelled: Mapping[str, Any] | None = None  # values by label; None if the setting has the values themselves


@attrs.frozen(eq=False)
class ParameterMap:
    """Search space, and where the values of its settings go.

    Values that a store cannot keep, such as estimators or tuples, are represented by labels in the space.

    Attributes
    ----------
    space
        Space in which the policy searches.
    targets
        Targets of the parameters, by their names in the space.
    """

    space: SearchSpace
    targets: Mapping[str, Target]

    @classmethod
    def of(cls, given: Any) -> Self:
        """Make the map of a `param_distributions`.

        Parameters
        ----------
        given
            `SearchSpace`; dict of names and `Parameter`, list of values, or distribution of scipy.stats (uniform,
            loguniform, randint); or a list of such dicts, of which a setting uses one.

        Raises
        ------
        ValueError
            If it is empty, or cannot be converted.
        """
        check_whole("param_distributions", given)
        if isinstance(given, SearchSpace):
            return cls(given, {name: Target(kind, name) for name, kind in zip(given.names, given.kinds, strict=True)})
        dicts = [given] if isinstance(given, Mapping) else given
        if not isinstance(dicts, Sequence) or not dicts or not all(isinstance(each, Mapping) for each in dicts):
            checks.refuse("param_distributions", given, ALLOWED)
        for each in dicts:
            if not each or not all(isinstance(name, str) and name for name in each):
                checks.refuse("param_distributions", each, "at least one parameter, with names that are strings")
        found = [{name: _target(name, value) for name, value in each.items()} for each in dicts]
        targets = found[0] if len(found) == 1 else _joined(found)
        return cls(SearchSpace({name: each.parameter for name, each in targets.items()}), targets)

    def arguments(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `set_params` of a setting of the space."""
        found = {}
        for inside, value in setting.items():
            _, name, labelled = self.targets[inside]
            if name:
                found[name] = value if labelled is None else labelled[value]
        return found


def _joined(dicts: Sequence[Mapping[str, Target]]) -> dict[str, Target]:
    """Return the targets of a space in which a parameter selects one of several dicts."""
    found = {SELECTOR: Target(Categorical(range(len(dicts))), "")}
    for number, each in enumerate(dicts):
        for name, given in each.items():
            if all(_are_same(other.get(name), given) for other in dicts):
                found[name] = given
                continue
            if given.parameter.when is not None:
                allowed = "a parameter without `when`, or a SearchSpace instead of several dicts"
                checks.refuse(f"param_distributions[{number}][{name!r}]", given.parameter, allowed)
            only_here = attrs.evolve(given.parameter, when={SELECTOR: number})
            found[f"{name} [{number}]"] = given._replace(parameter=only_here)
    return found


def _are_same(first: Target | None, second: Target) -> bool:
    """Return whether two dicts describe a parameter alike."""
    if first is None or first.parameter != second.parameter:
        return False
    pairs = zip((first.labelled or {}).values(), (second.labelled or {}).values(), strict=True)
    return all(one is other for one, other in pairs)


def _target(name: str, given: Any) -> Target:
    """Return the target of a list of values or another description of a parameter."""
    listed = isinstance(given, Sequence | np.ndarray) or hasattr(given, "tolist")  # pandas objects have tolist
    if isinstance(given, str | bytes) or not listed:
        return Target(to_parameter(name, given), name)
    try:
        check_values(given)
    except ValueError as error:
        raise ValueError(f"param_distributions[{name!r}]: {error}") from None
    values = [each.item() if isinstance(each, np.generic) else each for each in given]
    if all(map(_is_plain, values)):
        pairs = itertools.combinations(values, 2)
        if not any(one == other and type(one) is not type(other) for one, other in pairs):  # 1 feature, or 1.0 of them
            return Target(to_parameter(name, values), name)
    labels = _labels(values)
    return Target(Categorical(labels), name, dict(zip(labels, values, strict=True)))


def _is_plain(value: Any) -> bool:
    """Return whether a store can keep a value, and a space can compare it."""
    return value is None or (isinstance(value, str | int | float) and value == value)  # NaN is not equal to itself


def _labels(values: Sequence[Any]) -> list[str]:
    """Return distinct short texts for values, the same in every process."""
    found: list[str] = []
    for value in values:
        text = " ".join(repr(value).split())
        if " at 0x" in text:  # the address of an object
            text = str(getattr(value, "__qualname__", type(value).__qualname__))
        text = text if len(text) <= LONGEST_LABEL else f"{text[:LONGEST_LABEL]}..."
        names = itertools.chain([text], (f"{text} ({i})" for i in itertools.count(2)))
        found.append(next(name for name in names if name not in found))
    return found
