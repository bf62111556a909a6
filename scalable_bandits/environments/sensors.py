"""Measured data of sensor networks: each arm is a sensor, and f is one reading of all sensors.

Nothing is downloaded. If a file is missing, the loader's message names the file, the searched folder and the public
source.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats

if TYPE_CHECKING:
    import xarray

INTEL = "http://db.csail.mit.edu/labdata/labdata.html"
LIGHT = "http://www.cs.cmu.edu/~guestrin/Class/10708-F08/projects/lightsensor.zip"
TRAFFIC_DAY = 288  # rows of a day
TRAFFIC = "https://github.com/liyaguang/DCRNN (METR-LA; Li et al. 2018)"


class SensorData(NamedTuple):
    """Readings from which a prior is learned, and readings that are played."""

    train: Floats  # (times, n) readings for the prior
    test: Floats  # (times, n) readings that are played
    unit: str  # unit of the readings
    coordinates: Floats | None  # (n, 2) positions of the sensors


class DataMissing(FileNotFoundError):
    """Missing data file; the message names the file, the searched folder and the public source."""


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return `folder`, else the folder named by the variable SCALABLE_BANDITS_DATA, else ../shared/data."""
    return Path(folder or os.environ.get("SCALABLE_BANDITS_DATA") or "../shared/data")


