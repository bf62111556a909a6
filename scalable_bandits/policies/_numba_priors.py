"""Steps of the policies with several priors, on the arrays of a `Tally`; and their rounds in one loop.

The steps are called by the policies round by round, and by the loop.
"""

import math

import numpy as np

from scalable_bandits._numba_compile import njit
from scalable_bandits.formulas._numba_widths import error_allowance, unknown_prior
from scalable_bandits.posteriors._numba_choice import SAME, choose, choose_available, upper_confidence
from scalable_bandits.posteriors.exact._numba_window import DenseArrays, dense_observe

# Numbers of the policies.
ELIMINATION = 0  # PE-GP-UCB
LIKELIEST = 1  # MLE-GP-UCB
AVERAGE = 2  # Fully Bayesian GP-UCB
BALANCING = 3  # Regret balancing


@njit(cache=True, nogil=True)
def pick(tally, scores):
    """Return the prior in play of largest score (|U|,), ties broken by the seeded hash."""
    return choose(scores, tally.playing, SAME, tally.salt)[0]


@njit(cache=True, nogil=True)
def likeliest(tally):
    """Return the prior in play of highest marginal likelihood, the first of several."""
    best, highest = -1, -np.inf
    for p in range(tally.playing.shape[0]):
        if tally.playing[p] and (best < 0 or tally.evidence[p] > highest):
            best, highest = p, tally.evidence[p]
    return best


@njit(cache=True, nogil=True)
def add_play(tally, p, amount, slack, share):
    """Add a play to the sums of prior p."""
    tally.counts[p] += 1.0
    tally.sums[p] += amount
    tally.slacks[p] += slack
    tally.weights[p] += share


@njit(cache=True, nogil=True)
def reject(tally, p, t, statistic, bound):
    """Reject prior p, and take it out of play unless it is the last one."""
    tally.rejections[p, 0], tally.rejections[p, 1], tally.rejections[p, 2] = t, statistic, bound
    tally.playing[p] = tally.playing.sum() == 1


@njit(cache=True, nogil=True)
def exhausted(tally):
    """Return whether every prior has been rejected."""
    return tally.rejections[:, 0].min() > 0.0


@njit(cache=True, nogil=True)
def add_evidence(tally, learners, y, mean, variance, noise):
    """Multiply the marginal likelihoods of some priors by the densities N(mean, variance + noise) at y."""
    for p in learners:
        total = variance[p] + noise
        tally.evidence[p] -= 0.5 * (math.log(2.0 * math.pi * total) + (y - mean[p]) ** 2 / total)


# ---- credit of an observation, policy by policy


@njit(cache=True, nogil=True)
def eliminate(tally, t, y, share, mean, std, width, allowance):
    """PE-GP-UCB: credit the prior of largest upper bound at x_t, and reject it if its errors are too large."""
    p = pick(tally, mean + width * std)
    add_play(tally, p, y - mean[p], width * std[p], share)  # lines 8, 11
    errors = abs(tally.sums[p])
    bound = math.sqrt(allowance * tally.weights[p]) + tally.slacks[p]
    if errors > bound and tally.rejections[p, 0] == 0.0:  # line 12
        reject(tally, p, t, errors, bound)  # line 13


@njit(cache=True, nogil=True)
def belief(evidence):
    """Return the posterior probabilities (|U|,) of the priors under a uniform hyperprior."""
    weights = np.empty(evidence.shape[0])
    highest, total = -np.inf, 0.0
    for p in range(weights.shape[0]):
        highest = max(highest, evidence[p])
    for p in range(weights.shape[0]):
        weights[p] = math.exp(evidence[p] - highest)  # without underflow of the largest
        total += weights[p]
    for p in range(weights.shape[0]):
        weights[p] /= total
    return weights


@njit(cache=True, nogil=True)
def lower_bound(tally, p, allowance):
    """Return the lower bound L_p (line 10) of the mean of f over the plays of prior p."""
    return (tally.sums[p] - math.sqrt(allowance * tally.weights[p])) / tally.counts[p]


@njit(cache=True, nogil=True)
def balance(tally, t, y, share, std, width, allowance):
    """Regret balancing: credit the prior with the fewest plays, and reject those whose values are too low."""
    p = pick(tally, -tally.counts)  # line 3
    add_play(tally, p, y, width * std[p], share)  # line 7
    playing, highest = np.flatnonzero(tally.playing), -np.inf
    for q in playing:
        if tally.counts[q] == 0.0:  # line 9
            return
        highest = max(highest, lower_bound(tally, q, allowance))
    for q in playing:
        upper = lower_bound(tally, q, allowance) + tally.slacks[q] / tally.counts[q]
        if upper < highest:  # line 11
            reject(tally, q, t, highest, upper)


