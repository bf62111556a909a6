"""An agent of `DUETS`: it has its observations of a batch, and sends summaries of them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.collapsed import CollapsedObservations
from scalable_bandits.posteriors.sketched.estimate import summary
from scalable_bandits.posteriors.state import State
from scalable_bandits.spaces import FiniteSpace, Indices, make_domain


class Value(NamedTuple):
    """A value that an agent observed."""

    agent: int
    candidate: int
    residual: float  # y minus the prior mean, in units of y
    noise_variance: float  # in squared units of y


class AgentSummary(NamedTuple):
    """What an agent sends."""

    values: Floats  # (z,) of `posteriors.sketched.estimate`
    model: str  # hash of the kernel and the inducing points


def model_hash(kernel: Kernel, inducing: Floats) -> str:
    """Return a hash of a kernel and points (z, d), which agents and coordinator compare."""
    return hashlib.blake2b(repr(kernel).encode() + inducing.tobytes(), digest_size=8).hexdigest()


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

    def summary(self, inducing: Indices, last: Value) -> AgentSummary:
        """Return the summary at inducing points (z,); `last` is an observation, of any agent, that is not yet added."""
        observed = self._observed
        if last.agent == self._number:
            observed = observed.plus(last.candidate, last.residual, last.noise_variance)
        points, averages, noise_variances = observed.collapsed()
        z, x = self._domain.coordinates(inducing), self._domain.coordinates(points)
        return AgentSummary(summary(self._kernel, z, x, averages, noise_variances), model_hash(self._kernel, z))


class Agents:
    """Source of agents.

    Parameters
    ----------
    kernel, space
        See `Agent`.
    observed
        Observations of each agent.
    """

    def __init__(self, kernel: Kernel, space: FiniteSpace, observed: Sequence[CollapsedObservations]):
        self._kernel, self._space, self.observed = kernel, space, observed

    def __call__(self, number: int) -> functools.partial[Agent]:
        """Return the function that makes an agent."""
        return functools.partial(Agent, number, self._kernel, self._space, self.observed[number].state())
