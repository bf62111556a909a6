"""Points asked for whose value has not been told."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import attrs

from scalable_bandits.spaces import Mask


class PointNotPending(ValueError):
    """A candidate is not pending, or not as often as it is given."""


class AllFailed(RuntimeError):
    """The evaluation of every point that may be chosen has failed."""


@attrs.frozen
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
    numbers
        Pending candidates: those asked for, and while the next point is chosen the excluded ones.
    """

    asked: list[int] = attrs.Factory(list)
    reissue: list[int] = attrs.Factory(list)
    excluded: list[int] = attrs.Factory(list)
    numbers: list[int] = attrs.Factory(attrgetter("asked"), takes_self=True)

    def __len__(self) -> int:
        return len(self.numbers)

    def choosing(self) -> PendingPoints:
        """Return these points, with the excluded ones treated as pending."""
        return PendingPoints(self.asked, self.reissue, self.excluded, [*self.asked, *self.excluded])

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
        return PendingPoints(self.asked, self.reissue, list(dict.fromkeys([*self.excluded, number])))

    def settled(self, number: int) -> PendingPoints:
        """Return the pending points without a candidate that was observed."""
        left = self.without([number]) if number in self.asked else self
        if number not in self.excluded:
            return left
        return PendingPoints(left.asked, left.reissue, _less(self.excluded, number))

    def without(self, numbers: Sequence[int]) -> PendingPoints:
        """Return the pending points without some, each as often as it is given; or raise `PointNotPending`."""
        left, reissue = self.asked, self.reissue
        for number in numbers:
            if number not in left:
                raise PointNotPending(number)
            left = _less(left, number)
            if reissue and reissue.count(number) > left.count(number):
                reissue = _less(reissue, number)
        return PendingPoints(left, reissue, self.excluded)


def _less(numbers: Sequence[int], number: int) -> list[int]:
    """Return a list without the first occurrence of a number."""
    left = list(numbers)
    left.remove(number)
    return left
