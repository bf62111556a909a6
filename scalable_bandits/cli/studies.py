"""`list`, `show` and `run`: studies."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from scalable_bandits.cli.messages import JSON, ON, command_again, console, errors, print_json, refusals, say

if TYPE_CHECKING:
    from scalable_bandits.studies import Study

FUNCTION = "module:name of your function, of a study file's environments of type FunctionEnvironment."
WIDE = 120  # columns of a terminal that has room for titles
QUICK = 2, 50  # replicates and rounds of a run at small scale
MADE = {"table.csv", "regret.png", "published.csv", "growth.png", "partition.png"}  # from a store, again and again


def list_studies(json: JSON = False) -> None:
    """List the named studies, and how long each takes."""
    from scalable_bandits.studies import Study

    known = sorted(Study.registry.items())
    if json:
        keys = ("name", "title", "source", "replicates", "horizon", "duration", "needs_data", "cases")
        print_json([{key: getattr(study, key) for key in keys} for _, study in known])
        return
    table = Table(title="scalable-bandits run STUDY", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("study", "figure", "size", "takes", "needs"):
        table.add_column(heading, no_wrap=True, min_width=max(map(len, Study.registry)) if heading == "study" else None)
    wide = console.width >= WIDE
    if wide:
        table.add_column("what it shows", overflow="fold")
    for name, study in known:
        figure, size = study.source.rpartition(", ")[2], f"{study.replicates} x {study.horizon:,}"
        table.add_row(name, figure, size, study.duration, "--data" * study.needs_data, *[study.title] * wide)
    table.caption = "size: replicates x rounds"
    table.caption_justify = "left"
    console.print(table)


def show(study: Annotated[str, typer.Argument(metavar="STUDY", help="Name of a study, or a study file.")]) -> None:
    """Print a study as a file, to keep, change and run: scalable-bandits show NAME > mine.toml."""
    from scalable_bandits.studies import Study

    with refusals():
        typer.echo(Study.load(study).to_toml().rstrip())


def run(
    study: Annotated[
        str | None, typer.Argument(metavar="STUDY", help="Name of a study (see `list`), or a file NAME.toml.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", metavar="", help="Run all named studies; without their data, not those.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="At small scale: 2 replicates, at most 50 rounds.")
    ] = False,
    replicates: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Replicates; the study's number if not given.")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Rounds; the study's number if not given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Seed; every number is a function of it.")
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(metavar="CASE", help="A case, again for more; all if not given.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="POLICY", help="A policy, again for more; all if not given.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder to write to; it must not exist yet. Default: STUDY.")
    ] = None,
    data: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder of the measured data files.")] = None,
    on: Annotated[str | None, typer.Option(metavar="WHERE", help=ON)] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Folder where every run is kept as it goes; what it has already is not played again."
        ),
    ] = None,
    environment: Annotated[str | None, typer.Option(metavar="NAME", help=FUNCTION)] = None,
    json: JSON = False,
) -> None:
    """Run a study: print its table; save the data, the table and a picture."""
    from scalable_bandits.studies import Study

    options = {
        "replicates": replicates, "horizon": horizon, "seed": seed, "data": data, "on": on, "cases": case or None,
        "policies": policy or None,
    }  # fmt: skip
    with refusals():
        if (study is None) != every:
            raise ValueError("run: give the name of a study or a file, or --all, and not both")
        if every and (case or policy or store or environment):
            raise ValueError("run --all: --case, --policy, --store and --environment are for one study")
        studies = [known for _, known in sorted(Study.registry.items())] if every else [_load(study, environment)]
    if every:
        _run_all(studies, Path("studies") if out is None else out, options, quick, json)
        return
    chosen = studies[0]
    folder = Path(chosen.name) if out is None else out
    record = run_study(chosen, folder, store, _small(chosen, options, quick), environment, json)
    if json:
        print_json(record)


def _load(name: str | None, function: str | None) -> Study:
    """A study; a user's function is imported only if it was named in the command."""
    from scalable_bandits.runs.status import function_of
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
            small = _small(study, options, quick)
            records.append(run_study(study, folder / study.name, None, small, json=json, skips=True))
        except DataMissing as error:
            skipped.append(study.name)
            say("skipped", f"{study.name}: {error}", "yellow")
        except typer.Exit as left:
            if left.exit_code != 1:
                raise
            failed.append(study.name)
    if json:
        print_json({"studies": records, "skipped": skipped, "failed": failed})
    if failed:
        say("failed", ", ".join(failed))
        raise typer.Exit(1)


def run_study(
    chosen: Study, folder: Path, store: str | None, options: dict[str, Any], function: str | None = None,
    json: bool = False, skips: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Run, save, and print unless the record is for a script; gives the record. `function`: by which name it came."""
    from scalable_bandits.environments import DataMissing
    from scalable_bandits.report.results import published_table, record_of, save, table_of

    store = chosen.store if store is None else store
    again = None if store is None else command_again(store, function)
    with refusals(let=(DataMissing,) if skips else (), again=again):
        made = _make_folder(folder, store)
        started = time.perf_counter()
        try:
            result = chosen.run(**options, store=store, progress=errors.is_terminal)
        except BaseException:
            if made:
                with suppress(OSError):  # it may hold the store
                    folder.rmdir()
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
