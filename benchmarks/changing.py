"""Policies for worlds that change: long runs of each, and the naive loops that play the same points."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Iterator

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line, timed
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.randomness import derived_seed

EPSILON, NOISE, DELTA = 0.01, 0.2, 0.1
SHARED = {"noise": NOISE, "regularization": NOISE**2, "delta": DELTA, "seed": 0}


def problem(size: int) -> tuple[sb.Points, sb.Matern, sb.AutoregressiveProcess]:
    """Random points of the unit square, and a process on them that forgets."""
    space, kernel = sb.Points(np.random.default_rng(0).random((size, 2))), sb.Matern(0.3, nu=1.5)
    decaying = kernel * sb.TemporalDecay(EPSILON)
    return space, kernel, sb.AutoregressiveProcess(space, decaying, sb.GaussianNoise(NOISE), seed=1)


def forgetting(size: int, horizon: int) -> sb.TVGPUCB:
    """The forgetting kernel."""
    space, kernel, _ = problem(size)
    return sb.TVGPUCB(space, kernel * sb.TemporalDecay(EPSILON), **SHARED)


def sliding(size: int, horizon: int, window: int) -> sb.SWGPUCB:
    """The sliding window."""
    space, kernel, _ = problem(size)
    return sb.SWGPUCB(space, kernel, memory=window, **SHARED)


def restarting(size: int, horizon: int, every: int) -> sb.RGPUCB:
    """Restarts."""
    space, kernel, _ = problem(size)
    return sb.RGPUCB(space, kernel, memory=every, **SHARED)


def weighted(size: int, horizon: int) -> sb.WGPUCB:
    """Fading weights."""
    space, kernel, _ = problem(size)
    return sb.WGPUCB(space, kernel, eta=0.99, **SHARED)


class Naive:
    """From scratch each round with `numpy.linalg.solve`: what a policy plays, by the formulas alone.

    Parameters
    ----------
    policy
        Whose rule to play by.
    process
        What answers.
    """

    def __init__(self, policy: sb.Policy, process: sb.AutoregressiveProcess):
        self.policy, self.process = policy, process
        self.points = policy.domain.points()

    def block(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Matern 3/2 covariances."""
        a = math.sqrt(3.0) / 0.3 * np.sqrt(((x[:, None] - z[None]) ** 2).sum(axis=2))
        return (1.0 + a) * np.exp(-a)

    def play(self, horizon: int) -> list[int]:
        """Candidates played."""
        policy, salt = self.policy, derived_seed(0, "ties")
        played: list[int] = []
        ys: list[float] = []
        for t in range(1, horizon + 1):
            times = np.arange(1, t, dtype=float)
            if isinstance(policy, sb.SWGPUCB):
                times = times[-policy.memory_length :]
            elif isinstance(policy, sb.RGPUCB):
                times = times[(t - 1) // policy.memory_length * policy.memory_length :]
            rows = times.astype(int) - 1
            index = self.index(t, times, np.array(played, dtype=int)[rows], np.array(ys)[rows])
            candidate, _ = choose(index, salt)
            played.append(candidate)
            ys.append(float(self.process.table(t)[candidate]) + self.process.noise_at(t))
        return played

    def index(self, t: int, times: np.ndarray, arms: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Index of all candidates from the observations that count."""
        x, noise = self.points[arms], np.full(len(arms), NOISE**2)
        gram, cross = self.block(x, x), self.block(x, self.points)
        if isinstance(self.policy, sb.TVGPUCB):
            gram = gram * (1 - EPSILON) ** (np.abs(times[:, None] - times[None]) / 2)
            cross = cross * ((1 - EPSILON) ** ((t - times) / 2))[:, None]
        if isinstance(self.policy, sb.WGPUCB):
            noise = noise * self.policy.eta ** -(t - 1 - times)
        mean, variance, gain = np.zeros(len(self.points)), np.ones(len(self.points)), 0.0
        if len(arms):
            solved = np.linalg.solve(gram + np.diag(noise), np.column_stack([y, cross]))
            mean, variance = cross.T @ solved[:, 0], 1.0 - np.einsum("ij,ij->j", cross, solved[:, 1:])
            gain = np.linalg.slogdet(np.eye(len(arms)) + gram / np.sqrt(noise[:, None] * noise[None]))[1] / 2
        if isinstance(self.policy, sb.TVGPUCB):
            width = math.sqrt(2 * math.log(len(self.points) * t**2 * math.pi**2 / (6 * DELTA)))
        else:
            width = 2.0 + NOISE * math.sqrt(2 * (gain + 1 + math.log(1 / DELTA)))
        return mean + width * np.sqrt(np.maximum(variance, 0.0))


def size_of(policy: sb.Policy) -> float:
    """What a policy holds, in kB."""
    return len(pickle.dumps(policy)) / 1e3


def run(
    name: str, make: Callable[..., sb.Policy], size: int, horizon: int, few: int, asked: str, **options: int
) -> Iterator[Line]:
    """A long run, what the policy holds early and late, and the naive loop's `few` rounds beside."""
    sb.simulate(make(size, horizon, **options), problem(size)[2], 20)  # compiles
    policy, early = make(size, horizon, **options), make(size, horizon, **options)
    process = problem(size)[2]
    started = time.process_time()
    seconds, trajectory = timed(lambda: sb.simulate(policy, process, horizon))
    processor = time.process_time() - started
    short, first = timed(lambda: sb.simulate(early, problem(size)[2], few))
    naive, played = timed(lambda: Naive(make(size, horizon, **options), problem(size)[2]).play(few))
    same = "the same points" if played == first.candidate.tolist() else "OTHER POINTS"
    yield Line(
        f"{name}, {size} arms, T = {horizon:,}", f"{seconds:.1f} s, of a processor {processor:.1f} s",
        f"naive T = {few}: {naive:.2f} s, ours {short:.3f} s", f"{naive / short:.0f}x", asked,
    )  # fmt: skip
    yield Line(
        f"... holds at the end, {same} as naive", f"{size_of(policy):.0f} kB", f"after {few}: {size_of(early):.0f} kB",
        f"{size_of(policy) / size_of(early):.2f}", "constant" if asked else "",
    )  # fmt: skip
    assert len(trajectory) == horizon


def changing(quick: bool) -> Iterator[Line]:
    """Worlds that change: the forgetting kernel, the sliding window, restarts, weights."""
    scale, few = (100, 50) if quick else (1, 500)
    yield from run("TVGPUCB", forgetting, 50, 1_000_000 // scale, few, "< 60 s")
    yield from run("SWGPUCB, w = 300", sliding, 500, 100_000 // scale, few, "< 60 s", window=300 if not quick else 30)
    yield from run("RGPUCB, H = 300", restarting, 500, 100_000 // scale, few, "", every=300)
    yield from run("WGPUCB, eta = 0.99", weighted, 500, 2_000 // scale, few, "")
