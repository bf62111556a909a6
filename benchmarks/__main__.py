"""Print what each benchmark measured beside what it was measured against.

``python -m benchmarks`` runs all at full size (about ten minutes on two cores without ``sketched`` and ``drift``, each
of which takes as long again or longer, and ``boxes``, in which whole runs of other packages take hours), ``--quick`` at
a size that only shows that they run, and names choose some of them; ``two`` and ``six`` are the whole runs of
``boxes``, whose functions ``--seeds`` chooses, and ``hundred_million`` is a pass over a pool of 13 GB on disk.
``python -m benchmarks tuners``, ``search``, ``in_flight``, ``discrete``, ``pools``, ``constrained``, ``failing``,
``biobjective``, ``safety`` and ``contextual`` are commands of their own (``--help`` says more).
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np
from rich.console import Console
from rich.table import Table

import scalable_bandits as sb
from benchmarks import contextual, discrete, in_flight, measure, safety, search, stores
from benchmarks.approximate import approximate
from benchmarks.biobjective import command as biobjective
from benchmarks.boxes import boxes, six, two
from benchmarks.changing import changing
from benchmarks.cluster import cluster
from benchmarks.constrained import command as constrained
from benchmarks.constrained import failing
from benchmarks.coverage import coverage
from benchmarks.drift import drift
from benchmarks.long import long
from benchmarks.measure import Line, timed
from benchmarks.partitions import partition
from benchmarks.passes import hundred_million, passes
from benchmarks.pools import command as pools
from benchmarks.predictions import predictions
from benchmarks.priors import priors
from benchmarks.problems import BoTorch, Loop, Naive, ScikitLearn, ours, partitioned, policy, problem
from benchmarks.refinement import refinement
from benchmarks.repeats import repeats
from benchmarks.sampler import sampler
from benchmarks.searched import searched
from benchmarks.sharded import sharded
from benchmarks.sketched import sketched
from benchmarks.stopping import stopping
from benchmarks.tuners import command as tuners
from benchmarks.weights import weights


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
    for engine in ("tiled",) if quick else ("dense", "tiled"):
        (seconds,) = measure.fresh(code.format(engine))
        yield Line(f"compile, once a machine, {engine} engine", f"{seconds:.1f} s", "", "", "")


def grid2(quick: bool) -> Iterator[Line]:
    """IGP-UCB on the 30^2 grid."""
    side, short, full = (8, 40, 80) if quick else (30, 1000, 10_000)
    ours(side, 2, 10)
    seconds, run = timed(lambda: ours(side, 2, short), 1 if quick else 7)
    naive, played = timed(lambda: Naive(side, 2).play(short))
    same = "same points" if run.candidate.tolist() == played else "OTHER POINTS"
    yield Line(
        f"IGP-UCB, {side}^2 grid, T = {short}", f"{seconds * 1e3:.0f} ms", f"naive {naive:.1f} s, {same}",
        f"{naive / seconds:.0f}x", ">= 500x",
    )  # fmt: skip
    seconds, run = timed(lambda: ours(side, 2, full), 1 if quick else 5)
    distinct = len(np.unique(run.candidate))
    yield Line(f"IGP-UCB, {side}^2 grid, T = {full}", f"{seconds:.2f} s", f"{distinct} distinct points", "", "< 2 s")


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
        "ours(5, 3, 80, engine='tiled'); t = time.perf_counter();"
        f"run = ours({side}, 3, {horizon}, engine='tiled');"
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
        blocked, _ = timed(functools.partial(ours, side, 2, horizon, engine="tiled"))
        yield Line(
            f"dense engine, {side}^2 grid, T = {horizon}", f"{dense:.2f} s", f"blocked {blocked:.2f} s",
            f"{blocked / dense:.2f}", "",
        )  # fmt: skip


def store(quick: bool) -> Iterator[Line]:
    """Rounds of (t, x in 6 dimensions, y) to disk, beside plain zarr that syncs as often."""
    count, repeats = (200_000, 1) if quick else (10_000_000, 10)
    few = count // 5
    x, y = stores.rows(few)
    for what, write, size in (
        *(("written", stores.blocks, size) for size in (10_000, 100_000, 1_000_000)),
        ("told", stores.told, 100_000),
    ):
        yield _beside_zarr(f"store, {few:,} rounds {what} in blocks of {size:,}", write, x, y, size, repeats)
    bulk = stores.seconds_of(lambda place: stores.bulk(place, x, y))
    yield Line(f"... one bulk zarr write, not synced, {few:,} rounds", f"{few / bulk / 1e6:.2f} M/s", "", "", "")
    few //= 2
    plain = stores.seconds_of(lambda place: stores.plain_appends(place, x[:few], y[:few], 10_000))
    ours = stores.seconds_of(lambda place: stores.blocks(place, x[:few], y[:few], 10_000))
    yield Line(
        f"store, {few:,} rounds, blocks of 10,000", f"{few / ours / 1e6:.2f} M/s",
        f"zarr append {few / plain / 1e6:.2f} M/s", f"{plain / ours:.1f}x", "",
    )  # fmt: skip
    yield from _memory(count)
    yield from _tells(120 if quick else 2000)


def _beside_zarr(
    what: str, write: Callable[..., None], x: np.ndarray, y: np.ndarray, size: int, repeats: int
) -> Line:  # fmt: skip
    """Our store and plain zarr that syncs every block, in turns: the disk has better and worse minutes."""
    ours, plain = [], []
    for _ in range(repeats):
        plain.append(stores.seconds_of(lambda place: stores.synced_blocks(place, x, y, size)))
        ours.append(stores.seconds_of(lambda place: write(place, x, y, size)))
    speeds = [len(y) / statistics.median(seconds) / 1e6 for seconds in (ours, plain)]
    ratios = [zarr / store for zarr, store in zip(plain, ours, strict=True)]
    return Line(
        what,
        f"{speeds[0]:.2f} M/s",
        f"zarr that syncs as often {speeds[1]:.2f} M/s",
        measure.interval(ratios),
        ">= 0.90",
    )


def _memory(count: int) -> Iterator[Line]:
    """Peak memory of a process that makes and writes the rounds block by block."""
    code = (
        "import tempfile, numpy as np; from pathlib import Path; from benchmarks import stores, measure;"
        "from scalable_bandits.store import ObservationStore;"
        "rng = np.random.default_rng(0); start = measure.peak_memory();"
        "folder = stores.folder(); place = folder.__enter__();"
        f"s = ObservationStore.create(place / 'run.zarr', stores.FIELDS, specification={{}}, planned={count});"
        f"[s.append(dict(x=rng.random((10_000, 6)), y=rng.standard_normal(10_000))) for _ in range({count} // 10_000)];"
        "s.close(); folder.__exit__(None, None, None); print(measure.peak_memory() * 1e3, start * 1e3)"
    )
    peak, start = measure.fresh(code)
    yield Line(
        f"... peak memory, {count:,} rounds", f"{peak:.0f} MB", f"before the first {start:.0f} MB", "", "< 300 MB"
    )


def _tells(count: int) -> Iterator[Line]:
    """What durability costs a `tell`."""
    with stores.folder() as place:
        ours, bare = stores.tells_and_syncs(place, count)
    middle, late = np.percentile(ours * 1e3, [50, 99])
    yield Line(
        "durable tell of one round", f"median {middle:.2f} ms, 99 % {late:.2f} ms",
        f"append and fsync {np.median(bare) * 1e3:.2f} ms", measure.interval(ours / bare), "<= 1.5",
    )  # fmt: skip
    space, kernel, function = problem(30, 2)
    seconds = []
    for kept in (False, True):
        told = policy(space, kernel, function)
        with stores.folder() as place, sb.record(told, place / "run.zarr") if kept else nullcontext():
            single = np.empty(count)
            for t in range(1, count + 1):
                point = told.ask()
                value = function.observe(point, t)
                started = time.perf_counter()
                told.tell(point, value)
                single[t - 1] = time.perf_counter() - started
        seconds.append(single * 1e3)
    (bare, bare_late), (middle, late) = (np.percentile(s, [50, 99]) for s in seconds)
    yield Line(
        "durable tell, 30^2 grid", f"median {middle:.2f} ms, 99 % {late:.2f} ms",
        f"without a store {bare:.2f} ms, {bare_late:.2f} ms", f"+{middle - bare:.2f} ms", "",
    )  # fmt: skip


def reopen(quick: bool) -> Iterator[Line]:
    """Long runs: kept as they are played, and opened again ready to ask."""
    rounds = 3000 if quick else 1_000_000
    for name, dimension in (("PiGPUCB", 3), ("IGPUCB", 2)):
        space, kernel, function = problem(8 if quick else 30, dimension)
        make = functools.partial(partitioned, horizon=rounds) if name == "PiGPUCB" else policy
        make(space, kernel, function).tell(space.points([0])[0], 0.0)  # compiles
        with stores.folder() as folder:
            started = time.perf_counter()
            sb.simulate(make(space, kernel, function), function, rounds, store=folder / "run.zarr")
            kept = time.perf_counter() - started
            started = time.perf_counter()
            run = sb.simulate(make(space, kernel, function), function, rounds + 1, store=folder / "run.zarr")
            again = time.perf_counter() - started
            started = time.perf_counter()
            run.curve(500)
            curve = time.perf_counter() - started
        played, _ = timed(functools.partial(sb.simulate, make(space, kernel, function), function, rounds))
        what = f"{name}, {space.size:,} arms, T = {rounds:,}"
        yield Line(f"{what}, kept in a store", f"{kept:.1f} s", f"in memory {played:.1f} s", f"{kept / played:.2f}", "")
        yield Line("... opened again, one more round", f"{again:.2f} s", "", f"{again / kept:.3f}", "< 0.1")
        yield Line("... regret curve of 500 points", f"{curve:.2f} s", "", "", "")


_ALL = (
    startup, compilation, grid2, peers, grid3, engines, store, reopen, partition, changing, priors, cluster, sharded,
    sampler, searched, approximate, stopping, coverage, long, repeats, predictions, weights, refinement, passes,
    boxes, sketched, drift,
)  # fmt: skip
BENCHMARKS: dict[str, Callable[..., Iterator[Line]]] = {f.__name__: f for f in _ALL}
SEEDED: dict[str, Callable[..., Iterator[Line]]] = {f.__name__: f for f in (boxes, two, six)}
NAMED = {**BENCHMARKS, **SEEDED, "hundred_million": hundred_million}  # some only where they are named
COMMANDS = {
    "tuners": tuners, "search": search, "in_flight": in_flight, "discrete": discrete, "pools": pools,
    "constrained": constrained, "failing": failing, "biobjective": biobjective, "safety": safety,
    "contextual": contextual,
}  # fmt: skip


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        sys.exit(COMMANDS[sys.argv[1]].main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMED, []], help="which; all if none is named")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that they run")
    parser.add_argument("--seeds", nargs="+", type=int, help="of the functions in " + ", ".join(SEEDED))
    parser.add_argument("--before", metavar="REVISION", help="of git: `long` measures this version, too")
    arguments = parser.parse_args()
    if arguments.seeds and not set(arguments.names) <= set(SEEDED):
        parser.error("--seeds: got with others; allowed: with " + ", ".join(SEEDED))
    warnings.filterwarnings("ignore")  # the peers'
    table = Table("benchmark", "ours", "against", "ratio", "asked", title=measure.machine(), title_justify="left")
    for name in arguments.names or BENCHMARKS:
        more = (arguments.seeds,) if name in SEEDED else (arguments.before,) if name == "long" else ()
        for line in NAMED[name](arguments.quick, *more):
            table.add_row(*line)
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
