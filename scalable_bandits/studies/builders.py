"""Builders of problems and analyses of results that a study file can name.

A builder is code for problems that the tables of environments and policies cannot describe. Only builders and analyses
of this package can be named.
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
from scalable_bandits.studies.tables import at_values, values_in

if TYPE_CHECKING:
    import xarray


class Builder(NamedTuple):
    """Function that builds the problems of a study, and the cases it can build."""

    build: Callable[..., Problem]  # takes a replicate, and parameters by keyword
    cases: tuple[str, ...]
    needs_data: bool  # whether it reads measured files
    starts_clusters: bool = False  # whether each run starts a cluster of its own
    packages: tuple[str, ...] = ()  # names on the package index of those that have its data

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that a study file may set, with their default values."""
        found = inspect.signature(self.build).parameters.values()
        return {parameter.name: parameter.default for parameter in found if parameter.kind is parameter.KEYWORD_ONLY}


class Analysis(NamedTuple):
    """Quantities that a study measures beyond regret; see the attributes of `Study`."""

    published: Callable[[xarray.Dataset], list[Comparison]]
    series: Callable[[Policy], Mapping[str, Floats]]
    rates: Callable[[str, Floats], Mapping[str, Floats]]


BUILDERS: dict[str, Builder] = {}
ANALYSES: dict[str, Analysis] = {}


@attrs.frozen
class ProblemsFromBuilder:
    """Problems of a study that names a builder: its `Study.build`; in its parameters axes stand for values."""

    name: str
    parameters: dict[str, Any]

    def __call__(self, replicate: Replicate) -> Problem:
        parameters = at_values(self.parameters, values_in(replicate))
        return BUILDERS[self.name].build(replicate, **parameters)
