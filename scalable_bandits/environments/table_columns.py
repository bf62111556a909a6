"""Tables with named, typed columns, as settings and what was measured at each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Boolean, Categorical, Integer, Ordinal, Parameter, Real, SearchSpace, Settings
from scalable_bandits.specification import nearest


def read(table: Any) -> pandas.DataFrame:
    """Return a table as a DataFrame, read from a file if it is a path.

    Parameters
    ----------
    table
        DataFrame, xarray Dataset or named DataArray, structured array, dict of columns, or path of a CSV, Parquet or
        zarr file.

    Raises
    ------
    ValueError
        If the table is of another kind, or has no row.
    ImportError
        If a reader of the file is not installed.
    """
    if isinstance(table, str | Path):
        found = _read_file(Path(table))
    elif isinstance(table, pandas.DataFrame):
        found = table
    elif isinstance(table, xarray.Dataset | xarray.DataArray):
        found = table.to_dataframe()
        found = found.drop(columns=[name for name in found.index.names if name in found]).reset_index()
    elif isinstance(table, np.ndarray) and table.dtype.names:
        found = pandas.DataFrame({name: table[name] for name in table.dtype.names})
    elif isinstance(table, Mapping):
        found = pandas.DataFrame({str(name): column for name, column in table.items()})
    else:
        allowed = "a DataFrame, an xarray Dataset, a structured array, a dict of columns, or the path of a file"
        checks.refuse("table", table, allowed)
    if not len(found):
        checks.refuse("table", "no row", "at least one row")
    return found


def _read_file(path: Path) -> pandas.DataFrame:
    if not path.exists():
        raise FileNotFoundError(f"table: {path} does not exist")
    readers: dict[str, Callable[[Path], pandas.DataFrame]] = {
        ".csv": pandas.read_csv,
        ".gz": pandas.read_csv,
        ".parquet": pandas.read_parquet,
        ".zarr": lambda path: read(xarray.open_dataset(path, engine="zarr", consolidated=False)),
    }
    if path.suffix not in readers:
        checks.refuse("table", str(path), f"the name of a file that ends in {', '.join(readers)}")
    try:
        return readers[path.suffix](path)
    except ImportError as error:
        raise ImportError(f"{path}: no reader of Parquet files is installed: pip install pyarrow") from error


def arms_of(table: pandas.DataFrame, value: str | Sequence[str], parameters: Any) -> tuple[Settings, Floats]:
    """Return the distinct settings of a table, in the order of their first rows, and what was measured at each.

    Parameters
    ----------
    table
        Table with a row for each measurement.
    value, parameters
        Columns of values and of parameters, as in `TableEnvironment.from_table`.

    Returns
    -------
    Settings
        Settings, n of them.
    ndarray
        Measurements (n, r), NaN where a setting has fewer than r; (n,) if r = 1.

    Raises
    ------
    ValueError
        If a column is missing, a cell of a parameter is empty, a value is infinite, or a row has no value.
    """
    names = [value] if isinstance(value, str) else list(value)
    values = _values(table, names)
    space = search_space(table, parameters, names)
    points = np.column_stack([_numbers(table, name, kind) for name, kind in zip(space.names, space.kinds, strict=True)])
    rows, measured = distinct(space.check(points), values)
    return Settings(space, rows), measured


def distinct(rows: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Gather the values of equal rows.

    Parameters
    ----------
    rows
        Rows (k, d).
    values
        Values (k, c) of the rows, NaN where one is missing.

    Returns
    -------
    rows : ndarray
        Distinct rows (n, d), in the order in which they come first.
    measured : ndarray
        Values (n, r) of the distinct rows, those of earlier rows first, NaN where one has fewer than r; (n,) if r = 1.
    """
    table = pandas.DataFrame(rows + 0.0)  # -0.0 becomes 0.0
    arm = table.groupby(list(table), sort=False).ngroup().to_numpy()  # number of each row among the distinct ones
    there, column = np.nonzero(~np.isnan(values))
    repeat = pandas.Series(arm[there]).groupby(arm[there]).cumcount().to_numpy()
    measured = np.full((int(arm.max()) + 1, int(repeat.max()) + 1), np.nan)
    measured[arm[there], repeat] = values[there, column]
    first = np.unique(arm, return_index=True)[1]
    return rows[first], measured[:, 0] if measured.shape[1] == 1 else measured


