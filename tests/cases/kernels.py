"""Every kernel beside its oracle, for the tests that go through all of them."""

from typing import Any, NamedTuple

import numpy as np
from naive import kernels as naive

import scalable_bandits as sb

ARMS = 12


def _table():
    factor = np.random.default_rng(5).standard_normal((ARMS, 6))  # of rank 6: singular
    return factor @ factor.T


class KernelCase(NamedTuple):
    """A kernel of the package, the same from the oracle, and the dimension of its points."""

    kernel: sb.Kernel
    oracle: Any
    dimension: int
    categories: tuple[int, ...] = ()  # dimensions with few different values, at which it jumps
    bits: tuple[int, ...] = ()  # dimensions with packed bits
    low: float = -1.0  # smallest coordinate

    def points(self, count, seed=0):
        """Random points (count, dimension), or arm numbers."""
        rng = np.random.default_rng(seed)
        if isinstance(self.kernel, sb.Covariance):
            return rng.integers(ARMS, size=(count, 1)).astype(float)
        points = rng.uniform(self.low, 1.0, (count, self.dimension))
        points[:, self.categories] = rng.integers(3, size=(count, len(self.categories)))
        words = rng.integers(2**32, size=(3, count, len(self.bits)))
        points[:, self.bits] = words[0] & words[1] & (words[2] | (words[2] >> 7))  # a third of the bits
        return points


KERNEL_CASES = {
    "rbf": KernelCase(sb.RBF(0.4), naive.rbf(0.4), 2),
    "rbf-ard": KernelCase(sb.RBF([0.3, 0.7, 2.0]), naive.rbf((0.3, 0.7, 2.0)), 3),
    "matern-0.3": KernelCase(sb.Matern(0.5, nu=0.3), naive.matern(0.5, 0.3), 1),
    "matern-0.5": KernelCase(sb.Matern(0.5, nu=0.5), naive.matern12(0.5), 2),
    "matern-0.8": KernelCase(sb.Matern(0.5, nu=0.8), naive.matern(0.5, 0.8), 2),
    "matern-1.5": KernelCase(sb.Matern(0.3, nu=1.5), naive.matern32(0.3), 2),
    "matern-2.2": KernelCase(sb.Matern([0.5, 1.1], nu=2.2), naive.matern((0.5, 1.1), 2.2), 2),
    "matern-2.5-ard": KernelCase(sb.Matern([0.5, 1.1], nu=2.5), naive.matern52((0.5, 1.1)), 2),
    "matern-7": KernelCase(sb.Matern(0.6, nu=7.0), naive.matern(0.6, 7.0), 2),
    "matern-inf": KernelCase(sb.Matern(0.4, nu=np.inf), naive.rbf(0.4), 2),
    "rational-quadratic": KernelCase(
        sb.RationalQuadratic([0.4, 0.9], alpha=0.7), naive.rational_quadratic((0.4, 0.9), 0.7), 2
    ),
    "periodic": KernelCase(sb.Periodic([0.8, 1.3], period=0.9), naive.periodic((0.8, 1.3), 0.9), 2),
    "linear": KernelCase(sb.Linear([0.7, 2.0], bias=0.3), naive.linear((0.7, 2.0), 0.3), 2),
    "constant": KernelCase(
        1.7 * sb.Constant() + 0.5 * sb.RBF(0.6), naive.total(naive.constant(1.7), naive.scaled(0.5, naive.rbf(0.6))), 2
    ),
    "spherical": KernelCase(
        sb.SphericalLinear([[-1.0, 1.0], [-0.5, 2.0]], [0.7, 2.0], radius=1.6, bias=0.4),
        naive.spherical(((-1.0, 1.0), (-0.5, 2.0)), (0.7, 2.0), 1.6, 0.4),
        2,
    ),
    "polynomial": KernelCase(
        0.5 * sb.Constant()
        + sb.OnDimensions(sb.Linear(bias=0.2) * sb.Linear(1.5, bias=1.0), [1])
        + sb.Linear(0.8) * sb.SphericalLinear([[-1.0, 1.0]] * 2, bias=0.0),
        naive.total(
            naive.constant(0.5),
            naive.on_dimensions(naive.product(naive.linear(bias=0.2), naive.linear(1.5, 1.0)), (1,)),
            naive.product(naive.linear(0.8), naive.spherical(((-1.0, 1.0), (-1.0, 1.0)), 1.0, 2**0.5, 0.0)),
        ),
        2,
    ),
    "covariance": KernelCase(sb.Covariance(_table()), naive.covariance(_table()), 1),
    "hamming": KernelCase(sb.Hamming([0.5, 2.0, 1.0]), naive.hamming((0.5, 2.0, 1.0)), 3, (0, 1, 2)),
    "mixed": KernelCase(
        sb.OnDimensions(1.5 * sb.Matern([0.5, 0.9], nu=2.5), [2, 0]) * sb.OnDimensions(sb.Hamming(0.8), [1]),
        naive.product(
            naive.on_dimensions(naive.scaled(1.5, naive.matern52((0.5, 0.9))), (2, 0)),
            naive.on_dimensions(naive.hamming(0.8), (1,)),
        ),
        3,
        (1,),
    ),
    "tanimoto": KernelCase(0.7 * sb.Tanimoto(), naive.scaled(0.7, naive.tanimoto()), 3, bits=(0, 1, 2)),
    "tanimoto-product": KernelCase(
        1.5 * sb.OnDimensions(sb.Tanimoto(), [2, 0]) * sb.OnDimensions(sb.RBF(0.7), [1]),
        naive.scaled(
            1.5, naive.product(naive.on_dimensions(naive.tanimoto(), (2, 0)), naive.on_dimensions(naive.rbf(0.7), (1,)))
        ),
        3,
        bits=(0, 2),
    ),
    "min-max": KernelCase(1.3 * sb.MinMax(), naive.scaled(1.3, naive.min_max()), 3, low=0.0),
    "on-dimensions": KernelCase(
        sb.OnDimensions(sb.RBF(0.7), [2]) + sb.OnDimensions(sb.Linear([0.7, 2.0], bias=0.3), [0, 1]),
        naive.total(
            naive.on_dimensions(naive.rbf(0.7), (2,)), naive.on_dimensions(naive.linear((0.7, 2.0), 0.3), (0, 1))
        ),
        3,
    ),
    "scaled": KernelCase(2.5 * sb.RBF(0.4), naive.scaled(2.5, naive.rbf(0.4)), 2),
    "sum": KernelCase(
        sb.Matern(0.3, nu=1.5) + sb.Linear() + 0.5 * sb.Periodic(),
        naive.total(naive.matern32(0.3), naive.linear(), naive.scaled(0.5, naive.periodic())),
        2,
    ),
    "product": KernelCase(
        sb.RBF([0.6, 1.2]) * sb.Periodic(1.4, period=0.7) * (sb.Linear(bias=1.0) + sb.RationalQuadratic(0.5)),
        naive.product(
            naive.rbf((0.6, 1.2)),
            naive.periodic(1.4, 0.7),
            naive.total(naive.linear(bias=1.0), naive.rational_quadratic(0.5)),
        ),
        2,
    ),
}
