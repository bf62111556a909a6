"""LB-GP-UCB, lengthscale balancing. Source: Ziomek, Adachi & Osborne 2024, Algorithm 1 (arXiv 2410.10384).

    input: longest lengthscale theta_0, bound N on the norm of f under it; R, delta; g(t) = max(t_0, t^growth)
    q(i) = theta_0 exp(-i / d), B(theta) = (theta_0 / theta)^(d / 2) N
    Theta = {q(0), ..., q(l)}, the candidates with q(l) >= theta_0 / t_0
    for t = 1, 2, ...:
        theta_t = argmin over Theta of R(|S_theta| + 1),
            R(n) = sqrt(n) (B(theta) sqrt(gamma_n) + gamma_n)                                             (line 3)
        play x_t = argmax of mu_theta(x) + beta_t s_theta(x), theta = theta_t,
            beta_t = B(theta) + R sqrt(2 (g_{t-1} + 1 + log(2 / delta)))                                  (line 4)
        observe y_t, update all models; S_theta = the rounds played by theta                              (lines 5-7)
        xi_t = 2 R^2 log(A pi^2 t^2 / (3 delta)), where A candidates have been introduced
        if every theta in Theta has been played:                                                          (line 9)
            L_theta = mean over S_theta of y_i - sqrt(xi_t / |S_theta|)                                   (line 11)
            keep theta if the mean over S_theta of y_i, plus sqrt(xi_t / |S_theta|), plus twice the mean of
            beta_i s_{i-1}(x_i), is at least max over Theta of L                                          (line 12)
        if theta_0 / g(t) <= q(l + 1): add q(l + 1) to Theta, l = l + 1                                   (lines 14-16)

Differs from the paper in: line 12 has + sqrt(xi_t / |S_theta|), as the proof needs (Lemma B.2; the algorithm there has
L_theta, with a minus). Line 14 there has the inequality reversed, which would add every lengthscale at once, and its
counter begins at 1, which would leave out q(1). The first candidates are there from the start; the paper adds them one
a round. g_{t-1} is the realised information gain of theta's model; gamma_n is the rate of Proposition 2.2, with
lengthscales in units of the sides of the space (the unit cube there). As gamma_1 = 0, a new lengthscale is played at
once, and a seeded hash decides between several. Lambda is free. A measurement of noise s counts (s / R)^2
times: of n plays sqrt(xi_t / n) becomes sqrt(xi_t sum of (s_i / R)^2) / n.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import improved
from scalable_bandits.formulas.lengthscales import gain_rate, mean_allowance, norm_bound, suspected_regret
from scalable_bandits.kernels import RBF, Kernel, Matern
from scalable_bandits.kernels.base import unscaled
from scalable_bandits.policies import _numba_priors as numba_priors
from scalable_bandits.policies.base import Policy
from scalable_bandits.policies.confidence import warn_where_unproven
from scalable_bandits.policies.prior_model import PriorShard
from scalable_bandits.policies.tally import Tally
from scalable_bandits.policies.unknown_prior import UnknownPriorPolicy
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.state import State, nested
from scalable_bandits.priors import Prior
from scalable_bandits.spaces import Mask


def _part_with_lengthscale(kernel: Any) -> RBF | Matern | None:
    """Return the kernel without its output scales; None if it is neither RBF nor Matern."""
    alone = unscaled(kernel)
    return alone if isinstance(alone, RBF | Matern) else None


def _balanced(_: Policy, field: attrs.Attribute[Any], value: Any) -> None:
    checks.instance_of(Kernel, "a kernel, such as RBF(0.2)")(_, field, value)
    if _part_with_lengthscale(value) is None:
        checks.refuse(field.name, value, "RBF or Matern, also times a number, whose lengthscale can be shortened")


@attrs.define(eq=False, kw_only=True, slots=False)
class LBGPUCB(UnknownPriorPolicy):
    """Lengthscale balancing: upper confidence bounds for a function whose lengthscale is not known.

    The candidates are the lengthscale of the given kernel, which should not be too short, and shorter ones; more are
    added as rounds pass. The policy plays the lengthscale whose regret is suspected to be lowest, and rejects
    lengthscales whose values are too low. Several lengthscales of a kernel are divided by the same number.

    Parameters
    ----------
    kernel
        Prior covariance with the longest lengthscale, in squared units of y: RBF or Matern, also times a number.
    rkhs_norm
        Bound N on the RKHS norm of f minus the prior mean, under the kernel with the lengthscale of f, which is at most
        the given one, theta_0. The bound used for a lengthscale theta is (theta_0 / theta)^(d / 2) N.
    growth
        Exponent of g(t) = t^growth: after t rounds there are lengthscales down to the longest one over g(t). With 0, no
        lengthscale is added.
    initial
        Number of candidate lengthscales at the start.
    prior_mean
        Constant prior mean, in units of y.

    Other parameters are those of `UnknownPriorPolicy` (without `priors`) and `Policy`. A pending point counts as a play
    of the lengthscale that its observation will be credited to.

    Raises
    ------
    ValueError
        If the kernel is neither RBF nor Matern, the space has no ordered coordinates, a parameter is out of range, or
        as for `UnknownPriorPolicy`.

    Attributes
    ----------
    priors : tuple
        `Prior` of each lengthscale introduced so far, the longest first.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.LBGPUCB(sb.Grid([[0, 1]], 30), sb.RBF(0.8), initial=3, noise=0.1)
    >>> policy.tell(policy.ask(), 0.5)
    >>> policy.surviving
    ('lengthscale 0.8', 'lengthscale 0.2943', 'lengthscale 0.1083')
    """

    kernel: Kernel = attrs.field(kw_only=False, validator=_balanced)
    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    growth: float = attrs.field(default=0.5, converter=checks.to_float, validator=checks.nonnegative)
    initial: int = attrs.field(default=5, converter=checks.to_int, validator=checks.whole(1, below=101))
    prior_mean: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.number)
    priors: tuple[Prior, ...] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        ordered = [k for k in range(self.space.model_dimension) if k not in self.space.unordered]
        if not self.space.has_coordinates or not ordered:
            checks.refuse("space", self.space, "a space with ordered coordinates, which lengthscales refer to")
        part, sides = _part_with_lengthscale(self.kernel), self.space.side_lengths
        assert part is not None
        assert sides is not None
        part.check(len(ordered))
        self._dimension = len(ordered)
        self._nu = part.nu if isinstance(part, Matern) else math.inf
        self._volume = float(np.prod(sides[ordered] * part.inverse(len(ordered))))
        self.priors = tuple(map(self._prior, range(self.initial)))
        super().__attrs_post_init__()
        warn_where_unproven("LBGPUCB", self.regularization)

    def _prior(self, number: int) -> Prior:
        """Return the prior of the lengthscale q(number)."""
        ratio = math.exp(number / self._dimension)
        values = [p.value / ratio if p.name == "lengthscale" else p.value for p in self.kernel.hyperparameters]
        kernel = self.kernel.with_hyperparameters(values)
        lengthscales = ", ".join(f"{p.value:.4g}" for p in kernel.hyperparameters if p.name == "lengthscale")
        return Prior(f"lengthscale {lengthscales}", kernel, self.prior_mean)

    # ---- the lengthscale that plays

    def _ratios(self) -> Floats:
        """Return theta_0 / theta (|U|,) of every lengthscale introduced so far."""
        return np.asarray(np.exp(np.arange(len(self.priors)) / self._dimension))

    def _turn(self, counts: Floats) -> int:
        """Return the number of the lengthscale that plays after some numbers of plays (|U|,)."""
        ratios = self._ratios()
        norms = norm_bound(self.rkhs_norm, ratios, self._dimension)
        gains = gain_rate(counts + 1.0, ratios, self._dimension, self._nu, self._volume)
        return self.pick(-suspected_regret(counts + 1.0, norms, gains))  # line 3

    def _next_turn(self) -> int:
        """Return the number of the lengthscale that plays the next round."""
        return self.turn_after_pending(self._turn)

    def _width_under(self, number: int) -> float:
        """Return beta of a lengthscale, given the observations so far."""
        norm = float(norm_bound(self.rkhs_norm, self._ratios(), self._dimension)[number])
        return improved(self._gain_of(number), self.delta / 2.0, norm, self.noise) / math.sqrt(self.scale)  # line 4

    def width_of(self, t: int) -> float:
        """Return the width of the lengthscale that plays the next round, whatever t; no other width is known."""
        return self._width_under(self._next_turn())

    def allowance(self, t: int) -> float:
        """Return xi_t of a round, in squared units of y."""
        return mean_allowance(t, len(self.priors), self.delta, self.noise)

    def choose(self, allowed: Mask | None = None) -> int:
        return self.proposals([self._next_turn()], allowed)[0].candidate  # line 4

    @property
    def information_gain(self) -> float:
        """Realised information gain (nats) under the lengthscale that plays the next round."""
        return self._gain_of(self._next_turn())

    # ---- observations

    def credit(self, t: int, y: float, share: float, mean: Floats, std: Floats) -> None:
        turn, playing, tally = self._turn(self.tally.counts), self._playing, self.tally
        self.add_play(turn, y, self._width_under(turn) * float(std[turn]), share)  # lines 5-7
        counts = tally.counts[playing]
        if not counts.all():  # line 9
            return
        means, errors = tally.sums[playing] / counts, np.sqrt(self.allowance(t) * tally.weights[playing]) / counts
        highest = float((means - errors).max())  # line 11
        uppers = means + errors + 2.0 * tally.slacks[playing] / counts
        for number, upper in zip(playing, uppers.tolist(), strict=True):
            if upper < highest:  # line 12
                numba_priors.reject(tally, number, t, highest, upper)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        number = len(self.priors)
        if number > self._dimension * self.growth * math.log(self.rounds + 1):  # theta_0 / g(t) > q(number)
            super().learn(candidate, y, noise_variance)
            return
        # All that may fail comes before the other models learn; the next attempt then replaces the new model.
        prior, reference = self._prior(number), self._playing[0]
        observed = CollapsedObservations()
        observed.restore(self._shards.ask([reference], PriorShard.observed)[0])
        observed.add(candidate, y, noise_variance)
        gained = self._log_likelihood(prior, observed) - self._log_likelihood(self.priors[reference], observed)
        maker, state = self._maker(prior, self.domain.model_space), nested(observed=observed.state())
        setup = functools.partial(PriorShard.take, state=state, size=self.domain.size)
        self._source.add(number, maker, setup)  # lines 14-16
        self._shards.add(number)
        super().learn(candidate, y, noise_variance)
        self.priors = (*self.priors, prior)
        self.tally = self.tally.with_prior(float(self.tally.evidence[reference]) + gained)

    def _log_likelihood(self, prior: Prior, observed: CollapsedObservations) -> float:
        """Return the log density of averages; that of all observations differs by a term which all priors share."""
        candidates, averages, noise_variances = observed.collapsed()
        space, oriented = self.domain.model_space, self._oriented_prior(prior)
        x = space.points(candidates)
        return Regression(oriented.kernel, x, noise_variances, averages - oriented.mean_at(x, 1, space)).log_likelihood

    def before_restore(self, state: State) -> None:
        """Make as many priors as the state has."""
        count = len(state["counts"])
        self.priors = tuple(map(self._prior, range(count)))
        self.tally = Tally.of(count, self._salt)
