"""Counter-based randomness: every number is a function of (seed, purpose, counter) alone.

Philox is keyed by the seed and the purpose, and the round stands in the counter's highest word,
so that round t's numbers are the same whatever was drawn before, and streams never overlap
(a round may draw 2^192 numbers before it reaches the next round's).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable

import numpy as np

from scalable_bandits.checks import Floats

_MASK = 2**64 - 1


def purpose_key(text: str) -> int:
    """64-bit hash of a purpose's name, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


_purpose_key = functools.cache(purpose_key)  # of a handful of names


def generator(seed: int, purpose: str, counter: int = 0) -> np.random.Generator:
    """Numpy generator of one purpose at one counter (a round, or a block of rounds)."""
    key = np.array([int(seed) & _MASK, _purpose_key(purpose)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, counter], dtype=np.uint64)))


def derived_seed(seed: int, *names: object) -> int:
    """Seed below 2^63 of a part of a study: a hash of the study's seed and the part's names."""
    plain = tuple(int(name) if isinstance(name, np.integer) else name for name in (seed, *names))
    return purpose_key(repr(plain)) >> 1


class RoundStream:
    """One random number a round, drawn a block of rounds at a time.

    Parameters
    ----------
    seed, purpose
        Key of the stream.
    draw
        Draws `count` numbers from a generator: ``draw(rng, count) -> (count,)``.
    """

    BLOCK = 1024

    def __init__(self, seed: int, purpose: str, draw: Callable[[np.random.Generator, int], Floats]):
        self._seed, self._purpose, self._draw = seed, purpose, draw
        self._held = -1
        self._numbers: list[float] = []

    def __getitem__(self, t: int) -> float:
        """The number of round `t` >= 0."""
        block, offset = divmod(t, self.BLOCK)
        if block != self._held:
            self._numbers = self._draw(generator(self._seed, self._purpose, block), self.BLOCK).tolist()
            self._held = block
        return self._numbers[offset]
