"""Points asked for whose value has not been told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from scalable_bandits.spaces import Mask


class PointNotPending(ValueError):
    """A candidate is not pending, or not as often as it is given."""


class AllFailed(RuntimeError):
    """The evaluation of every point that may be chosen has failed."""


class PendingPoints:
    """Numbers of the pending candidates, in the order of asking; a number may be pending several times.

    Attributes
    ----------
    numbers : list of int
        Pending candidates.
    reissue : list of int
        Those that are pending since an earlier process; `ask` returns them first.
    excluded : list of int
        Candidates whose evaluation failed, treated as pending when the next point is chosen.
    """

    def __init__(self, numbers: Sequence[int] = (), reissue: Sequence[int] = (), excluded: Sequence[int] = ()):
        self.numbers = list(numbers)
        self.reissue = list(reissue)
        self.excluded = list(excluded)
        self._asked: list[int] | None = None  # while the excluded ones are treated as pending

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def asked(self) -> list[int]:
        """Pending candidates, without excluded ones that are treated as pending."""
        return self.numbers if self._asked is None else self._asked

    def copy(self) -> Self:
        """Return an independent copy."""
        return type(self)(self.numbers, self.reissue, self.excluded)

    def replace(self, numbers: Sequence[int], reissue: bool) -> None:
        """Replace the pending candidates by those of an earlier process, which `ask` returns again if `reissue`."""
        self.numbers = list(numbers)
        self.reissue = list(numbers) if reissue else []

    def exclude(self, numbers: Sequence[int]) -> None:
        """Replace the candidates that are not to be chosen, and are treated as pending when the next point is."""
        self.excluded = list(numbers)

    def next_reissue(self, allowed: Mask | None) -> int | None:
        """Remove and return the first candidate to be asked again that a mask (size,) allows, or None."""
        found = next((number for number in self.reissue if allowed is None or allowed[number]), None)
        if found is not None:
            self.reissue.remove(found)
        return found

    @contextmanager
    def choosing(self) -> Iterator[None]:
        """Treat the excluded candidates as pending while the next point is chosen."""
        self._asked = pending = self.numbers
        self.numbers = pending + self.excluded if self.excluded else pending
        try:
            yield
        finally:
            self.numbers, self._asked = pending, None

    def add(self, number: int) -> None:
        """Add a candidate that was asked for."""
        self.numbers.append(number)

    def settled(self, number: int) -> Self:
        """Return the pending points without a candidate that was observed; itself if nothing changes."""
        if number not in self.numbers and number not in self.excluded:
            return self
        left = self.copy()
        left.excluded = [each for each in self.excluded if each != number]
        if number not in self.numbers:
            return left
        left.numbers.remove(number)
        if left.reissue.count(number) > left.numbers.count(number):
            left.reissue.remove(number)
        return left

    def without(self, numbers: Sequence[int]) -> list[int]:
        """Return the pending candidates without some, each as often as it is given; or raise `PointNotPending`."""
        left = self.numbers.copy()
        for number in numbers:
            if number not in left:
                raise PointNotPending(number)
            left.remove(number)
        return left

    def restrict_to(self, numbers: Sequence[int]) -> None:
        """Remove all pending candidates but these."""
        self.numbers = list(numbers)
        before = self.reissue
        self.reissue = [c for i, c in enumerate(before) if before[: i + 1].count(c) <= self.numbers.count(c)]
