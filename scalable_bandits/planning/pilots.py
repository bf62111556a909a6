"""Pilots: the first rounds of a run, played to see what the rest will take.

After m distinct points a round costs c = fixed + new m'(t) + growing w(m): m' of the rounds observe a point for the
first time, and w counts the operations of the engine that grow with m (`GROWTH`; on the other engines a round costs the
same however many there were, since they keep arrays of one size). The three constants, none of them negative, are
fitted to the rounds of the pilot by least squares. The number of distinct points goes on as in the last half of them,
as a power of the rounds, up to the number of candidates.
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from scalable_bandits.checks import Floats
from scalable_bandits.environments import Environment
from scalable_bandits.execution.resources import Traffic, forget_peak, peak_memory, traffic
from scalable_bandits.policies import Policy
from scalable_bandits.posteriors.box.engine import BoxEngine
from scalable_bandits.posteriors.engine import Engine
from scalable_bandits.posteriors.sampling.pathwise import PathwiseEngine
from scalable_bandits.posteriors.sketched.engine import SketchedEngine
from scalable_bandits.posteriors.tiled.engine import TiledEngine
from scalable_bandits.runs.simulate import simulate
from scalable_bandits.studies.runs import COPIED, WARM, client_of

LEAST = 20  # rounds of a pilot
WINDOWS = 16  # parts of the pilot to which the constants are fitted


class Growth(NamedTuple):
    """What grows with the m distinct points observed, given n candidates: operations of a round, and bytes."""

    work: Callable[[float, Floats], Floats]
    memory: Callable[[float, float], float]


NONE = Growth(lambda n, m: 0.0 * m, lambda n, m: 0.0)
GROWTH: dict[type[Engine], Growth] = {
    TiledEngine: Growth(lambda n, m: n * m, lambda n, m: 8.0 * n * m),  # a row of all candidates for a point
    SketchedEngine: NONE,  # as many rows as its dictionary, however many points
    PathwiseEngine: Growth(lambda n, m: m**2, lambda n, m: 8.0 * m * (2.0 * m + 4096.0)),  # K, its factor, the anchors
    BoxEngine: Growth(lambda n, m: m**2, lambda n, m: 16.0 * m**2),  # the factor and its inverse
}


class Exchanges(NamedTuple):
    """What a round of a policy exchanges with its shards on workers, and what it takes beside."""

    workers: int  # number of workers in the pilot
    driver: float  # seconds a round in which no answer is waited for
    waited: float  # seconds a round from sending to the last answer
    asked: tuple[tuple[int, float, float], ...]  # shards in a question, such questions a round, their work in seconds
    sent: float  # bytes of a message
    received: float  # bytes a round


class Pilot(NamedTuple):
    """What the first rounds of a run took, and what all of them will take."""

    rounds: int  # that were played
    measured: float  # seconds that they took
    seconds: float  # seconds of all rounds of the run
    memory: float  # bytes, the largest number of the whole run, beyond what the process had before
    whole: bool  # whether the pilot was the whole run, so that nothing is extrapolated
    exchanges: Exchanges | None = None  # with workers that hold the policy's shards; None without


class _EnoughError(Exception):
    """Raised to end a pilot."""


class _Watch:
    """Function that counts rounds and ends the pilot when its time is over."""

    def __init__(self, policy: Policy, seconds: float):
        self._policy, self._seconds = policy, seconds
        self.times, self.rounds, self.points = [time.perf_counter()], [0], [0]
        self.warm: tuple[int, float, Traffic] | None = None  # rounds, time and messages when all shards had been made

    def __call__(self, count: int, /) -> None:
        self.times.append(time.perf_counter())
        self.rounds.append(self.rounds[-1] + count)
        self.points.append(distinct(self._policy))
        if self.warm is None and self.rounds[-1] >= WARM:
            self.warm = self.rounds[-1], self.times[-1], copy.deepcopy(traffic)
        if self.rounds[-1] >= LEAST and self.warm and self.times[-1] - self.warm[1] > self._seconds:
            raise _EnoughError


def pilot(twin: Policy, policy: Policy, environment: Environment, horizon: int, seconds: float = 3.0) -> Pilot:
    """Play the first rounds of a run, for some seconds, and extrapolate.

    Parameters
    ----------
    twin
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
    _played(twin, environment, min(horizon, COPIED), seconds)
    before = forget_peak()
    watch = _played(policy, environment, horizon, seconds)
    memory = float(max(peak_memory() - before, 0))
    rounds, measured, exchanges = watch.rounds[-1], watch.times[-1] - watch.times[0], _exchanges(policy, watch)
    if rounds >= horizon:
        return Pilot(rounds, measured, measured, memory, True, exchanges)
    growth, size = _growth(policy), policy.domain.size
    seen = np.array([watch.rounds, np.array(watch.times) - watch.times[0], watch.points], dtype=np.float64)
    points = PilotPoints.of(seen[0], seen[2], size)
    more = extrapolated(seen, horizon, points, lambda m: growth.work(size, m))
    grown = growth.memory(size, float(points(horizon))) - growth.memory(size, float(points(rounds)))
    return Pilot(rounds, measured, measured + more, memory + grown, False, exchanges)