def find(name: str, origin: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of a data file.

    Raises
    ------
    DataMissing
        If the file is not in the folder.
    """
    path = data_folder(folder) / name
    if not path.is_file():
        raise DataMissing(
            f"{name} is missing: looked in {data_folder(folder).resolve()}. Give its folder with --data, "
            f"data=... or SCALABLE_BANDITS_DATA. Public source: {origin}"
        )
    return path


@functools.lru_cache(maxsize=4)
def _read(path: Path, header: int = 0) -> Floats:
    """Read comma-separated numbers; cached, because every replicate of a study reads them."""
    numbers = np.loadtxt(path, delimiter=",", skiprows=header, ndmin=2)
    numbers.flags.writeable = False
    return numbers


def load_light(folder: str | os.PathLike[str] | None = None) -> SensorData:
    """Load readings of 41 light sensors of the CMU Intelligent Workplace, November 2005: 601 to train, 192 to test.

    Source: Chowdhury & Gopalan 2017, Fig. 4b, with the same split.

    Parameters
    ----------
    folder
        Folder of the file; if not given, the folder named by SCALABLE_BANDITS_DATA, or ../shared/data.

    Returns
    -------
    SensorData
        `train` (times, n) and `test` (times, n) in raw light units.

    Raises
    ------
    DataMissing
        If the file is missing.
    """
    from scipy.io import loadmat

    data = loadmat(find("light_sensors.mat", LIGHT, folder), simplify_cells=True)["data"]
    train, test = (np.asarray(data[part]["sensordata"], dtype=np.float64) for part in ("train", "test"))
    return SensorData(train, test, "raw light units", np.asarray(data["coords"], dtype=np.float64))


def load_temperature(folder: str | os.PathLike[str] | None = None) -> SensorData:
    """Load half-hourly temperatures of 50 motes of the Intel Berkeley lab: three days to train, the next two to test.

    Source: Srinivas et al. 2010, Fig. 5b; Chowdhury & Gopalan 2017, Fig. 4a; Ziomek et al. 2025, Fig. 4.

    Parameters
    ----------
    folder
        Folder of the file; if not given, the folder named by SCALABLE_BANDITS_DATA, or ../shared/data.

    Returns
    -------
    SensorData
        `train` (times, n) and `test` (times, n) in degrees Celsius.

    Raises
    ------
    DataMissing
        If the file is missing.
    """
    train, test = (_read(find(f"intel_temperature_{part}.csv", INTEL, folder)).T for part in ("train", "test"))
    return SensorData(train, test, "degrees Celsius", None)


def load_traffic(folder: str | os.PathLike[str] | None = None) -> SensorData:
    """Load speeds at 207 loop detectors on Los Angeles highways, every five minutes of working days, 6 to 11 am.

    The first two thirds of the rows are `train`, the rest `test`, as in Srinivas et al. 2010, section 6 (there 357
    detectors on I-880 for a month). The file covers 1 to 7 March 2012; 3 and 4 March are a weekend.

    Parameters
    ----------
    folder
        Folder of the file; if not given, the folder named by SCALABLE_BANDITS_DATA, or ../shared/data.

    Returns
    -------
    SensorData
        `train` (times, n) and `test` (times, n) in miles per hour.

    Raises
    ------
    DataMissing
        If the file is missing.
    """
    speeds = _read(find("traffic_speed_la.csv.gz", TRAFFIC, folder), header=1)
    day, slot = np.divmod(np.arange(len(speeds)), TRAFFIC_DAY)
    kept = _without_gaps(speeds[~np.isin(day, (2, 3)) & (slot >= 72) & (slot < 132)])
    split = 2 * len(kept) // 3
    return SensorData(kept[:split], kept[split:], "miles per hour", None)


def load_traffic_days(folder: str | os.PathLike[str] | None = None) -> SensorData:
    """Load speeds at 207 loop detectors on Los Angeles highways, every five minutes of whole days.

    `train` has 1 to 4 March 2012, of which the last two days are a weekend, `test` 5 to 7 March; 288 rows a day.

    Parameters
    ----------
    folder
        Folder of the file; if not given, the folder named by SCALABLE_BANDITS_DATA, or ../shared/data.

    Returns
    -------
    SensorData
        `train` (times, n) and `test` (times, n) in miles per hour.

    Raises
    ------
    DataMissing
        If the file is missing.
    """
    speeds = _without_gaps(_read(find("traffic_speed_la.csv.gz", TRAFFIC, folder), header=1))
    return SensorData(speeds[: 4 * TRAFFIC_DAY], speeds[4 * TRAFFIC_DAY :], "miles per hour", None)


def _without_gaps(speeds: Floats) -> Floats:
    """Replace 0, which means that a detector reported nothing, by the detector's mean over the other rows."""
    means = speeds.sum(axis=0) / np.maximum((speeds > 0).sum(axis=0), 1)
    return np.where(speeds > 0, speeds, means)


def load_intel_raw(
    path: str | os.PathLike[str], quantity: str = "temperature", every: str = "30min"
) -> xarray.DataArray:
    """Read the raw file of the Intel lab as published and average it over time spans of equal length.

    Parameters
    ----------
    path
        File ``data.txt``: date, time, epoch, mote id, temperature, humidity, light, voltage, separated by blanks.
        Incomplete lines and lines with an invalid mote id (above 58) are left out.
    quantity
        Quantity to read: "temperature" (degrees Celsius), "humidity" (percent), "light" (lux) or "voltage" (V).
    every
        Length of the time spans, as pandas writes it.

    Returns
    -------
    xarray.DataArray
        Averages (time, mote); NaN where a mote reported nothing.

    Raises
    ------
    DataMissing
        If the file is missing.
    ValueError
        If the quantity is unknown, `every` is not a time span, or the file has no reading of the quantity.
    """
    import pandas

    quantities = ["temperature", "humidity", "light", "voltage"]
    if quantity not in quantities:
        checks.refuse("quantity", quantity, ", ".join(quantities))
    try:
        pandas.Timestamp(0).floor(every)
        whole = pandas.tseries.frequencies.to_offset(every).n
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):  # pandas raises any of these for an invalid span
        whole = 0
    if whole <= 0:
        checks.refuse("every", every, "a span of time as pandas writes it, such as '30min'")
    if not Path(path).is_file():
        raise DataMissing(f"{path} is missing. Public source: {INTEL}")
    names = ["date", "time", "epoch", "mote", *quantities]
    table = pandas.read_csv(path, sep=r"\s+", names=names, on_bad_lines="skip", dtype=str)
    numbers = table[["mote", *quantities]].apply(pandas.to_numeric, errors="coerce").dropna()[["mote", quantity]]
    numbers["time"] = pandas.to_datetime(
        table["date"] + " " + table["time"], format="ISO8601", errors="coerce"
    ).dt.floor(every)
    numbers = numbers.dropna()
    numbers["mote"] = numbers["mote"].astype(int)
    numbers = numbers[numbers["mote"].between(1, 58)]
    if numbers.empty:
        checks.refuse("path", str(path), f"a file with readings of {quantity}, one a line, as published")
    panel = numbers.pivot_table(index="time", columns="mote", values=quantity)
    return panel.asfreq(every).stack(future_stack=True).to_xarray().rename(quantity)


def reading(rows: Floats, number: int) -> Floats:
    """Return the row of a panel (times, n) for a replicate; successive replicates have rows 37 apart, cyclically."""
    step = 37  # prime: all rows are used if the number of rows is not a multiple of it
    return rows[(number * step) % len(rows)]


def empirical_covariance(readings: ArrayLike) -> Floats:
    """Compute the covariance of the sensors' readings about their means.

    Parameters
    ----------
    readings
        Readings (times, n) of n sensors, in any unit.

    Returns
    -------
    ndarray
        Covariance (n, n), in squared units of the readings.

    Raises
    ------
    ValueError
        If a reading is not finite, or there are fewer than 2 times or no sensor.
    """
    array = checks.finite("readings", readings, ndim=2)
    if len(array) < 2:
        checks.refuse("readings", f"{len(array)} row(s)", "at least 2 rows (times)")
    if not array.size:
        checks.refuse("readings", f"an array of shape {array.shape}", "at least 1 column (sensor)")
    centered = array - array.mean(axis=0)
    return centered.T @ centered / len(array)
