"""Subcommands on studies: `list`, `show`, `run` and `plan`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalable_bandits.cli import options
from scalable_bandits.cli.messages import console, print_json, refusals, resume_command, say, say_imports, show_table
from scalable_bandits.cli.options import option
from scalable_bandits.runs.readable import counted

if TYPE_CHECKING:
    import xarray

    from scalable_bandits.analysis import MeanCurve
    from scalable_bandits.planning import Plan
    from scalable_bandits.studies import Study

EXTRA = "[data]: packages with published data, pip install 'scalable_bandits[data]'"
WIDE = 120  # columns of a terminal from which on `list` shows titles
QUICK = 2, 50  # replicates (of a timed study one) and rounds with --quick
NOT_WITH_ALL = "--case, --policy, --axis, --store, --environment and --class"
QUICK_VALUES = 2  # number of values of the first axis with --quick if they are numbers, enough for a curve
QUICK_HELP = (
    "Run a small version: 2 replicates (if timed 1, of 1 case), at most 50 rounds, 2 numbers of the first axis."
)
LONG = 3600.0  # seconds from which on a study says how long it will take
PICTURES = ("regret.png", "growth.png", "scaling.png", "partition.png")
MADE = {"table.csv", "published.csv", *PICTURES}  # may be overwritten if in a store
ON_PAPER = 1_000  # workers; more have not been tried


def list_studies(json: options.JSON = False) -> None:
    """List the named studies and how long each takes."""
    from scalable_bandits.report.blocks import table
    from scalable_bandits.studies import Study

    known = sorted(Study.registry.items())
    if json:
        keys = ("name", "title", "source", "replicates", "horizon", "duration", "needs_data", "packages", "cases")
        print_json([{key: getattr(study, key) for key in keys} for _, study in known])
        return
    rows = [
        {"study": name, "figure": study.source.rpartition(", ")[2],
         "size": f"{study.replicates} x {study.horizons[-1]:,}", "takes": study.duration,
         "needs": " ".join(["--data"] * study.needs_data + ["[data]"] * bool(study.packages)),
         "what it shows": study.title}
        for name, study in known
    ]  # fmt: skip
    text = f"size: replicates x rounds, of the longest horizon\n{EXTRA}"
    show_table(table("scalable-bandits run STUDY", rows, 0, text), ["what it shows"] if console.width < WIDE else [])


def show(study: options.STUDY) -> None:
    """Print a study as a study file, to change and run: scalable-bandits show STUDY > mine.toml."""
    from scalable_bandits.studies import Study

    with refusals():
        typer.echo(Study.load(study).to_toml().rstrip())


def run(
    study: Annotated[str | None, typer.Argument(metavar="STUDY", help=options.STUDY_HELP)] = None,
    every: Annotated[bool, option("", "Run all named studies, except those whose data are missing.", "--all")] = False,
    quick: Annotated[bool, option("", QUICK_HELP, "--quick")] = False,
    replicates: options.REPLICATES = None,
    horizon: options.HORIZON = None,
    seed: Annotated[int | None, option("N", "Seed of all random numbers. Default: the study's.", min=0)] = None,
    case: options.CASE = None,
    policy: options.POLICY = None,
    axis: options.AXIS = None,
    out: options.OUT = None,
    data: options.DATA = None,
    on: options.ON = None,
    store: Annotated[str | None, option("FOLDER", "Folder that stores every run; what it has is not repeated.")] = None,
    environment: options.ENVIRONMENT = None,
    classes: options.CLASSES = None,
    json: options.JSON = False,
) -> None:
    """Run a study: print its table; save data, tables and figures."""
    with refusals():
        if (study is None) != every:
            raise ValueError("run: give either a study (a name or a file) or --all")
        if every and (case or policy or axis or store or environment or classes):
            raise ValueError(f"run: {NOT_WITH_ALL} cannot be combined with --all")
        given = {**choice(replicates, horizon, case, policy, axis, data), "seed": seed, "on": on}
        chosen = None if every else load(str(study), environment, classes or ())
    if chosen is None:
        _run_all(Path("studies") if out is None else out, given, quick, json)
        return
    small = _small(chosen, given, quick)
    _say_if_long(chosen, {} if quick else small, chosen.store if store is None else store)
    folder = Path(chosen.name) if out is None else out
    record = run_study(chosen, folder, store, small, environment, json, classes=classes or ())
    if json:
        print_json(record)


def choice(
    replicates: int | None, horizon: list[int] | None, case: list[str] | None, policy: list[str] | None,
    axis: list[str] | None, data: Path | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the arguments of `Study.run` and `plan` that options give."""
    rounds = horizon[0] if horizon and len(horizon) == 1 else horizon or None
    return {
        "replicates": replicates, "horizon": rounds, "cases": case or None, "policies": policy or None,
        "axes": read_axes(axis or ()), "data": data,
    }  # fmt: skip


