"""Trajectory of a simulation: candidates, observations and regrets of its rounds."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.runs.thinning import ROUND
from scalable_bandits.spaces import Indices
from scalable_bandits.spaces.domain import NumberedPoints

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.store import StoredRun

SERIES = ("y", "value", "regret", "cumulative_regret", "width", "information_gain")


class RegretCurve(NamedTuple):
    """Cumulative regret at some rounds."""

    round: Indices  # (k,) numbers t of the rounds
    cumulative_regret: Floats  # (k,) in units of y


def _column(name: str, meaning: str) -> Any:
    """Return the property that reads a column of a trajectory."""
    return property(lambda run: run._read(name), doc=meaning)


class Trajectory:
    """Trajectory of a simulation, with arrays (k,) over rounds; those of a stored run are read at each access.

    The rounds are all that were played, or some of them (see `simulate`, `keep`).

    Parameters
    ----------
    series
        Arrays (k,) by name ("candidate", `SERIES`, and the rounds' numbers if they are not all), or the stored run
        that has them.

    Attributes
    ----------
    space
        Space of the candidates.
    first_round
        Number t of the first round.
    specification
        Policy and environment, as plain data.
    """

    candidate: Indices = _column("candidate", "Numbers (k,) of the candidates played.")
    y: Floats = _column("y", "Observations (k,), in units of y.")
    value: Floats = _column("value", "Noise-free values (k,) of the points played, in units of y.")
    regret: Floats = _column("regret", "Regrets (k,), optimum minus value, in units of y.")
    cumulative_regret: Floats = _column(
        "cumulative_regret", "Sums (k,) of the regrets of all rounds up to each, in units of y."
    )
    width: Floats = _column("width", "Confidence widths (k,) of the policy in each round; NaN for a policy without.")
    information_gain: Floats = _column(
        "information_gain", "Information gains (k,) in the width of each round, in nats; NaN for a policy without."
    )

    def __init__(
        self, space: NumberedPoints, first_round: int, series: Mapping[str, Floats] | StoredRun,
        specification: dict[str, Any],
    ):  # fmt: skip
        self.space, self.first_round, self.specification = space, first_round, specification
        self._series = series

    def __repr__(self) -> str:
        last = self.first_round + self.rounds - 1
        some = "" if self.complete else f", {len(self):,} of them kept"
        return f"Trajectory(rounds {self.first_round} to {last}{some})"

    def __len__(self) -> int:
        return len(self._series["y"]) if isinstance(self._series, Mapping) else len(self._series)

    def _read(self, name: str) -> NDArray[Any]:
        if isinstance(self._series, Mapping):
            return self._series[name]
        return self._series.read(names=[name])[name]

    @functools.cached_property
    def _kept(self) -> Indices | None:
        """Numbers (k,) of the rounds in the arrays; None if these are all."""
        given = self._series
        names = set(given) if isinstance(given, Mapping) else {field.name for field in given.fields}
        return self._read(ROUND) if ROUND in names else None

    @property
    def complete(self) -> bool:
        """Whether all rounds that were played are in the arrays."""
        return self._kept is None

    @property
    def rounds(self) -> int:
        """Number T of rounds that were played."""
        return len(self) if self._kept is None or not len(self) else int(self._kept[-1]) - self.first_round + 1

    @property
    def round(self) -> Indices:
        """Numbers (k,) of the rounds in the arrays."""
        return np.arange(self.first_round, self.first_round + len(self)) if self._kept is None else self._kept

    def curve(self, points: int = 500, log: bool = False) -> RegretCurve:
        """Return the cumulative regret at some rounds, the last one included, without loading the run.

        Parameters
        ----------
        points
            Largest number of rounds.
        log
            Whether the rounds are spaced evenly on a logarithmic axis.
        """
        last = self.rounds
        count = min(checks.integer("points", points, 1), last)
        spaced = np.geomspace(1, last, count) if log else np.linspace(1, last, count)
        rounds = np.unique(np.rint(spaced).astype(np.int64)) if count > 1 else np.array([last])
        numbers = rounds + self.first_round - 1
        if self._kept is not None:
            rounds = np.unique(self._kept.searchsorted(numbers)) + 1  # positions of those that are kept
            numbers = self._kept[rounds - 1]
        if isinstance(self._series, Mapping):
            return RegretCurve(numbers, self.cumulative_regret[rounds - 1])
        return RegretCurve(numbers, self._series.sample("cumulative_regret", rounds))

    def dataset(self) -> xarray.Dataset:
        """Return the run as an xarray dataset over ``round``, with the specification (JSON) in its attributes.

        The dataset of a stored run has dask arrays, which are read a chunk at a time when they are computed.
        """
        import xarray

        attributes = {"specification": json.dumps(self.specification)}
        if not isinstance(self._series, Mapping):
            found = self._series.dataset().assign_attrs(attributes)
            return found if self._kept is None else found.drop_vars(ROUND).assign_coords(round=self._kept)
        arms = not self.space.has_coordinates
        variables: dict[str, Any] = {"candidate": ("round", self.candidate)}
        points = self.candidate if arms else self.space.points(self.candidate)
        variables["x"] = ("round" if arms else ("round", "dimension"), points)
        variables.update({name: ("round", self._read(name)) for name in SERIES})
        return xarray.Dataset(variables, coords={"round": self.round}, attrs=attributes)
