"""Subcommands on runs and their stores: `tune`, `screen`, `status`, `check`, `resume` and `report`."""

from __future__ import annotations

import math
import shlex
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from scalable_bandits.cli import options
from scalable_bandits.cli.messages import (
    console,
    errors,
    print_json,
    refusals,
    resume_command,
    say,
    say_imports,
    show_table,
)
from scalable_bandits.cli.options import option
from scalable_bandits.cli.studies import run_study
from scalable_bandits.runs.readable import (
    ANY,
    NONE_KEEPS,
    OF_BATCH,
    counted,
    places_of,
    point_text,
    shown,
    significant,
    with_error,
)

if TYPE_CHECKING:
    from types import FrameType

    from scalable_bandits.runs.result import TuningResult
    from scalable_bandits.status import Check, Status

OPTIONAL = ("environment", "size", "written", "policy")  # columns that a narrow terminal leaves out, in this order
ERRORS = 5  # of evaluations that failed, of those that differ, that are shown
STATE_WIDTH = 20  # characters; a longer state is folded


def show_status(path: options.PATH, json: options.JSON = False) -> None:
    """Show the runs in a store or folder: rounds, last write, size, regret or best observation, and state."""
    from scalable_bandits.status import runs_in, status

    with refusals():
        found = [status(place) for place in runs_in(path)]
    if json:
        print_json([{**run._asdict(), "name": _short(run.name, path)} for run in found])
    else:
        _show_runs(found, path)


def _show_runs(found: list[Status], path: str) -> None:
    """Print a table of the runs in a store or folder, and how a study is continued."""
    if not found:
        console.print(f"{path}: a study without any started run", soft_wrap=True)
        return
    columns: dict[str, list[str]] = {
        "run": [_short(run.name, path) for run in found],
        "policy": [run.policy for run in found],
        "environment": [run.environment for run in found],
        "rounds": [_rounds(run) for run in found],
        "written": [_ago(run.last_write) for run in found],
        "size": ["" if run.size is None else decimal(run.size) for run in found],
        "so far": [_so_far(run) for run in found],
        "state": [run.state for run in found],
    }
    named = any("/" in name for name in columns["run"])  # the names of a study's runs contain the policy
    for heading in sorted(OPTIONAL, key=lambda each: named and each == "written"):
        if _width(columns) > console.width:
            del columns[heading]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in columns:
        number = heading in ("rounds", "written", "size", "so far")
        long_state = heading == "state" and any(len(run.state) > STATE_WIDTH for run in found)
        in_batch = heading == "rounds" and any(run.measured for run in found)
        folds = heading in ("run", "environment") or long_state or in_batch
        table.add_column(heading, justify="right" if number else "left", no_wrap=not folds, overflow="fold")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    console.print(table)
    if len(found) == 1 and found[0].at:
        console.print(Text(f"best {found[0].objective or 'y'} at {found[0].at}"), soft_wrap=True)
    _say_how_to_go_on(path)


def _say_how_to_go_on(path: str) -> None:
    """Say how many runs of a study are complete, and how it is continued if some are not."""
    from scalable_bandits.status import study_progress
    from scalable_bandits.studies.stored import study_record

    with refusals():
        record = study_record(path)
        complete, runs = study_progress(path)
    if record is None or complete == runs:
        return
    again = f"continue with: {resume_command(path)}" if _from_file(record) else _again(record)
    console.print(f"{complete} of {runs} runs are complete; {again}", soft_wrap=True)


def check_store(path: options.PATH, json: options.JSON = False) -> None:
    """Read everything in a store and report what is damaged, with exit code 1 if anything is. Changes nothing."""
    from scalable_bandits.status import check

    with refusals():
        found = check(path)
    if json:
        print_json([{"name": c.name, "whole": c.whole, "parts": c.parts} for c in found])
    else:
        for one in found:
            _show_check(one, path, every=len(found) == 1)
    if not all(one.whole for one in found):
        raise typer.Exit(1)


def _show_check(found: Check, path: str, every: bool) -> None:
    """Print a line for a store and one for each damaged part or, if `every` is set, for each part."""
    state = ("whole  ", "green") if found.whole else ("damaged", "red")
    first = f", {found.parts[0].name}" if found.whole and not every else ""
    console.print(Text.assemble(state, f"  {_short(found.name, path)}{first}"), soft_wrap=True)
    for part in found.parts:
        if part.problem:
            after = " (repaired without loss when the store is next opened for writing)" if part.mended else ""
            console.print(Text.assemble("         ", (part.name, "red"), f": {part.problem}{after}"), soft_wrap=True)
        elif every:
            console.print(f"         {part.name}", soft_wrap=True)