def read_axes(given: Sequence[str]) -> dict[str, list[int | float | str]] | None:
    """Read options of the form NAME=V,V."""
    found: dict[str, list[int | float | str]] = {}
    for text in given:
        name, equal, values = text.partition("=")
        if not (name and equal and values):
            raise ValueError(f"--axis: got {text!r}; allowed: NAME=V,V, such as side=10,20")
        found[name] = [_value(part) for part in values.split(",")]
    return found or None


def _value(text: str) -> int | float | str:
    """Read a number, or a word."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def load(name: str, function: str | None, classes: Sequence[str]) -> Study:
    """Load a study; import what the command names, and never what a file names alone."""
    from scalable_bandits.runs.resuming import function_of
    from scalable_bandits.studies import Study

    for flag, given in (("--environment", function), ("--class", [*classes] or None)):
        if given is not None and not name.endswith(".toml"):
            raise ValueError(f"{flag}: got {given!r}; allowed: only together with a study file")
    say_imports(function, classes)
    own = None if function is None else function_of(function)
    return Study.load(name, function=own, classes=classes)


def _small(study: Study, given: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Return the arguments with the sizes of --quick, where it is set and no size was given."""
    sizes: dict[str, Any] = {
        "replicates": min(1 if study.timed else QUICK[0], study.replicates),
        "horizon": min(QUICK[1], study.horizons[0]),
    }
    axes = {
        name: list(values[: 1 if i or isinstance(values[0], str) else QUICK_VALUES])
        for i, (name, values) in enumerate(study.axes.items())
    }
    sizes |= {"axes": axes} if axes else {}
    sizes |= {"cases": list(study.cases[:1])} if study.timed else {}
    return {**given, **{key: size for key, size in sizes.items() if quick and given[key] is None}}


def _say_if_long(study: Study, given: dict[str, Any], store: str | Path | None) -> None:
    """Say how long a study will take if that is long, unless it is a small one or its store has a part of it."""
    if not given or (store is not None and Path(store).is_dir()):
        return
    from scalable_bandits.planning import forecast
    from scalable_bandits.runs.readable import duration_in_words

    sizes = {name: value for name, value in given.items() if name not in ("seed", "on")}
    with suppress(Exception):  # whatever cannot be played: the run itself says it
        found = forecast(study, **sizes)
        if found is not None and found.seconds >= LONG:
            most = f", most of it {found.slowest}" if found.slowest else ""
            about = f"about {duration_in_words(found.seconds)} in one process{most}"
            say("long", f"{study.name}: {about}; see `plan`", "yellow")


