"""DUETS, distributed uniform exploration of trimmed sets. Source: Pavlovic, Salgia & Zhao 2024 (arXiv 2402.13182).

    input: agents 1, ..., N, candidates D, prior GP(m, k), T rounds in all, parameters B, R, lambda, delta;   C_1 = D
    for batch i = 1, 2, ...:
        the agents observe N_i points drawn uniformly from C_i. The draws follow from the seed: all know all points  (1)
        inducing points Z: each distinct point x, with probability min(1, qbar s^2(x) / noise variance there)        (2)
        agent n sends v_n = K(Z, X_n) y_n / lambda, of its own points X_n and values y_n                             (3)
        mu(x) = k_Z(x)' (K_ZZ + K_ZX K_XZ / lambda)^-1 (v_1 + ... + v_N)                                             (4)
        C_{i+1} = {x in C_i: mu(x) + h(x) >= max over C_i of mu - h}, sent to the agents                             (5)

An agent's values stay with it; what is sent follows the number of distinct points, not that of observations.

h(x) is the largest error of mu(x). With averages y_j of the values at each point x_j, N_j the noise variances of the
averages, L = `noise_factor`, and W_j(x) the weights with mu(x) = sum_j W_j(x) y_j, which follow from the points alone,

    h(x) = B |k(x, .) - sum_j W_j k(x_j, .)| + R / sqrt(lambda) sqrt(sum_j N_j W_j^2) L                            (6)

Differs from the paper in: h(x) is computed from the points, where the paper bounds it by the largest deviation; N_i is
that of `PhasedElimination`. The text could not be read, only its abstract and a summary: (2) is that of BKB.
Observations belong to the agents in turn. After a point was given up, a draw may come twice.
"""

from __future__ import annotations

import functools
from typing import ClassVar, NamedTuple

import attrs
import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.formulas.confidence import noise_factor
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.batched_elimination import BatchedElimination
from scalable_bandits.posteriors import Engine, EngineOptions, State, make_engine
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.placement import Shards
from scalable_bandits.posteriors.regression import covariances, positive_factor
from scalable_bandits.posteriors.state import StateEntry, group, member, nested, number, part
from scalable_bandits.randomness import derived_seed, generator, integers
from scalable_bandits.spaces import Domain, FiniteSpace, Indices, Mask, make_domain

DRAWS = 4096  # points drawn at a time
BLOCK = 4096  # points whose errors are computed at a time


class Errors(NamedTuple):
    """Estimate at k points, with the two parts of the bound on its error."""

    mean: Floats  # (k,), in units of y
    bias: Floats  # (k,) |k(x, .) - sum_j W_j k(x_j, .)|, to be multiplied by B
    spread: Floats  # (k,) sqrt(sum_j N_j W_j^2), to be multiplied by R / sqrt(lambda) L


def leverages(kernel: Kernel, points: Floats, noise_variances: Floats) -> Floats:
    """Compute, at points (m, d), the posterior variances over the noise variances (m,) of the averages: (m,)."""
    factor = positive_factor(covariances(kernel, points, points), noise_variances)
    inverse = solve_triangular(factor, np.eye(len(points)), lower=True)
    return np.asarray(1.0 - noise_variances * np.einsum("ij,ij->j", inverse, inverse))


def summary(kernel: Kernel, inducing: Floats, points: Floats, averages: Floats, noise_variances: Floats) -> Floats:
    """Compute the summary v (z,) at inducing points (z, d) from averages (m,) of the values at points (m, d)."""
    return np.asarray(covariances(kernel, inducing, points) @ (averages / noise_variances))


def sparse_estimate(
    kernel: Kernel, points: Floats, noise_variances: Floats, chosen: Indices, total: Floats, x: Floats
) -> Errors:  # fmt: skip
    """Compute the sparse estimate of a function, and the bound on its error.

    Parameters
    ----------
    kernel
        Prior covariance, in squared units of y.
    points
        (m, d) points X, all distinct.
    noise_variances
        (m,) noise variances N of the averages at the points, in squared units of y.
    chosen
        Numbers (z,) of the inducing points among the points.
    total
        (z,) sum of all summaries.
    x
        (k, d) points of the estimate.
    """
    gram = covariances(kernel, points, points)
    factor = positive_factor(gram[np.ix_(chosen, chosen)], np.zeros(len(chosen)))
    known = solve_triangular(factor, gram[chosen], lower=True)  # (z, m) features of the points
    inner = positive_factor(np.eye(len(chosen)) + (known / noise_variances) @ known.T, np.zeros(len(chosen)))
    u, parts = solve_triangular(factor, total, lower=True), []
    for start in range(0, len(x), BLOCK):
        some = x[start : start + BLOCK]
        features = solve_triangular(factor, covariances(kernel, points[chosen], some), lower=True)
        solved = cho_solve((inner, True), features)
        weights = (known.T @ solved) / noise_variances[:, None]
        cross = covariances(kernel, points, some)
        squared = kernel.diagonal(some) + np.einsum("ij,ij->j", weights, gram @ weights - 2.0 * cross)
        spread = np.sqrt(noise_variances @ weights**2)
        parts.append((solved.T @ u, np.sqrt(np.maximum(squared, 0.0)), spread))
    return Errors(*map(np.concatenate, zip(*parts, strict=True)))