def resume_run(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Store of a run or a study.")],
    rounds: Annotated[int | None, option("N", "Rounds of the run in all. Default: as planned.", min=1)] = None,
    function: Annotated[
        str | None, option("NAME", "Function that a `minimize` or `maximize` run evaluates, as module:name.")
    ] = None,
    command: Annotated[
        str | None, option("LINE", "Command that the run evaluates, as `tune` or `screen` was given it.")
    ] = None,
    classes: options.CLASSES = None,
    recover: Annotated[
        bool, option("", "Continue a damaged store with what can be read (a copy of it is kept).", "--recover")
    ] = False,
    takeover: Annotated[
        bool, option("", "Take over from writers on other machines, which have ended.", "--takeover")
    ] = False,
    on: options.ON = None,
    parallel: Annotated[
        int | None, option("N", "Evaluations in flight at once. Default: as many as before.", min=1)
    ] = None,
    out: options.OUT = None,
    json: options.JSON = False,
) -> None:
    """Continue an interrupted run or study, with the same numbers as without the interruption."""
    from scalable_bandits.runs.result import TuningResult
    from scalable_bandits.runs.resuming import resume
    from scalable_bandits.status import recover as recover_runs
    from scalable_bandits.status import release
    from scalable_bandits.studies.stored import study_record

    own = classes or []
    say_imports(function, own)
    with refusals():
        record = study_record(path)
        _say_what_runs(path, command, on)
    with refusals():
        for text in [*(release(path) if takeover else []), *(recover_runs(path) if recover and record else [])]:
            say("note", text, "yellow")
    if record is not None:
        _resume_study(path, record, function, own, on, out, json)
        return
    again = resume_command(path, function, own, command, on)
    with (
        refusals(again=again),
        terminated_like_interrupted(),
        chdir("."),  # the user's function may change the working folder
        warnings.catch_warnings(record=True) as repairs,
    ):
        warnings.simplefilter("always", UserWarning)
        found = resume(
            path, rounds=rounds, function=function, classes=own, recover=recover, progress=True, on=on,
            parallel=parallel, command=command,
        )  # fmt: skip
    for repair in repairs:
        say("note", repair.message, "yellow")
    if isinstance(found, TuningResult):
        _say_if_enough(len(found.tickets), "--rounds", rounds)
    _show_resumed(path, found if isinstance(found, TuningResult) else None, json, again)


def _say_what_runs(path: str, command: str | None, on: str | None) -> None:
    """Print the command that a run will evaluate, and the cluster, before either begins."""
    from scalable_bandits.posteriors.placement import is_local
    from scalable_bandits.runs.resuming import command_in

    stored = None if command is None else command_in(path)
    if stored is not None and command is not None and stored.is_named_by(command):
        errors.print(f"running: {stored}", soft_wrap=True)
    if not is_local(on):
        errors.print(f"running on: {on}", soft_wrap=True)


def _show_resumed(path: str, found: TuningResult | None, json: bool, again: str) -> None:
    """Print a run's status and what was found; exit with code 130 if the user interrupted it."""
    from scalable_bandits.status import status

    if not (run := status(path)).policy:
        say("error", run.state)
        raise typer.Exit(2)
    if json:
        failed, best = ([], None) if found is None else (plain_failures(found), found.recommended)
        print_json({**run._asdict(), "failed": failed, "best": best})
    else:
        _show_runs([run], path)
    if found is not None:
        if not json:
            show_best(found)
        show_failures(found, again)


def _resume_study(
    path: str, record: dict[str, Any], function: str | None, classes: list[str], on: str | None, out: Path | None,
    json: bool,
) -> None:  # fmt: skip
    """Continue a study from the specification in its store: a named study, or the tables of a study file."""
    from scalable_bandits.runs.resuming import function_of
    from scalable_bandits.studies import Study

    given = {"replicates": record["replicates"], "seed": record["seed"]}
    given |= {"cases": list(record["cases"]), "policies": list(record["policies"])}
    given["horizon"] = record.get("horizons", record["horizon"])
    data = None if record["data"] is None else Path(record["data"])
    with refusals():
        if "specification" in record:
            sizes = {key: record[key] for key in ("replicates", "seed", "title", "source") if record[key]}
            sizes["horizon"] = given["horizon"]
            own = None if function is None else function_of(function)
            study = Study.from_dict({**record["specification"], **sizes}, function=own, classes=classes)
        elif _from_file(record):
            study = Study.load(record["study"])
        else:
            raise ValueError(f"store: {path} has the study {record['study']!r}, made in Python: {_again(record)}")
    folder, given = Path(study.name) if out is None else out, {**given, "data": data, "on": on}
    done = run_study(study, folder, path, given, function, json, classes=classes)
    if json:
        print_json(done)


