"""What stores hold, at a glance, and going on with a run from its store alone."""

from __future__ import annotations

import importlib
import math
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.runs.maximize import Maximum, maximize
from scalable_bandits.runs.recording import environment_of, policy_of
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.store import ObservationStore, StoredRun, StoreError
from scalable_bandits.store.check import Part, check_run, check_study
from scalable_bandits.store.locations import COMMITTED
from scalable_bandits.store.resolve import locate
from scalable_bandits.store.studies import study_record

_ASIDE = re.compile(r"\.(damaged|earlier|recovering|upgrading)\d*$")  # names of what was put aside


class Status(NamedTuple):
    """One run, as far as it has come."""

    name: str  # of the store
    policy: str  # its class
    environment: str  # or the user's function
    rounds: int  # committed
    planned: int | None  # rounds that it is to have, where that is known
    state: str  # "running (process)", "interrupted", "closed", "complete", or why it cannot be read
    last_write: float  # seconds since 1970; NaN if unknown
    size: int | None  # bytes
    regret: float  # cumulative, in units of y; NaN for a run without
    largest: float  # largest y, in units of y; NaN before the first


def runs_in(place: Any) -> Iterator[Any]:
    """Places of the runs in a folder and below, itself included; a URL or a zarr store is one run. None of a new study.

    Parameters
    ----------
    place
        A folder, a URL that zarr knows, or a zarr store.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    """
    if not isinstance(place, str | Path) or "://" in str(place):
        yield place
        return
    marks = (f"{COMMITTED}/{file}" for file in ("zarr.json", "record.json", "writer.lock"))
    there = {file.parent.parent for mark in marks for file in Path(place).rglob(mark)}
    found = sorted(run for run in there if run == Path(place) or not _ASIDE.search(run.name))
    if not found and study_record(place) is not None:
        return
    if not found:
        ObservationStore.open(place)  # raises what is the matter, or it is a run of an earlier version
        found = [Path(place)]
    yield from found


def status(place: Any) -> Status:
    """Look at one run without disturbing its writer; `state` says why a run cannot be read.

    Parameters
    ----------
    place
        Place of the run's store.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the state says it
            run = ObservationStore.open(place)
        series = {field.name for field in run.fields}
        last = run.read(max(len(run) - 1, 0), names=["cumulative_regret"]) if "cumulative_regret" in series else {}
        regret = float(last["cumulative_regret"][-1]) if last and len(run) else math.nan
        largest = _largest(run)
    except (StoreError, OSError) as error:
        return Status(str(place), "", "", 0, None, str(error), math.nan, None, math.nan, math.nan)
    specification = run.specification
    against = specification.get("environment", specification.get("function", {}))
    return Status(
        run.location.name, _type(specification.get("policy", {})), _type(against), len(run), run.planned, _state(run),
        run.last_write or math.nan, run.size(), regret, largest,
    )  # fmt: skip


def _largest(run: StoredRun, block: int = 2**20) -> float:
    """Largest y, read a block at a time."""
    largest = -math.inf
    for first in range(0, len(run), block):
        largest = max(largest, float(np.max(run.read(first, first + block, ["y"])["y"])))
    return largest if len(run) else math.nan


def _type(described: Any) -> str:
    return str(described.get("type") or described.get("function") or "") if isinstance(described, dict) else ""


def _state(run: StoredRun) -> str:
    writer = run.location.writer()
    if writer is not None:
        return f"running ({writer['pid']})"
    notes = f" ({'; '.join(run.notes())})" if run.notes() else ""
    if run.planned is not None and len(run) >= run.planned:
        return f"complete{notes}"
    return f"{'closed' if run.orderly else 'interrupted'}{notes}"


class Check(NamedTuple):
    """What reading a store found."""

    name: str  # of the run's store, or the study's
    parts: list[Part]

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged."""
        return not any(part.problem for part in self.parts)


def check(place: Any) -> list[Check]:
    """Read everything in a store and say what of it is whole, and what is not. Nothing is changed.

    Parameters
    ----------
    place
        A run's store, or a folder with several, a study's among them.

    Returns
    -------
    list of Check
        One for each run, and one for the study.

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
    found = []
    if isinstance(place, str | Path):
        parts = list(check_study(place))
        found += [Check(str(place), parts)] if parts else []
    return found + [Check(_name_of(run), list(check_run(run))) for run in runs_in(place)]


def _name_of(place: Any) -> str:
    return str(place) if isinstance(place, str | Path) else locate(place).name


def function_of(name: str) -> Callable[[Any], float]:
    """The user's function, imported.

    Parameters
    ----------
    name
        "module:name"; a name with dots is looked for inside what comes before them.

    Raises
    ------
    ValueError
        If there is no such function.
    """
    module, _, inside = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in inside.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        checks.refuse("function", f"{name} ({error})", "module:name of a function that can be imported")
    if not callable(found):
        checks.refuse("function", name, "module:name of a function")
    return found


def recover(place: Any) -> list[str]:
    """Put new runs with everything that can be read in the place of the damaged ones; says what became of each.

    Parameters
    ----------
    place
        A run's store, or a folder with several; what was there is kept beside each.

    Raises
    ------
    StoreDamaged
        If not even its attributes can be read.
    """
    said = []
    for run in runs_in(place):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            ObservationStore.open(run, "a", recover=True).close()
        said += [str(warning.message) for warning in caught]
    return said


def resume(
    place: Any,
    *,
    rounds: int | None = None,
    function: str | None = None,
    recover: bool = False,
    takeover: bool = False,
    progress: bool = False,
    on: Any = None,
    parallel: int | None = None,
) -> Trajectory | Maximum:
    """Go on with a run from its store alone, to the rounds that it was planned to have.

    Parameters
    ----------
    place
        Place of the store.
    rounds
        Rounds that the run is to have in the end, if not the planned number.
    function
        "module:name" of the user's function that a `maximize` run evaluates. Nothing is imported unless it is given.
    recover, takeover
        Explained at `ObservationStore.open`.
    progress
        Show a progress bar.
    on, parallel
        Where the evaluations of a `maximize` run are made, and how many at a time.

    Raises
    ------
    ValueError
        If the store alone does not say how the run goes on: it holds a function, or was asked and told by hand.
    """
    if recover or takeover:
        with ObservationStore.open(place, "a", recover=recover, takeover=takeover):
            pass
    run = ObservationStore.open(place)
    kind, target = run.attributes["kind"], run.planned if rounds is None else checks.integer("rounds", rounds, 1)
    if kind not in ("simulate", "maximize"):
        allowed = "a run of `simulate` or `maximize`; go on with this one by the program that asks and tells"
        checks.refuse("store", f"{run.location.name}, of kind {kind!r}", allowed)
    if target is None:
        checks.refuse("rounds", None, "how many rounds the run is to have: the store does not say")
    policy = policy_of(run)
    if kind == "maximize":
        known = run.specification["function"].get("function", "")
        if function is None:
            checks.refuse("function", None, f"module:name of the function that the run evaluates ({known})")
        return maximize(function_of(function), policy, target, store=place, progress=progress, on=on, parallel=parallel)
    if on is not None or parallel is not None:
        checks.refuse("on, parallel", (on, parallel), "None: a simulation runs in this process")
    if "available" in run.specification:
        checks.refuse("store", "availability sets by a function", "a run without: run the script that made it again")
    return simulate(policy, environment_of(run), target, store=place, progress=progress)
