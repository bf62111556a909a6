"""Problems with constraints: four of mechanical design, and functions of COCO's suite bbob-constrained.

Functions are minimised, and a constraint holds where its output is at most 0. The problems of mechanical design are in
the units of their sources. `BEST` has the published values and settings.

    welded beam: Coello Coello 2000 (seven constraints; the optimum 1.724852 is that of Mezura-Montes & Coello 2005)
    spring, pressure vessel: Coello Coello & Mezura-Montes 2002; thicknesses are multiples of 1/16 inch
    speed reducer: Lemonge, Barbosa, Borges & Silva 2010, with the wider range of x5 (from 7.3) of Mezura-Montes &
        Coello 2005, in which the optimum is 2994.4711; from 7.8 it is 2996.3482
    bbob-constrained: Dufosse, Hansen, Brockhoff, Sampaio, Atamna & Auger 2022
"""

from __future__ import annotations

import contextlib
import functools
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import scalable_bandits as sb
from benchmarks.tuners.intervals import Setting
from scalable_bandits.checks import Floats
from scalable_bandits.environments.published.bbob import SIDE
from scalable_bandits.environments.published.sources import COCO

FAMILIES = {  # of bbob-constrained: the number of the first of its six functions
    "sphere": 1, "ellipsoid": 7, "slope": 13, "rotated-ellipsoid": 19, "discus": 25, "bent-cigar": 31, "powers": 37,
    "rastrigin": 43,
}  # fmt: skip
COUNTS = (1, 3, 9)  # constraints of the first three functions of a family, in any dimension
DIMENSIONS, INSTANCE = (2, 5, 10), 1


class Problem(NamedTuple):
    """Function that is minimised, with constraints."""

    space: sb.SearchSpace
    names: tuple[str, ...]  # of the constraints
    evaluate: Callable[[Setting], list[float]]  # the function, then the constraints, which are at most 0
    best: float  # best known feasible value
    group: str

    @property
    def limits(self) -> dict[str, Any]:
        """Limits of the constraints by name."""
        return {name: sb.AtMost(0.0) for name in self.names}


class Published(NamedTuple):
    """Published optimum of a problem."""

    value: float
    x: tuple[float, ...]


BEST = {
    "welded-beam": Published(1.724852, (0.2057296398, 3.4704886656, 9.0366239104, 0.2057296398)),
    "spring": Published(0.012665, (0.0516890614, 0.3567177470, 11.2889653382)),
    "pressure-vessel": Published(6059.714335, (13, 7, 42.0984455959, 176.6365958424)),
    "speed-reducer": Published(2994.471066, (3.5, 0.7, 17, 7.3, 7.7153199115, 3.3502146661, 5.2866544650)),
}


def welded_beam(h: float, l: float, t: float, b: float) -> list[float]:  # noqa: E741, the source's name
    """Cost of a welded beam; weld h and l, beam t and b, in inches."""
    load, length, young, shear = 6000.0, 14.0, 30e6, 12e6
    radius = math.sqrt(l**2 / 4 + ((h + t) / 2) ** 2)
    inertia = 2 * (math.sqrt(2) * h * l * (l**2 / 12 + ((h + t) / 2) ** 2))
    primary, torsion = load / (math.sqrt(2) * h * l), load * (length + l / 2) * radius / inertia
    stress = math.sqrt(primary**2 + 2 * primary * torsion * l / (2 * radius) + torsion**2)
    bending, deflection = 6 * load * length / (b * t**2), 4 * load * length**3 / (young * t**3 * b)
    slender = 1 - t / (2 * length) * math.sqrt(young / (4 * shear))
    buckling = 4.013 * young * math.sqrt(t**2 * b**6 / 36) / length**2 * slender
    bar = 0.04811 * t * b * (14 + l)
    return [
        1.10471 * h**2 * l + bar, stress - 13600.0, bending - 30000.0, h - b, 0.10471 * h**2 + bar - 5, 0.125 - h,
        deflection - 0.25, load - buckling,
    ]  # fmt: skip


def spring(d: float, D: float, n: float) -> list[float]:
    """Weight of a spring; diameters of wire and coil in inches, and the number of coils."""
    return [
        (n + 2) * D * d**2,
        1 - D**3 * n / (71785 * d**4),
        (4 * D**2 - d * D) / (12566 * (D * d**3 - d**4)) + 1 / (5108 * d**2) - 1,
        1 - 140.45 * d / (D**2 * n),
        (d + D) / 1.5 - 1,
    ]


