"""Spaces: what x is."""

from scalable_bandits.spaces.arms import Arms
from scalable_bandits.spaces.base import FiniteSpace, Indices, Space, availability
from scalable_bandits.spaces.box import Box
from scalable_bandits.spaces.grid import Grid
from scalable_bandits.spaces.listed import Listed, Points, Visited

__all__ = [
    "Arms",
    "Box",
    "FiniteSpace",
    "Grid",
    "Indices",
    "Listed",
    "Points",
    "Space",
    "Visited",
    "availability",
]