class Value(NamedTuple):
    """A value that an agent observed."""

    agent: int
    candidate: int
    residual: float  # y minus the prior mean, in units of y
    noise_variance: float  # in squared units of y


class Agent:
    """Observations of a batch, a shard of `DUETS`.

    Parameters
    ----------
    number
        Number of the agent.
    kernel
        Prior covariance, in squared units of y.
    space
        Space of the candidates.
    observed
        State of the observations so far.
    """

    def __init__(self, number: int, kernel: Kernel, space: FiniteSpace, observed: State):
        self._number, self._kernel, self._domain = number, kernel, make_domain(space, None, 0)
        self._observed = CollapsedObservations()
        self._observed.restore(observed)

    def begin(self) -> None:
        """Begin a batch, without observations."""
        self._observed = CollapsedObservations()

    def observe(self, value: Value) -> None:
        """Add an observation of this agent."""
        self._observed.add(value.candidate, value.residual, value.noise_variance)

    def summary(self, inducing: Indices, last: Value) -> Floats:
        """Return v (z,) at inducing points (z,); `last` is an observation, of any agent, that is not yet added."""
        observed = self._observed
        if last.agent == self._number:
            observed = observed.plus(last.candidate, last.residual, last.noise_variance)
        points, averages, noise_variances = observed.collapsed()
        z, x = self._domain.coordinates(inducing), self._domain.coordinates(points)
        return summary(self._kernel, z, x, averages, noise_variances)