def _run_all(folder: Path, given: dict[str, Any], quick: bool, json: bool) -> None:
    """Run every study in a folder of its own; exit with code 1 if any failed."""
    from scalable_bandits.environments import DataMissing
    from scalable_bandits.studies import Study

    records, skipped, failed = [], [], []
    for _, study in sorted(Study.registry.items()):
        if quick and study.starts_clusters:
            skipped.append(study.name)
            say("skipped", f"{study.name}: each of its runs starts a cluster; run it by its name", "yellow")
            continue
        try:
            small = _small(study, given, quick)
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
    chosen: Study, folder: Path, store: str | None, given: dict[str, Any], function: str | None = None,
    json: bool = False, skips: bool = False, classes: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Run a study, save and print its result, and return the record for --json.

    `function` and `classes` are names of the user's, which the command for resuming repeats. With `json` set nothing is
    printed; with `skips` set `DataMissing` passes.
    """
    from scalable_bandits.environments import DataMissing
    from scalable_bandits.report.writing import save

    store = chosen.store if store is None else store
    again = None if store is None else resume_command(store, function, classes)
    with refusals(let=(DataMissing,) if skips else (), again=again, kept=lambda: _kept(store)):
        made = _make_folder(folder, store)
        started = time.perf_counter()
        try:
            result = chosen.run(**given, store=store, progress=True)
        except BaseException:
            if made:
                with suppress(OSError):  # not empty if the store is in it
                    folder.rmdir()
            raise
    seconds = time.perf_counter() - started
    files = [str(file) for file in save(chosen, result, folder, data=store is None)]
    if not json:
        _show_tables(chosen, result)
        console.print(f"{seconds:.1f} s. Saved: {', '.join(files)}", soft_wrap=True)
    return {**_record_of(chosen, result), "seconds": seconds, "files": files}


def _show_tables(study: Study, result: xarray.Dataset) -> None:
    """Print the tables of a study's result."""
    from scalable_bandits.analysis import BEST, horizons_of
    from scalable_bandits.report import study_page as page

    replicates, rounds = result.sizes["replicate"], " and ".join(f"{each:,}" for each in horizons_of(result))
    size = f"{counted(replicates, 'replicate')} x {rounds} rounds"
    title = f"{result.attrs['title']}\n{'; '.join(filter(None, [result.attrs['source'], size]))}"
    show_table(page.regrets_table(result)._replace(title=title), without=("runs", "95 % interval"))
    more = [page.ranks_table(result)] if study.measure == BEST and result.sizes["case"] > 1 else []
    if "seconds" in result:
        more += [page.costs_table(result), page.exponents_table(result, study.expected)]
    for block in [*more, page.published_table(study, result)]:
        if block.rows:
            show_table(block, without=("runs",))


def _record_of(study: Study, result: xarray.Dataset) -> dict[str, Any]:
    """Return what was run, the table of regrets, the curves and the comparison with published numbers."""
    from scalable_bandits.analysis import all_exponents, mean_curves, means, measure_of
    from scalable_bandits.report.study_page import costs_of

    attributes = {name: result.attrs[name] for name in ("study", "title", "source", "unit", "seed", "version")}
    timed: dict[str, Any] = {}
    if "seconds" in result:
        timed = {"costs": costs_of(result), "exponents": all_exponents(result)}
    return {
        **attributes, "replicates": result.sizes["replicate"], "horizon": int(result["round"][-1]),
        "planned": {"replicates": study.replicates, "horizon": study.horizons[-1]},
        "measure": measure_of(result), "table": means(result), **timed,
        "curves": [_rounded(one) for one in mean_curves(result)],
        "published": [] if study.published is None else study.published(result),
    }  # fmt: skip


def _rounded(one: MeanCurve) -> dict[str, Any]:
    """Return a mean curve with as many digits as a picture shows."""
    numbers = {name: [float(f"{value:.5g}") for value in getattr(one, name)] for name in ("mean", "standard_error")}
    shares = {prior: round(share, 5) for prior, share in one.shares.items()}
    return {**one._asdict(), **numbers, "x": one.x.astype(int).tolist(), "shares": shares}


def _kept(store: str | None) -> str:
    """Return what is kept of a study that was interrupted."""
    if store is None:
        return "nothing was kept: with --store FOLDER every run is"
    from scalable_bandits.status import study_progress

    complete, runs = study_progress(store)
    return f"{complete} of {runs} runs are complete, and the others are kept as far as they got"


def _make_folder(folder: Path, store: str | None) -> bool:
    """Make the output folder, before the work so that a failure costs nothing; return whether it is new."""
    left = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if folder.exists() and (store is None or not folder.is_dir() or left - MADE):
        raise FileExistsError(f"--out: {folder} exists already; give another folder, or remove it first")
    if store is not None and Path(store).resolve() == folder.resolve():
        raise FileExistsError(f"--out: {folder} is the folder of the store; give another folder")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    return made


