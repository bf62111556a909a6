"""Lengthscale balancing (Ziomek, Adachi & Osborne 2024, Algorithm 1), everything from the list of all observations.

Lengthscales are numbered: q(i) = theta_0 exp(-i / d). Posteriors are refitted from scratch at every question.
"""

from math import exp, inf, log, pi, prod, sqrt

import numpy as np

from naive.gp import GP


class Play:
    """One observation that was credited to a lengthscale."""

    def __init__(self, y, slack, share):
        self.y, self.slack, self.share = y, slack, share


class Balancing:
    """Algorithm 1 on numbered points.

    `kernel(factor)` makes the kernel whose lengthscales are those of the longest one times the factor; `lengths` are
    the longest lengthscales of the d dimensions over the sides of the space.
    """

    def __init__(self, kernel, points, lengths, nu, *, norm, noise, lam, delta, growth, initial, mean=0.0, scale=1.0):
        self.kernel, self.points, self.lengths, self.nu = kernel, points, lengths, nu
        self.norm, self.noise, self.lam, self.delta = norm, noise, lam, delta
        self.growth, self.mean, self.scale = growth, mean, scale
        self.d = len(lengths)
        self.t0 = exp((initial - 1) / self.d)  # as long as g(t) is t0, the last of them is theta_0 / g(t)
        self.last = initial - 1
        self.alive = list(range(initial))
        self.told = []  # (point, y, noise variance)
        self.plays = {i: [] for i in self.alive}
        self.rejected = {}
        self.introduced = {}  # round by number
        self.grams = {}

    # ---- quantities of one lengthscale

    def ratio(self, i):
        """theta_0 / q(i)."""
        return 1 / exp(-i / self.d)

    def bound(self, i):
        """B(theta)."""
        return self.ratio(i) ** (self.d / 2) * self.norm

    def gamma(self, n, i):
        """Proposition 2.2."""
        volume = prod(length / self.ratio(i) for length in self.lengths)
        if self.nu == inf:
            return log(n) ** (self.d + 1) / volume
        d, nu = self.d, self.nu
        return n ** (d * (d + 1) / (2 * nu + d * (d + 1))) * log(n) ** (2 * nu / (2 * nu + d)) / volume

    def regret(self, n, i):
        """Suspected regret of n plays."""
        gamma = self.gamma(n, i)
        return sqrt(n) * (self.bound(i) * sqrt(gamma) + gamma)

    def gp(self, i):
        """Posterior under q(i)."""
        made = GP(self.kernel(exp(-i / self.d)), self.points, self.mean, self.grams.get(i))
        self.grams[i] = made.gram
        for observation in self.told:
            made.observe(*observation)
        return made

    def width(self, i):
        """Line 4."""
        gain = self.gp(i).information_gain()
        return (self.bound(i) + self.noise * sqrt(2 * (gain + 1 + log(2 / self.delta)))) / sqrt(self.scale)

    def upper(self, i, pending=()):
        """Upper confidence bounds (n,), with pending points as observed at their means."""
        mean, _ = self.gp(i).mean_variance()
        _, variance = self.gp(i).with_fantasies(pending, self.lam).mean_variance()
        return mean + self.width(i) * np.sqrt(np.maximum(variance, 0.0))

    # ---- the algorithm

    def turns(self, extra=None):
        """Line 3: the lengthscales of least suspected regret; several if they are tied."""
        extra = extra or {}
        regrets = {i: self.regret(len(self.plays[i]) + extra.get(i, 0) + 1, i) for i in self.alive}
        least = min(regrets.values())
        return [i for i, regret in regrets.items() if regret <= least * (1 + 1e-9)]

    def turns_after(self, pending):
        """Those of the next round, and numbers of plays by that of the pending points; for every order of ties."""
        found = [{}]
        for _ in range(pending):
            found = [{**extra, i: extra.get(i, 0) + 1} for extra in found for i in self.turns(extra)]
            found = [dict(each) for each in {tuple(sorted(extra.items())) for extra in found}]
        return sorted({i for extra in found for i in self.turns(extra)})

    def slack_at(self, i, x):
        """Summand beta_t s_{t-1}(x_t)."""
        return self.width(i) * sqrt(max(self.gp(i).mean_variance()[1][x], 0.0))

    def tell(self, i, x, y, share=1.0):
        """Lines 5 to 16 of a round whose point was played by lengthscale i."""
        t = len(self.told) + 1
        self.plays[i].append(Play(y, self.slack_at(i, x), share))
        self.told.append((x, y, self.lam * share))
        if all(self.plays[j] for j in self.alive):
            self.eliminate(t)
        if 1 / max(self.t0, t**self.growth) <= exp(-(self.last + 1) / self.d):
            self.last += 1
            self.alive.append(self.last)
            self.plays[self.last] = []
            self.introduced[self.last] = t

    def eliminate(self, t):
        """Lines 9 to 12, with the sign of the proof."""
        xi = 2 * self.noise**2 * log((self.last + 1) * pi**2 * t**2 / (3 * self.delta))
        lower, upper = {}, {}
        for i in self.alive:
            plays = self.plays[i]
            mean = sum(play.y for play in plays) / len(plays)
            spread = sqrt(xi * sum(play.share for play in plays)) / len(plays)
            lower[i] = mean - spread
            upper[i] = mean + spread + 2 * sum(play.slack for play in plays) / len(plays)
        least = max(lower.values())
        for i in list(self.alive):
            if upper[i] < least:
                self.rejected[i] = (t, least, upper[i])
                self.alive.remove(i)

    def log_likelihood(self, i):
        """Of all observations at once."""
        if not self.told:
            return 0.0
        numbers, residuals, gram, noise = self.gp(i)._system()
        system = gram + np.diag(noise)
        _, logdet = np.linalg.slogdet(system)
        return -(residuals @ np.linalg.solve(system, residuals) + logdet + len(numbers) * log(2 * pi)) / 2
