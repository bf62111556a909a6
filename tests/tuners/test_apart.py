"""Tuners in environments of their own: the same runs as here, errors, processes that end, and their making."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARAMETERS = {"rate": (0.5, 2.0), "size": [1, 2, 4], "kind": ["a", "b"]}


@pytest.fixture(autouse=True)
def _root(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


@pytest.fixture
def elsewhere(monkeypatch, request):
    """All tuners are played in another process; it is this environment's."""
    from benchmarks.tuners.peers import apart

    monkeypatch.setattr(apart, "is_here", lambda tuner: False)
    monkeypatch.setattr(apart, "python_of", lambda tuner: Path(sys.executable))
    monkeypatch.setattr(apart, "_STARTED", [])
    yield apart
    for each in apart._STARTED:
        each.end()


def played(tuner, count=8):
    settings = []
    for _ in range(count):
        settings.append(tuner.ask())
        tuner.tell(settings[-1], settings[-1]["rate"])
    return [*settings, tuner.recommend()]


def test_a_run_is_the_same_in_another_process(elsewhere):
    from benchmarks.tuners.peers import Random

    here = played(Random(PARAMETERS, 3))
    before = elsewhere.cpu_seconds()
    for _ in range(2):  # one process for both
        assert played(elsewhere.make("random", PARAMETERS, 3, 8, {})) == here
    assert len(elsewhere._STARTED) == 1
    assert elsewhere.cpu_seconds() > before
    assert elsewhere.version("random").startswith("numpy ")
    assert not elsewhere.is_missing("random")


def test_what_a_tuner_raises_is_raised_here(elsewhere):
    from benchmarks.tuners.peers import NotItsKind

    with pytest.raises(NotItsKind, match="kind: got categories"):
        elsewhere.make("CMA-ES", PARAMETERS, 3, 8, {})
    tuner = elsewhere.make("random", PARAMETERS, 3, 8, {})
    with pytest.raises(elsewhere.PeerError, match="ValueError: min"):
        tuner.recommend()  # of nothing


def test_a_process_that_ended_is_said_and_replaced(elsewhere):
    tuner = elsewhere.make("random", PARAMETERS, 3, 8, {})
    elsewhere._STARTED[0].end()
    with pytest.raises(elsewhere.PeerError, match="random: its process ended with status"):
        tuner.ask()
    spent = elsewhere.cpu_seconds()
    assert played(elsewhere.make("random", PARAMETERS, 3, 8, {}))
    assert elsewhere.cpu_seconds() > spent


def test_the_clock_counts_the_tuners_process(elsewhere):
    from benchmarks.tuners.clock import Clock

    clock = Clock()
    clock.timed(elsewhere.make, "random", PARAMETERS, 3, 8, {})
    assert clock.cpu >= elsewhere._STARTED[0].cpu_seconds > 0.0


@pytest.mark.long
def test_an_environment_is_made(monkeypatch, tmp_path):
    from benchmarks.tuners import command
    from benchmarks.tuners.peers import TUNERS, apart

    monkeypatch.setenv("SCALABLE_BANDITS_PEERS", str(tmp_path))
    monkeypatch.setattr(apart, "is_here", lambda tuner: False)
    monkeypatch.setattr(apart, "_STARTED", [])
    assert apart.is_missing("random")
    assert command.main(["--install", "random"]) == 0
    assert not apart.is_missing("random")
    tuner = apart.make("random", PARAMETERS, 3, 8, {})
    assert played(tuner) == played(TUNERS["random"](PARAMETERS, 3))
    apart.process_of("random").end()
    monkeypatch.setattr(TUNERS["random"], "requirements", ("no-such-package-of-anybody",))
    with pytest.raises(apart.PeerError, match="random: "):
        apart.install("random")
