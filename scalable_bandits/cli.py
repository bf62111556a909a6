"""The command ``scalable-bandits``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.plots import Played
    from scalable_bandits.status import Status
    from scalable_bandits.studies import Comparison, Study

app = typer.Typer(
    help="Gaussian-process bandits: run the papers' experiments and your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console()
errors = Console(stderr=True)

ON = "Where it runs: local:4 (worker processes), tcp://host:port (a Dask scheduler), or a recipe (.yaml)."
MADE = {"table.csv", "regret.png", "published.csv", "growth.png", "partition.png"}  # from a store, again and again
WIDE = 110  # columns of a terminal in which everything has room


@app.callback()
def main() -> None:
    """Gaussian-process bandits: run the papers' experiments and your own."""


@app.command("list")
def list_studies() -> None:
    """List the named studies, and how long each takes."""
    from scalable_bandits.studies import Study

    table = Table(title="scalable-bandits run STUDY", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("study", "figure", "size", "takes", "needs"):
        table.add_column(heading, no_wrap=True, min_width=max(map(len, Study.registry)) if heading == "study" else None)
    for name, study in sorted(Study.registry.items()):
        figure, size = study.source.rpartition(", ")[2], f"{study.replicates} x {study.horizon}"
        table.add_row(name, figure, size, study.duration, "--data" * study.needs_data)
    table.caption = "size: replicates x rounds"
    table.caption_justify = "left"
    console.print(table)


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="Name of a study; see `scalable-bandits list`.")],
    replicates: Annotated[int | None, typer.Option(min=1, help="Replicates; the paper's number if not given.")] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="Rounds; the paper's number if not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed; every number is a function of it.")] = 0,
    case: Annotated[list[str] | None, typer.Option(help="A case, again for more; all if not given.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="A policy, again for more; all if not given.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to; it must not exist yet. Default: STUDY.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the measured data files.")] = None,
    on: Annotated[str | None, typer.Option(help=ON)] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Folder where every run is kept as it goes; what it has already is not played again."),
    ] = None,
) -> None:
    """Run a study: print its table; save the data, the table and a picture."""
    from scalable_bandits.studies import Study

    _run_study(
        lambda: Study.load(study), Path(study) if out is None else out, store,
        {"replicates": replicates, "horizon": horizon, "seed": seed, "data": data, "on": on,
         "cases": case or None, "policies": policy or None},
    )  # fmt: skip


def _run_study(load: Callable[[], Study], folder: Path, store: str | None, options: dict[str, Any]) -> None:
    from scalable_bandits.studies import StudyIncomplete

    with _refusals():
        chosen = load()
        left = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
        if folder.exists() and (store is None or not folder.is_dir() or left - MADE):
            raise FileExistsError(f"--out: {folder} exists already; name another folder, or remove it first")
        if store is not None and Path(store).resolve() == folder.resolve():
            raise FileExistsError(f"--out: {folder} is the store's folder; name another folder")
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)  # before the work: a folder that cannot be made costs nothing then
        started = time.perf_counter()
        try:
            result = chosen.run(**options, store=store, progress=errors.is_terminal)
        except BaseException as error:
            if made:
                with suppress(OSError):  # it may hold the store
                    folder.rmdir()
            if isinstance(error, StudyIncomplete):
                errors.print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
                raise typer.Exit(1) from None
            if isinstance(error, KeyboardInterrupt) and store is not None:
                again = f"scalable-bandits resume {store}"
                errors.print(f"interrupted; go on with: {again}", highlight=False, soft_wrap=True)
                raise typer.Exit(130) from None
            raise
    seconds = time.perf_counter() - started
    files = save(chosen, result, folder, data=store is None)
    console.print(table_of(result))
    if chosen.published is not None:
        console.print(published_table(chosen.published(result)))
    console.print(f"{seconds:.1f} s. Saved: {', '.join(str(file) for file in files)}", highlight=False, soft_wrap=True)


