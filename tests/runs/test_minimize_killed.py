"""Nothing lost, nothing twice: `minimize` in a process that is killed or interrupted, and resumed."""

import os
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import psutil
import pytest
from cases import tuned
from cases.cluster import until
from cases.paths import PYTHONPATH, TESTS

import scalable_bandits as sb
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore

BUDGET = 20
WAYS = {"one at a time": (0, "here", 1), "threads": (3, "here", 3), "worker processes": (2, "local:2", 2)}


def calls(log):
    """Settings with which the function was called, in order."""
    return log.read_text().splitlines() if log.exists() else []


def begin(place, log, way):
    parallel, on, _ = WAYS[way]
    words = [sys.executable, str(TESTS / "cases" / "tuned.py"), place, log, parallel, on, BUDGET]
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    return subprocess.Popen(
        list(map(str, words)), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def line(space, x):
    """A point of the store as the function writes down its setting."""
    setting = space.setting(np.asarray(x))
    return f"{setting['depth']} {setting['rate']!r} {setting['kind']}"


def stored(place):
    """Settings of the values and of the failures of a store."""
    store, space = ObservationStore.open(place), sb.SearchSpace(tuned.SPACE)
    values = [line(space, x) for x in store.read(names=["x"])["x"]]
    return values, [line(space, failure.x) for failure in store.failures]


def check_end(place, log, way, ends):
    """Every evaluation is there once, and was made once but for those that were in flight at one of the ends."""
    values, failures = stored(place)
    assert len(values) + len(failures) == BUDGET
    made, kept = Counter(calls(log)), Counter(values + failures)
    assert not kept - made
    assert (made - kept).total() <= ends * WAYS[way][2]
    assert all(int(each.split()[0]) > 9 for each in failures)
    tickets = ObservationStore.open(place).tickets.values()
    assert sum(ticket.final for ticket in tickets) == BUDGET
    assert sum(ticket.gone for ticket in tickets) == len(failures)
    assert status(place).state == "complete"
    if way == "one at a time":
        whole = tuned.play(place.with_name("whole"), log.with_name("whole.log"), None, None, BUDGET, seconds=0.0)
        assert stored(place) == stored(place.with_name("whole"))
        assert [line(whole.policy.space, whole.policy.space.parse(x)[0][0]) for x in whole.x] == values


ENDS = {"killed": signal.SIGKILL, "interrupted": signal.SIGINT}
SOME = {("worker processes", "killed"), ("threads", "interrupted")}


@pytest.mark.parametrize(("way", "end"), [pytest.param(*each, marks=pytest.mark.slow) for each in sorted(SOME)])
def test_once(way, end, tmp_path):
    check_ends(way, end, (5,), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ENDS)
def test_again_and_again(way, end, tmp_path):
    check_ends(way, end, (3, 5), tmp_path)


def check_ends(way, end, after, tmp_path):
    """End a run after so many more calls each time, then let it end by itself."""
    sent = ENDS[end]
    place, log = tmp_path / "run", tmp_path / "log"
    promised, children = 0, set()
    for more in after:
        target = len(calls(log)) + more
        process = begin(place, log, way)
        until(lambda process=process, target=target: len(calls(log)) >= target or process.poll() is not None)
        children |= {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
        process.send_signal(sent)
        output, errors = process.communicate(timeout=120)
        if sent == signal.SIGINT:
            assert process.returncode == 0, errors
            assert output.split()[2] == "True", errors
        values, failures = stored(place)
        assert len(values) + len(failures) >= promised
        assert not Counter(values + failures) - Counter(calls(log))
        promised = len(values) + len(failures)
    process = begin(place, log, way)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    values, failures = stored(place)
    assert output.split() == [str(len(values)), str(len(failures)), "False"]
    check_end(place, log, way, len(after))
    until(lambda: not any(psutil.pid_exists(pid) for pid in children))


@pytest.mark.slow
def test_worker_processes_die(tmp_path):
    """Each of them once, in the middle of an evaluation, which is made again."""
    place, log = tmp_path / "run", tmp_path / "log"
    process, seen = begin(place, log, "worker processes"), set()
    for target in (4, 9):
        until(lambda target=target: len(calls(log)) >= target)
        store = ObservationStore.open(place)
        running = [t.where for t in store.tickets.values() if t.state == "running"]
        numbers = {int(where.rpartition(" ")[2].rstrip(")")) for where in running} - seen
        if numbers:
            seen.add(min(numbers))
            os.kill(min(numbers), signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    check_end(place, log, "worker processes", 2)
