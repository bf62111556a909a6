"""What a model believes of the function, in the user's names and units."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel, Tanimoto
from scalable_bandits.spaces import Pool, Space
from scalable_bandits.spaces.named import NamedSpace


class Influence(NamedTuple):
    """How much one parameter, or one coordinate, matters to the model."""

    name: str
    lengthscale: float  # in units of x, in which it is linear; of named parameters from 0 to 1
    text: str  # the lengthscale in the user's units
    influence: float  # 0: none; 1: f at one end of the range tells nothing of f at the other

    def __str__(self) -> str:
        return f"{self.name}: lengthscale {self.text}, influence {self.influence:.2f}"


class Beliefs(NamedTuple):
    """What a model believes; as text one line a fact, influential parameters first."""

    parameters: tuple[Influence, ...]  # in the order of their influence
    output_scale: float  # standard deviation of f around its mean, in units of y
    noise: float  # standard deviation of a measurement's noise in the posterior, in units of y
    mean: float  # prior mean, in units of y; NaN if it is not constant
    search: str  # where the largest index is looked for
    fingerprint: str = ""  # which coordinates are the fingerprint of a pool's candidates; empty without one

    def __str__(self) -> str:
        facts = f"mean {self.mean:.4g}, deviation of f {self.output_scale:.3g}, noise {self.noise:.3g}"
        fingerprint = [self.fingerprint] if self.fingerprint else []
        return "\n".join([*map(str, self.parameters), *fingerprint, facts, f"largest index: {self.search}"])


def beliefs_of(model: Any) -> Beliefs:
    """Return what a `Model` believes of the function."""
    constant, space = model.constant_mean, model.domain.space
    base = space.encode(model.domain.sample(0)[:1])
    variance = float(model.kernel.diagonal(base)[0])
    mean = math.nan if constant is None else float(model.in_units(np.array([constant]), np.zeros(1))[0][0])
    found = influences(space, model.kernel, base)
    unit, noise = model.transform.scale, model.noise
    return Beliefs(
        found,
        variance**0.5 * unit,
        noise**0.5 * unit,
        model.prior.direction * mean,
        model.search.describe(model.domain),
        _fingerprint(space, model.kernel),
    )


def _fingerprint(space: Space, kernel: Kernel) -> str:
    """Return which coordinates are words of a fingerprint, and whether `Tanimoto` compares them; empty without any."""
    if not isinstance(space, Pool) or not space.words:
        return ""
    which = "x0: the" if space.words == 1 else f"x0 to x{space.words - 1}: the"
    return f"{which} fingerprint{' (Tanimoto)' if _has_tanimoto(kernel) else ''}"


def _has_tanimoto(kernel: Kernel) -> bool:
    return isinstance(kernel, Tanimoto) or any(map(_has_tanimoto, kernel.parts))


def influences(space: Space, kernel: Kernel, base: Floats) -> tuple[Influence, ...]:
    """Return the influence of each coordinate that has a lengthscale, the largest first.

    Parameters
    ----------
    space
        Space of the model.
    kernel
        Kernel of the model.
    base
        Coordinates (1, d) of the point at which one coordinate after the other is moved by its whole range.
    """
    every = range(space.model_dimension)
    known = [p for p in kernel.hyperparameters if p.name == "lengthscale"]
    lengths = {k: p.value for p in known for k in (every if p.dimensions is None else p.dimensions)}
    sides = space.side_lengths
    found = []
    for k, length in lengths.items():
        side = 1.0 if sides is None or not sides[k] > 0.0 else float(sides[k])
        found.append(_influence(space, k, length, _correlation(kernel, base, k, side)))
    return tuple(sorted(found, key=lambda each: -each.influence))


def _correlation(kernel: Kernel, base: Floats, k: int, side: float) -> float:
    """Return the prior correlation of f at a point and at the one a side away in coordinate k."""
    other = base.copy()
    other[0, k] += side
    covariance = kernel.block(np.vstack([base, other]))
    variance = math.sqrt(covariance[0, 0] * covariance[1, 1])
    return float(covariance[0, 1]) / variance if variance else 1.0


def _influence(space: Space, k: int, length: float, correlation: float) -> Influence:
    """Return the influence of one coordinate, given its lengthscale in units of the coordinate."""
    influence = math.sqrt(max(1.0 - correlation, 0.0))
    if not isinstance(space, NamedSpace):
        name = space.coordinate_names[k] if isinstance(space, Pool) else f"x{k}"
        return Influence(name, length, f"{length:.3g}", influence)
    place = space.coordinates.parameters[k]
    name, kind = space.names[place], space.kinds[place]
    if k >= space.coordinates.values:
        return Influence(f"{name} (whether it exists)", length, f"{length:.3g}", influence)
    return Influence(name, length, kind.lengthscale(length), influence)
