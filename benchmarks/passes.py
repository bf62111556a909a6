"""A pass over a pool of fingerprints on disk: beside a bare loop in memory, and on workers beside bare processes.

Fingerprints are random, so that nearly all are equally unlike what was observed: the worst case for bounds.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

import scalable_bandits as sb
from benchmarks import bare_loops
from benchmarks.measure import Line, interval, peak_memory
from scalable_bandits.execution.clusters import local
from scalable_bandits.posteriors.placement import executor
from scalable_bandits.posteriors.pool.chunks import Passes, Question, best_of_chunk

BYTES = 128  # of a fingerprint of 1,024 bits
OBSERVED, BATCH = 200, 1000
BLOCK = 2**16  # fingerprints that are made at a time
TOGETHER = 4096  # candidates whose covariances the bare loop has in memory


@functools.lru_cache(maxsize=1)
def block(number: int) -> np.ndarray:
    """Random fingerprints (65,536, 128) by the number of their block; one bit in sixteen is 1."""
    rng = np.random.default_rng(number)
    return np.bitwise_and.reduce(rng.integers(0, 2**64, (4, BLOCK, BYTES // 8), dtype=np.uint64)).view(np.uint8)


def fingerprints(first: int, count: int) -> np.ndarray:
    """Fingerprints (count, 128) from a number on, of one block."""
    number, before = divmod(first, BLOCK)
    return block(number)[before : before + count]


def written(path: Path, size: int) -> sb.Pool:
    """A pool of so many fingerprints, made block by block."""

    def blocks(first: int) -> Iterator[np.ndarray]:
        while first < size:
            part = fingerprints(first, min(BLOCK - first % BLOCK, size - first))
            first += len(part)
            yield part

    return sb.Pool.write(str(path), blocks, packed=True, progress=False)


def value(numbers: np.ndarray) -> np.ndarray:
    """Values (k,) of candidates: their bits of some places, with random weights, and noise."""
    bits = np.concatenate([np.unpackbits(fingerprints(int(i), 1), axis=1) for i in numbers])
    weights = np.random.default_rng(0).standard_normal(bits.shape[1])
    return bits @ weights + 0.1 * np.random.default_rng(1).standard_normal(len(numbers))


def observed(path: Path, on: Any = None) -> sb.GPUCB:
    """The policy of `screen`, told some random candidates."""
    pool = sb.Pool(str(path), repeats=False)
    policy = sb.GPUCB(pool, on=on)
    numbers = np.sort(np.random.default_rng(2).choice(pool.size, OBSERVED, replace=False))  # block by block
    policy.tell(numbers.tolist(), value(numbers))
    return policy


def asked(
    policy: sb.GPUCB, at_pass: Callable[[], object] = lambda: None
) -> tuple[list[int], list[tuple[Question, Sequence[int]]], float]:
    """A batch, what was asked of chunks for it, and its seconds; calls a function when a pass begins."""
    questions: list[tuple[Question, Sequence[int]]] = []
    each = Passes.each

    def noted(passes: Passes, function: Any, question: Question, chunks: Sequence[int]) -> Any:
        questions.append((question, chunks))
        at_pass()
        return each(passes, function, question, chunks)

    with mock.patch.object(Passes, "each", noted):
        began = time.perf_counter()
        batch = policy.ask(BATCH)
    return batch.tolist(), questions, time.perf_counter() - began


def chunk(question: Question, repeats: int) -> Line:
    """CPU seconds of scoring one chunk, read from disk, beside predicting all its candidates in memory."""
    start, stop = question.pool.bounds(0)
    bits = np.ascontiguousarray(fingerprints(start, stop - start)).view(np.uint64)
    surface = question.posterior
    points = surface.points.astype(np.uint32).view(np.uint64)
    (scale,) = surface.kernel.diagonal(surface.points[:1])
    inverse = np.linalg.inv(surface._factor)

    def bare() -> None:
        for first in range(0, len(bits), TOGETHER):
            bare_loops.fingerprints(bits[first : first + TOGETHER], points, scale, surface.weights, inverse)

    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(repeats + 1):
        for score, taken in zip((bare, lambda: best_of_chunk(question, 0)), seconds, strict=True):
            began = time.process_time()
            score()
            taken.append(time.process_time() - began)
    theirs, ours = (np.array(taken[1:]) for taken in seconds)
    rates = [(stop - start) / float(np.median(taken)) / 1e6 for taken in (ours, theirs)]
    return Line(
        f"a chunk of {stop - start:,} fingerprints, read from disk, {OBSERVED} observations", f"{rates[0]:.2f} M/s",
        f"bare loop in memory {rates[1]:.2f} M/s", interval(theirs / ours), ">= 0.7",
    )  # fmt: skip


def _share(question: bytes, chunks: Sequence[int]) -> int:
    """Score some chunks."""
    asked: Question = cloudpickle.loads(question)
    with threadpool_limits(1, user_api="blas"):
        return sum(len(best_of_chunk(asked, number).numbers) for number in chunks)


def speedups(question: Question, chunks: int, repeats: int) -> Line:
    """How much faster a pass is on two workers than on one, beside two bare processes and one."""
    packed, numbers = cloudpickle.dumps(question), list(range(chunks))

    def seconds(score: Callable[[], Any]) -> float:
        began = time.perf_counter()
        score()
        return time.perf_counter() - began

    context = multiprocessing.get_context("spawn")
    with local(1) as one, local(2) as two, ProcessPoolExecutor(2, mp_context=context) as processes:
        ours = [Passes(executor(client)) for client in (one, two)]

        def bare(count: int) -> None:
            shares = [processes.submit(_share, packed, numbers[k::count]) for k in range(count)]
            for each in shares:
                each.result()

        found = []
        for _ in range(repeats + 1):
            workers = [seconds(lambda on=on: on.each(best_of_chunk, question, numbers)) for on in ours]
            alone = [seconds(lambda count=count: bare(count)) for count in (1, 2)]
            found.append((workers[0] / workers[1], alone[0] / alone[1]))
    found = found[1:]
    reached = [statistics.median(each) for each in zip(*found, strict=True)]
    return Line(
        "... a pass on 2 workers, speed-up", f"{reached[0]:.2f}", f"2 bare processes {reached[1]:.2f}",
        interval([ours / bare for ours, bare in found]), ">= 0.93",
    )  # fmt: skip


def same(path: Path, batch: list[int], workers: Sequence[int]) -> Line:
    """Whether the batch is the same on some numbers of workers; during the last pass one is killed."""
    found = []
    for count in workers:
        with local(count) as client:
            waiting = []
            if count == max(workers) > 1:
                one = min(client.run(os.getpid).values())
                waiting = [threading.Timer(0.2, os.kill, (one, signal.SIGKILL))]
            batch_again = asked(observed(path, on=client), lambda rest=waiting: rest and rest.pop().start())[0]
            found.append(batch_again == batch and not waiting)
    told = "the same" if all(found) else f"NOT THE SAME: {found}"
    killed = ", one of the last killed" if max(workers) > 1 else ""
    return Line(f"... a batch, number of workers {', '.join(map(str, workers))}{killed}", told, "", "", "")


def passes(quick: bool) -> Iterator[Line]:
    """A pass for a batch of 1,000 over a million fingerprints."""
    size, repeats = (20_000, 1) if quick else (1_000_000, 20)
    with threadpool_limits(1, user_api="blas"), tempfile.TemporaryDirectory() as place:
        path = Path(place, "pool.zarr")
        written(path, size)
        batch, questions, seconds = asked(observed(path))
        (question, chunks), read = questions[0], sum(len(each) for _, each in questions)
        yield Line(
            f"a batch of {BATCH:,} of {size:,} fingerprints", f"{seconds:.1f} s",
            f"{read} chunks read of {len(chunks)}", "", "",
        )  # fmt: skip
        yield chunk(question, repeats)
        yield speedups(question, len(chunks), repeats)
        yield same(path, batch, (1,) if quick else (1, 2, 4))


def hundred_million(quick: bool) -> Iterator[Line]:
    """The same of 10^8 fingerprints on two workers: 13 GB on disk."""
    size = 100_000 if quick else 100_000_000
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "pool.zarr")
        began = time.perf_counter()
        written(path, size)
        yield Line(f"{size:,} fingerprints written", f"{time.perf_counter() - began:.0f} s", "", "", "")
        began = time.perf_counter()
        pool = sb.Pool(str(path))
        yield Line("... opened", f"{time.perf_counter() - began:.2f} s", "", "", "< 1 s")
        with local(2) as client:
            _, questions, seconds = asked(observed(path, on=client))
            memory = max(client.run(peak_memory).values())
        read, chunks = sum(len(each) for _, each in questions), pool.chunks
        yield Line(
            f"... a batch of {BATCH:,} on 2 workers", f"{seconds:.0f} s, {size / seconds / 2e6:.2f} M/s and worker",
            f"{read} chunks read of {chunks}", f"{read / chunks:.2f}", "1",
        )  # fmt: skip
        yield Line("... memory of a worker", f"{memory:.2f} GB", f"driver {peak_memory():.2f} GB", "", "< 1.5 GB")
