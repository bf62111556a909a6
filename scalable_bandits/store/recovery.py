"""Recovery of a damaged run: a new one with everything that can be read takes its place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs

from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.layout import described_arrays
from scalable_bandits.store.reader import StoredRun

# Attributes that every run has.
RUN_ATTRIBUTES = ("schema", "id", "chunk", "fields", "specification", "planned")


def recovered(run: StoredRun, create: Callable[..., Any]) -> str:
    """Replace a damaged run by a new one with everything that can be read; return a description of the result.

    All damaged files are kept beside it. If the run can be simulated again, it ends before the first lost round;
    otherwise lost rounds are left out.

    Parameters
    ----------
    run
        Damaged run, opened with `recover`.
    create
        Function that creates a store, with the parameters of `ObservationStore.create`.

    Raises
    ------
    ValueError
        If the run is not in a folder, so that no copy can be kept beside it.
    """
    location = run.location
    sibling, kept = location.free_sibling("recovering"), location.free_sibling("damaged")
    given = {key: value for key, value in run.attributes.items() if key not in RUN_ATTRIBUTES}
    store = create(
        sibling, run.fields, specification=run.specification, planned=run.planned, chunk=run.chunk, attributes=given,
        inputs=_inputs(run),
    )  # fmt: skip
    try:
        _copy_rounds(run, store)
    except BaseException:
        store.close(orderly=False)
        raise
    store.close(orderly=run.orderly)
    location.move(kept)
    sibling.move(location)
    lost = max(run.known - len(store), 0)
    fate = "will be played again" if run.deterministic else "are lost"
    whole = "no round is lost" if not any("acknowledged" in each for each in run.problems) else "; ".join(run.problems)
    result = f"{lost} round(s) {fate}" if lost else whole
    return f"{result}, {len(store)} are there; all original files are in {kept.name}"


def _copy_rounds(run: StoredRun, store: Any) -> None:
    """Copy readable rounds, and evaluations; of a simulation only the rounds before the first unreadable one."""
    whole, kept = run.chunks.rounds, list[tuple[int, int]]()  # rounds that were copied: before the first, the last
    for position, number in enumerate(run.chunks.numbers):
        if run.deterministic and number != position:
            return
        start, stop = number * run.chunk, min((number + 1) * run.chunk, whole)
        try:
            rows = run.read(start, stop)
        except StoreDamaged as error:
            run.problems.append(str(error))
            if run.deterministic:
                return
            continue
        store.append(rows)
        kept.append((start, stop))
    store.flush()
    moved, told = len(store), 0
    tickets = sorted(run.tickets.values(), key=lambda ticket: (ticket.ended or 0, ticket.number))
    done = [ticket for ticket in tickets if ticket.state == "done" and (ticket.round or 0) > whole]
    copies = {}
    for ticket in tickets:
        place = ticket.round
        if ticket.state == "done" and (place or 0) <= whole:
            continue
        told += ticket.state == "done"
        if place is not None:  # round of a value, or number of rounds before a failure
            copied = sum(min(place, stop) - start for start, stop in kept if start < place)
            place = moved + told if place > whole else copied
        copies[ticket.number] = attrs.evolve(ticket, round=place)
    rest = run.read(whole)
    if len(rest["y"] if "y" in rest else next(iter(rest.values()))):
        store.append(rest, [copies[ticket.number] for ticket in sorted(done, key=lambda t: t.round or 0)])
    store.note([ticket for ticket in copies.values() if ticket.state != "done"])
    store.flush()


def _inputs(run: StoredRun) -> dict[str, Any]:
    """Return the readable arrays of the specification by their digests."""
    found = {}
    for described in described_arrays(run.specification):
        with suppress(StoreDamaged):
            found[described["array"]] = run.input(described)
    return found
