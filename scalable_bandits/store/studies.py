"""A study on disk: a group of runs, each a store of its own, written by whoever plays it.

The group's attributes say what the study is; the process that hands the runs out keeps nothing in it but
``uniform_regret``, one number for each case and replicate.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.specification import differences
from scalable_bandits.store.errors import SpecificationDiffers, StoreError
from scalable_bandits.store.locations import Location
from scalable_bandits.store.observations import ObservationStore
from scalable_bandits.store.places import locate

if TYPE_CHECKING:
    import xarray

SCHEMA = 1
SERIES = {"regret": np.nan, "candidate": -1, "width": np.nan, "information_gain": np.nan}  # with what is not played
DIMENSIONS = ("case", "policy", "replicate", "round")
UNIFORM = "uniform_regret"
TABLES = "specification"  # of the study file
MORE = "more"  # the group of what runs have beyond their stores
RUN = tuple[int, int, int]  # numbers of the case, the policy and the replicate
PLAYS = "plays"
SECONDS = 1.0  # between two writes of what is kept for all runs


class StudyStore:
    """A study's group.

    Parameters
    ----------
    place
        A folder or a URL.
    record
        What the study is; `study_record` of a group that is there already.
    """

    def __init__(self, place: str | Path, record: Mapping[str, Any]):
        self.place, self.record = _absolute(place), dict(record)
        self.shape = _shape(record)
        self._location = locate(place)
        self._names = [_slugs(record[name]) for name in ("cases", "policies")]
        array: Any = self._location.group()[UNIFORM]
        self.uniform: NDArray[Any] = np.full((self.shape[0], self.shape[2]), np.nan)
        stored = np.asarray(array[...])[:, : self.shape[2]]
        self.uniform[:, : stored.shape[1]] = stored
        self._more = _More(self.shape, record["horizon"])
        self._more.load(self._location)
        self._written = 0.0

    @classmethod
    def take_up(cls, place: str | Path, record: Mapping[str, Any]) -> StudyStore:
        """Make the group, or go on with the one that is there.

        Raises
        ------
        FileExistsError
            If something else is there.
        SpecificationDiffers
            If it is another study; the message shows what differs. More replicates are no difference.
        """
        stored = study_record(place)
        if stored is None:
            cls.check_place(place)
            group = locate(place).group("a")
            sizes = len(record["cases"]), record["replicates"]
            group.create_array(
                UNIFORM, shape=sizes, chunks=sizes, dtype="float64", fill_value=np.nan,
                dimension_names=("case", "replicate"),
            )  # fmt: skip
            for case in _slugs(record["cases"]):
                for policy in _slugs(record["policies"]):
                    group.require_group(case).require_group(policy)
            group.update_attributes({"kind": "study", "schema": SCHEMA, **record})  # last: with them it is a study
            return cls(place, record)
        given = {**record, "replicates": max(record["replicates"], stored["replicates"])}
        same = {name: stored[name] for name in ("version", "python", "data")}  # may differ
        if TABLES not in stored:  # it is older than study files
            given.pop(TABLES, None)
        lines = differences({**stored, "replicates": given["replicates"]}, {**given, **same})
        if lines:
            listed = "\n  ".join(lines)
            hint = "it holds another study: name another store for this one. What differs:"
            raise SpecificationDiffers(f"store {place}: {hint}\n  {listed}")
        location = locate(place)
        if given["replicates"] > stored["replicates"]:
            array: Any = location.group("r+")[UNIFORM]
            array.resize((len(record["cases"]), given["replicates"]))
            location.group("r+").update_attributes({"replicates": given["replicates"]})
        return cls(place, {**stored, "replicates": given["replicates"]})

    @staticmethod
    def check_place(place: str | Path) -> None:
        """FileExistsError if something is there that is no study."""
        if study_record(place) is None and locate(place).occupied():
            raise FileExistsError(f"store: {place} exists already; name another folder, or remove it first")

    def place_of(self, run: RUN) -> str | None:
        """Where a run is kept."""
        case, policy, number = run
        return f"{str(self.place).rstrip('/')}/{self._names[0][case]}/{self._names[1][policy]}/{number:04d}"

    def missing(self) -> list[RUN]:
        """Runs that are not played to their end, or of which nothing is noted."""
        return [run for run in all_runs(self.shape) if np.isnan(self._more.seconds[run]) or not self._complete(run)]

    def _complete(self, run: RUN) -> bool:
        try:
            return len(ObservationStore.open(self.place_of(run))) >= self.record["horizon"]
        except (StoreError, OSError):
            return False

    def keep(
        self, run: RUN, uniform: float, seconds: float, series: Mapping[str, Any], plays: Mapping[str, float]
    ) -> None:
        """Take note of what a run's own store does not have."""
        self.uniform[run[0], run[2]] = uniform
        self._more.keep(run, seconds, series, plays)
        if time.monotonic() - self._written > SECONDS:
            self.close()

    def close(self) -> None:
        """Write what was noted."""
        array: Any = self._location.group("r+")[UNIFORM]
        array[...] = self.uniform
        self._more.save(self._location)
        self._written = time.monotonic()

    def dataset(self) -> xarray.Dataset:
        """The study as a lazy dataset, a chunk a run; NaN (candidate: -1) where a run has not been."""
        import dask.array

        places = np.empty(self.shape, dtype=object)
        for run in all_runs(self.shape):
            places[run] = self.place_of(run)
        chunks = (*((1,) * size for size in self.shape), (self.record["horizon"],))
        series = {}
        for name, fill in SERIES.items():
            kind = np.dtype(np.int64 if name == "candidate" else np.float64)
            read = functools.partial(_read, places, name, np.full(self.record["horizon"], fill, kind))
            series[name] = dask.array.map_blocks(read, chunks=chunks, dtype=kind, meta=np.empty((0,) * 4, kind))
        return study_dataset(self.record, series, self.uniform, self._more)


