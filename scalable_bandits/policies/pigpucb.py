"""pi-GP-UCB. Source: Janz, Burt & Gonzalez 2020, section 3; tightening: Janz 2022, chapter 5.

    input: Matern kernel of smoothness nu, parameters B, R, alpha, delta; b = (d + 1) / (d + 2 nu),
           q = d (d + 1) / (d (d + 2) + 2 nu)
    A_1 = cubes of side 1 / round(T^(q / d))                                  (1)
    for t = 1, 2, ...:
        for every A in A_t: fit a Gaussian process to the data in A alone     (2)
        beta_A = B + R sqrt(2 (g_A + 1 + log(N_t / delta))), N_t = 4 (t + 1)^(b d)    (3)
        play x_t = argmax over A and x in A of mu_A(x) + beta_A s_A(x)        (4)
        observe y_t
        split every A with side(A)^(-1 / b) < |D_A| + 1 into 2^d halves       (5)

Differs from the paper in: alpha is 1, as in the paper's experiments, unless `theory` selects the theorem's 1 + 2 / T;
g_A is realised; with `tightening` the index of a cell nowhere exceeds the index that its parent had when it split.
Empty cells, whose index is that of the prior, are groups: a split costs what the observations in it cost, not 2^d.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar, NamedTuple

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.acquisition import UpperConfidence
from scalable_bandits.kernels import Kernel, Matern
from scalable_bandits.kernels.base import unscaled
from scalable_bandits.policies.base import Best, Observations, Policy
from scalable_bandits.policies.confidence import warn_where_unproven
from scalable_bandits.posteriors.partition.argmax_tree import ArgmaxTree
from scalable_bandits.posteriors.partition.box_cells import BoxCells, CubeIndex
from scalable_bandits.posteriors.partition.cell import Cell
from scalable_bandits.posteriors.partition.cover import FEW_DIMENSIONS, make_cover
from scalable_bandits.posteriors.partition.finite_cells import FiniteCells
from scalable_bandits.posteriors.partition.grid_cells import GridCells
from scalable_bandits.posteriors.partition.looped_partition import COMPILED, LoopedPartition, WidthRule
from scalable_bandits.posteriors.partition.observation_log import ObservationLog
from scalable_bandits.posteriors.partition.partition import Partition, Winner
from scalable_bandits.posteriors.partition.remote_cells import MakeCells, RemoteCells
from scalable_bandits.posteriors.regression import Regression
from scalable_bandits.posteriors.rounds import Columns, Game
from scalable_bandits.posteriors.state import State, StateEntry
from scalable_bandits.spaces import EVERYTHING, AvailabilitySets, Box, Domain, Grid, Indices, Mask


class CoverElement(NamedTuple):
    """Description of one cell of the cover."""

    number: int  # from 0, in the order in which cells were made
    depth: int  # number of splits that led to it
    lower: Floats  # (d,) corner, in the space's coordinates
    upper: Floats  # (d,) the opposite corner
    observations: int  # number of observations in it
    born: int  # number of observations told when it was made
    split: int | None  # number of observations told when it split; None if it has not
    parent: int | None  # number of the cell it came from


@attrs.define(eq=False, kw_only=True, slots=False)
class PiGPUCB(Policy):
    """Partitioned improved GP-UCB, with one Gaussian process in each cell of a cover of the space.

    Parameters
    ----------
    kernel
        Prior covariance, in squared units of y. The guarantee is for Matern kernels with nu > 1.
    rkhs_norm
        Bound B on the RKHS norm of f.
    prior_mean
        Constant prior mean, in units of y.
    theory
        Whether the regularization is 1 + 2 / T, as in the theorem; needs the horizon.
    tightening
        Whether the index of a cell is bounded by the index that its parent had when it split.
    nu
        Smoothness in b and q; if not given, that of a Matern kernel, and 2.5 for other kernels.
    enumerated
        Largest number of candidates of a grid at all of which indices are computed: on ten million, the default, that
        is still faster, but takes a gigabyte. Of a larger grid only visited points are numbered, and a cell of more
        than 1,024 candidates (or more than `enumerated`) is searched for its largest index.

    Other parameters are those of `Policy` (`on`: executor of the cells); without a horizon the first cover is one
    cube. On a box each cell maximises its index over its own cube by a scrambled Sobol set and exact gradients;
    `evaluations` counts the points of a box or a large grid at which an index was computed. `posterior` is, at each
    point, that of the cell of largest index there, or of the nearest cell. Up to six dimensions cells are closed cubes;
    in more, a point on shared faces is in one cell alone, and with `tightening` the bound is one number, the largest
    index that the parent had.

    Raises
    ------
    ValueError
        If the space has no coordinates, the kernel forgets, or is not stationary on a box or grid of more than six
        dimensions, nu is not positive, `theory` comes without a horizon or with another regularization, or the
        regularization is lost in the rounding of the prior variance.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> policy = sb.PiGPUCB(sb.Grid([[0, 1]], 30), sb.Matern(0.2, nu=1.5), horizon=1000)
    >>> policy.tell(policy.ask(), 0.5)
    >>> len(policy.cover)
    1
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        StateEntry(
            "partition", "", None, lambda policy: policy._current_partition().state(),
            lambda policy, state: policy._restore_partition(state),
        ),
    )  # fmt: skip
    continuous: ClassVar[bool] = True
    _takes_contexts: ClassVar[bool] = False
    sharded: ClassVar[bool] = True

    kernel: Kernel = attrs.field(kw_only=False, validator=checks.instance_of(Kernel, "a kernel, such as RBF(0.2)"))
    rkhs_norm: float = attrs.field(default=2.0, converter=checks.to_float, validator=checks.positive)
    prior_mean: float = attrs.field(default=0.0, converter=checks.to_float, validator=checks.number)
    theory: bool = attrs.field(default=False, validator=checks.instance_of(bool, "True or False"))
    tightening: bool = attrs.field(default=False, validator=checks.instance_of(bool, "True or False"))
    nu: float | None = checks.optional_number(checks.positive_or_infinite)
    enumerated: int = attrs.field(default=10_000_000, converter=checks.to_int, validator=checks.whole(1))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self.space.has_coordinates:
            checks.refuse("space", self.space, "a Grid, Points or a Box: arms have no coordinates to partition")
        if self.space.named:
            checks.refuse("space", type(self.space).__name__, "a Grid, Points or a Box: cells divide a cube of numbers")
        self.kernel.check(self.space.dimension)
        some = self.domain.sample(self.seed)
        self.kernel.check_values(some)
        if self.kernel.epsilon:
            checks.refuse("kernel", self.kernel, "one without TemporalDecay: cells do not forget")
        if self.theory:
            if self.horizon is None:
                checks.refuse("horizon", None, "a number, for the theorem's regularization 1 + 2 / T")
            theorem = 1.0 + 2.0 / self.horizon
            if self.regularization not in (1.0, theorem):  # 1 is the default
                checks.refuse("regularization", self.regularization, f"no value: theory=True sets {theorem}")
            self.regularization = theorem
        kernel = unscaled(self.kernel)
        own = kernel.nu if isinstance(kernel, Matern) else 0.0
        if not 1.0 < own < math.inf:
            checks.warn(f"PiGPUCB's guarantee is for Matern kernels with nu > 1; the kernel is {self.kernel}")
        warn_where_unproven("PiGPUCB", self.regularization)
        d, nu = self.space.dimension, min(self.nu or own or 2.5, 1e6)  # an RBF kernel is the limit
        self._b = (d + 1) / (d + 2 * nu)
        self._width_rule = WidthRule(math.log(4.0 / self.delta), self._b * d)
        q = d * (d + 1) / (d * (d + 2) + 2 * nu)
        self._divisions = 1 if self.horizon is None else max(round(self.horizon ** (q / d)), 1)  # (1)
        self._partition: Partition | None = self._empty_partition()  # None after `_discard`
        self._measuring.expect_variance(float(self.kernel.diagonal(some).max()), self._forgets, self.horizon)

    def _empty_partition(self, remote: bool = True) -> Partition:
        log, tree = ObservationLog(), ArgmaxTree(self.rkhs_norm, self.noise)
        make: MakeCells
        cover: Any  # of the kind that `make` takes
        if self.domain.by_visit:
            assert isinstance(self.space, Box | Grid)
            index = CubeIndex(UpperConfidence, self.tightening, self.regularization, self._salt, self.enumerated)
            kind = BoxCells if isinstance(self.space, Box) else GridCells
            cover, make = make_cover(self.space, self._points), functools.partial(kind, self.kernel, self._mean, index)
        else:
            cover = make_cover(self.domain.finite, None)
            make = functools.partial(FiniteCells, self.kernel, self._mean, self.regularization, self._salt)
        if not (self.kernel.stationary or cover.lists_cubes):
            allowed = f"a stationary one in more than {FEW_DIMENSIONS} dimensions, where empty cubes are not looked at"
            checks.refuse("kernel", self.kernel, allowed)
        local = self.on is None or not remote
        posteriors = make(cover, log, tree) if local else RemoteCells(make, cover, log, tree, self._executor)
        # The compiled loop reaches only cells in this process.
        looped = LoopedPartition if isinstance(posteriors, FiniteCells) and COMPILED else Partition
        return looped(posteriors, self._divisions, self._split_threshold, self.tightening, self._salt)

    @property
    def _most_numbered(self) -> int:
        return self.enumerated

    @property
    def _mean(self) -> float:
        """Given prior mean, oriented."""
        return float(self._oriented(self.prior_mean))

    def _points(self, candidates: Indices | None) -> Floats:
        return self.domain.points(candidates)

    def _extend(self, grown: Domain) -> None:
        if not grown.by_visit:
            self._discard()  # the next partition is made when it is used, and covers the grown space
        elif grown.size < self.domain.size:  # after an ask that failed
            self._current_partition().forget_candidates(grown.size)

    def _current_partition(self) -> Partition:
        """Return the partition with all observations, made from them if the last one was discarded."""
        if self._partition is None:
            self._partition = self._replay(self._discarded_log)
        return self._partition

    def _discard(self) -> None:
        """Discard the partition, but for the log of its observations, so that `_current_partition` makes another."""
        if self._partition is not None:
            self._discarded_log, self._partition = self._partition.log, None

    def _replay(self, log: ObservationLog, remote: bool = True) -> Partition:
        """Return a new partition with the observations of a log."""
        partition = self._empty_partition(remote)
        for i in range(self.rounds):
            partition.observe(*log.at(i), self._log_term(i + 1))
        return partition

    def _split_threshold(self, divisions: int) -> float:
        """Return side^(-1 / b) of a cell: it splits when its number of observations plus one exceeds this."""
        try:
            return float(divisions ** (1.0 / self._b)) * (1.0 + 1e-12)  # (5); rounding down would split too early
        except OverflowError:  # the kernel is very smooth, so that b is small
            return math.inf

    def _log_term(self, t: int) -> float:
        """Return log(N_t / delta)."""
        return self._width_rule.at(t)  # (3)

    # ---- the algorithm

    def choose(self, allowed: Mask | None = None) -> int | Floats:
        partition, log_term, pending = self._current_partition(), self._log_term(self.round), self._pending.numbers
        winner = partition.last_winner(pending) or partition.argmax(log_term, pending)  # (4)
        if allowed is None:
            return winner.candidate
        return partition.maximize_among(np.flatnonzero(allowed), log_term, pending)[0]

    def _winner(self) -> Winner:
        """Return what is played next, chosen in a copy of the partition if it has not been chosen yet.

        Choosing makes the cells of pending points, which a property must not do.
        """
        partition, pending = self._current_partition(), self._pending.numbers
        winner = partition.last_winner(pending)
        if winner is None:
            remote = self.on is not None
            copied = self._replay(partition.log, remote=False) if remote else partition.copied(self)
            winner = copied.argmax(self._log_term(self.round), pending)
        return winner

    def learn(self, candidate: int, y: float, noise_variance: float) -> None:
        partition = self._current_partition()
        try:
            partition.observe(candidate, y, noise_variance, self._log_term(self.rounds + 1))  # (2), (5)
        except BaseException:  # if workers are lost, some cells may have the observation, others not
            self._discard()
            raise

    def _play(self, table: Floats, noise: Floats, available: AvailabilitySets = EVERYTHING) -> Columns | None:
        partition, pending = self._current_partition(), self._pending
        if type(self) is not PiGPUCB or pending.numbers or pending.excluded or len(available.numbers):
            return None
        if not isinstance(partition, LoopedPartition):
            return None
        columns = Columns.empty(len(noise))
        game = Game(self.rounds + 1, table, noise, self.regularization, self._salt)
        try:
            partition.play(self._width_rule, game, columns)
        except BaseException:  # the partition has some of these rounds
            self._discard()
            raise
        self.rounds += len(noise)
        return columns

    @property
    def width(self) -> float:
        """Confidence width of the cell that is played next."""
        return self._winner().width

    @property
    def information_gain(self) -> float:
        """Information gain (nats) in the cell that is played next."""
        return self._winner().gain

    @property
    def evaluations(self) -> int:
        """Number of points at which cells of a box or a large grid computed their indices so far; else 0."""
        return self._current_partition().posteriors.evaluations

    # ---- results

    def _learned_observations(self) -> Observations:
        log = self._current_partition().log
        candidates, averages, noise_variances = log.collapsed(range(log.count))
        return Observations(self.domain.points(candidates), averages, noise_variances)

    @property
    def cover(self) -> list[CoverElement]:
        """All cells that were ever made: cubes into which a point fell, and with `tightening` the others of a split."""
        return [self._element(cell) for cell in self._current_partition().cells]

    @property
    def empty_cubes(self) -> int:
        """Number of cubes of the present cover that hold candidates and no observation."""
        return self._current_partition().empty_cubes

    def _element(self, cell: Cell) -> CoverElement:
        lower, upper = self._current_partition().cover.bounds(cell.divisions, cell.place)
        parent = None if cell.parent is None else cell.parent.number
        split = None if cell.split < 0 else cell.split
        return CoverElement(cell.number, cell.depth, lower, upper, cell.count, cell.born, split, parent)

    def moments(self, points: Floats) -> tuple[Floats, Floats]:
        mean, variance = np.array([self._moments_at(point) for point in points]).T
        return mean, variance

    def _moments_at(self, point: Floats) -> tuple[float, float]:
        partition, log_term = self._current_partition(), self._log_term(self.round)
        best = (-math.inf, 0.0, 0.0)
        for cell in partition.cells_at(point):
            queried, averages, noise = partition.log.collapsed([] if cell is None else cell.data)
            regression = Regression(self.kernel, self.domain.points(queried), noise, averages - self._mean)
            mean, variance = (float(values[0]) for values in regression.predict(point[None]))
            index = mean + partition.width(0.0 if cell is None else cell.gain, log_term) * math.sqrt(variance)
            best = max(best, (index, mean + self._mean, variance))
        return best[1:]

    def recommend(self) -> Best:
        """Return the queried point of best posterior mean; before the first `tell`, the first point to be played."""
        candidate, mean, std = self._current_partition().best_queried()
        if candidate < 0:
            found = self._winner().candidate
            x = found if isinstance(found, np.ndarray) else self.domain.value(found)
            return Best(x, self._mean, self._current_partition().posteriors.prior_std)
        return Best(self.domain.value(candidate), mean, std)

    # ---- state

    def _restore_partition(self, state: State) -> None:
        self._partition = self._empty_partition()
        self._partition.restore(state)
