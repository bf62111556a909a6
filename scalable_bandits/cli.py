"""The command ``scalable-bandits``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import xarray

app = typer.Typer(
    help="Gaussian-process bandits: run the papers' experiments and your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console()
errors = Console(stderr=True)


@app.callback()
def main() -> None:
    """Gaussian-process bandits: run the papers' experiments and your own."""


@app.command("list")
def list_studies() -> None:
    """List the named studies, and how long each takes."""
    from scalable_bandits.studies import Study

    table = Table(title="scalable-bandits run STUDY", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("study", "figure", "size", "takes", "needs"):
        table.add_column(heading, no_wrap=True)
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
    out: Annotated[Path | None, typer.Option(help="Folder to write to; it must not exist yet. Default: STUDY.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the measured data files.")] = None,
) -> None:
    """Run a study: print its table; save the data, the table and a picture."""
    from scalable_bandits.studies import Study

    folder = Path(study) if out is None else out
    try:
        chosen = Study.load(study)
        if folder.exists():
            raise FileExistsError(f"--out: {folder} exists already; name another folder, or remove it first")
        folder.mkdir(parents=True)  # before the work: a folder that cannot be made costs nothing then
        started = time.perf_counter()
        progress = errors.is_terminal
        try:
            result = chosen.run(replicates=replicates, horizon=horizon, seed=seed, data=data, progress=progress)
        except BaseException:
            folder.rmdir()
            raise
    except (ValueError, OSError) as error:
        errors.print(f"[red]error:[/red] {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None
    seconds = time.perf_counter() - started
    files = save(result, folder)
    console.print(table_of(result))
    console.print(f"{seconds:.1f} s. Saved: {', '.join(str(file) for file in files)}", highlight=False, soft_wrap=True)


def save(result: xarray.Dataset, folder: Path) -> list[Path]:
    """Write a study's result (zarr), table (csv) and picture (png) into an empty folder."""
    import csv

    from scalable_bandits import plots, store
    from scalable_bandits.studies import Row, summarize

    files = [folder / "result.zarr", folder / "table.csv", folder / "regret.png"]
    store.save(result, files[0])
    with files[1].open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(Row._fields)
        writer.writerows(summarize(result))
    plots.study_figure(result).savefig(files[2])
    return files


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
