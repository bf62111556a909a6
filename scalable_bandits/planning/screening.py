"""Plan of a screening: seconds and memory of choosing from a pool on so many workers, before it is begun.

A chunk of the pool is scored and chosen from, as by the default policy, with the observations of the first batch and
with all of them. Their values are a function of the policy's kernel, so that candidates that are alike have like
values. A batch then takes, on w workers,

    ceil(chunks / w) c(m) + chunks * task + bytes / bandwidth + d(m) seconds

with m observations, where c is the time of a chunk and d that of what this process does beside: it learns, and computes
candidates again. Between the numbers of observations that were measured both are interpolated. Chunks that are read
again are not counted.
"""

from __future__ import annotations

import functools
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.execution import resolve
from scalable_bandits.execution.resources import forget_peak, peak_memory
from scalable_bandits.planning.plans import Machine, enough, measured
from scalable_bandits.policies import GPUCB
from scalable_bandits.posteriors.models.pool_search import PoolSearch
from scalable_bandits.posteriors.placement import cores
from scalable_bandits.posteriors.pool.chunks import Question, best_of_chunk
from scalable_bandits.posteriors.pool.queue import kept_of_chunk
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Pool

CENTRES = 16  # candidates around which the values rise or fall
NOISE = 0.1  # standard deviation of their noise, in units of that of the values
CHUNK = "chunk"  # name of what workers do


class Choosing(NamedTuple):
    """What choosing takes with so many observations."""

    observations: int
    chunk: float  # seconds in which a chunk is scored by one process
    driver: float  # seconds of a batch beside


class ScreenedBy(NamedTuple):
    """A screening on so many workers; on one, it is this process."""

    workers: int
    seconds: float  # of choosing all batches, from the start of the workers on
    last: float  # seconds of the last batch


class ScreenPlan(NamedTuple):
    """What choosing takes in a screening."""

    candidates: int
    chunks: int
    batches: int
    measured: list[Choosing]
    workers: list[ScreenedBy]
    enough: int  # smallest number of workers beyond which more gain less than a tenth
    memory: float  # bytes that the process that chooses needs beyond the package's own; a worker needs less
    machine: Machine


def plan_screen(
    pool: Pool, budget: int, *, batch: int, workers: Sequence[int] = (1,), candidates: int | None = None,
    on: Any = None,
) -> ScreenPlan:  # fmt: skip
    """Predict what choosing takes in `screen`, with the default policy.

    Parameters
    ----------
    pool
        Pool, of which a chunk is read.
    budget, batch
        Number of candidates that will be measured, and that are chosen at once.
    workers
        Numbers of workers; 1 is this process.
    candidates
        Number of candidates of the pool that is planned, at least that of `pool`, which is the default.
    on
        Cluster that is measured, as in `screen`; a process for each core of this machine if not given.

    Raises
    ------
    ValueError
        If a number is out of range, or the budget is larger than the pool, whose candidates are measured once.
    """
    counts = [checks.integer(f"workers[{i}]", each, 1) for i, each in enumerate(workers)]
    checks.kind("pool", pool, Pool, "a Pool")
    size = checks.integer("candidates", pool.size if candidates is None else candidates, 1)
    if size < pool.size:
        checks.refuse("candidates", size, f"at least {pool.size}, the number in the pool")
    budget = checks.integer("budget", budget, 1)
    if budget > size and not pool.repeats:  # as the screening does
        checks.refuse("budget", budget, f"at most {size}, the number of candidates, each of which is measured once")
    batch = checks.integer("batch", batch, 1, budget)
    where = f"local:{cores()}" if on is None else on
    resolve(where)
    chunks, batches = math.ceil(size / pool.shape.chunk), math.ceil(budget / batch)
    with tempfile.TemporaryDirectory() as folder:
        part = _part(pool, folder)
        forget_peak()
        before = peak_memory()
        again, found = None, list[Choosing]()
        for count in sorted({max(min(each, part.size // 2), 1) for each in (batch, budget)}):
            seconds, again = _choosing(part, count, batch, size)
            found.append(Choosing(count, *seconds))
        memory = float(max(peak_memory() - before, 0))
        assert again is not None
        machine = Machine() if max(counts) == 1 else measured(where, {CHUNK: again})
    held = kept_of_chunk(chunks, batch) * chunks * 8.0 * (part.model_dimension + 3)
    on_workers = functools.partial(_on, found, chunks, batch, batches, held, machine)
    shown = [on_workers(each) for each in counts]
    needed = enough(lambda count: on_workers(count).seconds, chunks)
    return ScreenPlan(size, chunks, batches, found, shown, needed, memory, machine)


def _part(pool: Pool, folder: str) -> Pool:
    """Write the first chunk of a pool as another."""
    stop = pool.bounds(0)[1]

    def pieces() -> Iterator[dict[str, Any]]:
        rows = pool.raw(0, stop)
        yield {name: each for name, each in rows._asdict().items() if each is not None}

    path = f"{folder}/part.zarr"
    return attrs.evolve(Pool.write(path, pieces(), chunk=pool.shape.chunk, progress=False), repeats=False)


def _choosing(pool: Pool, count: int, batch: int, candidates: int) -> tuple[tuple[float, float], Callable[[], float]]:
    """Return the seconds of a chunk, and of what is done beside for a batch; and what returns those of `pool` again."""
    policy, rng = GPUCB(pool), generator(0, "plan", count)
    numbers = np.sort(rng.choice(pool.size, count, replace=False))
    policy.tell(numbers, _values(policy, numbers, rng))
    began = time.perf_counter()
    policy.ask(min(batch, pool.size - count))
    driver = time.perf_counter() - began - cast(PoolSearch, policy.model.search).passes.seconds
    posterior, index = cast(Any, policy.model.engine).surface(), cast(Any, policy.acquisition(None))
    chunk = pool.shape.chunk
    kept = kept_of_chunk(math.ceil(candidates / chunk), batch)
    question = Question(pool.at(None), posterior, None, index, numbers, kept, 0)
    again = functools.partial(_seconds_of_chunk, question)
    return (again() * min(chunk, candidates) / pool.size, driver), again  # the pool planned may have more of the chunk


def _values(policy: GPUCB, numbers: Any, rng: np.random.Generator) -> Floats:
    """Return the values of a function of the policy's kernel at some candidates, with noise."""
    x = policy.space.encode(numbers[:, None].astype(np.float64))
    centres = x[rng.choice(len(x), min(CENTRES, len(x)), replace=False)]
    values = policy.present_kernel.block(x, centres) @ rng.standard_normal(len(centres))
    found: Floats = values + NOISE * max(float(values.std()), 1e-6) * rng.standard_normal(len(x))
    return found


def _seconds_of_chunk(question: Question) -> float:
    """Return the seconds in which a chunk is scored."""
    began = time.perf_counter()
    best_of_chunk(question, 0)
    return time.perf_counter() - began


def _on(
    found: Sequence[Choosing], chunks: int, batch: int, batches: int, held: float, machine: Machine, workers: int
) -> ScreenedBy:
    told = batch * np.arange(1, batches)  # the first batch is drawn at random
    seen = [each.observations for each in found]
    chunk, driver = (np.interp(told, seen, [each[i] for each in found]) for i in (1, 2))
    seconds = math.ceil(chunks / workers) * machine.factor(CHUNK, workers) * chunk + driver
    start = 0.0
    if workers > 1 and machine.messages is not None:
        start = machine.start
        seconds = seconds + chunks * machine.messages.task + held / machine.messages.bandwidth
    return ScreenedBy(workers, start + float(seconds.sum()), float(seconds[-1]) if batches > 1 else 0.0)
