"""Choice of a policy on a pool: indices of all candidates from the formulas, and the tie-breaking hash."""

import math

import numpy as np

from naive import policies

MASK = 0xFFFFFFFF


def tie_hash(number, salt):
    """Wellons' lowbias32 of the two halves of number xor salt."""
    h = number ^ salt
    h = (h ^ (h >> 32)) & MASK
    h = ((h ^ (h >> 16)) * 0x7FEB352D) & MASK
    h = ((h ^ (h >> 15)) * 0x846CA68B) & MASK
    return h ^ (h >> 16)


def index(name, bandit, noise, delta=0.1, norm=2.0):
    """Index of every candidate; of GP-EI its logarithm."""
    if name == "GPUCB":
        width = policies.gpucb_width1(bandit.t, len(bandit.mean), delta)
        return policies.upper_confidence(bandit.mean, bandit.std, width)
    if name == "IGPUCB":
        return policies.upper_confidence(
            bandit.mean, bandit.std, policies.igpucb_width(bandit.gain, norm, noise, delta)
        )
    if name == "GPEI":
        improvement = policies.expected_improvement(bandit.mean, bandit.std, bandit.incumbent)
        return np.array([math.log(each) if each > 0 else -math.inf for each in improvement])
    return bandit.mean if name == "MeanOnly" else bandit.std


def choice(indices, allowed, salt):
    """Number of the allowed candidate of largest index, ties by the hash; and whether another is nearly tied."""
    best = max(indices[i] for i in allowed)
    tied = [i for i in allowed if indices[i] >= best - 1e-10 * abs(best)]
    near = [i for i in allowed if i not in tied and indices[i] >= best - 1e-7 * abs(best) - 1e-9]
    return min(tied, key=lambda i: (tie_hash(i, salt), i)), bool(near)


class Features:
    """Random features of the kernels of pools, drawn in the documented order; each is a function of a point."""

    def __init__(self, kind, count, rng, words=2):
        self.count = count
        if kind != "numbers":
            self.priorities = rng.integers(2**32, size=(32 * words + 1, count), dtype=np.uint32).tolist()
        if kind != "bits":  # the words of the fingerprint are the first coordinates
            self.frequencies = rng.standard_normal((count, 2))
            if kind == "both":  # Student's t with three degrees of freedom, for Matern kernels of nu = 3/2
                self.frequencies = self.frequencies / 0.5 * np.sqrt(3.0 / rng.chisquare(3.0, (count, 1)))
            else:
                self.frequencies = self.frequencies / 0.4
            self.phases = rng.uniform(0.0, 2.0 * np.pi, count)
        self.kind, self.words = kind, words

    def at(self, x):
        """Features (count,) of a point."""
        found = np.ones(self.count)
        if self.kind != "numbers":
            ones = [i for i in range(32 * self.words) if (int(x[i // 32]) >> (i % 32)) & 1] or [32 * self.words]
            smallest = [min(self.priorities[i][j] for i in ones) for j in range(self.count)]
            found = np.array([1.0 if each % 2 else -1.0 for each in smallest])
        if self.kind != "bits":
            numbers = x if self.kind == "numbers" else x[self.words :]
            amplitude = np.sqrt(2 * 1.5) if self.kind == "numbers" else np.sqrt(2.0)
            found = found * amplitude * np.cos(self.frequencies @ numbers + self.phases)
        return found


def path(gp, phi, width, noise_variance, rng):
    """A sample path of the posterior at all points, of which phi (n, F) are the features (Wilson et al. 2020)."""
    collapsed = gp.collapsed()
    numbers = [number for number, _, _ in collapsed.observations]
    weights = rng.standard_normal(phi.shape[1]) / np.sqrt(phi.shape[1])
    prior = phi @ weights
    mean, _ = gp.mean_variance()
    if not numbers:
        return mean + width * prior
    noise = np.array([variance for _, _, variance in collapsed.observations])
    drawn = prior[numbers] + np.sqrt(noise) * rng.standard_normal(len(numbers))
    gram = gp.gram[np.ix_(numbers, numbers)] + np.diag(noise)
    return mean + width * (prior - gp.gram[:, numbers] @ np.linalg.solve(gram, drawn))
