"""Resuming a run from its store alone, which has policy, environment and space as plain data.

Parameters
----------
run
    Run, open for reading.
place
    Place of the store.
name
    Module and name, "module:name"; the name may have dots.
"""

from __future__ import annotations

import functools
import json
import math
import shlex
import warnings
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats, visible
from scalable_bandits.commands import Command, command_of
from scalable_bandits.environments import Environment
from scalable_bandits.policies import Policy
from scalable_bandits.posteriors.placement import is_local
from scalable_bandits.runs.maximize import maximize, minimize
from scalable_bandits.runs.result import TuningResult
from scalable_bandits.runs.screen import screen
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.runs.trajectory import Trajectory
from scalable_bandits.spaces import Integer, Mask, Pool, Real, SearchSpace, Space
from scalable_bandits.spaces.named import NamedSpace
from scalable_bandits.spaces.parameters import LARGEST
from scalable_bandits.spaces.pool import CANDIDATE
from scalable_bandits.specification import allow, imported, names_in
from scalable_bandits.store import ObservationStore, StoredRun, StoreError

NAMED = ("SearchSpace", "Settings")  # types of spaces whose parameters have names
SETTINGS = ("parallel", "on", "retries", "timeout", "batch")  # arguments of a tuning run that its store has


def policy_of(run: StoredRun, *, constrained: bool = True) -> Policy:
    """Make a fresh policy from the specification of a run.

    Parameters
    ----------
    run
        Run.
    constrained
        Whether the policy needs the constraints of a named space (`where`), which are functions. A policy without them
        believes the same, and may choose other points.

    Raises
    ------
    ValueError
        If the specification is not that of a policy, or contains a function or another object that a store cannot keep.
    """
    return Policy.from_dict(_specified(run, "policy", () if constrained else ("where",)))


def named_space(run: StoredRun) -> NamedSpace | None:
    """Return the space of a run as `labelled_space` does, if it has named parameters and can be made again.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    if _space_of(run).get("type") not in NAMED:
        return None
    try:
        space = labelled_space(run)
    except ValueError:
        return None
    return space if isinstance(space, NamedSpace) else None


def known_space(run: StoredRun) -> Space | None:
    """Return the space of a run where its points are known by more than coordinates: by names, or a pool's labels.

    Parameters
    ----------
    run
        Run, open for reading.

    Returns
    -------
    Space or None
        A named space, or a pool with labels or contexts; None for others, and for a pool that is elsewhere now.
    """
    if _space_of(run).get("type") != Pool.__name__:
        return named_space(run)
    try:
        space = labelled_space(run)
    except (ValueError, StoreError):
        return None
    return space if isinstance(space, Pool) and (space.shape.labelled or space.named) else None


def tabulated_space(run: StoredRun) -> Space | None:
    """Return the space of a run where tables have names for x: as `known_space` does, and of every pool.

    Of a pool that cannot be opened, which a warning says, its space without labels: "candidate" is the number.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    described = _space_of(run)
    if described.get("type") != Pool.__name__:
        return named_space(run)
    try:
        return labelled_space(run)
    except (ValueError, StoreError, ImportError) as error:
        checks.warn(f"the pool of the run cannot be opened: tables have numbers of candidates, not labels ({error})")
        contexts = {name: Real(*bounds) for name, bounds in (described.get("contexts") or {}).items()}
        return SearchSpace({CANDIDATE: Integer(0, LARGEST - 1), **contexts})


def labelled_space(run: StoredRun) -> Space:
    """Return the space of a run, without its constraints; values that a store cannot keep are replaced by their names.

    Parameters
    ----------
    run
        Run, open for reading.

    Raises
    ------
    ValueError
        If the specification has no space, or one of a class of the user's.
    """
    return Space.from_dict(_filled(run, _labelled(_space_of(run)), "space", ("where",)))


def _space_of(run: StoredRun) -> Mapping[str, Any]:
    """Return the description of a run's space; empty if it has none."""
    policy = run.specification.get("policy")
    space = policy.get("space") if isinstance(policy, Mapping) else None
    return space if isinstance(space, Mapping) else {}


