"""The sketched posterior from the formulas, solved from scratch at every question.

Between sketches, observations condition the last sketch's posterior exactly. The sketch of all observations on the
points S is mean m(x) + k_S(x)' (K_S + K_SX N^-1 K_XS)^-1 K_SX N^-1 (y - m), covariance k - k_S' K_S^-1 k_S + k_S'
(the same inverse) k_S (Calandriello et al. 2019, eqs. 4 and 5, in covariance functions instead of features; repeated
points one by one).
"""

import numpy as np

from naive.gp import GP


def nystrom(gram, dictionary, observations, prior_mean):
    """Mean (n,) and covariance (n, n) given observations (number, y, noise variance) projected on a dictionary."""
    numbers, ys, noise = (np.array(column) for column in zip(*observations, strict=True))
    inside, across, onto = gram[np.ix_(dictionary, dictionary)], gram[dictionary], gram[np.ix_(dictionary, numbers)]
    inverse = np.linalg.inv(inside + (onto / noise) @ onto.T)
    mean = prior_mean + across.T @ inverse @ (onto / noise) @ (ys - prior_mean[numbers])
    covariance = gram - across.T @ np.linalg.solve(inside, across) + across.T @ inverse @ across
    return mean, covariance


class SketchedGP:
    """As `GP`, sketched whenever the rows of closed windows outgrow the dictionary.

    Parameters
    ----------
    order
        Numbers of the points in the order of systematic sampling.
    starts
        From the number of a sketch to its random number.
    """

    def __init__(self, gram, prior_mean, order, starts, oversampling, growth, window):
        self.gram, self.prior_mean = gram, prior_mean
        self.place = {number: place for place, number in enumerate(order)}
        self.starts, self.oversampling, self.growth, self.capacity = starts, oversampling, growth, window
        self.observations, self.since, self.window = [], [], set()
        self.rows, self.dictionary, self.sketches = 0, [], 0
        self.base = prior_mean, gram

    def mean_covariance(self):
        gp = GP(None, np.zeros((len(self.gram), 1)), self.base[0], self.base[1])
        gp.observations = self.since
        return gp.mean_covariance()

    def observe(self, number, y, noise):
        if number not in self.window and len(self.window) == self.capacity:
            self.rows += self.capacity
            self.window = set()
            if self.rows > self.growth * len(self.dictionary) + self.capacity:
                self.sketch()
        self.window.add(number)
        self.observations.append((number, y, noise))
        self.since.append((number, y, noise))

    def sketch(self):
        variance = self.mean_covariance()[1].diagonal()
        precision = {}
        for number, _, noise in self.observations:
            precision[number] = precision.get(number, 0.0) + 1 / noise
        self.sketches += 1
        total, kept = self.starts(self.sketches), []
        for number in sorted(precision, key=self.place.__getitem__):
            before = np.floor(total)
            total += min(1.0, self.oversampling * variance[number] * precision[number])
            if np.floor(total) > before:
                kept.append(number)
        self.dictionary, self.rows = kept, 0
        self.base = nystrom(self.gram, kept, self.observations, self.prior_mean)
        self.since = []
