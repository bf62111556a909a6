"""Stored runs and studies as CSV and Parquet files: a row an evaluation, or a row a round, read in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.runs.limits import feasible, others_of, outputs_in, outputs_of
from scalable_bandits.runs.readable import by_name, setting_of
from scalable_bandits.runs.result import beside, parameter_columns
from scalable_bandits.runs.resuming import labelled_space, tabulated_space
from scalable_bandits.runs.thinning import ROUND, keeps_some
from scalable_bandits.spaces.parameters import is_nothing
from scalable_bandits.store import ObservationStore, StoredRun
from scalable_bandits.studies.growth import runs_of, variants
from scalable_bandits.studies.stored import StudyResults

if TYPE_CHECKING:
    import pandas

BLOCK = 65_536  # rounds that are in memory at a time
TIMES = ("asked", "changed")
SUFFIXES = (".csv", ".parquet")


def evaluations(run: StoredRun) -> pandas.DataFrame:
    """Return the evaluations of a tuning run, those that have ended first, in the order in which they did.

    Parameters
    ----------
    run
        Run of `minimize`, `maximize` or a search, open for reading.

    Returns
    -------
    DataFrame
        The columns of `TuningResult.table`, and "evaluation" (position among those that have ended), "ticket", "state",
        "worker", and the times "asked" and "changed", in UTC.
    """
    import pandas

    space, outputs = tabulated_space(run) or labelled_space(run), outputs_of(run)
    order = sorted(run.tickets.values(), key=lambda each: (each.ended is None, each.ended or 0, each.number))
    names = [axis.name for axis in space.axes]
    settings = [setting_of(space, ticket) for ticket in order]
    columns = parameter_columns(names, settings, pandas.RangeIndex(len(order)))
    measured = {name: [outputs_in(t).get(name, np.nan) for t in order] for name in outputs.others}
    columns |= beside(columns, {outputs.objective or "value": [np.nan if t.y is None else t.y for t in order]})
    columns |= beside(columns, measured)
    more = {
        **({"feasible": [feasible(t, outputs.others) for t in order]} if outputs.limits else {}),
        "error": ["" if t.state == "done" else t.error for t in order],
        "seconds": [np.nan if t.seconds is None else t.seconds for t in order],
        "evaluation": pandas.array([t.ended for t in order], dtype="Int64"),
        "ticket": [t.number for t in order], "state": [t.state for t in order], "worker": [t.where for t in order],
        **{name: pandas.to_datetime([getattr(t, name) for t in order], unit="s", utc=True) for name in TIMES},
    }  # fmt: skip
    frame = pandas.DataFrame(columns | beside(columns, more))
    for name in names:
        kinds = {type(value) for value in frame[name] if not is_nothing(value)}
        if len(kinds) > 1 and not kinds <= {int, float}:  # values of several types have no column
            frame[name] = [value if is_nothing(value) else str(value) for value in frame[name]]
    return frame


def rounds(run: StoredRun, points: bool = True) -> Iterator[pandas.DataFrame]:
    """Yield the rounds of a run, a block at a time, at least one.

    Parameters
    ----------
    run
        Run, open for reading.
    points
        Whether there are columns of x: coordinates, of a named space the parameters, of a pool "candidate" (the label
        or, without labels, the number) and the contexts; arms are their "candidate".
    """
    import pandas

    known, count, others = tabulated_space(run) if points else None, len(run), others_of(run)
    fields = [field.name for field in run.fields if field.name not in (ROUND, "x")]
    x = next((field for field in run.fields if field.name == "x" and field.shape), None) if points else None
    for first in range(0, max(count, 1), BLOCK):
        stop = min(first + BLOCK, count)
        numbers = np.arange(first + 1, stop + 1)
        found = run.read(first, stop, [*fields, *(["x"] if x else []), *([ROUND] if keeps_some(run) else [])])
        columns: dict[str, Any] = {}
        if known is not None:
            names = [axis.name for axis in known.axes]
            settings = [by_name(known, each) for each in (known.arguments(found["x"]) if len(numbers) else [])]
            columns = parameter_columns(names, settings, pandas.RangeIndex(len(numbers)))
        elif x is not None:
            columns = {f"x{i}": found["x"][:, i] for i in range(x.shape[0])}
        series = {"round": found.get(ROUND, numbers), **{name: found[name] for name in fields if name != "outputs"}}
        more = beside(columns, series)
        more |= beside((*columns, *more), dict(zip(others, found["outputs"].T, strict=True))) if others else {}
        number = next(iter(more))
        yield pandas.DataFrame({number: more.pop(number), **columns, **more})


def study_rounds(record: dict[str, Any], place: str | Path) -> Iterator[pandas.DataFrame]:
    """Yield the rounds of a study, a block of a run at a time; of runs that have begun.

    Parameters
    ----------
    record
        Record of the study.
    place
        Folder or URL of the study.
    """
    import pandas

    results, both = StudyResults(record, place), [variants(record, name) for name in ("cases", "policies")]
    axes = list(dict.fromkeys(axis for each in both for one in each for axis in one.values))
    words = {axis for axis in axes for each in both for one in each if isinstance(one.values.get(axis), str)}
    begun = False
    for case, policy, replicate in runs_of(record):
        try:
            run = ObservationStore.open(results.place_of((case, policy, replicate)))
        except FileNotFoundError:
            continue
        begun = True
        one, other = both[0][case], both[1][policy]
        values = {**one.values, **other.values}
        for block in rounds(run, points=False):
            labels: dict[str, Any] = {"case": one.label, "policy": other.label, "replicate": replicate}
            for axis in axes:
                labels[axis] = str(values.get(axis, "")) if axis in words else float(values.get(axis, np.nan))
            labels = {name: pandas.Series([value] * len(block), dtype=type(value)) for name, value in labels.items()}
            yield pandas.DataFrame({**labels, **block})
    if not begun:
        checks.refuse("store", str(place), "a study with at least one run that has begun")


def write(blocks: Iterator[pandas.DataFrame], path: Path, overwrite: bool = False) -> int:
    """Write a table to a file, which appears when it is complete; return the number of rows.

    Parameters
    ----------
    blocks
        Parts of the table, at least one.
    path
        File, whose name ends with one of `SUFFIXES`.
    overwrite
        Whether a file that exists is replaced.

    Raises
    ------
    FileExistsError
        If the file exists and is not to be replaced.
    FileNotFoundError
        If its folder does not exist.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"to: the folder {path.parent} does not exist; make it, or name a file in another one")
    if path.exists() and not overwrite:
        raise FileExistsError(f"to: {path} exists already; name another file, or say that it is to be overwritten")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        count = (_write_csv if path.suffix == ".csv" else _write_parquet)(blocks, partial)
        partial.replace(path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
    return count


def _write_csv(blocks: Iterator[pandas.DataFrame], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, block in enumerate(blocks):
            block.to_csv(file, index=False, header=not number)
            count += len(block)
    return count


def _write_parquet(blocks: Iterator[pandas.DataFrame], path: Path) -> int:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"{error}; pip install 'scalable_bandits[parquet]'") from error

    first, count = pyarrow.Table.from_pandas(next(blocks), preserve_index=False), 0
    with pyarrow.parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        count += len(first)
        for block in blocks:  # a row group each
            writer.write_table(pyarrow.Table.from_pandas(block, schema=first.schema, preserve_index=False))
            count += len(block)
    return count
