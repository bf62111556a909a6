"""Finite space of arms without coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.spaces.axes import Axis, choice_axis
from scalable_bandits.spaces.base import FiniteSpace, Indices


@attrs.frozen
class Arms(FiniteSpace):
    """Finite space of arms without coordinates, such as sensors: x is an arm number, the kernel a `Covariance`.

    Parameters
    ----------
    count
        Number of arms, which are numbered from 0.

    Raises
    ------
    ValueError
        If the number is not a positive integer.
    """

    has_coordinates: ClassVar[bool] = False

    count: int = attrs.field(converter=checks.to_int, validator=checks.whole(1))

    @property
    def dimension(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return self.count

    def points(self, candidates: ArrayLike | None = None) -> Floats:
        numbers = np.arange(self.count) if candidates is None else np.asarray(candidates)
        return numbers.astype(np.float64)[:, None]

    def index(self, x: ArrayLike) -> Indices:
        points, _ = self.parse(x)
        arms = points[:, 0]
        bad = (arms != np.floor(arms)) | (arms < 0) | (arms >= self.count)
        if bad.any():
            checks.refuse("x", arms[bad][0].item(), f"an arm number from 0 to {self.count - 1}")
        return arms.astype(np.int64)

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (choice_axis("arm", [str(arm) for arm in range(self.count)]),)

    def matching(self, context: Mapping[Any, Any]) -> NDArray[np.bool_]:
        """Raise ValueError, since arms have no coordinates from which to make a mask (size,)."""
        checks.refuse("context", context, "none on arms: they have no coordinates")

    def x_of(self, candidates: ArrayLike | None = None) -> Indices:
        return np.arange(self.count) if candidates is None else np.asarray(candidates, dtype=np.int64)

    def argument(self, point: Floats) -> int:
        return int(point[0])
