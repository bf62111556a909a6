"""Oracle of priors from the tables of earlier tasks: what they are, given kernels as functions and learned numbers.

A task is (points, averages, counts, away): distinct points, the average of the measurements at each, their numbers, and
a list of their differences from the average.
A fit is (kernel, noise, mean): a function k(x, z), the noise variance of one measurement, and a constant.
"""

import math

import numpy as np

from naive.kernels import matrix


def collapsed(points, ys):
    """Task of measurements, of which several may be at one point."""
    at = {}
    for x, y in zip(np.asarray(points, dtype=float).tolist(), ys, strict=True):
        at.setdefault(tuple(x), []).append(float(y))
    found = sorted(at)
    averages = [sum(at[x]) / len(at[x]) for x in found]
    away = [[y - average for y in at[x]] for x, average in zip(found, averages, strict=True)]
    return np.array(found), np.array(averages), np.array([len(at[x]) for x in found]), away


def posterior_mean(task, fit, at):
    """(1): m + k(x)' (K + N)^-1 (y - m), N the noise variance over the numbers of measurements."""
    (points, y, counts, _), (kernel, noise, mean) = task, fit
    weights = np.linalg.solve(matrix(kernel, points) + np.diag(noise / counts), y - mean)
    return mean + matrix(kernel, at, points) @ weights


def average_mean(tasks, fits, at):
    """Average of the posterior means."""
    return sum(posterior_mean(task, fit, at) for task, fit in zip(tasks, fits, strict=True)) / len(tasks)


def level(tasks):
    """Average over the tasks of their average y."""
    return sum(y.mean() for _, y, _, _ in tasks) / len(tasks)


def copied_mean(mean, center, variance):
    """Mean of the copy at another variance."""
    return center + math.sqrt(variance) * (np.asarray(mean) - center)


def copied_kernel(level_variance, rest, variance):
    """Kernel of that copy: v + c s k."""
    return lambda x, z: level_variance + variance * rest(x, z)


def differences_from(tasks, fits, p):
    """(2): y_q - m_p(x_q) of all other tasks, each with points and counts."""
    others = [task for q, task in enumerate(tasks) if q != p]
    return [(x, y - posterior_mean(tasks[p], fits[p], x), *rest) for x, y, *rest in others]


def differences_from_average(tasks, fits):
    """(3): y_q minus the average of the means of the others."""
    found = []
    for q, (x, y, *rest) in enumerate(tasks):
        others = [p for p in range(len(tasks)) if p != q]
        found.append((x, y - average_mean([tasks[p] for p in others], [fits[p] for p in others], x), *rest))
    return found


def differences_from_level(tasks):
    """(4): y_q minus the average of all."""
    return [(x, y - level(tasks), *rest) for x, y, *rest in tasks]


def scale_of(parts, mean):
    """Root mean square of the values about a mean."""
    values = np.concatenate([y for _, y, _, _ in parts])
    return float(np.sqrt(np.mean((values - mean) ** 2)))


def density(parts, kernel, noise, logs_and_priors, mean=0.0):
    """Log density of all measurements of independent functions with one kernel, plus the log priors up to a constant.

    `mean` None: the constant of largest density. `logs_and_priors` has, for each learned number, its logarithm, and
    centre and deviation of that.
    """
    total = 0.0
    for distinct, averages, counts, away in parts:
        points, y = np.repeat(distinct, counts, axis=0), np.repeat(averages, counts) + np.concatenate(away)
        K = matrix(kernel, points) + noise * np.eye(len(y))
        ones = np.ones(len(y))
        best = ones @ np.linalg.solve(K, y) / (ones @ np.linalg.solve(K, ones)) if mean is None else mean
        rest = y - best
        total -= (
            0.5 * rest @ np.linalg.solve(K, rest) + 0.5 * np.linalg.slogdet(K)[1] + 0.5 * len(y) * math.log(2 * math.pi)
        )
    return total - sum(0.5 * ((log - center) / deviation) ** 2 for log, center, deviation in logs_and_priors)