@attrs.define(eq=False, kw_only=True, slots=False)
class DUETS(BatchedElimination):
    """Uniform exploration by several agents, which send summaries of their values once a batch; for a known horizon.

    Parameters
    ----------
    agents
        Number N of agents.
    oversampling
        Factor qbar of (2): the larger it is, the more numbers are sent, and the closer mu comes to the posterior mean.
    on
        Executor of the agents: None, "threads:4", "local:4", an address, a client or a recipe.

    Attributes
    ----------
    sent : int
        Numbers sent so far: by the agents v_n, to each agent the numbers of the inducing points and of the eliminated
        candidates; read only.

    Other parameters are those of `BatchedElimination`, `GaussianProcessPolicy` and `Policy`. The observation of round t
    is of agent t mod N. `posterior` and `best` use all observations told to this policy, the elimination what agents
    send. `information_gain` is 0: no width uses it.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> options = {"noise": 0.1, "regularization": 0.01, "rkhs_norm": 1.0, "horizon": 10_000}
    >>> space = sb.Grid([[0, 1]], 30)
    >>> function = sb.RKHSFunction.sparse(space, sb.RBF(0.2), sb.GaussianNoise(0.1), seed=1)
    >>> policy = sb.DUETS(space, sb.RBF(0.2), agents=4, **options)
    >>> run = sb.simulate(policy, function, 10_000)
    >>> policy.sent < 1_000, len(policy.surviving) < 10
    (True, True)
    """

    STATE: ClassVar[tuple[StateEntry, ...]] = (
        number("sent", int),
        member("_points"),
        group(
            "agents", lambda self: nested(**{str(i): observed.state() for i, observed in enumerate(self._observed)}),
            lambda self, states: self._restore_agents(states),
        ),
    )  # fmt: skip

    agents: int = attrs.field(default=4, converter=checks.to_int, validator=checks.whole(1))
    sent: int = attrs.field(default=0, init=False, on_setattr=attrs.setters.NO_OP)
    # Points of the batch, without values, and each agent's observations of it.
    _points: CollapsedObservations = attrs.field(init=False, factory=CollapsedObservations, repr=False)
    _observed: list[CollapsedObservations] = attrs.field(init=False, repr=False)
    _draws: tuple[tuple[int, int], Indices] | None = attrs.field(default=None, init=False, repr=False)
    _inducing_sent: int = attrs.field(default=0, init=False, repr=False)  # number of the inducing points of a batch
    _shards: Shards[Agent] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._observed = [CollapsedObservations() for _ in range(self.agents)]
        self._shards = self._executor.shards(self._agent, self.agents, "agents of DUETS")

    def _agent(self, number: int) -> functools.partial[Agent]:
        """Return the function that makes an agent as it is now."""
        space = self.model.domain.model_space
        return functools.partial(Agent, number, self._prior_kernel, space, self._observed[number].state())

    # ---- the algorithm

    def choose(self, allowed: Mask | None = None) -> int:
        place = self.asked_of_batch
        block, offset = divmod(place, DRAWS)
        if self._draws is None or self._draws[0] != (self.batch, block):
            found = integers(self._seed_of_batch, "draws", block * DRAWS, DRAWS, len(self._surviving))
            self._draws = (self.batch, block), found
        drawn = int(self._surviving[self._draws[1][offset]])  # (1)
        if allowed is None or allowed[drawn]:
            return drawn
        mask = self._choosable(allowed)
        assert mask is not None
        numbers = np.flatnonzero(mask)
        return int(numbers[generator(self._seed_of_batch, "available", place).integers(len(numbers))])

    @property
    def _seed_of_batch(self) -> int:
        return derived_seed(self.seed, "batch", self.batch)

    def survivors(self, candidate: int, y: float, noise_variance: float) -> Indices:
        numbers, noise_variances, chosen = self._inducing(self._points.plus(candidate, 0.0, noise_variance))
        inducing, kernel = numbers[chosen], self.model.kernel
        last = self._value_of(candidate, y, noise_variance)
        summaries = self._shards.ask(range(self.agents), Agent.summary, inducing, last)  # (3)
        points, x = self.domain.coordinates(numbers), self.domain.coordinates(self._surviving)
        found = sparse_estimate(kernel, points, noise_variances, chosen, np.sum(summaries, axis=0), x)  # (4)
        noise = self.noise / np.sqrt(self.regularization) * noise_factor(self.intervals, self.delta)
        mean, half = found.mean + self.model.prior_mean(x), self.rkhs_norm * found.bias + noise * found.spread  # (6)
        self._inducing_sent = len(inducing)
        return self._surviving[mean + half >= np.max(mean - half)]  # (5)

    def _inducing(self, points: CollapsedObservations) -> tuple[Indices, Floats, Indices]:
        """Return the distinct points of the batch (m,), their noise variances (m,), and the places of Z (z,)."""
        numbers, _, noise_variances = points.collapsed()
        probability = self.oversampling * leverages(
            self.model.kernel, self.domain.coordinates(numbers), noise_variances
        )
        drawn = generator(self._seed_of_batch, "inducing points").random(len(numbers)) < probability  # (2)
        if not drawn.any():
            drawn[np.argmax(probability)] = True
        return numbers, noise_variances, np.flatnonzero(drawn)

    def _value_of(self, candidate: int, y: float, noise_variance: float) -> Value:
        mean = self.model.prior_mean(self.domain.coordinates(np.array([candidate])))
        return Value(self.rounds % self.agents, candidate, y - float(mean[0]), noise_variance)

    def add_value(self, candidate: int, y: float, noise_variance: float) -> None:
        value = self._value_of(candidate, y, noise_variance)
        self._shards.tell([value.agent], Agent.observe, value)
        self._observed[value.agent].add(candidate, value.residual, noise_variance)
        self._points.add(candidate, 0.0, noise_variance)

    def begin(self, eliminated: Indices) -> None:
        self._shards.tell(None, Agent.begin)
        self._observed = [CollapsedObservations() for _ in range(self.agents)]
        self._points = CollapsedObservations()
        self.sent += self.agents * (2 * self._inducing_sent + len(eliminated))

    # ---- results and state

    @property
    def information_gain(self) -> float:
        """0: no posterior of the present batch is kept up to date."""
        return 0.0

    def _make_engine(self, kernel: Kernel, points: Floats, prior_mean: Floats) -> Engine:
        return make_engine(self.engine, kernel, points, prior_mean, EngineOptions())

    def _engine_is_sharded(self) -> bool:
        return True  # the executor holds the agents

    def _extend(self, grown: Domain) -> None:
        super()._extend(grown)
        self._shards.renew()

    def _restore_agents(self, states: State) -> None:
        for agent, observed in enumerate(self._observed):
            observed.restore(part(states, str(agent)))
        self._shards.renew()  # agents get the restored observations
