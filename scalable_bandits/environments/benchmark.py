"""Benchmark functions to maximise: the usual minimisation problems, negated.

Sources: Surjanovic & Bingham, Virtual Library of Simulation Experiments; for Rosenbrock and cosines, Azimi et al. 2012.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments.base import TABLE_LIMIT, Environment, extreme
from scalable_bandits.environments.noise import Noise
from scalable_bandits.spaces import Box, Space
from scalable_bandits.specification import check_name


class Function(NamedTuple):
    """Benchmark function with its usual domain and its maximum."""

    evaluate: Callable[[Floats], Floats]  # maps points (k, d) to values (k,)
    bounds: tuple[tuple[float, float], ...]  # bounds of the usual domain, in the default dimension
    optimum: float | None  # maximum on the usual domain
    maximizer: tuple[float, ...] | None  # one of the maximisers on the usual domain
    any_dimension: bool = False


def _branin(x: Floats) -> Floats:
    a, b = x.T
    bowl = b - 5.1 * a**2 / (4.0 * np.pi**2) + 5.0 * a / np.pi - 6.0
    return -(bowl**2) - 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) - 10.0


def _camel(x: Floats) -> Floats:
    a, b = x.T
    return -((4.0 - 2.1 * a**2 + a**4 / 3.0) * a**2 + a * b + (4.0 * b**2 - 4.0) * b**2)


def _rosenbrock(x: Floats) -> Floats:
    return -np.sum(100.0 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1.0 - x[:, :-1]) ** 2, axis=1)


_HARTMANN = np.array([1.0, 1.2, 3.0, 3.2])
_A3 = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
_P3 = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
_A6 = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_P6 = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def _hartmann3(x: Floats) -> Floats:
    return np.exp(-(_A3 * (x[:, None, :] - _P3) ** 2).sum(axis=2)) @ _HARTMANN


def _hartmann6(x: Floats) -> Floats:
    return np.exp(-(_A6 * (x[:, None, :] - _P6) ** 2).sum(axis=2)) @ _HARTMANN


def _ackley(x: Floats) -> Floats:
    radius, wave = np.sqrt((x**2).mean(axis=1)), np.cos(2.0 * np.pi * x).mean(axis=1)
    return 20.0 * np.exp(-0.2 * radius) + np.exp(wave) - 20.0 - np.e


def _eggholder(x: Floats) -> Floats:
    a, b = x.T
    return np.asarray(
        (b + 47.0) * np.sin(np.sqrt(np.abs(a / 2.0 + b + 47.0))) + a * np.sin(np.sqrt(np.abs(a - b - 47.0)))
    )


def _schaffer2(x: Floats) -> Floats:
    a, b = x.T**2
    return -0.5 - (np.sin(a - b) ** 2 - 0.5) / (1.0 + 0.001 * (a + b)) ** 2


def _bukin6(x: Floats) -> Floats:
    a, b = x.T
    return -100.0 * np.sqrt(np.abs(b - 0.01 * a**2)) - 0.01 * np.abs(a + 10.0)


def _michalewicz(x: Floats) -> Floats:
    i = np.arange(1, x.shape[1] + 1)
    return (np.sin(x) * np.sin(i * x**2 / np.pi) ** 20).sum(axis=1)


def _michalewicz_optimum(dimension: int) -> float:
    """Compute the maximum of Michalewicz's function: its terms, one for each coordinate, are maximised one by one."""
    from scipy.optimize import minimize_scalar

    def term(a: Floats | float, i: int) -> Any:
        return -np.sin(a) * np.sin(i * np.square(a) / np.pi) ** 20

    total, grid = 0.0, np.linspace(0.0, np.pi, 100_001)
    for i in range(1, dimension + 1):
        near = grid[np.argmin(term(grid, i))]
        total -= minimize_scalar(term, bounds=(near - 1e-4, near + 1e-4), args=(i,), options={"xatol": 1e-12}).fun
    return float(total)


def _forrester(x: Floats) -> Floats:
    return -((6.0 * x[:, 0] - 2.0) ** 2) * np.sin(12.0 * x[:, 0] - 4.0)


def _cosines(x: Floats) -> Floats:
    u = 1.6 * x - 0.5
    return 1.0 - (u**2 - 0.3 * np.cos(3.0 * np.pi * u)).sum(axis=1)


FUNCTIONS: dict[str, Function] = {
    "branin": Function(_branin, ((-5, 10), (0, 15)), -0.39788735772973816, (np.pi, 2.275)),
    "camel": Function(_camel, ((-3, 3), (-2, 2)), 1.0316284534898772, (0.08984201368301331, -0.7126564032704135)),
    "rosenbrock": Function(_rosenbrock, ((-2.048, 2.048),) * 2, 0.0, (1.0, 1.0), any_dimension=True),
    "hartmann3": Function(
        _hartmann3, ((0, 1),) * 3, 3.8627797873327696, (0.1145888979, 0.5556488526, 0.8525469532)
    ),
    "hartmann6": Function(
        _hartmann6, ((0, 1),) * 6, 3.322368011415515,
        (0.2016895117, 0.1500106886, 0.4768739729, 0.2753324308, 0.3116516168, 0.6573005340),
    ),
    "ackley": Function(_ackley, ((-32.768, 32.768),) * 2, 0.0, (0.0, 0.0), any_dimension=True),
    "eggholder": Function(_eggholder, ((-512, 512),) * 2, 959.6406627208506, (512.0, 404.2318058008512)),
    "schaffer2": Function(_schaffer2, ((-100, 100),) * 2, 0.0, (0.0, 0.0)),
    "bukin6": Function(_bukin6, ((-15, -5), (-3, 3)), 0.0, (-10.0, 1.0)),
    "michalewicz": Function(
        _michalewicz, ((0, np.pi),) * 2, 1.8013034100985532, (2.2029055201726, 1.5707963267949), any_dimension=True
    ),
    "forrester": Function(_forrester, ((0, 1),), 6.020740055766075, (0.7572487144081974,)),
    "cosines": Function(_cosines, ((0, 1),) * 2, 1.6, (0.3125, 0.3125)),
}  # fmt: skip