def _from_file(record: dict[str, Any]) -> bool:
    """Return whether a study can be made again from its record or its name."""
    from scalable_bandits.studies import Study

    return "specification" in record or record["study"] in Study.registry


def _again(record: dict[str, Any]) -> str:
    """Return how to continue a study that was made in Python."""
    where = f" (the one that has {record['build']})" if "build" in record else ""
    return f"to continue it, run your script again{where}"


def write_page(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Store of a study or a run, or a folder made by `run`.")],
    out: Annotated[Path | None, option("FILE", "File to write. Default: name of PATH with .html.")] = None,
) -> None:
    """Write a report on a study or a run: one HTML page with figures, tables, specification and commands."""
    from scalable_bandits.report import write_report

    name = path.rstrip("/").rpartition("/")[2] or "report"
    with refusals():
        written = write_report(path, Path(f"{name.removesuffix('.zarr')}.html") if out is None else out)
    console.print(f"Saved: {written}", soft_wrap=True)


def export_run(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Store of a run or a study.")],
    to: Annotated[
        str,
        option(
            "TARGET", "A file (.csv, .parquet), or a storage of Optuna: sqlite:///FILE, another URL, a journal (.log)."
        ),
    ],
    name: Annotated[str | None, option("NAME", "Name of Optuna's study. Default: name of PATH.")] = None,
    overwrite: Annotated[bool, option("", "Replace a file that exists.", "--overwrite")] = False,
) -> None:
    """Write the evaluations of a run, or the rounds of a simulation or a study, for other tools. Changes no store."""
    from scalable_bandits.integrations.export import export

    with refusals(), warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        try:
            count = export(path, to, name=name, overwrite=overwrite)
        except ImportError as error:
            raise ValueError(str(error)) from None
    for note in notes:
        say("note", note.message, "yellow")
    console.print(f"Saved: {to}, {counted(count, 'row')}", soft_wrap=True)


def _width(columns: dict[str, list[str]]) -> int:
    """Return the width in characters of a table with these columns, three more per column for the gaps."""
    widest = {heading: max(map(cell_len, [heading, *cells])) for heading, cells in columns.items()}
    return sum(widest.values()) - max(widest["state"] - STATE_WIDTH, 0) + 3 * len(columns)


def _short(name: str, path: str) -> str:
    """Return the name of a run relative to the folder that the user gave."""
    return name.removeprefix(f"{path.rstrip('/')}/") or name


def _rounds(run: Status) -> str:
    """Format the number of rounds, of those planned, of failures, and of what is measured of a batch."""
    planned = "" if run.planned is None else f"/{run.planned:,}"
    more = [f"{run.failures:,} failed"] if run.failures else []
    more += [f"{run.measured:,} {OF_BATCH}"] if run.measured else []
    return f"{run.rounds:,}{planned}" + (f" ({', '.join(more)})" if more else "")


def _so_far(run: Status) -> str:
    """Format the regret of a run or, where the optimum is unknown, the best observation."""
    if not run.rounds:
        return ""
    name, number, places = "regret", run.regret, ANY
    if math.isnan(number):
        name, number, places = f"best {run.objective or 'y'}", run.best, places_of(run.largest - run.smallest)
    if math.isnan(number):
        return NONE_KEEPS if run.limited else "nothing measured"
    return f"{name} {(significant if abs(number) >= 1000 else shown)(number + 0.0, places=places)}"  # 0.0: no "-0"