class _More:
    """What runs have beyond their stores: seconds, series of the study's own, and how often each prior was played."""

    def __init__(self, shape: tuple[int, int, int], horizon: int):
        self.seconds: NDArray[Any] = np.full(shape, np.nan)
        self.series: dict[str, NDArray[Any]] = {}
        self.plays: dict[str, NDArray[Any]] = {}  # by the prior's name
        self._horizon = horizon

    def keep(self, run: RUN, seconds: float, series: Mapping[str, Any], plays: Mapping[str, float]) -> None:
        """Keep what a run gave."""
        self.seconds[run] = seconds
        for name, values in series.items():
            self.series.setdefault(name, np.full((*self.seconds.shape, self._horizon), np.nan))[run] = values
        for name, count in plays.items():
            self.plays.setdefault(name, np.full(self.seconds.shape, np.nan))[run] = count

    def load(self, location: Location) -> None:
        """Take up what was saved."""
        if MORE not in location.group():
            return
        for name, array in location.group(path=MORE).arrays():
            values: Any = np.asarray(array[...])
            target = self.seconds
            if name == PLAYS:
                names: Any = array.attrs["priors"]
                self.plays = {prior: np.full(self.seconds.shape, np.nan) for prior in names}
                for prior, counts in zip(names, values, strict=True):
                    _fill(self.plays[prior], counts)
                continue
            if name != "seconds":
                target = self.series[name] = np.full((*self.seconds.shape, self._horizon), np.nan)
            _fill(target, values)

    def save(self, location: Location) -> None:
        """Keep all of it."""
        group = location.group("r+").require_group(MORE)
        kept = {"seconds": self.seconds, **self.series}
        if self.plays:
            kept[PLAYS] = np.array(list(self.plays.values()))
        for name, values in kept.items():
            attributes: dict[str, Any] = {"priors": list(self.plays)} if name == PLAYS else {}
            group.create_array(
                name, shape=values.shape, chunks=values.shape, dtype="float64", fill_value=np.nan, overwrite=True,
                attributes=attributes,
            )[...] = values  # fmt: skip


def _fill(target: NDArray[Any], values: NDArray[Any]) -> None:
    """Put values in, as far as both reach."""
    inside = tuple(slice(min(have, want)) for have, want in zip(values.shape, target.shape, strict=True))
    target[inside] = values[inside]


