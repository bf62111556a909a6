"""Results of studies, in memory and on disk, and the dataset that is made of them.

On disk a study is a group of runs. Each run is a store of its own, written by the process that plays it. The attributes
of the group describe the study. The process that distributes the runs writes its notes of all runs, with a copy of the
attributes, into the folder of ``complete``, the number of complete runs: one file of numpy's zip format. Where they are
damaged, their numbers are computed again from the runs.
"""

from __future__ import annotations

import functools
import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.store.checkpoints import load_arrays, save_arrays
from scalable_bandits.store.errors import SpecificationDiffers, StoreDamaged, StoreError
from scalable_bandits.store.layout import SCHEMA, WHOLE, check_schema, compare, count_document, group_document
from scalable_bandits.store.ledger import is_signed, sign
from scalable_bandits.store.locations import METADATA, Location, locate, without_scheme
from scalable_bandits.store.observations import ObservationStore
from scalable_bandits.studies import growth

if TYPE_CHECKING:
    import xarray

SERIES = {"regret": np.nan, "candidate": -1, "width": np.nan, "information_gain": np.nan}  # fill values by series
TOTAL = "cumulative_regret"  # one more series, if a study keeps some rounds only
DIMENSIONS = ("case", "policy", "replicate", "round")
STUDY_ATTRIBUTES = ("kind", "schema", "id", "digest")  # attributes that every study has
APART = 1.0  # shortest time, in seconds, between two writes of the notes
RUN = tuple[int, int, int]  # numbers of a run's case, policy and replicate
UNIFORM = "uniform_regret"
COMPLETE = "complete"  # array of the number of complete runs
FILE = f"{COMPLETE}/notes.npz"
SECONDS = "seconds"
PLAYS = "plays"
ELAPSED = "elapsed"  # series over `marks` instead of all rounds
ROUND = "t"  # series of a run that keeps some rounds only: their numbers
PER_DECADE = 10  # marks for every factor of ten


class RunSummary(NamedTuple):
    """Results of a run that a worker returns."""

    uniform: float  # regret of uniform play, per round
    seconds: float  # duration of the run
    series: dict[str, Any]  # series over the rounds; of a stored run, those that its store does not have
    plays: dict[str, float]  # number of plays of each prior, if the policy has several priors
    costs: dict[str, float]  # what the run took beside time, if the study is timed