def plan(
    study: options.STUDY,
    workers: Annotated[str, option("N,N", "Numbers of workers.")] = "1,16,256",
    seconds: Annotated[float, option("S", "Time that each run is played for.")] = 3.0,
    replicates: options.REPLICATES = None,
    horizon: options.HORIZON = None,
    case: options.CASE = None,
    policy: options.POLICY = None,
    axis: options.AXIS = None,
    data: options.DATA = None,
    store: Annotated[bool, option("", "Count the time of stored runs.", "--store")] = False,
    on: Annotated[str | None, option("CLUSTER", "Cluster that is measured; else this machine.")] = None,
    environment: options.ENVIRONMENT = None,
    classes: options.CLASSES = None,
    json: options.JSON = False,
) -> None:
    """Predict time, memory and messages of a study on so many workers, from the first seconds of one run of each."""
    from scalable_bandits.planning import plan as planned

    with refusals():
        counts = options.counts("--workers", workers)
        found = planned(
            load(study, environment, classes or ()), counts, seconds=seconds, stored=store, on=on,
            **choice(replicates, horizon, case, policy, axis, data),
        )  # fmt: skip
    if json:
        print_json(found)
        return
    _show_plan(found)
    notes = [
        "1 worker: this process; busy: share of the time in which workers play; memory: of the most demanding runs at "
        "the same time",
        f"more workers than {found.enough:,} do not pay: they save less than a tenth",
        *_machine(found),
    ]
    if any(each.workers > ON_PAPER for each in found.workers):
        notes.append(f"more than {ON_PAPER:,} workers: a plan on paper, untested")
    console.print("\n".join(notes))


def _machine(found: Plan) -> list[str]:
    """Say what was measured of the machine."""
    machine, said = found.machine, []
    slower = [f"{name} {factor:.2f}" for name, factor in machine.slowdown.items()]
    if machine.cores > 1 and slower:
        said.append(
            f"time of a run while {machine.cores} workers are busy, as a multiple of its own: {', '.join(slower)}"
        )
    if machine.messages is not None:
        task, latency, further, bandwidth = machine.messages
        said.append(
            f"messages: {latency * 1e3:.2g} ms to one worker and back, {further * 1e3:.2g} ms for each further one, "
            f"{bandwidth / 1e6:,.0f} MB/s; a Dask task {task * 1e3:.2g} ms; the workers' start {machine.start:.2g} s"
        )
    return said


def _show_plan(found: Plan) -> None:
    """Print what a run of each policy takes, a round of those whose shards are on workers, and the whole study."""
    from scalable_bandits.report.blocks import table
    from scalable_bandits.report.numbers import bytes_in_words
    from scalable_bandits.runs.readable import duration_in_words

    runs = [
        {"case": row.case, "policy": row.policy, "rounds": f"{row.rounds:,}",
         "played": "all" if row.found.whole else f"{row.found.rounds:,}",
         "a run": duration_in_words(row.found.seconds), "memory": bytes_in_words(row.found.memory),
         "runs": f"{row.runs:,}"}
        for row in found.rows
    ]  # fmt: skip
    show_table(table(f"{found.study}: what a run takes, after the rounds that were played", runs, 5))
    rounds: list[dict[str, str]] = []
    for (case, policy), group in itertools.groupby(found.rounds, key=lambda each: each[:2]):
        row, several = {"case": case, "policy": policy}, list(group)
        row |= {f"{each.workers:,}": duration_in_words(each.seconds) for each in several}
        rounds.append({**row, "more do not pay than": f"{several[0].enough:,}"})
    if rounds:
        show_table(table("a round, its shards on so many workers", rounds, len(rounds[0]) - 2))
    studies = [
        {"workers": f"{each.workers:,}", "time": duration_in_words(each.seconds), "busy": f"{each.busy:.0%}",
         "memory": bytes_in_words(each.memory), "messages": f"{each.messages:,}"}
        for each in found.workers
    ]  # fmt: skip
    show_table(table("the study", studies, 5))
