"""Status of stored runs and studies, their check and recovery."""

from __future__ import annotations

import math
import os
import re
import socket
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.commands import Command
from scalable_bandits.runs.limits import kept_values, outputs_of
from scalable_bandits.runs.readable import point_text
from scalable_bandits.runs.resuming import in_context_of, known_space
from scalable_bandits.runs.thinning import rounds_played
from scalable_bandits.store import ObservationStore, StoredRun, StoreError
from scalable_bandits.store.check import Part, check_run
from scalable_bandits.store.locations import COMMITTED, METADATA, locate, without_scheme
from scalable_bandits.studies.growth import runs_of
from scalable_bandits.studies.stored import FILE, StudyResults, run_folders, run_place, study_copies, study_record

RESULT = "result.zarr"  # name of the dataset in a folder made by `scalable-bandits run`
NOT_BEGUN = "not begun"  # state of a run whose process ended before there was one
BLOCK = 2**20  # rounds that are read at a time
_ASIDE = re.compile(r"\.(damaged|recovering)\d*$")  # names of files set aside


class Status(NamedTuple):
    """Status of one run."""

    name: str  # name of the store
    policy: str  # class of the policy
    environment: str  # class of the environment, or name of the user's function
    rounds: int  # number of the last committed round
    planned: int | None  # number of rounds that the run will have, if known
    state: str  # "running (process)", "interrupted", "closed", "complete", "not begun", or why it cannot be read
    last_write: float  # time of the last write, in seconds since 1970; NaN if unknown
    size: int | None  # size of the store in bytes
    regret: float  # cumulative regret, in units of y; NaN for a run without regret
    largest: float  # largest observation, in units of y; NaN before the first
    smallest: float  # smallest observation, in units of y; NaN before the first
    minimize: bool  # whether the smallest observation is the best one
    failures: int  # number of failed evaluations that the policy was told
    x: Any = None  # best point of a tuning run: a dict of a named space, a label, coordinates, or an arm number
    objective: str = ""  # first of several objectives, of which the observations here are
    at: str = ""  # x as text, with the digits that the ranges of its parameters need
    limited: bool = False  # whether there are constraints; the best observation then is one that keeps them all
    measured: int = 0  # number of evaluations of a batch that are measured, and end when all of it are

    @property
    def best(self) -> float:
        """Best observation, in units of y; NaN before the first."""
        return self.smallest if self.minimize else self.largest


def runs_in(place: Any) -> Iterator[Any]:
    """Find the runs in a folder and below, the folder included; at a URL those of a study, or one run.

    A zarr store is one run.

    Parameters
    ----------
    place
        Folder, URL that zarr can open, or zarr store.

    Returns
    -------
    iterator
        Places of the runs; none for a study without runs.

    Raises
    ------
    FileNotFoundError
        If there is neither a run nor a study.
    """
    place = without_scheme(place)
    if not isinstance(place, str | Path):
        yield place
        return
    if "://" in str(place):
        record = study_record(place)
        if record is None:
            yield place
            return
        for numbers in runs_of(record):
            run = run_place(place, run_folders(record), numbers)
            if locate(run).occupied():
                yield run
        return
    marks = {"zarr.json", "run.sqlite", "writer.lock"}
    inside = ((Path(folder), files) for folder, _, files in os.walk(place))
    folders = {folder.parent for folder, files in inside if folder.name == COMMITTED and marks.intersection(files)}
    found = sorted(run for run in folders if run == Path(place) or not _ASIDE.search(run.name))
    if not found and study_record(place) is not None:
        return
    if not found and (Path(place) / RESULT / METADATA).is_file():
        text = f"there is no run in {place}, which has the result of a study; `report` reads it"
        raise FileNotFoundError(f"store: {text}, and the study's store has its runs if it was played with one")
    if not found:
        ObservationStore.open(place)  # raises an error that says what is there
        found = [Path(place)]
    yield from found


