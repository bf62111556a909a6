"""Posteriors of functions that change: every observation with its time, solved from scratch at every question."""

import numpy as np

from naive.gp import GP


class DriftingGP(GP):
    """GP of f_t(x) with covariance k(x, x') (1 - epsilon)^(|t - t'| / 2); questions are about the time `now`."""

    def __init__(self, kernel, points, epsilon, prior_mean=0.0, gram=None):
        super().__init__(kernel, points, prior_mean, gram)
        self.epsilon, self.now, self.times = epsilon, 1, []

    def observe(self, number, y, noise_variance):
        """Append one observation of the time `now`."""
        super().observe(number, y, noise_variance)
        self.times.append(self.now)

    def with_fantasies(self, numbers, noise_variance):
        mean, _ = self.mean_covariance()
        copy = DriftingGP(self.kernel, self.points, self.epsilon, self.prior_mean, self.gram)
        copy.observations = [*self.observations, *((i, mean[i], noise_variance) for i in numbers)]
        copy.times, copy.now = [*self.times, *(self.now for _ in numbers)], self.now
        return copy

    def between(self, times, others):
        """Correlations between times, (n, m)."""
        lags = np.abs(np.array(times, dtype=float)[:, None] - np.array(others, dtype=float)[None, :])
        return (1.0 - self.epsilon) ** (lags / 2.0)

    def _system(self):
        numbers, residuals, gram, noise = super()._system()
        return numbers, residuals, gram * self.between(self.times, self.times), noise

    def mean_covariance(self):
        if not self.observations:
            return self.prior_mean.copy(), self.gram.copy()
        numbers, residuals, gram, noise = self._system()
        cross = self.gram[numbers] * self.between(self.times, [self.now])
        solved = np.linalg.solve(gram + np.diag(noise), np.column_stack([residuals, cross]))
        return self.prior_mean + cross.T @ solved[:, 0], self.gram - cross.T @ solved[:, 1:]

    def predict(self, X, prior_mean=0.0):
        """Posterior mean and standard deviation of the present function at any points X (k, d)."""
        everywhere = DriftingGP(self.kernel, np.vstack([self.points, X]), self.epsilon)
        everywhere.prior_mean[: len(self.points)] = self.prior_mean
        everywhere.prior_mean[len(self.points) :] = prior_mean
        everywhere.observations, everywhere.times, everywhere.now = self.observations, self.times, self.now
        mean, variance = everywhere.mean_variance()
        return mean[len(self.points) :], np.sqrt(variance[len(self.points) :])


class SlidingGP(GP):
    """GP of the last `window` observations."""

    def __init__(self, kernel, points, window, prior_mean=0.0, gram=None):
        super().__init__(kernel, points, prior_mean, gram)
        self.window = window

    def observe(self, number, y, noise_variance):
        super().observe(number, y, noise_variance)
        self.observations = self.observations[-self.window :]


class RestartingGP(GP):
    """GP that forgets everything every `every` observations."""

    def __init__(self, kernel, points, every, prior_mean=0.0, gram=None):
        super().__init__(kernel, points, prior_mean, gram)
        self.every, self.told = every, 0

    def observe(self, number, y, noise_variance):
        super().observe(number, y, noise_variance)
        self.told += 1
        if self.told % self.every == 0:
            self.observations = []


class EventTriggeredGP(GP):
    """GP that forgets all but the last observation when that is further from its mean than `bound` allows.

    `bound` takes the number of the observation since the last reset, the deviation of f and the noise variance.
    """

    def __init__(self, kernel, points, bound, prior_mean=0.0, gram=None):
        super().__init__(kernel, points, prior_mean, gram)
        self.bound, self.told, self.resets = bound, 0, []

    def observe(self, number, y, noise_variance):
        self.told += 1
        mean, variance = self.mean_variance()
        t = len(self.observations) + 1
        if abs(y - mean[number]) > self.bound(t, np.sqrt(max(variance[number], 0.0)), noise_variance):
            self.observations = []
            self.resets.append(self.told)
        super().observe(number, y, noise_variance)


class WeightedGP(GP):
    """GP in which an observation that is `a` observations old has noise variance eta^-a times its own."""

    def __init__(self, kernel, points, eta, prior_mean=0.0, gram=None):
        super().__init__(kernel, points, prior_mean, gram)
        self.eta = eta

    def observe(self, number, y, noise_variance):
        self.observations = [(i, value, noise / self.eta) for i, value, noise in self.observations]
        super().observe(number, y, noise_variance)


class TimedGP(DriftingGP):
    """DriftingGP whose every observation is a round."""

    def observe(self, number, y, noise_variance):
        super().observe(number, y, noise_variance)
        self.now += 1
