"""Interface of a recorder of a policy's points and observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices


class Recorder(Protocol):
    """Object that records a policy's pending points and observations; its errors leave the policy unchanged."""

    def asked(self, pending: Sequence[int]) -> None:
        """Record the candidates that are pending after an `ask`."""

    def tells(self, candidates: Indices, points: Floats, values: Floats, noise: Floats | None) -> None:
        """Record observations, before the policy learns them."""

    def failed(self, candidate: int, point: Floats, error: str, pending: Sequence[int]) -> None:
        """Record that the evaluation of a candidate, at a point (d,), failed; `pending` are the candidates left."""

    def told(self) -> None:
        """Note that the policy has learned the observations of the last `tells`."""
