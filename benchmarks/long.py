"""Long horizons: rounds in compiled loops, beside the bare arithmetic as one function and an earlier version."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import scalable_bandits as sb
from benchmarks.measure import Line, fresh, timed
from benchmarks.problems import partitioned, policy, problem

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
        "SWGPUCB": lambda: sb.SWGPUCB(space, kernel, memory=500, **given),
        "PEGPUCB": lambda: sb.PEGPUCB(space, [sb.Prior(f"{k}", sb.RBF(0.05 + 0.02 * k)) for k in range(13)], **given),
    }
    return sb.simulate(makers[name](), function, horizon)


def floor(name: str, horizon: int) -> float | None:
    """Seconds that the bare arithmetic takes for so many rounds; None where it is not written down."""
    from benchmarks import bare_loops  # late, since an earlier version lacks what it imports

    kept = min(horizon, 2000 if name == "IGPUCB" else 10**6)
    space, kernel, function = problem(30, 2) if name == "IGPUCB" else arms(50)
    table, noise = np.array(function.table()), 0.3 * np.random.default_rng(0).standard_normal(kept)
    bare: dict[str, Callable[[np.ndarray], float]] = {
        "TVGPUCB": lambda noise: bare_loops.drift(
            kernel.block(space.points()), table, noise, 1.0 - EPSILON, REGULARIZATION
        ),
        "IGPUCB": lambda noise: bare_loops.recursion(kernel.block(space.points()), table, noise, function.rkhs_norm),
        "RandomSearch": lambda noise: bare_loops.draws(table, noise),
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


def long(quick: bool, before: str | None = None) -> Iterator[Line]:
    """Runs of a million rounds, and what they cost a round."""
    cases = (
        ("TVGPUCB", 10**6, "50 arms"), ("SWGPUCB", 10**4, "300 arms, window 500"), ("IGPUCB", 10**6, "30^2 grid"),
        ("RandomSearch", 10**7, "50 arms"), ("PEGPUCB", 10**5, "13 priors, 50 arms"), ("PiGPUCB 1", 10**6, "30 arms"),
        ("PiGPUCB 2", 10**6, "30^2 grid"), ("PiGPUCB 3", 10**6, "30^3 grid"),
    )  # fmt: skip
    for name, full, what in cases:
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
