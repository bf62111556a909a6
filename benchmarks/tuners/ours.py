"""The package's default tuner, as a user writes it."""

from __future__ import annotations

from typing import Any

import scalable_bandits as sb
from benchmarks.tuners.problems import Parameters, Setting


def space_of(parameters: Parameters) -> sb.SearchSpace:
    """Make the space: intervals are `Real`, lists are taken as they are."""
    return sb.SearchSpace({n: sb.Real(*each) if isinstance(each, tuple) else each for n, each in parameters.items()})


class Ours:
    """`GPEI(space)`: nothing is given but the space and the seed; the first points are the policy's own.

    Parameters
    ----------
    parameters
        Parameters of the problem.
    seed
        Seed of the policy.
    policy
        Name of the policy's class.
    keywords
        Further arguments of the policy.
    """

    package = "scalable_bandits"

    def __init__(self, parameters: Parameters, seed: int, policy: str = "GPEI", **keywords: Any) -> None:
        self.policy = getattr(sb, policy)(space_of(parameters), seed=seed, **keywords)

    def ask(self) -> Setting:
        return self.policy.ask()

    def tell(self, x: Setting, y: float) -> None:
        self.policy.tell(x, -y)

    def recommend(self) -> Setting:
        """Return the recommended setting."""
        return self.policy.best().x