def status(place: Any) -> Status:
    """Return the status of one run, without disturbing its writer; `state` says why a run cannot be read.

    Parameters
    ----------
    place
        Place of the run's store.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # since `state` says the same
            location = locate(place)
            writer = location.writer()  # before what it has written
            run = ObservationStore.open(location)
        series = {field.name for field in run.fields}
        last = run.read(max(len(run) - 1, 0), names=["cumulative_regret"]) if "cumulative_regret" in series else {}
        regret = float(last["cumulative_regret"][-1]) if last and len(run) else math.nan
        smallest, largest, x, at = _extremes(run)
        state, size = state_of(run, writer), location.size()
    except (StoreError, OSError) as error:
        nothing, state = math.nan, NOT_BEGUN if _not_begun(place, error) else str(error)
        return Status(str(place), "", "", 0, None, state, nothing, None, nothing, nothing, nothing, False, 0)
    specification = run.specification
    against = specification.get("environment", specification.get("function", {}))
    policy, outputs = type_name(specification.get("policy", {})), outputs_of(run)
    return Status(
        run.location.name, policy, type_name(against), rounds_played(run), run.planned, state,
        run.last_write or math.nan, size, regret, largest, smallest, minimizes(run), len(run.failures), x,
        outputs.objective or "", at, bool(outputs.limits), measured(run),
    )  # fmt: skip


def study_progress(place: Any) -> tuple[int, int]:
    """Return how many runs of the study in a place are complete, and how many it has.

    Parameters
    ----------
    place
        Folder or URL of the study.
    """
    record = study_record(place)
    if record is None:
        return 0, 0
    runs = runs_of(record)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # `check` and the next `run` say what is damaged
        store = StudyResults(record, place)
        return sum(store.has_rounds(run, rounds) for run, rounds in runs.items()), len(runs)


def minimizes(run: StoredRun) -> bool:
    """Return whether smaller values are better in a run.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    policy = run.specification.get("policy", {})
    return isinstance(policy, dict) and policy.get("minimize") is True


def measured(run: StoredRun) -> int:
    """Return the number of evaluations of a batch that are measured, and end when all of it are.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    return sum(ticket.state == "measured" for ticket in run.tickets.values())


def _extremes(run: StoredRun) -> tuple[float, float, Any, str]:
    """Return the smallest and the largest y, reading a block at a time, and x of the first best one, also as text.

    With constraints, of those that keep them; of a run in a context, of those in this. The numbers are NaN without
    observations; x is None then, and of a simulation.
    """
    names = {field.name for field in run.fields}
    if "y" not in names or not len(run):
        return math.nan, math.nan, None, ""
    here = in_context_of(run)
    smallest, largest = (math.inf, 0), (-math.inf, 0)  # with the row, and with minus the row: of equal ones the first
    for first in range(0, len(run), BLOCK):
        y = kept_values(run, first, first + BLOCK)
        if here is not None:
            y = np.where(here(run.read(first, first + BLOCK, ["x"])["x"]), y, np.nan)
        if np.isnan(y).all():  # an output of each misses its limit, or it has another context
            continue
        smallest = min(smallest, (float(np.nanmin(y)), first + int(np.nanargmin(y))))
        largest = max(largest, (float(np.nanmax(y)), -first - int(np.nanargmax(y))))
    if smallest[0] == math.inf:
        return math.nan, math.nan, None, ""
    x, at = None, ""
    if run.attributes.get("kind") != "simulate" and "x" in names:
        row, space = smallest[1] if minimizes(run) else -largest[1], known_space(run)
        point = run.read(row, row + 1, ["x"])["x"][0]
        x = point.tolist() if space is None else space.argument(point)
        at = point_text(x, 6, space)
    return smallest[0], largest[0], x, at


def type_name(described: Any) -> str:
    """Return the name of what is described: its class, or of a command the line.

    Parameters
    ----------
    described
        Description in the specification of a run.
    """
    if isinstance(described, dict) and described.get("type") == Command.__name__:
        return str(Command.from_dict(described))
    return str(described.get("type") or described.get("function") or "") if isinstance(described, dict) else ""


def state_of(run: StoredRun, writer: Mapping[str, Any] | None) -> str:
    """Return the state of a run, as `Status` has it.

    Parameters
    ----------
    run
        Run, open for reading.
    writer
        Record of the process that writes it, read before the run: one that ends in between has written more.
    """
    if writer is not None:
        return f"running ({writer['pid']})"
    if run.planned is not None and rounds_played(run) + len(run.failures) >= run.planned:
        return "complete"
    return "closed" if run.orderly else "interrupted"


class Check(NamedTuple):
    """Result of checking a store."""

    name: str  # name of the run's or the study's store
    parts: list[Part]

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged."""
        return not any(part.problem for part in self.parts)


