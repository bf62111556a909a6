"""Sensor networks from measured data: the arms are sensors, a function is one reading of them all.

Nothing is downloaded. Loaders say which file they miss, where they looked, and where the public
original is.
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
TRAFFIC = "https://github.com/liyaguang/DCRNN (METR-LA; Li et al. 2018)"


class SensorData(NamedTuple):
    """Readings to learn a prior from and readings to play on; rows are times, columns sensors."""

    train: Floats  # (times, n)
    test: Floats  # (times, n)
    unit: str
    coordinates: Floats | None  # (n, 2)


class DataMissing(FileNotFoundError):
    """A measured file is not there; the message says which, where it was looked for, and its origin."""


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """`folder`, else the environment variable SCALABLE_BANDITS_DATA, else ../shared/data."""
    return Path(folder or os.environ.get("SCALABLE_BANDITS_DATA") or "../shared/data")


def find(name: str, origin: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Path of a data file.

    Raises
    ------
    DataMissing
        If it is not in the folder.
    """
    path = data_folder(folder) / name
    if not path.is_file():
        raise DataMissing(
            f"{name} is missing: looked in {data_folder(folder).resolve()}. Give its folder with --data, "
            f"data=... or SCALABLE_BANDITS_DATA. The public original: {origin}"
        )
    return path


@functools.lru_cache(maxsize=4)
def _read(path: Path, header: int = 0) -> Floats:
    """Comma-separated numbers, read once a process: every replicate of a study asks for them."""
    numbers = np.loadtxt(path, delimiter=",", skiprows=header, ndmin=2)
    numbers.flags.writeable = False
    return numbers


def load_light(folder: str | os.PathLike[str] | None = None) -> SensorData:
    """Light sensors of the CMU Intelligent Workplace, Nov 2005: 601 and 192 readings of 41 sensors.

    Source: Chowdhury & Gopalan 2017, Fig. 4b (their split).

    Parameters
    ----------
    folder
        Where the file is; if not given, where SCALABLE_BANDITS_DATA points, or ../shared/data.

    Returns
    -------
    SensorData
        `train` (times, n) and `test` (times, n) in raw light units.

    Raises
    ------
    DataMissing
        If the file is not there.
    """
    from scipy.io import loadmat

    data = loadmat(find("light_sensors.mat", LIGHT, folder), simplify_cells=True)["data"]
    train, test = (np.asarray(data[part]["sensordata"], dtype=np.float64) for part in ("train", "test"))
    return SensorData(train, test, "raw light units", np.asarray(data["coords"], dtype=np.float64))


def load_temperature(folder: str | os.PathLike[str] | None = None) -> SensorData:
    """Temperatures of 50 motes of the Intel Berkeley lab, half-hourly: three days, and the next two.

    Source: Srinivas et al. 2010, Fig. 5b; Chowdhury & Gopalan 2017, Fig. 4a; Ziomek et al. 2025, Fig. 4.

    Parameters
    ----------
    folder
        Where the file is; if not given, where SCALABLE_BANDITS_DATA points, or ../shared/data.

    Returns
    -------
    SensorData
        `train` (times, n) and `test` (times, n) in degrees Celsius.

    Raises
    ------
    DataMissing
        If the file is not there.
    """
    train, test = (_read(find(f"intel_temperature_{part}.csv", INTEL, folder)).T for part in ("train", "test"))
    return SensorData(train, test, "degrees Celsius", None)


def load_traffic(folder: str | os.PathLike[str] | None = None) -> SensorData:
    """Speeds at 207 loop detectors on Los Angeles highways, five-minutely, working days 6 to 11 am.

    The first two thirds of the rows are `train`, the rest `test`, as in Srinivas et al. 2010, section 6 (who had
    357 detectors on I-880 for a month). The file has 1 to 7 March 2012; 3 and 4 March are a weekend.

    Parameters
    ----------
    folder
        Where the file is; if not given, where SCALABLE_BANDITS_DATA points, or ../shared/data.

    Returns
    -------
    SensorData
        `train` (times, n) and `test` (times, n) in miles per hour.

    Raises
    ------
    DataMissing
        If the file is not there.
    """
    speeds = _read(find("traffic_speed_la.csv.gz", TRAFFIC, folder), header=1)
    day, slot = np.divmod(np.arange(len(speeds)), 288)
    kept = speeds[~np.isin(day, (2, 3)) & (slot >= 72) & (slot < 132)]
    # A detector that reports nothing writes 0: taken as its mean over the other rows.
    means = kept.sum(axis=0) / np.maximum((kept > 0).sum(axis=0), 1)
    kept = np.where(kept > 0, kept, means)
    split = 2 * len(kept) // 3
    return SensorData(kept[:split], kept[split:], "miles per hour", None)


def load_intel_raw(
    path: str | os.PathLike[str], quantity: str = "temperature", every: str = "30min"
) -> xarray.DataArray:
    """Read the Intel lab's raw file as published and average it over equal spans of time.

    Parameters
    ----------
    path
        ``data.txt``: date, time, epoch, mote id, temperature, humidity, light, voltage, separated by blanks.
        Incomplete lines and impossible mote ids (above 58) are left out.
    quantity
        "temperature" (degrees Celsius), "humidity" (percent), "light" (lux) or "voltage" (V).
    every
        Span, as pandas writes it.

    Returns
    -------
    xarray.DataArray
        (time, mote); NaN where a mote reported nothing.

    Raises
    ------
    DataMissing
        If there is no such file.
    ValueError
        If there is no such quantity, `every` is no span of time, or the file has no reading of the quantity.
    """
    import pandas

    quantities = ["temperature", "humidity", "light", "voltage"]
    if quantity not in quantities:
        checks.refuse("quantity", quantity, ", ".join(quantities))
    try:
        pandas.Timestamp(0).floor(every)
        whole = pandas.tseries.frequencies.to_offset(every).n
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):  # as pandas refuses what is none
        whole = 0
    if whole <= 0:
        checks.refuse("every", every, "a span of time as pandas writes it, such as '30min'")
    if not Path(path).is_file():
        raise DataMissing(f"{path} is missing. The public original: {INTEL}")
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
        checks.refuse("path", str(path), f"a file with readings of {quantity}, a line each as published")
    panel = numbers.pivot_table(index="time", columns="mote", values=quantity)
    return panel.asfreq(every).stack(future_stack=True).to_xarray().rename(quantity)


def reading(rows: Floats, number: int) -> Floats:
    """Row of a panel (times, n) for the replicate of a number: spread over the times, then around again."""
    step = 37  # prime, so that it goes through all rows of a panel whose length it does not divide
    return rows[(number * step) % len(rows)]


def empirical_covariance(readings: ArrayLike) -> Floats:
    """Covariance of the sensors' readings about their means.

    Parameters
    ----------
    readings
        (times, n).

    Returns
    -------
    ndarray
        (n, n), in squared units of the readings.

    Raises
    ------
    ValueError
        If a reading is not finite, there are fewer than 2 times, or there is no sensor.
    """
    array = checks.finite("readings", readings, ndim=2)
    if len(array) < 2:
        checks.refuse("readings", f"{len(array)} row(s)", "at least 2 rows (times)")
    if not array.size:
        checks.refuse("readings", f"an array of shape {array.shape}", "at least 1 column (sensor)")
    centered = array - array.mean(axis=0)
    return centered.T @ centered / len(array)