@app.command("status")
def show_status(
    path: Annotated[str, typer.Argument(help="A run's store, or a folder with several.")],
) -> None:
    """Show the runs in a store: how far they are, when they were last written, their size and regret."""
    from scalable_bandits.status import runs_in, status

    with _refusals():
        found = [status(place) for place in runs_in(path)]
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
    left_out = () if console.width >= WIDE else ("plays", "size")
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
    import sys
    import warnings

    from scalable_bandits.status import resume
    from scalable_bandits.store.studies import study_record

    with _refusals():
        record = study_record(path)
    if record is not None:
        from scalable_bandits.studies import Study

        folder = Path(record["study"]) if out is None else out
        options = {
            "replicates": record["replicates"],
            "horizon": record["horizon"],
            "seed": record["seed"],
            "on": on,
            "cases": record["cases"],
            "policies": record["policies"],
        }
        data = None if record["data"] is None else Path(record["data"])
        _run_study(lambda: Study.load(record["study"]), folder, path, {**options, "data": data})
        return
    if function is not None:
        sys.path.insert(0, "")  # a module in the working folder is found, as by `python -m`
    with _refusals(), warnings.catch_warnings(record=True) as repairs:
        warnings.simplefilter("always", UserWarning)
        resume(
            path, rounds=rounds, function=function, recover=recover, progress=errors.is_terminal, on=on,
            parallel=parallel,
        )  # fmt: skip
    for repair in repairs:
        errors.print(f"[yellow]note:[/yellow] {repair.message}", highlight=False, soft_wrap=True)
    show_status(path)


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
def _refusals() -> Iterator[None]:
    """Print what is refused, without a traceback, and leave with code 2."""
    try:
        yield
    except typer.Exit:  # a RuntimeError too
        raise
    except (ValueError, OSError, RuntimeError) as error:
        errors.print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None


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


def save(study: Study, result: xarray.Dataset, folder: Path, data: bool = True) -> list[Path]:
    """Write a study's result (zarr; not if `data` is unset), tables (csv) and pictures (png) into a folder."""
    from scalable_bandits import plots, store
    from scalable_bandits.studies import Comparison, Row, summarize

    files = [folder / "table.csv", folder / "regret.png"]
    _write(files[0], Row._fields, summarize(result))
    plots.study_figure(result).savefig(files[1])
    if data:
        files.insert(0, folder / "result.zarr")
        store.save(result, files[0])
    if study.published is not None:
        files.append(folder / "published.csv")
        _write(files[-1], Comparison._fields, study.published(result))
    if study.rates is not None:
        files.append(folder / "growth.png")
        plots.growth_figure(result, study.rates).savefig(files[-1])
    played = _covers(study, result)
    if played:
        files.append(folder / "partition.png")
        plots.cover_figure(played, f"{study.cover}, {study.source}").savefig(files[-1])
    return files


def _write(file: Path, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    import csv

    with file.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(heading)
        writer.writerows(rows)


def _covers(study: Study, result: xarray.Dataset) -> dict[str, Played]:
    """The partitioned policy of every two-dimensional case, its first replicate played once more."""
    from scalable_bandits.plots import Played
    from scalable_bandits.policies import PiGPUCB
    from scalable_bandits.simulate import simulate

    played = {}
    for case in map(str, result["case"].values):
        if study.cover is None or study.cover not in result["policy"].values:
            break
        horizon, seed = result.sizes["round"], result.attrs["seed"]
        environment, policies = study.build(study.replicate(case, 0, horizon, seed))
        policy = policies[study.cover]
        if isinstance(policy, PiGPUCB) and policy.space.dimension == 2:
            played[case] = Played(policy, environment, simulate(policy, environment, horizon).candidate)
    return played


def published_table(rows: list[Comparison]) -> Table:
    """Our numbers beside the published ones."""
    table = Table(title="beside the published", title_justify="left")
    for heading in ("case", "policy", "quantity"):
        table.add_column(heading)
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("published", justify="right", no_wrap=True)
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before.case != row.case:
            table.add_section()
        same = before is not None and before[:2] == row[:2]
        error = "" if math.isnan(row.standard_error) else f" +- {row.standard_error:.2g}"
        table.add_row(*(("", "") if same else row[:2]), row.quantity, f"{row.ours:.3g}{error}", row.published)
    return table


def table_of(result: xarray.Dataset) -> Table:
    """Mean regret and standard error by policy, best first."""
    from scalable_bandits.studies import summarize

    sizes = result.sizes
    title = (
        f"{result.attrs['title']}\n{result.attrs['source']}; {sizes['replicate']} replicates x {sizes['round']} rounds"
    )
    table = Table(
        title=title,
        title_justify="left",
        caption=f"regret: sum over the rounds, in {result.attrs['unit']}",
        caption_justify="left",
    )
    table.add_column("policy", no_wrap=True)
    for heading in ("regret", "std. error", "a round", "last tenth", "of uniform"):
        table.add_column(heading, justify="right")
    held = None
    for row in summarize(result):
        if row.case != held and sizes["case"] > 1:
            table.add_section()
            table.add_row(f"[bold]{row.case}[/bold]")
        held = row.case
        numbers = (row.regret, row.standard_error, row.average, row.last_tenth)
        table.add_row(row.policy, *(f"{number:.4g}" for number in numbers), f"{row.fraction:.3f}")
    return table
