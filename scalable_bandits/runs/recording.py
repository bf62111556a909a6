"""Record a policy's observations in a store, and replay them on resume."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalable_bandits import checks, specification
from scalable_bandits.identity import undescribed
from scalable_bandits.policies import Policy
from scalable_bandits.runs.checkpointing import Checkpoints
from scalable_bandits.runs.evaluations import Evaluations, check_fresh
from scalable_bandits.runs.thinning import rounds_played
from scalable_bandits.spaces import Space
from scalable_bandits.specification import CODED, specify
from scalable_bandits.store import Durability, Field, ObservationStore, SpecificationDiffers, StoredRun
from scalable_bandits.store.layout import check_room
from scalable_bandits.store.locations import locate

UNDESCRIBED = (
    "with a store, values that are the same in every process: texts, numbers, members of an Enum, functions and "
    "classes that can be imported, objects that pickle tells apart; or names, which your function looks up"
)
FOLDER = (
    "a folder, where every value is a transaction: object stores take simulations and studies; copy a finished run "
    "with `copy`, or `ObservationStore.open(...).dataset().to_zarr(...)`"
)
REPLAY_BLOCK = 16_384  # rounds read at a time


def point_fields(space: Space) -> tuple[Field, Field]:
    """Return the fields of a round's candidate number and of its x, which for arms is the number."""
    if not space.has_coordinates:
        return Field("candidate", "int64"), Field("x", "int64")
    return Field("candidate", "int64"), Field("x", shape=(space.dimension,), dimensions=("dimension",))


def open_run(
    place: Any,
    kind: str,
    fields: Sequence[Field],
    parts: Mapping[str, Any],
    planned: int | None,
    durability: Durability,
    *,
    settings: Mapping[str, Any] | None = None,
    rows: int | None = None,
) -> ObservationStore:
    """Open a run for writing, or create it.

    Parameters
    ----------
    place
        Place of the store.
    kind
        Kind of the run, such as "simulate".
    fields
        Quantities recorded each round.
    parts
        Specifications that make the run, by name.
    planned
        Planned number of rounds; None if it is open.
    durability
        When rounds are durable, as in `ObservationStore.create`.
    settings
        Attributes of the run that may change.
    rows
        Number of rounds that it will store in all; the planned number if not given.

    Raises
    ------
    SpecificationDiffers
        If the store contains a run of another specification; the message lists the differences.
    ValueError
        If a value of a parameter cannot be told from others, or the disk has no room for the rounds that are planned.
    """
    from scalable_bandits import __version__

    for name, part in parts.items():
        specification.check_kept(name, part)
    given, inputs = specify(parts, coded=CODED)
    unknown = undescribed(given)
    if unknown is not None:
        checks.refuse(unknown, "a value without a description", UNDESCRIBED)
    argument = "horizon" if kind == "simulate" else "budget"
    needed = (planned or 0) if rows is None else rows
    location = locate(place)
    if kind != "simulate" and not location.keeps_tickets:
        checks.refuse("store", location.name, FOLDER)
    try:
        store = ObservationStore.open(location, "a", durability=durability)
    except FileNotFoundError:
        check_room(location, fields, needed, argument)
        return ObservationStore.create(
            location, fields, specification=given, planned=planned, durability=durability, inputs=inputs,
            attributes={
                "kind": kind, "version": __version__, **({} if settings is None else {"settings": dict(settings)}),
            },
        )  # fmt: skip
    try:
        _check_same(store, kind, fields, given)
        check_room(store.location, fields, needed - len(store), argument)
        target = store.planned if planned is None else max(planned, rounds_played(store) + len(store.failures))
        store.plan(target, settings, specification.at_places(store.specification, given))  # of a pool that was moved
    except BaseException:
        store.close(orderly=store.orderly)
        raise
    return store


def _check_same(store: ObservationStore, kind: str, fields: Sequence[Field], given: Mapping[str, Any]) -> None:
    found = store.attributes.get("kind")
    lines = [] if found == kind else [f"kind: stored {found!r}, given {kind!r}"]
    lines += specification.differences(store.specification, given)
    if not lines and store.fields != tuple(fields):
        lines = [f"fields: stored {[f.name for f in store.fields]}, given {[f.name for f in fields]}"]
    if lines:
        listed = "\n  ".join(lines)
        hint = "the run in it has another specification: go on with that one, or name a new store. Differences:"
        raise SpecificationDiffers(f"store {store.location.name}: {hint}\n  {listed}")


