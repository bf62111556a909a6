"""The command ``scalable-bandits``."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from scalable_bandits.status import Status
    from scalable_bandits.studies import Study

app = typer.Typer(
    help="Gaussian-process bandits: run the papers' experiments and your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console()
errors = Console(stderr=True)

ON = "Where it runs: local:4 (worker processes), tcp://host:port (a Dask scheduler), or a recipe (.yaml)."
FUNCTION = "module:name of your function, of a study file's environments of type FunctionEnvironment."
JSON = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
QUICK = 2, 50  # replicates and rounds of a run at small scale
MADE = {"table.csv", "regret.png", "published.csv", "growth.png", "partition.png"}  # from a store, again and again
WIDE = 110  # columns of a terminal in which everything has room


@app.callback()
def main() -> None:
    """Gaussian-process bandits: run the papers' experiments and your own."""


@app.command("list")
def list_studies(json: JSON = False) -> None:
    """List the named studies, and how long each takes."""
    from scalable_bandits.studies import Study

    known = sorted(Study.registry.items())
    if json:
        keys = ("name", "title", "source", "replicates", "horizon", "duration", "needs_data", "cases")
        _print_json([{key: getattr(study, key) for key in keys} for _, study in known])
        return
    table = Table(title="scalable-bandits run STUDY", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("study", "figure", "size", "takes", "needs"):
        table.add_column(heading, no_wrap=True, min_width=max(map(len, Study.registry)) if heading == "study" else None)
    for name, study in known:
        figure, size = study.source.rpartition(", ")[2], f"{study.replicates} x {study.horizon}"
        table.add_row(name, figure, size, study.duration, "--data" * study.needs_data)
    table.caption = "size: replicates x rounds"
    table.caption_justify = "left"
    console.print(table)


@app.command("show")
def show(study: Annotated[str, typer.Argument(help="Name of a study, or a study file.")]) -> None:
    """Print a study as a file, to keep, change and run: scalable-bandits show NAME > mine.toml."""
    from scalable_bandits.studies import Study

    with _refusals():
        typer.echo(Study.load(study).to_toml().rstrip())


@app.command()
def run(
    study: Annotated[str | None, typer.Argument(help="Name of a study (see `list`), or a file NAME.toml.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all named studies; without their data, not those.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="At small scale: 2 replicates, at most 50 rounds.")] = False,
    replicates: Annotated[int | None, typer.Option(min=1, help="Replicates; the study's number if not given.")] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="Rounds; the study's number if not given.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed; every number is a function of it.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="A case, again for more; all if not given.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="A policy, again for more; all if not given.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to; it must not exist yet. Default: STUDY.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the measured data files.")] = None,
    on: Annotated[str | None, typer.Option(help=ON)] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Folder where every run is kept as it goes; what it has already is not played again."),
    ] = None,
    environment: Annotated[str | None, typer.Option(help=FUNCTION)] = None,
    json: JSON = False,
) -> None:
    """Run a study: print its table; save the data, the table and a picture."""
    from scalable_bandits.studies import Study

    options = {
        "replicates": replicates, "horizon": horizon, "seed": seed, "data": data, "on": on, "cases": case or None,
        "policies": policy or None,
    }  # fmt: skip
    with _refusals():
        if (study is None) != every:
            raise ValueError("run: give the name of a study or a file, or --all, and not both")
        if every and (case or policy or store or environment):
            raise ValueError("run --all: --case, --policy, --store and --environment are for one study")
        studies = [known for _, known in sorted(Study.registry.items())] if every else [_load(study, environment)]
    if every:
        _run_all(studies, Path("studies") if out is None else out, options, quick, json)
        return
    chosen = studies[0]
    record = _run_study(chosen, Path(chosen.name) if out is None else out, store, _small(chosen, options, quick), json)
    if json:
        _print_json(record)


def _load(name: str | None, function: str | None) -> Study:
    """A study; a user's function is imported only if it was named in the command."""
    from scalable_bandits.status import function_of
    from scalable_bandits.studies import Study

    if function is None:
        return Study.load(str(name))
    if not str(name).endswith(".toml"):
        raise ValueError(f"--environment: got {function!r}; allowed: beside a study file, whose environments it is for")
    sys.path.insert(0, "")  # a module in the working folder is found, as by `python -m`
    return Study.load(str(name), function=function_of(function))


