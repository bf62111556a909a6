"""Kernels of sets: of fingerprints of molecules, and of numbers of occurrences."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import _numba_kernels as numba_kernels
from scalable_bandits.kernels.base import Kernel


@attrs.frozen
class Tanimoto(Kernel):
    """Tanimoto kernel of fingerprints, the number of common bits over the number of bits that either has.

    Two empty fingerprints are equal, with covariance 1; an empty one and another have covariance 0. Multiply it by an
    output scale, and by kernels of coordinates: ``2.0 * OnDimensions(Tanimoto(), range(32)) * OnDimensions(RBF(0.3),
    [32])``.

    A fingerprint is a row of whole numbers, each with up to 32 bits: the bytes of `numpy.packbits`, or numbers of four
    bytes, as a packed `Pool` has them.

    Source: Ralaivola, Swamidass, Saigo & Baldi 2005, "Graph kernels for chemical informatics".

    Examples
    --------
    >>> import numpy as np
    >>> import scalable_bandits as sb
    >>> bits = np.packbits([[1, 1, 0, 1, 0, 0, 0, 0], [1, 0, 0, 1, 1, 0, 0, 0]], axis=1)
    >>> sb.Tanimoto().block(bits).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """

    @np.errstate(over="ignore")  # of the counts of ones, whose products wrap, where loops are not compiled
    def _words(self, X: Floats) -> tuple[NDArray[np.uint64], Floats]:
        """Return words (w, n) of 64 bits, and the numbers of bits (n,) that are 1."""
        words, counts = np.empty(((X.shape[1] + 1) // 2, len(X)), dtype=np.uint64), np.empty(len(X))
        if not numba_kernels.bit_words(X, words, counts):
            checks.refuse("x", X, "packed bits: whole numbers from 0 to 2^32 - 1")
        return words, counts

    @np.errstate(over="ignore")
    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        (words, counts), (others, other_counts) = self._words(X), self._words(Z)
        numba_kernels.shared_bits(words, others, out)
        numba_kernels.share_of_union(counts, other_counts, out)

    def diagonal(self, X: Floats) -> Floats:
        return np.ones(len(X))


@attrs.frozen
class MinMax(Kernel):
    """Kernel of counts, the sum over k of min(x_k, z_k) over the sum of max(x_k, z_k); x_k are at least 0.

    On counts of 0 and 1 it is `Tanimoto`. Two points of zeros are equal, with covariance 1.

    Source: Ralaivola, Swamidass, Saigo & Baldi 2005, "Graph kernels for chemical informatics".

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> sb.MinMax().block([[2.0, 0.0, 1.0], [1.0, 1.0, 1.0]]).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """

    def _sizes(self, X: Floats) -> Floats:
        """Return the sums (n,) of the counts of points X (n, d)."""
        if X.min(initial=0.0) < 0.0:
            checks.refuse("x", X, "counts: numbers of at least 0")
        sizes = np.zeros(len(X))
        for column in X.T:  # in the order in which the minima are added, so that a point is equal to itself
            sizes += column
        return sizes

    def fill(self, X: Floats, Z: Floats, out: Floats) -> None:
        sizes, others = self._sizes(X), self._sizes(Z)
        numba_kernels.shared_counts(X, Z, out)
        numba_kernels.share_of_union(sizes, others, out)

    def diagonal(self, X: Floats) -> Floats:
        return np.ones(len(X))

    def slope(self, X: Floats, Z: Floats, weights: Floats, out: Floats) -> None:
        numba_kernels.slope_of_shares(X, Z, weights, out)

    def diagonal_slope(self, X: Floats) -> Floats:
        return np.zeros_like(X)