class StudyResults:
    """Results of a study: in a store, a group with a store for each run, and notes of all runs; else in memory.

    Parameters
    ----------
    record
        Description of the study; `study_record` returns that of an existing group.
    place
        Folder or URL; None: in memory.

    Attributes
    ----------
    arrays
        By name: regret of uniform play (cases, replicates) a round, in units of y; durations of the runs and what else
        they took (cases, policies, replicates); series (cases, policies, replicates, kept rounds) that are not in the
        stores of the runs. NaN where a number is unknown, as is the duration of a run that is not complete.
    plays
        Number of plays (cases, policies, replicates) by the name of the prior.
    damage
        What is wrong with the stored notes, which are left out; empty if nothing is.
    """

    def __init__(self, record: Mapping[str, Any], place: str | Path | None = None):
        place = without_scheme(place)
        self.record, self.place = dict(record), place
        series = series_of(record) if place is None else {}
        self.arrays: dict[str, NDArray[Any]] = {name: self._empty(name, 4, fill) for name, fill in series.items()}
        self.arrays |= {UNIFORM: self._empty(UNIFORM, 2), SECONDS: self._empty(SECONDS, 3)}
        self.plays: dict[str, NDArray[Any]] = {}
        self.damage, self._id = "", ""
        self._priors: tuple[str, ...] = ()  # in the order of a dataset
        self._written = self._write_seconds = 0.0  # time of the last write of the notes, and its duration
        if place is None:
            return
        self.place = place if "://" in str(place) else Path(place).absolute()  # workers run in other folders
        self._location = locate(place)
        self._names = run_folders(record)
        self._id = _find(self._location).get("id", "")
        if self._id:
            self._load_notes()
        if self.damage:
            text = f"{FILE}: {self.damage}: their numbers are left out until the study is run again"
            checks.warn(f"store {place}: {text}")

    @classmethod
    def take_up(
        cls, record: Mapping[str, Any], order: Mapping[str, Iterable[str]], place: str | Path | None
    ) -> StudyResults:
        """Return the results of a new study, or of an existing one, which may grow; `write` makes or changes the group.

        Parameters
        ----------
        record
            Description of the study. It may have other cases and policies than the stored one, more replicates, and a
            longer horizon.
        order
            Order in which the dataset has cases, policies and priors.
        place
            Folder or URL; None: in memory.

        Raises
        ------
        FileExistsError
            If the place has something else.
        SpecificationDiffers
            If it has another study; the message shows the differences.
        StoreDamaged
            If both copies of its attributes are damaged.
        """
        found = None if place is None else cls.find(place)
        stored = None if found is None else growth.by_horizon(found, record)
        if stored is not None:
            refuse_another(place, growth.disagreements(stored, record))
        study = cls(growth.grown(stored, record, order), place)
        study._id, study._priors = study._id or uuid.uuid4().hex[:16], tuple(order["priors"])
        return study

    def specification(self, run: RUN) -> dict[str, Any] | None:
        """Return what made a stored run, as plain data; None if it is not there, or cannot be read."""
        try:
            return ObservationStore.open(self.place_of(run)).specification
        except (StoreError, OSError):
            return None

    def write(self) -> None:
        """Write the groups, the notes and, last, the attributes."""
        if self.place is None:
            return
        began = time.monotonic()
        attributes = {"kind": "study", "schema": SCHEMA, "id": self._id, **self.record}
        signed = sign(json.loads(json.dumps(attributes)))
        for case in self._names[0]:
            for path in (case, *(f"{case}/{policy}" for policy in self._names[1])):
                if compare(self._location, path, group_document({})):
                    self._location.put_document(path, group_document({}))
        plays = {PLAYS: np.array(list(self.plays.values()))} if self.plays else {}
        if self._location.document(COMPLETE) is None:
            self._location.put_document(COMPLETE, count_document({}))
        complete = self._location.column(COMPLETE, count_document({})).with_config(WHOLE)
        complete[...] = int(np.isfinite(self.arrays[SECONDS]).sum())
        header = {"study": self._id, "attributes": signed, "priors": list(self.plays)}
        save_arrays(self._location, FILE, header, {**self.arrays, **plays})
        if compare(self._location, "", group_document(signed)):
            self._location.put_document("", group_document(signed))
        self._written = time.monotonic()
        self._write_seconds = self._written - began

    @staticmethod
    def find(place: str | Path) -> dict[str, Any] | None:
        """Return the record of the study in a place, None if it is empty; FileExistsError if it has something else."""
        stored = study_record(place)
        if stored is None and locate(place).occupied():
            raise FileExistsError(f"store: {place} exists already; name another folder, or remove it first")
        return stored

    def place_of(self, run: RUN) -> str | None:
        """Return the folder or URL of a run's store; None in memory."""
        if self.place is None:
            return None
        return run_place(self.place, self._names, run)

    def lacks(self, run: RUN, count: int) -> bool:
        """Return whether a run has to be played, or read: it has no notes, or fewer rounds than `count`."""
        noted = self.place is not None and not self.damage and not np.isnan(self.arrays[SECONDS][run])
        return not (noted and self.has_rounds(run, count))

    def has_rounds(self, run: RUN, count: int) -> bool:
        """Return whether a run has a store with `count` rounds."""
        try:
            found = ObservationStore.open(self.place_of(run))
            if growth.KEEP in self.record and len(found):
                return bool(found.read(len(found) - 1, names=[ROUND])[ROUND][0] >= count)
            return len(found) >= count
        except (StoreError, OSError):
            return False

    def reaches(self, run: RUN, count: int) -> bool:
        """Return whether `count` rounds of a run that was played are where this process finds them.

        Folders are checked by the workers before they play.
        """
        return "://" not in str(self.place) or self.has_rounds(run, count)

    def keep(self, run: RUN, summary: RunSummary) -> None:
        """Record the results of a run that its own store does not have; its series may be shorter than others'."""
        self.arrays[UNIFORM][run[0], run[2]] = summary.uniform
        before = self.arrays[SECONDS][run]
        if not self.damage or np.isnan(before):  # otherwise the run was only read again
            self.arrays[SECONDS][run] = summary.seconds + np.nan_to_num(before)  # it may go on to a longer horizon
        series = dict(summary.series)
        rounds = series.pop(ROUND, None)
        for name, values in series.items():
            whole = rounds is None or name == ELAPSED
            places = slice(len(values)) if whole else growth.kept_rounds(self.record).searchsorted(rounds)
            if name not in self.arrays:
                self.arrays[name] = self._empty(name, 4)
            self.arrays[name][run][places] = values
        for known, numbers in ((self.plays, summary.plays), (self.arrays, summary.costs)):
            for name, number in numbers.items():
                known.setdefault(name, self._empty(name, 3))[run] = number
        self.plays = {name: self.plays[name] for name in sorted(self.plays, key=growth.place_in(self._priors))}
        if time.monotonic() - self._written > max(APART, 10.0 * self._write_seconds):
            self.write()

    def _empty(self, name: str, count: int, fill: float = np.nan) -> NDArray[Any]:
        """Return an array without values, of so many dimensions."""
        return np.full([len(each) for each in _dimensions(self.record, name, count)], fill)

    def _load_notes(self) -> None:
        """Read the stored notes, or say what is wrong with them."""
        try:
            header, arrays = load_arrays(self._location, FILE)
            if header["study"] != self._id:
                raise ValueError("it is another study's")
            for name, values in arrays.items():
                if name == PLAYS:
                    each = zip(header["priors"], values, strict=True)
                    self.plays |= {prior: self._taken(name, plays, header["attributes"]) for prior, plays in each}
                else:
                    self.arrays[name] = self._taken(name, values, header["attributes"])
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self.damage = str(error)

    def _taken(self, name: str, values: NDArray[Any], stored: Mapping[str, Any]) -> NDArray[Any]:
        """Return an array with the values of a stored one, whose study may have had other cases, policies and sizes."""
        found = self._empty(name, values.ndim)
        both = zip(*(_dimensions(record, name, values.ndim) for record in (self.record, stored)), strict=True)
        places = [np.intersect1d(own, its, assume_unique=True, return_indices=True)[1:] for own, its in both]
        found[np.ix_(*(own for own, _ in places))] = values[np.ix_(*(its for _, its in places))]
        return found

    # ---- as a dataset

    def dataset(self) -> xarray.Dataset:
        """Return the study over the kept rounds; NaN (candidate: -1) where rounds are missing.

        Of a store the dataset is lazy, with one chunk for each run.
        """
        import xarray

        record, rounds = self.record, growth.kept_rounds(self.record)
        series = {} if self.place is None else self._lazy(rounds)
        variables: dict[str, Any] = {}
        for name, array in (series | self.arrays).items():
            last = "mark" if name == ELAPSED else DIMENSIONS[-1]
            variables[name] = (DIMENSIONS[::2] if name == UNIFORM else (*DIMENSIONS[:3], last)[: array.ndim], array)
        coordinates: dict[str, Any] = {
            # Variable-length strings: fixed-length ones have no zarr v3 specification.
            "case": np.array(list(record["cases"]), dtype=object),
            "policy": np.array(list(record["policies"]), dtype=object),
            "replicate": np.arange(record["replicates"]),
            "round": rounds,
        }
        for name, dimension in zip(growth.LISTS, DIMENSIONS, strict=False):
            coordinates |= {axis: (dimension, values) for axis, values in _axis_values(record, name).items()}
        if not record["timed"]:
            del variables[SECONDS]
        if ELAPSED in variables:
            coordinates["mark"] = marks(record[growth.HORIZON])
        if self.plays:
            variables[PLAYS] = ((*DIMENSIONS[:3], "prior"), np.stack(list(self.plays.values()), axis=-1))
            coordinates["prior"] = np.array(list(self.plays), dtype=object)
        names = ("study", "title", "source", "unit", "seed", "measure", "version", "python", growth.HORIZONS)
        attributes = {name: record[name] for name in names if name in record}
        if record[growth.ABSENT]:
            attributes[growth.ABSENT] = json.dumps(record[growth.ABSENT])
        if growth.TABLES in record:  # as text, like the specification of a run's dataset
            attributes[growth.TABLES] = json.dumps(record[growth.TABLES])
        return xarray.Dataset(variables, coords=coordinates, attrs=attributes)

    def _lazy(self, rounds: NDArray[Any]) -> dict[str, Any]:
        """Return dask arrays of the series, which read the stores of the runs."""
        import dask.array

        shape: tuple[int, ...] = self.arrays[SECONDS].shape
        places = np.empty(shape, dtype=object)
        for run in np.ndindex(*shape):
            places[run] = self.place_of(run)
        chunks = (*((1,) * size for size in shape), (len(rounds),))
        series = {}
        for name, fill in series_of(self.record).items():
            kind = np.dtype(np.int64 if name == "candidate" else np.float64)
            empty = np.full(len(rounds), fill, kind)
            read = functools.partial(_read, places, name, empty, rounds if growth.KEEP in self.record else None)
            series[name] = dask.array.map_blocks(read, chunks=chunks, dtype=kind, meta=np.empty((0,) * 4, kind))
        return series