def _small(study: Study, options: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Options of a run, with small sizes where none were given."""
    sizes = {"replicates": min(QUICK[0], study.replicates), "horizon": min(QUICK[1], study.horizon)}
    return {**options, **{key: size for key, size in sizes.items() if quick and options[key] is None}}


def _run_all(studies: list[Study], folder: Path, options: dict[str, Any], quick: bool, json: bool) -> None:
    """Every study in a folder of its own; code 1 if some failed, named."""
    from scalable_bandits.environments import DataMissing

    records, skipped, failed = [], [], []
    for study in studies:
        try:
            records.append(_run_study(study, folder / study.name, None, _small(study, options, quick), json, True))
        except DataMissing as error:
            skipped.append(study.name)
            _say("skipped", f"{study.name}: {error}", "yellow")
        except typer.Exit as left:
            if left.exit_code != 1:
                raise
            failed.append(study.name)
    if json:
        _print_json({"studies": records, "skipped": skipped, "failed": failed})
    if failed:
        _say("failed", ", ".join(failed))
        raise typer.Exit(1)


def _run_study(
    chosen: Study, folder: Path, store: str | None, options: dict[str, Any], json: bool = False, skips: bool = False
) -> dict[str, Any]:
    """Run, save, and print unless the record is for a script; gives the record."""
    from scalable_bandits.environments import DataMissing
    from scalable_bandits.results import published_table, record_of, save, table_of

    store = chosen.store if store is None else store
    with _refusals(let=(DataMissing,) if skips else ()):
        made = _make_folder(folder, store)
        started = time.perf_counter()
        try:
            result = chosen.run(**options, store=store, progress=errors.is_terminal)
        except BaseException as error:
            if made:
                with suppress(OSError):  # it may hold the store
                    folder.rmdir()
            _leave(error, store)
            raise
    seconds = time.perf_counter() - started
    files = [str(file) for file in save(chosen, result, folder, data=store is None)]
    if not json:
        console.print(table_of(result))
        if chosen.published is not None:
            console.print(published_table(chosen.published(result)))
        console.print(f"{seconds:.1f} s. Saved: {', '.join(files)}", highlight=False, soft_wrap=True)
    return {**record_of(chosen, result), "seconds": seconds, "files": files}


def _make_folder(folder: Path, store: str | None) -> bool:
    """Make the folder before the work, for one that cannot be made costs nothing then; whether it is new."""
    left = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if folder.exists() and (store is None or not folder.is_dir() or left - MADE):
        raise FileExistsError(f"--out: {folder} exists already; name another folder, or remove it first")
    if store is not None and Path(store).resolve() == folder.resolve():
        raise FileExistsError(f"--out: {folder} is the store's folder; name another folder")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    return made


def _leave(error: BaseException, store: str | None) -> None:
    """With code 1 where runs failed, named, or the cluster was lost; with 130 where the user stopped it."""
    from scalable_bandits.execution import ClusterError
    from scalable_bandits.studies import StudyIncomplete

    if isinstance(error, StudyIncomplete | ClusterError):
        _say("error", error)
        raise typer.Exit(1) from None
    if isinstance(error, KeyboardInterrupt) and store is not None:
        again = f"scalable-bandits resume {store}"
        errors.print(f"interrupted; go on with: {again}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None


@app.command("status")
def show_status(
    path: Annotated[str, typer.Argument(help="A run's store, or a folder with several.")],
    json: JSON = False,
) -> None:
    """Show the runs in a store: how far they are, when they were last written, their size and regret."""
    from scalable_bandits.results import finite
    from scalable_bandits.status import runs_in, status

    with _refusals():
        found = [status(place) for place in runs_in(path)]
    if json:
        _print_json([finite({**run._asdict(), "name": _short(run.name, path)}) for run in found])
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
    left_out: tuple[str, ...] = () if console.width >= WIDE else ("plays", "size")
    if left_out and any("/" in name for name in columns["run"]):  # a study's, named by their policies
        left_out += ("policy",)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for heading in columns:
        if heading not in left_out:
            number = heading in ("rounds", "written", "size", "so far")
            folds = heading in ("run", "plays") or (heading == "state" and any(len(run.state) > 20 for run in found))
            table.add_column(heading, justify="right" if number else "left", no_wrap=not folds, overflow="fold")
    for row in zip(*(values for heading, values in columns.items() if heading not in left_out), strict=True):
        table.add_row(*row)
    console.print(table)


@app.command("resume")
def resume_run(
    path: Annotated[str, typer.Argument(help="A run's store, or a study's.")],
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds it is to have; as planned if not given.")] = None,
    function: Annotated[
        str | None, typer.Option(help="module:name of the function that a `maximize` run evaluates.")
    ] = None,
    recover: Annotated[
        bool, typer.Option("--recover", help="Where rounds are damaged, go on from before them (a copy is kept).")
    ] = False,
    on: Annotated[str | None, typer.Option(help=ON)] = None,
    parallel: Annotated[int | None, typer.Option(min=1, help="Evaluations in flight, of a `maximize` run.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for a study's table and picture. Default: its name.")] = None,
) -> None:
    """Go on with an interrupted run or study, exactly as if it had never stopped."""
    import warnings

    from scalable_bandits.status import resume
    from scalable_bandits.store.studies import study_record

    if function is not None:
        sys.path.insert(0, "")  # a module in the working folder is found, as by `python -m`
    with _refusals():
        record = study_record(path)
    if record is not None:
        _resume_study(path, record, function, on, out)
        return
    with _refusals(), warnings.catch_warnings(record=True) as repairs:
        warnings.simplefilter("always", UserWarning)
        found = resume(
            path, rounds=rounds, function=function, recover=recover, progress=errors.is_terminal, on=on,
            parallel=parallel,
        )  # fmt: skip
    for repair in repairs:
        _say("note", repair.message, "yellow")
    show_status(path)
    failed = getattr(found, "failed", None)
    if failed:
        _say("failed", ", ".join(map(str, failed)))
        raise typer.Exit(1)


def _resume_study(path: str, record: dict[str, Any], function: str | None, on: str | None, out: Path | None) -> None:
    """Go on with a study from its store alone: a named one, or the tables of a file."""
    from scalable_bandits.status import function_of
    from scalable_bandits.studies import Study

    options = {key: record[key] for key in ("replicates", "horizon", "seed", "cases", "policies")}
    data = None if record["data"] is None else Path(record["data"])
    with _refusals():
        if "specification" in record:
            sizes = {key: record[key] for key in ("replicates", "horizon", "seed", "title", "source") if record[key]}
            own = None if function is None else function_of(function)
            study = Study.from_dict({**record["specification"], **sizes}, function=own)
        else:
            study = Study.load(record["study"])
    _run_study(study, Path(study.name) if out is None else out, path, {**options, "data": data, "on": on})


@app.command("report")
def write_page(
    path: Annotated[str, typer.Argument(help="A study's store, the folder that `run` made, or a run's store.")],
    out: Annotated[Path | None, typer.Option(help="File to write. Default: the name of PATH, with .html.")] = None,
) -> None:
    """Write a study or a run as one HTML page: figures, tables, specification, how to reproduce it."""
    from scalable_bandits.report import write_report

    name = path.rstrip("/").rpartition("/")[2] or "report"
    with _refusals():
        written = write_report(path, Path(f"{name.removesuffix('.zarr')}.html") if out is None else out)
    console.print(f"Saved: {written}", highlight=False, soft_wrap=True)


@contextmanager
def _refusals(let: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Print what is refused, without a traceback, and leave with code 2; what failed as it ran, with code 1.

    What is `let` through goes on.
    """
    through: tuple[type[Exception], ...] = (typer.Exit, *let)  # typer's is a RuntimeError too
    try:
        yield
    except through:
        raise
    except (ValueError, OSError, RuntimeError) as error:
        from scalable_bandits.store import StoreError

        _say("error", error)
        failed = isinstance(error, RuntimeError) and not isinstance(error, StoreError)
        raise typer.Exit(1 if failed else 2) from None


def _say(heading: str, what: object, colour: str = "red") -> None:
    """On standard error."""
    errors.print(f"[{colour}]{heading}:[/{colour}] {escape(str(what))}", highlight=False, soft_wrap=True)


def _print_json(value: Any) -> None:
    from json import dumps

    typer.echo(dumps(value, indent=2))


def _short(name: str, path: str) -> str:
    """Name of a run below the folder that was asked about."""
    return name.removeprefix(f"{path.rstrip('/')}/") or name


def _so_far(run: Status) -> str:
    """Regret of a run; of one whose optimum nobody knows, the largest y."""
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
