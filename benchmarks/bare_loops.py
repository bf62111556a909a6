"""The arithmetic of long runs, written straight down: one compiled function a run."""

import math

import numpy as np
from numba import njit

from scalable_bandits._numba_philox import integers


@njit(cache=True)
def drift(prior, table, noise, keep, noise_variance):
    """GP-UCB under a first-order autoregression: the textbook's Kalman filter, one round after the other."""
    n = prior.shape[0]
    mean, covariance, total = np.zeros(n), prior.copy(), 0.0
    for t in range(noise.shape[0]):
        width, best, p = math.sqrt(2.0 * math.log(n * (t + 1.0) ** 2 * math.pi**2 / 0.6)), -np.inf, 0
        for i in range(n):
            index = mean[i] + width * math.sqrt(covariance[i, i])
            if index > best:
                best, p = index, i
        y = table[p] + noise[t]
        total += y
        column, variance, residual = covariance[p].copy(), covariance[p, p] + noise_variance, y - mean[p]
        for i in range(n):
            mean[i] = math.sqrt(keep) * (mean[i] + column[i] * residual / variance)
            for j in range(n):
                posterior = covariance[i, j] - column[i] * column[j] / variance
                covariance[i, j] = keep * posterior + (1.0 - keep) * prior[i, j]
    return total


@njit(cache=True)
def recursion(prior, table, noise, norm):
    """IGP-UCB by the recursive update of Chowdhury & Gopalan 2017, appendix F."""
    n = prior.shape[0]
    mean, covariance, gain, total = np.zeros(n), prior.copy(), 0.0, 0.0
    for t in range(noise.shape[0]):
        width, best, p = norm + math.sqrt(2.0 * (gain + 1.0 + math.log(10.0))), -np.inf, 0
        for i in range(n):
            index = mean[i] + width * math.sqrt(covariance[i, i])
            if index > best:
                best, p = index, i
        y = table[p] + noise[t]
        total += y
        column, variance, residual = covariance[p].copy(), covariance[p, p] + 1.0, y - mean[p]
        gain += 0.5 * math.log1p(covariance[p, p])
        for i in range(n):
            mean[i] += column[i] * residual / variance
            for j in range(n):
                covariance[i, j] -= column[i] * column[j] / variance
    return total


@njit(cache=True)
def draws(table, noise):
    """Uniform play by counter-based draws, with counts and sums by arm, and what was played."""
    played, ys, regrets = np.empty(noise.shape[0], dtype=np.int64), np.empty(noise.shape[0]), np.empty(noise.shape[0])
    integers(np.uint64(0), np.uint64(1), 1, table.shape[0], played)
    counts, sums, best = np.zeros(table.shape[0]), np.zeros(table.shape[0]), table.max()
    for t in range(noise.shape[0]):
        p = played[t]
        ys[t] = table[p] + noise[t]
        regrets[t] = best - table[p]
        counts[p] += 1.0
        sums[p] += ys[t]
    return regrets.sum()