def search_space(table: pandas.DataFrame, parameters: Any, values: Sequence[str]) -> SearchSpace:
    """Return the search space of the columns of a table that are parameters.

    Parameters
    ----------
    table
        Table.
    parameters
        Search space, dict of parameters, names of columns, or None for all columns but those of values.
    values
        Names of the columns of values.

    Raises
    ------
    ValueError
        If a column is missing, is one of values, or has an empty cell.
    """
    if isinstance(parameters, SearchSpace | Mapping):
        space = parameters if isinstance(parameters, SearchSpace) else SearchSpace(parameters)
        _check_columns(table, "parameters", space.names, values)
        return space
    names = [str(name) for name in table.columns if name not in values] if parameters is None else list(parameters)
    _check_columns(table, "parameters", names, values)
    return SearchSpace({name: _parameter(table, name) for name in names})


def _check_columns(table: pandas.DataFrame, argument: str, names: Sequence[str], others: Sequence[str] = ()) -> None:
    if not names:
        checks.refuse(argument, list(names), "names of columns, at least one")
    for name in names:
        if name not in table:
            checks.refuse(argument, name, f"names of columns; {nearest(str(name), map(str, table.columns))}")
        if name in others:
            checks.refuse(argument, name, "columns that are not values")


def _values(table: pandas.DataFrame, names: Sequence[str]) -> Floats:
    """Return the values (rows, columns), NaN where one is missing."""
    _check_columns(table, "value", names)
    columns = []
    for name in names:
        column = table[name]
        if not (pandas.api.types.is_numeric_dtype(column) and not pandas.api.types.is_bool_dtype(column)):
            checks.refuse("value", name, f"columns of numbers; {name!r} has {column.dtype}")
        columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
    values = np.column_stack(columns)
    bad = np.isinf(values).any(axis=1) | np.isnan(values).all(axis=1)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        given = dict(zip(names, values[row].tolist(), strict=True))
        checks.refuse("table", f"{given} in row {row} (and {int(bad.sum()) - 1} more)", "a finite value in each row")
    return values


def _parameter(table: pandas.DataFrame, name: str) -> Parameter:
    """Return the parameter that describes a column."""
    column = table[name]
    _check_cells(table, name)
    if isinstance(column.dtype, pandas.CategoricalDtype):
        kept = [each for each in column.cat.categories if (column == each).any()]
        return Ordinal(kept) if column.cat.ordered else Categorical(kept)
    if pandas.api.types.is_bool_dtype(column):
        return Boolean()
    if not pandas.api.types.is_numeric_dtype(column):
        return Categorical(list(dict.fromkeys(column.tolist())))
    low, high = column.min(), column.max()
    if low == high:
        return Ordinal([column.iloc[0].item()])
    if pandas.api.types.is_integer_dtype(column):
        return Integer(int(low), int(high))
    return Real(float(low), float(high))


def _check_cells(table: pandas.DataFrame, name: str) -> None:
    column = table[name]
    empty = column.isna().to_numpy()
    if pandas.api.types.is_float_dtype(column):
        empty = ~np.isfinite(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if empty.any():
        checks.refuse("table", f"{name!r} empty or infinite in row {int(np.flatnonzero(empty)[0])}", "a value")


def _numbers(table: pandas.DataFrame, name: str, kind: Parameter) -> Floats:
    """Return the numbers (rows,) by which a search space knows the cells of a column."""
    _check_cells(table, name)
    codes, distinct = pandas.factorize(table[name])
    values = [each.item() if isinstance(each, np.generic) else each for each in distinct]
    numbers = [kind.number(f"table[{name!r}]", value) for value in values]
    return np.array(numbers, dtype=np.float64)[codes]