def _ago(when: float) -> str:
    """Format the time since a moment in its largest full unit."""
    if math.isnan(when):
        return ""
    seconds = max(time.time() - when, 0.0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def tune(
    space: Annotated[Path, option("FILE", "Space: a TOML file with a table for each parameter.")],
    command: Annotated[str, option("LINE", 'Command, such as "./train --rate {rate}"; it is run without a shell.')],
    store: Annotated[str, option("FOLDER", "Store of the run; one that is there is continued.")],
    budget: Annotated[int, option("N", "Number of evaluations.", min=1)],
    minimize: options.MINIMIZE = None,
    parallel: Annotated[int, option("N", "Number of evaluations in flight at once.", min=1)] = 1,
    value_from: options.VALUE_FROM = None,
    constraint: options.CONSTRAINT = None,
    objective: options.OBJECTIVE = None,
    context: options.CONTEXT = None,
    timeout: options.TIMEOUT = None,
    retries: options.RETRIES = 0,
    seed: options.SEED = 0,
    json: options.JSON = False,
) -> None:
    """Tune a program: find the setting whose run prints the best value. Every value is stored as it comes."""
    from scalable_bandits.commands import Command
    from scalable_bandits.runs import maximize as runs
    from scalable_bandits.spaces import SearchSpace

    again = resume_command(store, command=command)
    with refusals(again=again), terminated_like_interrupted(), chdir("."):
        smaller = _direction("tune", minimize)
        find = runs.minimize if smaller else runs.maximize
        limits, objectives = options.limits(constraint), options.objectives(objective, value_from, smaller)
        outputs = (*list(objectives or ())[1:], *(limits or ()))
        found = find(
            Command(command, value_from, outputs), SearchSpace.from_toml(space), budget, parallel=parallel,
            retries=retries, timeout=timeout, store=store, constraints=limits, objectives=objectives,
            objective=value_from if limits and not objectives else None, context=options.values(context), seed=seed,
            progress=True,
        )  # fmt: skip
    _say_if_enough(len(found.tickets), "--budget", budget)
    _show_found(found, again, store, json)


def _say_if_enough(evaluations: int, option: str, asked: int | None) -> None:
    """Say that nothing was done, where a run has more evaluations or rounds than were asked for."""
    if asked is not None and evaluations > asked:
        say("note", f"nothing was evaluated: the run has {evaluations:,} already, {option} is {asked:,}", "yellow")


def screen(
    pool: Annotated[str, option("FOLDER", "Pool of the candidates, as `Pool.write` has written it.")],
    budget: Annotated[int, option("N", "Number of candidates that are measured.", min=1)],
    batch: Annotated[int, option("N", "Number of candidates that are chosen at once.", min=1)],
    command: Annotated[
        str | None,
        option("LINE", 'Command with {candidate}, its label or number: "./assay {candidate}"; without a shell.'),
    ] = None,
    store: Annotated[str | None, option("FOLDER", "Store of the run; one that is there is continued.")] = None,
    minimize: options.MINIMIZE = None,
    parallel: Annotated[
        int | None, option("N", "Number of evaluations at once. Default: that of the workers of --on, or one.", min=1)
    ] = None,
    on: options.ON = None,
    value_from: options.VALUE_FROM = None,
    timeout: options.TIMEOUT = None,
    retries: options.RETRIES = 0,
    seed: options.SEED = 0,
    plan: Annotated[
        str | None, option("N,N", "Measure nothing, and say what choosing takes on so many workers: 1,16,256.")
    ] = None,
    candidates: Annotated[
        int | None, option("N", "With --plan: candidates of the pool that is planned, if it has more.", min=1)
    ] = None,
    json: options.JSON = False,
) -> None:
    """Screen a pool: measure the candidates that look best, a batch at a time. Every value is stored as it comes."""
    from scalable_bandits.commands import Command
    from scalable_bandits.runs.screen import screen as find
    from scalable_bandits.spaces import Pool

    if plan is not None:
        _plan_screen(pool, budget, batch, plan, candidates, on, json)
        return
    with refusals():
        if candidates is not None:
            raise ValueError("--candidates: it is for --plan; a pool has the candidates that were written")
        if command is None or store is None:
            raise ValueError(f"screen: --{'command' if command is None else 'store'} is missing")
    again = resume_command(store, command=command, on=on)
    with refusals(again=again), terminated_like_interrupted(), chdir("."):
        found = find(
            Command(command, value_from), Pool(pool), budget, batch=batch, minimize=_direction("screen", minimize),
            parallel=parallel, on=on, retries=retries, timeout=timeout, store=store, seed=seed, progress=True,
        )  # fmt: skip
    _say_if_enough(len(found.tickets), "--budget", budget)
    _show_found(found, again, store, json)


def _plan_screen(
    pool: str, budget: int, batch: int, workers: str, candidates: int | None, on: str | None, json: bool
) -> None:
    """Print what choosing takes on so many workers."""
    from scalable_bandits.planning import plan_screen
    from scalable_bandits.report.blocks import table
    from scalable_bandits.report.numbers import bytes_in_words
    from scalable_bandits.runs.readable import duration_in_words
    from scalable_bandits.spaces import Pool

    with refusals():
        counts = options.counts("--plan", workers)
        found = plan_screen(Pool(pool), budget, batch=batch, workers=counts, candidates=candidates, on=on)
    if json:
        print_json(found)
        return
    rows = [
        {"workers": f"{each.workers:,}", "all batches": duration_in_words(each.seconds),
         "the last one": duration_in_words(each.last)}
        for each in found.workers
    ]  # fmt: skip
    size = f"{counted(found.candidates, 'candidate')} in {counted(found.chunks, 'chunk')}"
    show_table(table(f"{size}, {counted(found.batches, 'batch')}", rows, 2))
    last = found.measured[-1]
    console.print(
        f"measured with {counted(last.observations, 'observation')}: a chunk {duration_in_words(last.chunk)}, and of a "
        f"batch {duration_in_words(last.driver)} in this process, which needs {bytes_in_words(found.memory)}\n"
        f"more workers than {found.enough:,} do not pay: they save less than a tenth"
    )


def _direction(subcommand: str, minimize: bool | None) -> bool:
    """Return whether smaller values are better; ValueError unless that was said."""
    if minimize is None:
        raise ValueError(f"{subcommand}: say which values are better: --minimize or --maximize")
    return minimize


def _show_found(found: TuningResult, again: str, store: str, json: bool) -> None:
    """Print the result of a run that has ended, and how to go on."""
    if json:
        print_json(
            {"evaluations": len(found.tickets), "minimize": found.minimize, "interrupted": found.interrupted,
             "best": found.recommended if len(found) else None, "measured": found.measured,
             "failed": plain_failures(found),
             **({"constraints": [each._asdict() for each in found.constraints]} if found.constraints else {}),
             **({"front": [each._asdict() for each in found.front]} if found.objectives else {})}
        )  # fmt: skip
    else:
        show_best(found)
    show_failures(found, again)
    if not json:
        done, policy = len(found.tickets), found.policy
        most = 2 * done
        if policy.space.scanned and not policy._may_repeat:  # each candidate of a pool is measured once
            most = min(most, policy.space.size or 0)
        if most > done:
            console.print(f"more evaluations: {again} --rounds {most}", soft_wrap=True)
        console.print(f"a page about the run: scalable-bandits report {shlex.quote(store)}", soft_wrap=True)


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, so that programs that are running are ended.

    Where Ctrl-C is ignored, as in the background of a script, it has no effect, but its handler has.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)

    before, ignored = signal.signal(signal.SIGTERM, interrupt), signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def plain_failures(found: TuningResult) -> list[dict[str, Any]]:
    """Return failed evaluations as plain data."""
    return [{"ticket": ticket.number, "error": ticket.error} for ticket in found.failed]


