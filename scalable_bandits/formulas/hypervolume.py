"""Several objectives, all of which are maximised: fronts, hypervolumes, and indices of two or more posteriors.

A point dominates another if it is at least as good in all objectives and better in one. The front are the points that
no other dominates. Its hypervolume is that of what it dominates beyond a reference point.
"""

from __future__ import annotations

import attrs
import numpy as np

from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import LEAST, ExpectedImprovement
from scalable_bandits.spaces import Mask

CLOSEST = -1e-16  # largest logarithm of a ratio of two expectations that are told apart


def on_front(values: Floats) -> Mask:
    """Return the mask (n,) of the points of the front; of equal points all.

    Parameters
    ----------
    values
        Values (n, p) of p objectives, larger is better.

    Examples
    --------
    >>> on_front(np.array([[0.0, 2.0], [1.0, 1.0], [0.0, 1.0]])).tolist()
    [True, True, False]
    """
    found = np.ones(len(values), dtype=np.bool_)
    for i in np.argsort(-values.sum(axis=1), kind="stable"):  # those with large sums dominate many
        if found[i]:
            found &= (values > values[i]).any(axis=1) | (values == values[i]).all(axis=1)
    return found


def hypervolume(values: Floats, reference: Floats) -> float:
    """Compute the hypervolume that points dominate, in units of the objectives' product.

    Parameters
    ----------
    values
        Values (n, p) of p >= 1 objectives, larger is better.
    reference
        Reference point (p,).

    References
    ----------
    Zitzler & Thiele 1998; by slices of the last objective, While et al. 2006.

    Examples
    --------
    >>> hypervolume(np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros(2))
    3.0
    """
    beyond = values[(values > reference).all(axis=1)]
    if not len(beyond):
        return 0.0
    if beyond.shape[1] == 1:
        return float(beyond.max() - reference[0])
    beyond = beyond[np.argsort(-beyond[:, -1], kind="stable")]
    ends = np.append(beyond[1:, -1], reference[-1])
    total = 0.0
    for i, height in enumerate(beyond[:, -1] - ends):
        if height > 0.0:
            total += height * hypervolume(beyond[: i + 1, :-1], reference[:-1])
    return float(total)


@attrs.frozen(eq=False)
class HypervolumeImprovement:
    """Index of two outputs: logarithm of the expected growth of the hypervolume by a point, in closed form.

    Between two neighbours of the front a point adds (y_1 - a_i) (y_2 - b_i), at most up to a_{i+1}; the outputs are
    independent, so that the expectation is a sum of products of expected improvements:

        sum over i of (E[(y_1 - a_i)+] - E[(y_1 - a_{i+1})+]) E[(y_2 - b_i)+]

    Parameters
    ----------
    front
        Values (m, 2) of the points of the front beyond the reference point, no two of them equal.
    reference
        Reference point (2,).

    References
    ----------
    Emmerich, Deutz & Klinkenberg 2011; Emmerich, Yang, Deutz, Wang & Fonseca 2016.
    """

    left: Floats  # (m + 1, 1), a_i, ascending; a_{m+1} is infinite
    floor: Floats  # (m + 1, 1), b_i

    @classmethod
    def over(cls, front: Floats, reference: Floats) -> HypervolumeImprovement:
        """Return the index of the improvement over a front (m, 2) beyond a reference point (2,)."""
        front = front[np.argsort(front[:, 0])]
        return cls(np.append(reference[0], front[:, 0])[:, None], np.append(front[:, 1], reference[1])[:, None])

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        logs, _ = self._summands(mean, variance)
        largest = logs.max(axis=0)
        return np.asarray(largest + np.log(np.exp(logs - largest).sum(axis=0)))

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives of the index in means and variances, two (2, k) arrays."""
        logs, ratios = self._summands(mean, variance)
        shares = np.exp(logs - logs.max(axis=0))
        shares /= shares.sum(axis=0)
        widths = ExpectedImprovement(self.left).slopes(mean[0], variance[0])
        heights = ExpectedImprovement(self.floor).slopes(mean[1], variance[1])
        by_mean, by_variance = np.empty((2, 2, mean.shape[1]))
        for found, own, other in zip((by_mean, by_variance), widths, heights, strict=True):
            ahead, share = np.append(own[1:], np.zeros_like(own[:1]), axis=0), np.exp(ratios)
            found[0] = (shares * (own - share * ahead) / -np.expm1(ratios)).sum(axis=0)
            found[1] = (shares * other).sum(axis=0)
        return by_mean, by_variance

    def _summands(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the summands' logarithms (m + 1, k), and by how much log E[(y_1 - a_i)+] is less for the next i."""
        first = ExpectedImprovement(self.left)(mean[0], variance[0])
        ratios = np.append(np.diff(first, axis=0), np.full_like(first[:1], -np.inf), axis=0)
        ratios = np.minimum(ratios, CLOSEST)
        return first + np.log(-np.expm1(ratios)) + ExpectedImprovement(self.floor)(mean[1], variance[1]), ratios


@attrs.frozen(eq=False)
class ImprovementOfOne:
    """Index of p outputs: logarithm of the expected improvement of one of them over its best value.

    Parameters
    ----------
    row
        Number of the output, from 0.
    improvement
        Index of that output.
    """

    row: int
    improvement: ExpectedImprovement

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        return self.improvement(mean[self.row], variance[self.row])

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives of the index in means and variances, two (p, k) arrays."""
        by_mean, by_variance = np.zeros((2, *mean.shape))
        by_mean[self.row], by_variance[self.row] = self.improvement.slopes(mean[self.row], variance[self.row])
        return by_mean, by_variance


@attrs.frozen(eq=False)
class ScalarizedConfidence:
    """Index of p outputs: min over i of (upper confidence bound of output i - reference_i) / direction_i.

    Its p-th power is the hypervolume scalarisation, whose average over directions is the hypervolume, up to a factor.

    Parameters
    ----------
    width
        Factor of the standard deviations.
    reference
        Reference point (p,).
    direction
        Positive numbers (p,).

    References
    ----------
    Golovin & Zhang 2020 (arXiv 2006.04655), section 4.
    """

    width: float
    reference: Floats
    direction: Floats

    def __call__(self, mean: Floats, variance: Floats) -> Floats:
        return np.asarray(self._scaled(mean, variance).min(axis=0))

    def slopes(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives of the index in means and variances, two (p, k) arrays."""
        least, columns = self._scaled(mean, variance).argmin(axis=0), np.arange(mean.shape[1])
        by_mean = np.zeros(mean.shape)
        by_mean[least, columns] = 1.0 / self.direction[least]
        return by_mean, by_mean * 0.5 * self.width / np.sqrt(np.maximum(variance, LEAST))

    def _scaled(self, mean: Floats, variance: Floats) -> Floats:
        upper = mean + self.width * np.sqrt(variance)
        return (upper - self.reference[:, None]) / self.direction[:, None]
