"""Record a policy's observations in a store, and replay them on resume."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks, specification
from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.policies import Policy
from scalable_bandits.runs.preconditions import check_fresh, check_unrecorded
from scalable_bandits.spaces import Indices, Mask, Space
from scalable_bandits.specification import specify
from scalable_bandits.store import (
    Durability,
    Field,
    ObservationStore,
    SpecificationDiffers,
    StoredRun,
    StoreError,
    checkpoints,
)
from scalable_bandits.store.layout import CHUNK
from scalable_bandits.store.pending import Proposals

REPLAY_BLOCK = 16_384  # rounds read at a time


def policy_of(run: StoredRun) -> Policy:
    """Make a run's policy anew, fresh.

    Raises
    ------
    ValueError
        If it is no policy, or holds a function or an object that is no specification: code is not kept in a store.
    """
    return Policy.from_dict(_plain(run, "policy"))


def environment_of(run: StoredRun) -> Environment:
    """Make a simulated run's environment anew; ValueError as of `policy_of`."""
    return Environment.from_dict(_plain(run, "environment"))


def _plain(run: StoredRun, name: str) -> Any:
    """One part of a run's specification, with the arrays that it speaks of."""

    def fill(value: Any, place: str) -> Any:
        if isinstance(value, Mapping):
            if "function" in value and "type" not in value:
                allowed = "plain data: run the script that made this run again, and it will go on"
                checks.refuse(place, value["function"], allowed)
            if "array" in value and "type" not in value:
                return run.input(value)
            return {key: fill(v, f"{place}.{key}") for key, v in value.items()}
        return [fill(v, place) for v in value] if isinstance(value, list) else value

    return fill(run.specification[name], name)


def point_fields(space: Space) -> tuple[Field, Field]:
    """Fields of the candidate's number and of its point; an arm is its number."""
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
    chunk: int = CHUNK,
) -> ObservationStore:
    """Open the run of a specification for writing, or make it.

    Raises
    ------
    SpecificationDiffers
        If the store holds a run that something else made; the message shows the fields that differ.
    """
    from scalable_bandits import __version__

    given, inputs = specify(parts)
    try:
        store = ObservationStore.open(place, "a", durability=durability)
    except FileNotFoundError:
        return ObservationStore.create(
            place, fields, specification=given, planned=planned, durability=durability, inputs=inputs, chunk=chunk,
            attributes={"kind": kind, "version": __version__, **_of_whole_boxes(parts["policy"])},
        )  # fmt: skip
    try:
        _check_same(store, kind, fields, given)
    except BaseException:
        store.close(orderly=store.orderly)
        raise
    if planned is not None:
        store.plan(max(planned, len(store)))
    return store


def _of_whole_boxes(policy: Policy) -> dict[str, int]:
    """Dimension of the points that a policy makes itself, which are kept with what is pending."""
    return {"proposals": policy.space.dimension} if policy.domain.whole_box else {}


def _check_same(store: ObservationStore, kind: str, fields: Sequence[Field], given: Mapping[str, Any]) -> None:
    found = store.attributes.get("kind")
    lines = [] if found == kind else [f"kind: stored {found!r}, given {kind!r}"]
    differing = specification.differences(store.specification, given)
    if "upgraded_from" in store.attributes:  # its specification is not complete
        differing = [line for line in differing if ": stored nothing, " not in line]
    lines += differing
    if not lines and store.fields != tuple(fields):
        lines = [f"fields: stored {[f.name for f in store.fields]}, given {[f.name for f in fields]}"]
    if lines:
        listed = "\n  ".join(lines)
        hint = "it holds a run that something else made: go on with what made it, or name another store. What differs:"
        raise SpecificationDiffers(f"store {store.location.name}: {hint}\n  {listed}")


