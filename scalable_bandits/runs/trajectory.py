"""Trajectory of a simulation: candidates, observations and regrets of its rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices
from scalable_bandits.spaces.domain import NumberedPoints

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.store import StoredRun

SERIES = ("y", "value", "regret", "cumulative_regret", "width", "information_gain")


class Curve(NamedTuple):
    """Cumulative regret at some rounds."""

    round: Indices  # (k,) numbers t of the rounds
    cumulative_regret: Floats  # (k,) in units of y


class Trajectory:
    """Trajectory of a simulation, with arrays (T,) over rounds; those of a stored run are read at each access.

    Parameters
    ----------
    series
        Arrays (T,) by name ("candidate" and `SERIES`), or the stored run that has them.

    Attributes
    ----------
    space
        Space of the candidates.
    first_round
        Number t of the first round.
    specification
        Policy and environment, as plain data.
    """

    def __init__(
        self,
        space: NumberedPoints,
        first_round: int,
        series: Mapping[str, Floats] | StoredRun,
        specification: dict[str, Any],
    ):
        self.space, self.first_round, self.specification = space, first_round, specification
        self._series = series

    def __repr__(self) -> str:
        return f"Trajectory(rounds {self.first_round} to {self.first_round + len(self) - 1})"

    def __len__(self) -> int:
        return len(self._series["y"]) if isinstance(self._series, Mapping) else len(self._series)

    def _read(self, name: str) -> NDArray[Any]:
        if isinstance(self._series, Mapping):
            return self._series[name]
        return self._series.read(names=[name])[name]

    @property
    def candidate(self) -> Indices:
        """Numbers (T,) of the candidates played."""
        return self._read("candidate")

    @property
    def y(self) -> Floats:
        """Observations (T,), in units of y."""
        return self._read("y")

    @property
    def value(self) -> Floats:
        """Noise-free values (T,) of the points played, in units of y."""
        return self._read("value")

    @property
    def regret(self) -> Floats:
        """Regrets (T,), optimum minus value, in units of y."""
        return self._read("regret")

    @property
    def cumulative_regret(self) -> Floats:
        """Sums (T,) of the regrets up to each round, in units of y."""
        return self._read("cumulative_regret")

    @property
    def width(self) -> Floats:
        """Confidence widths (T,) of the policy in each round; NaN for a policy without."""
        return self._read("width")

    @property
    def information_gain(self) -> Floats:
        """Information gains (T,) in the width of each round, in nats; NaN for a policy without."""
        return self._read("information_gain")

    def curve(self, points: int = 500, log: bool = False) -> Curve:
        """Return the cumulative regret at some rounds, the last one included, without loading the run.

        Parameters
        ----------
        points
            Largest number of rounds.
        log
            Whether the rounds are spaced evenly on a logarithmic axis.
        """
        last = len(self)
        count = min(checks.integer("points", points, 1), last)
        spaced = np.geomspace(1, last, count) if log else np.linspace(1, last, count)
        rounds = np.unique(np.rint(spaced).astype(np.int64)) if count > 1 else np.array([last])
        if isinstance(self._series, Mapping):
            return Curve(rounds + self.first_round - 1, self.cumulative_regret[rounds - 1])
        return Curve(rounds, self._series.sample("cumulative_regret", rounds))

    def dataset(self) -> xarray.Dataset:
        """Return the run as an xarray dataset over ``round``, with the specification (JSON) in its attributes.

        The dataset of a stored run has dask arrays, which are read a chunk at a time when they are computed.
        """
        import xarray

        attributes = {"specification": json.dumps(self.specification)}
        if not isinstance(self._series, Mapping):
            return self._series.dataset().assign_attrs(attributes)
        arms = not self.space.has_coordinates
        variables: dict[str, Any] = {"candidate": ("round", self.candidate)}
        points = self.candidate if arms else self.space.points(self.candidate)
        variables["x"] = ("round" if arms else ("round", "dimension"), points)
        variables.update({name: ("round", self._read(name)) for name in SERIES})
        rounds = np.arange(self.first_round, self.first_round + len(self))
        return xarray.Dataset(variables, coords={"round": rounds}, attrs=attributes)
