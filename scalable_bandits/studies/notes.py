"""Notes of a study: what it records of all its runs beside their stores, as arrays over cases, policies and replicates.

They are one file of numpy's zip format in the folder of ``complete``, the number of complete runs. Where it is damaged,
its numbers are computed again from the runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.store.checkpoints import load_arrays, save_arrays
from scalable_bandits.store.layout import WHOLE, count_document
from scalable_bandits.store.locations import Location

RUN = tuple[int, int, int]  # numbers of a run's case, policy and replicate
UNIFORM = "uniform_regret"
COMPLETE = "complete"  # array of the number of complete runs
FILE = f"{COMPLETE}/notes.npz"
SECONDS = "seconds"
PLAYS = "plays"
ELAPSED = "elapsed"  # series over `marks` instead of all rounds
PER_DECADE = 10  # marks for every factor of ten


def marks(horizon: int) -> NDArray[Any]:
    """Return the rounds (k,) up to a horizon at which the time since the start of a run is kept.

    Parameters
    ----------
    horizon
        Number of rounds.
    """
    powers = np.arange(int(PER_DECADE * np.log10(horizon)) + 2) / PER_DECADE
    found = np.unique(np.ceil(10.0**powers - 1e-6).astype(np.int64))
    return found[found <= horizon]


class RunSummary(NamedTuple):
    """Results of a run that a worker returns."""

    uniform: float  # regret of uniform play, per round
    seconds: float  # duration of the run
    series: dict[str, Any]  # series over the rounds; of a stored run, those that its store does not have
    plays: dict[str, float]  # number of plays of each prior, if the policy has several priors
    costs: dict[str, float]  # what the run took beside time, if the study is timed


class Notes:
    """Regret of uniform play, durations, additional series, and number of plays of each prior.

    Attributes
    ----------
    uniform
        Regret of uniform play (cases, replicates) a round, in units of y; NaN where it is unknown.
    seconds
        Durations of the runs (cases, policies, replicates); NaN for runs not recorded as complete.
    series
        Series (cases, policies, replicates, horizon) by name.
    plays
        Number of plays (cases, policies, replicates) by the name of the prior.
    costs
        What the runs took beside time (cases, policies, replicates), by name; NaN where it was not measured.
    lost
        Whether any of the stored notes are damaged.

    Parameters
    ----------
    shape
        Numbers of cases, policies and replicates.
    horizon
        Number of rounds of the longest run.
    """

    def __init__(self, shape: RUN, horizon: int):
        self.uniform: NDArray[Any] = np.full((shape[0], shape[2]), np.nan)
        self.seconds: NDArray[Any] = np.full(shape, np.nan)
        self.series: dict[str, NDArray[Any]] = {}
        self.plays: dict[str, NDArray[Any]] = {}
        self.costs: dict[str, NDArray[Any]] = {}
        self._horizon = horizon
        self.lost = False
        self._written: dict[str, int] = {}  # digests of the stored arrays by name

    def keep(self, run: RUN, summary: RunSummary) -> None:
        """Record the results of a run; its series may be shorter than those of others."""
        self.uniform[run[0], run[2]], seconds = summary[:2]
        before = self.seconds[run]
        if not self.lost or np.isnan(before):  # otherwise the run was only read again
            self.seconds[run] = seconds if np.isnan(before) else before + seconds  # it went on to a longer horizon
        for name, values in summary.series.items():
            self.series.setdefault(name, self._empty(name))[run][: len(values)] = values
        for known, numbers in ((self.plays, summary.plays), (self.costs, summary.costs)):
            for name, number in numbers.items():
                known.setdefault(name, np.full(self.seconds.shape, np.nan))[run] = number

    def _empty(self, name: str) -> NDArray[Any]:
        """Return a series without values."""
        last = len(marks(self._horizon)) if name == ELAPSED else self._horizon
        return np.full((*self.seconds.shape, last), np.nan)

    # ---- on disk

    def save(self, location: Location, study: str, copy: Mapping[str, Any]) -> None:
        """Write the notes into the group of a study.

        Parameters
        ----------
        location
            Location of the study.
        study
            Name of the study, drawn at random when it was made.
        copy
            Attributes of the study, of which the notes have a copy.
        """
        arrays = {UNIFORM: self.uniform, SECONDS: self.seconds, **self.costs, **self.series}
        if self.plays:
            arrays[PLAYS] = np.array(list(self.plays.values()))
        if location.document(COMPLETE) is None:
            location.put_document(COMPLETE, count_document({}))
        complete = location.column(COMPLETE, count_document({})).with_config(WHOLE)
        complete[...] = int(np.isfinite(self.seconds).sum())
        save_arrays(location, FILE, {"study": study, "attributes": dict(copy), "priors": list(self.plays)}, arrays)

    def load(self, location: Location, study: str) -> list[str]:
        """Read the stored notes; return the problems of damaged files, which are left out."""
        try:
            header, arrays = load_arrays(location, FILE)
            if header["study"] != study:
                raise ValueError("it is another study's")
            for name, values in arrays.items():
                self._set(name, values, header["priors"])
        except (ValueError, KeyError, TypeError) as error:
            self.lost = True
            return [f"{FILE}: {error}"]
        return []

    def _set(self, name: str, values: NDArray[Any], priors: Any) -> None:
        """Take over the values of a stored array, which may have another shape."""
        if name == PLAYS:
            for prior, counts in zip(priors, values, strict=True):
                self.plays[prior] = _copy_overlap(np.full(self.seconds.shape, np.nan), counts)
        elif name in (UNIFORM, SECONDS):
            _copy_overlap(self.uniform if name == UNIFORM else self.seconds, values)
        elif values.ndim == self.seconds.ndim:
            self.costs[name] = _copy_overlap(np.full(self.seconds.shape, np.nan), values)
        else:
            self.series[name] = _copy_overlap(self._empty(name), values)


def _copy_overlap(target: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Copy values into an array as far as both shapes overlap; return the array."""
    overlap = tuple(slice(min(have, want)) for have, want in zip(values.shape, target.shape, strict=True))
    target[overlap] = values[overlap]
    return target