def _labelled(space: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the description of a space, with texts for values that a store cannot keep."""
    inside = space.get("parameters")
    if space.get("type") not in NAMED or not isinstance(inside, Mapping):
        return space
    if isinstance(inside.get("type"), str):  # a `SearchSpace` in `Settings`
        return {**space, "parameters": _labelled(inside)}
    values = {name: [_label(each) for each in kind["values"]] for name, kind in inside.items() if "values" in kind}
    found = {name: {**kind, **({"values": values[name]} if name in values else {})} for name, kind in inside.items()}
    for kind in found.values():
        if isinstance(kind.get("when"), Mapping):
            pairs = kind["when"].items()  # several values are a list, and so is one that is a tuple
            several = {name for name, v in pairs if isinstance(v, list) and _label(v) not in values.get(name, ())}
            kind["when"] = {name: [_label(each) for each in (v if name in several else [v])] for name, v in pairs}
    return {**space, "parameters": found}


def _label(value: Any) -> Any:
    """Return a value; if it is described, the name of what it is, with a number that tells it from others."""
    if not isinstance(value, Mapping | list):
        return value
    text = json.dumps(value, sort_keys=True)
    name = text if isinstance(value, list) else str(value.get("function"))
    return name if isinstance(value, Mapping) and len(value) == 1 else f"{name} #{zlib.crc32(text.encode()):08x}"


def environment_of(run: StoredRun) -> Environment:
    """Make the environment of a simulated run from its specification; ValueError as in `policy_of`.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    return Environment.from_dict(_specified(run, "environment"))


def _specified(run: StoredRun, name: str, without: Collection[str] = ()) -> Any:
    """Return one part of a run's specification, with its arrays filled in, and without some keys."""
    return _filled(run, run.specification[name], name, without)


def _filled(run: StoredRun, part: Any, name: str, without: Collection[str]) -> Any:
    """Return a part of a specification of this name, as `_specified` does."""

    def fill(value: Any, place: str, by_name: bool = False) -> Any:
        if isinstance(value, Mapping) and by_name:  # no name of the user's means anything here
            return {key: fill(v, f"{place}.{key}") for key, v in value.items()}
        if isinstance(value, Mapping):
            allowed = "plain data, which a store can keep: to continue this run, run its script again"
            if "function" in value and "type" not in value:
                checks.refuse(place, value["function"], allowed)
            if value.get("type") == Command.__name__:
                checks.refuse(place, value.get("command"), allowed)
            if "array" in value and "type" not in value:
                return run.input(value)
            names = names_in(value)
            return {key: fill(v, f"{place}.{key}", key in names) for key, v in value.items() if key not in without}
        return [fill(v, place) for v in value] if isinstance(value, list) else value

    return fill(part, name)


def function_of(name: str) -> Callable[[Any], float]:
    """Import the user's function; ValueError if the name is that of nothing, or of no function."""
    found: Callable[[Any], float] = imported("function", name, "a function")
    if not callable(found):
        checks.refuse("function", name, "module:name of a function")
    return found


def resume(
    place: Any, *, rounds: int | None = None, function: str | None = None, classes: Sequence[str] = (),
    recover: bool = False, takeover: bool = False, progress: bool | None = None, on: Any = None,
    parallel: int | None = None, command: str | Command | None = None,
) -> Trajectory | TuningResult:  # fmt: skip
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
        allow(name)
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
    try:
        policy = policy_of(run)
    except ValueError as error:
        if _space_of(run).get("type") != "Pool":
            raise
        raise ValueError(f"{error}; where the pool has moved, `screen` with its new place continues the run") from None
    if kind != "simulate":
        settings = _settings(run, on, parallel)
        budget = target - int((run.read(names=["call"])["call"] == 0).sum())  # earlier observations are rounds, too
        find: Callable[..., TuningResult] = minimize if kind == "minimize" else maximize
        if "batch" in settings:
            find = functools.partial(screen, minimize=kind == "minimize")
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
    if (context := context_of(run)) is not None:
        settings["context"] = context
    if on is None and not is_local(settings.get("on")):
        again = f"--on {shlex.quote(visible(str(settings['on'])))}, or another, such as threads:1 (this process)"
        checks.refuse("on", None, f"the cluster of the run, named again, since a store alone reaches none: {again}")
    return settings


def context_of(run: StoredRun) -> dict[Any, Any] | None:
    """Return the context of the last call of a tuning run; None if it chose all values.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    pairs = run.attributes.get("settings", {}).get("context")
    return None if pairs is None else dict(pairs)  # not kept as a dict: its keys may be dimensions


def in_context_of(run: StoredRun) -> Callable[[Floats], Mask] | None:
    """Return the function from points (k, d) to the mask (k,) of those in the context of a run's last call.

    None for a run without a context, and on a pool with contexts that has moved.

    Parameters
    ----------
    run
        Run, open for reading.
    """
    context, space = context_of(run), known_space(run)
    if context is None:
        return None
    if space is not None and (point := space.context(context)) is not None:
        given: Mapping[Any, Any] = dict(enumerate(point.tolist()))
    elif all(isinstance(key, int) for key in context):
        given = context
    else:
        return None
    fixed = {int(place): float(value) for place, value in given.items() if not math.isnan(value)}
    places, values = list(fixed), np.array(list(fixed.values()))
    # A grid's coordinates may have rounding errors.
    return lambda points: np.isclose(points[:, places], values, rtol=1e-12, atol=0.0).all(axis=1)


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
