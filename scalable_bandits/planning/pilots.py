"""Pilots: the first rounds of a run, played to see what the rest will take.

A round costs c(t) = fixed + growing m(t), where m(t) is the number of rows of the engine's posterior. On the tiled
engine every distinct point adds a row, so that m(t) = t up to the number of candidates; on the other engines for finite
spaces a round costs the same however many there were, since they keep arrays of one size. The constants are measured in
the second half of the pilot.
"""

from __future__ import annotations

import contextlib
import time
from typing import NamedTuple

import numpy as np

from scalable_bandits.environments import Environment
from scalable_bandits.execution.resources import forget_peak, peak_memory
from scalable_bandits.policies import Policy
from scalable_bandits.posteriors.tiled.engine import TiledEngine
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.studies.costs import COPIED

LEAST = 20  # rounds of a pilot


class Pilot(NamedTuple):
    """What the first rounds of a run took, and what all of them will take."""

    rounds: int  # that were played
    measured: float  # seconds that they took
    seconds: float  # of all rounds of the run
    memory: float  # bytes, the largest number of the whole run, beyond what the process had before
    whole: bool  # whether the pilot was the whole run, so that nothing is extrapolated


class _EnoughError(Exception):
    """Raised to end a pilot."""


class _Watch:
    """Function that counts rounds and ends the pilot when its time is over."""

    def __init__(self, seconds: float):
        self.times, self.rounds = [time.perf_counter()], [0]
        self._seconds = seconds

    def __call__(self, count: int, /, text: str = "") -> None:
        self.times.append(time.perf_counter())
        self.rounds.append(self.rounds[-1] + count)
        if self.rounds[-1] >= LEAST and self.times[-1] - self.times[0] > self._seconds:
            raise _EnoughError


def pilot(copy: Policy, policy: Policy, environment: Environment, horizon: int, seconds: float = 2.0) -> Pilot:
    """Play the first rounds of a run, for some seconds, and extrapolate.

    Parameters
    ----------
    copy
        Policy like the other one, which plays some rounds first so that all is compiled.
    policy
        Policy of the run, without observations; it is of no further use.
    environment
        Environment of the run.
    horizon
        Number of rounds of the run.
    seconds
        Time after which the pilot ends.
    """
    _played(copy, environment, min(horizon, COPIED), seconds)
    before = forget_peak()
    watch = _played(policy, environment, horizon, seconds)
    memory = float(max(peak_memory() - before, 0))
    rounds, measured = watch.rounds[-1], watch.times[-1] - watch.times[0]
    if rounds >= horizon:
        return Pilot(rounds, measured, measured, memory, True)
    size = _rows_at_most(policy)
    more = _extrapolated(np.array(watch.rounds), np.array(watch.times) - watch.times[0], horizon, size)
    grown = 8.0 * size * (min(horizon, size) - min(rounds, size)) if size else 0.0  # a row of all candidates a point
    return Pilot(rounds, measured, measured + more, memory + grown, False)


def _played(policy: Policy, environment: Environment, horizon: int, seconds: float) -> _Watch:
    watch = _Watch(seconds)
    with contextlib.suppress(_EnoughError):
        simulate(policy, environment, horizon, progress=watch, keep="log")
    return watch


def _rows_at_most(policy: Policy) -> int:
    """Return the largest number of rows of a posterior that grows with the rounds; 0 if it does not grow."""
    engine = getattr(getattr(policy, "model", None), "engine", None)
    return policy.domain.size if isinstance(engine, TiledEngine) else 0


def _extrapolated(rounds: np.ndarray, times: np.ndarray, horizon: int, most: int) -> float:
    """Return the seconds of the rounds that were not played.

    Parameters
    ----------
    rounds, times
        Numbers of rounds (k,) that had been played, and seconds (k,) since the start, ascending.
    horizon
        Number of rounds of the run.
    most
        Largest number of rows; 0 if a round costs the same however many there were.
    """
    done, taken = int(rounds[-1]), float(times[-1])
    half = float(np.interp(done / 2, rounds, times))
    late = (taken - half) / (done - done / 2)  # seconds a round in the second half, about round 3/4 of those played
    if not most:
        return late * (horizon - done)
    early = (half - float(np.interp(done / 4, rounds, times))) / (done / 4)  # in the second quarter
    growing = max((late - early) / (0.375 * done), 0.0) if done <= most else 0.0
    fixed = max(late - growing * 0.75 * done, 0.0)

    def rows(last: float) -> float:  # summed over the rounds up to the last
        return 0.5 * min(last, most) ** 2 + most * max(last - most, 0.0)

    return fixed * (horizon - done) + growing * (rows(horizon) - rows(done))
