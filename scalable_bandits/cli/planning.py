"""Subcommand `plan`: what a study will take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from scalable_bandits.cli.messages import CLASSES, JSON, console, print_json, refusals
from scalable_bandits.cli.studies import FUNCTION, STUDY, load, one_or_all, read_axes

if TYPE_CHECKING:
    from scalable_bandits.planning import Plan

ON_PAPER = 1_000  # workers; more have not been tried


def plan(
    study: Annotated[str, typer.Argument(metavar="STUDY", help=STUDY)],
    workers: Annotated[str, typer.Option(metavar="N,N", help="Numbers of workers.")] = "1,16,256",
    seconds: Annotated[float, typer.Option(metavar="S", help="Time that each run is played for.")] = 3.0,
    replicates: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of replicates.")] = None,
    horizon: Annotated[
        list[int] | None, typer.Option(min=1, metavar="N", help="Number of rounds; may be repeated.")
    ] = None,
    case: Annotated[list[str] | None, typer.Option(metavar="CASE", help="Case; may be repeated.")] = None,
    policy: Annotated[list[str] | None, typer.Option(metavar="POLICY", help="Policy; may be repeated.")] = None,
    axis: Annotated[list[str] | None, typer.Option(metavar="NAME=V,V", help="Values of an axis.")] = None,
    data: Annotated[str | None, typer.Option(metavar="FOLDER", help="Folder of the measured data files.")] = None,
    store: Annotated[bool, typer.Option("--store", metavar="", help="Count the time of stored runs.")] = False,
    on: Annotated[
        str | None, typer.Option(metavar="CLUSTER", help="Cluster that is measured; else this machine.")
    ] = None,
    environment: Annotated[str | None, typer.Option(metavar="NAME", help=FUNCTION)] = None,
    classes: CLASSES = None,
    json: JSON = False,
) -> None:
    """Predict time, memory and messages of a study on so many workers, from the first seconds of one run of each."""
    from scalable_bandits.planning import plan as planned

    with refusals():
        counts: list[Any] = [int(part) if part.strip().isdecimal() else part for part in workers.split(",")]
        found = planned(
            load(study, environment, classes or ()), counts, seconds=seconds, stored=store, on=on,
            replicates=replicates, horizon=one_or_all(horizon),
            cases=case or None, policies=policy or None, axes=read_axes(axis or ()), data=data,
        )  # fmt: skip
    if json:
        print_json(_record(found))
        return
    console.print(_runs_table(found))
    if found.rounds:
        console.print(_rounds_table(found))
    console.print(_workers_table(found))
    notes = [
        "1 worker: this process; busy: share of the time in which workers play; memory: of the most demanding runs at "
        "the same time",
        f"more than {found.enough:,} workers do not pay: they save less than a tenth",
        *_machine(found),
    ]
    if any(each.workers > ON_PAPER for each in found.workers):
        notes.append(f"more than {ON_PAPER:,} workers: a plan on paper, untested")
    console.print("\n".join(notes))


def _record(found: Plan) -> dict[str, Any]:
    def plain(each: Any) -> Any:
        if hasattr(each, "_asdict"):
            return {name: plain(value) for name, value in each._asdict().items()}
        return [plain(one) for one in each] if isinstance(each, list | tuple) else each

    record: dict[str, Any] = plain(found)
    return record


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


def _rounds_table(found: Plan) -> Table:
    """Tabulate a round of the policies whose shards are on workers."""
    from scalable_bandits.cli.study_output import duration_in_words

    counts = list(dict.fromkeys(each.workers for each in found.rounds))
    table = Table(title="\na round, its shards on so many workers", title_justify="left")
    table.add_column("policy")
    for count in counts:
        table.add_column(f"{count:,}", justify="right", no_wrap=True)
    table.add_column("more do not pay than", justify="right")
    for row in dict.fromkeys((each.case, each.policy) for each in found.rounds):
        mine = {each.workers: each for each in found.rounds if (each.case, each.policy) == row}
        cells = [duration_in_words(mine[count].seconds) for count in counts]
        table.add_row(", ".join(row), *cells, f"{mine[counts[0]].enough:,}")
    return table


def _runs_table(found: Plan) -> Table:
    """Tabulate what a run of each policy takes."""
    from scalable_bandits.cli.study_output import bytes_in_words, duration_in_words

    table = Table(title=f"{found.study}: what a run takes, after the rounds that were played", title_justify="left")
    table.add_column("policy")
    for heading in ("rounds", "played", "a run", "memory", "runs"):
        table.add_column(heading, justify="right", no_wrap=True)
    last, several = "", len({row.case for row in found.rows}) > 1
    for row in found.rows:
        if several and row.case != last:
            table.add_section()
            table.add_row(Text(row.case, style="bold"))
        last = row.case
        table.add_row(
            row.policy, f"{row.rounds:,}", "all" if row.found.whole else f"{row.found.rounds:,}",
            duration_in_words(row.found.seconds), bytes_in_words(row.found.memory), f"{row.runs:,}",
        )  # fmt: skip
    return table


def _workers_table(found: Plan) -> Table:
    """Tabulate the study on so many workers."""
    from scalable_bandits.cli.study_output import bytes_in_words, duration_in_words

    table = Table(title="\nthe study", title_justify="left")
    for heading in ("workers", "time", "busy", "memory", "messages"):
        table.add_column(heading, justify="right")
    for each in found.workers:
        table.add_row(
            f"{each.workers:,}", duration_in_words(each.seconds), f"{each.busy:.0%}", bytes_in_words(each.memory),
            f"{each.messages:,}",
        )  # fmt: skip
    return table
