"""Many priors: prior elimination, and the same from scratch in every round."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line, timed
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.randomness import derived_seed

ARMS, PRIORS, EPSILON, NOISE, DELTA = 50, 13, 0.03, 0.3, 0.1


def problem(arms: int = ARMS, count: int = PRIORS) -> tuple[sb.Arms, list[np.ndarray], sb.TableEnvironment]:
    """Covariances of as many days of 48 readings, and a function drawn from one of them."""
    rng = np.random.default_rng(0)
    space = sb.Arms(arms)
    days = [rng.standard_normal((arms, 48)).cumsum(axis=1) / 5.0 for _ in range(count)]
    covariances = [day @ day.T / 48.0 + 0.01 * np.eye(arms) for day in days]
    values = rng.multivariate_normal(np.zeros(arms), covariances[count // 4])
    return space, covariances, sb.TableEnvironment(space, values, sb.GaussianNoise(NOISE), seed=1)


def ours(arms: int, count: int, horizon: int) -> tuple[sb.PEGPUCB, sb.Trajectory]:
    """Play PE-GP-UCB by `simulate`."""
    space, covariances, function = problem(arms, count)
    days = [sb.Prior(f"day {i}", sb.Covariance(c) * sb.TemporalDecay(EPSILON)) for i, c in enumerate(covariances)]
    policy = sb.PEGPUCB(space, days, noise=NOISE, regularization=NOISE**2, delta=DELTA)
    return policy, sb.simulate(policy, function, horizon)


def naive(arms: int, count: int, horizon: int) -> list[int]:
    """Candidates played by a loop that solves every prior's system anew in every round."""
    _, covariances, function = problem(arms, count)
    values, salt = function.table(), derived_seed(0, "ties")
    alive, played, ys = list(range(count)), [], []
    errors, slacks, plays = np.zeros((3, count))
    for t in range(1, horizon + 1):
        width = math.sqrt(2.0 * math.log(2.0 * arms * math.pi**2 * t**2 / DELTA))
        rounds = np.arange(1, t)
        decay = (1.0 - EPSILON) ** (np.abs(rounds[:, None] - rounds) / 2.0)
        means, stds = {}, {}
        for p in alive:
            k = covariances[p]
            cross = k[played] * ((1.0 - EPSILON) ** ((t - rounds) / 2.0))[:, None]
            system = k[np.ix_(played, played)] * decay + NOISE**2 * np.eye(t - 1)
            solved = np.linalg.solve(system, np.column_stack([ys, cross])) if played else np.zeros((0, arms + 1))
            means[p] = cross.T @ solved[:, 0]
            variance = k.diagonal() - np.einsum("ij,ij->j", cross, solved[:, 1:])
            stds[p] = np.sqrt(np.maximum(variance, 0.0))
        x, _ = choose(np.max([means[p] + width * stds[p] for p in alive], axis=0), salt)
        p = alive[choose(np.array([means[q][x] + width * stds[q][x] for q in alive]), salt, numbers=np.array(alive))[0]]
        y = values[x] + function.noise_at(t)
        errors[p], slacks[p], plays[p] = errors[p] + y - means[p][x], slacks[p] + width * stds[p][x], plays[p] + 1
        xi = 2.0 * NOISE**2 * math.log(count * math.pi**2 * t**2 / DELTA)
        if abs(errors[p]) > math.sqrt(xi * plays[p]) + slacks[p] and len(alive) > 1:
            alive.remove(p)
        played.append(x)
        ys.append(y)
    return played


def priors(quick: bool) -> Iterator[Line]:
    """PE-GP-UCB with 13 drifting priors on 50 arms."""
    arms, count, short, long = (10, 3, 30, 200) if quick else (ARMS, PRIORS, 500, 10_000)
    ours(arms, count, 10)
    seconds, (policy, run) = timed(lambda: ours(arms, count, short), 1 if quick else 5)
    slow, played = timed(lambda: naive(arms, count, short))
    same = "same points" if run.candidate.tolist() == played else "OTHER POINTS"
    what = f"PE-GP-UCB, {count} priors, {arms} arms"
    against = f"naive {slow:.1f} s, {same}"
    yield Line(f"{what}, T = {short:,}", f"{seconds * 1e3:.0f} ms", against, f"{slow / seconds:.0f}x", "")
    repeats = 1 if quick else 3
    started = time.process_time()
    seconds, (policy, _) = timed(lambda: ours(arms, count, long), repeats)
    processor = (time.process_time() - started) / repeats
    left = f"{len(policy.surviving)} priors left"
    yield Line(f"{what}, T = {long:,}", f"{seconds:.2f} s, of a processor {processor:.2f} s", left, "", "< 5 s")
