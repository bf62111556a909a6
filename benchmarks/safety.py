"""The command ``python -m benchmarks safety``: how often policies that are to be safe evaluate what is not.

The setting of Fiedler, Menn, Kreiskoether & Trimpe 2024: functions of an RKHS with lengthscale .2 whose norm is 2,
uniform noise on [-.05, .05], 100 candidates on a line. A function is safe where it is above its 30 % quantile; the
start is the candidate whose value is nearest to the middle between that and the largest. The Lipschitz constant is the
largest slope between neighbours. What is reachable is what the Lipschitz constant certifies without noise, from the
start on, again and again. 60 rounds. With ``constraints`` that function is a second output, safe where it is above 0,
its prior mean, where it goes higher than deep; the objective is another function of the same kind.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import scalable_bandits as sb
from benchmarks.tuners.report import Sheet, marks_of, show
from scalable_bandits.checks import Floats
from scalable_bandits.policies.safe import SafePolicy
from scalable_bandits.spaces import Mask

NORM, NOISE, SIZE, QUANTILE, ROUNDS, DELTA = 2.0, 0.05, 100, 0.3, 60, 0.1
NEAR = 0.1  # difference from the best reachable value, in units of y, that counts as having found it
OTHER = 1_000_000  # seed of the first objective, where it is not the function itself
KERNEL = sb.RBF(0.2)


class Played(NamedTuple):
    """What came out of a run."""

    unsafe: int  # number of evaluations below the threshold
    found: bool  # whether the recommended candidate is within `NEAR` of the best reachable one, or better
    share: float  # share of the safe candidates that are known to be safe


class Problem(NamedTuple):
    """A function that is safe above a threshold, and another one that is maximised where that is a constraint."""

    space: sb.Grid
    function: sb.RKHSFunction
    objective: sb.RKHSFunction
    values: Floats  # (n,) of the function at the candidates
    threshold: float
    start: int  # number of the candidate that is known to be safe
    lipschitz: float

    @property
    def reachable(self) -> Mask:
        """Mask (n,) of what the Lipschitz constant certifies, without noise."""
        x, safe = self.space.points()[:, 0], np.zeros(SIZE, dtype=np.bool_)
        safe[self.start] = True
        while True:
            lowest = self.values[safe, None] - self.lipschitz * np.abs(x[safe, None] - x)
            grown = safe | (lowest >= self.threshold).any(axis=0)
            if (grown == safe).all():
                return safe
            safe = grown


def drawn(space: sb.Grid, seed: int, upwards: bool = False) -> sb.RKHSFunction:
    """Draw a function of norm `NORM`, whose largest absolute value is positive if it is to go `upwards`."""
    noise = sb.UniformNoise(NOISE)
    found = sb.RKHSFunction.sparse(space, KERNEL, noise, seed=seed)
    values, scale = found.table(), NORM / found.rkhs_norm
    weights = found.weights * (-scale if upwards and -values.min() > values.max() else scale)
    return sb.RKHSFunction(space, KERNEL, found.centers, weights, noise, seed=seed)


def problem(seed: int, quantile: float | None = QUANTILE) -> Problem:
    """Make the functions of a seed, safe above a quantile, or above 0."""
    space = sb.Grid([[0, 1]], SIZE)
    function, objective = drawn(space, seed, quantile is None), drawn(space, OTHER + seed)
    values = function.table()
    threshold = 0.0 if quantile is None else float(np.quantile(values, quantile))
    start = int(np.argmin(np.abs(values - 0.5 * (threshold + values.max()))))
    slope = float(np.abs(np.diff(values)).max() * (SIZE - 1))
    return Problem(space, function, objective, values, threshold, start, slope)


def policies(of: Problem, seed: int) -> dict[str, Callable[[], SafePolicy]]:
    """Return functions that make the policies."""
    space = of.space
    start, scale = space.points()[[of.start]], of.function.noise.sub_gaussian
    given: dict[str, Any] = {
        "safe_start": start, "noise": scale, "regularization": scale**2, "rkhs_norm": NORM, "delta": DELTA,
        "seed": seed,
    }  # fmt: skip
    if not of.threshold:
        given |= {"constraints": {"function": sb.AtLeast(0.0)}, "objective": "objective"}
        return {
            "`SafeOpt(constraints=...)`": lambda: sb.SafeOpt(space, KERNEL, **given),
            "`StageOpt(constraints=..., stage=30)`": lambda: sb.StageOpt(space, KERNEL, stage=30, **given),
        }
    given["threshold"], lipschitz = of.threshold, {"lipschitz": of.lipschitz}
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
    wanted, chosen = of.values, np.empty(ROUNDS, dtype=np.int64)
    if policy.constraints:
        wanted = of.objective.table()
        for t in range(1, ROUNDS + 1):
            x = policy.ask()
            chosen[t - 1] = policy.domain.find(x[None])[0]
            policy.tell(x, {"objective": of.objective.observe(x, t), "function": of.function.observe(x, t)})
    else:
        chosen[:] = sb.simulate(policy, of.function, ROUNDS).candidate
    unsafe = int((of.values[chosen] < of.threshold - 1e-12).sum())
    best, allowed = wanted[int(policy.domain.find(np.array([policy.best().x]))[0])], of.values >= of.threshold
    found = best >= wanted[of.reachable].max() - NEAR
    return Played(unsafe, bool(found), float((policy.safe & allowed).sum() / allowed.sum()))


def table(count: int) -> Iterator[Sheet]:
    """Play all policies on functions; yield the table."""
    kept: dict[str, list[Played]] = {}
    for seed in range(count):
        for of in (problem(seed), problem(seed, None)):
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
