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
