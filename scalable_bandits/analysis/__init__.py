"""Numbers from runs and studies: means, differences, exponents, coverage, importance of parameters, time per round."""

from scalable_bandits.analysis.diagnostics import (
    NORMAL,
    Coverage,
    Times,
    coverage,
    index_of,
    indexed,
    lattice,
    plays_over_rounds,
    time_rounds,
)
from scalable_bandits.analysis.importance import Importance, importance
from scalable_bandits.analysis.slices import Slice, slices
from scalable_bandits.analysis.tables import (
    DECADE,
    LEVEL,
    Difference,
    Exponent,
    Mean,
    Spread,
    case_of,
    differences,
    exponent,
    exponents,
    finished,
    means,
    spread,
)

__all__ = [
    "DECADE",
    "LEVEL",
    "NORMAL",
    "Coverage",
    "Difference",
    "Exponent",
    "Importance",
    "Mean",
    "Slice",
    "Spread",
    "Times",
    "case_of",
    "coverage",
    "differences",
    "exponent",
    "exponents",
    "finished",
    "importance",
    "index_of",
    "indexed",
    "lattice",
    "means",
    "plays_over_rounds",
    "slices",
    "spread",
    "time_rounds",
]