def seconds_of(policy: Policy, environment: Environment, rounds: int) -> float:
    """Return the seconds in which a policy without observations plays so many rounds."""
    watch = _played(policy, environment, rounds, math.inf)
    return watch.times[-1] - watch.times[0]


def distinct(policy: Policy) -> int:
    """Return the number of distinct points that a policy with one model has observed; 0 for other policies."""
    return len(getattr(getattr(policy, "model", None), "observations", ()))


def _played(policy: Policy, environment: Environment, horizon: int, seconds: float) -> _Watch:
    watch = _Watch(policy, seconds)
    with contextlib.suppress(_EnoughError):
        simulate(policy, environment, horizon, progress=watch, keep="log")
    return watch


def _growth(policy: Policy) -> Growth:
    """Return what grows in a policy's engine; nothing where it has none, or several."""
    kind = type(getattr(getattr(policy, "model", None), "engine", None))
    return next((GROWTH[each] for each in kind.__mro__ if each in GROWTH), NONE)


def _exchanges(policy: Policy, watch: _Watch) -> Exchanges | None:
    """Return what was exchanged a round after the first ones, in which shards are made."""
    client = client_of(policy)
    if client is None or watch.warm is None or watch.rounds[-1] == watch.warm[0]:
        return None
    first, began, before = watch.warm
    took, rounds = time.perf_counter() - began, watch.rounds[-1] - first
    asked = []
    for shards, (questions, worked) in sorted(traffic.asked.items()):
        earlier = before.asked.get(shards, (0, 0.0))
        if questions > earlier[0]:
            asked.append((shards, (questions - earlier[0]) / rounds, (worked - earlier[1]) / rounds))
    waited = (traffic.waited - before.waited) / rounds
    return Exchanges(
        len(client.nthreads()), max(took / rounds - waited, 0.0), waited, tuple(asked),
        (traffic.sent - before.sent) / max(traffic.messages - before.messages, 1),
        (traffic.received - before.received) / rounds,
    )  # fmt: skip


class PilotPoints(NamedTuple):
    """Number of distinct points after t rounds: a power of t through what was seen, at most as many as candidates."""

    rounds: float
    points: float
    power: float
    most: float

    @classmethod
    def of(cls, rounds: Floats, points: Floats, most: float) -> PilotPoints:
        """Return the power through the last and the middle one of the rounds (k,), given the points (k,) after each."""
        last, middle = points[-1], np.interp(rounds[-1] / 2, rounds, points)
        power = float(np.clip(np.log2(last / middle), 0.0, 1.0)) if middle > 0.0 else 0.0
        return cls(float(rounds[-1]), float(last), power, most)

    def __call__(self, t: Floats | float) -> Floats:
        """Return the number of points (j,) after rounds t (j,)."""
        return np.minimum(self.points * (np.asarray(t) / self.rounds) ** self.power, self.most)


def extrapolated(seen: Floats, horizon: int, points: PilotPoints, work: Callable[[Floats], Floats]) -> float:
    """Return the seconds of the rounds that were not played.

    Parameters
    ----------
    seen
        (3, k): numbers of rounds, ascending, the seconds since the start, and the distinct points after each.
    horizon
        Number of rounds of the run.
    points
        Function that continues the distinct points.
    work
        Function that returns the work (j,) that grows, after m points (j,).
    """
    done = float(seen[0, -1])
    edges = np.linspace(done / 8 if points.points else done / 2, done, WINDOWS + 1)
    times, seen_points = (np.interp(edges, seen[0], each) for each in seen[1:])
    terms = np.stack(
        [np.diff(edges), np.diff(seen_points), work((seen_points[1:] + seen_points[:-1]) / 2) * np.diff(edges)]
    )
    later = np.linspace(done, float(horizon), 1001)
    middles = points((later[1:] + later[:-1]) / 2)
    more = np.array(
        [horizon - done, float(points(horizon)) - points.points, float(np.mean(work(middles))) * (horizon - done)]
    )
    sizes = np.maximum(terms.max(axis=1), np.finfo(float).tiny)
    constants, _ = nnls((terms / sizes[:, None]).T, np.diff(times))
    return float(constants @ (more / sizes))
