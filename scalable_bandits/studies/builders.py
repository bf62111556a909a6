"""What a study file may name beyond policies and environments: problems that take code, and series with their theory.

Both come from this package alone; a file that names another gets a refusal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from scalable_bandits.checks import Floats
from scalable_bandits.policies import Policy
from scalable_bandits.studies.runs import Problem, Replicate
from scalable_bandits.studies.summary import Comparison

if TYPE_CHECKING:
    import xarray


class Builder(NamedTuple):
    """Makes the problems of a study that no table of environments and policies describes."""

    build: Callable[..., Problem]  # of a replicate, and parameters by keyword
    cases: tuple[str, ...]
    needs_data: bool

    @property
    def parameters(self) -> dict[str, Any]:
        """What a study file may change, with the usual values."""
        found = inspect.signature(self.build).parameters.values()
        return {parameter.name: parameter.default for parameter in found if parameter.kind is parameter.KEYWORD_ONLY}


class Analysis(NamedTuple):
    """What is measured and compared beyond regret; see `Study`."""

    published: Callable[[xarray.Dataset], list[Comparison]]
    series: Callable[[Policy], Mapping[str, Floats]]
    rates: Callable[[str, Floats], Mapping[str, Floats]]


BUILDERS: dict[str, Builder] = {}
ANALYSES: dict[str, Analysis] = {}


@attrs.frozen
class Built:
    """`build` of a study that names a builder."""

    name: str
    parameters: dict[str, Any]

    def __call__(self, replicate: Replicate) -> Problem:
        return BUILDERS[self.name].build(replicate, **self.parameters)
