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
from scalable_bandits.studies.growth import HORIZON, LISTS, kept_rounds, variants

RUN = tuple[int, int, int]  # numbers of a run's case, policy and replicate
UNIFORM = "uniform_regret"
COMPLETE = "complete"  # array of the number of complete runs
FILE = f"{COMPLETE}/notes.npz"
SECONDS = "seconds"
PLAYS = "plays"
ELAPSED = "elapsed"  # series over `marks` instead of all rounds
ROUND = "t"  # series of a run that keeps some rounds only: their numbers
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
    arrays
        By name: regret of uniform play (cases, replicates) a round, in units of y; durations of the runs and what else
        they took (cases, policies, replicates); series (cases, policies, replicates, kept rounds). NaN where a number
        is unknown, as is the duration of a run that is not recorded as complete.
    plays
        Number of plays (cases, policies, replicates) by the name of the prior.
    lost
        Whether any of the stored notes are damaged.

    Parameters
    ----------
    record
        Record of the study.
    series
        Fill values, by name, of the series that the notes have because the runs have no stores.
    """

    def __init__(self, record: Mapping[str, Any], series: Mapping[str, Any] | None = None):
        self._record = record
        self.arrays: dict[str, NDArray[Any]] = {n: self._empty(n, 4, fill) for n, fill in (series or {}).items()}
        self.arrays |= {UNIFORM: self._empty(UNIFORM, 2), SECONDS: self._empty(SECONDS, 3)}
        self.plays: dict[str, NDArray[Any]] = {}
        self.lost = False

    def keep(self, run: RUN, summary: RunSummary) -> None:
        """Record the results of a run; its series may be shorter than those of others."""
        self.arrays[UNIFORM][run[0], run[2]] = summary.uniform
        before = self.arrays[SECONDS][run]
        if not self.lost or np.isnan(before):  # otherwise the run was only read again
            self.arrays[SECONDS][run] = summary.seconds + np.nan_to_num(before)  # it may go on to a longer horizon
        series = dict(summary.series)
        rounds = series.pop(ROUND, None)
        for name, values in series.items():
            whole = rounds is None or name == ELAPSED
            places = slice(len(values)) if whole else kept_rounds(self._record).searchsorted(rounds)
            if name not in self.arrays:
                self.arrays[name] = self._empty(name, 4)
            self.arrays[name][run][places] = values
        for known, numbers in ((self.plays, summary.plays), (self.arrays, summary.costs)):
            for name, number in numbers.items():
                known.setdefault(name, self._empty(name, 3))[run] = number

    def _empty(self, name: str, count: int, fill: float = np.nan) -> NDArray[Any]:
        """Return an array without values, of so many dimensions."""
        return np.full([len(each) for each in _dimensions(self._record, name, count)], fill)

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
            Attributes of the study, its record among them, of which the notes have a copy.
        """
        plays = {PLAYS: np.array(list(self.plays.values()))} if self.plays else {}
        if location.document(COMPLETE) is None:
            location.put_document(COMPLETE, count_document({}))
        complete = location.column(COMPLETE, count_document({})).with_config(WHOLE)
        complete[...] = int(np.isfinite(self.arrays[SECONDS]).sum())
        header = {"study": study, "attributes": dict(copy), "priors": list(self.plays)}
        save_arrays(location, FILE, header, {**self.arrays, **plays})

    def load(self, location: Location, study: str) -> list[str]:
        """Read the stored notes; return the problems of damaged files, which are left out."""
        try:
            header, arrays = load_arrays(location, FILE)
            if header["study"] != study:
                raise ValueError("it is another study's")
            for name, values in arrays.items():
                if name == PLAYS:
                    each = zip(header["priors"], values, strict=True)
                    self.plays |= {prior: self._taken(name, plays, header["attributes"]) for prior, plays in each}
                else:
                    self.arrays[name] = self._taken(name, values, header["attributes"])
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self.lost = True
            return [f"{FILE}: {error}"]
        return []

    def _taken(self, name: str, values: NDArray[Any], stored: Mapping[str, Any]) -> NDArray[Any]:
        """Return an array with the values of a stored one, whose study may have had other cases, policies and sizes."""
        found = self._empty(name, values.ndim)
        both = zip(*(_dimensions(record, name, values.ndim) for record in (self._record, stored)), strict=True)
        places = [np.intersect1d(own, its, assume_unique=True, return_indices=True)[1:] for own, its in both]
        found[np.ix_(*(own for own, _ in places))] = values[np.ix_(*(its for _, its in places))]
        return found


def _dimensions(record: Mapping[str, Any], name: str, count: int) -> list[Any]:
    """Return what the dimensions of an array of the notes stand for: folders, replicates, rounds."""
    last = marks(record[HORIZON]) if name == ELAPSED else kept_rounds(record)
    found = [*([one.folder for one in variants(record, each)] for each in LISTS), range(record["replicates"]), last]
    return found[::2][:2] if name == UNIFORM else found[:count]
