"""Problems from tables: environments and policies by the names that this package gives them.

A policy plays its environment's space with the replicate's seed, and believes in the environment's kernel unless it has
one of its own. A word in place of a number (`WORDS`) is worked out from the environment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.environments import (
    AutoregressiveProcess,
    Benchmark,
    DriftingFunction,
    Environment,
    FunctionEnvironment,
    GaussianNoise,
    GPSample,
    MovingSearchSpace,
    RKHSFunction,
    SensorPanel,
    TableEnvironment,
)
from scalable_bandits.formulas.information_gain import growth_rate
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies import Policy
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Points
from scalable_bandits.specification import Specification, nearest
from scalable_bandits.studies.runs import Problem, Replicate

ENVIRONMENTS: dict[str, Callable[..., Environment]] = {
    "RKHSFunction.sparse": RKHSFunction.sparse,
    "RKHSFunction.posterior_mean": RKHSFunction.posterior_mean,
    "DriftingFunction.sparse": DriftingFunction.sparse,
    **{
        kind.__name__: kind
        for kind in (
            AutoregressiveProcess, Benchmark, DriftingFunction, FunctionEnvironment, GPSample, MovingSearchSpace,
            RKHSFunction, SensorPanel, TableEnvironment,
        )
    },
}  # fmt: skip
WORDS = {  # by the argument of a policy
    "noise": ("exact",),
    "regularization": ("noise variance",),
    "rkhs_norm": ("exact", "interpolant"),
    "variation_budget": ("exact",),
    "information_gain": ("growth",),
    "horizon": ("study",),
    "xi": ("noise / 10",),
}
OWN = {"rkhs_norm": ("double",), "information_gain": ("realised", "greedy")}  # words that policies know themselves
GIVEN = ("space", "seed")  # arguments of a policy that its environment and replicate decide
BESIDES = ("type", "kernel", "arguments")  # keys of any environment's table


def policy_kinds() -> dict[str, type[Policy]]:
    """Policies of this package by name."""
    kinds = Specification._registry.items()
    return {name: kind for name, kind in kinds if issubclass(kind, Policy) and not inspect.isabstract(kind)}


def arguments_of(kind: Callable[..., Any]) -> list[str]:
    """Names that a table for a policy or an environment may have."""
    return [name for name in inspect.signature(kind).parameters if name not in ("seed", "function")]


def interpolant_norm(kernel: Kernel, points: Floats, values: Floats, regularization: float) -> float:
    """RKHS norm of the ridge interpolant of values (n,) at points (n, d)."""
    matrix = kernel.block(points)
    weights = np.linalg.solve(matrix + regularization * np.eye(len(points)), values)
    return float(np.sqrt(weights @ matrix @ weights))


@attrs.frozen
class Declared:
    """`build` of a study from its tables.

    Attributes
    ----------
    environments
        By case, complete.
    policies
        By label.
    shared
        Arguments of all policies that take them.
    function
        The user's, of environments of type FunctionEnvironment.
    """

    environments: dict[str, dict[str, Any]]
    policies: dict[str, dict[str, Any]]
    shared: dict[str, Any]
    function: Callable[[Any], float] | None = None

    def __call__(self, replicate: Replicate) -> Problem:
        table = self.environments[replicate.case]
        known = _within(f"environments.{replicate.case}", lambda: self._known(table, replicate))
        policies: dict[str, Policy] = {}
        for label, own in self.policies.items():
            common = {**self.shared, **table.get("arguments", {})}
            policies[label] = _within(f"policies.{label}", lambda o=own, c=common: _policy(o, c, known))  # type: ignore[misc]
        return Problem(known.environment, policies)

    def _known(self, table: Mapping[str, Any], replicate: Replicate) -> Known:
        """The environment of a replicate, and its facts."""
        kernel = None if "kernel" not in table else Kernel.from_dict(table["kernel"])
        noise: Any = table.get("noise")
        share = noise.get("share_of_range") if isinstance(noise, Mapping) else None
        if share is not None:
            noise = None
        own = {key: value for key, value in table.items() if key not in (*BESIDES, "noise")}
        if noise is not None:
            own["noise"] = noise
        environment = _environment(str(table["type"]), own, kernel, replicate, self.function)
        variance = _variance(noise)
        if share is not None:
            variance = share * float(np.ptp(environment.table()))
            environment.set_noise(GaussianNoise(variance**0.5))
        return Known(environment, kernel, variance, replicate)


@attrs.frozen
class Known:
    """An environment, and what is known of it."""

    environment: Environment
    kernel: Kernel | None
    variance: float | None  # of the noise, where it was given
    replicate: Replicate

    def noise(self, _: str) -> float:
        """R."""
        return self.environment.noise.sub_gaussian

    def regularization(self, _: str) -> float:
        """Variance of the noise, of one that is not Gaussian R^2."""
        return self.noise("exact") ** 2 if self.variance is None else self.variance

    def rkhs_norm(self, word: str) -> float:
        """Norm of the function, or of its ridge interpolant at all candidates."""
        environment, space = self.environment, self.environment.space
        if word == "exact":
            if not hasattr(environment, "rkhs_norm"):
                kind = type(environment).__name__
                checks.refuse("rkhs_norm", word, f"a number, or 'interpolant': {kind} has no known norm")
            return float(environment.rkhs_norm)
        if self.kernel is None or space.finite is None:
            checks.refuse("rkhs_norm", word, "a number: an interpolant takes a kernel and a finite space")
        return interpolant_norm(self.kernel, space.finite.points(), environment.table(), self.regularization(""))

    def variation_budget(self, word: str) -> float:
        """P_T."""
        if not isinstance(self.environment, DriftingFunction):
            checks.refuse("variation_budget", word, "a number: only a DriftingFunction has a known one")
        return self.environment.variation(self.replicate.horizon)

    def information_gain(self, word: str) -> Callable[[int], float]:
        """Growth of gamma_t by theory."""
        if self.kernel is None:
            checks.refuse("information_gain", word, "a number: the environment has no kernel")
        rates = growth_rate(self.kernel, np.arange(self.replicate.horizon + 1), self.environment.space.dimension)
        found: Callable[[int], float] = np.asarray(rates).tolist().__getitem__
        return found

    def horizon(self, _: str) -> int:
        """T."""
        return self.replicate.horizon

    def xi(self, _: str) -> float:
        """A tenth of R."""
        return 0.1 * self.noise("exact")


def _within(name: str, make: Callable[[], Any]) -> Any:
    """What a table makes; a refusal names the table."""
    try:
        return make()
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from error


def _variance(noise: Any) -> float | None:
    """Of Gaussian noise, as given."""
    if not isinstance(noise, Mapping) or noise.get("type") != "GaussianNoise":
        return None
    return float(noise["variance"]) if "variance" in noise else float(noise.get("scale", 1.0)) ** 2


def _environment(
    kind: str, table: Mapping[str, Any], kernel: Kernel | None, replicate: Replicate, function: Any = None
) -> Environment:
    """An environment of a kind, with the replicate's seed."""
    make = ENVIRONMENTS[kind]
    taken = inspect.signature(make).parameters
    arguments = {key: _value(value, replicate) for key, value in table.items()}
    if kernel is not None and "kernel" in taken:
        arguments["kernel"] = kernel
    if "seed" in taken:
        arguments["seed"] = replicate.seed
    if "function" in taken:
        if function is None:
            checks.refuse("function", None, "a function of yours: --environment module:name, or function=...")
        arguments["function"] = function
    return make(**arguments)


