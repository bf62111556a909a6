"""Oracle of learned models: the transform of y and the density of hyperparameters, written out from their formulas."""

import math
from statistics import NormalDist

import numpy as np


def half_ranked(ys):
    """z of every y: exact on the better half, by ranks on the worse one, then standardised."""
    n, median = len(ys), float(np.median(ys))
    better = [y for y in ys if y >= median]
    spread = math.sqrt(sum((y - median) ** 2 for y in better) / len(better))
    bent = []
    for y in ys:
        if spread == 0.0 or y >= median:
            bent.append(y)
            continue
        larger, equal = sum(other > y for other in ys), sum(other == y for other in ys)
        rank = larger + (equal - 1) / 2
        bent.append(median - spread * max(NormalDist().inv_cdf((rank + 0.5) / n), 0.0))
    center = sum(bent) / n
    scale = math.sqrt(sum((b - center) ** 2 for b in bent) / n)
    return [(b - center) / (scale or 1.0) for b in bent]


def matern52(x, z, lengthscales):
    r = math.sqrt(sum(((a - b) / ell) ** 2 for a, b, ell in zip(x, z, lengthscales, strict=True)))
    return (1.0 + math.sqrt(5.0) * r + 5.0 * r * r / 3.0) * math.exp(-math.sqrt(5.0) * r)


def covariance(xs, zs, kernel):
    return np.array([[kernel(x, z) for z in zs] for x in xs])


def density(xs, zs, kernel, noise, logs_and_priors):
    """Log density of values given a kernel and noise variances (k,), with the best constant mean, plus log priors.

    `logs_and_priors` has a triple for each hyperparameter: its logarithm, and mean and deviation of that.
    """
    K = covariance(xs, xs, kernel) + np.diag(noise)
    inverse, ones = np.linalg.inv(K), np.ones(len(zs))
    mean = ones @ inverse @ zs / (ones @ inverse @ ones)
    away = np.asarray(zs) - mean
    likelihood = -0.5 * away @ inverse @ away - 0.5 * np.linalg.slogdet(K)[1] - 0.5 * len(zs) * math.log(2 * math.pi)
    return likelihood - sum(0.5 * ((log - center) / spread) ** 2 for log, center, spread in logs_and_priors), mean


def posterior(xs, zs, kernel, noise, mean, at):
    """Mean and variance at points, given values with noise variances (k,)."""
    inverse = np.linalg.inv(covariance(xs, xs, kernel) + np.diag(noise))
    cross = covariance(at, xs, kernel)
    means = mean + cross @ inverse @ (np.asarray(zs) - mean)
    return means, np.array([kernel(x, x) for x in at]) - np.einsum("ij,jk,ik->i", cross, inverse, cross)
