"""Long horizons: rounds in compiled loops, beside the bare arithmetic as one function and an earlier version."""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line, fresh, timed
from benchmarks.problems import DELTA, partitioned, policy, problem

EPSILON, REGULARIZATION = 0.01, 0.1
CODE = (
    "import time; from benchmarks import long; from benchmarks.measure import peak_memory;"
    "long.play({name!r}, 200); t = time.perf_counter(); long.play({name!r}, {horizon});"
    "print(time.perf_counter() - t, peak_memory())"
)


def arms(count: int) -> tuple[sb.Grid, sb.Matern, sb.RKHSFunction]:
    """A function on a line."""
    space, kernel = sb.Grid([[0.0, 1.0]], count), sb.Matern(0.2, nu=2.5)
    return space, kernel, sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(0.3), seed=1)


def priors() -> list[sb.Prior]:
    """Thirteen priors that differ in the lengthscale."""
    return [sb.Prior(f"{k}", sb.RBF(0.05 + 0.02 * k)) for k in range(13)]


def play(name: str, horizon: int) -> sb.Trajectory:
    """Play a run by its name."""
    if name.startswith("PiGPUCB"):
        space, kernel, function = problem(30, int(name[-1]))
        return sb.simulate(partitioned(space, kernel, function, horizon), function, horizon)
    if name == "IGPUCB":
        space, kernel, function = problem(30, 2)
        return sb.simulate(policy(space, kernel, function), function, horizon)
    space, kernel, function = arms(300 if name == "SWGPUCB" else 50)
    given = {"noise": 0.3, "regularization": REGULARIZATION}
    makers: dict[str, Callable[[], sb.Policy]] = {
        "RandomSearch": lambda: sb.RandomSearch(space),
        "TVGPUCB": lambda: sb.TVGPUCB(space, kernel * sb.TemporalDecay(EPSILON), **given),
        "WGPUCB": lambda: sb.WGPUCB(space, kernel, eta=0.99, **given),
        "SWGPUCB": lambda: sb.SWGPUCB(space, kernel, memory=500, **given),
        "PEGPUCB": lambda: sb.PEGPUCB(space, priors(), **given),
    }
    return sb.simulate(makers[name](), function, horizon)


def cells_at_the_end(dimension: int, horizon: int) -> tuple[Any, ...]:
    """Cells of a run at its end, as arrays for `bare_loops.partition`."""
    space, kernel, function = problem(30, dimension)
    policy = partitioned(space, kernel, function, horizon)
    sb.simulate(policy, function, horizon)
    points, found = space.points(), []
    for cell in policy.cover:
        if cell.split is None:
            found.append(np.flatnonzero(((points >= cell.lower) & (points <= cell.upper)).all(axis=1)))
    sizes = np.array([len(numbers) for numbers in found])
    members = np.array([np.pad(numbers, (0, sizes.max() - len(numbers))) for numbers in found])
    priors = np.array([kernel.block(points[numbers]) for numbers in members])
    d = dimension
    growth = d * (d + 1) / (d + 2 * kernel.nu)
    return priors, members, sizes, np.array(function.table()), function.rkhs_norm, 1.0, math.log(4.0 / DELTA), growth


def floor(name: str, horizon: int) -> float | None:
    """Seconds that the bare arithmetic takes for so many rounds; None where it is not written down."""
    from benchmarks import bare_loops  # late, since an earlier version lacks what it imports

    kept = min(horizon, 2000 if name in ("IGPUCB", "PiGPUCB 3") else 10**6)
    noise = 0.3 * np.random.default_rng(0).standard_normal(kept)
    if name.startswith("PiGPUCB"):
        cells = cells_at_the_end(int(name[-1]), horizon)
        bare_loops.partition(*cells[:4], noise[:10], *cells[4:])  # compiles
        seconds, _ = timed(lambda: bare_loops.partition(*cells[:4], noise, *cells[4:]))
        return seconds * horizon / kept
    space, kernel, function = problem(30, 2) if name == "IGPUCB" else arms(50)
    table = np.array(function.table())
    bare: dict[str, Callable[[np.ndarray], float]] = {
        "TVGPUCB": lambda noise: bare_loops.drift(
            kernel.block(space.points()), table, noise, 1.0 - EPSILON, REGULARIZATION
        ),
        "IGPUCB": lambda noise: bare_loops.recursion(kernel.block(space.points()), table, noise, function.rkhs_norm),
        "RandomSearch": lambda noise: bare_loops.draws(table, noise),
        "PEGPUCB": lambda noise: bare_loops.eliminations(
            np.array([prior.kernel.block(space.points()) for prior in priors()]), table, noise, REGULARIZATION, 0.1, 0.3
        ),
    }
    if name not in bare:
        return None
    bare[name](noise[:10])  # compiles
    seconds, _ = timed(functools.partial(bare[name], noise))
    return seconds * horizon / kept


