"""Gradients of a posterior on a whole box, of its mean and of its variance."""

import numpy as np

from scalable_bandits.formulas.acquisition import UpperConfidence


class Variance:
    """Index that is the variance."""

    def __call__(self, mean, variance):
        return variance

    def slopes(self, mean, variance):
        return np.zeros(len(mean)), np.ones(len(mean))


def gradients(surface, x):
    """Gradients of posterior mean and variance at points x (k, d): two (k, d) arrays."""
    return surface.index(UpperConfidence(width=0.0), x)[1], surface.index(Variance(), x)[1]