def show_best(found: TuningResult) -> None:
    """Print the recommended and the best measured point as a table, and the former in one line with more digits."""
    from scalable_bandits.report.blocks import Block
    from scalable_bandits.runs.result import best_points
    from scalable_bandits.runs.summary import is_ignorant

    summarized, best = best_points(found), found.recommended
    numbers = len(summarized.columns)
    if not len(found):
        console.print(Text(f"{summarized.heading}\nnothing was measured: there is no recommendation"), soft_wrap=True)
        return
    show_table(Block("table", summarized.heading, ("", *summarized.columns), summarized.rows, numbers))
    if best.x is not None:
        std = math.nan if is_ignorant(found.policy) else best.std
        expected = "" if found.objectives else f", posterior mean {with_error(best.mean, std)}"
        setting = point_text(best.x, 6, found.policy.space)
        line = f"{'recommended' if found.objectives else 'best'}: {setting}{expected}"
        console.print(Text(line), soft_wrap=True)


def show_failures(found: TuningResult, again: str) -> None:
    """Print how many evaluations failed, by error; exit with code 130 if the user interrupted the run.

    Parameters
    ----------
    found
        Result of the run.
    again
        Command that continues it.
    """
    alike: dict[str, list[int]] = {}
    for ticket in found.failed:
        alike.setdefault(ticket.error, []).append(ticket.number)
    shown, others = list(alike.items())[:ERRORS], list(alike.items())[ERRORS:]
    for error, numbers in shown:
        tickets = ", ".join(map(str, numbers))
        say("failed", f"{counted(len(numbers), 'evaluation')}: {error} (tickets {tickets})", "yellow")
    if others:
        rest = counted(sum(len(numbers) for _, numbers in others), "evaluation")
        say("failed", f"{rest}: {len(others)} other errors, which `export` writes", "yellow")
    if found.interrupted:
        errors.print(f"interrupted; continue with: {again}", soft_wrap=True)
        raise typer.Exit(130)
