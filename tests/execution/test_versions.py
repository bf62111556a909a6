"""Versions on the workers: which workers cannot be used, and which only cause a warning."""

import re

import pytest

from scalable_bandits.execution import ClusterError
from scalable_bandits.execution.clusters import check_versions, release

OURS = {
    "python": "3.11.7.final.0", "scalable_bandits": "0.1.2", "numpy": "2.1.0", "scipy": "1.14.0", "numba": "0.60.0",
}  # fmt: skip


class FakeClient:
    """Client of workers with the given versions."""

    def __init__(self, workers, ours=OURS):
        found = {f"tcp://a:{number}": {"packages": theirs} for number, theirs in enumerate(workers)}
        self.found = {"client": {"packages": ours}, "workers": found}

    def get_versions(self, packages):
        return self.found


@pytest.mark.parametrize(
    ("version", "found"), [("0.1.2", "0.1"), ("3.11.7.final.0", "3.11"), ("0.10.0", "0.10"), ("2", "2"), (None, None)]
)
def test_release(version, found):
    assert release(version) == found


@pytest.mark.parametrize(
    "theirs",
    [{}, {"python": "3.11.2.final.0"}, {"scalable_bandits": "0.1.9"}, {"distributed": "1.0", "cloudpickle": "1.0"}],
)
def test_what_does_not_matter(theirs):
    """Patch releases, and packages that are not compared."""
    check_versions(FakeClient([{**OURS, **theirs}]))


@pytest.mark.parametrize(
    ("theirs", "refused"),
    [
        ({**OURS, "python": "3.12.7.final.0"}, "tcp://a:1: python 3.12.7.final.0 (here 3.11.7.final.0)"),
        ({**OURS, "scalable_bandits": "0.2.0"}, "tcp://a:1: scalable_bandits 0.2.0 (here 0.1.2)"),
        ({**OURS, "scalable_bandits": "1.1.2"}, "tcp://a:1: scalable_bandits 1.1.2 (here 0.1.2)"),
        ({**OURS, "scalable_bandits": None}, "tcp://a:1: scalable_bandits is missing (here 0.1.2)"),
        ({"python": "3.11.7.final.0"}, "tcp://a:1: scalable_bandits is missing (here 0.1.2)"),
    ],
)
def test_what_keeps_a_worker_out(theirs, refused):
    """One line for each such worker, which says nothing of other packages."""
    with pytest.raises(ClusterError, match=f":\n  {re.escape(refused)}$"):
        check_versions(FakeClient([OURS, theirs]))


def test_last_digits():
    """One warning for all workers, which names a few of them."""
    theirs = {**OURS, "numpy": "2.1.1", "numba": "0.61.0"}
    with pytest.warns(UserWarning, match="last digits may differ") as caught:
        check_versions(FakeClient([theirs] * 9))
    (warning,) = caught
    lines = str(warning.message).splitlines()
    assert lines[1] == "  tcp://a:0: numpy 2.1.1 (here 2.1.0), numba 0.61.0 (here 0.60.0)"
    assert lines[-1] == "  and 4 more"
    assert len(lines) == 7


def test_workers(client):
    """The versions that Dask returns; an error suppresses the warning."""
    check_versions(client)
    found = client.get_versions(packages=[*OURS][1:])
    assert all(re.match(r"\d+\.\d+", found["client"]["packages"][name]) for name in OURS)
    first, second = sorted(found["workers"])
    other = FakeClient([])
    other.found = found
    found["workers"][first]["packages"]["numpy"] = "1.0"
    with pytest.warns(UserWarning, match=rf"{first}: numpy 1.0 \(here [\d.]+\)$"):
        check_versions(other)
    found["workers"][second]["packages"]["scalable_bandits"] = None
    with pytest.raises(ClusterError, match=rf"\n  {second}: scalable_bandits is missing \(here [\w.]+\)$"):
        check_versions(other)