class Checkpoints:
    """When to keep a policy's state, and going back to it.

    A state is worth keeping when learning all rounds again would cost more than a tenth of the run. Between two of
    them lie at least a second, ten times what writing one takes, and a twentieth of the policy's work so far.

    Parameters
    ----------
    policy
        Policy whose state is kept.
    store
        Store of the policy's run.
    """

    LEAST_SECONDS = 1.0

    def __init__(self, policy: Policy, store: ObservationStore):
        from scalable_bandits import __version__

        self.policy, self.store, self._stamp = policy, store, __version__
        self._began = time.perf_counter()
        self._spent = self._since = self._cost = 0.0

    def spent(self, seconds: float) -> None:
        """The policy worked so long on rounds that are now in the store."""
        self._spent += seconds
        self._since += seconds
        wait = max(self.LEAST_SECONDS, 10.0 * self._cost, self._spent / 20.0)
        if self._since > wait and self._spent > 0.1 * (time.perf_counter() - self._began):
            self._try()

    def save(self) -> None:
        """Keep the state as it is now."""
        started = time.perf_counter()
        self.store.flush()
        run = self.store.attributes["id"]
        checkpoints.save(self.store.location, len(self.store), self.policy.state(), self._stamp, run)
        self._cost, self._since = time.perf_counter() - started, 0.0

    def finish(self) -> None:
        """Keep the last state, if what came since the last one kept is worth it."""
        if self._since > self.LEAST_SECONDS:
            self._try()

    def _try(self) -> None:
        """Keep the state, if there is room: a run does not fail for want of a checkpoint."""
        self._since = 0.0
        try:
            self.save()
        except OSError as error:
            warnings.warn(f"store {self.store.location.name}: no checkpoint was kept ({error})", stacklevel=5)

    def restore(self) -> int:
        """Bring a fresh policy to the latest state kept; tells after how many rounds that was."""
        location, run = self.store.location, self.store.attributes["id"]
        return checkpoints.restore(location, len(self.store), self._stamp, run, self.policy)


def replay(
    policy: Policy, store: ObservationStore, start: int, allowed: Callable[[int], Mask | None] | None = None
) -> None:
    """Tell a policy the rounds of a simulation from `start` on; asks too, where that leaves traces."""
    other = 0
    for first in range(start, len(store), REPLAY_BLOCK):
        rows = store.read(first, first + REPLAY_BLOCK, ["candidate", "y", "x"])
        policy.introduce(rows["candidate"], rows["x"])
        for t, (candidate, y) in enumerate(zip(rows["candidate"].tolist(), rows["y"].tolist(), strict=True), first + 1):
            if policy.ask_is_stateful:
                proposed = policy.propose(None if allowed is None else allowed(t))
                other += proposed != candidate
            policy.observe(candidate, y)
    if other:
        warnings.warn(
            f"store {store.location.name}: in {other} of its rounds this machine would have played another point "
            "(its arithmetic rounds differently); the run goes on from what is stored",
            stacklevel=3,
        )


