"""The best candidates of a chunk of a pool, given a posterior: a pure function, which any process may compute."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors import _numba_choice as numba_choice
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.box.surface import Surface
from scalable_bandits.posteriors.placement import Executor
from scalable_bandits.posteriors.pool.pending_given import PendingGiven
from scalable_bandits.spaces import Indices, Mask
from scalable_bandits.spaces.pool import Available, PoolInContext, StoredRows, coordinates_of, mask_of

Scored = TypeVar("Scored")
BLOCK_BYTES = 2**24  # memory of the covariances of the candidates that are scored together
LARGEST_BLOCK, LEAST_BLOCK = 4096, 64
TOGETHER = 256  # candidates whose variances are computed together, given pending points


class Passes:
    """Passes over chunks of a pool, of which the present one is counted.

    Parameters
    ----------
    executor
        Executor that scores the chunks.

    Attributes
    ----------
    total : int
        Number of chunks of the present pass; 0 between two passes.
    done : int
        Number of them that are scored.
    seconds : float
        Time that all passes took so far.
    """

    def __init__(self, executor: Executor):
        self._executor, self.total, self.done, self.seconds = executor, 0, 0, 0.0

    def each(self, function: Callable[[Any, Any], Scored], question: Any, chunks: Sequence[Any]) -> list[Scored]:
        """Return what a function of a question and of a chunk's number returns for each chunk, or part of a pool."""
        count, self.done, self.total, began = itertools.count(1), 0, len(chunks), time.perf_counter()

        def done() -> None:
            self.done = next(count)

        try:
            return self._executor.each(function, question, chunks, done)
        finally:
            self.total = 0
            self.seconds += time.perf_counter() - began


class GrowingIndex(Protocol):
    """Index that does not fall where the variance grows.

    Attributes
    ----------
    of_mean : bool
        Whether it is a function of the mean alone.
    """

    @property
    def of_mean(self) -> bool:
        """Whether it is a function of the mean alone."""

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        """Return the index (k,) at means (k,) and variances (k,)."""

    def rise(self, earlier: GrowingIndex, std: Floats) -> Floats:
        """Return bounds (k,) on the rise of the index since an earlier one, at standard deviations (k,)."""


class Question(NamedTuple):
    """What is asked of every chunk."""

    pool: PoolInContext
    posterior: Surface  # given the observations
    given: PendingGiven | None  # effect of pending points; None without any
    acquisition: GrowingIndex
    taken: Indices  # numbers of candidates that are left out, ascending
    keep: int  # number of candidates that are returned
    salt: int  # seed of the hash that breaks ties
    available: Available | None = None  # mask of the candidates to choose from; None for all


class BestOfChunk(NamedTuple):
    """The best candidates of a chunk, and bounds on all others."""

    numbers: Indices  # (k,)
    mean: Floats  # (k,)
    variance: Floats  # (k,)
    rows: Floats  # (k, D + c) coordinates
    rest: float  # largest index of the others; -inf if there are none
    rest_std: float  # largest standard deviation of the others
    rest_hash: int  # smallest hash of those of the others that are tied for the largest index


def best_of_chunk(question: Question, chunk: int) -> BestOfChunk:
    """Score the candidates of a chunk: all by bounds, and by the index itself those that could be among the best.

    Parameters
    ----------
    question
        Posterior, index, and how many candidates are wanted.
    chunk
        Number of the chunk.
    """
    pool, (start, stop) = question.pool, question.pool.bounds(chunk)
    allowed = allowed_in(pool, chunk, question.taken, question.available)
    return best_of(question, np.arange(start, stop), pool.raw(start, stop), allowed)


