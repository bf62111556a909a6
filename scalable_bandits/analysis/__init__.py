"""Numbers from runs and studies: means, differences, exponents, coverage, importance of parameters, time per round."""

from scalable_bandits.analysis.curves import (
    Curve,
    case_of,
    complete,
    curves,
    finished,
    horizons_of,
    numeric_axes,
    policies_of,
    present,
    totals,
)
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
from scalable_bandits.analysis.exponents import DECADE, LEVEL, Exponent, Power, all_exponents, exponent, exponents
from scalable_bandits.analysis.importance import Importance, importance
from scalable_bandits.analysis.slices import Slice, slices
from scalable_bandits.analysis.tables import Difference, Mean, Spread, differences, means, spread

__all__ = [
    "DECADE",
    "LEVEL",
    "NORMAL",
    "Coverage",
    "Curve",
    "Difference",
    "Exponent",
    "Importance",
    "Mean",
    "Power",
    "Slice",
    "Spread",
    "Times",
    "all_exponents",
    "case_of",
    "complete",
    "coverage",
    "curves",
    "differences",
    "exponent",
    "exponents",
    "finished",
    "horizons_of",
    "importance",
    "index_of",
    "indexed",
    "lattice",
    "means",
    "numeric_axes",
    "plays_over_rounds",
    "policies_of",
    "present",
    "slices",
    "spread",
    "time_rounds",
    "totals",
]
