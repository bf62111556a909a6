"""`status`, `resume` and `report`: what stores hold, and going on with it."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from scalable_bandits.cli.messages import JSON, ON, command_again, console, errors, print_json, refusals, say
from scalable_bandits.cli.studies import run_study

if TYPE_CHECKING:
    from scalable_bandits.runs.maximize import Maximum
    from scalable_bandits.runs.status import Check, Status

LEAVE_OUT = ("plays", "size", "policy")  # what a narrow terminal shows without, first to last
LONG = 20  # characters of a state, of which longer ones are folded


def show_status(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A run's store, or a folder with several.")],
    json: JSON = False,
) -> None:
    """Show the runs in a store: how far they are, when they were last written, their size and regret."""
    from scalable_bandits.report.results import finite
    from scalable_bandits.runs.status import runs_in, status

    with refusals():
        found = [status(place) for place in runs_in(path)]
    if json:
        print_json([finite({**run._asdict(), "name": _short(run.name, path)}) for run in found])
        return
    if not found:
        console.print(f"{path}: a study of which no run has begun", highlight=False, soft_wrap=True)
        return
    columns: dict[str, list[str]] = {
        "run": [_short(run.name, path) for run in found],
        "policy": [run.policy for run in found],
        "plays": [run.environment for run in found],
        "rounds": [f"{run.rounds:,}" + ("" if run.planned is None else f"/{run.planned:,}") for run in found],
        "written": [_ago(run.last_write) for run in found],
        "size": [_size(run.size) for run in found],
        "so far": [_so_far(run) for run in found],
        "state": [run.state for run in found],
    }
    named = any("/" in name for name in columns["run"])  # a study's, named by their policies
    for heading in LEAVE_OUT if named else LEAVE_OUT[:-1]:
        if _width(columns) > console.width:
            del columns[heading]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in columns:
        number = heading in ("rounds", "written", "size", "so far")
        folds = heading in ("run", "plays") or (heading == "state" and any(len(run.state) > LONG for run in found))
        table.add_column(heading, justify="right" if number else "left", no_wrap=not folds, overflow="fold")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    console.print(table)


def check_store(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A run's store, or a folder with several.")],
    json: JSON = False,
) -> None:
    """Read everything in a store and say what is whole and what is not; code 1 if anything is not. Changes nothing."""
    from scalable_bandits.runs.status import check

    with refusals():
        found = check(path)
    if json:
        print_json([{"name": c.name, "whole": c.whole, "parts": [part._asdict() for part in c.parts]} for c in found])
    else:
        for one in found:
            _show_check(one, path, every=len(found) == 1)
    if not all(one.whole for one in found):
        raise typer.Exit(1)


def _show_check(found: Check, path: str, every: bool) -> None:
    """A line for a store, and one for each part that is damaged, or for every part."""
    state = "[green]whole[/green]  " if found.whole else "[red]damaged[/red]"
    first = f", {found.parts[0].name}" if found.whole and not every else ""
    console.print(f"{state}  {escape(_short(found.name, path))}{escape(first)}", highlight=False, soft_wrap=True)
    for part in found.parts:
        if part.problem:
            after = " (made again when it is next opened for writing)" if part.mended else ""
            text = f"         [red]{escape(part.name)}[/red]: {escape(part.problem)}{after}"
            console.print(text, highlight=False, soft_wrap=True)
        elif every:
            console.print(f"         {escape(part.name)}", highlight=False, soft_wrap=True)


def resume_run(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A run's store, or a study's.")],
    rounds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Rounds it is to have; as planned if not given.")
    ] = None,
    function: Annotated[
        str | None, typer.Option(metavar="NAME", help="module:name of the function that a `maximize` run evaluates.")
    ] = None,
    recover: Annotated[
        bool,
        typer.Option(
            "--recover", metavar="", help="Where something is damaged, go on with what can be read (a copy is kept)."
        ),
    ] = False,
    on: Annotated[str | None, typer.Option(metavar="WHERE", help=ON)] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Evaluations in flight, of a `maximize` run.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for a study's table and picture. Default: its name.")
    ] = None,
    json: JSON = False,
) -> None:
    """Go on with an interrupted run or study, exactly as if it had never stopped."""
    import warnings

    from scalable_bandits.runs.maximize import Maximum
    from scalable_bandits.runs.status import recover as recover_runs
    from scalable_bandits.runs.status import resume
    from scalable_bandits.store.studies import study_record

    if function is not None:
        sys.path.insert(0, "")  # a module in the working folder is found, as by `python -m`
    with refusals():
        record = study_record(path)
    if record is not None:
        if recover:
            with refusals():
                for text in recover_runs(path):
                    say("note", text, "yellow")
        _resume_study(path, record, function, on, out, json)
        return
    with refusals(again=command_again(path, function)), warnings.catch_warnings(record=True) as repairs:
        warnings.simplefilter("always", UserWarning)
        found = resume(
            path, rounds=rounds, function=function, recover=recover, progress=errors.is_terminal, on=on,
            parallel=parallel,
        )  # fmt: skip
    for repair in repairs:
        say("note", repair.message, "yellow")
    _show_resumed(path, found if isinstance(found, Maximum) else None, json)


def _show_resumed(path: str, found: Maximum | None, json: bool) -> None:
    """How far a run is, and what `maximize` found; code 1 if evaluations failed for good."""
    from scalable_bandits.report.results import finite
    from scalable_bandits.runs.status import status

    failed = [] if found is None else found.failed
    if json:
        record = {**finite(status(path)._asdict()), "failed": [{"ticket": t.number, "error": t.error} for t in failed]}
        best = None if found is None else found.best
        print_json({**record, "best": None if best is None else {**best._asdict(), "x": np.asarray(best.x).tolist()}})
    else:
        show_status(path)
        if found is not None:
            x = ", ".join(f"{number:.6g}" for number in np.ravel(found.best.x).tolist())
            mean, std = f"{found.best.mean:.4g}", f"{found.best.std:.2g}"
            console.print(f"best: x = {x}, where the mean is {mean} +- {std}", highlight=False, soft_wrap=True)
    if failed:
        alike: dict[str, list[int]] = {}
        for ticket in failed:
            alike.setdefault(ticket.error, []).append(ticket.number)
        for error, numbers in alike.items():
            say("failed", f"{len(numbers)} evaluations, for good: {error} (tickets {', '.join(map(str, numbers))})")
        raise typer.Exit(1)


def _resume_study(
    path: str, record: dict[str, Any], function: str | None, on: str | None, out: Path | None, json: bool
) -> None:
    """Go on with a study from its store alone: a named one, or the tables of a file."""
    from scalable_bandits.runs.status import function_of
    from scalable_bandits.studies import Study

    options = {key: record[key] for key in ("replicates", "horizon", "seed", "cases", "policies")}
    data = None if record["data"] is None else Path(record["data"])
    with refusals():
        if "specification" in record:
            sizes = {key: record[key] for key in ("replicates", "horizon", "seed", "title", "source") if record[key]}
            own = None if function is None else function_of(function)
            study = Study.from_dict({**record["specification"], **sizes}, function=own)
        else:
            study = Study.load(record["study"])
    folder, options = Path(study.name) if out is None else out, {**options, "data": data, "on": on}
    done = run_study(study, folder, path, options, function, json)
    if json:
        print_json(done)


def write_page(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A study's store, the folder that `run` made, or a run's store.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write. Default: the name of PATH, with .html.")
    ] = None,
) -> None:
    """Write a study or a run as one HTML page: figures, tables, specification, how to reproduce it."""
    from scalable_bandits.report import write_report

    name = path.rstrip("/").rpartition("/")[2] or "report"
    with refusals():
        written = write_report(path, Path(f"{name.removesuffix('.zarr')}.html") if out is None else out)
    console.print(f"Saved: {written}", highlight=False, soft_wrap=True)


def _width(columns: dict[str, list[str]]) -> int:
    """Of a terminal in which a table has room, with two columns between its columns and a line's ends around it."""
    widest = {heading: max(map(cell_len, [heading, *cells])) for heading, cells in columns.items()}
    return sum(widest.values()) - max(widest["state"] - LONG, 0) + 3 * len(columns)


def _short(name: str, path: str) -> str:
    """Name of a run below the folder that was asked about."""
    return name.removeprefix(f"{path.rstrip('/')}/") or name


def _so_far(run: Status) -> str:
    """Regret of a run; of one whose optimum is not known, the largest y."""
    if not run.rounds:
        return ""
    name, number = ("best y", run.largest) if math.isnan(run.regret) else ("regret", run.regret)
    return f"{name} {number:,.0f}" if abs(number) >= 1000 else f"{name} {number:.4g}"


def _size(size: int | None) -> str:
    from rich.filesize import decimal

    return "" if size is None else decimal(size)


def _ago(when: float) -> str:
    """How long ago, in the largest unit that is full."""
    if math.isnan(when):
        return ""
    seconds = max(time.time() - when, 0.0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
