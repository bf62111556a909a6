"""Choices by sample paths of the posterior at all candidates of a pool: many draws in one pass.

Source: Wilson et al. 2020, eq. 13 (decoupled samples), with the features of `features.py`; X, K, N and m as there.

    f_t(x) = mean(x) + v_t (phi(x)'w_t / sqrt(F) - k(x, X) (K + N)^-1 (phi(X)'w_t / sqrt(F) + e_t))

A round's path follows from the observations and the round alone: pending points do not change it. Its choice is the
best candidate that is neither taken nor pending (of a path), or of largest (mean(x) - g_t) / s(x) given the
observations (of an improvement over the path's largest value g_t). So the choices of many rounds need one pass: every
chunk returns its best for each round, and a round whose best is taken goes to its next. Where all that are held are
taken, another pass has the rounds that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import improvement_score
from scalable_bandits.posteriors.blas import one_thread
from scalable_bandits.posteriors.box.surface import Surface
from scalable_bandits.posteriors.pool import _numba_pool as numba_pool
from scalable_bandits.posteriors.pool.chunks import Passes, allowed_in
from scalable_bandits.posteriors.pool.features import UnitFeatures
from scalable_bandits.posteriors.regression import covariances
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Indices
from scalable_bandits.spaces.pool import Available, PoolInContext, coordinates_of

AT_ONCE = 1024  # draws of a pass
HELD = 2**23  # values of all draws and chunks that are returned by a pass
LEAST_KEPT, MOST_KEPT = 4, 256  # values of a draw that a chunk returns
BLOCK_BYTES = 2**24  # memory of the covariances, features and values of the candidates that are scored together


class Paths(NamedTuple):
    """Sample paths of several rounds, as functions of the coordinates."""

    features: UnitFeatures
    weights: Floats  # (F, q)
    corrections: Floats  # (m, q) weights of the covariances with the observed points

    def at(self, posterior: Surface, x: Floats) -> Floats:
        """Return the paths (k, q) at points (k, D)."""
        found = self.features(x) @ self.weights + posterior.prior_mean.values(x)[:, None]
        if len(posterior.points):
            found += covariances(posterior.kernel, x, posterior.points) @ self.corrections
        return found


class Levels(NamedTuple):
    """Scores of an improvement over several values."""

    values: Floats  # (q,)

    def at(self, posterior: Surface, x: Floats) -> Floats:
        """Return the scores (k, q) at points (k, D)."""
        mean, variance = posterior.predict(x)
        return improvement_score(mean[:, None], np.sqrt(variance)[:, None], self.values)


class DrawsQuestion(NamedTuple):
    """What is asked of every chunk."""

    pool: PoolInContext
    posterior: Surface
    scores: Paths | Levels
    taken: Indices  # numbers of candidates that are left out, ascending
    keep: int
    salt: int  # seed of the hash that breaks ties
    available: Available | None = None  # mask of the candidates to choose from; None for all


class Largest(NamedTuple):
    """The best candidates of each draw, in descending order."""

    values: Floats  # (q, r), -inf where there are fewer
    numbers: Indices  # (q, r)


def drawn_paths(
    posterior: Surface, noise_variances: Floats, features: UnitFeatures, widths: Floats, seed: int, rounds: Indices
) -> Paths:
    """Draw the paths of some rounds.

    Parameters
    ----------
    posterior, noise_variances
        Posterior given the observations, and the noise variances (m,) of these.
    features
        Features of the prior.
    widths
        Factors (q,) of the deviations from the mean.
    seed, rounds
        Seed of the policy, and numbers (q,) of the rounds.
    """
    phi, m = features(posterior.points), len(posterior.points)
    weights, noise = np.empty((phi.shape[1], len(widths))), np.empty((m, len(widths)))
    for i, (number, width) in enumerate(zip(rounds.tolist(), widths.tolist(), strict=True)):
        rng = generator(seed, "draws", number)
        weights[:, i] = width / np.sqrt(phi.shape[1]) * rng.standard_normal(phi.shape[1])
        noise[:, i] = width * np.sqrt(noise_variances) * rng.standard_normal(m)
    corrections = posterior.weights[:, None] - posterior.solve(phi @ weights + noise) if m else noise
    return Paths(features, weights, corrections)


def largest_of_chunk(question: DrawsQuestion, chunk: int) -> Largest:
    """Return the best candidates of a chunk for each draw."""
    pool, scores = question.pool, question.scores
    start, stop = pool.bounds(chunk)
    raw, numbers = pool.raw(start, stop), np.arange(start, stop)
    allowed = allowed_in(pool, chunk, question.taken, question.available)
    count = len(scores.values) if isinstance(scores, Levels) else scores.weights.shape[1]
    features = 0 if isinstance(scores, Levels) else len(scores.weights)
    block = max(BLOCK_BYTES // (8 * (len(question.posterior.points) + features + 2 * count)), 64)
    found = _none(count, min(question.keep, stop - start))
    with one_thread:
        for first in range(0, stop - start, block):
            part = slice(first, min(first + block, stop - start))
            values = np.ascontiguousarray(scores.at(question.posterior, coordinates_of(raw.part(part))).T)
            numba_pool.keep_largest(values, numbers[part], allowed[part], np.uint64(question.salt), *found)
    return found


def _none(count: int, keep: int) -> Largest:
    return Largest(np.full((count, keep), -np.inf), np.full((count, keep), -1))


class Choices:
    """The best candidates of consecutive rounds, from passes over all chunks.

    Parameters
    ----------
    pool
        Candidates, in the context of the rounds.
    posterior
        Posterior given the observations.
    passes
        What scores the chunks.
    salt
        Seed of the hash that breaks ties.
    rounds
        Numbers of the rounds.
    scores
        Function of the numbers (k,) of some of the rounds that returns their scores.
    available
        Function that returns the mask (k,) of the candidates to choose from, given numbers (k,); None for all.

    Attributes
    ----------
    pool : PoolInContext
        Candidates, in the context of the rounds.
    posterior : Surface
        Posterior from which the paths are drawn.
    rounds : range
        Numbers of the rounds that have paths.
    available : callable or None
        Function that returns the mask of the candidates to choose from.
    """

    def __init__(
        self, pool: PoolInContext, posterior: Surface, passes: Passes, salt: int, rounds: range,
        scores: Callable[[Indices], Paths | Levels], available: Available | None = None,
    ):  # fmt: skip
        self.pool, self.posterior, self.rounds, self.available = pool, posterior, rounds, available
        self._passes, self._salt, self._scores = passes, salt, scores
        # By round: values and numbers (r,) of candidates, and the numbers that were left out of them.
        self._found: dict[int, tuple[Floats, Indices, set[int]]] = {}

    def choose(self, number: int, taken: set[int]) -> tuple[int, float]:
        """Return the best candidate of a round that is not taken, and its value; -1 if none is left."""
        if (found := self._best(number, taken)) is None:
            self._pass(number, taken)
            found = self._best(number, taken)
        return (-1, -np.inf) if found is None else found

    def highest(self, rounds: Indices) -> Levels:
        """Return the largest values of all candidates in some of the rounds."""
        return Levels(np.array([self.choose(number, set())[1] for number in rounds.tolist()]))

    def _best(self, number: int, taken: set[int]) -> tuple[int, float] | None:
        if number not in self._found:
            return None
        values, numbers, left_out = self._found[number]
        if not left_out <= taken:  # one of them is no longer taken, and may be the best
            return None
        for value, candidate in zip(values.tolist(), numbers.tolist(), strict=True):
            if candidate >= 0 and candidate not in taken:
                return candidate, value
        return None

    def _pass(self, number: int, taken: set[int]) -> None:
        """Find the best candidates of a round, and of those after it that have none either."""
        later = range(number, self.rounds.stop)
        rounds = np.array([i for i in later if self._best(i, taken) is None][:AT_ONCE])
        keep = min(max(HELD // (self.pool.chunks * len(rounds)), LEAST_KEPT), MOST_KEPT)
        left_out = np.array(sorted(taken), dtype=np.int64)
        question = DrawsQuestion(
            self.pool, self.posterior, self._scores(rounds), left_out, keep, self._salt, self.available
        )
        best = _none(len(rounds), keep)
        for found in self._passes.each(largest_of_chunk, question, range(self.pool.chunks)):
            numba_pool.merge_largest(found.values, found.numbers, np.uint64(self._salt), *best)
        self._found.update((i, (best.values[k], best.numbers[k], taken)) for k, i in enumerate(rounds.tolist()))