def best_of(question: Question, numbers: Indices, raw: StoredRows, allowed: Mask) -> BestOfChunk:
    """Score some candidates as `best_of_chunk` does.

    Parameters
    ----------
    question
        Posterior, index, and how many candidates are wanted.
    numbers, raw
        Numbers (n,), and the candidates as they are stored.
    allowed
        Mask (n,) of those to choose from.
    """
    index = question.acquisition
    with one_thread:
        mean, variance = outlined(question.posterior, raw, len(numbers), index.of_mean)
        score = np.array(index(mean, variance))  # a copy: an index of the mean alone may be the array of the means
        score[~allowed] = -np.inf
        scored = np.flatnonzero(score > -np.inf)
        bounded = len(question.posterior.points) > 0 or question.given is not None
        if bounded and not index.of_mean:
            scored = _scored(question, raw, mean, variance, score)
    kept = scored[_top(score[scored], numbers[scored], question.keep, question.salt)]
    others = score > -np.inf
    others[kept] = False
    rest, tied = float(score[others].max(initial=-np.inf)), numbers[:0]
    if rest > -np.inf:
        tied = numbers[others & (score >= numba_choice.smallest_tied(rest))]
    hashes = numba_choice.tie_hashes(tied, np.uint64(question.salt))
    rest_std = float(np.sqrt(variance[others].max(initial=0.0)))
    rows = coordinates_of(raw.part(kept))
    smallest = int(hashes.min()) if len(tied) else 0
    return BestOfChunk(numbers[kept], mean[kept], variance[kept], rows, rest, rest_std, smallest)


def allowed_in(pool: PoolInContext, chunk: int, taken: Indices, available: Available | None) -> Mask:
    """Return the mask (n,) of a chunk's candidates that are available, but for those taken (k,), in ascending order."""
    start, stop = pool.bounds(chunk)
    allowed = np.ones(stop - start, dtype=np.bool_)
    if available is not None:
        allowed &= mask_of(available, np.arange(start, stop))
    allowed[taken[np.searchsorted(taken, start) : np.searchsorted(taken, stop)] - start] = False
    return allowed


def outlined(posterior: Surface, raw: StoredRows, count: int, mean_alone: bool = False) -> tuple[Floats, Floats]:
    """Return means of stored rows and bounds on their variances, two (count,) arrays, in blocks of bounded memory.

    Parameters
    ----------
    posterior
        Posterior as a function of the coordinates.
    raw, count
        Stored rows, and their number.
    mean_alone
        Whether the variances are left at 0.
    """
    width = len(posterior.points) + 1
    block = min(max(BLOCK_BYTES // (8 * width) // LEAST_BLOCK * LEAST_BLOCK, LEAST_BLOCK), LARGEST_BLOCK)
    mean, variance = np.empty(count), np.zeros(count)
    for first in range(0, count, block):
        part = slice(first, min(first + block, count))
        x = coordinates_of(raw.part(part))
        if mean_alone:
            mean[part] = posterior.mean(x)
        else:
            mean[part], variance[part] = posterior.outline(x)
    return mean, variance


def _scored(question: Question, raw: StoredRows, mean: Floats, variance: Floats, score: Floats) -> Indices:
    """Replace bounds on variances and scores (n,) by themselves, in place, where they could be among the largest.

    Returns the positions of these candidates. None of the bounds on the others reaches the smallest score that is kept.
    """
    order = np.argsort(-score, kind="stable")
    order = order[: np.count_nonzero(score > -np.inf)]
    for first in range(0, len(order), TOGETHER):
        done = order[:first]
        if first >= question.keep and np.partition(score[done], -question.keep)[-question.keep] > score[order[first]]:
            return done
        some = order[first : first + TOGETHER]
        x = coordinates_of(raw.part(some))
        if question.given is None:
            _, found = question.posterior.predict(x)
        else:
            rows = question.given.rows(x)
            found = np.maximum(question.posterior.kernel.diagonal(x) - np.einsum("ij,ij->i", rows, rows), 0.0)
        variance[some] = found
        score[some] = question.acquisition(mean[some], found)
    return order


def _top(score: Floats, numbers: Indices, keep: int, salt: int) -> Indices:
    """Return the positions of the largest scores; of those tied for the last places the ones of smallest hash."""
    if len(score) <= keep:
        return np.arange(len(score))
    last = float(np.partition(score, len(score) - keep)[len(score) - keep])
    above = score > last + numba_choice.TIE_TOLERANCE * abs(last)
    tied = np.flatnonzero(~above & (score >= numba_choice.smallest_tied(last)))
    hashes = numba_choice.tie_hashes(numbers[tied], np.uint64(salt))
    tied = tied[np.argsort(hashes, kind="stable")[: keep - np.count_nonzero(above)]]
    return np.sort(np.concatenate([np.flatnonzero(above), tied]))
