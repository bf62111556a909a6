"""Gaussian-process posterior on numbered points, solved from scratch in extended precision on the distinct points.

With d_i = lambda / n_i at a point played n_i times, whose average is a_i, and L L' = K + diag(d) by Cholesky's loops:

    mean = k(x)' (K + d)^-1 (a - m),   gain = log det L - 1/2 sum of log d
    variance = k(x, x) - |L^-1 k(x)|^2, at a distinct point d - d^2 ((K + d)^-1)_pp, which is the same
"""

import numpy as np

FINE = np.longdouble


def cholesky(matrix):
    """Lower factor, column by column."""
    lower = np.zeros_like(matrix)
    for j in range(len(matrix)):
        column = matrix[j:, j] - lower[j:, :j] @ lower[j, :j]
        lower[j:, j] = column / np.sqrt(column[0])
    return lower


def solve(lower, right):
    """lower^-1 right, row by row."""
    solved = np.array(right, dtype=FINE)
    for j in range(len(lower)):
        solved[j] = (solved[j] - lower[j, :j] @ solved[:j]) / lower[j, j]
    return solved


def tally(size, played, ys):
    """How often each of `size` points was played (n,), and the sums (n,) of its values."""
    sums = np.zeros(size, dtype=FINE)
    np.add.at(sums, played, np.asarray(ys, dtype=FINE))
    return np.bincount(played, minlength=size), sums


def posterior(gram, counts, sums, noise_variance):
    """Means (n,), deviations (n,) and gain, given the kernel matrix (n, n), numbers of plays (n,), sums of values."""
    distinct = np.flatnonzero(counts)
    noise = FINE(noise_variance) / counts[distinct]
    fine = np.asarray(gram, dtype=FINE)
    lower = cholesky(fine[np.ix_(distinct, distinct)] + np.diag(noise))
    rows = solve(lower, fine[distinct])
    mean = solve(lower, sums[distinct] / counts[distinct]) @ rows
    variance = fine.diagonal() - (rows**2).sum(axis=0)
    inverse = solve(lower, np.eye(len(distinct)))
    variance[distinct] = noise * (1 - noise * (inverse**2).sum(axis=0))
    return mean, np.sqrt(variance), np.log(lower.diagonal()).sum() - np.log(noise).sum() / 2


def errors(engine, gram, counts, sums, noise_variance):
    """Largest errors of an engine: of means in deviations, of deviations and of the gain relative to the right ones."""
    mean, std, gain = posterior(gram, counts, sums, noise_variance)
    found = (
        np.abs(engine.mean() - mean) / std,
        np.abs(np.sqrt(engine.variance().astype(FINE)) - std) / std,
        abs(engine.information_gain - gain) / gain,
    )
    return tuple(float(np.max(each)) for each in found)