class Recording:
    """A policy whose observations are kept; made by `record`. A context manager.

    Attributes
    ----------
    policy
        Asked and told as ever.
    store : ObservationStore
        Where it is kept.
    """

    def __init__(self, policy: Policy, store: ObservationStore):
        self.policy, self.store = policy, store
        self._calls = 0
        self._open = False  # whether what was stored last is being learned
        self._checkpoints = Checkpoints(policy, store)
        self._started = 0.0
        self._catch_up()
        policy.record_to(self)

    def _catch_up(self) -> None:
        """Tell the policy what the store holds, call by call as it was told."""
        policy, store = self.policy, self.store
        known = self._checkpoints.restore()
        if known:
            self._calls = int(store.read(known - 1, known, ["call"])["call"][0])
        started = time.perf_counter()
        while known < len(store):
            known += self._tell(store.read(known, known + REPLAY_BLOCK), known + REPLAY_BLOCK < len(store))
        self._checkpoints.spent(time.perf_counter() - started)
        self._introduce_pending()
        if policy.ask_is_stateful:
            for i in range(len(store.pending)):
                policy.pending_points.replace(store.pending[:i], reissue=False)
                policy.propose(policy.allowed(None))
        policy.pending_points.replace(store.pending, reissue=not store.orderly)

    def _introduce_pending(self) -> None:
        """Give the points that no round has their numbers, and count those that are lost."""
        visited, (points, given) = self.policy.finite_space, self.store.proposals
        if self.policy.domain.whole_box:
            unknown = (
                {} if given - 1 in points or given <= visited.size else {given - 1: np.full(visited.dimension, np.nan)}
            )
            rows = {**points, **unknown}
            numbers, where = np.array(list(rows), dtype=np.int64), np.array(list(rows.values()))
            self.policy.introduce(numbers, where.reshape(-1, visited.dimension))

    def _tell(self, rows: Mapping[str, NDArray[Any]], more: bool) -> int:
        """Tell a block of rounds, and say how many: where more follow, not its last call, which may go on in these."""
        self.policy.introduce(rows["candidate"], rows["x"])
        bounds = [0, *(np.flatnonzero(np.diff(rows["call"])) + 1).tolist(), len(rows["call"])]
        if more and len(bounds) > 2:
            bounds.pop()
        for start, stop in itertools.pairwise(bounds):
            noise = rows["noise"][start:stop]
            if self.policy.ask_is_stateful and stop == start + 1:
                self.policy.propose(self.policy.allowed(None))
            x = rows["x"][start:stop]
            self.policy.tell(x, rows["y"][start:stop], noise=None if np.isnan(noise).any() else noise)
            self._calls = int(rows["call"][start])
        return bounds[-1]

    def asked(self, pending: Sequence[int]) -> None:
        visited = self.policy.finite_space
        if not self.policy.domain.whole_box:
            self.store.note_pending(pending)
            return
        untold = self.policy.untold()
        points = dict(zip(untold.tolist(), visited.points(untold), strict=True))
        self.store.note_pending(pending, Proposals(points, visited.size))

    def tells(self, candidates: Indices, points: Floats, values: Floats, noise: Floats | None) -> None:
        if self._open:
            raise StoreError(
                f"store {self.store.location.name}: it holds a measurement that the policy did not come to learn; "
                "end this recording and make another, with a policy of the same making, which is told all of it"
            )
        count = len(values)
        space = self.policy.space
        self.store.append(
            {
                "call": np.full(count, self._calls + 1),
                "candidate": candidates,
                "x": points if space.has_coordinates else points[:, 0].astype(np.int64),
                "y": values,
                "noise": np.full(count, np.nan) if noise is None else noise,
                "time": np.full(count, time.time()),
            }
        )
        self._calls += 1
        self._open = True
        self._started = time.perf_counter()

    def told(self) -> None:
        self._open = False
        self._checkpoints.spent(time.perf_counter() - self._started)

    def flush(self) -> None:
        """Make everything told so far durable."""
        self.store.flush()

    def close(self, orderly: bool = True) -> None:
        """End the recording; the policy can be used on, unrecorded."""
        self.policy.record_to(None)
        try:
            if self.store.writable and not self._open:  # a state that was left half-way is not kept
                self._checkpoints.finish()
        finally:
            self.store.close(orderly)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(orderly=kind is None)


def record(
    policy: Policy,
    store: Any,
    *,
    durability: Durability = "round",
    planned: int | None = None,
    parts: Mapping[str, Any] | None = None,
    kind: str = "record",
) -> Recording:
    """Keep everything a policy is asked and told in a store, and take up what is there already.

    A fresh policy comes to know every observation in the store. Points that an earlier process asked for and did not
    tell are pending again: if that process closed the recording they stay so, and if it died `ask` gives them once more
    before it chooses new ones.

    Parameters
    ----------
    policy
        Fresh: neither asked nor told, nor recorded elsewhere. Copies of it are not recorded.
    store
        A folder, a URL that zarr knows, a zarr store, or an icechunk repository.
    durability
        "round": an observation is on disk when `tell` returns, whatever happens then. "block": at most a second's
        observations, or those since the last `flush`, can be lost.
    planned
        Rounds that the run is to have, for `scalable-bandits status`.
    parts
        More of the specification, which the run must have been made by.
    kind
        Kind of the run, kept in its attributes.

    Raises
    ------
    ValueError
        If the policy was asked or told before, is recorded already, or is no policy.
    SpecificationDiffers
        If the store holds a run of something else.
    StoreLocked
        If another process is writing it.
    StoreDamaged
        If what it holds cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import scalable_bandits as sb
    >>> folder = tempfile.mkdtemp() + "/run.zarr"
    >>> for _ in range(2):  # the second time, where the first one stopped
    ...     policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2))
    ...     with sb.record(policy, folder):
    ...         x = policy.ask()
    ...         policy.tell(x, float(-((x[0] - 0.3) ** 2)))
    >>> policy.rounds
    2
    """
    check_fresh(policy)
    check_unrecorded(policy)
    planned = None if planned is None else checks.integer("planned", planned, 1)
    candidate, x = point_fields(policy.space)
    fields = (Field("call", "int64"), candidate, x, Field("y"), Field("noise"), Field("time"))
    held = open_run(store, kind, fields, {"policy": policy, **(parts or {})}, planned, durability)
    try:
        return Recording(policy, held)
    except BaseException:
        held.close(orderly=held.orderly)
        raise
