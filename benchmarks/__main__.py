"""Print what each benchmark measured beside what it was measured against.

``python -m benchmarks`` runs all at full size (about ten minutes on two cores), ``--quick`` at a size that only shows
that they run, and names choose some of them.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import measure
from benchmarks.measure import Line, timed
from benchmarks.problems import BoTorch, Loop, Naive, ScikitLearn, ours


def startup(quick: bool) -> Iterator[Line]:
    """Import, and the first decision of a second process."""
    repeats = 1 if quick else 7
    code = (
        "import time, numpy, numba; t = time.perf_counter();"
        "import scalable_bandits as sb; print(time.perf_counter() - t)"
    )
    (seconds,) = measure.fresh(code, repeats)
    yield Line("import over numpy and numba", f"{seconds:.3f} s", "", "", "< 0.3 s")
    code = (
        "import time, scalable_bandits as sb; t = time.perf_counter();"
        "p = sb.IGPUCB(sb.Grid([[0, 1]] * 2, 30), sb.Matern(0.2, nu=1.5)); x = p.ask();"
        "first = time.perf_counter() - t; p.tell(x, 0.5); p.ask(); print(first, time.perf_counter() - t)"
    )
    measure.fresh(code)  # fills the cache of compiled code
    first, second = measure.fresh(code, repeats)
    yield Line("first decision of a second process", f"{first:.3f} s", "", "", "< 1 s")
    yield Line("... and tell, and the second decision", f"{second:.3f} s", "", "", "")


def compilation(quick: bool) -> Iterator[Line]:
    """Compile time of everything IGP-UCB needs, with an empty cache."""
    code = (
        "import os, tempfile, time; os.environ['NUMBA_CACHE_DIR'] = tempfile.mkdtemp();"
        "import scalable_bandits as sb; t = time.perf_counter();"
        "p = sb.IGPUCB(sb.Grid([[0, 1]] * 2, 5), sb.Matern(0.2, nu=1.5), engine='{}');"
        "p.tell(p.ask(), 0.5); p.ask(); print(time.perf_counter() - t)"
    )
    for engine in ("dense", "blocked"):
        (seconds,) = measure.fresh(code.format(engine))
        yield Line(f"compile, once a machine, {engine} engine", f"{seconds:.1f} s", "", "", "")


def grid2(quick: bool) -> Iterator[Line]:
    """IGP-UCB on the 30^2 grid."""
    side, short, long = (8, 40, 80) if quick else (30, 1000, 10_000)
    ours(side, 2, 10)
    seconds, run = timed(lambda: ours(side, 2, short), 1 if quick else 7)
    naive, played = timed(lambda: Naive(side, 2).play(short))
    same = "same points" if run.candidate.tolist() == played else "OTHER POINTS"
    yield Line(
        f"IGP-UCB, {side}^2 grid, T = {short}", f"{seconds * 1e3:.0f} ms", f"naive {naive:.1f} s, {same}",
        f"{naive / seconds:.0f}x", ">= 500x",
    )  # fmt: skip
    seconds, run = timed(lambda: ours(side, 2, long), 1 if quick else 5)
    distinct = len(np.unique(run.candidate))
    yield Line(f"IGP-UCB, {side}^2 grid, T = {long}", f"{seconds:.2f} s", f"{distinct} distinct points", "", "< 2 s")


def peers(quick: bool) -> Iterator[Line]:
    """scikit-learn and BoTorch loops."""
    side, horizon = (6, 20) if quick else (30, 500)
    ours(side, 2, 10)
    seconds, run = timed(lambda: ours(side, 2, horizon), 1 if quick else 7)
    asked = {"ScikitLearn": ">= 50x", "BoTorch": ">= 100x"}
    kinds: list[type[Loop]] = [ScikitLearn, BoTorch]
    for kind in kinds:
        loop = kind(side, 2)
        theirs, played = timed(functools.partial(loop.play, horizon))
        same = "same points" if run.candidate.tolist() == played else "OTHER POINTS"
        yield Line(
            f"IGP-UCB, {side}^2 grid, T = {horizon}", f"{seconds * 1e3:.1f} ms",
            f"{kind.__name__} {theirs:.1f} s, {same}", f"{theirs / seconds:.0f}x", asked[kind.__name__],
        )  # fmt: skip


def grid3(quick: bool) -> Iterator[Line]:
    """IGP-UCB on the 30^3 grid against dgemm, in a process of its own for its memory."""
    side, horizon = (12, 100) if quick else (30, 10_000)
    code = (
        "import time, numpy as np; from benchmarks.problems import ours; from benchmarks.measure import peak_memory;"
        "ours(5, 3, 80, engine='blocked'); t = time.perf_counter();"
        f"run = ours({side}, 3, {horizon}, engine='blocked');"
        "print(time.perf_counter() - t, len(np.unique(run.candidate)), peak_memory(), run.regret.mean())"
    )
    seconds, distinct, memory, _ = measure.fresh(code)
    n, m = side**3, int(distinct)
    a, b = np.random.default_rng(0).random((n, m)), np.random.default_rng(1).random((m, m))
    dgemm, _ = timed(lambda: a @ b, 1 if quick else 2)
    yield Line(
        f"IGP-UCB, {side}^3 grid, T = {horizon}", f"{seconds:.1f} s, {memory:.1f} GB",
        f"dgemm of n m^2, m = {m}: {dgemm:.1f} s", f"{seconds / dgemm:.2f}", "<= 4, < 6 GB",
    )  # fmt: skip


def engines(quick: bool) -> Iterator[Line]:
    """Dense against blocked by size, which is how "auto" chooses."""
    for side, horizon in ((8, 40),) if quick else ((30, 2000), (45, 2000), (55, 2000), (70, 2000)):
        dense, _ = timed(functools.partial(ours, side, 2, horizon, engine="dense"))
        blocked, _ = timed(functools.partial(ours, side, 2, horizon, engine="blocked"))
        yield Line(
            f"dense engine, {side}^2 grid, T = {horizon}", f"{dense:.2f} s", f"blocked {blocked:.2f} s",
            f"{blocked / dense:.2f}", "",
        )  # fmt: skip


BENCHMARKS: dict[str, Callable[[bool], Iterator[Line]]] = {
    f.__name__: f for f in (startup, compilation, grid2, peers, grid3, engines)
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="which; all if none is named")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that they run")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")  # the peers'
    table = Table("benchmark", "ours", "against", "ratio", "asked", title=measure.machine(), title_justify="left")
    for name in arguments.names or BENCHMARKS:
        for line in BENCHMARKS[name](arguments.quick):
            table.add_row(*line)
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
