"""Functions given by a table: a value, or several measured ones, for each of finitely many candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.base import Environment
from scalable_bandits.environments.noise import GaussianNoise, Noise
from scalable_bandits.randomness import RoundStream
from scalable_bandits.spaces import FiniteSpace, SearchSpace, every_setting

if TYPE_CHECKING:
    import pandas
    import xarray


class TableEnvironment(Environment):
    """Function given by its value at each candidate, or by several measurements at each.

    With measurements, f is their average, and an observation is one of them: which one is a function of the seed and
    the round.

    Parameters
    ----------
    space
        Finite domain; or a `SearchSpace` of which all combinations of values are in the table, in the order of
        `Settings`.
    values
        Values (n,) of f at the candidates, in units of y; or measurements (n, r), where NaN stands for one that is
        missing.
    noise
        Noise that is added; if not given, standard normal on values, and none on measurements.
    seed
        Seed of the noise, and of the choice of measurements; see `Environment`.

    Attributes
    ----------
    measurements : ndarray or None
        Measurements (n, r), in units of y; None if each candidate has one value.

    Raises
    ------
    ValueError
        If there is not one finite value, or at least one finite measurement, for each candidate, or equal points have
        different values.
    """

    def __init__(self, space: FiniteSpace | SearchSpace, values: ArrayLike, noise: Noise | None = None, seed: int = 0):
        checks.kind(
            "space", space, (FiniteSpace, SearchSpace), "a finite space, or a search space: a box has no candidates"
        )
        self._arms: FiniteSpace = every_setting(space) if isinstance(space, SearchSpace) else space
        given, table = _averages(values, self._arms.size)
        super().__init__(space, GaussianNoise(0.0) if noise is None and given is not None else noise, seed)
        self._table: Floats = table
        self.measurements = given
        self.same_noise_everywhere = given is None
        if given is not None:
            # Measurements of a row first, missing ones last, so that the k-th is the one at place k.
            self._present = np.take_along_axis(given, np.argsort(np.isnan(given), axis=1, kind="stable"), axis=1)
            self._counts = (~np.isnan(given)).sum(axis=1)
            self._shares = RoundStream(self.seed, "measurements", np.random.Generator.random)
        arms, each = self._arms, table if given is None else given
        if arms.has_coordinates and arms.box is None and not arms.distinct:
            first = [arms.canonical(i) for i in range(arms.size)]
            if not np.array_equal(each[first], each, equal_nan=True):
                checks.refuse("values", "different values at equal points", "one value for equal points of the space")

    @staticmethod
    def from_table(
        table: pandas.DataFrame | xarray.Dataset | np.ndarray | Mapping[str, ArrayLike] | str | Path,
        value: str | Sequence[str],
        parameters: Sequence[str] | SearchSpace | Mapping[str, Any] | None = None,
        *,
        minimize: bool = False,
        noise: Noise | None = None,
        seed: int = 0,
    ) -> TableEnvironment:
        """Make an environment of the rows of a table with named, typed columns: its arms are the settings measured.

        Rows with equal settings are measurements of one arm, as are several columns of values.

        Parameters
        ----------
        table
            pandas DataFrame, xarray Dataset, structured array, dict of columns (n,), or the path of a CSV, Parquet or
            zarr file.
        value
            Name of the column of measured values; or names of several, where an empty cell is a missing measurement.
        parameters
            Names of the columns that describe an arm, all others if not given; or a `SearchSpace` (or a dict of
            parameters) with these names, which says how a model sees them. Without it numbers are `Real` or `Integer`
            between the smallest and the largest, words `Categorical`.
        minimize
            Whether smaller values are better: f is then minus the value.
        noise, seed
            Noise that is added, none if not given; seed as in `Environment`.

        Raises
        ------
        ValueError
            If a column is missing, a parameter's cell is empty, a value is infinite, or a row has no value.
        ImportError
            If a reader of the file is not installed; the message names it.

        Examples
        --------
        >>> import scalable_bandits as sb
        >>> log = {"width": [16, 16, 32], "rate": [0.1, 0.1, 0.01], "loss": [3.0, 2.0, 1.0]}
        >>> environment = sb.TableEnvironment.from_table(log, "loss", minimize=True)
        >>> environment.space.size, environment.mean({"width": 16, "rate": 0.1})
        (2, -2.5)
        """
        from scalable_bandits.environments.table_columns import arms_of, read

        settings, measured = arms_of(read(table), value, parameters)
        values = -measured if checks.flag("minimize", minimize) else measured
        return TableEnvironment(settings, values, GaussianNoise(0.0) if noise is None else noise, seed)

    def parameters(self) -> dict[str, Any]:
        values = self._table if self.measurements is None else self.measurements
        return {**super().parameters(), "values": values}

    @property
    def sub_gaussian(self) -> float:
        if self.measurements is None:
            return super().sub_gaussian
        # A variable in [a, b] is (b - a) / 2-sub-Gaussian (Hoeffding); independent ones add their squares.
        spread = np.nanmax(self.measurements, axis=1) - np.nanmin(self.measurements, axis=1)
        return float(np.hypot(spread.max() / 2.0, super().sub_gaussian))

    @property
    def deviation(self) -> float:
        """Root mean square deviation of the measurements from the averages of their arms, in units of y.

        It is unbiased: an arm with k measurements counts k - 1 of them. NaN if no arm has two.
        """
        if self.measurements is None:
            return float("nan")
        squares = np.nansum((self.measurements - self._table[:, None]) ** 2)
        freedom = int((self._counts - 1).sum())
        return float(np.sqrt(squares / freedom)) if freedom else float("nan")

    def evaluate(self, points: Floats) -> Floats:
        return self._table[self._arms.index(points)]

    def measured(self, point: Floats, value: float, t: int) -> float:
        if self.measurements is None:
            return super().measured(point, value, t)
        arm = int(self._arms.index(point[None])[0])
        place = int(self._shares[t] * self._counts[arm])
        return float(self._present[arm, place]) + self.noise_at(t)

    def table(self, t: int = 1) -> Floats:
        return self._table

    def optimum(self, t: int = 1, available: ArrayLike | None = None) -> float:
        return float(self._table.max()) if available is None else super().optimum(t, available)


def _averages(values: ArrayLike, size: int) -> tuple[Floats | None, Floats]:
    """Check values (n,) or measurements (n, r); return the measurements, if there are several, and averages (n,)."""
    array = np.asarray(values)
    if array.ndim != 2 or not array.size:
        table = checks.frozen(checks.finite("values", values, ndim=1))
        given = None
    else:
        given = np.asarray(array, dtype=np.float64)
        if np.isinf(given).any() or np.isnan(given).all(axis=1).any():
            row = int(np.flatnonzero(np.isinf(given).any(axis=1) | np.isnan(given).all(axis=1))[0])
            checks.refuse(f"values[{row}]", given[row].tolist(), "finite numbers, NaN where missing, at least one")
        given = checks.frozen(given)
        table = checks.frozen(np.nanmean(given, axis=1))
    if len(table) != size:
        allowed = f"({size},), one a candidate, or ({size}, r) for r measurements of each"
        checks.refuse("values", f"shape {array.shape}", allowed)
    return given, table
