"""Versions on the workers: which keep a worker out, which only bring a warning."""

import re

import pytest

from scalable_bandits.execution import ClusterError
from scalable_bandits.execution.versions import Comparison, check_versions, compare, installed, judge, release

OURS = {"python": "3.11.7", "scalable_bandits": "0.1.2", "numpy": "2.1.0", "scipy": "1.14.0", "numba": "0.60.0"}


def test_installed():
    """All of it is there: the package needs it."""
    found = installed()
    assert found.keys() == OURS.keys()
    assert all(re.match(r"\d+\.\d+", version) for version in found.values())


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
    """Patch releases, and what is not compared."""
    assert compare(OURS, {**OURS, **theirs}, "tcp://a:1") == Comparison()


@pytest.mark.parametrize(
    ("theirs", "refused"),
    [
        ({"python": "3.12.7.final.0"}, "tcp://a:1: python 3.12.7.final.0 (here 3.11.7)"),
        ({"scalable_bandits": "0.2.0"}, "tcp://a:1: scalable_bandits 0.2.0 (here 0.1.2)"),
        ({"scalable_bandits": "1.1.2"}, "tcp://a:1: scalable_bandits 1.1.2 (here 0.1.2)"),
        ({"scalable_bandits": None}, "tcp://a:1: scalable_bandits is missing (here 0.1.2)"),
    ],
)
def test_what_keeps_a_worker_out(theirs, refused):
    found = compare(OURS, {**OURS, **theirs}, "tcp://a:1")
    assert found == Comparison(refused, "")
    with pytest.raises(ClusterError, match=re.escape(refused)):
        judge([Comparison(), found])


def test_another_python_says_nothing_of_the_rest():
    """A worker without anything: one line."""
    found = compare(OURS, {"python": "3.11.7"}, "tcp://a:1")
    assert found.refused == "tcp://a:1: scalable_bandits is missing (here 0.1.2)"


def test_last_digits():
    """One warning for all workers, which names a few of them."""
    judge([Comparison()] * 9)
    theirs = {**OURS, "numpy": "2.1.1", "numba": "0.61.0"}
    with pytest.warns(UserWarning, match="last digits may differ") as caught:
        judge(compare(OURS, theirs, f"tcp://a:{number}") for number in range(9))
    (warning,) = caught
    lines = str(warning.message).splitlines()
    assert lines[1] == "  tcp://a:0: numpy 2.1.1 (here 2.1.0), numba 0.61.0 (here 0.60.0)"
    assert lines[-1] == "  and 4 more"
    assert len(lines) == 7


def test_workers(client):
    """As Dask gives them; of those that may not take part the error alone is said."""
    check_versions(client)
    found = client.get_versions(packages=[*OURS][1:])
    first, second = sorted(found["workers"])

    class Other:
        def get_versions(self, packages):
            return found

    found["workers"][first]["packages"]["numpy"] = "1.0"
    with pytest.warns(UserWarning, match=rf"{first}: numpy 1.0 \(here [\d.]+\)$"):
        check_versions(Other())
    found["workers"][second]["packages"]["scalable_bandits"] = None
    with pytest.raises(ClusterError, match=rf"\n  {second}: scalable_bandits is missing \(here [\w.]+\)$"):
        check_versions(Other())
