"""Status of stored runs, their check and recovery, and resuming a run from its store alone."""

from __future__ import annotations

import math
import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import visible
from scalable_bandits.posteriors.placement import is_local
from scalable_bandits.runs.commands import Command, command_of
from scalable_bandits.runs.maximize import maximize, minimize
from scalable_bandits.runs.recording import environment_of, named_space, policy_of
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.runs.thinning import rounds_played
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.specification import Specification, imported
from scalable_bandits.store import ObservationStore, StoredRun, StoreError
from scalable_bandits.store.check import Part, check_run, check_study
from scalable_bandits.store.locations import COMMITTED
from scalable_bandits.store.resolve import locate
from scalable_bandits.store.studies import StudyStore, all_runs, study_record

SETTINGS = ("parallel", "on", "retries", "timeout")  # arguments of a tuning run that its store has
_ASIDE = re.compile(r"\.(damaged|recovering)\d*$")  # names of files set aside


class Status(NamedTuple):
    """Status of one run."""

    name: str  # name of the store
    policy: str  # class of the policy
    environment: str  # class of the environment, or name of the user's function
    rounds: int  # number of the last committed round
    planned: int | None  # number of rounds that the run will have, if known
    state: str  # "running (process)", "interrupted", "closed", "complete", or why it cannot be read
    last_write: float  # time of the last write, in seconds since 1970; NaN if unknown
    size: int | None  # size of the store in bytes
    regret: float  # cumulative regret, in units of y; NaN for a run without regret
    largest: float  # largest observation, in units of y; NaN before the first
    smallest: float  # smallest observation, in units of y; NaN before the first
    minimize: bool  # whether the smallest observation is the best one
    failures: int  # number of failed evaluations that the policy was told
    x: Any = None  # best point of a tuning run: a dict of a named space, coordinates, or an arm number

    @property
    def best(self) -> float:
        """Best observation, in units of y; NaN before the first."""
        return self.smallest if self.minimize else self.largest


def runs_in(place: Any) -> Iterator[Any]:
    """Find the runs in a folder and below, the folder included; a URL or a zarr store is one run.

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
    if not isinstance(place, str | Path) or "://" in str(place):
        yield place
        return
    marks = {"zarr.json", "record.json", "writer.lock"}
    inside = ((Path(folder), files) for folder, _, files in os.walk(place))
    folders = {folder.parent for folder, files in inside if folder.name == COMMITTED and marks.intersection(files)}
    found = sorted(run for run in folders if run == Path(place) or not _ASIDE.search(run.name))
    if not found and study_record(place) is not None:
        return
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
            run = ObservationStore.open(place)
        series = {field.name for field in run.fields}
        last = run.read(max(len(run) - 1, 0), names=["cumulative_regret"]) if "cumulative_regret" in series else {}
        regret = float(last["cumulative_regret"][-1]) if last and len(run) else math.nan
        smallest, largest = _range(run)
        state, size = _state(run), run.size()
    except (StoreError, OSError) as error:
        nothing = math.nan
        return Status(str(place), "", "", 0, None, str(error), nothing, None, nothing, nothing, nothing, False, 0)
    specification = run.specification
    against = specification.get("environment", specification.get("function", {}))
    return Status(
        run.location.name, _type(specification.get("policy", {})), _type(against), rounds_played(run), run.planned,
        state, run.last_write or math.nan, size, regret, largest, smallest, minimizes(run), len(run.failures),
        _best_point(run, smallest if minimizes(run) else largest),
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
    runs = len(list(all_runs(record)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # `check` and the next `run` say what is damaged
        return runs - len(StudyStore(place, record).missing(record["horizon"])), runs


def minimizes(run: StoredRun) -> bool:
    """Return whether smaller values are better in a run.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    policy = run.specification.get("policy", {})
    return isinstance(policy, dict) and policy.get("minimize") is True


def _range(run: StoredRun, block: int = 2**20) -> tuple[float, float]:
    """Return the smallest and the largest y, reading a block at a time; NaN without any."""
    smallest, largest = math.inf, -math.inf
    for first in range(0, len(run), block):
        y = run.read(first, first + block, ["y"])["y"]
        smallest, largest = min(smallest, float(y.min())), max(largest, float(y.max()))
    return (smallest, largest) if len(run) else (math.nan, math.nan)


def _best_point(run: StoredRun, best: float, block: int = 2**20) -> Any:
    """Return x of the first observation of a value; None of a simulation, and without observations."""
    if run.attributes.get("kind") == "simulate":
        return None
    for first in range(0, len(run), block):
        at = np.flatnonzero(run.read(first, first + block, ["y"])["y"] == best)
        if len(at):
            x = run.read(first + int(at[0]), first + int(at[0]) + 1, ["x"])["x"][0]
            space = named_space(run)
            return x.tolist() if space is None else space.setting(x)
    return None


def _type(described: Any) -> str:
    """Return the name of what is described: its class, or of a command the line."""
    if isinstance(described, dict) and described.get("type") == Command.__name__:
        return str(Command.from_dict(described))
    return str(described.get("type") or described.get("function") or "") if isinstance(described, dict) else ""


def _state(run: StoredRun) -> str:
    writer = run.location.writer()
    if writer is not None:
        return f"running ({writer['pid']})"
    notes = f" ({'; '.join(run.notes())})" if run.notes() else ""
    if run.planned is not None and rounds_played(run) + len(run.failures) >= run.planned:
        return f"complete{notes}"
    return f"{'closed' if run.orderly else 'interrupted'}{notes}"


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
    found = []
    if isinstance(place, str | Path):
        parts = list(check_study(place))
        found += [Check(str(place), parts)] if parts else []
        if found and "://" in str(place):  # runs below a URL are not listed
            return found
    return found + [Check(_name_of(run), list(check_run(run))) for run in runs_in(place)]


