"""Interface of a kernel; sums, products and multiples of kernels."""

from __future__ import annotations

import functools
import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import attrs
import numpy as np
from numpy.typing import ArrayLike

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.specification import Specification, is_own

MOST_CHECKED = 32  # largest number of points at which a kernel of another package is checked
ROUNDING = 1e-6  # error of its values as a share of the largest, if they are computed in single precision
MOST_FEATURES = 1024  # largest number of features of a product of kernels


class Hyperparameter(NamedTuple):
    """Positive parameter of a kernel that can be learned from data."""

    name: str  # name of the kernel's parameter
    value: float
    dimensions: tuple[int, ...] | None = None  # those of x to which a lengthscale belongs; None if to all


class Kernel(Specification):
    """Positive semi-definite function of two points.

    Points are rows of (n, d) float64 arrays; an arm number is a point with d = 1. Kernels are frozen, compare by value,
    can be pickled and converted to and from plain dicts, and combine as ``k1 + k2``, ``k1 * k2`` and ``2.0 * k``.
    """

    __slots__ = ()

    learned: ClassVar[tuple[str, ...]] = ()  # names of the parameters that can be learned from data
    made_of: ClassVar[str] = ""  # name of the parameter that is a kernel, or kernels, of which this one is made

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """Kernels of which this one is made."""
        inside = getattr(self, self.made_of) if self.made_of else ()
        return inside if isinstance(inside, tuple) else (inside,)

    @abstractmethod
    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        """Write K(X, Z) to `out`; X (n, d), Z (m, d), out (n, m), all float64 and C-ordered."""

    @abstractmethod
    def diagonal(self, X: Floats) -> Floats:
        """Return the prior variances k(x, x) at the rows of X (n, d), shape (n,), in squared units of the function."""

    @property
    def stationary(self) -> bool:
        """Whether k(x, z) depends on x - z alone, so that the prior variance is constant."""
        return bool(self.parts) and all(part.stationary for part in self.parts)

    @property
    def epsilon(self) -> float:
        """Rate at which the function changes from round to round, see `TemporalDecay`; 0 for a constant function."""
        decays = [part.epsilon for part in self.parts if part.epsilon]
        if not decays:
            return 0.0
        return decays[0] if len(decays) == 1 else 1.0 - math.prod(1.0 - epsilon for epsilon in decays)

    # ---- gradients

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        """Add weighted gradients in the second point: out[j] += sum over i of weights[i, j] dk(X[i], Z[j]) / dZ[j].

        Where the gradient does not exist (Matern with nu <= 1/2, at equal points), 0 is used.

        Parameters
        ----------
        X
            First points (n, d). All arrays are float64 and C-ordered.
        Z
            Second points (m, d).
        weights
            Weights (n, m).
        out
            Array (m, d) to which the sums are added.

        Raises
        ------
        ValueError
            If the kernel has no gradient, as `Covariance` of arms and `Tanimoto` of bits.
        """
        self._refuse_slope("slope")

    def diagonal_slope(self, X: Floats) -> Floats:
        """Return the gradients of k(x, x) at the rows of X (n, d), shape (n, d); ValueError if there is no gradient."""
        if self.stationary:
            return np.zeros_like(X)
        self._refuse_slope("diagonal_slope")

    def _refuse_slope(self, method: str) -> NoReturn:
        kind = type(self)
        if is_own(kind):
            checks.refuse("kernel", self, "a kernel with a gradient: not one of arms or of bits")
        checks.refuse("kernel", f"{kind.__name__}, which defines no `{method}`", "one that does; or a Grid or Points")

    # ---- features

    def features(self, X: Floats) -> Floats | None:
        """Return features (n, p) of the points X (n, d), so that K(X, Z) = features(X) features(Z)'.

        None if the kernel has no finite number p of features that is the same for all points, or if a product has more
        than 1,024 of them. Under such a kernel the function is linear, f(x) = m(x) + features(x)'w with w standard
        normal, and the posterior is that of p weights (Rasmussen & Williams 2006, section 2.1.2).
        """
        return None

    def feature_count(self, dimension: int) -> int:
        """Return the number p of features at points of this dimension; 0 if `features` returns None."""
        found = self.features(np.zeros((1, dimension)))
        return 0 if found is None else found.shape[1]

    def features_slope(self, X: Floats, weights: Floats) -> Floats:
        """Return the gradients (n, d) of features(X[i])'weights[i] in the points X (n, d), for weights (n, p).

        Raises ValueError if the kernel has no finite number of features.
        """
        checks.refuse("kernel", self, "a kernel of finitely many features")

    def features_peak(self, weights: Floats, bounds: Floats) -> Floats | None:
        """Return the points (k, d) of a box where features(x)'weights[i] is largest.

        Weights are (k, p), bounds (d, 2). A coordinate of which the kernel is no function is NaN. Returns None if the
        points are not known in closed form.
        """
        return None

    @property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """The p parameters that can be learned from data: own ones that are not 0, then those of the parts."""
        found = []
        for name in self.learned:
            value = getattr(self, name)
            if isinstance(value, tuple):
                found += [Hyperparameter(name, each, (k,)) for k, each in enumerate(value)]
            elif value:  # its logarithm is learned, so 0 stays 0
                found.append(Hyperparameter(name, value))
        for part in self.parts:
            found += part.hyperparameters
        return tuple(found)

    def with_hyperparameters(self, values: Iterable[float]) -> Kernel:
        """Return this kernel with other values of its `hyperparameters`, in the same order."""
        given, changed = iter(values), dict[str, Any]()
        for name in self.learned:
            old = getattr(self, name)
            if isinstance(old, tuple):
                changed[name] = tuple(itertools.islice(given, len(old)))
            elif old:
                changed[name] = float(next(given))
        if self.made_of:
            parts = [part.with_hyperparameters(given) for part in self.parts]  # each takes its own from the iterator
            changed[self.made_of] = parts if isinstance(getattr(self, self.made_of), tuple) else parts[0]
        return attrs.evolve(self, **changed) if changed else self  # type: ignore[misc]

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        """Differentiate the sum over i, j of weights[i, j] k(X[i], X[j]) in the logarithms of the hyperparameters.

        X is (n, d), weights (n, n) is symmetric; returns (p,).
        """
        return np.empty(0)

    def check(self, dimension: int) -> None:
        """Raise ValueError unless the kernel is defined for points of this dimension."""
        for part in self.parts:
            part.check(dimension)

    def check_values(self, X: Floats) -> None:
        """Raise ValueError unless the kernel's values at points X (n, d) are covariances.

        Only kernels of other packages are looked at, also those of which this one is made, at up to 32 of the points.
        """
        if not is_own(type(self)):
            _check_covariances(self, X[np.linspace(0, len(X) - 1, min(len(X), MOST_CHECKED)).astype(np.int64)])
            return
        for part in self.parts:
            part.check_values(X)

    def block(self, X: ArrayLike, Z: ArrayLike | None = None) -> Floats:
        """Compute the covariances K(X, Z).

        Parameters
        ----------
        X
            Points (n, d); an array (n,) is n points of dimension 1.
        Z
            Points (m, d); X if not given.

        Returns
        -------
        ndarray
            Covariances (n, m), in squared units of the function.

        Raises
        ------
        ValueError
            If there are no points, a point is not finite, or the dimensions do not fit.

        Examples
        --------
        >>> from scalable_bandits import RBF
        >>> RBF(lengthscale=1.0).block([0.0, 1.0]).round(4).tolist()
        [[1.0, 0.6065], [0.6065, 1.0]]
        """
        rows = _points("X", X)
        columns = rows if Z is None else _points("Z", Z)
        if rows.shape[1] != columns.shape[1]:
            checks.refuse("Z", f"points of dimension {columns.shape[1]}", f"dimension {rows.shape[1]}, as X")
        self.check(rows.shape[1])
        out = np.empty((len(rows), len(columns)))
        self.fill(rows, columns, out)
        return out

    def __add__(self, other: object) -> Kernel:
        return Sum.of(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: object) -> Kernel:
        if isinstance(other, Kernel):
            return Product.of(self, other)
        return Scaled(float(other), self) if isinstance(other, int | float) else NotImplemented

    __rmul__ = __mul__


