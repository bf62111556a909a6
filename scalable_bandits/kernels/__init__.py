"""Kernels: prior covariance of the function at two points."""

from scalable_bandits.kernels.base import Kernel
from scalable_bandits.kernels.mixed import Hamming, OnDimensions
from scalable_bandits.kernels.stationary import RBF, Matern, RationalQuadratic
from scalable_bandits.kernels.structured import Constant, Covariance, Linear, Periodic, TemporalDecay

__all__ = [
    "RBF",
    "Constant",
    "Covariance",
    "Hamming",
    "Kernel",
    "Linear",
    "Matern",
    "OnDimensions",
    "Periodic",
    "RationalQuadratic",
    "TemporalDecay",
]
