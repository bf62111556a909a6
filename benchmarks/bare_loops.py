"""The arithmetic of long runs, written straight down: one compiled function a run."""

import math

import numpy as np
from numba import njit
from scipy.linalg.blas import dtrmm

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
def eliminations(covariances, table, noise, noise_variance, delta, deviation):
    """PE-GP-UCB: all priors by the recursive update, the most optimistic one plays, and is tested."""
    count, n = covariances.shape[0], covariances.shape[1]
    means, alive, total = np.zeros((count, n)), np.ones(count, dtype=np.bool_), 0.0
    errors, slacks, plays = np.zeros(count), np.zeros(count), np.zeros(count)
    for t in range(noise.shape[0]):
        square = (t + 1.0) ** 2
        width, top, p = math.sqrt(2.0 * math.log(2.0 * n * math.pi**2 * square / delta)), -np.inf, 0
        for k in range(count):
            for i in range(n):
                index = means[k, i] + width * math.sqrt(covariances[k, i, i]) if alive[k] else -np.inf
                if index > top:
                    top, p = index, i
        y = table[p] + noise[t]
        total += y
        top, player = -np.inf, 0
        for k in range(count):
            index = means[k, p] + width * math.sqrt(covariances[k, p, p]) if alive[k] else -np.inf
            if index > top:
                top, player = index, k
        plays[player] += 1.0
        errors[player] += y - means[player, p]
        slacks[player] += width * math.sqrt(covariances[player, p, p])
        for k in range(count):
            if alive[k]:
                mean, covariance = means[k], covariances[k]
                column, variance, residual = covariance[p].copy(), covariance[p, p] + noise_variance, y - mean[p]
                for i in range(n):
                    mean[i] += column[i] * residual / variance
                    for j in range(n):
                        covariance[i, j] -= column[i] * column[j] / variance
        allowance = 2.0 * deviation**2 * math.log(count * math.pi**2 * square / delta)
        alive[player] = abs(errors[player]) <= math.sqrt(allowance * plays[player]) + slacks[player]
    return total


@njit(cache=True)
def partition(priors, members, sizes, table, noise, norm, deviation, log_delta, growth):
    """pi-GP-UCB in the cells of a given cover: all indices, then the recursive update of the cell that is played."""
    count, n = members.shape
    means, covariances, gains, total = np.zeros((count, n)), priors.copy(), np.zeros(count), 0.0
    for t in range(noise.shape[0]):
        log_term, best, cell, p = log_delta + growth * math.log(t + 2.0), -np.inf, 0, 0
        for k in range(count):
            width = norm + deviation * math.sqrt(2.0 * (gains[k] + 1.0 + log_term))
            for i in range(sizes[k]):
                index = means[k, i] + width * math.sqrt(covariances[k, i, i])
                if index > best:
                    best, cell, p = index, k, i
        mean, covariance, size = means[cell], covariances[cell], sizes[cell]
        y = table[members[cell, p]] + noise[t]
        total += y
        column, variance, residual = covariance[p].copy(), covariance[p, p] + 1.0, y - mean[p]
        gains[cell] += 0.5 * math.log1p(covariance[p, p])
        for i in range(size):
            mean[i] += column[i] * residual / variance
            for j in range(size):
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


@njit(cache=True)
def ones(word):
    """The number of bits of a word that are 1, in the form that compilers know."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@njit(cache=True)
def tanimoto(bits, points, scale, out):
    """Scaled Tanimoto similarities out (n, m) of fingerprints (n, w) and others (m, w), of words of 64 bits."""
    columns, both = np.ascontiguousarray(points.T), np.empty(points.shape[0], dtype=np.uint64)
    sizes = np.zeros(points.shape[0], dtype=np.uint64)
    for j in range(points.shape[0]):
        for k in range(points.shape[1]):
            sizes[j] += ones(points[j, k])
    for i in range(bits.shape[0]):
        size = np.uint64(0)
        both[:] = np.uint64(0)
        for k in range(bits.shape[1]):
            size += ones(bits[i, k])
            for j in range(points.shape[0]):
                both[j] += ones(bits[i, k] & columns[k, j])
        for j in range(points.shape[0]):
            out[i, j] = scale * np.float64(both[j]) / np.float64(size + sizes[j] - both[j])


def fingerprints(bits, points, scale, weights, inverse):
    """Mean and variance of fingerprints (n, w), given the inverse of the factor: similarities, then BLAS."""
    cross = np.empty((len(bits), len(points)))
    tanimoto(bits, points, scale, cross)
    solved = dtrmm(1.0, inverse, cross.T, lower=1)
    return cross @ weights, scale - np.einsum("ij,ij->j", solved, solved)
