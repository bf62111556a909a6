"""Points asked for whose value has not been told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import attrs

from scalable_bandits.spaces import Mask


class PointNotPending(ValueError):
    """A candidate is not pending, or not as often as it is given."""


class AllFailed(RuntimeError):
    """The evaluation of every point that may be chosen has failed."""


@attrs.frozen(eq=False)
class PendingPoints:
    """Numbers of the pending candidates, in the order of asking; a number may be pending several times.

    A value: it is replaced, never changed.

    Attributes
    ----------
    asked : list of int
        Candidates that were asked for.
    reissue : list of int
        Those that are pending since an earlier process; `ask` returns them first.
    excluded : list of int
        Candidates whose evaluation failed, treated as pending when the next point is chosen.
    numbers : list of int
        Pending candidates: `asked`, and `excluded` while the next point is chosen.
    """

    asked: list[int] = attrs.field(factory=list)
    reissue: list[int] = attrs.field(factory=list)
    excluded: list[int] = attrs.field(factory=list)
    numbers: list[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "numbers", self.asked)

    def __len__(self) -> int:
        return len(self.numbers)

    def choosing(self) -> Self:
        """Return these points, with the excluded ones treated as pending."""
        seen = attrs.evolve(self)
        object.__setattr__(seen, "numbers", self.asked + self.excluded)
        return seen

    def next_reissue(self, allowed: Mask | None) -> int | None:
        """Return the first candidate to be asked again that a mask (size,) allows, or None."""
        return next((number for number in self.reissue if allowed is None or allowed[number]), None)

    def reissued(self, number: int) -> Self:
        """Return the pending points after one of the candidates to be asked again was."""
        return attrs.evolve(self, reissue=_less(self.reissue, number))

    def added(self, number: int) -> Self:
        """Return the pending points with one more."""
        return attrs.evolve(self, asked=[*self.asked, number])

    def failed(self, number: int) -> Self:
        """Return the pending points with a candidate excluded, once."""
        return attrs.evolve(self, excluded=[*dict.fromkeys([*self.excluded, number])])

    def settled(self, number: int) -> Self:
        """Return the pending points without a candidate that was observed; itself if nothing changes."""
        if number not in self.asked and number not in self.excluded:
            return self
        left = attrs.evolve(self, excluded=[each for each in self.excluded if each != number])
        return left.without([number]) if number in self.asked else left

    def without(self, numbers: Sequence[int]) -> Self:
        """Return the pending points without some, each as often as it is given; or raise `PointNotPending`."""
        asked, reissue = self.asked, self.reissue
        for number in numbers:
            if number not in asked:
                raise PointNotPending(number)
            asked = _less(asked, number)
            if reissue.count(number) > asked.count(number):
                reissue = _less(reissue, number)
        return attrs.evolve(self, asked=asked, reissue=reissue)


def _less(numbers: list[int], number: int) -> list[int]:
    """Return a list without the first occurrence of a number."""
    left = numbers.copy()
    left.remove(number)
    return left