class Benchmark(Environment):
    """Benchmark function, negated if the literature minimises it.

    Parameters
    ----------
    name
        A key of `FUNCTIONS`: "branin", "camel", "rosenbrock", "hartmann3", "hartmann6", "ackley", "eggholder",
        "schaffer2", "bukin6", "michalewicz", "forrester", "cosines".
    space
        Domain; the box of the function's usual bounds if not given.
    unit_cube
        Whether coordinates in [0, 1]^d are mapped to the usual bounds.
    scaled
        Whether values are mapped linearly so that their extremes on the space are -1 and 1 (exact on a finite
        space, found by a search on a box).
    dimension
        Number of dimensions, for a function defined in any: rosenbrock, ackley, michalewicz.
    noise, seed
        Noise distribution and its seed; see `Environment`.

    Raises
    ------
    ValueError
        If the name is unknown, or the function is not defined in this number of dimensions.
    """

    def __init__(
        self,
        name: str,
        space: Space | None = None,
        noise: Noise | None = None,
        *,
        unit_cube: bool = False,
        scaled: bool = False,
        dimension: int | None = None,
        seed: int = 0,
    ):
        check_name("name", name, FUNCTIONS)
        if space is not None:
            checks.kind("space", space, Space, "a Box, a Grid or Points")
        self.name, self.function = name, FUNCTIONS[name]
        usual = len(self.function.bounds)
        d = space.dimension if space is not None else usual if dimension is None else dimension
        any_other = self.function.any_dimension and checks.integer("dimension", d, 1) > 1
        if dimension not in (None, d) or (d != usual and not any_other):
            allowed = f"{usual}, for {name}" + (" any above 1" if self.function.any_dimension else "")
            checks.refuse("dimension", d if dimension is None else dimension, allowed)
        self._bounds = self.function.bounds[:1] * d if self.function.any_dimension else self.function.bounds
        self._usual = Box([[0.0, 1.0]] * d if unit_cube else self._bounds)
        super().__init__(self._usual if space is None else space, noise, seed)
        self.unit_cube, self.scaled = checks.flag("unit_cube", unit_cube), checks.flag("scaled", scaled)
        self._center, self._scale = 0.0, 1.0
        if scaled:
            low, high = self._extremes()
            self._center, self._scale = (low + high) / 2.0, (high - low) / 2.0

    def _extremes(self) -> tuple[float, float]:
        """Return the smallest and the largest value on the space."""
        if self.space.finite is not None and self.space.finite.size <= TABLE_LIMIT:
            values = self.evaluate(self.space.finite.points())
            return float(values.min()), float(values.max())
        return extreme(self, sign=-1.0), self.optimum()

    def evaluate(self, points: Floats) -> Floats:
        if self.unit_cube:
            low, high = np.array(self._bounds).T
            points = low + points * (high - low)
        return (self.function.evaluate(points) - self._center) / self._scale

    def optimum(self, t: int = 1, available: ArrayLike | None = None) -> float:
        """Return the largest value over the available candidates (mask (size,); default all), in units of y.

        The value is exact on a finite space and on the usual box; on any other box it is searched. A grid of more than
        fifty million candidates has to have the function's maximiser.
        """
        known = self.function.optimum
        if self.name == "michalewicz" and len(self._bounds) != 2:
            known = _michalewicz_optimum(len(self._bounds))
        if self.space == self._usual and known is not None and available is None:
            return (known - self._center) / self._scale
        if available is None and (self.space.size or 0) > TABLE_LIMIT and (best := self._maximizer) is not None:
            return float(self.evaluate(best)[0])
        return super().optimum(t, available)

    @property
    def _maximizer(self) -> Floats | None:
        """Maximiser (1, d) on the usual domain if the space is a part of this and has it, else None."""
        known, d = self.function.maximizer, len(self._bounds)
        if self.space.box is None or known is None or (self.name == "michalewicz" and d != 2):
            return None
        low, high = np.array(self._bounds).T
        point = np.array(known if len(known) == d else known[:1] * d)
        point = (point - low) / (high - low) if self.unit_cube else point
        usual, box = self._usual.box, self.space.box
        if (box[:, 0] < usual[:, 0]).any() or (box[:, 1] > usual[:, 1]).any():
            return None
        try:
            return self.space.check(point)
        except ValueError:  # not on the grid
            return None
