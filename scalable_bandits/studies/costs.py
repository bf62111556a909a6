"""What a run takes: seconds a round and their tails, memory, messages."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.execution.resources import forget_peak, peak_memory, traffic
from scalable_bandits.policies import Policy
from scalable_bandits.studies.notes import marks

WARM = 10  # rounds that are not counted: they make shards and load code
COPIED = 200  # rounds of a copy, at most, that are played first so that all is compiled
QUANTILES = {"round_seconds": 0.5, "round_seconds_90": 0.9, "round_seconds_99": 0.99}
SMALLEST, PER_DECADE, BINS = -9.0, 200, 3000  # bins of the times: from 1 ns on, 1.2 % wide


class Meter:
    """Measurement of one run, begun before its problem is made.

    Rounds that are played in one compiled loop have the mean time of the loop. Memory is what the processes have at
    most beyond what they had before; that of workers counts if the policy has its shards there.

    Parameters
    ----------
    horizon
        Number of rounds of the run.
    """

    def __init__(self, horizon: int):
        self._memory = forget_peak()
        self._of_workers: dict[str, int] = {}  # bytes that they had before
        self._marks, self._elapsed, self._next = marks(horizon), np.full(len(marks(horizon)), np.nan), 0
        self._times = np.zeros(BINS, dtype=np.int64)  # rounds by their time
        self._horizon, self._rounds = horizon, 0

    def start(self, policy: Policy) -> None:
        """Begin the first round."""
        client = client_of(policy)
        if client is not None:
            self._of_workers = client.run(forget_peak)
        self._traffic = traffic.messages, traffic.sent, traffic.received
        self._last = time.perf_counter()

    def advance(self, count: int, /, text: str = "") -> None:
        """Count rounds, when they have been played."""
        before, self._last = self._last, time.perf_counter()
        seconds = max((self._last - before) / count, 10.0**SMALLEST) if count else 0.0
        first, self._rounds = self._rounds, self._rounds + count
        if self._rounds > WARM:
            place = int(PER_DECADE * (math.log10(seconds) - SMALLEST))
            self._times[min(place, BINS - 1)] += self._rounds - max(first, WARM)
        while self._next < len(self._marks) and self._marks[self._next] <= self._rounds:
            self._elapsed[self._next] = before + (self._marks[self._next] - first) * seconds
            self._next += 1

    @property
    def elapsed(self) -> Floats:
        """Seconds (k,) from round `WARM` to each mark; NaN before it, and if the run was not played as a whole."""
        if self._rounds < self._horizon:
            return np.full(len(self._marks), np.nan)
        late = self._marks > WARM
        begun = self._elapsed[self._marks == WARM]
        return np.where(late, self._elapsed - begun, np.nan) if len(begun) else np.full(len(self._marks), np.nan)

    def costs(self, policy: Policy) -> dict[str, float]:
        """Return the costs by name; none if the run was not played as a whole."""
        if self._rounds < self._horizon:
            return {}
        found: dict[str, float] = {}
        if self._times.any():
            share = np.cumsum(self._times) / self._times.sum()
            middles = 10.0 ** (SMALLEST + (np.arange(BINS) + 0.5) / PER_DECADE)
            found = {name: float(middles[np.searchsorted(share, q)]) for name, q in QUANTILES.items()}
        found["peak_memory"] = float(max(peak_memory() - self._memory, 0))
        client = client_of(policy)
        if client is not None:
            now = client.run(peak_memory)
            workers = sum(now[worker] - self._of_workers.get(worker, now[worker]) for worker in now)
            found["peak_memory_of_workers"] = float(max(workers, 0))
            after = traffic.messages, traffic.sent, traffic.received
            names = ("messages", "bytes_sent", "bytes_received")
            found |= {n: float(b - a) for n, a, b in zip(names, self._traffic, after, strict=True)}
        return found


def client_of(policy: Policy) -> Any:
    """Return the client of the workers that have a policy's shards; None if it has none."""
    executor = policy._executor
    return getattr(executor, "client", None) if executor.remote else None
