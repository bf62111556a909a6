"""Points asked for whose value has not been told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from scalable_bandits.spaces import Mask


class PointNotPending(ValueError):
    """A candidate is not pending, or not as often as it is named."""


class PendingPoints:
    """Candidates that are pending, by number, in the order of asking; a number may be pending several times.

    Attributes
    ----------
    numbers : list of int
        Pending candidates.
    """

    def __init__(self, numbers: Sequence[int] = (), reissue: Sequence[int] = (), excluded: Sequence[int] = ()):
        self.numbers = list(numbers)
        self._reissue = list(reissue)  # pending since an earlier process: `ask` returns these first
        self._excluded = list(excluded)  # policies choose around these as if they were pending

    def __len__(self) -> int:
        return len(self.numbers)

    def copy(self) -> Self:
        """Return a copy that stays as it is."""
        return type(self)(self.numbers, self._reissue, self._excluded)

    def take_up(self, numbers: Sequence[int], again: bool) -> None:
        """Replace the pending candidates by those of an earlier process; `again`: `next_reissue` returns these."""
        self.numbers = list(numbers)
        self._reissue = list(numbers) if again else []

    def exclude(self, numbers: Sequence[int]) -> None:
        """Replace the candidates that are chosen around as if they were pending."""
        self._excluded = list(numbers)

    def next_reissue(self, allowed: Mask | None) -> int | None:
        """Return, once, the next candidate of an earlier process that a mask (size,) allows; None if there is none."""
        found = next((number for number in self._reissue if allowed is None or allowed[number]), None)
        if found is not None:
            self._reissue.remove(found)
        return found

    @contextmanager
    def choosing(self) -> Iterator[None]:
        """Count the excluded candidates as pending while the next point is chosen."""
        held = self.numbers
        self.numbers = held + self._excluded if self._excluded else held
        try:
            yield
        finally:
            self.numbers = held

    def add(self, number: int) -> None:
        """Add a candidate that was asked for."""
        self.numbers.append(number)

    def settle(self, number: int) -> None:
        """Take off a candidate whose value has come."""
        self.numbers.remove(number)
        if self._reissue.count(number) > self.numbers.count(number):
            self._reissue.remove(number)

    def without(self, numbers: Sequence[int]) -> list[int]:
        """Return the pending candidates without some, each as often as it is named; or raise `PointNotPending`."""
        left = self.numbers.copy()
        for number in numbers:
            if number not in left:
                raise PointNotPending(number)
            left.remove(number)
        return left

    def keep(self, numbers: Sequence[int]) -> None:
        """Replace the pending candidates by some of them."""
        self.numbers = list(numbers)
        again = self._reissue
        self._reissue = [c for i, c in enumerate(again) if again[: i + 1].count(c) <= self.numbers.count(c)]
