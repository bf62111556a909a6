"""Problems with two objectives, which are minimised: functions, mechanical design, the suite bbob-biobj, and tables.

    ZDT1, ZDT2, ZDT3: Zitzler, Deb & Thiele 2000; DTLZ2: Deb, Thiele, Laumanns & Zitzler 2005; d = 6
    Branin-Currin: Belakaria, Deshwal & Doppa 2019
    four-bar truss to coil spring: RE21 to RE25 of Tanabe & Ishibuchi 2020, "An easy-to-use real-world multi-objective
        optimization problem suite", as corrected in its repository (ryojitanabe/reproblems, November 2020). The second
        objective of RE22 to RE25 is the sum of what constraints are violated by.
    bbob-biobj: Brockhoff, Auger, Hansen & Tusar 2022; one pair of functions of each of its 15 classes
    tables of HPOLib: Klein & Hutter 2019; log10 of validation loss and training time, averaged over four trainings

Reference points: of ZDT, DTLZ2 and Branin-Currin those of BoTorch's test functions; of RE 1.1 on the scale where ideal
and nadir point are 0 and 1; of bbob-biobj the nadir point, as in COCO; of tables the largest values.

Differs from the sources in: RE22's width is at least 0.01, since its second objective is infinite at 0, and its list
has 3.10, which the code of the source splits into 3 and 10; bbob-biobj is on [-5, 5]^d, which has the optima of its
functions, not on [-100, 100]^d.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import scalable_bandits as sb
from benchmarks.biobjective.hypervolume import hypervolume
from scalable_bandits.checks import Floats
from scalable_bandits.environments.published.bbob import SIDE
from scalable_bandits.environments.published.hpo import HPOLib, gathered
from scalable_bandits.environments.published.pickles import read_plain
from scalable_bandits.environments.published.sources import COCO, HPO_TABLES
from scalable_bandits.spaces import Space

Pair = tuple[float, float]


class Problem(NamedTuple):
    """Function with two objectives, which are minimised."""

    space: Space
    evaluate: Callable[[Any], list[float]]  # of an argument of the space: a point (d,) of a box, else a dict
    ideal: Pair  # smallest value of each objective on the front
    reference: Pair
    front: float  # hypervolume of the front, as a share of the box between ideal and reference point
    group: str


# ---- functions


def _zdt(number: int, x: Floats) -> list[float]:
    first, g = float(x[0]), 1.0 + 9.0 * float(np.mean(x[1:]))
    share = first / g
    shape = {
        1: 1.0 - math.sqrt(share),
        2: 1.0 - share**2,
        3: 1.0 - math.sqrt(share) - share * math.sin(10 * math.pi * first),
    }
    return [first, g * shape[number]]


def _dtlz2(x: Floats) -> list[float]:
    radius, angle = 1.0 + float(np.sum((x[1:] - 0.5) ** 2)), math.pi / 2 * float(x[0])
    return [radius * math.cos(angle), radius * math.sin(angle)]


def _branin_currin(x: Floats) -> list[float]:
    """Branin's function, its box scaled to the unit square, and Currin's."""
    a, b = map(float, x)
    s, t = 15 * a - 5, 15 * b
    branin = (t - 5.1 / (4 * math.pi**2) * s**2 + 5 / math.pi * s - 6) ** 2
    branin += 10 * (1 - 1 / (8 * math.pi)) * math.cos(s) + 10
    decay = 1 - math.exp(-1 / (2 * b)) if b > 0.0 else 1.0
    ratio = (2300 * a**3 + 1900 * a**2 + 2092 * a + 60) / (100 * a**3 + 500 * a**2 + 4 * a + 20)
    return [branin, decay * ratio]


def _function(evaluate: Callable[[Floats], list[float]], d: int, ideal: Pair, reference: Pair, area: float) -> Problem:
    box = (reference[0] - ideal[0]) * (reference[1] - ideal[1])
    return Problem(sb.Box([[0.0, 1.0]] * d), evaluate, ideal, reference, area / box, "functions")


# ---- mechanical design; the functions also take arrays


class Published(NamedTuple):
    """Ideal and nadir point of a problem, and the hypervolume of its front."""

    ideal: Pair
    nadir: Pair
    front: float  # as in `Problem`; see `fronts`


DESIGNS = {
    "four-bar-truss": Published((1237.8414230005742, 0.002761423749158419), (2886.3695604236013, 0.04), 0.734828),
    "concrete-beam": Published((5.88, 0.0), (361.262944647, 180.01547), 0.630864),
    "pressure-vessel": Published((15.9018007813, 0.0), (5852.05896876, 1288669.78054), 0.961661),
    "hatch-cover": Published((60.5, 0.0), (481.608088535, 44.2819047619), 0.968096),
    "coil-spring": Published((0.037591349242869145, 0.0), (0.40397042546, 2224669.22419), 0.893533),
}
AREAS = [
    0.2, 0.31, 0.4, 0.44, 0.6, 0.62, 0.79, 0.8, 0.88, 0.93, 1.0, 1.2, 1.24, 1.32, 1.4, 1.55, 1.58, 1.6, 1.76, 1.8, 1.86,
    2.0, 2.17, 2.2, 2.37, 2.4, 2.48, 2.6, 2.64, 2.79, 2.8, 3.0, 3.08, 3.1, 3.16, 3.41, 3.52, 3.6, 3.72, 3.95, 3.96, 4.0,
    4.03, 4.2, 4.34, 4.4, 4.65, 4.74, 4.8, 4.84, 5.0, 5.28, 5.4, 5.53, 5.72, 6.0, 6.16, 6.32, 6.6, 7.11, 7.2, 7.8, 7.9,
    8.0, 8.4, 8.69, 9.0, 9.48, 10.27, 11.0, 11.06, 11.85, 12.0, 13.0, 14.0, 15.0,
]  # fmt: skip
WIRES = [
    0.092, 0.105, 0.12, 0.135, 0.148, 0.162, 0.177, 0.192, 0.207, 0.225, 0.244, 0.263, 0.283, 0.307, 0.331, 0.362,
    0.394, 0.4375, 0.5,
]  # fmt: skip


def _violation(*constraints: Any) -> Any:
    """Return the sum of what constraints, which are to be at least 0, are below it by."""
    return sum(np.maximum(-each, 0.0) for each in constraints)


def four_bar_truss(a1: Any, a2: Any, a3: Any, a4: Any) -> list[Any]:
    """Volume and displacement of a joint; cross sections in square centimetres."""
    length, load, young = 200.0, 10.0, 2e5
    root = math.sqrt(2.0)
    return [
        length * (2 * a1 + root * a2 + np.sqrt(a3) + a4),
        load * length / young * (2 / a1 + 2 * root / a2 - 2 * root / a3 + 2 / a4),
    ]


def concrete_beam(steel: Any, width: Any, height: Any) -> list[Any]:
    """Cost of a reinforced beam; area of the reinforcement, width and height of the beam."""
    moment = steel * height - 7.735 * steel**2 / width - 180.0
    return [29.4 * steel + 0.6 * width * height, _violation(moment, 4.0 - height / width)]


def pressure_vessel(shell: Any, head: Any, radius: Any, length: Any) -> list[Any]:
    """Cost of a vessel; thicknesses in sixteenths of an inch, radius and length in inches."""
    s, h = shell / 16, head / 16
    cost = 0.6224 * s * radius * length + 1.7781 * h * radius**2 + 3.1661 * s**2 * length + 19.84 * s**2 * radius
    volume = math.pi * radius**2 * length + 4 / 3 * math.pi * radius**3
    return [cost, _violation(s - 0.0193 * radius, h - 0.00954 * radius, volume - 1296000.0)]


def hatch_cover(flange: Any, height: Any) -> list[Any]:
    """Weight of a hatch cover; thickness of the flange and height of the beam."""
    young = 700000.0
    bending, buckling = 4500.0 / (flange * height), young * flange**2 / 100
    shear, deflection = 1800.0 / height, 562000.0 / (young * flange * height**2)
    limits = (1 - bending / 700.0, 1 - shear / 450.0, 1 - deflection / 1.5, 1 - bending / buckling)
    return [flange + 120 * height, _violation(*limits)]


def coil_spring(coils: Any, diameter: Any, wire: Any) -> list[Any]:
    """Volume of a spring; number of coils, and diameters of coil and wire in inches."""
    largest, preload, shear = 1000.0, 300.0, 11.5e6
    index = diameter / wire
    factor = (4 * index - 1) / (4 * index - 4) + 0.615 / index
    rate = shear * wire**4 / (8 * coils * diameter**3)
    free, solid, deflection = largest / rate, 1.05 * (coils + 2) * wire, preload / rate
    working = (largest - preload) / rate
    limits = (
        189000.0 - 8 * factor * largest * diameter / (math.pi * wire**3), 14.0 - free - solid, index - 3.0,
        6.0 - deflection, free - deflection - working, 1.25 - working,
    )  # fmt: skip
    return [math.pi**2 * diameter * wire**2 * (coils + 2) / 4, _violation(*limits)]


def _design(name: str, function: Callable[..., list[Any]], **parameters: Any) -> Problem:
    ideal, nadir, front = DESIGNS[name]
    reference = (ideal[0] + 1.1 * (nadir[0] - ideal[0]), ideal[1] + 1.1 * (nadir[1] - ideal[1]))
    space = sb.SearchSpace(parameters)
    return Problem(space, lambda x: [float(y) for y in function(**x)], ideal, reference, front, "mechanical design")


# ---- bbob-biobj

NAMES = {
    1: "sphere", 2: "ellipsoid", 6: "sector", 8: "rosenbrock", 13: "ridge", 14: "powers", 15: "rastrigin",
    17: "schaffer", 20: "schwefel", 21: "gallagher",
}  # fmt: skip
INSTANCE, INSTANCES = 1, (2, 4)  # of the suite; of the two functions, which it stands for


class Function(NamedTuple):
    """Function of the suite."""

    number: int
    pair: tuple[int, int]  # of functions of bbob
    dimension: int
    front: float  # largest known hypervolume, of the table in version 2.8.2 of the package


BIOBJECTIVE = [  # by number, in dimensions 2, 5 and 10 in turn
    Function(2, (1, 2), 2, 0.995822561023240),
    Function(3, (1, 6), 5, 0.846755821475001),
    Function(7, (1, 15), 10, 0.897609185174781),
    Function(14, (2, 13), 2, 0.912474502758044),
    Function(18, (2, 20), 5, 0.998492990918753),
    Function(21, (6, 8), 10, 0.993980399482700),
    Function(25, (6, 17), 2, 0.890543038798975),
    Function(30, (8, 14), 5, 0.940212728170741),
    Function(34, (8, 21), 10, 0.966135341522572),
    Function(36, (13, 14), 2, 0.945914909650879),
    Function(37, (13, 15), 5, 0.835169073581692),
    Function(44, (14, 20), 10, 0.977883915649076),
    Function(47, (15, 17), 2, 0.712272111791356),
    Function(52, (17, 21), 5, 0.961544365098409),
    Function(54, (20, 21), 10, 0.971020975989233),
]


def _bbob(of: Function) -> Problem:
    """Make a function of bbob-biobj on [-5, 5]^d; DataMissing if its package is not installed."""
    COCO.require()
    import cocoex  # type: ignore[import-untyped, import-not-found, unused-ignore]

    suite = cocoex.Suite("bbob-biobj", f"instances: {INSTANCE}", f"dimensions: {of.dimension}")
    published = suite.get_problem_by_function_dimension_instance(of.number, of.dimension, INSTANCE)
    single = [
        cocoex.BareProblem("bbob", f, of.dimension, instance) for f, instance in zip(of.pair, INSTANCES, strict=True)
    ]
    first, second = (float(each.best_value()) for each in single)
    right, top = map(float, published.largest_fvalues_of_interest)

    def evaluate(x: Floats) -> list[float]:
        return [float(y) for y in published(np.array(x, dtype=float))]

    space = sb.Box([[-SIDE, SIDE]] * of.dimension)
    return Problem(space, evaluate, (first, second), (right, top), of.front, f"bbob, d = {of.dimension}")


# ---- tables


def _table(name: str) -> Problem:
    """Make a table of HPOLib; DataMissing if its package is not installed."""
    with HPO_TABLES.file("datasets", HPOLib.FOLDER, f"{name}.pkl").open("rb") as file:
        entries = read_plain(file)
    lists = HPOLib.PARAMETERS
    shape = tuple(map(len, lists.values()))
    columns = [np.log10(gathered(entries, metric, shape)).mean(axis=1) for metric in (HPOLib.METRIC, "train_time")]
    values = np.stack(columns, axis=1)
    ideal, reference = values.min(axis=0), values.max(axis=0)
    front = hypervolume(values, reference) / float(np.prod(reference - ideal))

    def evaluate(x: dict[str, Any]) -> list[float]:
        place = np.ravel_multi_index([lists[key].index(x[key]) for key in lists], shape)
        return [float(y) for y in values[place]]

    corners = [(float(corner[0]), float(corner[1])) for corner in (ideal, reference)]
    return Problem(sb.SearchSpace(dict(lists)), evaluate, corners[0], corners[1], front, "tables")


_RANGE = sb.Real(math.sqrt(2.0), 3.0)
PROBLEMS: dict[str, Callable[[], Problem]] = {
    "zdt1": lambda: _function(functools.partial(_zdt, 1), 6, (0.0, 0.0), (11.0, 11.0), 120 + 2 / 3),
    "zdt2": lambda: _function(functools.partial(_zdt, 2), 6, (0.0, 0.0), (11.0, 11.0), 120 + 1 / 3),
    "zdt3": lambda: _function(functools.partial(_zdt, 3), 6, (0.0, -0.7733690), (11.0, 11.0), 128.77811613069076),
    "dtlz2": lambda: _function(_dtlz2, 6, (0.0, 0.0), (1.1, 1.1), 1.21 - math.pi / 4),
    "branin-currin": lambda: _function(_branin_currin, 2, (0.3978874, 1.1804080), (18.0, 6.0), 59.36011874867746),
    "four-bar-truss": lambda: _design("four-bar-truss", four_bar_truss, a1=sb.Real(1.0, 3.0), a2=_RANGE, a3=_RANGE,
                                      a4=sb.Real(1.0, 3.0)),
    "concrete-beam": lambda: _design("concrete-beam", concrete_beam, steel=AREAS, width=sb.Real(0.01, 20.0),
                                     height=sb.Real(0.0, 40.0)),
    "pressure-vessel": lambda: _design("pressure-vessel", pressure_vessel, shell=sb.Integer(1, 100),
                                       head=sb.Integer(1, 100), radius=sb.Real(10.0, 200.0),
                                       length=sb.Real(10.0, 240.0)),
    "hatch-cover": lambda: _design("hatch-cover", hatch_cover, flange=sb.Real(0.5, 4.0), height=sb.Real(0.5, 50.0)),
    "coil-spring": lambda: _design("coil-spring", coil_spring, coils=sb.Integer(1, 70), diameter=sb.Real(0.6, 3.0),
                                   wire=WIRES),
    **{f"{NAMES[each.pair[0]]}-{NAMES[each.pair[1]]}-d{each.dimension}": functools.partial(_bbob, each)
       for each in BIOBJECTIVE},
    **{name: functools.partial(_table, name) for name in ("naval_propulsion", "protein_structure")},
}  # fmt: skip
