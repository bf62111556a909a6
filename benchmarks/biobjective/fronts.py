"""Fronts of the problems of mechanical design; `python -m benchmarks.biobjective.fronts` prints their hypervolumes.

The other parameters are fixed where their best values are known, and the rest is a fine grid.

    truss: at a price of displacement, each cross section has its own best value; a3 is the smallest
    beam: at a cost, which is an area and a product of width and height, the violation is convex in the height
    vessel: the thinnest sheets, since a violation of their limits (below 6) is nothing beside one of the volume (1e6);
        and the best setting without a violation, which others published
    cover, spring: grids
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from benchmarks.biobjective import problems
from benchmarks.biobjective.hypervolume import front_of, indicator
from scalable_bandits.checks import Floats


def truss(size: int = 200_000) -> Floats:
    """Return points of the front of the truss (m, 2)."""
    price = np.geomspace(0.1, 100.0, size)
    outer, root = np.sqrt(2 * price), math.sqrt(2.0)
    sections = np.clip(np.sqrt(price), 1.0, 3.0), np.clip(outer, root, 3.0), root, np.clip(outer, 1.0, 3.0)
    return front_of(np.stack(problems.four_bar_truss(*sections), axis=1))


def beam(size: int = 200_000) -> Floats:
    """Return points of the front of the concrete beam (m, 2)."""
    area = np.linspace(0.0, 800.0, size + 1)[1:]  # of the cross section
    found = [np.array([problems.concrete_beam(steel, 20.0, 0.0) for steel in problems.AREAS])]
    for steel in problems.AREAS:
        slope = steel - 7.735 * steel**2 / area  # of the moment, by the height
        with np.errstate(divide="ignore"):
            # where the limits are reached, and where the slopes of the two violations are equal
            heights = 180.0 / slope, 2 * np.sqrt(area), slope * area / 2, np.zeros(size), np.full(size, 40.0)
        for height in heights:
            height = np.clip(height, area / 20.0, np.minimum(40.0, area / 0.01))
            found.append(front_of(np.stack(problems.concrete_beam(steel, area / height, height), axis=1)))
    return front_of(np.concatenate(found))


def vessel(size: int = 4000) -> Floats:
    """Return points near the front of the pressure vessel (m, 2)."""
    best = problems.pressure_vessel(13, 7, 42.0984456, 176.6365959)[0], 0.0
    radius, length = np.meshgrid(np.linspace(10.0, 200.0, size), np.linspace(10.0, 240.0, size))
    found = np.stack(problems.pressure_vessel(1, 1, radius.ravel(), length.ravel()), axis=1)
    return front_of(np.concatenate([front_of(found), [best]]))


def cover(size: int = 4000) -> Floats:
    """Return points near the front of the hatch cover (m, 2)."""
    flange, height = np.meshgrid(np.linspace(0.5, 4.0, size), np.linspace(0.5, 5.0, size))
    return front_of(np.stack(problems.hatch_cover(flange.ravel(), height.ravel()), axis=1))


def spring(size: int = 100_000) -> Floats:
    """Return points near the front of the coil spring (m, 2)."""
    diameter = np.linspace(0.6, 3.0, size)
    found = [
        front_of(np.stack(problems.coil_spring(coils, diameter, wire), axis=1))
        for coils in range(1, 71)
        for wire in problems.WIRES
    ]
    return front_of(np.concatenate(found))


FRONTS: dict[str, Callable[..., Floats]] = {
    "four-bar-truss": truss, "concrete-beam": beam, "pressure-vessel": vessel, "hatch-cover": cover,
    "coil-spring": spring,
}  # fmt: skip


def main() -> None:
    for name, make in FRONTS.items():
        front, problem = make(), problems.PROBLEMS[name]()
        share = indicator(front, problem.ideal, problem.reference)
        print(f"{name}: {share:.9f}, {len(front)} points, from {front[0].tolist()} to {front[-1].tolist()}")


if __name__ == "__main__":
    main()