def check(place: Any) -> list[Check]:
    """Read everything in a store and report damaged parts, without changing anything.

    Parameters
    ----------
    place
        Store of a run, or folder with several runs, such as a study.

    Returns
    -------
    list of Check
        Result for the study, if the folder is one, and for each run.

    Raises
    ------
    FileNotFoundError
        If there is no run.

    Examples
    --------
    >>> import tempfile
    >>> import scalable_bandits as sb
    >>> folder = tempfile.mkdtemp() + "/run.zarr"
    >>> environment = sb.TableEnvironment(sb.Arms(3), [0.1, 0.5, 0.2])
    >>> run = sb.simulate(sb.RandomSearch(sb.Arms(3)), environment, 20, store=folder)
    >>> all(found.whole for found in sb.check(folder))
    True
    """
    found, place = [], without_scheme(place)
    if isinstance(place, str | Path):
        parts = list(check_study(place))
        found += [Check(str(place), parts)] if parts else []
        if "://" in str(place) and any(part.problem and not part.mended for part in parts):
            return found  # only the study's record says which runs there are at a URL
    for run in runs_in(place):
        name = str(run) if isinstance(run, str | Path) else locate(run).name
        try:
            found.append(Check(name, list(check_run(run))))
        except FileNotFoundError as error:
            if str(run) == str(place) or not _not_begun(run, error):
                raise
            found.append(Check(name, [Part(NOT_BEGUN, "")]))
    return found


def _not_begun(place: Any, error: Exception) -> bool:
    """Return whether a run cannot be read since the process that was to begin it ended before there was one."""
    return isinstance(error, FileNotFoundError) and locate(place).unfinished()


def check_study(place: Any) -> Iterator[Part]:
    """Check what a study records of all its runs; yields nothing if the place has no study.

    Parameters
    ----------
    place
        Folder or URL.
    """
    location = locate(place)
    try:
        record = study_record(place)
    except StoreError as error:
        yield Part(METADATA, str(error))
        return
    if record is None:
        return
    found, damaged = study_copies(location)
    for file in (METADATA, FILE):
        if file not in found:
            yield Part(file, damaged.get(file, "it is missing"), mended=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the part says the same
        damage = StudyResults(record, place).damage
    if damage:
        yield Part(FILE, f"{damage}; its numbers are computed again from the runs")
    if not damaged and not damage:
        yield Part("the study's attributes and notes", "")


def release(place: Any) -> list[str]:
    """Remove the locks of writers on other machines, which are said to have ended; return messages on what was done.

    Parameters
    ----------
    place
        Store of a run, or folder or URL with several, such as a study.

    Raises
    ------
    StoreLocked
        If the operating system's lock shows that one of them still writes.
    """
    messages = []
    for run in runs_in(place):
        location = locate(run)
        owner = location.writer()
        if owner is not None and owner["host"] != socket.gethostname():
            location.release(owner)
            messages.append(f"store {location.name}: the lock of process {owner['pid']} on {owner['host']} was removed")
    return messages


def recover(place: Any) -> list[str]:
    """Replace damaged runs by new ones with everything that can be read; return messages on what was done.

    Parameters
    ----------
    place
        Store of a run, or folder with several; a copy of each damaged run is kept beside it.

    Raises
    ------
    StoreDamaged
        If not even the attributes of a run can be read.
    """
    messages, place = [], without_scheme(place)
    for run in runs_in(place):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                ObservationStore.open(run, "a", recover=True).close()
            except FileNotFoundError as error:
                if str(run) == str(place) or not _not_begun(run, error):
                    raise
        messages += [str(warning.message) for warning in caught]
    return messages
