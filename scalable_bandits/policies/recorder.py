"""What a policy asks of whoever keeps its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scalable_bandits.checks import Floats
from scalable_bandits.spaces import Indices


class Recorder(Protocol):
    """Who keeps what a policy was asked and told (a store); what it raises leaves the policy as it was."""

    def asked(self, pending: Sequence[int]) -> None:
        """Points were asked for; all candidates now pending."""

    def tells(self, candidates: Indices, points: Floats, values: Floats, noise: Floats | None) -> None:
        """Values are about to be learned."""

    def told(self) -> None:
        """They have been."""
