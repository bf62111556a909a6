"""Points asked for whose value has not been told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scalable_bandits.spaces import Mask


class PointNotPending(ValueError):
    """A candidate is not pending, or not as often as it is given."""


class AllFailed(RuntimeError):
    """The evaluation of every point that may be chosen has failed."""


class PendingPoints:
    """Numbers of the pending candidates, in the order of asking; a number may be pending several times.

    A value: it is replaced, never changed.

    Parameters
    ----------
    asked
        Candidates that were asked for.
    reissue
        Those that are pending since an earlier process; `ask` returns them first.
    excluded
        Candidates whose evaluation failed.

    Attributes
    ----------
    numbers : list of int
        Pending candidates: those asked for, and while the next point is chosen the excluded ones.
    """

    def __init__(self, asked: Sequence[int] = (), reissue: Sequence[int] = (), excluded: Iterable[int] = ()):
        self.asked, self.reissue, self.excluded = list(asked), list(reissue), list(excluded)
        self.numbers = self.asked

    def __len__(self) -> int:
        return len(self.numbers)

    def choosing(self) -> PendingPoints:
        """Return these points, with the excluded ones treated as pending."""
        seen = PendingPoints(self.asked, self.reissue, self.excluded)
        seen.numbers = seen.asked + seen.excluded
        return seen

    def next_reissue(self, allowed: Mask | None) -> int | None:
        """Return the first candidate to be asked again that a mask (size,) allows, or None."""
        return next((number for number in self.reissue if allowed is None or allowed[number]), None)

    def reissued(self, number: int) -> PendingPoints:
        """Return the pending points after one of the candidates to be asked again was."""
        return PendingPoints(self.asked, _less(self.reissue, number), self.excluded)

    def added(self, number: int) -> PendingPoints:
        """Return the pending points with one more."""
        return PendingPoints([*self.asked, number], self.reissue, self.excluded)

    def failed(self, number: int) -> PendingPoints:
        """Return the pending points with a candidate excluded, once."""
        return PendingPoints(self.asked, self.reissue, dict.fromkeys([*self.excluded, number]))

    def settled(self, number: int) -> PendingPoints:
        """Return the pending points without a candidate that was observed; itself if nothing changes."""
        if number not in self.asked and number not in self.excluded:
            return self
        left = self.without([number]) if number in self.asked else self
        return PendingPoints(left.asked, left.reissue, [each for each in self.excluded if each != number])

    def without(self, numbers: Sequence[int]) -> PendingPoints:
        """Return the pending points without some, each as often as it is given; or raise `PointNotPending`."""
        asked, reissue = self.asked, self.reissue
        for number in numbers:
            if number not in asked:
                raise PointNotPending(number)
            asked = _less(asked, number)
            if reissue.count(number) > asked.count(number):
                reissue = _less(reissue, number)
        return PendingPoints(asked, reissue, self.excluded)


def _less(numbers: list[int], number: int) -> list[int]:
    """Return a list without the first occurrence of a number."""
    left = numbers.copy()
    left.remove(number)
    return left
