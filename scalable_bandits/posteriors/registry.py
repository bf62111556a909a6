"""The engines by name: what each can do, up to which size, and which one is the default for a space and a kernel."""

from __future__ import annotations

from collections.abc import Callable

from scalable_bandits import checks
from scalable_bandits.checks import Floats
from scalable_bandits.kernels import Kernel
from scalable_bandits.posteriors.engine import Engine, EngineOptions
from scalable_bandits.posteriors.exact.dense import DenseEngine
from scalable_bandits.posteriors.forgetting.kalman import KalmanEngine
from scalable_bandits.posteriors.sketched.engine import SketchedEngine
from scalable_bandits.posteriors.tiled.engine import TiledEngine
from scalable_bandits.specification import nearest

AUTO = "auto"
DENSE_LIMIT = 6_000  # candidates; at 4,900 the full covariance was still twice as fast (benchmarks, "engines")

_engines: dict[str, type[Engine]] = {}


def register_engine(name: str, engine: type[Engine]) -> None:
    """Make an engine available to policies as ``engine=name``.

    Parameters
    ----------
    name
        Name of the engine. A name that is registered already is replaced.
    engine
        Class of the engine. Its class attributes say what it can do (`Engine`).

    Raises
    ------
    TypeError
        If the class is not an `Engine`.
    ValueError
        If the name is "auto".
    """
    if not (isinstance(engine, type) and issubclass(engine, Engine)):
        raise TypeError(f"engine: got {engine!r}; allowed: a subclass of Engine")
    if name == AUTO:
        checks.refuse("name", name, "a name other than 'auto', which chooses an engine by kernel and size")
    _engines[name] = engine


register_engine("dense", DenseEngine)
register_engine("blocked", TiledEngine)
register_engine("sketched", SketchedEngine)
register_engine("autoregressive", KalmanEngine)


def find_engine(name: str) -> type[Engine] | None:
    """Return the class of a registered engine; None if no engine has this name, as of "auto".

    Parameters
    ----------
    name
        Name of the engine.
    """
    return _engines.get(name)


def engine_class(name: str) -> type[Engine]:
    """Class of a registered engine.

    Parameters
    ----------
    name
        Name of the engine, not "auto".

    Raises
    ------
    ValueError
        If no engine has this name; the message suggests the nearest.
    """
    if name not in _engines:
        checks.refuse("engine", name, nearest(str(name), (AUTO, *_engines)))
    return _engines[name]


def check_engine(name: str, size: int, epsilon: float = 0.0, exact: bool = False) -> str:
    """Resolve the name of an engine for a space and a kernel.

    Parameters
    ----------
    name
        Name of a registered engine, or "auto": by kernel and size.
    size
        Number of candidates.
    epsilon
        Rate at which the kernel forgets (`TemporalDecay`); 0 for a function that does not change.
    exact
        Whether the engine has to be exact.

    Returns
    -------
    str
        Name of the engine: `name`, or the default if that is "auto".

    Raises
    ------
    ValueError
        If the name is unknown, or the engine cannot take so many candidates, cannot forget where the kernel does, or is
        not exact where that is asked for.
    """
    if name == AUTO:
        name = "autoregressive" if epsilon else "dense" if size <= DENSE_LIMIT else "blocked"
    engine = engine_class(name)
    if epsilon and not engine.forgets:
        checks.refuse("engine", name, f"{_names(lambda each: each.forgets)} for a kernel with TemporalDecay")
    if exact and not engine.exact:
        checks.refuse("engine", name, f"{_names(lambda each: each.exact)}: exact ones")
    check_size(name, size, engine.limit)
    return name


def _names(allowed: Callable[[type[Engine]], bool]) -> str:
    names = [repr(name) for name in (AUTO, *(name for name, each in _engines.items() if allowed(each)))]
    return f"{', '.join(names[:-1])} or {names[-1]}"


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
        (n, d) coordinates of the candidates.
    prior_mean
        (n,) prior mean at the candidates, in units of y.
    options
        Settings of single engines; the defaults if not given.

    Raises
    ------
    ValueError
        If `check_engine` refuses the name.
    """
    kind = engine_class(check_engine(name, len(points), kernel.epsilon))
    return kind.build(kernel, points, prior_mean, options or EngineOptions())