def _name_of(place: Any) -> str:
    return str(place) if isinstance(place, str | Path) else locate(place).name


def function_of(name: str) -> Callable[[Any], float]:
    """Import the user's function.

    Parameters
    ----------
    name
        Module and name, "module:name"; the name may have dots.

    Raises
    ------
    ValueError
        If there is no such function.
    """
    found: Callable[[Any], float] = imported("function", name, "a function")
    if not callable(found):
        checks.refuse("function", name, "module:name of a function")
    return found


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
    messages = []
    for run in runs_in(place):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            ObservationStore.open(run, "a", recover=True).close()
        messages += [str(warning.message) for warning in caught]
    return messages


def resume(
    place: Any,
    *,
    rounds: int | None = None,
    function: str | None = None,
    classes: Sequence[str] = (),
    recover: bool = False,
    takeover: bool = False,
    progress: bool | None = None,
    on: Any = None,
    parallel: int | None = None,
    command: str | Command | None = None,
) -> Trajectory | TuningResult:
    """Continue a run from its store alone, up to its planned number of rounds.

    A store starts no program and reaches no other machine: what the run evaluates (a function or a command), and a
    cluster (a recipe, an address) that it was evaluated on, have to be named again.

    Parameters
    ----------
    place
        Place of the store.
    rounds
        Total number of rounds of the run; the planned number if not given.
    function
        Module and name, "module:name", of the function that a `minimize` or `maximize` run evaluates. Nothing is
        imported without it.
    classes
        Classes of the user's that the run is made of, each as "module:Class". No others are imported.
    recover, takeover
        Arguments of `ObservationStore.open`.
    progress
        Whether to show a progress bar. If not given: of `minimize` and `maximize` as there, of a simulation not.
    on, parallel
        Executor and number of the evaluations in flight, as in `minimize`. If not given, as in the run so far, if that
        was this process, its threads, or worker processes of this machine.
    command
        Command that the run evaluates, as it is in the store: its line, or a `Command`.

    Raises
    ------
    ValueError
        If the store alone cannot continue the run, since it was made by `record` or its specification has a function;
        if something has to be named again.
    """
    for name in classes:
        Specification.allow(name)
    if recover or takeover:
        with ObservationStore.open(place, "a", recover=recover, takeover=takeover):
            pass
    run = ObservationStore.open(place)
    kind, target = run.attributes["kind"], run.planned if rounds is None else checks.integer("rounds", rounds, 1)
    if kind not in ("simulate", "minimize", "maximize"):
        allowed = "a run of `simulate`, `minimize` or `maximize`; continue this one by the program that asks and tells"
        checks.refuse("store", f"{run.location.name}, of kind {kind!r}", allowed)
    if target is None:
        checks.refuse("rounds", None, "a number of rounds, since the store has no planned number")
    policy = policy_of(run)
    if kind != "simulate":
        settings = _settings(run, on, parallel)
        budget = target - int((run.read(names=["call"])["call"] == 0).sum())  # earlier observations are rounds, too
        find = minimize if kind == "minimize" else maximize
        return find(_evaluated(run, function, command), policy, budget, store=place, progress=progress, **settings)
    if any(given is not None for given in (on, parallel, command)):
        checks.refuse("on, parallel, command", (on, parallel, command), "None: a simulation runs in this process")
    if "available" in run.specification:
        given = f"{run.location.name}, whose availability sets are given by a function"
        checks.refuse("store", given, "a run without `available`: to continue this one, run its script again")
    return simulate(policy, environment_of(run), target, store=place, progress=bool(progress))


def _settings(run: StoredRun, on: Any, parallel: int | None) -> dict[str, Any]:
    """Return the settings of a tuning run in its store, with others where they are given."""
    stored = run.attributes.get("settings", {})
    given = {name: value for name, value in (("on", on), ("parallel", parallel)) if value is not None}
    settings = {name: stored[name] for name in SETTINGS if name in stored} | given
    if on is None and not is_local(settings.get("on")):
        again = f"--on {shlex.quote(visible(str(settings['on'])))}, or another, such as threads:1 (this process)"
        checks.refuse("on", None, f"the cluster of the run, named again, since a store alone reaches none: {again}")
    return settings


def command_in(place: Any) -> Command | None:
    """Return the command that the run in a store evaluates; None if it evaluates a function, or cannot be read.

    Parameters
    ----------
    place
        Place of the store.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # `resume` says the same
        try:
            return command_of(ObservationStore.open(place))
        except (StoreError, OSError):
            return None


def _evaluated(run: StoredRun, name: str | None, command: str | Command | None) -> Callable[[Any], float]:
    """Return the command or the function that a run evaluates, either of which has to be named."""
    stored = command_of(run)
    if stored is not None:
        if name is not None:
            checks.refuse("function", name, f"None: the run evaluates the command {stored}")
        if command is None or not stored.is_named_by(command):
            again = f"--command {shlex.quote(visible(str(stored)))}"
            given = command if command is None else str(command)
            checks.refuse("command", given, f"the program that the run starts, named again: {again}")
        return stored
    if command is not None:
        checks.refuse("command", str(command), "None: the run evaluates a function")
    if name is None:
        known = run.specification["function"].get("function", "")
        checks.refuse("function", None, f"module:name of the function that the run evaluates ({known})")
    return function_of(name)
