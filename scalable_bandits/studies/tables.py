"""Problems described by the tables of a study file, which name environments and policies of this package.

A policy gets its environment's space, the replicate's seed and, if its table has no kernel, the environment's kernel.
A word in place of a number (`WORDS`) is replaced by a value derived from the environment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from scalable_bandits import checks, environments
from scalable_bandits import policies as public
from scalable_bandits.checks import Floats
from scalable_bandits.environments import (
    AdditiveFunction,
    DriftingFunction,
    Environment,
    GaussianNoise,
    RKHSFunction,
    published,
)
from scalable_bandits.environments.base import tabulated
from scalable_bandits.execution.base import NotOnWorker
from scalable_bandits.formulas.information_gain import growth_rate
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies import Policy
from scalable_bandits.posteriors.placement import is_local
from scalable_bandits.randomness import generator
from scalable_bandits.spaces import Points
from scalable_bandits.specification import REGISTRY, allow, check_name, nearest, rebuilt
from scalable_bandits.studies.growth import HORIZON, Value
from scalable_bandits.studies.runs import Problem, Replicate

ENVIRONMENTS: dict[str, Callable[..., Environment]] = {
    **{
        name: kind
        for name, kind in (vars(environments) | vars(published)).items()
        if isinstance(kind, type) and issubclass(kind, Environment) and not inspect.isabstract(kind)
    },
    "RKHSFunction.sparse": RKHSFunction.sparse,
    "RKHSFunction.planted": RKHSFunction.planted,
    "AdditiveFunction.sparse": AdditiveFunction.sparse,
    "AdditiveFunction.embedded": AdditiveFunction.embedded,
    "RKHSFunction.posterior_mean": RKHSFunction.posterior_mean,
    "DriftingFunction.sparse": DriftingFunction.sparse,
}
POLICY_WORDS = {"rkhs_norm": ("double",), "information_gain": ("realised", "greedy")}  # words that policies accept
MOST = "most_candidates"  # key of a policy's table: it is not played where there are more
UNCHANGED = 1e-9  # variation budget with which a policy of limited memory remembers everything
AXIS = "axis"  # key of a table that stands for the value of an axis
DIMENSION, REPEATED = "dimension", ("Grid", "Box")  # key of a space's table that repeats its bounds, and such spaces
SET_BY_STUDY = ("space", "seed")  # arguments of a policy that no table may set
COMMON_KEYS = ("type", "kernel", "arguments")  # keys that the table of every environment may have


def at_values(tables: Any, values: Mapping[str, Value]) -> Any:
    """Return tables in which {axis = "name"} is replaced by the value of that axis, and the `dimension` of a space.

    A `Grid` or a `Box` may have one pair of bounds and a `dimension`, which says how often they are repeated.

    Parameters
    ----------
    tables
        Tables of a study file, or any value in them.
    values
        Values of the axes, by name.

    Raises
    ------
    ValueError
        If there is no such axis, or a dimension is invalid.
    """
    if isinstance(tables, Mapping) and set(tables) == {AXIS}:
        return values[check_name("axis", tables[AXIS], values)]
    if isinstance(tables, Mapping):
        return _repeated({key: at_values(part, values) for key, part in tables.items()})
    return [at_values(part, values) for part in tables] if isinstance(tables, list) else tables


def _repeated(table: dict[str, Any]) -> dict[str, Any]:
    """Return the table of a space whose bounds are repeated as often as its `dimension` says; any other as it is."""
    if table.get("type") not in REPEATED or DIMENSION not in table:
        return table
    dimension, bounds = checks.integer(DIMENSION, table[DIMENSION], 1), table.get("bounds")
    if not isinstance(bounds, list) or len(bounds) != 1:
        checks.refuse("bounds", bounds, f"one pair of ends, such as [[0.0, 1.0]], beside dimension = {dimension}")
    return {**{key: value for key, value in table.items() if key != DIMENSION}, "bounds": bounds * dimension}


def values_in(replicate: Replicate) -> dict[str, Value]:
    """Return the values of all axes in the runs of a replicate, the horizon among them."""
    return {**replicate.values, HORIZON: replicate.horizon}


def environment_kinds() -> dict[str, Callable[..., Environment]]:
    """Return the environments of this package by name, and those of the user's that were allowed."""
    allowed = {name: kind for name, kind in REGISTRY.items() if ":" in name}
    return {**ENVIRONMENTS, **{name: kind for name, kind in allowed.items() if issubclass(kind, Environment)}}


def policy_kinds() -> dict[str, type[Policy]]:
    """Return the public policies of this package by name, and those of the user's that were allowed."""
    kinds = {name: kind for name, kind in REGISTRY.items() if issubclass(kind, Policy) and not inspect.isabstract(kind)}
    return {name: kind for name, kind in kinds.items() if ":" in name or hasattr(public, name)}


