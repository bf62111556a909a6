"""Benchmarks of approximate posteriors: sketches on large grids, sample paths among millions, widths side by side."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line, timed
from benchmarks.problems import policy, problem
from benchmarks.widths import coverage
from scalable_bandits.posteriors import SketchedEngine

SMOOTH = 0.5  # lengthscale of a squared exponential kernel on the unit cube, which few points determine


def make(kind: type[sb.Policy], side: int, dimension: int, seed: int = 0) -> tuple[sb.Policy, sb.RKHSFunction]:
    """A policy on the problem of Janz et al. 2020, and its function."""
    space, kernel, function = problem(side, dimension, seed)
    return policy(space, kernel, function, kind=kind), function


def play(kind: type[sb.Policy], side: int, dimension: int, horizon: int, seed: int = 0) -> tuple[float, sb.Trajectory]:
    """Seconds of a run, and the run."""
    played, function = make(kind, side, dimension, seed)
    function.table()
    return timed(functools.partial(sb.simulate, played, function, horizon))


def sketched(quick: bool) -> Iterator[Line]:
    """BBKB at full size, BKB and BBKB against IGP-UCB over T and arms, GPTS among a million candidates, widths."""
    for kind in (sb.IGPUCB, sb.BKB, sb.BBKB, sb.GPTS):
        play(kind, 5, 2, 10)  # compiles
    yield from _large(quick)
    yield from _saturated(quick)
    yield from _over_arms(quick)
    yield from _paths(quick)
    for row in coverage(2 if quick else 50, 20 if quick else 300):
        yield Line(
            f"width {row.width}, {row.case}, 400 arms", f"covers {row.covered:.0%}, regret {row.regret:.0f}",
            f"mean width {row.mean_width:.2f}, error at most {row.tightest:.2f} of it", "", ">= 90 %",
        )  # fmt: skip


class Course(NamedTuple):
    """A run in blocks of rounds."""

    seconds: np.ndarray  # (blocks,) of processor
    regrets: np.ndarray  # (blocks,) a round
    dictionary: np.ndarray  # (blocks,) points in it at the end of each


def course(played: sb.BBKB, function: sb.RKHSFunction, blocks: int, block: int) -> Course:
    """Play on, block by block."""
    function.table()
    found = []
    for _ in range(blocks):
        started = time.process_time()
        regret = sb.simulate(played, function, block).regret.mean()
        engine = played.model.engine
        assert isinstance(engine, SketchedEngine)
        found.append((time.process_time() - started, regret, len(engine.dictionary)))
    return Course(*np.array(found).T)


def _large(quick: bool) -> Iterator[Line]:
    """On the same functions: seconds, seconds over t, and regret of both."""
    side, horizon, block, seeds = (10, 400, 100, 1) if quick else (30, 10_000, 1000, 3)
    courses, regrets, exact = [], [], []
    for seed in range(seeds):
        courses.append(course(*make(sb.BBKB, side, 3, seed), horizon // block, block))
        took, run = play(sb.IGPUCB, side, 3, horizon, seed)
        regrets.append((courses[-1].regrets.mean(), run.regret.mean()))
        exact.append(took)
    ours, theirs = np.mean(regrets, axis=0)
    took, total = np.mean(exact), np.mean([c.seconds.sum() for c in courses])
    what = f"BBKB, {side}^3 grid, T = {horizon:,}, {seeds} functions"
    yield Line(what, f"{total:.1f} s (of processor)", f"IGP-UCB {took:.1f} s", f"{took / total:.1f}x", "< 60 s")
    ratios = ", ".join(f"{own / other:.3f}" for own, other in regrets)
    yield Line(
        "... regret", f"{ours:.3f} a round", f"IGP-UCB {theirs:.3f}", f"{ours / theirs:.3f} ({ratios})", "<= 1.1"
    )
    yield from _over_time(courses, block)


def _over_time(courses: list[Course], block: int) -> Iterator[Line]:
    """What a round costs, and the dictionary, as the run goes on."""
    each, sizes = (np.mean([getattr(c, name) for c in courses], axis=0) for name in ("seconds", "dictionary"))
    each = each / block * 1e3
    over, points = (", ".join(f"{value:.{digits}f}" for value in row) for row, digits in ((each, 1), (sizes, 0)))
    yield Line(
        f"... ms a round, {block:,} rounds at a time", over, f"points in the dictionary {points}",
        f"{each[-1] / each[1]:.2f}, dictionary {sizes[-1] / max(sizes[1], 1.0):.2f}", "flat",
    )  # fmt: skip


def _saturated(quick: bool) -> Iterator[Line]:
    """On as many arms, with a kernel whose effective dimension hardly grows: here the papers promise a flat cost."""
    side, horizon, block = (10, 400, 100) if quick else (30, 10_000, 1000)
    space, kernel = sb.Grid([[0.0, 1.0]] * 3, side), sb.RBF(SMOOTH)
    function = sb.RKHSFunction.sparse(space, kernel, sb.UniformNoise(1.0), seed=0)
    played = course(policy(space, kernel, function, kind=sb.BBKB), function, horizon // block, block)
    what = f"BBKB, {side}^3 grid, T = {horizon:,}, {kernel!r}"
    yield Line(what, f"{played.seconds.sum():.1f} s (of processor)", "", "", "")
    yield from _over_time([played], block)


def _over_arms(quick: bool) -> Iterator[Line]:
    sizes = ((6, 3, 50),) if quick else ((30, 2, 2000), (30, 2, 10_000), (20, 3, 2000), (20, 3, 6000))
    for side, dimension, horizon in sizes:
        exact, run = play(sb.IGPUCB, side, dimension, horizon)
        for kind in (sb.BKB, sb.BBKB):
            seconds, sketched = play(kind, side, dimension, horizon)
            yield Line(
                f"{kind.__name__}, {side}^{dimension} grid, T = {horizon:,}", f"{seconds:.2f} s",
                f"IGP-UCB {exact:.2f} s; regret x {sketched.regret.mean() / run.regret.mean():.2f}",
                f"{exact / seconds:.1f}x", "",
            )  # fmt: skip


def _paths(quick: bool) -> Iterator[Line]:
    side, horizon = (30, 20) if quick else (100, 1000)
    space, kernel = sb.Grid([[0.0, 1.0]] * 3, side), sb.Matern(0.2, nu=2.5)
    function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.1), seed=1)
    options = {"noise": 0.1, "rkhs_norm": function.rkhs_norm, "regularization": 0.01}
    drawn = sb.GPTS(space, kernel, samples="pathwise", **options)
    started = time.perf_counter()
    drawn.model.engine.argmax(lambda mean, _: mean, 0, np.arange(space.size) < 1)
    made = time.perf_counter() - started
    seconds, run = timed(functools.partial(sb.simulate, drawn, function, horizon))
    last = run.regret[-horizon // 10 :].mean()
    yield Line(
        f"GP-TS, {space.size:,} candidates, T = {horizon:,}", f"{made + seconds:.1f} s", f"of it making {made:.1f} s",
        f"regret {run.regret[: horizon // 10].mean():.2f} to {last:.2f}", "< 60 s",
    )  # fmt: skip