def _value(value: Any, replicate: Replicate) -> Any:
    """A value of an environment's table; another environment, points and noises by their tables."""
    if not isinstance(value, Mapping) or "type" not in value:
        return value
    if value["type"] in ENVIRONMENTS:
        own = {key: part for key, part in value.items() if key not in BESIDES}
        kernel = Kernel.from_dict(value["kernel"]) if "kernel" in value else None
        return _environment(value["type"], own, kernel, replicate)
    if value["type"] == "RandomPoints":
        return random_points(replicate.seed, **{key: part for key, part in value.items() if key != "type"})
    if value["type"] == "GaussianNoise" and "variance" in value:
        return GaussianNoise(float(value["variance"]) ** 0.5)
    return Specification.from_dict(value)


def random_points(seed: int, count: int, bounds: Any) -> Points:
    """Points uniform in a box, other ones in every replicate."""
    low, high = checks.finite("bounds", bounds, ndim=2).T
    drawn = generator(seed, "design").random((checks.integer("count", count, 1), len(low)))
    return Points(low + (high - low) * drawn)


def _policy(own: Mapping[str, Any], common: Mapping[str, Any], known: Known) -> Policy:
    """A policy from its table, and what is shared."""
    kind = policy_kinds()[own["type"]]
    taken = inspect.signature(kind).parameters
    arguments = {key: value for key, value in {**common, **own}.items() if key in taken and key not in GIVEN}
    arguments = {key: _worked_out(key, value, known) for key, value in arguments.items()}
    if "kernel" in taken and "kernel" not in arguments and known.kernel is not None:
        arguments["kernel"] = known.kernel
    return kind(known.environment.space, seed=known.replicate.seed, **arguments)


def _worked_out(key: str, value: Any, known: Known) -> Any:
    if isinstance(value, str) and key in WORDS:
        if value in WORDS[key]:
            return getattr(known, key)(value)
        allowed = (*WORDS[key], *OWN.get(key, ()))
        if value not in allowed:
            checks.refuse(key, value, f"a number, or a word; {nearest(value, allowed)}")
    if isinstance(value, list):
        return [_worked_out("", part, known) for part in value]
    return Specification.from_dict(value) if isinstance(value, Mapping) and "type" in value else value
