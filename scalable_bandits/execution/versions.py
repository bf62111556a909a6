"""Comparison of the software on the workers with that of this process.

A worker can be used if functions can be pickled to it (the same minor version of Python) and if it has the same release
of scalable_bandits. Another numpy, scipy or numba may change the last digits of a result and causes a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scalable_bandits import checks
from scalable_bandits.execution.base import ClusterError

if TYPE_CHECKING:
    from distributed import Client

    Versions = Mapping[str, str | None]  # version by name; None for a package that is not installed

DECISIVE = ("python", "scalable_bandits")  # releases that have to be the same
DIGITS = ("numpy", "scipy", "numba")  # versions that may change the last digits of a result
LISTED = 5  # most workers that a message names


def check_versions(client: Client) -> None:
    """Compare the versions on all workers with those of this process; warn if the last digits may differ.

    Raises
    ------
    ClusterError
        If a worker cannot be used.
    """
    found: Any = client.get_versions(packages=[*DECISIVE[1:], *DIGITS])
    ours, workers = found["client"]["packages"], {w: info["packages"] for w, info in sorted(found["workers"].items())}
    if unfit := _differences(ours, workers, DECISIVE, release):
        raise ClusterError(
            "on: every worker needs the same release of scalable_bandits and the same minor version of Python as this "
            f"process:{unfit}"
        )
    if other := _differences(ours, workers, DIGITS, lambda version: version):
        checks.warn(f"on: the last digits may differ from those of one process:{other}")


def release(version: str | None) -> str | None:
    """Return the first two numbers of a version.

    Examples
    --------
    >>> release("3.11.7")
    '3.11'
    """
    return None if version is None else ".".join(version.split(".")[:2])


def _differences(
    ours: Versions, workers: Mapping[str, Versions], names: Sequence[str], part: Callable[[str | None], str | None]
) -> str:
    """Return a line for each of the first workers in which a part of some versions is another than ours."""
    lines = []
    for worker, theirs in workers.items():
        different = [name for name in names if part(theirs.get(name)) != part(ours.get(name))]
        said = [f"{name} {theirs.get(name) or 'is missing'} (here {ours.get(name)})" for name in different]
        lines += [f"{worker}: {', '.join(said)}"] if said else []
    more = [f"and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return "".join(f"\n  {line}" for line in lines[:LISTED] + more)
