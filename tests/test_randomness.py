"""Randomness: every number is a function of seed, purpose and counter, whatever was drawn before."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable_bandits.randomness import RoundStream, derived_seed, generator, integers, purpose_key

SEEDS = st.integers(0, 2**64 - 1)
ROUNDS = st.integers(0, 10_000)


def normal(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.standard_normal(count)


@given(SEEDS, st.text("az \0é漢😀", max_size=10), st.permutations(range(8)))
def test_generator_is_a_function_of_its_key(seed: int, purpose: str, order: list[int]) -> None:
    """The same numbers in any order of rounds."""
    expected = [generator(seed, purpose, t).random(3).tolist() for t in range(8)]
    again = {t: generator(seed, purpose, t).random(3).tolist() for t in order}
    assert [again[t] for t in range(8)] == expected


def test_nothing_collides() -> None:
    """Neighbouring seeds, purposes and rounds have no number in common: (s, t) is not (s + 1, t - 1)."""
    seeds, purposes, rounds = [0, 1, 2, 3, 2**32, 2**63, 2**64 - 1], ["noise", "draws", "ties", ""], range(40)
    first = [
        int(generator(*key).integers(0, 2**63)) for key in itertools.product(seeds, purposes, [*rounds, 2**32, 2**63])
    ]
    assert len(set(first)) == len(first)


def test_rounds_do_not_overlap() -> None:
    """A long draw of one round holds nothing of the rounds after it."""
    drawn = [generator(7, "draws", t).integers(0, 2**63, 20_000) for t in range(4)]
    assert len(np.unique(np.concatenate(drawn))) == 80_000


@pytest.mark.slow
def test_same_in_a_fresh_process() -> None:
    """No number depends on the process: not on Python's hash seed, nor on what was drawn before."""
    code = (
        "from scalable_bandits.randomness import *\n"
        "print(purpose_key('noise'), derived_seed(3, 'study', 4), *generator(5, 'draws', 6).random(4).tolist(),\n"
        "      RoundStream(8, 'noise', lambda rng, n: rng.standard_normal(n))[3000])"
    )
    generator(1, "x").random(100)
    stream = RoundStream(8, "noise", normal)
    expected = [purpose_key("noise"), derived_seed(3, "study", 4), *generator(5, "draws", 6).random(4), stream[3000]]
    for hash_seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert done.returncode == 0, done.stderr
        assert [float(word) for word in done.stdout.split()] == [float(number) for number in expected]


class TestDerivedSeed:
    """Seeds of the parts of a study."""

    def test_is_below_two_to_the_63(self) -> None:
        assert all(0 <= derived_seed(seed, "x", i) < 2**63 for seed in (0, 2**64 - 1) for i in range(200))

    def test_tells_names_apart(self) -> None:
        names = [("ab", "c"), ("a", "bc"), ("abc",), ("a", 1), ("a1",), ("a", "1"), (), ("",), ("a", 1.0), ("c", "ab")]
        assert len({derived_seed(seed, *name) for seed in range(3) for name in names}) == 3 * len(names)

    def test_numpy_integers_are_integers(self) -> None:
        """A seed out of an array is the seed it equals."""
        assert derived_seed(np.int64(3), "x", np.int64(4)) == derived_seed(3, "x", 4)


class TestRoundStream:
    """One number a round."""

    @given(SEEDS, st.lists(ROUNDS, min_size=1, max_size=30))
    def test_any_order(self, seed: int, rounds: list[int]) -> None:
        """Round t's number is the same whatever was asked before, in a used stream and in a new one."""
        used, block = RoundStream(seed, "noise", normal), RoundStream.BLOCK
        for t in rounds:
            new = RoundStream(seed, "noise", normal)
            assert used[t] == new[t] == normal(generator(seed, "noise", t // block), block)[t % block]

    def test_every_round_has_its_own(self) -> None:
        """Also across the ends of blocks."""
        stream = RoundStream(0, "noise", normal)
        numbers = [stream[t] for t in range(4 * RoundStream.BLOCK)]
        assert len(set(numbers)) == len(numbers)
        assert all(type(number) is float for number in numbers[:3])

    def test_streams_differ(self) -> None:
        """(seed, round) is not (seed + 1, round - 1), nor (seed + 1, a block before); purposes differ too."""
        block = RoundStream.BLOCK
        streams = [RoundStream(seed, purpose, normal) for seed in range(5) for purpose in ("noise", "draws")]
        numbers = [stream[t] for stream in streams for t in (*range(5), *range(block, block + 5))]
        assert len(set(numbers)) == len(numbers)

    @pytest.mark.parametrize("t", [-1, -2000])
    def test_has_no_negative_rounds(self, t: int) -> None:
        with pytest.raises((ValueError, IndexError, OverflowError)):
            RoundStream(0, "noise", normal)[t]


@pytest.mark.parametrize("size", [1, 2, 3, 50, 1000, 10**7, 2**31 + 12345, 3 * 2**30, 2**32 - 1])
def test_draws_of_many_counters_are_those_of_each(size: int) -> None:
    for seed, first in ((0, 1), (2**63 + 5, 10**9)):
        expected = [int(generator(seed, "draws", t).integers(size)) for t in range(first, first + 200)]
        assert integers(seed, "draws", first, 200, size).tolist() == expected