@njit(cache=True, nogil=True)
def credit(rule, tally, t, y, share, mean, std, width, allowance):
    """Credit an observation as the policy with number `rule` does."""
    if rule == ELIMINATION:
        eliminate(tally, t, y, share, mean, std, width, allowance)
    elif rule == LIKELIEST:
        add_play(tally, pick(tally, tally.evidence), y, 0.0, share)
    elif rule == AVERAGE:
        tally.counts[:] += belief(tally.evidence)
    else:
        balance(tally, t, y, share, std, width, allowance)


# ---- rounds in a loop


@njit(cache=True, nogil=True)
def average(weights, uppers):
    """Return the averages (n,) of upper bounds (k, n) with weights (k,), those of weight 0 left out."""
    total = np.zeros(uppers.shape[1])
    for k in range(weights.shape[0]):
        if weights[k] != 0.0:
            add(weights[k], uppers[k], total)
    return total


@njit(cache=True, nogil=True)
def add(weight, upper, total):
    """Add an upper bound (n,) times its weight to a sum (n,)."""
    for i in range(total.shape[0]):
        total[i] += weight * upper[i]


@njit(cache=True, nogil=True)
def propose(rule, tally, mean, variance, width, index, total, i, game):
    """Return the candidate that the policy with number `rule` plays in round i of a `Game`.

    `index` and `total` (n,) are scratch space.
    """
    salt, playing = tally.salt, tally.playing
    if rule == AVERAGE:
        weights = belief(tally.evidence)
        total[:] = 0.0
        for p in range(playing.shape[0]):
            if weights[p] != 0.0:
                upper_confidence(mean[p], variance[p], width, 1.0, index)
                add(weights[p], index, total)
        return choose_available(total, i, game)[0]
    if rule != ELIMINATION:
        p = pick(tally, tally.evidence if rule == LIKELIEST else -tally.counts)
        upper_confidence(mean[p], variance[p], width, 1.0, index)
        return choose_available(index, i, game)[0]
    candidates, tops = np.zeros(playing.shape[0], dtype=np.int64), np.empty(playing.shape[0])
    for p in range(playing.shape[0]):
        if playing[p]:
            upper_confidence(mean[p], variance[p], width, 1.0, index)
            candidates[p], tops[p] = choose_available(index, i, game)
    return candidates[choose(tops, playing, candidates, salt)[0]]


@njit(cache=True, nogil=True)
def arrays_of(stack, p):
    """Return the arrays of the engine with number p."""
    return DenseArrays(
        stack.covariance[p], stack.mean[p], stack.variance[p], stack.rows[p], stack.gram[p], stack.inverse[p],
        stack.shift[p], stack.precision[p], stack.weights[p], stack.column[p], stack.slots[p], stack.rank[p],
        stack.gain[p],
    )  # fmt: skip


@njit(cache=True, nogil=True)
def play(rule, constants, tally, stack, learned, game, columns, first):
    """Play rounds from position `first` on, until the windows are full, or no prior is left to PE-GP-UCB.

    All priors in play have observed the same, so that their windows have the same points. `learned` (|U|,) is the
    number of rounds that each prior learnt. `constants` are the number of candidates, delta, the divisor of the squared
    width, and the standard deviation R of the noise. Returns the number of rounds played in all, and whether full
    windows ended the loop.
    """
    mean, variance = stack.mean, stack.variance
    table, noise, lam = game.table, game.noise, game.noise_variance
    size, delta, scale, noise_std = constants
    candidates, ys, widths, gains = columns
    count = mean.shape[0]
    index, total = np.empty(mean.shape[1]), np.empty(mean.shape[1])
    means, variances, stds = np.empty(count), np.empty(count), np.empty(count)
    before = exhausted(tally)
    for i in range(first, noise.shape[0]):
        t = game.first + i
        width = unknown_prior(float(t), size, delta) / math.sqrt(scale)
        x = propose(rule, tally, mean, variance, width, index, total, i, game)
        y = table[x] + noise[i]
        candidates[i], ys[i], widths[i], gains[i] = x, y, width, stack.gain[likeliest(tally), 0]
        learners = np.flatnonzero(tally.playing)
        for p in learners:
            means[p], variances[p], stds[p] = mean[p, x], variance[p, x], math.sqrt(variance[p, x])
            if not dense_observe(arrays_of(stack, p), x, y, lam):
                return i, True
            learned[p] += 1
        allowance = error_allowance(float(t), float(count), delta, noise_std)
        credit(rule, tally, t, y, 1.0, means, stds, width, allowance)
        add_evidence(tally, learners, y, means, variances, lam)
        if rule == ELIMINATION and not before and exhausted(tally):
            return i + 1, False
    return game.noise.shape[0], False
