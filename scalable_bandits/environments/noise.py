"""Noise distributions, each with its sub-Gaussian constant R, in units of y."""

from __future__ import annotations

import math
from abc import abstractmethod

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.specification import Specification


class Noise(Specification):
    """Zero-mean noise, independent from round to round."""

    __slots__ = ()

    @property
    @abstractmethod
    def sub_gaussian(self) -> float:
        """Sub-Gaussian constant R: E exp(s e) <= exp(s^2 R^2 / 2) for all s; infinite if no R satisfies this."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw `count` values, shape (count,), in units of y."""


@attrs.frozen
class GaussianNoise(Noise):
    """Normal distribution with standard deviation `scale`; R = scale.

    Parameters
    ----------
    scale
        Standard deviation, in units of y; 0 for no noise.

    Raises
    ------
    ValueError
        If the scale is negative or infinite.
    """

    scale: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.nonnegative)

    @property
    def sub_gaussian(self) -> float:
        return self.scale

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        return self.scale * rng.standard_normal(count)


@attrs.frozen
class UniformNoise(Noise):
    """Uniform distribution on [-half_width, half_width]; R = half_width / sqrt(3), its standard deviation.

    The uniform distribution is strictly sub-Gaussian (Arbel, Marchal & Nguyen 2020); the papers take the
    coarser half-width (Hoeffding).

    Parameters
    ----------
    half_width
        Largest absolute value, in units of y; 0 for no noise.

    Raises
    ------
    ValueError
        If the half-width is negative or infinite.
    """

    half_width: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.nonnegative)

    @property
    def sub_gaussian(self) -> float:
        return self.half_width / math.sqrt(3.0)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.uniform(-self.half_width, self.half_width, count)


@attrs.frozen
class RademacherNoise(Noise):
    """Values -scale and scale with equal probability; R = scale.

    Parameters
    ----------
    scale
        Absolute value, in units of y; 0 for no noise.

    Raises
    ------
    ValueError
        If the scale is negative or infinite.
    """

    scale: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.nonnegative)

    @property
    def sub_gaussian(self) -> float:
        return self.scale

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        signs: Floats = rng.choice(np.array([-1.0, 1.0]), count)
        return self.scale * signs


@attrs.frozen
class StudentTNoise(Noise):
    """Student's t distribution times `scale`: heavy tails, no sub-Gaussian constant.

    Parameters
    ----------
    df
        Degrees of freedom, above 1 so that the mean exists.
    scale
        Factor of the t distribution, in units of y; 0 for no noise.

    Raises
    ------
    ValueError
        If df is not above 1, or the scale is negative or infinite.
    """

    df: float = attrs.field(default=5.0, converter=checks.to_float, validator=checks.above_one)
    scale: float = attrs.field(default=1.0, converter=checks.to_float, validator=checks.nonnegative)

    @property
    def sub_gaussian(self) -> float:
        return math.inf if self.scale else 0.0

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        values: Floats = np.asarray(rng.standard_t(self.df, count), dtype=np.float64)
        return self.scale * values