def earlier(revision: str, name: str, horizon: int) -> float:
    """Seconds of an earlier version, of which a copy is taken from the repository."""
    root = Path(sb.__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        archive = ["git", "archive", revision, "scalable_bandits"]
        copy = subprocess.run(archive, cwd=root, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=copy, check=True)
        (Path(folder) / "benchmarks").symlink_to(root / "benchmarks")
        command = [sys.executable, "-c", CODE.format(name=name, horizon=horizon)]
        given = {**os.environ, "PYTHONPATH": folder}
        printed = subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True, check=True).stdout
    return float(printed.split()[0])


def beside_the_store(horizon: int, keep: str) -> Line:
    """A run with a store beside the same one in memory, in turns; the store is written while rounds are played."""
    space, kernel, function = arms(50)
    given = {"noise": 0.3, "regularization": REGULARIZATION}

    def run(store: Path | None) -> float:
        policy = sb.TVGPUCB(space, kernel * sb.TemporalDecay(EPSILON), **given)
        return timed(lambda: sb.simulate(policy, function, horizon, store=store, keep=keep))[0]

    with tempfile.TemporaryDirectory() as folder:
        run(None), run(Path(folder) / "compiles")
        turns = [(run(None), run(Path(folder) / f"{turn}")) for turn in range(3)]
    bare, kept = np.median(turns, axis=0).tolist()
    what = f"TVGPUCB, 50 arms, T = {horizon:,}, with a store that keeps {keep}"
    return Line(
        what, f"{kept:.2f} s", f"in memory {bare:.2f} s", f"{np.median([b / a for a, b in turns]):.2f}", "<= 1.1"
    )


def long(quick: bool, before: str | None = None) -> Iterator[Line]:
    """Runs of a million rounds, and what they cost a round."""
    cases = (
        ("TVGPUCB", 10**6, "50 arms"), ("SWGPUCB", 10**4, "300 arms, window 500"), ("WGPUCB", 10**5, "50 arms"),
        ("IGPUCB", 10**6, "30^2 grid"),
        ("RandomSearch", 10**7, "50 arms"), ("PEGPUCB", 10**5, "13 priors, 50 arms"), ("PiGPUCB 1", 10**6, "30 arms"),
        ("PiGPUCB 2", 10**6, "30^2 grid"), ("PiGPUCB 3", 10**6, "30^3 grid"),
    )  # fmt: skip
    for keep in ("log", "all"):
        yield beside_the_store(10_000 if quick else 10**7, keep)
    for name, full, what in cases[::6] if quick else cases:
        horizon = 2000 if quick else full
        seconds, memory = fresh(CODE.format(name=name, horizon=horizon))
        bare = floor(name, horizon)
        few = horizon if name == "SWGPUCB" else horizon // 10  # rounds of the earlier version
        old = "" if before is None else f", before {earlier(before, name, few) / few * 1e6:.3g} us"
        against = "" if bare is None else f"bare {bare / horizon * 1e6:.3g} us"
        yield Line(
            f"{name}, {what}, T = {horizon:,}", f"{seconds:.2f} s, {seconds / horizon * 1e6:.3g} us, {memory:.2f} GB",
            (against + old).lstrip(", "), "" if bare is None else f"{seconds / bare:.2f}", "<= 3",
        )  # fmt: skip
