"""The same software on both ends: numbers hang on it, and so do pickles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalable_bandits.execution.base import ClusterError

if TYPE_CHECKING:
    from distributed import Client

SAME = ("scalable_bandits", "numpy", "scipy", "numba", "cloudpickle", "distributed")  # and Python's minor version


def check_versions(client: Client) -> None:
    """ClusterError, with a line a difference, if workers have other versions of what numbers and pickles hang on."""
    found: Any = client.get_versions(packages=list(SAME))
    ours = _relevant(found["client"])
    lines = [
        f"{name}: here {ours[name]}, worker {worker} {theirs or 'has none'}"
        for worker, info in sorted(found["workers"].items())
        for name, theirs in _relevant(info).items()
        if theirs != ours[name]
    ]
    if lines:
        listed = "\n  ".join(lines[:20] + ["..."] * (len(lines) > 20))
        raise ClusterError(f"on: the workers' versions differ, install the same everywhere:\n  {listed}")


def _relevant(info: Any) -> dict[str, str | None]:
    packages = info["packages"]
    return {"python": ".".join(packages["python"].split(".")[:2]), **{name: packages.get(name) for name in SAME}}
