"""Bandits of independent arms, from the papers, arm by arm in plain loops."""

from fractions import Fraction
from math import inf, log, sqrt
from statistics import NormalDist


def average(observations, arm):
    """Weighted average and weight of an arm's observations (arm, y, weight)."""
    weight = total = 0.0
    for each, y, w in observations:
        if each == arm:
            weight += w
            total += w * y
    return (total / weight if weight else 0.0), weight


def ucb1_indices(observations, pending, arms, noise):
    """Auer et al. 2002, Figure 1, with rewards that are R-sub-Gaussian: index of some arms, by number.

    Infinite for an arm without plays. A pending arm counts as played at its average, and has no index as long as it has
    no observation.
    """
    plays = len(observations) + len(pending)
    indices = {}
    for arm in arms:
        mean, weight = average(observations, arm)
        if weight:
            indices[arm] = mean + sqrt(2 * log(plays) / (weight + pending.count(arm))) * noise / 0.5
        else:
            indices[arm] = -inf if arm in pending else inf
    return indices


def ucb1(value, count, rounds, noise, order):
    """Arms that UCB1 plays; `value(t, arm)` is observed in round t, and `order` is that of the first plays."""
    observations = []
    for t in range(1, rounds + 1):
        indices = ucb1_indices(observations, [], range(count), noise)
        unplayed = [arm for arm in order if indices[arm] == inf]
        arm = unplayed[0] if unplayed else max(indices, key=indices.get)
        observations.append((arm, value(t, arm), 1.0))
    return [arm for arm, _, _ in observations]


def normal_posterior(observations, pending, arm, prior_mean, prior_std, noise_variance):
    """Mean and standard deviation of an arm; a pending arm counts as observed, at its mean."""
    mean, weight = average(observations, arm)
    precision = 1 / prior_std**2 + weight / noise_variance
    posterior = (prior_mean / prior_std**2 + weight * mean / noise_variance) / precision
    return posterior, 1 / sqrt(precision + pending.count(arm) / noise_variance)


def independent_ts(value, count, rounds, prior_mean, prior_std, noise_variance, uniform):
    """Agrawal & Goyal 2017, Algorithm 2: arms played; `uniform(t)` are numbers in (0, 1), one for each arm."""
    observations = []
    for t in range(1, rounds + 1):
        draws = []
        for arm, u in zip(range(count), uniform(t), strict=True):
            mean, std = normal_posterior(observations, [], arm, prior_mean, prior_std, noise_variance)
            draws.append(mean - std * NormalDist().inv_cdf(u))
        arm = draws.index(max(draws))
        observations.append((arm, value(t, arm), 1.0))
    return [arm for arm, _, _ in observations]


def successive_rejects_lengths(count, horizon):
    """Audibert et al. 2010, Figure 2: n_0, ..., n_{K-1}, each the first n with logbar (K + 1 - k) n >= T - K."""
    logbar = Fraction(1, 2) + sum(Fraction(1, i) for i in range(2, count + 1))
    found = [0]
    for k in range(1, count):
        steps = logbar * (count + 1 - k)
        found.append(-((count - horizon) * steps.denominator // steps.numerator))
    return found


def successive_rejects(value, count, horizon, order):
    """Audibert et al. 2010, Figure 2: arms played in the phases, in turns, and the arm that is left."""
    lengths = successive_rejects_lengths(count, horizon)
    alive, observations = list(order), []
    for k in range(1, count):
        for _ in range(lengths[k] - lengths[k - 1]):
            for arm in alive:
                observations.append((arm, value(len(observations) + 1, arm), 1.0))
        alive.remove(min(alive, key=lambda arm: average(observations, arm)[0]))
    return [arm for arm, _, _ in observations], alive[0]