def _replay(policy: Policy, store: ObservationStore, checkpoints: Checkpoints) -> int:
    """Tell a policy the stored observations; what was not told is pending. Return the number of the last call."""
    done = checkpoints.restore(len(store))
    started = time.perf_counter()
    calls = replay_calls(policy, store, done)
    checkpoints.add_work(time.perf_counter() - started)
    if policy.domain.by_visit:  # the points that were asked for have the same numbers as before
        untold = {t.candidate: t.x for t in store.tickets.values() if t.state != "done" and t.x}
        points = np.array(list(untold.values()), dtype=np.float64).reshape(len(untold), policy.space.dimension)
        policy._introduce(np.array(list(untold), dtype=np.int64), points)
    policy._restore_pending(store.pending, reissue=store.kept or not store.orderly)
    return calls


def replay_calls(policy: Policy, run: StoredRun, start: int = 0) -> int:
    """Tell the policy a recording's rounds after the first `start`, and its failures, in the order of the recording.

    Parameters
    ----------
    policy
        Policy of the recording's specification, which has learned the first `start` rounds.
    run
        Run that was recorded.
    start
        Number of rounds that the policy has learned. It has learned the first `policy.failures` failures, too.

    Returns
    -------
    int
        Number of the last call.
    """
    call = abs(int(run.read(start - 1, start, ["call"])["call"][0])) if start else 0
    done, failures = start, run.failures[policy.failures :]
    while True:
        while failures and (failures[0].round or 0) <= done:
            failure = failures.pop(0)
            point = np.array([failure.x])
            policy._introduce(np.array([failure.candidate]), point)
            policy.tell_failure(point if policy.space.has_coordinates else int(failure.x[0]), failure.trace)
        if done >= len(run):
            return call
        stop = min(done + REPLAY_BLOCK, (failures[0].round or 0) if failures else len(run), len(run))
        rows = run.read(done, stop)
        policy._introduce(rows["candidate"], rows["x"])
        bounds = [0, *(np.flatnonzero(np.diff(np.abs(rows["call"]))) + 1).tolist(), len(rows["call"])]
        if stop == done + REPLAY_BLOCK < len(run) and len(bounds) > 2:
            bounds.pop()  # the last call may go on in the next block
        for first, end in itertools.pairwise(bounds):
            noise = rows["noise"][first:end]
            own = None if np.isnan(noise).any() else noise
            beside = rows["outputs"][first:end] if "outputs" in rows else None
            policy._tell(rows["call"][first:end] > 0, rows["x"][first:end], rows["y"][first:end], own, beside)
        done, call = done + bounds[-1], abs(int(rows["call"][bounds[-1] - 1]))


def record(
    policy: Policy,
    store: Any,
    *,
    durability: Durability = "round",
    planned: int | None = None,
    parts: Mapping[str, Any] | None = None,
    kind: str = "record",
    settings: Mapping[str, Any] | None = None,
) -> Evaluations:
    """Record every `ask` and `tell` of a policy in a store, after replaying the observations in it.

    Points that an earlier process asked for and did not tell are pending again. If that process closed the recording,
    they remain pending; if it died, `ask` returns them again before it chooses new points.

    Parameters
    ----------
    policy
        Fresh policy, neither asked nor told, nor recorded elsewhere. Copies of it are not recorded.
    store
        Store of the recording: a folder.
    durability
        Guarantee of the store: "round" writes an observation to disk before `tell` returns, "block" with the first
        change more than a second after the last write, or by `flush`: in a crash the last ones may be lost.
    planned
        Number of rounds that the run will have, for `scalable-bandits status`.
    parts
        Additional parts of the run's specification.
    kind
        Kind of the run, stored in its attributes.
    settings
        Settings of the run, stored in its attributes; they may be others when it is resumed.

    Raises
    ------
    ValueError
        If the policy was asked or told before, is recorded already, or is not a policy.
    SpecificationDiffers
        If the store contains a run of another specification.
    StoreLocked
        If another process is writing to the store.
    StoreDamaged
        If the store cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import scalable_bandits as sb
    >>> folder = tempfile.mkdtemp() + "/run.zarr"
    >>> for _ in range(2):  # the second policy continues the run
    ...     policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2))
    ...     with sb.record(policy, folder):
    ...         x = policy.ask()
    ...         policy.tell(x, float(-((x[0] - 0.3) ** 2)))
    >>> policy.rounds
    2
    """
    check_fresh(policy)
    planned = None if planned is None else checks.integer("planned", planned, 1)
    candidate, x = point_fields(policy.space)
    fields = [Field("call", "int64"), candidate, x, Field("y"), Field("noise"), Field("time")]
    if policy.outputs is not None:  # those besides the objective, y
        fields.append(Field("outputs", shape=(len(policy.outputs.others),), dimensions=("output",)))
    parts = {"policy": policy, **(parts or {})}
    opened = open_run(store, kind, fields, parts, planned, durability, settings=settings)
    try:
        checkpoints = Checkpoints(policy, opened)
        return Evaluations(policy, opened, checkpoints, _replay(policy, opened, checkpoints))
    except BaseException:
        opened.close(orderly=opened.orderly)
        raise
