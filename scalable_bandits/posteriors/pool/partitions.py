"""Chunks of a pool as arms: a sample of each decides which ones are scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors.pool.chunks import Passes, Question, best_of
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices, Pool
from scalable_bandits.spaces.pool import StoredRows, mask_of

MOST_BYTES = 2**27  # of all samples together
MOST = 16  # a sample is at most the 16th part of a chunk, or it would cost what it saves
TOGETHER = 2**14  # sampled candidates that are scored as one task


class Sample(NamedTuple):
    """Some candidates of a chunk."""

    numbers: Indices  # (k,) ascending
    rows: StoredRows


class Partitions:
    """Samples of the chunks of a pool, by which a share of the chunks is chosen.

    Parameters
    ----------
    pool
        Pool of the candidates.
    share
        Share of the chunks that are chosen by their samples, and of those that are drawn.
    sample
        Number of candidates in the sample of a chunk; fewer where that is more than a 16th of the chunk, or the samples
        would have more than 128 MB.
    seed
        Seed of the samples, and of the chunks that are drawn.
    """

    def __init__(self, pool: Pool, share: float, sample: int, seed: int):
        self._pool, self._seed = pool, seed
        self._count = max(math.ceil(share * pool.chunks), 1)
        row = pool.shape.bits + 8 * pool.shape.numbers
        self._size = max(min(sample, pool.shape.chunk // MOST, MOST_BYTES // (row * pool.chunks)), 1)
        self._samples: list[Sample] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_samples": None}

    def chosen(self, question: Question, passes: Passes, told: int) -> Indices:
        """Return the numbers (k,) of the chunks to score, ascending: the most promising ones, and as many at random.

        Parameters
        ----------
        question
            Posterior given the observations, index of the next round, and candidates to choose from.
        passes
            What scores the samples.
        told
            Number of values told so far, which the draw depends on.
        """
        drawn = generator(self._seed, "partitions", told).permutation(self._pool.chunks)
        if 2 * self._count < self._pool.chunks:
            largest = self._largest(question, passes)
            best = drawn[np.argsort(-largest[drawn], kind="stable")[: self._count]]  # ties are broken by the draw
            drawn = np.append(best, drawn[~np.isin(drawn, best)][: self._count])
        return np.sort(drawn)

    def _largest(self, question: Question, passes: Passes) -> Floats:
        """Return the largest index (chunks,) in the sample of each chunk."""
        if self._samples is None:
            shared = self._pool, self._size, self._seed
            self._samples = passes.each(sample_of_chunk, shared, range(self._pool.chunks))
        several = max(TOGETHER // self._size, 1)
        tasks = [self._samples[first : first + several] for first in range(0, self._pool.chunks, several)]
        return np.concatenate(passes.each(largest_of_samples, question, tasks))


def sample_of_chunk(shared: tuple[Pool, int, int], chunk: int) -> Sample:
    """Draw a sample of the candidates of a chunk, given pool, size of a sample, and seed."""
    pool, size, seed = shared
    start, stop = pool.bounds(chunk)
    rng = generator(seed, "sample", chunk)
    places = np.sort(rng.choice(stop - start, min(size, stop - start), replace=False))
    return Sample(start + places, pool.raw(start, stop).part(places))


def largest_of_samples(question: Question, samples: Sequence[Sample]) -> Floats:
    """Return the largest index (k,) in each of some samples; -inf where no candidate may be chosen."""
    found = np.full(len(samples), -np.inf)
    for place, (numbers, rows) in enumerate(samples):
        allowed = ~np.isin(numbers, question.taken)
        if question.available is not None:
            allowed &= mask_of(question.available, numbers)
        if allowed.any():
            best = best_of(question, numbers, question.pool.put_into(rows), allowed)
            found[place] = question.acquisition(best.mean, best.variance)[0]
    return found
