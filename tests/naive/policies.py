"""Widths and indices of the policies, from the formulas of the papers, candidate by candidate."""

import hashlib
from math import erfc, exp, log, pi, sqrt

import numpy as np

from naive.believer import with_draws


def gpucb_width1(t, size, delta, scale=1.0):
    """Srinivas et al. 2010, Theorem 1: sqrt of 2 log(|D| t^2 pi^2 / (6 delta))."""
    return sqrt(2 * log(size * t**2 * pi**2 / (6 * delta)) / scale)


def gpucb_width2(t, dimension, side, delta, a=1.0, b=1.0, scale=1.0):
    """Srinivas et al. 2010, Theorem 2, with constants a, b and box side r."""
    first = 2 * log(t**2 * 2 * pi**2 / (3 * delta))
    second = 2 * dimension * log(t**2 * dimension * b * side * sqrt(log(4 * dimension * a / delta)))
    return sqrt((first + second) / scale)


def gpucb_width3(t, gain, rkhs_norm, delta, scale=1.0):
    """Srinivas et al. 2010, Theorem 3: sqrt of 2 B^2 + 300 g log^3(t / delta)."""
    return sqrt((2 * rkhs_norm**2 + 300 * gain * log(t / delta) ** 3) / scale)


def igpucb_width(gain, rkhs_norm, noise, delta):
    """Chowdhury & Gopalan 2017, Algorithm 1: B + R sqrt(2 (g + 1 + log(1 / delta)))."""
    return rkhs_norm + noise * sqrt(2 * (gain + 1 + log(1 / delta)))


def gpts_width(gain, rkhs_norm, noise, delta):
    """Chowdhury & Gopalan 2017, Algorithm 2: B + R sqrt(2 (g + 1 + log(2 / delta)))."""
    return rkhs_norm + noise * sqrt(2 * (gain + 1 + log(2 / delta)))


def irgpucb_width(t, size, seed):
    """Takeno et al. 2023: sqrt of max(0, 2 log(|D| / 2)) plus an exponential number of mean 2, drawn for the round."""
    purpose = int.from_bytes(hashlib.blake2b(b"width", digest_size=8).digest(), "little")
    stream = np.random.Philox(key=np.array([seed, purpose], dtype=np.uint64), counter=[0, 0, 0, t])
    return sqrt(max(0, 2 * log(size / 2)) + np.random.Generator(stream).exponential(2.0))


def additive_width(t, dimension):
    """Kandasamy et al. 2015, in their program: sqrt of 0.2 d log(2 t)."""
    return sqrt(0.2 * dimension * log(2 * t))


def event_triggered_bound(t, std, noise, delta):
    """Brunzema et al. 2025: sqrt(rho) s + w, rho = 2 log(2 pi_t / delta), w^2 = 2 R^2 log(2 pi_t / delta)."""
    pi_t = pi**2 * t**2 / 6
    return sqrt(2 * log(2 * pi_t / delta)) * std + sqrt(2 * noise**2 * log(2 * pi_t / delta))


def swgpucb_width(gain, rkhs_norm, noise, delta, regularization, horizon):
    """Zhou & Shroff 2021, Theorem 2: B + R / sqrt(lambda) sqrt(2 g + 2 log(T / delta))."""
    return rkhs_norm + noise / sqrt(regularization) * sqrt(2 * gain + 2 * log(horizon / delta))


def upper_confidence(mean, std, width):
    """mu + width s."""
    return np.array([m + width * s for m, s in zip(mean, std, strict=True)])


def expected_improvement(mean, std, best, xi=0.0):
    """s (phi(z) + z Phi(z)), z = (mu - best - xi) / s."""
    out = []
    for m, s in zip(mean, std, strict=True):
        z = (m - best - xi) / s
        out.append(s * (exp(-(z**2) / 2) / sqrt(2 * pi) + z * erfc(-z / sqrt(2)) / 2))
    return np.array(out)


def improvement_probability(mean, std, best, xi=0.0):
    """Phi(z), z = (mu - best - xi) / s."""
    return np.array([erfc(-(m - best - xi) / s / sqrt(2)) / 2 for m, s in zip(mean, std, strict=True)])


def improvement_score(mean, std, best):
    """(mu - best) / s, which grows with the probability of improvement and does not underflow."""
    return np.array([(m - best) / s for m, s in zip(mean, std, strict=True)])


def oful_indices(played, ys, arms, noise, norm, regularization, delta):
    """Abbasi-Yadkori, Pal & Szepesvari 2011, Figure 1 and Theorem 2: the largest x'theta over the confidence ellipsoid.

    V = lambda I + sum of x x', theta_hat = V^-1 sum of x y,
    beta = R sqrt(2 log(det(V)^(1/2) det(lambda I)^(-1/2) / delta)) + lambda^(1/2) S,
    index = x'theta_hat + beta |x|_(V^-1)
    """
    V = regularization * np.eye(arms.shape[1])
    moment = np.zeros(arms.shape[1])
    for x, y in zip(played, ys, strict=True):
        V += np.outer(x, x)
        moment += x * y
    log_ratio = 0.5 * np.linalg.slogdet(V)[1] - 0.5 * arms.shape[1] * log(regularization)
    beta = noise * sqrt(2 * (log_ratio + log(1 / delta))) + sqrt(regularization) * norm
    estimate, inverse = np.linalg.solve(V, moment), np.linalg.inv(V)
    return np.array([x @ estimate + beta * sqrt(x @ inverse @ x) for x in arms])


class Bandit:
    """What a policy knows before a round: the observations and the pending points.

    `mean`, `std` take the pending points as observed with noise variance `regularization`: at their posterior means, or
    given the key (seed, round) at drawn values; `gain` and `told` count real observations only, `t` pending ones too.
    """

    def __init__(self, gp, pending, regularization, allowed, key=None):
        self.allowed = allowed  # numbers of the candidates that may be chosen
        self.told = getattr(gp, "told", len(gp.observations))  # also those that are forgotten
        self.t = self.told + len(pending) + 1
        self.gain = gp.information_gain()
        ys = [y for _, y, _ in gp.observations]
        self.posterior = gp.with_fantasies(pending, regularization) if len(pending) else gp
        if len(pending) and key is not None:
            self.posterior, values = with_draws(gp, pending, regularization, *key)
            ys += values
        self.mean, variance = self.posterior.mean_variance()
        if key is None:
            ys += [self.mean[number] for number in pending]
        self.largest_y = max(ys, default=None)
        self.std = np.sqrt(np.maximum(variance, 0.0))

    @property
    def incumbent(self):
        """Largest posterior mean at a queried or pending point; before there is one, at an allowed candidate."""
        queried = [number for number, _, _ in self.posterior.observations]
        return max(self.mean[i] for i in (queried or self.allowed))