def refuse_another(place: str | Path | None, lines: Sequence[str]) -> None:
    """Raise SpecificationDiffers if there are differences between the study in a store and one to be played."""
    if lines:
        listed = "\n  ".join(lines)
        hint = "it has another study: name another store for this one. Differences:"
        raise SpecificationDiffers(f"store {place}: {hint}\n  {listed}")


def _read(
    places: Any, name: str, empty: NDArray[Any], rounds: NDArray[Any] | None, block_id: tuple[int, ...] = (0, 0, 0, 0)
) -> NDArray[Any]:
    """Read one series of one run, as a block of the study's array."""
    values = empty.copy()
    try:
        run = ObservationStore.open(places[block_id[:3]])
        if rounds is None:
            found = run.read(0, len(values), [name])[name]
            values[: len(found)] = found
        elif len(run):
            _, ours, its = np.intersect1d(rounds, run.read(names=[ROUND])[ROUND], True, return_indices=True)
            values[ours] = run.read(names=[name])[name][its]
    except FileNotFoundError:
        pass
    return values[None, None, None]


def run_folders(record: Mapping[str, Any]) -> list[list[str]]:
    """Return the folders of the cases, and those of the policies, in the store of a study.

    Parameters
    ----------
    record
        Record of the study.
    """
    return [[one.folder for one in growth.variants(record, name)] for name in growth.LISTS]


