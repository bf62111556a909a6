"""Spaces: the domains of the function."""

from scalable_bandits.spaces.arms import Arms
from scalable_bandits.spaces.base import FiniteSpace, Indices, Space, availability
from scalable_bandits.spaces.box import Box
from scalable_bandits.spaces.domain import Domain, Mask, make_domain
from scalable_bandits.spaces.grid import Grid
from scalable_bandits.spaces.points import Points

__all__ = [
    "Arms",
    "Box",
    "Domain",
    "FiniteSpace",
    "Grid",
    "Indices",
    "Mask",
    "Points",
    "Space",
    "availability",
    "make_domain",
]