class StudyInMemory:
    """What `StudyStore` is, for a study that is kept nowhere.

    Parameters
    ----------
    record
        What the study is.
    """

    def __init__(self, record: Mapping[str, Any]):
        self.record = dict(record)
        self.shape = _shape(record)
        self.uniform: NDArray[Any] = np.full((self.shape[0], self.shape[2]), np.nan)
        self._series = {name: np.full((*self.shape, record["horizon"]), fill) for name, fill in SERIES.items()}
        self._more = _More(self.shape, record["horizon"])

    def place_of(self, run: RUN) -> str | None:
        """Nowhere."""
        return None

    def missing(self) -> list[RUN]:
        """All runs."""
        return list(all_runs(self.shape))

    def keep(
        self, run: RUN, uniform: float, seconds: float, series: Mapping[str, Any], plays: Mapping[str, float]
    ) -> None:
        """Keep what a run gave."""
        self.uniform[run[0], run[2]] = uniform
        for name, array in self._series.items():
            array[run] = series[name]
        more = {name: values for name, values in series.items() if name not in SERIES}
        self._more.keep(run, seconds, more, plays)

    def close(self) -> None:
        """Nothing is left to be done."""

    def dataset(self) -> xarray.Dataset:
        """The study; NaN (candidate: -1) where a run has not been."""
        return study_dataset(self.record, self._series, self.uniform, self._more)


def _absolute(place: str | Path) -> str | Path:
    """A folder by its whole name, for workers were started elsewhere; a URL is one already."""
    return place if "://" in str(place) else Path(place).absolute()


def _shape(record: Mapping[str, Any]) -> tuple[int, int, int]:
    return len(record["cases"]), len(record["policies"]), record["replicates"]


def all_runs(shape: tuple[int, int, int]) -> Iterable[RUN]:
    """All runs, a replicate's together."""
    cases, policies, replicates = (range(size) for size in shape)
    return ((c, p, r) for c in cases for r in replicates for p in policies)


def _read(places: Any, name: str, empty: NDArray[Any], block_id: tuple[int, ...] = (0, 0, 0, 0)) -> NDArray[Any]:
    """One series of one run, as a block of the study's."""
    values = empty.copy()
    try:
        found = ObservationStore.open(places[block_id[:3]]).read(0, len(values), [name])[name]
        values[: len(found)] = found
    except FileNotFoundError:
        pass
    return values[None, None, None]


def study_dataset(
    record: Mapping[str, Any], series: Mapping[str, Any], uniform: NDArray[Any], more: _More
) -> xarray.Dataset:
    """Dataset of a study from its record, its series over `DIMENSIONS`, and uniform play's regret."""
    import xarray

    variables: dict[str, Any] = {name: (DIMENSIONS, array) for name, array in {**series, **more.series}.items()}
    if record["timed"]:
        variables["seconds"] = (DIMENSIONS[:3], more.seconds)
    if more.plays:
        variables[PLAYS] = ((*DIMENSIONS[:3], "prior"), np.stack(list(more.plays.values()), axis=-1))
    variables[UNIFORM] = (DIMENSIONS[::2], uniform)
    coordinates = {
        # Variable-length strings: fixed-length ones have no zarr v3 specification.
        "case": np.array(record["cases"], dtype=object),
        "policy": np.array(record["policies"], dtype=object),
        "replicate": np.arange(record["replicates"]),
        "round": np.arange(1, record["horizon"] + 1),
        **({"prior": np.array(list(more.plays), dtype=object)} if more.plays else {}),
    }
    names = ("study", "title", "source", "unit", "seed", "measure", "version", "python")
    attributes = {name: record[name] for name in names}
    if TABLES in record:
        attributes[TABLES] = json.dumps(record[TABLES])  # as that of a run's dataset
    return xarray.Dataset(variables, coords=coordinates, attrs=attributes)


def study_record(place: str | Path) -> dict[str, Any] | None:
    """What the study in a place is; None if there is none."""
    if not isinstance(place, str | Path):
        checks.refuse("store", place, "a folder or a URL: a study is a group of runs")
    try:
        attributes: dict[str, Any] = dict(locate(place).group().attrs)
    except (FileNotFoundError, ValueError):
        return None
    if attributes.pop("kind", None) != "study":
        return None
    if attributes.pop("schema") > SCHEMA:
        raise StoreError(f"store {place}: a newer version wrote this study: upgrade scalable_bandits")
    return attributes


def _slugs(labels: Sequence[str]) -> list[str]:
    """Names for folders: letters, digits and dots, each once."""
    found = [re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-") or "run" for label in labels]
    names: list[str] = []
    for i, name in enumerate(found):
        own = name if found.count(name) == 1 else f"{name}-{i}"
        while own in names:  # of "a", "A" and "a-1" the second has taken what the third is called
            own = f"{own}-{i}"
        names.append(own)
    return names