def run_place(place: str | Path, folders: Sequence[Sequence[str]], run: RUN) -> str:
    """Return the folder or URL of a run's store.

    Parameters
    ----------
    place
        Folder or URL of the study.
    folders
        Folders in it, as `run_folders` returns them.
    run
        Numbers of the run's case, policy and replicate.
    """
    case, policy, number = run
    return f"{str(place).rstrip('/')}/{folders[0][case]}/{folders[1][policy]}/{number:04d}"


def study_record(place: str | Path) -> dict[str, Any] | None:
    """Return the record of the study in a place; None where no study is."""
    if not isinstance(place, str | Path):
        checks.refuse("store", place, "a folder or a URL: a study is a group of runs")
    found = _find(locate(place))
    if not found:
        return None
    return {key: value for key, value in found.items() if key not in STUDY_ATTRIBUTES}


def _find(location: Location) -> dict[str, Any]:
    """Return the attributes of a study from the group or from their copy; empty if there is no study.

    Raises
    ------
    StoreDamaged
        If both are damaged, or are of two studies.
    """
    found, damaged = study_copies(location)
    if len({attributes["id"] for attributes in found.values()}) > 1:
        text = f"{' and '.join(found)} are of two studies: one of them was replaced by another's"
        raise StoreDamaged(f"store {location.name}: {text}")
    if found:
        return next(iter(found.values()))
    if FILE in damaged:  # only a study has this file
        listed = "; ".join(f"{file}: {why}" for file, why in damaged.items())
        raise StoreDamaged(f"store {location.name}: both copies of the study's attributes are damaged ({listed})")
    return {}


def study_copies(location: Location) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the undamaged copies of a study's attributes by file, the group's first, and the damage of the others.

    Raises
    ------
    StoreError
        If the study has a schema that this version does not read.
    """
    found: dict[str, dict[str, Any]] = {}
    damaged = {}
    try:
        attributes: Any = (location.document("") or {}).get("attributes")
        if isinstance(attributes, dict) and attributes.get("kind") == "study":
            check_schema(location.name, attributes)
            if is_signed(attributes):
                found[METADATA] = attributes
            else:
                damaged[METADATA] = "its attributes do not match their digest"
    except ValueError as error:
        damaged[METADATA] = f"it is not JSON ({error})"
    try:
        header, _ = load_arrays(location, FILE, header_alone=True)
        found[FILE] = header["attributes"]
        check_schema(location.name, found[FILE])
    except (ValueError, KeyError, TypeError) as error:
        if str(error) != "it is missing":
            damaged[FILE] = str(error)
    return found, damaged


def series_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fill values of a study's series by name.

    Parameters
    ----------
    record
        Record of the study.
    """
    return {**SERIES, TOTAL: np.nan} if growth.KEEP in record else SERIES


def _axis_values(record: Mapping[str, Any], name: str) -> dict[str, NDArray[Any]]:
    """Return the values of each axis, and the names in the study, of all cases or policies; none without axes."""
    found = growth.variants(record, name)
    axes = dict.fromkeys(axis for one in found for axis in one.values)
    if not axes:
        return {}
    usual = {growth.HORIZON: record[growth.HORIZON]}  # horizon of the policies that have only one

    def column(axis: str) -> NDArray[Any]:
        values = [one.values.get(axis, usual.get(axis)) for one in found]
        if any(isinstance(value, str) for value in values):
            return np.array(["" if value is None else str(value) for value in values], dtype=object)
        return np.array(values, dtype=np.float64 if None in values else None)

    names = {f"{DIMENSIONS[growth.LISTS.index(name)]}_name": np.array([one.name for one in found], dtype=object)}
    return {**names, **{axis: column(axis) for axis in axes}}


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


def _dimensions(record: Mapping[str, Any], name: str, count: int) -> list[Any]:
    """Return what the dimensions of an array of the notes stand for: folders, replicates, rounds."""
    found: list[Any] = [*run_folders(record)]
    found.append(range(record["replicates"]))
    if count == len(DIMENSIONS):
        found.append(marks(record[growth.HORIZON]) if name == ELAPSED else growth.kept_rounds(record))
    return found[::2] if name == UNIFORM else found
