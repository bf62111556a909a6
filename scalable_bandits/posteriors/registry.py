"""Registry of engines by name, and choice of the default engine for a space and a kernel."""

from __future__ import annotations

from collections.abc import Callable

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Engine, EngineOptions
from scalable_bandits.posteriors.exact.dense import DenseEngine
from scalable_bandits.posteriors.forgetting.kalman import KalmanEngine
from scalable_bandits.posteriors.sketched.engine import SketchedEngine
from scalable_bandits.posteriors.state import undeclared
from scalable_bandits.posteriors.tiled.engine import TiledEngine
from scalable_bandits.posteriors.weights.engine import WeightsEngine
from scalable_bandits.specification import nearest

AUTO = "auto"
LEAST_RATIO = 4  # of candidates to features, from which on weights are cheaper than a covariance of all candidates
DENSE_LIMIT = 6_000  # number of candidates; at 4,900 the dense engine was still twice as fast (benchmarks, "engines")

_engines: dict[str, type[Engine]] = {}


def register_engine(name: str, engine: type[Engine]) -> None:
    """Make an engine available to policies as ``engine=name``.

    Parameters
    ----------
    name
        Name of the engine; an engine registered under this name before is replaced.
    engine
        Class of the engine, whose class attributes describe its abilities (`Engine`).

    Raises
    ------
    TypeError
        If the class is not an `Engine`.
    ValueError
        If the name is "auto", or the class does not declare its state (`STATE`), without which no run continues.
    """
    if not (isinstance(engine, type) and issubclass(engine, Engine)):
        raise TypeError(f"engine: got {engine!r}; allowed: a subclass of Engine")
    if name == AUTO:
        checks.refuse("name", name, "a name other than 'auto', which chooses an engine by kernel and size")
    if (unknown := undeclared(engine)) is not None:
        checks.refuse("engine", f"{unknown.__name__} without STATE", "one that declares there what it keeps")
    _engines[name] = engine


register_engine("dense", DenseEngine)
register_engine("tiled", TiledEngine)
register_engine("sketched", SketchedEngine)
register_engine("autoregressive", KalmanEngine)
register_engine("weights", WeightsEngine)


def find_engine(name: str) -> type[Engine] | None:
    """Return the class of a registered engine; None if no engine has this name, also for "auto".

    Parameters
    ----------
    name
        Name of the engine.
    """
    return _engines.get(name)


def engine_class(name: str) -> type[Engine]:
    """Return the class of a registered engine.

    Parameters
    ----------
    name
        Name of the engine, not "auto".

    Raises
    ------
    ValueError
        If no engine has this name; the message suggests the nearest one.
    """
    if name not in _engines:
        checks.refuse("engine", name, nearest(str(name), (AUTO, *_engines)))
    return _engines[name]


def check_engine(name: str, size: int, epsilon: float = 0.0, exact: bool = False, features: int = 0) -> str:
    """Resolve the name of an engine for a space and a kernel.

    Parameters
    ----------
    name
        Name of a registered engine, or "auto" for the default by kernel and size.
    size
        Number of candidates.
    epsilon
        Rate at which the kernel forgets (`TemporalDecay`); 0 for a function that does not change.
    exact
        Whether the engine has to be exact.
    features
        Number of features of the kernel (`Kernel.feature_count`), for which "auto" takes the engine "weights" if there
        are four candidates to a feature; 0 if it is not finite, or for another engine.

    Returns
    -------
    str
        Name of the engine, "auto" resolved.

    Raises
    ------
    ValueError
        If the name is unknown, the space too large for the engine, or the engine cannot forget or is not exact as
        required.
    """
    if name == AUTO:
        usual = "weights" if 0 < LEAST_RATIO * features <= size else "dense" if size <= DENSE_LIMIT else "tiled"
        name = "autoregressive" if epsilon else usual
    engine = engine_class(name)
    if epsilon and not engine.forgets:
        checks.refuse(
            "engine", name, f"{_listed(engine_names(lambda each: each.forgets))} for a kernel with TemporalDecay"
        )
    if exact and not engine.exact:
        checks.refuse("engine", name, f"{_listed(engine_names(lambda each: each.exact))}, which are exact")
    check_size(name, size, engine.limit)
    return name


def engine_names(able: Callable[[type[Engine]], bool]) -> list[str]:
    """Return the names of the registered engines for which a function of the class is true, "auto" first.

    Parameters
    ----------
    able
        Condition, such as ``lambda engine: engine.draws``.
    """
    return [AUTO, *(name for name, each in _engines.items() if able(each))]


def _listed(names: list[str]) -> str:
    return f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}"


def check_size(name: str, size: int, limit: int) -> None:
    """Check that a space is not too large for an engine.

    Parameters
    ----------
    name
        Name of the engine, for the message.
    size
        Number of candidates of the space.
    limit
        Largest number of candidates for the engine.

    Raises
    ------
    ValueError
        If the space has more candidates.
    """
    if size > limit:
        checks.refuse("space", f"{size:,} candidates", f"at most {limit:,} for the engine {name!r}")


def make_engine(
    name: str, kernel: Kernel, points: Floats, prior_mean: Floats, options: EngineOptions | None = None
) -> Engine:
    """Make an engine without observations.

    Parameters
    ----------
    name
        Name of a registered engine, or "auto".
    kernel
        Prior covariance.
    points
        Coordinates (n, d) of the candidates, in units of x.
    prior_mean
        Prior mean (n,) at the candidates, in units of y.
    options
        Settings of the engine; the defaults if not given.

    Raises
    ------
    ValueError
        If `check_engine` raises it, or the engine does not take the kernel.
    """
    features = kernel.feature_count(points.shape[1])
    kind = engine_class(check_engine(name, len(points), kernel.epsilon, features=features))
    kind.check_kernel(kernel, points.shape[1])
    return kind.build(kernel, points, prior_mean, options or EngineOptions())
