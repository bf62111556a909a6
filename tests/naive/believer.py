"""Randomised kriging believer: pending points are observed at values drawn from the posterior, all refitted.

The normal numbers are those of numpy's Philox with the key (seed, hash of "pending") and the counter of the round, in
ascending order of the distinct pending points. A point that is pending k times has one value, the average of k.
"""

from hashlib import blake2b

import numpy as np


def normals(seed, counter, count):
    """Standard normal numbers of a round."""
    purpose = int.from_bytes(blake2b(b"pending", digest_size=8).digest(), "little")
    bits = np.random.Philox(key=np.array([seed, purpose], dtype=np.uint64), counter=[0, 0, 0, counter])
    return np.random.Generator(bits).standard_normal(count)


def predictive(gp, pending, noise_variance):
    """Distinct pending points, their noise variances, and mean and covariance of their values."""
    points = sorted(set(pending))
    noises = np.array([noise_variance / list(pending).count(i) for i in points])
    mean, covariance = gp.mean_covariance()
    return points, noises, mean[points], covariance[np.ix_(points, points)] + np.diag(noises)


def with_draws(gp, pending, noise_variance, seed, counter):
    """Copy of an oracle in which pending points have been observed at drawn values, and these values."""
    points, noises, mean, covariance = predictive(gp, pending, noise_variance)
    values = mean + np.linalg.cholesky(covariance) @ normals(seed, counter, len(points))
    copy = gp.with_fantasies(points, noise_variance)
    copy.observations[-len(points) :] = zip(points, values.tolist(), noises.tolist(), strict=True)
    return copy, values.tolist()
