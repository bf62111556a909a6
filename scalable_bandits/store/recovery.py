"""Recovery of a damaged run: a new one with everything that can be read takes its place."""

from __future__ import annotations

import glob
import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from scalable_bandits import checks
from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.files import sync_directory
from scalable_bandits.store.layout import described_arrays
from scalable_bandits.store.ledger import is_counted
from scalable_bandits.store.locations import ACKNOWLEDGED, Folder, Location
from scalable_bandits.store.reader import StoredRun
from scalable_bandits.tickets import Ticket

RUN_ATTRIBUTES = ("schema", "id", "chunk", "fields", "specification", "planned")  # which every run has


def recovered(run: StoredRun, create: Callable[..., Any]) -> str:
    """Replace a damaged run, opened with `recover`, by a new one with all that can be read; return what came of it.

    All damaged files are kept beside it. If the run can be simulated again, it ends before the first lost round;
    otherwise lost rounds are left out. `create` makes a store, with the parameters of `ObservationStore.create`.

    Raises
    ------
    ValueError
        If the run is not in a folder, so that no copy can be kept beside it.
    """
    location = run.location
    if not isinstance(location, Folder):
        checks.refuse("recover", location.name, "a store in a folder, where a copy can be kept: copy it to one first")
    fresh, kept = _free_sibling(location.path, "recovering"), _free_sibling(location.path, "damaged")
    given = {key: value for key, value in run.attributes.items() if key not in RUN_ATTRIBUTES}
    inputs = {}
    for described in described_arrays(run.specification):
        with suppress(StoreDamaged):
            inputs[described["array"]] = run.input(described)
    plan = {"planned": run.planned, "chunk": run.chunk, "attributes": given}
    store = create(fresh, run.fields, specification=run.specification, inputs=inputs, **plan)
    with store:
        _copy_rounds(run, store)
        store.close(orderly=run.orderly)
    move(location.path, kept)
    move(fresh, location.path)
    lost = max(run.contents.state.length - len(store), 0)
    fate = "will be played again" if run.arrays.replayable else "are lost"
    whole = "no round is lost" if not any("acknowledged" in each for each in run.problems) else "; ".join(run.problems)
    result = f"{lost} round(s) {fate}" if lost else whole
    return f"{result}, {len(store)} are there; all original files are in {kept.name}"


def _free_sibling(path: Path, suffix: str) -> Path:
    """Return an unused path beside a run."""
    names = (f"{path.name}.{suffix}{number or ''}" for number in itertools.count())
    return next(place for place in map(path.with_name, names) if not place.exists())


def move(source: Path, target: Path) -> None:
    """Move a folder durably."""
    source.rename(target)
    sync_directory(target.parent)


def finish_recovery(location: Location, mode: str) -> None:
    """Finish a recovery that was interrupted between its two moves; a reader is told where the run is."""
    if not isinstance(location, Folder) or location.path.exists():
        return
    found = location.path.parent.glob(f"{glob.escape(location.path.name)}.recovering*")
    complete = sorted(path for path in found if (path / ACKNOWLEDGED).exists())
    if complete and mode == "r":
        text = f"its recovery was interrupted; {complete[-1].name} has all of it: open it for writing"
        raise StoreDamaged(f"store {location.name}: {text}")
    if complete:
        move(complete[-1], location.path)
        text = f"it was moved here from {complete[-1].name}, which completes an interrupted recovery"
        checks.warn(f"store {location.name}: {text}")


def _copy_rounds(run: StoredRun, store: Any) -> None:
    """Copy readable rounds, and evaluations; of a simulation only the rounds before the first unreadable one."""
    whole, kept = run.contents.state.rounds, list[tuple[int, int]]()  # copied rounds: before the first, the last
    for position, number in enumerate(sorted(run.contents.chunks)):
        start, stop = run.arrays.bounds(number)
        try:
            if run.arrays.replayable and number != position:
                return
            rows = run.read(start, stop)
        except StoreDamaged as error:
            run.problems.append(str(error))
            if run.arrays.replayable:
                return
            continue
        store.append(rows)
        kept.append((start, stop))
    store.flush()
    moved, told = len(store), 0
    tickets = list[Ticket]()
    for ticket in sorted(run.tickets.values(), key=lambda each: (each.ended or 0, each.number)):
        if is_counted(ticket, whole):
            continue
        place = ticket.round
        told += ticket.state == "done"
        if place is not None:  # round of a value, or number of rounds before a failure
            copied = sum(min(place, stop) - start for start, stop in kept if start < place)
            place = moved + told if place > whole else copied
        tickets.append(ticket._replace(round=place))
    store.append(tickets=tickets)
    store.flush()