def pressure_vessel(shell: int, head: int, radius: float, length: float) -> list[float]:
    """Cost of a vessel; thicknesses in sixteenths of an inch, radius and length in inches."""
    s, h = shell / 16, head / 16
    return [
        0.6224 * s * radius * length + 1.7781 * h * radius**2 + 3.1661 * s**2 * length + 19.84 * s**2 * radius,
        0.0193 * radius - s,
        0.00954 * radius - h,
        1296000.0 - math.pi * radius**2 * (length + 4 / 3 * radius),
        length - 240.0,
    ]


def speed_reducer(x1: float, x2: float, x3: int, x4: float, x5: float, x6: float, x7: float) -> list[float]:
    """Weight of a speed reducer; x3 is the number of teeth, the others are lengths in centimetres."""
    return [
        0.7854 * x1 * x2**2 * (3.3333 * x3**2 + 14.9334 * x3 - 43.0934) - 1.508 * x1 * (x6**2 + x7**2)
        + 7.4777 * (x6**3 + x7**3) + 0.7854 * (x4 * x6**2 + x5 * x7**2),
        27 / (x1 * x2**2 * x3) - 1,
        397.5 / (x1 * x2**2 * x3**2) - 1,
        1.93 * x4**3 / (x2 * x3 * x6**4) - 1,
        1.93 * x5**3 / (x2 * x3 * x7**4) - 1,
        math.sqrt((745 * x4 / (x2 * x3)) ** 2 + 16.9e6) / (110 * x6**3) - 1,
        math.sqrt((745 * x5 / (x2 * x3)) ** 2 + 157.5e6) / (85 * x7**3) - 1,
        x2 * x3 / 40 - 1,
        5 * x2 / x1 - 1,
        x1 / (12 * x2) - 1,
        (1.5 * x6 + 1.9) / x4 - 1,
        (1.1 * x7 + 1.9) / x5 - 1,
    ]  # fmt: skip


def _design(name: str, function: Callable[..., list[float]], constraints: int, **parameters: Any) -> Problem:
    names = tuple(f"g{i}" for i in range(1, constraints + 1))
    return Problem(sb.SearchSpace(parameters), names, lambda x: function(**x), BEST[name].value, "mechanical design")


def _bbob(function: int, dimension: int) -> Problem:
    """Make a function of bbob-constrained, 1 to 54, on [-5, 5]^d; DataMissing if its package is not installed."""
    COCO.require()
    import cocoex  # type: ignore[import-untyped, import-not-found, unused-ignore]

    suite = cocoex.Suite("bbob-constrained", f"instances: {INSTANCE}", f"dimensions: {dimension}")
    published = suite.get_problem_by_function_dimension_instance(function, dimension, INSTANCE)

    def evaluate(x: Setting) -> list[float]:
        point = np.array(list(x.values()))
        return [float(published(point)), *map(float, published.constraint(point))]

    space = sb.SearchSpace({f"x{i}": sb.Real(-SIDE, SIDE) for i in range(dimension)})
    names = tuple(f"g{i}" for i in range(1, published.number_of_constraints + 1))
    best = float(published(_optimum(published)))
    return Problem(space, names, evaluate, best, f"bbob, d = {dimension}")


def _optimum(published: Any) -> Floats:
    """Return the optimum, which the package writes to a file in the working folder and gives in no other way."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        published._best_parameter("print")
        (written,) = Path().iterdir()
        return np.loadtxt(written)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "welded-beam": lambda: _design("welded-beam", welded_beam, 7, h=sb.Real(0.1, 2.0), l=sb.Real(0.1, 10.0),
                                   t=sb.Real(0.1, 10.0), b=sb.Real(0.1, 2.0)),
    "spring": lambda: _design("spring", spring, 4, d=sb.Real(0.05, 2.0), D=sb.Real(0.25, 1.3), n=sb.Real(2.0, 15.0)),
    "pressure-vessel": lambda: _design("pressure-vessel", pressure_vessel, 4, shell=sb.Integer(1, 99),
                                       head=sb.Integer(1, 99), radius=sb.Real(10.0, 200.0),
                                       length=sb.Real(10.0, 200.0)),
    "speed-reducer": lambda: _design("speed-reducer", speed_reducer, 11, x1=sb.Real(2.6, 3.6), x2=sb.Real(0.7, 0.8),
                                     x3=sb.Integer(17, 28), x4=sb.Real(7.3, 8.3), x5=sb.Real(7.3, 8.3),
                                     x6=sb.Real(2.9, 3.9), x7=sb.Real(5.0, 5.5)),
    # each family once in each dimension and with each number of constraints
    **{f"{family}-c{COUNTS[k]}-d{dimension}": functools.partial(_bbob, first + k, dimension)
       for number, (family, first) in enumerate(FAMILIES.items())
       for place, dimension in enumerate(DIMENSIONS) for k in [(number + place) % len(COUNTS)]},
}  # fmt: skip
