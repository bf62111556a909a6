"""Versions of the software on the workers, compared with those of this process.

A worker takes part if functions can be pickled to it (the same minor version of Python) and if it has the same release
of scalable_bandits. Another numpy, scipy or numba may change the last digits of a result: there is a warning.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from scalable_bandits.execution.base import ClusterError

if TYPE_CHECKING:
    from distributed import Client

DECISIVE = ("python", "scalable_bandits")  # their releases have to be the same
DIGITS = ("numpy", "scipy", "numba")  # their versions may change the last digits of a result
LISTED = 5  # workers that a message names


class Comparison(NamedTuple):
    """What differs between a worker and this process."""

    refused: str = ""  # why the worker cannot take part; empty if it can
    differs: str = ""  # versions that may change the last digits; empty if none does


def installed() -> dict[str, str | None]:
    """Return the versions of this process's Python and packages by name, None for a package that is not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in DECISIVE[1:] + DIGITS}}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def release(version: str | None) -> str | None:
    """Return the first two numbers of a version.

    Examples
    --------
    >>> release("3.11.7")
    '3.11'
    """
    return None if version is None else ".".join(version.split(".")[:2])


def compare(ours: Mapping[str, str | None], theirs: Mapping[str, str | None], worker: str) -> Comparison:
    """Compare the versions of this process with those of one worker.

    Parameters
    ----------
    ours, theirs
        Version by name, as returned by `installed`.
    worker
        Address of the worker, for the messages.
    """

    def said(names: Iterable[str]) -> str:
        different = [f"{name} {theirs.get(name) or 'is missing'} (here {ours.get(name)})" for name in names]
        return f"{worker}: {', '.join(different)}" if different else ""

    return Comparison(
        said(name for name in DECISIVE if release(theirs.get(name)) != release(ours.get(name))),
        said(name for name in DIGITS if theirs.get(name) != ours.get(name)),
    )


def judge(found: Iterable[Comparison]) -> None:
    """Raise ClusterError if workers cannot take part; warn once if the last digits may differ on some."""
    comparisons = list(found)
    if refused := _listed(each.refused for each in comparisons):
        raise ClusterError(
            "on: every worker needs the same release of scalable_bandits and the same minor version of Python as this "
            f"process:{refused}"
        )
    if differing := _listed(each.differs for each in comparisons):
        warnings.warn(f"on: the last digits may differ from those of one process:{differing}", stacklevel=3)


def _listed(lines: Iterable[str]) -> str:
    """Return the lines that are not empty, each on a line of its own, at most a few."""
    kept = [line for line in lines if line]
    more = [f"and {len(kept) - LISTED} more"] if len(kept) > LISTED else []
    return "".join(f"\n  {line}" for line in kept[:LISTED] + more)


def check_versions(client: Client) -> None:
    """Compare the versions of all workers with those of this process; ClusterError if one cannot take part."""
    found: Any = client.get_versions(packages=list(DECISIVE[1:] + DIGITS))
    ours = installed()
    judge(compare(ours, info["packages"], worker) for worker, info in sorted(found["workers"].items()))
