"""Subcommand `plan`: what a study will take."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Any

from scalable_bandits.cli import options
from scalable_bandits.cli.messages import console, print_json, refusals, show_table
from scalable_bandits.cli.options import option
from scalable_bandits.cli.studies import choice, load

if TYPE_CHECKING:
    from scalable_bandits.planning import Plan

ON_PAPER = 1_000  # workers; more have not been tried


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
        counts: list[Any] = [int(part) if part.strip().isdecimal() else part for part in workers.split(",")]
        found = planned(
            load(study, environment, classes or ()), counts, seconds=seconds, stored=store, on=on,
            **choice(replicates, horizon, case, policy, axis, data),
        )  # fmt: skip
    if json:
        print_json(found)
        return
    _show_tables(found)
    notes = [
        "1 worker: this process; busy: share of the time in which workers play; memory: of the most demanding runs at "
        "the same time",
        f"more than {found.enough:,} workers do not pay: they save less than a tenth",
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


def _show_tables(found: Plan) -> None:
    """Print what a run of each policy takes, a round of those whose shards are on workers, and the whole study."""
    from scalable_bandits.report.blocks import table
    from scalable_bandits.report.numbers import bytes_in_words, duration_in_words

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