def _points(name: str, value: ArrayLike) -> Floats:
    array = checks.finite(name, value)
    if array.ndim not in (1, 2) or not array.size:
        checks.refuse(name, f"an array of shape {array.shape}", "(n, d) or (n,), at least one point")
    return np.ascontiguousarray(array.reshape(len(array), -1))


def _check_covariances(kernel: Kernel, X: Floats) -> None:
    """Refuse a kernel whose values at points X (n, d) are no covariances."""
    fill, diagonal, n = f"{type(kernel).__name__}.fill", f"{type(kernel).__name__}.diagonal", len(X)
    rows, columns = slice(0, n // 2 + 1), slice(n // 3, n)  # another shape, and other first points
    K, part = np.full((n, n), np.nan), np.full((n // 2 + 1, n - n // 3), np.nan)
    for first, second, out in ((X, X, K), (X[rows], X[columns], part)):
        returned = kernel.fill(first, second, out)
        if not np.isfinite(out).all():
            i, j = np.argwhere(~np.isfinite(out))[0]
            left = f"leaves some of out unset, or writes {out[i, j]}" if returned is None else "returns values"
            given = f"{fill}, which {left}, as at points {first[i].tolist()} and {second[j].tolist()}"
            checks.refuse("kernel", given, "fill(X, Z, out) that writes finite covariances to all of out")
    room = ROUNDING * float(np.abs(K).max())
    if np.abs(part - K[rows, columns]).max() > room:
        given = f"{fill}, whose value at two points depends on the other points"
        checks.refuse("kernel", given, "a function of two points")
    if (difference := float(np.abs(K - K.T).max())) > room:
        checks.refuse("kernel", f"{fill}, with |k(x, z) - k(z, x)| = {difference:.3g}", "a symmetric function")
    variances = np.asarray(kernel.diagonal(X))
    if variances.shape != (n,):
        checks.refuse("kernel", f"{diagonal}, of shape {variances.shape} at {n} points", f"({n},), one for each point")
    differs = ~(np.abs(variances - K.diagonal()) <= room)  # also NaN
    if differs.any():
        i = int(differs.argmax())
        given = f"{diagonal}, which is {variances[i]:.6g} at {X[i].tolist()}, where {fill} has {K[i, i]:.6g}"
        checks.refuse("kernel", given, "the same variances in both")
    if (smallest := float(np.linalg.eigvalsh(K)[0])) < -n * room:
        given = f"{fill}, whose matrix at {n} points has the eigenvalue {smallest:.3g}"
        checks.refuse("kernel", given, "a positive semi-definite kernel")


def _kernels(parts: Any) -> tuple[Kernel, ...]:
    kernels = tuple(parts)
    if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
        checks.refuse("kernels", parts, "at least one kernel")
    return kernels


@attrs.frozen
class Combination(Kernel):
    """Kernels combined element by element."""

    made_of: ClassVar[str] = "kernels"
    combine: ClassVar[np.ufunc]
    kernels: tuple[Kernel, ...] = attrs.field(converter=_kernels)

    @classmethod
    def of(cls, *parts: Kernel) -> Self:
        """Combine kernels without nesting: a sum of sums is one sum, a product of products one product."""
        return cls(tuple(k for part in parts for k in (part.kernels if isinstance(part, cls) else (part,))))

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        self.kernels[0].fill(X, Z, out)
        part = np.empty_like(out)
        for kernel in self.kernels[1:]:
            kernel.fill(X, Z, part)
            self.combine(out, part, out=out)

    def diagonal(self, X: Floats) -> Floats:
        return self.combine.reduce([kernel.diagonal(X) for kernel in self.kernels], axis=0)

    @abstractmethod
    def _with_weights(self, X: Floats, Z: Floats, weights: Floats) -> Iterator[tuple[Kernel, Floats]]:
        """Yield each kernel with weights (n, m) times the derivative of the combination in its covariances."""

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        for kernel, own in self._with_weights(X, Z, weights):
            kernel.slope(X, Z, own, out)

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        return np.concatenate([kernel.sensitivity(X, own) for kernel, own in self._with_weights(X, X, weights)])


@attrs.frozen
class Sum(Combination):
    """Sum of kernels, ``k1 + k2``: prior of a sum of independent functions.

    Parameters
    ----------
    kernels
        Kernels to combine, at least one.

    Raises
    ------
    ValueError
        If there are no kernels, or one is invalid.
    """

    combine = np.add

    @property
    def epsilon(self) -> float:
        rates = {kernel.epsilon for kernel in self.kernels}
        if len(rates) > 1:
            allowed = "kernels with the same epsilon: (k1 + k2) * TemporalDecay(epsilon)"
            checks.refuse("kernel", f"a sum of kernels with epsilon {sorted(rates)}", allowed)
        return rates.pop()

    def _with_weights(self, X: Floats, Z: Floats, weights: Floats) -> Iterator[tuple[Kernel, Floats]]:
        for kernel in self.kernels:
            yield kernel, weights

    def diagonal_slope(self, X: Floats) -> Floats:
        return np.add.reduce([kernel.diagonal_slope(X) for kernel in self.kernels])

    def features(self, X: Floats) -> Floats | None:
        found = [kernel.features(X) for kernel in self.kernels]
        return None if any(part is None for part in found) else np.hstack(found)  # type: ignore[arg-type]

    def _parts_of(self, weights: Floats, dimension: int) -> Iterator[tuple[Kernel, Floats]]:
        """Yield each kernel with its columns of weights (n, p)."""
        counts = [kernel.feature_count(dimension) for kernel in self.kernels]
        return zip(self.kernels, np.split(weights, np.cumsum(counts)[:-1], axis=1), strict=True)

    def features_slope(self, X: Floats, weights: Floats) -> Floats:
        return np.add.reduce([kernel.features_slope(X, own) for kernel, own in self._parts_of(weights, X.shape[1])])

    def features_peak(self, weights: Floats, bounds: Floats) -> Floats | None:
        """Return the points (k, d) of the parts' peaks for weights (k, p) and bounds (d, 2).

        None if two parts are functions of the same coordinate.
        """
        out = np.full((len(weights), len(bounds)), np.nan)
        for kernel, own in self._parts_of(weights, len(bounds)):
            peak = kernel.features_peak(own, bounds)
            if peak is None or not (np.isnan(out) | np.isnan(peak)).all():
                return None
            out = np.where(np.isnan(peak), out, peak)
        return out


@attrs.frozen
class Product(Combination):
    """Product of kernels, ``k1 * k2``.

    Parameters
    ----------
    kernels
        Kernels to combine, at least one.

    Raises
    ------
    ValueError
        If there are no kernels, or one is invalid.
    """

    combine = np.multiply

    def _with_weights(self, X: Floats, Z: Floats, weights: Floats) -> Iterator[tuple[Kernel, Floats]]:
        blocks = [kernel.block(X, Z) for kernel in self.kernels]
        for i, kernel in enumerate(self.kernels):
            yield kernel, np.multiply.reduce([weights, *blocks[:i], *blocks[i + 1 :]])

    def diagonal_slope(self, X: Floats) -> Floats:
        diagonals = [kernel.diagonal(X)[:, None] for kernel in self.kernels]
        slopes = [kernel.diagonal_slope(X) for kernel in self.kernels]
        terms = [math.prod(diagonals[:i] + diagonals[i + 1 :], start=s) for i, s in enumerate(slopes)]
        return np.add.reduce(terms)

    def features(self, X: Floats) -> Floats | None:
        """Return all products (n, p) of a feature of each kernel at points X (n, d)."""
        out = np.ones((len(X), 1))
        for kernel in self.kernels:
            part = kernel.features(X)
            if part is None or out.shape[1] * part.shape[1] > MOST_FEATURES:
                return None
            out = (out[:, :, None] * part[:, None, :]).reshape(len(X), -1)
        return out

    def features_slope(self, X: Floats, weights: Floats) -> Floats:
        *others, last = self.kernels
        if not others:
            return last.features_slope(X, weights)
        first = Product(tuple(others))
        left, right = first.features(X), last.features(X)
        if left is None or right is None:
            return super().features_slope(X, weights)
        both = weights.reshape(len(X), left.shape[1], right.shape[1])
        slope = first.features_slope(X, np.einsum("ijk,ik->ij", both, right))
        return slope + last.features_slope(X, np.einsum("ijk,ij->ik", both, left))


@attrs.frozen
class Scaled(Kernel):
    """Kernel times an output scale, ``2.0 * k``.

    Parameters
    ----------
    factor
        Output scale, positive, in squared units of the function.
    kernel
        Kernel that is multiplied; the output scale is the prior variance if k(x, x) = 1.

    Raises
    ------
    ValueError, TypeError
        If the output scale is not positive; if the kernel is invalid.
    """

    learned: ClassVar[tuple[str, ...]] = ("factor",)
    made_of: ClassVar[str] = "kernel"

    factor: float = attrs.field(converter=checks.to_float, validator=checks.positive)
    kernel: Kernel = attrs.field(validator=checks.instance_of(Kernel, "a kernel, such as RBF(0.2)"))

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        self.kernel.fill(X, Z, out)
        out *= self.factor

    def diagonal(self, X: Floats) -> Floats:
        return self.factor * self.kernel.diagonal(X)

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        self.kernel.slope(X, Z, self.factor * weights, out)

    def diagonal_slope(self, X: Floats) -> Floats:
        return self.factor * self.kernel.diagonal_slope(X)

    def features(self, X: Floats) -> Floats | None:
        found = self.kernel.features(X)
        return None if found is None else math.sqrt(self.factor) * found

    def features_slope(self, X: Floats, weights: Floats) -> Floats:
        return self.kernel.features_slope(X, math.sqrt(self.factor) * weights)

    def features_peak(self, weights: Floats, bounds: Floats) -> Floats | None:
        return self.kernel.features_peak(weights, bounds)

    def sensitivity(self, X: Floats, weights: Floats) -> Floats:
        scaled, covariances = self.factor * weights, np.empty_like(weights)
        self.kernel.fill(X, X, covariances)
        covariances *= scaled
        return np.append(covariances.sum(), self.kernel.sensitivity(X, scaled))


def unscaled(kernel: Kernel) -> Kernel:
    """Return a kernel without its output scales."""
    while isinstance(kernel, Scaled):
        kernel = kernel.kernel
    return kernel


def to_lengthscales(value: Any) -> float | tuple[float, ...]:
    """Convert one lengthscale, or one for each dimension; ValueError unless they are positive."""
    return checks.lengths("lengthscale", value)


@attrs.frozen
class Lengthscaled(Kernel):
    """Base class of kernels with one lengthscale, or one for each dimension (ARD).

    Parameters
    ----------
    lengthscale
        Lengthscale in units of x: one positive number, or one for each dimension.

    Raises
    ------
    ValueError
        If a lengthscale is not positive.
    """

    learned: ClassVar[tuple[str, ...]] = ("lengthscale",)
    stationary: ClassVar[bool] = True

    lengthscale: float | tuple[float, ...] = attrs.field(default=1.0, converter=to_lengthscales)

    def diagonal(self, X: Floats) -> Floats:
        return np.ones(len(X))

    def check(self, dimension: int) -> None:
        """Raise ValueError unless there is one lengthscale, or one for each dimension."""
        if isinstance(self.lengthscale, tuple) and len(self.lengthscale) != dimension:
            checks.refuse("lengthscale", self.lengthscale, f"one number, or {dimension}, one for each dimension")

    def inverse(self, dimension: int) -> Floats:
        """Return 1 / lengthscale for each dimension, shape (d,), in units of 1 / x."""
        return _inverses(self.lengthscale, dimension)

    def by_lengthscale(self, by_dimension: Floats) -> Floats:
        """Turn derivatives by dimension (d,) into those by lengthscale (p,): their sum if there is one lengthscale."""
        return by_dimension if isinstance(self.lengthscale, tuple) else by_dimension.sum(keepdims=True)


@functools.lru_cache(maxsize=256)
def _inverses(lengthscale: float | tuple[float, ...], dimension: int) -> Floats:
    return np.broadcast_to(1.0 / np.asarray(lengthscale), (dimension,)).copy()
