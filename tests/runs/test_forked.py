"""A process that forks while it writes a store: the child ends as one, and the parent's run is whole."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.store import ObservationStore, StoreError, StoreLocked

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
SPACE = sb.Grid([[0, 1]], 40)


class Forking:
    """Function that forks at its fourth call, and has the exit code of the child, which ends as `child` says."""

    def __init__(self, child: Any) -> None:
        self.calls, self.child, self.code = 0, child, -1

    def __call__(self, x: Any) -> float:
        self.calls += 1
        if self.calls == 4:
            number = os.fork()
            if number == 0:
                self.child()
                return 0.0
            self.code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        return float(x[0])


@pytest.mark.parametrize(
    ("child", "code", "parallel"), [(lambda: sys.exit(3), 3, 1), (lambda: None, 0, 2), (lambda: 1 // 0, 1, 1)]
)
def test_a_child_ends_where_it_leaves_the_function(child: Any, code: int, parallel: int, tmp_path: Path) -> None:
    """In this process and in its threads; it neither goes on with the run nor closes its store."""
    function = Forking(child)
    found = sb.minimize(function, sb.RandomSearch(SPACE), 12, store=tmp_path / "run", parallel=parallel)
    assert function.code == code
    assert len(found) == function.calls == 12
    assert all(part.whole for part in sb.check(tmp_path / "run"))
    np.testing.assert_array_equal(ObservationStore.open(tmp_path / "run").read(names=["y"])["y"], found.y)


@pytest.mark.parametrize("argument", ["callbacks", "stop"])
def test_a_child_of_a_callback_or_a_rule(argument: str, tmp_path: Path) -> None:
    seen = Forking(lambda: sys.exit(3))
    given: dict[str, Any] = {argument: lambda run: seen(run.x) < 0.0}
    found = sb.minimize(lambda x: x[0], sb.RandomSearch(SPACE), 12, store=tmp_path / "run", **given)
    assert seen.code == 3
    assert len(found) == seen.calls == 12


def test_a_child_of_a_simulation(tmp_path: Path) -> None:
    function = Forking(lambda: sys.exit(3))
    environment = sb.FunctionEnvironment(SPACE, function, optimum=1.0)
    run = sb.simulate(sb.RandomSearch(SPACE), environment, 12, store=tmp_path / "run")
    assert function.code == 3
    assert len(run) == 12
    assert all(part.whole for part in sb.check(tmp_path / "run"))


def test_a_child_of_a_recording_is_no_writer(tmp_path: Path) -> None:
    """Its values are refused, and closing does nothing: the parent's lock and file are as they were."""
    policy = sb.RandomSearch(SPACE)
    with sb.record(policy, tmp_path / "run") as recording:
        policy.tell([0.0], 1.0)
        number = os.fork()
        if number == 0:
            try:
                with pytest.raises(StoreError, match="it is not open for writing in this process"):
                    policy.tell([0.0], 2.0)
                recording.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(number, 0)[1] == 0
        with pytest.raises(StoreLocked):
            ObservationStore.open(tmp_path / "run", "a")
        policy.tell([1.0], 3.0)
    assert all(part.whole for part in sb.check(tmp_path / "run"))
    assert ObservationStore.open(tmp_path / "run").read(names=["y"])["y"].tolist() == [1.0, 3.0]
