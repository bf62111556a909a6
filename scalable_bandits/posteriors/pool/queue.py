"""Batches from a pool that are exact for their model, at the cost of a pass and some candidates computed again.

Pending points keep their posterior means: the means of all candidates stand, and their variances only fall. So does an
index that grows with the variance, but for what its own width or incumbent changes (`rise`). An index computed earlier
is a bound on the present one, and the largest is found by the lazy greedy algorithm (Minoux 1978; for bandits in
Calandriello et al. 2020):

    one pass: every chunk returns its best candidates, and a bound on all others                     (1)
    until no bound reaches the largest index:
        compute the index of the candidates of largest bounds, given all points that are pending     (2)
        if the bound on a chunk's others reaches it, score that chunk again, given these             (3)
    of the candidates tied for the largest index, take the one of smallest hash                      (4)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats
from scalable_bandits.posteriors import _numba_choice as numba_choice
from scalable_bandits.posteriors.box.surface import Surface
from scalable_bandits.posteriors.engine import choose
from scalable_bandits.posteriors.pool.chunks import BestOfChunk, GrowingIndex, Passes, Question, best_of_chunk
from scalable_bandits.posteriors.pool.pending_given import PendingGiven
from scalable_bandits.spaces import Indices
from scalable_bandits.spaces.pool import Available, PoolInContext

HELD = 2**19  # candidates of all chunks that a queue holds
LEAST_KEPT, MOST_KEPT = 16, 2048  # candidates of a chunk that it holds
FOR_ONE, FOR_EACH = 256, 2  # at most for one choice, and for each of a batch
MOST_GIVEN = 512  # and at most where it was scored given pending points, which takes long for each
FEW = 8  # candidates that are looked for one by one
TOGETHER = 64  # candidates whose index is computed together
MOST_BYTES = 2**29  # memory of the rows a(x)


def kept_of_chunk(chunks: int, batch: int) -> int:
    """Return the number of candidates of a chunk that are held, of so many chunks, for a batch."""
    return min(max(HELD // chunks, LEAST_KEPT), MOST_KEPT, max(FOR_ONE, FOR_EACH * batch))


class Queue:
    """The best candidates of every chunk, from which one after the other is chosen while the observations stay.

    Parameters
    ----------
    pool
        Candidates, in the context of the choices.
    posterior
        Posterior given the observations.
    noise_variance
        Noise variance of a pending point, in squared units of the engine's y.
    passes
        What scores the chunks.
    taken
        Numbers (k,) of candidates that are not chosen.
    repeats
        Whether a pending candidate may be chosen again.
    salt
        Seed of the hash that breaks ties.
    batch
        Number of candidates that will be chosen.
    available
        Function that returns the mask (k,) of the candidates to choose from, given numbers (k,); None for all.
    chunks
        Numbers (k,) of the chunks to choose from, until they have no candidate left; None for all.
    """

    def __init__(
        self, pool: PoolInContext, posterior: Surface, noise_variance: float, passes: Passes, taken: Indices,
        repeats: bool, salt: int, batch: int = 1, available: Available | None = None, chunks: Indices | None = None,
    ):  # fmt: skip
        self.pool, self.posterior, self.available = pool, posterior, available
        self.pending = list[int]()
        self._passes, self._repeats, self._salt = passes, repeats, salt
        self._taken, self._open = set(taken.tolist()), range(pool.chunks) if chunks is None else chunks.tolist()
        self._given = PendingGiven(posterior, noise_variance)
        self._index: GrowingIndex | None = None  # of the bounds
        self._keep = kept_of_chunk(pool.chunks, batch)
        self._numbers, self._chunks = np.empty((2, 0), dtype=np.int64)
        self._mean, self._variance, self._bounds = np.empty((3, 0))  # variances as last computed
        self._rows = np.empty((0, pool.model_dimension))
        self._since, self._slots = np.empty((2, 0), dtype=np.int64)  # pending points in the variances; places in rows
        self._vectors = np.empty((0, 0))  # rows a(x) of candidates that were computed again
        self._known = np.empty(0, dtype=np.int64)  # number of pending points whose elements each has; -1 for no row
        self._rest, self._rest_std = np.full(pool.chunks, -np.inf), np.zeros(pool.chunks)
        self._rest_hash = np.zeros(pool.chunks, dtype=np.int64)

    # ---- pending points

    def extends(self, pending: Sequence[int]) -> list[int] | None:
        """Return the candidates by which a list of pending ones extends the present one; None if it does not."""
        count = len(self.pending)
        return list(pending[count:]) if list(pending[:count]) == self.pending else None

    def add(self, numbers: Sequence[int], points: Floats) -> None:
        """Add pending candidates, with coordinates (k, D + c); numbers below 0 are those of other contexts."""
        if not len(numbers):
            return
        self._given.add(points, self._row_of(numbers[0]) if len(numbers) == 1 else None)
        self.pending.extend(numbers)
        if not self._repeats:
            self.take(numbers)

    def _row_of(self, number: int) -> Floats | None:
        """Return the row (1, m + q) of a candidate that was just computed; None if it was not."""
        place, width = np.flatnonzero(self._numbers == number), self._given.observed + self._given.count
        if not len(place) or (slot := self._slots[place[0]]) < 0 or self._known[slot] != self._given.count:
            return None
        return self._vectors[slot : slot + 1, :width]

    def take(self, numbers: Iterable[int]) -> None:
        """Leave candidates out from now on."""
        new = set(numbers) - self._taken
        self._taken |= new
        if len(new) > FEW:
            self._bounds[np.isin(self._numbers, list(new))] = -np.inf
        for number in new if len(new) <= FEW else ():
            self._bounds[self._numbers == number] = -np.inf

    # ---- the largest index

    def largest(self, index: GrowingIndex) -> tuple[int, Floats, float]:
        """Find the candidate of largest index; return its number, its coordinates (D + c,), and the index.

        The number is -1 if no candidate is left.
        """
        self._turn_to(index)
        computed, fresh = np.zeros(len(self._bounds), dtype=np.bool_), np.zeros(self.pool.chunks, dtype=np.bool_)
        while True:
            best = self._compute(index, computed)
            again = self._unsure(best, computed)
            again = again[~fresh[again]]  # what a chunk has just returned would not change
            if not len(again):
                break
            self._score(again, index)
            fresh[again] = True
            computed = np.zeros(len(self._bounds), dtype=np.bool_)
        places = np.flatnonzero(computed & (self._bounds > -np.inf))
        if not len(places):
            if len(self._open) == self.pool.chunks:
                return -1, np.empty(0), -np.inf
            self._open, self._index = range(self.pool.chunks), None
            return self.largest(index)
        place, value = choose(self._bounds[places], self._salt, None, self._numbers[places])  # (4)
        return int(self._numbers[places[place]]), self._rows[places[place]], value

    def _turn_to(self, index: GrowingIndex) -> None:
        """Raise the bounds to those of another index; where none are known, all chunks are scored."""
        earlier, self._index = self._index, index
        if earlier is None:
            self._score(self._open, index)  # (1)
        elif earlier != index:
            rises = index.rise(earlier, np.sqrt(self._variance)), index.rise(earlier, self._rest_std)
            if all(np.isfinite(rise).all() for rise in rises):
                self._bounds += rises[0]
                self._rest += rises[1]
            else:
                self._score(self._open, index)

    def _compute(self, index: GrowingIndex, computed: NDArray[np.bool_]) -> float:
        """Compute the index of all candidates whose bounds reach the largest one, and return that."""
        best = float(self._bounds[computed].max(initial=-np.inf))
        while True:
            open_ = np.flatnonzero(~computed & (self._bounds >= numba_choice.smallest_tied(best)))
            open_ = open_[self._bounds[open_] > -np.inf]
            if not len(open_):
                return best
            open_ = self._of_largest_bounds(open_)
            if not index.of_mean:
                self._update(open_)
            self._bounds[open_] = index(self._mean[open_], self._variance[open_])  # (2)
            computed[open_] = True
            best = max(best, float(self._bounds[open_].max()))

    def _unsure(self, best: float, computed: NDArray[np.bool_]) -> Indices:
        """Return the chunks of which a candidate that is not held could be the one to choose."""
        reaching = np.flatnonzero(self._rest >= numba_choice.smallest_tied(best))
        reaching = reaching[self._rest[reaching] > -np.inf]
        if not len(reaching) or best == -np.inf:
            return reaching
        tied = self._numbers[computed & (self._bounds >= numba_choice.smallest_tied(best))]
        smallest = int(numba_choice.tie_hashes(tied, np.uint64(self._salt)).min())
        above = self._rest[reaching] > best + numba_choice.TIE_TOLERANCE * abs(best)
        return reaching[above | (self._rest_hash[reaching] < smallest)]

    def _score(self, chunks: Iterable[int], index: GrowingIndex) -> None:
        """Score chunks given all that is pending, and hold the best of each in the place of those before."""
        again = np.array(list(chunks), dtype=np.int64)
        taken = np.array(sorted(self._taken), dtype=np.int64)
        given = self._given if self._given.count and not index.of_mean else None
        keep = self._keep if given is None else min(self._keep, MOST_GIVEN)
        question = Question(self.pool, self.posterior, given, index, taken, keep, self._salt, self.available)
        found: list[BestOfChunk] = self._passes.each(best_of_chunk, question, again.tolist())
        others, count = ~np.isin(self._chunks, again), self._given.count
        new = sum(len(best.numbers) for best in found)
        self._numbers = np.concatenate([self._numbers[others], *(best.numbers for best in found)])
        self._mean = np.concatenate([self._mean[others], *(best.mean for best in found)])
        self._variance = np.concatenate([self._variance[others], *(best.variance for best in found)])
        self._rows = np.concatenate([self._rows[others], *(best.rows for best in found)])
        self._chunks = np.append(self._chunks[others], np.repeat(again, [len(best.numbers) for best in found]))
        self._since = np.append(self._since[others], np.full(new, count))
        self._slots = np.append(self._slots[others], np.full(new, -1))
        fresh = index(self._mean[-new:], self._variance[-new:]) if new else np.empty(0)
        self._bounds = np.append(self._bounds[others], fresh)
        for chunk, best in zip(again.tolist(), found, strict=True):
            self._rest[chunk], self._rest_std[chunk] = best.rest, best.rest_std
            self._rest_hash[chunk] = best.rest_hash

    def _update(self, places: Indices) -> None:
        """Bring the variances of some candidates up to date."""
        given, count, m = self._given, self._given.count, self._given.observed
        behind = places[self._since[places] < count]
        if not len(behind):
            return
        if (self._slots[behind] < 0).any():  # rows of many candidates take little longer than those of a few
            without = np.flatnonzero((self._slots < 0) & (self._bounds > -np.inf))
            behind = np.union1d(behind, self._of_largest_bounds(without))
        self._give_slots(behind[self._slots[behind] < 0])  # and room for more elements to the others
        if (without := behind[self._slots[behind] < 0]).size:  # the others have lost theirs
            self._give_slots(without)
        slots, rows = self._slots[behind], self._vectors
        fresh = self._known[slots] < 0
        if fresh.any():
            rows[slots[fresh], : m + count] = given.rows(self._rows[behind[fresh]])
        if not fresh.all():
            others = slots[~fresh]
            given.continue_rows(self._rows[behind[~fresh]], rows, others, self._known[others])
        self._known[slots] = count
        since, first = self._since[behind], int(self._since[behind].min())
        falls = rows[slots, m + first : m + count]
        falls[np.arange(first, count)[None] < since[:, None]] = 0.0
        self._variance[behind] = np.maximum(self._variance[behind] - np.einsum("ij,ij->i", falls, falls), 0.0)
        self._since[behind] = count

    def _of_largest_bounds(self, places: Indices) -> Indices:
        """Return those of some places (k,) that have the largest bounds, as many as are computed together."""
        if len(places) <= TOGETHER:
            return places
        return places[np.argpartition(self._bounds[places], -TOGETHER)[-TOGETHER:]]

    def _give_slots(self, places: Indices) -> None:
        """Give candidates places for their rows; if memory is short, all others lose theirs."""
        used, need = int(self._slots.max(initial=-1)) + 1, self._given.observed + self._given.count
        if used + len(places) > len(self._vectors) or need > self._vectors.shape[1]:
            count, room = 2 * (used + len(places)), need + max(self._given.count // 2, TOGETHER)
            if 8 * count * room > MOST_BYTES and used:
                self._slots[:], used = -1, 0
                count = max(MOST_BYTES // (8 * room), len(places) + TOGETHER)
            vectors, known = np.empty((count, room)), np.full(count, -1)
            width = min(self._vectors.shape[1], room)
            vectors[:used, :width], known[:used] = self._vectors[:used, :width], self._known[:used]
            self._vectors, self._known = vectors, known
        self._slots[places] = np.arange(used, used + len(places))
        self._known[used : used + len(places)] = -1
