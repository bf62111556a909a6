"""The command ``python -m benchmarks contextual``: what knowing the context is worth, and what it costs.

Functions on a 30 x 30 grid, drawn from a Gaussian process; the second coordinate is the context, drawn uniformly in
every round. Where the context matters, the kernel is RBF(.2) of both coordinates. Where it does not, the kernel is that
of the first coordinate alone, so that one action is best in all contexts. The regret is relative to the best response
to each context. The blind policy has a kernel of the first coordinate alone, the contextual one a kernel of both. The
last policy has both kernels as priors, and plays the likelier one. All are `MLEGPUCB`, and have the same width.

A second table has the CPU time of 10^6 rounds with a table of contexts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import scalable_bandits as sb
from benchmarks.tuners.report import Sheet, marks_of, show
from scalable_bandits.checks import Floats
from scalable_bandits.policies import Policy

NOISE, SCALE = 0.1, 5.0  # standard deviation of the noise; divisor of the squared width
KERNELS: dict[str, sb.Kernel] = {"blind": sb.OnDimensions(sb.RBF(0.2), [0]), "contextual": sb.RBF(0.2)}
POLICIES = {  # names of the kernels of which each policy knows
    "blind": ("blind",),
    "contextual": ("contextual",),
    "contextual, of two kernels the likelier": ("blind", "contextual"),
}
CASES = {"matters": "contextual", "does not matter": "blind"}  # kernel from which the functions are drawn


def environment(space: sb.Grid, case: str, seed: int) -> sb.ContextualEnvironment:
    """Draw the function and the contexts of a seed."""
    function = sb.GPSample(space, KERNELS[CASES[case]], sb.GaussianNoise(NOISE), seed=seed)
    return sb.ContextualEnvironment(function, dimensions=[1])


def policy(space: sb.Grid, name: str, seed: int) -> Policy:
    """Make the policy of this name."""
    priors = [sb.Prior(kernel, KERNELS[kernel]) for kernel in POLICIES[name]]
    return sb.MLEGPUCB(space, priors, noise=NOISE, regularization=NOISE**2, scale=SCALE, seed=seed)


def regrets(shape: tuple[int, int], rounds: int, seeds: int) -> dict[str, dict[str, Floats]]:
    """Play all policies; return cumulative regrets (seeds,) by case and policy."""
    space = sb.Grid([[0, 1], [0, 1]], shape)
    return {
        case: {
            name: np.array([
                sb.simulate(policy(space, name, seed), environment(space, case, seed), rounds).cumulative_regret[-1]
                for seed in range(seeds)
            ])
            for name in POLICIES
        }
        for case in CASES
    }  # fmt: skip


def table(shape: tuple[int, int], rounds: int, seeds: int) -> Sheet:
    """Return the table of regrets, and of their ratios to those of the blind policy."""
    found, rows = regrets(shape, rounds, seeds), []
    for name in POLICIES:
        row = [name]
        for each in found.values():
            mean, error = each[name].mean(), each[name].std(ddof=1) / np.sqrt(seeds)
            row += [f"{mean:.1f} ± {error:.1f}", f"{mean / each['blind'].mean():.2f}"]
        rows.append(row)
    header = ["policy", *(text for case in CASES for text in (f"regret, context {case}", "of the blind one's"))]
    return Sheet(f"{shape[0]} x {shape[1]} grid, {rounds:,} rounds, {seeds} functions", header, rows)


def times(rounds: int) -> Sheet:
    """Return the table of the CPU time of many rounds, which one thread plays, on a 30 x 30 grid."""
    space, kernel = sb.Grid([[0, 1], [0, 1]], 30), sb.RBF(0.2)
    function = sb.RKHSFunction.sparse(space, kernel, sb.GaussianNoise(NOISE), seed=1)
    contexts = np.random.default_rng(0).choice(np.unique(space.points()[:, 1]), size=rounds)
    given = sb.ContextualEnvironment(function, [1], contexts)
    rows = []
    kinds: dict[str, Callable[..., Policy]] = {"`GPUCB`": sb.GPUCB, "`IGPUCB`": sb.IGPUCB}
    for name, kind in kinds.items():
        row = [name]
        for world in (function, given):
            sb.simulate(kind(space, kernel, noise=NOISE), world, 100)  # compiles
            started = time.process_time()
            sb.simulate(kind(space, kernel, noise=NOISE), world, rounds)
            row.append(f"{time.process_time() - started:.1f} s")
        rows.append(row)
    return Sheet(f"CPU time of {rounds:,} rounds, 30 x 30 grid", ["policy", "no context", "a table of contexts"], rows)


def sheets(quick: bool) -> Iterator[Sheet]:
    """Play, and yield the tables."""
    yield table((10, 5), 50, 2) if quick else table((30, 30), 2000, 20)
    yield times(2000 if quick else 1_000_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, and print the tables."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks contextual", description=__doc__, formatter_class=plain)
    parser.add_argument("--quick", action="store_true", help="two functions on a small grid, and few rounds")
    parser.add_argument("--markdown", nargs="?", type=Path, const=Path("-"), metavar="PAGE",
                        help="print the tables as Markdown, or write them between the marks of a page")  # fmt: skip
    given = parser.parse_args(arguments)
    show(list(sheets(given.quick)), given.markdown, marks_of("contextual"))
    return 0
