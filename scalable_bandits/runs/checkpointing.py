"""Checkpoints of a policy in the store of its run; the thread that writes while the next rounds are played."""

from __future__ import annotations

import functools
import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Protocol

from scalable_bandits import checks
from scalable_bandits.posteriors import State
from scalable_bandits.posteriors.state import copied, undeclared
from scalable_bandits.store import ObservationStore, checkpoints
from scalable_bandits.store.checkpoints import Restorable

LARGEST_COPY = 2**28  # bytes of a state that is copied, so that it is written while the next rounds are played
MOST_WAITING = 4  # largest number of calls in the queue of what is written behind


class Learner(Restorable, Protocol):
    """Interface of a policy of which checkpoints are saved."""

    @property
    def rounds(self) -> int:
        """Number of rounds in the state."""


class Checkpoints:
    """Checkpoints of a policy's state in its run's store.

    A checkpoint is saved when replaying all rounds would take more than a tenth of the run's time. The time between
    two checkpoints is at least a second, ten times the time of saving, and a twentieth of the policy's work so far.
    There are none of a policy with a class whose state is not declared (`STATE`), which a warning says: all rounds of
    its run are replayed.

    Parameters
    ----------
    learner
        Policy of the run, or what has its state and more.
    store
        Store of the run.
    policy
        Policy of the run, if that is not the learner.

    Attributes
    ----------
    behind : WriteBehind or None
        Thread that writes rounds and checkpoints in their order; None: a checkpoint is written at once.
    """

    LEAST_SECONDS = 1.0

    def __init__(self, learner: Learner, store: ObservationStore, policy: object = None):
        from scalable_bandits import __version__

        self.learner, self.store, self._stamp = learner, store, __version__
        self._began = time.perf_counter()
        self._spent = self._since = self._cost = 0.0
        self.behind: WriteBehind | None = None
        self._failure = ""  # why the last checkpoint could not be saved
        self._undeclared, self._warned = undeclared(type(learner if policy is None else policy)), False

    def add_work(self, seconds: float) -> None:
        """Count the policy's time on rounds that are now in the store, and save a checkpoint if one is due."""
        self._spent += seconds
        self._since += seconds
        wait = max(self.LEAST_SECONDS, 10.0 * self._cost, self._spent / 20.0)
        if self._since > wait and self._spent > 0.1 * (time.perf_counter() - self._began):
            self.save()

    def save(self) -> None:
        """Save the present state. An OSError, such as a full disk, becomes a warning."""
        self._since = 0.0
        if self._undeclared is not None:
            self._warn_of(self._undeclared)
            return
        state = self.learner.state()
        if self.behind is not None and sum(held.nbytes for held in state.values()) <= LARGEST_COPY:
            self.behind.put(functools.partial(self._write, self.learner.rounds, copied(state)))
        else:
            if self.behind is not None:
                self.behind.drain()
            self._write(self.learner.rounds, state)
        self._warn()

    def _write(self, rounds: int, state: State) -> None:
        """Write the state after so many rounds, all of which the store has."""
        started = time.perf_counter()
        try:
            self.store.flush()
            run = self.store.attributes["id"]
            checkpoints.save(self.store.location, rounds, state, self._stamp, run)
        except OSError as error:
            self._failure = str(error)
        self._cost = time.perf_counter() - started

    def _warn(self) -> None:
        """Warn of the last checkpoint if it could not be saved, once."""
        if self._failure:
            failure, self._failure = self._failure, ""
            checks.warn(f"store {self.store.location.name}: no checkpoint was saved ({failure})")

    def _warn_of(self, undeclared: type) -> None:
        """Warn, once, that there are no checkpoints of a policy with such a class."""
        if not self._warned:
            self._warned = True
            checks.warn(
                f"store {self.store.location.name}: no checkpoints are saved, and all rounds are replayed where the "
                f"run goes on, since {undeclared.__name__} has no STATE: its class attribute that declares what the "
                "policy keeps besides its parameters, () if that is nothing"
            )

    def finish(self) -> None:
        """Save the last state, unless replaying the rounds since the last checkpoint is fast."""
        if self._since > self.LEAST_SECONDS:
            self.save()
        self._warn()

    def of_another_version(self) -> bool:
        """Return whether the checkpoint is one that another version of the package saved."""
        header = checkpoints.read_header(self.store.location)
        return self._undeclared is None and not header.problem and header.stamp != self._stamp

    def restore(self, most: int) -> int:
        """Restore a fresh policy from a checkpoint of at most so many rounds; return its number of rounds."""
        if self._undeclared is not None:  # one of an earlier version lacks a part
            return 0
        location, run = self.store.location, self.store.attributes["id"]
        return checkpoints.restore(location, most, self._stamp, run, self.learner)


class WriteBehind(AbstractContextManager["WriteBehind", None]):
    """Thread that makes calls in their order; a context manager, at whose end all have been made.

    After a call has failed, later calls are skipped. `put`, `drain` or the end of the context raises the error, unless
    another exception is on its way.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._failed = False
        self._waiting: deque[Future[None]] = deque()
        self._thread = ThreadPoolExecutor(1, "store")

    def put(self, call: Callable[[], None]) -> None:
        """Make a call soon; waits while there are too many."""
        while self._waiting and (self._waiting[0].done() or len(self._waiting) >= MOST_WAITING):
            self._end_first()
        self._waiting.append(self._thread.submit(self._make, call))

    def drain(self) -> None:
        """Wait until all calls have been made."""
        while self._waiting:
            self._end_first()

    def _end_first(self) -> None:
        """Wait for the first call, and raise its error; it stays in the queue if Ctrl-C comes before its end."""
        try:
            self._waiting[0].result()
        finally:
            if self._waiting[0].done():
                self._waiting.popleft()

    def _make(self, call: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            call()
        except BaseException:
            self._failed = True
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if os.getpid() != self._process:  # a forked child does not have the thread
            return
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                wait(self._waiting)  # a thread whose join was interrupted counts as ended, whatever it does
                break
            except KeyboardInterrupt as another:  # what was played is written all the same
                interrupt = another
        self._thread.shutdown()
        if interrupt is not None:
            raise interrupt
        if kind is None:
            self.drain()
