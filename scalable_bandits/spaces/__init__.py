"""Spaces: the domains of the function."""

from scalable_bandits.spaces.base import Axis, FiniteSpace, Indices, Space, availability
from scalable_bandits.spaces.box import Box
from scalable_bandits.spaces.domain import Domain, Mask, make_domain
from scalable_bandits.spaces.grid import Grid
from scalable_bandits.spaces.parameters import Boolean, Categorical, Integer, Ordinal, Parameter, Real
from scalable_bandits.spaces.points import Arms, Points
from scalable_bandits.spaces.search_space import SearchSpace
from scalable_bandits.spaces.settings import Settings, every_setting

__all__ = [
    "Arms",
    "Axis",
    "Boolean",
    "Box",
    "Categorical",
    "Domain",
    "FiniteSpace",
    "Grid",
    "Indices",
    "Integer",
    "Mask",
    "Ordinal",
    "Parameter",
    "Points",
    "Real",
    "SearchSpace",
    "Settings",
    "Space",
    "availability",
    "every_setting",
    "make_domain",
]
