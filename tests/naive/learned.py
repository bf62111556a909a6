"""Oracle of learned models: the transform of y and the density of hyperparameters, written out from their formulas."""

import math
from statistics import NormalDist

import numpy as np

from naive.kernels import matrix


def declustered(xs, sides):
    """Weights: one over the number of points near each, by an RBF kernel of half the usual lengthscale."""
    width = 0.5 * 0.3 * math.sqrt(len(sides))

    def near(x, z):
        return math.exp(-0.5 * sum(((a - b) / side / width) ** 2 for a, b, side in zip(x, z, sides, strict=True)))

    return [1.0 / sum(near(x, z) for z in xs) for x in xs]


def half_ranked(ys, weights):
    """z of every y: exact on the better half, by ranks on the worse one, then standardised; all by weights."""
    total = sum(weights)
    if len(set(ys)) == 1:
        return [0.0] * len(ys)

    def rank(y):
        pairs = list(zip(ys, weights, strict=True))
        return (sum(w for other, w in pairs if other > y) + 0.5 * sum(w for other, w in pairs if other == y)) / total

    ordered = sorted(set(ys), reverse=True)
    median = float(np.interp(0.5, [rank(y) for y in ordered], ordered))
    better = [(y, w) for y, w in zip(ys, weights, strict=True) if y >= median]
    spread = math.sqrt(sum(w * (y - median) ** 2 for y, w in better) / sum(w for _, w in better))
    if spread == 0.0:
        bent, weights, total = ys, [1.0] * len(ys), len(ys)
    else:
        bent = [y if y >= median else median - spread * max(NormalDist().inv_cdf(rank(y)), 0.0) for y in ys]
    center = sum(w * b for b, w in zip(bent, weights, strict=True)) / total
    scale = math.sqrt(sum(w * (b - center) ** 2 for b, w in zip(bent, weights, strict=True)) / total)
    return [(b - center) / (scale or 1.0) for b in bent]


def density(xs, zs, kernel, noise, logs_and_priors):
    """Log density of values given a kernel and noise variances (k,), with the best constant mean, plus log priors.

    `logs_and_priors` has a triple for each hyperparameter: its logarithm, and mean and deviation of that.
    """
    K = matrix(kernel, xs) + np.diag(noise)
    inverse, ones = np.linalg.inv(K), np.ones(len(zs))
    mean = ones @ inverse @ zs / (ones @ inverse @ ones)
    away = np.asarray(zs) - mean
    likelihood = -0.5 * away @ inverse @ away - 0.5 * np.linalg.slogdet(K)[1] - 0.5 * len(zs) * math.log(2 * math.pi)
    return likelihood - sum(0.5 * ((log - center) / spread) ** 2 for log, center, spread in logs_and_priors), mean


def uncertain(xs, zs, kernel_of, logs, triples, bounds, step=1e-3):
    """Function that gives mean and variance at points, of a model whose log hyperparameters have a density.

    `kernel_of(logs)` is the kernel, the last of the logs that of the noise variance, `triples` as in `density`. The
    2 p points of the cubature rule, sqrt(p) deviations of Laplace's approximation away, with weights by the density.
    """
    p = len(logs)

    def value(at):
        priors = [(log, *rest) for log, (_, *rest) in zip(at, triples, strict=True)]
        return density(xs, zs, kernel_of(at), [math.exp(at[-1])] * len(zs), priors)[0]

    def moved(*axes):
        return value(logs + step * sum(sign * np.eye(p)[axis] for sign, axis in axes))

    hessian = [
        [
            (moved((1, i), (1, j)) - moved((1, i), (-1, j)) - moved((-1, i), (1, j)) + moved((-1, i), (-1, j)))
            / (4 * step**2)
            for j in range(p)
        ]
        for i in range(p)
    ]
    curvatures, vectors = np.linalg.eigh(-np.array(hessian))
    least = min(1 / spread**2 for *_, spread in triples)
    ends, weights = [], []
    for curvature, vector in zip(curvatures, vectors.T, strict=True):
        for sign in (1, -1):
            end = np.clip(logs + sign * math.sqrt(p / max(curvature, least)) * vector, *bounds)
            ends.append(end)
            weights.append(math.exp(min(value(end) - value(logs) + p / 2, 2.0)))

    def moments(at, mean):
        total = np.zeros(len(at))
        for end, weight in zip(ends, weights, strict=True):
            K = matrix(kernel_of(end), xs) + math.exp(end[-1]) * np.eye(len(zs))
            inverse, ones = np.linalg.inv(K), np.ones(len(zs))
            own = ones @ inverse @ zs / (ones @ inverse @ ones)
            means, variances = posterior(xs, zs, kernel_of(end), [math.exp(end[-1])] * len(zs), own, at)
            left = 1 - matrix(kernel_of(end), at, xs) @ inverse @ ones
            total += weight * (variances + left**2 / (ones @ inverse @ ones) + (means - mean) ** 2)
        return total / sum(weights)

    return moments


def posterior(xs, zs, kernel, noise, mean, at):
    """Mean and variance at points, given values with noise variances (k,)."""
    inverse = np.linalg.inv(matrix(kernel, xs) + np.diag(noise))
    cross = matrix(kernel, at, xs)
    means = mean + cross @ inverse @ (np.asarray(zs) - mean)
    return means, np.array([kernel(x, x) for x in at]) - np.einsum("ij,jk,ik->i", cross, inverse, cross)
