"""Dataset of a study: its series over cases, policies, replicates and rounds, and the values of its axes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.studies.growth import ABSENT, HORIZON, HORIZONS, LISTS, TABLES, variants
from scalable_bandits.studies.notes import ELAPSED, PLAYS, UNIFORM, Notes, marks

if TYPE_CHECKING:
    import xarray

SERIES = {"regret": np.nan, "candidate": -1, "width": np.nan, "information_gain": np.nan}  # fill values by series
TOTAL = "cumulative_regret"  # one more series, if a study keeps some rounds only
KEEP, ROUND = "keep", "t"  # key of such a study's record, and series of such a run: the numbers of its rounds
DIMENSIONS = ("case", "policy", "replicate", "round")


def series_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fill values of a study's series by name.

    Parameters
    ----------
    record
        Record of the study.
    """
    return {**SERIES, TOTAL: np.nan} if KEEP in record else SERIES


def study_dataset(
    record: Mapping[str, Any], rounds: NDArray[Any], series: Mapping[str, Any], notes: Notes
) -> xarray.Dataset:
    """Return the dataset of a study.

    Parameters
    ----------
    record
        Record of the study.
    rounds
        Rounds (k,) that are kept.
    series
        Arrays over `DIMENSIONS`, by name.
    notes
        Notes of the study.
    """
    import xarray

    variables: dict[str, Any] = {name: (DIMENSIONS, array) for name, array in {**series, **notes.series}.items()}
    coordinates: dict[str, Any] = {
        # Variable-length strings: fixed-length ones have no zarr v3 specification.
        "case": np.array(record["cases"], dtype=object),
        "policy": np.array(record["policies"], dtype=object),
        "replicate": np.arange(record["replicates"]),
        "round": rounds,
    }
    for name, dimension in zip(LISTS, DIMENSIONS, strict=False):
        coordinates |= {axis: (dimension, values) for axis, values in _axis_values(record, name).items()}
    if record["timed"]:
        variables["seconds"] = (DIMENSIONS[:3], notes.seconds)
        variables |= {name: (DIMENSIONS[:3], values) for name, values in notes.costs.items()}
    if ELAPSED in notes.series:
        variables[ELAPSED] = ((*DIMENSIONS[:3], "mark"), notes.series[ELAPSED])
        coordinates["mark"] = marks(record[HORIZON])
    if notes.plays:
        variables[PLAYS] = ((*DIMENSIONS[:3], "prior"), np.stack(list(notes.plays.values()), axis=-1))
        coordinates["prior"] = np.array(list(notes.plays), dtype=object)
    variables[UNIFORM] = (DIMENSIONS[::2], notes.uniform)
    names = ("study", "title", "source", "unit", "seed", "measure", "version", "python", HORIZONS)
    attributes = {name: record[name] for name in names if name in record}
    if record[ABSENT]:
        attributes[ABSENT] = json.dumps(record[ABSENT])
    if TABLES in record:
        attributes[TABLES] = json.dumps(record[TABLES])  # as text, like the specification of a run's dataset
    return xarray.Dataset(variables, coords=coordinates, attrs=attributes)


def _axis_values(record: Mapping[str, Any], name: str) -> dict[str, NDArray[Any]]:
    """Return the values of each axis, and the names in the study, of all cases or policies; none without axes."""
    found = variants(record, name)
    axes = dict.fromkeys(axis for one in found for axis in one.values)
    if not axes:
        return {}
    usual = {HORIZON: record[HORIZON]}  # horizon of the policies that have only one

    def column(axis: str) -> NDArray[Any]:
        values = [one.values.get(axis, usual.get(axis)) for one in found]
        if any(isinstance(value, str) for value in values):
            return np.array(["" if value is None else str(value) for value in values], dtype=object)
        if all(isinstance(value, int) for value in values):
            return np.array(values, dtype=np.int64)
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    names = {f"{DIMENSIONS[LISTS.index(name)]}_name": np.array([one.name for one in found], dtype=object)}
    return {**names, **{axis: column(axis) for axis in axes}}