def arguments_of(kind: Callable[..., Any]) -> list[str]:
    """Return the keys that a table for this policy or environment may have; studies measure regret, and maximise."""
    return [name for name in inspect.signature(kind).parameters if name not in ("seed", "function", "minimize")]


def interpolant_norm(kernel: Kernel, points: Floats, values: Floats, regularization: float) -> float:
    """Compute the RKHS norm of the ridge interpolant of values (n,) at points (n, d)."""
    matrix = kernel.block(points)
    weights = np.linalg.solve(matrix + regularization * np.eye(len(points)), values)
    return float(np.sqrt(weights @ matrix @ weights))


@attrs.frozen
class ProblemsFromTables:
    """Problems of a study that describes them by tables: its `Study.build`.

    Attributes
    ----------
    environments
        Tables of the environments by case, with all shared keys; in all tables axes stand for values.
    policies
        Tables of the policies by label.
    shared
        Arguments passed to every policy that has them.
    function
        User's function, for environments of type FunctionEnvironment.
    classes
        User's classes in the tables, each as "module:Class".
    """

    environments: dict[str, dict[str, Any]]
    policies: dict[str, dict[str, Any]]
    shared: dict[str, Any]
    function: Callable[[Any], float] | None = None
    classes: tuple[str, ...] = ()

    def __call__(self, replicate: Replicate) -> Problem:
        for name in self.classes:  # this may be a worker
            try:
                allow(name)
            except ValueError as error:
                if isinstance(error.__context__, ModuleNotFoundError):
                    raise NotOnWorker(error.__context__.name or error) from None
                raise
        tables = [self.environments[replicate.case], self.shared, self.policies]
        table, shared, policies = at_values(tables, values_in(replicate))
        derived = _prefix_errors(f"environments.{replicate.case}", self._environment, table, replicate)
        common, finite = {**shared, **table.get("arguments", {})}, derived.environment.space.finite
        policies = {
            label: _prefix_errors(f"policies.{label}", _make_policy, own, common, derived)
            for label, own in policies.items()
            if MOST not in own or finite is None or finite.size <= own[MOST]
        }
        return Problem(derived.environment, policies)

    def _environment(self, table: Mapping[str, Any], replicate: Replicate) -> DerivedArguments:
        """Make the environment of a replicate."""
        kernel = None if "kernel" not in table else Kernel.from_dict(table["kernel"])
        noise = table.get("noise")
        share = noise.get("share_of_range") if isinstance(noise, Mapping) else None
        given = table if share is None else {key: value for key, value in table.items() if key != "noise"}
        environment, variance = _make_environment(given, replicate, self.function), _noise_variance(noise)
        if share is not None:
            variance = share * float(np.ptp(environment.table()))
            environment.set_noise(GaussianNoise(variance**0.5))
        return DerivedArguments(environment, kernel, variance, replicate)


@attrs.frozen
class DerivedArguments:
    """Environment of a replicate, and arguments of policies that are derived from it."""

    environment: Environment
    kernel: Kernel | None
    variance: float | None  # noise variance, if the table states it
    replicate: Replicate

    @property
    def _measured(self) -> float:
        """Standard deviation of the environment's measurements from their averages, NaN if it has none."""
        return float(getattr(self.environment, "deviation", np.nan))

    def deviation(self) -> float:
        """Return the standard deviation of measurements from their averages."""
        if not self._measured > 0.0:
            checks.refuse("noise", "deviation", "a number, or 'exact': no arm has several measurements that differ")
        return self._measured

    def noise_variance(self) -> float:
        """Return the noise variance if the table states it or the measurements have one, else R^2."""
        if self.variance is not None:
            return self.variance
        return (self._measured if self._measured > 0.0 else self.environment.sub_gaussian) ** 2

    def exact_norm(self) -> float:
        """Return the RKHS norm of the function."""
        if not hasattr(self.environment, "rkhs_norm"):
            kind = type(self.environment).__name__
            checks.refuse("rkhs_norm", "exact", f"a number, or 'interpolant': the norm of a {kind} is unknown")
        return float(self.environment.rkhs_norm)

    def norm_of_interpolant(self) -> float:
        """Return the RKHS norm of the function's ridge interpolant at all candidates."""
        space = self.environment.space
        if self.kernel is None or space.finite is None:
            checks.refuse("rkhs_norm", "interpolant", "a number: an interpolant requires a kernel and a finite space")
        points = space.encode(tabulated(space).points())
        return interpolant_norm(self.kernel, points, self.environment.table(), self.noise_variance())

    def variation(self) -> float:
        """Return P_T; `UNCHANGED` for a function that does not change within the horizon, since policies refuse 0."""
        if not isinstance(self.environment, DriftingFunction):
            text = "a number: the exact budget is known of a DriftingFunction alone"
            checks.refuse("variation_budget", "exact", text)
        return max(self.environment.variation(self.replicate.horizon), UNCHANGED)

    def growth(self) -> Callable[[int], float]:
        """Return the theoretical growth of gamma_t."""
        if self.kernel is None:
            checks.refuse("information_gain", "growth", "a number: the environment has no kernel")
        rates = growth_rate(self.kernel, np.arange(self.replicate.horizon + 1), self.environment.space.dimension)
        found: Callable[[int], float] = np.asarray(rates).tolist().__getitem__
        return found


