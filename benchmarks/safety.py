"""The command ``python -m benchmarks safety``: how often policies that are to be safe evaluate what is not.

The setting of Fiedler, Menn, Kreiskoether & Trimpe 2024: functions of an RKHS with lengthscale .2 whose norm is 2,
uniform noise on [-.05, .05], 100 candidates on a line. A function is safe where it is above its 30 % quantile; the
start is the candidate whose value is nearest to the middle between that and the largest. The Lipschitz constant is the
largest slope between neighbours. What is reachable is what the Lipschitz constant certifies without noise, from the
start on, again and again. 60 rounds.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import scalable_bandits as sb
from benchmarks.tuners.command import show
from benchmarks.tuners.report import Sheet, marks_of
from scalable_bandits.checks import Floats
from scalable_bandits.policies.safe import SafePolicy

NORM, NOISE, SIZE, QUANTILE, ROUNDS, DELTA = 2.0, 0.05, 100, 0.3, 60, 0.1
NEAR = 0.1  # difference from the best reachable value, in units of y, that counts as having found it
KERNEL = sb.RBF(0.2)


class Played(NamedTuple):
    """What came out of a run."""

    unsafe: int  # number of evaluations below the threshold
    found: bool  # whether the recommended candidate is within `NEAR` of the best reachable one, or better
    share: float  # share of the safe candidates that are known to be safe


class Problem(NamedTuple):
    """A function that is safe above a threshold."""

    space: sb.Grid
    function: sb.RKHSFunction
    values: Floats  # (n,) at the candidates
    threshold: float
    start: int  # number of the candidate that is known to be safe
    lipschitz: float

    @property
    def reachable(self) -> float:
        """Largest value that the Lipschitz constant certifies, without noise."""
        x, safe = self.space.points()[:, 0], np.zeros(SIZE, dtype=np.bool_)
        safe[self.start] = True
        while True:
            lowest = self.values[safe, None] - self.lipschitz * np.abs(x[safe, None] - x)
            grown = safe | (lowest >= self.threshold).any(axis=0)
            if (grown == safe).all():
                return float(self.values[safe].max())
            safe = grown


def problem(seed: int) -> Problem:
    """Make the function of a seed."""
    space, noise = sb.Grid([[0, 1]], SIZE), sb.UniformNoise(NOISE)
    drawn = sb.RKHSFunction.sparse(space, KERNEL, noise, seed=seed)
    weights = drawn.weights * (NORM / drawn.rkhs_norm)
    function = sb.RKHSFunction(space, KERNEL, drawn.centers, weights, noise, seed=seed)
    values = function.table()
    threshold = float(np.quantile(values, QUANTILE))
    start = int(np.argmin(np.abs(values - 0.5 * (threshold + values.max()))))
    return Problem(space, function, values, threshold, start, float(np.abs(np.diff(values)).max() * (SIZE - 1)))


def policies(of: Problem, seed: int) -> dict[str, Callable[[], SafePolicy]]:
    """Return functions that make the policies."""
    space = of.space
    start, scale = space.points()[[of.start]], of.function.noise.sub_gaussian
    given: dict[str, Any] = {
        "threshold": of.threshold, "safe_start": start, "noise": scale, "regularization": scale**2,
        "rkhs_norm": NORM, "delta": DELTA, "seed": seed,
    }  # fmt: skip
    lipschitz = {"lipschitz": of.lipschitz}
    return {
        "`SafeOpt`": lambda: sb.SafeOpt(space, KERNEL, **given),
        "`SafeOpt(lipschitz=L)`": lambda: sb.SafeOpt(space, KERNEL, **lipschitz, **given),
        "`StageOpt(stage=30)`": lambda: sb.StageOpt(space, KERNEL, stage=30, **given),
        "`LoSBO`": lambda: sb.LoSBO(space, KERNEL, noise_bound=NOISE, **lipschitz, **given),
        "`SafeOpt(width=2)`, customary": lambda: sb.SafeOpt(space, KERNEL, width=2.0, **given),
        "`SafeOpt(width=2)`, lengthscale .4": lambda: sb.SafeOpt(space, sb.RBF(0.4), width=2.0, **given),
    }


def play(of: Problem, policy: SafePolicy) -> Played:
    """Play a run."""
    run = sb.simulate(policy, of.function, ROUNDS)
    unsafe = int((of.values[run.candidate] < of.threshold - 1e-12).sum())
    best = of.values[int(policy.domain.find(np.array([policy.best().x]))[0])]
    allowed = of.values >= of.threshold
    return Played(unsafe, bool(best >= of.reachable - NEAR), float((policy.safe & allowed).sum() / allowed.sum()))


def table(count: int) -> Iterator[Sheet]:
    """Play all policies on functions; yield the table."""
    kept: dict[str, list[Played]] = {}
    for seed in range(count):
        of = problem(seed)
        for name, make in policies(of, seed).items():
            kept.setdefault(name, []).append(play(of, make()))
    rows = []
    for name, runs in kept.items():
        unsafe, found, share = (np.array(column) for column in zip(*runs, strict=True))
        rows.append([
            name, f"{np.mean(unsafe > 0):.1%}", f"{unsafe.mean() / ROUNDS:.2%}", f"{np.mean(found):.0%}",
            f"{share.mean():.0%}",
        ])  # fmt: skip
    header = [
        "policy", "runs with an unsafe evaluation", "unsafe evaluations",
        f"runs that recommend a value within {NEAR:g} of the best reachable one", "safe candidates known as such",
    ]  # fmt: skip
    yield Sheet(f"{count} functions of norm {NORM:g}, {ROUNDS} rounds, delta = {DELTA:g}", header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, and print the table."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks safety", description=__doc__, formatter_class=plain)
    parser.add_argument("--functions", type=int, default=200, help="number of functions (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="two functions")
    parser.add_argument("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE",
                        help="print the table as Markdown, or write it between the marks of a page")  # fmt: skip
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", sb.UnprovenWidth)
    show(list(table(2 if given.quick else given.functions)), given.markdown, marks_of("safety"))
    return 0
