"""Several priors over functions of candidate and round, refitted from the list of all observations at every question.

A prior is (gram (n, n), epsilon, mean): the function's covariance between (x, t) and (z, s) is
gram[x, z] (1 - epsilon)^(|t - s| / 2), its mean in round t is mean(t), (n,). Observation i is of round i.
"""

from math import log, pi, sqrt

import numpy as np


class TimedGP:
    """Posterior of one prior; observations are (candidate, y, noise variance)."""

    def __init__(self, gram, epsilon, mean):
        self.gram, self.epsilon, self.mean = np.asarray(gram), epsilon, mean

    def system(self, places, rounds, noise):
        """Covariance matrix of observations at places in rounds, with their noise."""
        lag = np.abs(np.subtract.outer(rounds, rounds))
        return self.gram[np.ix_(places, places)] * (1 - self.epsilon) ** (lag / 2) + np.diag(noise)

    def residuals(self, observations):
        """Differences of the values from the means of their rounds."""
        return np.array([y - self.mean(i)[x] for i, (x, y, _) in enumerate(observations, 1)])

    def posterior(self, observations, t, pending=(), pending_noise=1.0):
        """Mean and variance (n,) of the function of round t; pending points as observed in round t at their mean."""
        rounds = [*range(1, len(observations) + 1), *[t] * len(pending)]
        places = [x for x, _, _ in observations] + list(pending)
        noise = [v for _, _, v in observations] + [pending_noise] * len(pending)
        if not places:
            return self.mean(t).copy(), self.gram.diagonal().copy()
        system = self.system(places, rounds, noise)
        cross = self.gram[places] * ((1 - self.epsilon) ** (np.abs(np.subtract(rounds, t)) / 2))[:, None]
        solved = np.linalg.solve(system, cross)
        variance = self.gram.diagonal() - np.einsum("ij,ij->j", cross, solved)
        told = len(observations)
        mean = np.zeros(len(self.gram))
        if told:
            mean = cross[:told].T @ np.linalg.solve(system[:told, :told], self.residuals(observations))
        return self.mean(t) + mean, np.maximum(variance, 0.0)

    def log_likelihood(self, observations):
        """Of all observations at once, by the determinant."""
        if not observations:
            return 0.0
        places, _, noise = zip(*observations, strict=True)
        rounds = np.arange(1, len(observations) + 1)
        return log_density(self.residuals(observations), self.system(places, rounds, noise))


def log_density(values, covariance):
    """Log density of normal values (n,) of mean 0."""
    _, logdet = np.linalg.slogdet(covariance)
    return -(values @ np.linalg.solve(covariance, values) + logdet + len(values) * log(2 * pi)) / 2


def width(t, size, delta):
    """Ziomek et al. 2025, Theorem 4.1 (A): sqrt(2 log(2 |X| pi^2 t^2 / delta))."""
    return sqrt(2 * log(2 * size * pi**2 * t**2 / delta))


def width_continuous(t, dimension, delta, a, b, side):
    """Ziomek et al. 2025, Theorem 4.1 (B)."""
    inner = dimension * t**2 * side * b * sqrt(log(3 * dimension * a / (2 * delta)))
    return sqrt(2 * log(3 * pi**2 * t**2 / (2 * delta)) + 2 * dimension * log(inner))


def allowance(t, priors, delta, noise):
    """xi_t = 2 R^2 log(|U| pi^2 t^2 / delta)."""
    return 2 * noise**2 * log(priors * pi**2 * t**2 / delta)


class Play:
    """One credited observation: what line 12 and the lower bounds are sums of."""

    def __init__(self, error, y, slack, share):
        self.error, self.y, self.slack, self.share = error, y, slack, share


def line_12(plays, t, priors, delta, noise):
    """Algorithm 1: |sum of errors| and the bound it must not exceed, over the plays of one prior."""
    errors = abs(sum(play.error for play in plays))
    allowed = sqrt(allowance(t, priors, delta, noise) * sum(play.share for play in plays))
    return errors, allowed + sum(play.slack for play in plays)


def line_11(plays_of, t, priors, delta, noise):
    """Algorithm 2: of each prior the upper end of its mean value, and the largest lower end."""
    lower, upper = {}, {}
    for p, plays in plays_of.items():
        count = len(plays)
        spread = sqrt(allowance(t, priors, delta, noise) * sum(play.share for play in plays)) / count
        lower[p] = sum(play.y for play in plays) / count - spread
        upper[p] = lower[p] + sum(play.slack for play in plays) / count
    return upper, max(lower.values())


def probabilities(log_likelihoods):
    """Posterior probabilities under a uniform hyperprior."""
    exact = [np.longdouble(v) - np.longdouble(max(log_likelihoods)) for v in log_likelihoods]
    weights = np.exp(np.array(exact))
    return (weights / weights.sum()).astype(float)


def autoregression_log_likelihood(readings, covariance, epsilon, noise_variance):
    """Of a panel (times, n), from the whole covariance matrix of all its numbers."""
    times, n = readings.shape
    decay = (1 - epsilon) ** (np.abs(np.subtract.outer(np.arange(times), np.arange(times))) / 2)
    return log_density(readings.ravel(), np.kron(decay, covariance) + noise_variance * np.eye(times * n))