WORDS: dict[str, dict[str, Callable[[DerivedArguments], Any]]] = {  # by argument of a policy, then by word
    "noise": {"exact": lambda of: of.environment.sub_gaussian, "deviation": DerivedArguments.deviation},
    "regularization": {"noise variance": DerivedArguments.noise_variance},
    "rkhs_norm": {"exact": DerivedArguments.exact_norm, "interpolant": DerivedArguments.norm_of_interpolant},
    "variation_budget": {"exact": DerivedArguments.variation},
    "information_gain": {"growth": DerivedArguments.growth},
    "horizon": {"study": lambda of: of.replicate.horizon},
    "xi": {"noise / 10": lambda of: 0.1 * of.environment.sub_gaussian},
}


def _prefix_errors(table: str, make: Callable[..., Any], *arguments: Any) -> Any:
    """Call `make`; put the name of the table in front of an error's message, and that of a policy before a warning."""
    try:
        with checks.naming(f"policy {table.removeprefix('policies.')}" if table.startswith("policies.") else ""):
            return make(*arguments)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{table}: {error}") from error


def _noise_variance(noise: Any) -> float | None:
    """Return the variance stated by a table of Gaussian noise."""
    if not isinstance(noise, Mapping) or noise.get("type") != "GaussianNoise":
        return None
    return float(noise["variance"]) if "variance" in noise else float(noise.get("scale", 1.0)) ** 2


def _make_environment(table: Mapping[str, Any], replicate: Replicate, function: Any = None) -> Environment:
    """Make an environment from its table, with the replicate's seed."""
    make = environment_kinds()[table["type"]]
    taken = inspect.signature(make).parameters
    left_out = {*COMMON_KEYS} - {"kernel"} if "kernel" in taken else COMMON_KEYS
    arguments = {key: _make_value(value, replicate) for key, value in table.items() if key not in left_out}
    if "seed" in taken:
        arguments["seed"] = replicate.seed
    if "function" in taken:
        if function is None:
            checks.refuse("function", None, "your function: --environment module:name, or function=...")
        arguments["function"] = function
    return make(**arguments)


def _make_value(value: Any, replicate: Replicate) -> Any:
    """Make an argument of an environment: replace a table, also in a list, by the object that it describes."""
    if isinstance(value, list):
        return [_make_value(part, replicate) for part in value]
    if not isinstance(value, Mapping) or "type" not in value:
        return value
    if value["type"] in environment_kinds():
        return _make_environment(value, replicate)
    if value["type"] == "RandomPoints":
        return random_points(replicate.seed, **{key: part for key, part in value.items() if key != "type"})
    if value["type"] == "GaussianNoise" and "variance" in value:
        return GaussianNoise(float(value["variance"]) ** 0.5)
    return rebuilt(value, object)


def random_points(seed: int, count: int, bounds: Any) -> Points:
    """Draw points uniformly in a box, different ones in every replicate."""
    low, high = checks.finite("bounds", bounds, ndim=2).T
    drawn = generator(seed, "design").random((checks.integer("count", count, 1), len(low)))
    return Points(low + (high - low) * drawn)


def _make_policy(own: Mapping[str, Any], common: Mapping[str, Any], derived: DerivedArguments) -> Policy:
    """Make a policy from its table and the shared arguments."""
    kind = policy_kinds()[own["type"]]
    taken = inspect.signature(kind).parameters
    arguments = {key: value for key, value in {**common, **own}.items() if key in taken and key not in SET_BY_STUDY}
    arguments = {key: _argument(key, value, derived) for key, value in arguments.items()}
    if not is_local(arguments.get("on")):  # a file starts and reaches no other program
        checks.refuse("on", arguments["on"], "local, local:4, threads or threads:4")
    if "kernel" in taken and "kernel" not in arguments and derived.kernel is not None:
        arguments["kernel"] = derived.kernel
    return kind(derived.environment.space, seed=derived.replicate.seed, **arguments)


def _argument(key: str, value: Any, derived: DerivedArguments) -> Any:
    """Make an argument of a policy: replace a word by its derived value, a table by the object that it describes."""
    if isinstance(value, str) and key in WORDS:
        if value in WORDS[key]:
            return WORDS[key][value](derived)
        allowed = (*WORDS[key], *POLICY_WORDS.get(key, ()))
        if value not in allowed:
            checks.refuse(key, value, f"a number, or one of the words; {nearest(value, allowed)}")
    if isinstance(value, list):
        return [_argument("", part, derived) for part in value]
    return rebuilt(value, object) if isinstance(value, Mapping) and "type" in value else value
