"""Counter-based random numbers: each is a function of seed, purpose and counter alone.

The key of Philox is the seed and the purpose, and the highest word of its counter is the round. The numbers of a round
thus do not depend on earlier draws, and the streams of two rounds do not overlap: each has 2^192 numbers.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.checks import Floats

Indices = NDArray[np.int64]

_MASK = 2**64 - 1


def purpose_key(text: str) -> int:
    """Return a 64-bit hash of the name of a purpose, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


_purpose_key = functools.cache(purpose_key)  # there are only a few purposes


def generator(seed: int, purpose: str, counter: int = 0) -> np.random.Generator:
    """Return the numpy generator of a purpose at a counter, which is a round or a block of rounds."""
    key = np.array([int(seed) & _MASK, _purpose_key(purpose)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, counter], dtype=np.uint64)))


def integers(seed: int, purpose: str, first: int, count: int, size: int) -> Indices:
    """Return what ``generator(seed, purpose, counter).integers(size)`` draws at `count` counters from `first` on.

    Parameters
    ----------
    seed, purpose
        Seed and name of the purpose, as of `generator`.
    first, count
        First counter, and number of counters.
    size
        Number of values, from 0 on; below 2^32.
    """
    from scalable_bandits import _numba_philox as numba_philox  # late, since numba is heavy

    found = np.empty(count, dtype=np.int64)
    numba_philox.integers(np.uint64(int(seed) & _MASK), np.uint64(_purpose_key(purpose)), first, size, found)
    return found


def derived_seed(seed: int, *names: object) -> int:
    """Return the seed of a part of a study: a hash, below 2^63, of the study's seed and the names of the part."""
    plain = tuple(int(name) if isinstance(name, np.integer) else name for name in (seed, *names))
    return purpose_key(repr(plain)) >> 1


class RoundStream:
    """Stream of one random number per round, drawn in blocks of rounds.

    Parameters
    ----------
    seed, purpose
        Seed and name of the purpose, which identify the stream.
    draw
        Function ``draw(rng, count)`` that returns `count` numbers (count,) of a generator.
    """

    BLOCK = 1024

    def __init__(self, seed: int, purpose: str, draw: Callable[[np.random.Generator, int], Floats]):
        self._seed, self._purpose, self._draw = seed, purpose, draw
        self._block = -1
        self._numbers: list[float] = []

    def numbers(self, first: int, count: int) -> Floats:
        """Return the numbers (count,) of the rounds from `first` on."""
        found, done = np.empty(count), 0
        while done < count:
            block, offset = divmod(first + done, self.BLOCK)
            piece = min(self.BLOCK - offset, count - done)
            drawn = self._draw(generator(self._seed, self._purpose, block), self.BLOCK)
            found[done : done + piece] = drawn[offset : offset + piece]
            done += piece
        return found

    def __getitem__(self, t: int) -> float:
        """Return the number of round `t` >= 0."""
        block, offset = divmod(t, self.BLOCK)
        if block != self._block:
            self._numbers = self._draw(generator(self._seed, self._purpose, block), self.BLOCK).tolist()
            self._block = block
        return self._numbers[offset]


@contextmanager
def others_kept() -> Iterator[None]:
    """Leave Python's global generator as it is: the user's draws must not depend on those of other packages."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)
