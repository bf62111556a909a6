"""Kernels: prior covariance of the function at two points."""

from scalable_bandits.kernels.base import Kernel as Kernel
from scalable_bandits.kernels.sets import MinMax as MinMax
from scalable_bandits.kernels.sets import Tanimoto as Tanimoto
from scalable_bandits.kernels.spherical import SphericalLinear as SphericalLinear
from scalable_bandits.kernels.stationary import RBF as RBF
from scalable_bandits.kernels.stationary import Matern as Matern
from scalable_bandits.kernels.stationary import RationalQuadratic as RationalQuadratic
from scalable_bandits.kernels.structured import Constant as Constant
from scalable_bandits.kernels.structured import Covariance as Covariance
from scalable_bandits.kernels.structured import Hamming as Hamming
from scalable_bandits.kernels.structured import Linear as Linear
from scalable_bandits.kernels.structured import OnDimensions as OnDimensions
from scalable_bandits.kernels.structured import Periodic as Periodic
from scalable_bandits.kernels.structured import TemporalDecay as TemporalDecay

__all__ = [name for name, value in vars().items() if isinstance(value, type)]  # without the modules
