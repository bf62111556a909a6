"""Batched pure exploration with elimination. Source: Li & Scarlett 2022, Algorithm 1.

    input: candidates D, prior GP(m, k), T, parameters B, R, lambda, delta;   C_1 = D, N_0 = 1
    for batch i = 1, 2, ...:
        N_i = ceil(sqrt(T N_{i-1})), at most the rounds that are left                                  (1)
        for j = 1, ..., N_i: play x_j = argmax of s_{j-1}(x) over C_i, s of the j - 1 points before    (2)
        observe the values of the batch: mu_i, s_i of this batch alone
        C_{i+1} = {x in C_i: mu_i(x) + beta s_i(x) >= max over C_i of mu_i - beta s_i}                 (3)

No point depends on a value of its own batch: all may be evaluated at once, and values are waited for O(log log T)
times. Hence also beta = B + R / sqrt(lambda) sqrt(2 log(2 |D| n / delta)) for n batches, without the information gain.

With a fixed number n of batches, N_i = ceil(T^((1 - 2^-i) / (1 - 2^-n))), which makes N_i / sqrt(N_{i-1}) the same for
all i.                                                                                                  (4)

Late values (after Vakili, Ahmed, Bernacchia & Pike-Burke 2023): a batch ends although a share of its values is missing.
What comes later belongs to the next batch, whose candidates do not depend on it.                       (5)

Differs from the paper in: the width is for both sides; N_i of (4) is that of smooth kernels for all kernels, without
its factors of log T. Points told that were not asked for belong to the batch and count as its rounds. A point asked for
after the N_i-th of a batch that still waits for values makes the batch longer by one, and what is pending at its end is
late. Of an availability set without a point of C_i all are candidates. After T rounds the last batch goes on.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import ClassVar

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.formulas.confidence import independent
from scalable_bandits.policies.gp_policy import GaussianProcessPolicy
from scalable_bandits.posteriors import State
from scalable_bandits.posteriors.model import DEVIATION, Model
from scalable_bandits.posteriors.state import Field, group, number, value
from scalable_bandits.spaces import Domain, Indices, Mask


def batch_lengths(horizon: int, batches: int | None = None) -> tuple[int, ...]:
    """Return the numbers of rounds N_1, N_2, ... of the batches, which sum to the horizon.

    Parameters
    ----------
    horizon
        Number T of rounds.
    batches
        Number n of batches; None for (1), which has O(log log T).

    Raises
    ------
    ValueError
        If there are more batches than rounds.

    Examples
    --------
    >>> batch_lengths(1_000_000)
    (1000, 31623, 177829, 421698, 367850)
    >>> batch_lengths(1_000_000, batches=2)
    (10000, 990000)
    """
    if batches is not None and batches > horizon:
        checks.refuse("batches", batches, f"at most the number of rounds, {horizon}")
    found: list[int] = []
    while (left := horizon - sum(found)) > 0:
        i, previous = len(found) + 1, found[-1] if found else 1
        if batches is None:
            length = math.ceil(math.sqrt(horizon * previous))  # (1)
        else:
            length = math.ceil(horizon ** ((1.0 - 0.5**i) / (1.0 - 0.5**batches)))  # (4)
            length = left if i == batches else min(length, left - (batches - i))  # of the others at least a round each
        found.append(min(length, left))
    return tuple(found)


@attrs.define(eq=False, kw_only=True, slots=False)
class PhasedElimination(GaussianProcessPolicy):
    """Pure exploration in a few batches, after each of which candidates are eliminated; for a known horizon.

    It buys few synchronisations, long horizons and many workers: in 10^4 rounds its regret is larger than that of
    `IGPUCB`. `posterior`, `best` and `information_gain` use all observations; the elimination uses a batch's own.

    Parameters
    ----------
    rkhs_norm
        Bound B on the RKHS norm of f.
    batches
        Number of batches; None for the lengths (1), whose number grows as log log T.
    delay
        Share of a batch's values, from 0 to below 1, that may be missing when it ends.

    Other parameters are those of `GaussianProcessPolicy` and `Policy`. A box is played on candidates.

    Raises
    ------
    ValueError
        If there is no horizon, more batches than rounds, the kernel forgets or is to be learned, or the engine is not
        exact.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> options = {"noise": 0.1, "regularization": 0.01, "rkhs_norm": 0.5}
    >>> policy = sb.PhasedElimination(sb.Grid([[0, 1]], 30), sb.RBF(0.2), horizon=400, **options)
    >>> policy.lengths
    (20, 90, 190, 100)
    >>> points = policy.ask(policy.missing)  # a whole batch, for as many workers as there are
    >>> policy.tell(points, -4 * (points[:, 0] - 0.3) ** 2)
    >>> policy.batch, len(policy.surviving) < 30
    (2, True)
    """

    STATE: ClassVar[tuple[Field, ...]] = (
        number("batch", int),
        number("_told", int),
        value(
            "late", "(k,)", np.int64, lambda self: self._late,
            lambda self, numbers: setattr(self, "_late", numbers.tolist()),
        ),
        value(
            "surviving", "(m,)", np.int64, lambda self: self.surviving,
            lambda self, numbers: setattr(self, "_surviving", numbers.copy()),
        ),
        group("batch_model", lambda self: self._own.state(), lambda self, state: self._restore_own(state)),
    )  # fmt: skip

    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    batches: int | None = attrs.field(default=None, converter=checks.to_int, validator=checks.whole(1, optional=True))
    delay: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.below_one)
    batch: int = attrs.field(default=1, init=False)
    lengths: tuple[int, ...] = attrs.field(init=False, repr=False)
    _told: int = attrs.field(default=0, init=False, repr=False)  # values of the batch's own points
    _late: list[int] = attrs.field(init=False, factory=list, repr=False)  # pending points of earlier batches
    _surviving: Indices = attrs.field(init=False, repr=False)  # C_i, ascending
    _own: Model = attrs.field(init=False, repr=False)  # of the batch's values alone

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.prior_kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: batches do not forget")
        if self.engine == "sketched":
            checks.refuse("engine", self.engine, "'auto', 'dense' or 'tiled', which are exact")
        if self.refit is not None:
            checks.refuse("refit", self.refit, "None: the points of a batch are chosen before its values are known")
        if self.horizon is None:
            checks.refuse("horizon", None, "a number of rounds: the lengths of the batches depend on it")
        self.lengths = batch_lengths(self.horizon, self.batches)
        intervals = self.domain.choosable * len(self.lengths)
        self._width = independent(intervals, self.delta, self.rkhs_norm, self.noise, self.regularization)
        self._surviving = np.arange(self.domain.choosable)
        self._own = self.make_model()

    # ---- the algorithm

    @property
    def width(self) -> float:
        """Confidence width beta of all batches."""
        return self._width

    @property
    def surviving(self) -> Indices:
        """Numbers (m,) of the candidates that no batch has eliminated, ascending."""
        return self._surviving

    @property
    def missing(self) -> int:
        """Number of points of the present batch that have not been asked for."""
        return max(0, self._length - self._told - self._waiting().total())

    @property
    def _length(self) -> int:
        return self.lengths[self.batch - 1]

    def _waiting(self) -> Counter[int]:
        """Return the pending points of the batch, with their numbers."""
        return Counter(self._pending.numbers) - Counter(self._late)

    def choose(self, allowed: Mask | None = None) -> int:
        mask = np.zeros(self.domain.size, dtype=np.bool_)
        mask[self._surviving] = True
        if allowed is not None:
            mask &= allowed
            mask = mask if mask.any() else allowed
        reduction = self._own.reduction(self._pending.numbers)
        return self._own.engine.maximize(DEVIATION, self._salt, mask, reduction)[0]  # (2)

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        super().learn(candidate, y, noise_variance)
        self._own.observe(candidate, y, noise_variance)
        if candidate in self._late:
            self._late.remove(candidate)  # (5)
        else:
            self._told += 1
        needed = self._length - math.floor(self.delay * self._length)
        if self.batch < len(self.lengths) and self._told >= needed and not self.missing:
            self._eliminate()

    def _eliminate(self) -> None:
        """End the batch: eliminate candidates by its values, and begin the next."""
        mean, variance = self._own.engine.at(self._surviving)
        half = self._width * np.sqrt(variance)
        self._surviving = self._surviving[mean + half >= np.max(mean - half)]  # (3)
        self.batch, self._told = self.batch + 1, 0
        self._late = list(self._pending.numbers)
        self._own = self.make_model()

    # ---- state

    def extend(self, grown: Domain) -> None:
        super().extend(grown)
        self._own = self._own.extended(grown)

    def _restore_own(self, state: State) -> None:
        self._own = self.make_model()
        self._own.restore(state)
