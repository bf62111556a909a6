"""The package's default tuner, as a user writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.tuners.intervals import Parameters

if TYPE_CHECKING:
    from scalable_bandits.spaces import Space


def space_of(parameters: Parameters | Space) -> Space:
    """Make the space: intervals are `Real`, lists are taken as they are. A space is returned as it is."""
    import scalable_bandits as sb  # not above: peers are imported where it is not installed
    from scalable_bandits.spaces import Space

    if isinstance(parameters, Space):
        return parameters
    return sb.SearchSpace({n: sb.Real(*each) if isinstance(each, tuple) else each for n, each in parameters.items()})


class Ours:
    """`GPEI(space)`: nothing is given but the space and the seed; the first points are the policy's own.

    Parameters
    ----------
    parameters
        Parameters of the problem, or a space of the package.
    seed, budget
        Seed of the policy; number of evaluations, which it does not know.
    policy
        Name of the policy's class.
    keywords
        Further arguments of the policy.
    """

    requirements = modules = ("scalable_bandits",)

    def __init__(
        self, parameters: Parameters | Space, seed: int, budget: int = 0, policy: str = "GPEI", **keywords: Any
    ) -> None:
        import scalable_bandits as sb

        self.policy = getattr(sb, policy)(space_of(parameters), seed=seed, **keywords)

    def ask(self) -> Any:
        return self.policy.ask()

    def tell(self, x: Any, y: float) -> None:
        self.policy.tell(x, -y)

    def recommend(self) -> Any:
        """Return the recommended setting."""
        return self.policy.best().x
