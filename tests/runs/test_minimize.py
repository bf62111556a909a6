"""`minimize` and `maximize`: arguments, failures, callbacks, rules, Ctrl-C, earlier observations, results."""

import ctypes
import io
import math
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases.cluster import until
from cases.store import Function, described

import scalable_bandits as sb
from scalable_bandits import progress
from scalable_bandits.runs.evaluations import Evaluations
from scalable_bandits.runs.resuming import resume
from scalable_bandits.runs.stopping import RunStart
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore

SPACE = {"rate": sb.Real(1e-4, 1e-1, log=True), "depth": sb.Integer(1, 12), "kind": ["a", "b"]}
SETTINGS = {"noise": 0.1, "regularization": 0.01}


def loss(setting: dict[str, Any]) -> float:
    return abs(setting["depth"] - 5.0) + abs(np.log10(setting["rate"]) + 2.0) + (setting["kind"] == "b")


def bowl(x: np.ndarray) -> float:
    return float(((x - 0.3) ** 2).sum())


def grid(**given: Any) -> sb.GPEI:
    return sb.GPEI(sb.Grid([[0, 1]], 40), sb.RBF(0.2), **{**SETTINGS, **given})


def same(one: sb.TuningResult, other: sb.TuningResult) -> None:
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.y, other.y)
    assert repr(one.best) == repr(other.best)


class TestSpaces:
    def test_a_dict_of_parameters(self) -> None:
        found = sb.minimize(loss, SPACE, 18)
        assert found.minimize
        assert len(found) == len(found.tickets) == 18
        assert found.measured is not None
        assert found.measured[:2] == (found.x[int(np.argmin(found.y))], found.y.min())
        assert set(found.best.x) == set(SPACE)
        assert found.best.std >= 0.0
        assert (found.interrupted, found.stopped_by, found.failed, found.earlier) == (False, None, [], 0)
        assert found.dataset()["depth"].values.tolist() == [setting["depth"] for setting in found.x]

    @pytest.mark.parametrize("space", [sb.Box([[0, 1], [0, 1]]), sb.Grid([[0, 1], [0, 1]], 9)], ids=["box", "grid"])
    def test_other_spaces(self, space: sb.Box) -> None:
        found = sb.minimize(bowl, space, 16, seed=2)
        assert found.measured is not None
        assert found.measured.y < 0.05
        assert found.policy.seed == 2
        assert isinstance(found.policy, sb.GPEI)

    def test_minimising_is_maximising_the_negated_function(self) -> None:
        low, high = sb.minimize(loss, SPACE, 14), sb.maximize(lambda setting: -loss(setting), SPACE, 14)
        assert low.x == high.x
        np.testing.assert_array_equal(low.y, -high.y)
        assert (low.best.x, low.best.mean, low.best.std) == (high.best.x, -high.best.mean, high.best.std)
        assert low.measured is not None
        assert high.measured is not None
        assert low.measured.y == -high.measured.y

    def test_a_policy(self) -> None:
        """One that maximises is set to minimise, also in its prior mean; the object is the one that was given."""
        given, made = grid(prior_mean=3.0), grid(prior_mean=3.0, minimize=True)
        found = sb.minimize(bowl, given, 12)
        same(found, sb.minimize(bowl, made, 12))
        assert found.policy is given
        assert given.minimize
        assert sb.minimize(bowl, grid(), 12).best.mean < 0.1

    def test_of_several_priors(self) -> None:
        def make(**given: Any) -> sb.PEGPUCB:
            priors = [sb.Prior("low", sb.RBF(0.2), 0.0), sb.Prior("high", sb.RBF(0.2), 9.0)]
            return sb.PEGPUCB(sb.Grid([[0, 1]], 20), priors, **{**SETTINGS, **given})

        same(sb.minimize(bowl, make(), 8), sb.minimize(bowl, make(minimize=True), 8))

    def test_refused(self) -> None:
        with pytest.raises(ValueError, match=r"^policy: got 'one with minimize=True'; allowed: one that maximises"):
            sb.maximize(bowl, grid(minimize=True), 3)
        with pytest.raises(ValueError, match=r"^seed: got 3; allowed: 0 with a policy"):
            sb.minimize(bowl, grid(), 3, seed=3)
        with pytest.raises(ValueError, match=r"^space_or_policy: got 7; allowed: a space, a dict"):
            sb.minimize(bowl, 7, 3)
        told = grid()
        told.tell(0.0, 1.0)
        failed = grid()
        failed.tell_failure(0.0)
        for policy in (told, failed):
            with pytest.raises(ValueError, match=r"^policy: got .*; allowed: a fresh one"):
                sb.minimize(bowl, policy, 3)

    @pytest.mark.parametrize(
        ("given", "name"),
        [
            ({"budget": 0}, "budget"), ({"budget": 2.0}, "budget"), ({"budget": "9"}, "budget"),
            ({"retries": -1}, "retries"), ({"timeout": 0}, "timeout"), ({"timeout": 3.0}, "timeout"),
            ({"timeout": 3.0, "on": "threads:2"}, "timeout"), ({"progress": 1}, "progress"),
            ({"callbacks": 3}, "callbacks"), ({"callbacks": [print, 3]}, "callbacks"), ({"stop": "soon"}, "stop"),
            ({"warm_start": 7}, "warm_start"), ({"seconds": -1}, "seconds"), ({"function": 7}, "function"),
            ({"stop": sb.RegretBelow(0.1)}, "stop"), ({"parallel": 0}, "parallel"), ({"parallel": 1.5}, "parallel"),
            ({"seconds": "1"}, "seconds"), ({"seconds": True}, "seconds"), ({"on": "local:0"}, "on"),
        ],
        ids=str,
    )  # fmt: skip
    def test_nothing_has_changed(self, given: dict[str, Any], name: str, tmp_path: Any) -> None:
        policy = grid()
        arguments = {"function": bowl, "space_or_policy": policy, "budget": 3, "store": tmp_path / "run", **given}
        with pytest.raises(ValueError, match=f"^{name}: got .*; allowed: "):
            sb.minimize(**arguments)
        assert not any(tmp_path.iterdir())
        assert (policy.minimize, policy.rounds, policy.pending) == (False, 0, [])


class Unsure:
    """What some libraries' arrays of several numbers do."""

    def __float__(self) -> float:
        raise RuntimeError("2 elements cannot be converted to a scalar")

    def __repr__(self) -> str:
        return "unsure"


class TestFailures:
    @pytest.mark.parametrize("parallel", [None, 3])
    @pytest.mark.parametrize(
        "bad",
        [ZeroDivisionError("no"), np.nan, np.inf, "text", None, 10**400, Unsure()],
        ids=lambda bad: repr(bad)[:9],
    )
    @pytest.mark.sampled(5)
    def test_are_stored_and_avoided(self, bad: Any, parallel: int | None, tmp_path: Any) -> None:
        works = threading.Event()

        def function(setting: dict[str, Any]) -> Any:
            if setting["kind"] == "b" and works.is_set():
                if isinstance(bad, Exception):
                    raise bad
                return bad
            return loss(setting)

        found = sb.minimize(
            function, SPACE, 16, parallel=parallel, retries=1, store=tmp_path / "run",
            callbacks=lambda run: works.set(),
        )  # fmt: skip
        assert found.failed
        assert all(ticket.starts == ticket.failures == 2 and ticket.error for ticket in found.failed)
        assert len(found) + len(found.failed) == 16
        stored = ObservationStore.open(tmp_path / "run")
        assert len(stored.failures) == len(found.failed)
        assert (len(stored), stored.pending) == (len(found), [])
        assert np.isfinite(stored.read()["y"]).all()
        if isinstance(bad, Exception):
            assert all("raise bad\nZeroDivisionError: no" in failure.trace for failure in stored.failures)
            assert {ticket.error for ticket in found.failed} == {"ZeroDivisionError: no"}
        now = status(tmp_path / "run")
        assert (now.rounds, now.failures, now.state) == (len(found), len(found.failed), "complete")

    def test_if_the_first_ten_fail(self, tmp_path: Any) -> None:
        calls = []

        def function(setting: dict[str, Any]) -> float:
            calls.append(setting)
            raise KeyError("depht")

        text = r"(?s)^function: the first 10 evaluations failed; the last one, at .*in function.*KeyError: 'depht'"
        with pytest.raises(RuntimeError, match=text):
            sb.minimize(function, SPACE, 100, store=tmp_path / "run")
        assert len(calls) == 10
        found = sb.minimize(Mended(calls), SPACE, 14, store=tmp_path / "other")
        assert len(found) == 14
        stored = ObservationStore.open(tmp_path / "run")
        assert (len(stored), len(stored.failures)) == (0, 10)

    @pytest.mark.parametrize("stored", [False, True])
    @pytest.mark.parametrize("parallel", [None, 2])
    @pytest.mark.parametrize("returned", ["0.5", None, [1.0, 2.0], {"loss": 1.0}], ids=repr)
    def test_a_function_that_returns_no_number(
        self, returned: Any, parallel: int | None, stored: bool, tmp_path: Any
    ) -> None:
        """A mistake, which is said at once; the policy can be used when it is mended."""
        policy = grid()
        store = tmp_path / "run" if stored else None
        with pytest.raises(ValueError, match=r"^function: got .*; allowed: a function that returns a number"):
            sb.minimize(lambda x: returned, policy, 9, parallel=parallel, store=store)
        assert (policy.rounds, policy.pending, policy.failures) == (0, [], 0)
        same(sb.minimize(bowl, policy, 9), sb.minimize(bowl, grid(), 9))

    def test_a_truth_value_and_a_number_of_numpy(self) -> None:
        assert set(sb.maximize(lambda x: bool(x[0] > 0.5), grid(), 5).y) <= {0.0, 1.0}
        assert len(sb.maximize(lambda x: np.float32(x[0]), grid(), 3)) == 3


class Mended:
    def __init__(self, calls: list[Any], works: bool = True):
        self.calls, self.works = calls, works

    def __call__(self, setting: dict[str, Any]) -> float:
        self.calls.append(setting)
        if not self.works:
            raise OSError("broken")
        return loss(setting)


class TestCallbacks:
    def test_see_every_evaluation(self) -> None:
        seen: list[sb.RunView] = []

        def function(x: np.ndarray) -> float:
            if 0.5 < x[0] < 0.7:
                raise OSError("hot")
            return bowl(x)

        policy = grid()
        found = sb.minimize(function, policy, 15, callbacks=[seen.append, lambda run: None])
        assert [run.number for run in seen] == list(range(1, 16))
        told = [run for run in seen if run.y is not None]
        np.testing.assert_array_equal([run.y for run in told], found.y)
        np.testing.assert_array_equal([run.x for run in told], found.x)
        assert {run.error for run in seen if run.y is None} == {"OSError: hot"}
        assert len(found.failed) == 15 - len(told) > 0
        lowest, since = np.inf, 0
        for run in seen:
            since = 0 if run.y is not None and run.y < lowest else since + 1
            lowest = min(lowest, np.inf if run.y is None else run.y)
            assert run.policy is policy
            assert run.since_best == since
            assert (np.inf if run.best is None else run.best.y) == lowest
        assert [run.seconds for run in seen] == sorted(run.seconds for run in seen)

    @pytest.mark.parametrize("space", [{"a": sb.Integer(1, 9), "b": sb.Real(0, 1)}, sb.Box([[1, 9], [0, 1]])])
    def test_what_they_are_handed_is_theirs(self, space: Any) -> None:
        """What a callback, or the function, does to a point changes neither the run nor what others see."""

        def spoil(x: Any) -> None:
            for key in x if isinstance(x, dict) else range(2):
                x[key] = 77.0

        def function(x: Any) -> float:
            value = float(sum(x.values() if isinstance(x, dict) else x))
            spoil(x)
            return value

        def callback(run: sb.RunView) -> None:
            for point in (run.x, run.best.x if run.best else run.x):
                assert 77.0 not in (point.values() if isinstance(point, dict) else point)
                spoil(point)

        found = sb.minimize(function, space, 5, callbacks=[callback, callback])
        values = [sum(x.values() if isinstance(x, dict) else x) for x in found.x]
        np.testing.assert_allclose(values, found.y)

    def test_an_exception_ends_the_run(self, tmp_path: Any) -> None:
        def angry(run: sb.RunView) -> None:
            if run.number == 4:
                raise LookupError("enough")

        with pytest.raises(LookupError, match="enough"):
            sb.minimize(bowl, grid(), 9, store=tmp_path / "run", callbacks=angry)
        assert len(ObservationStore.open(tmp_path / "run")) == 4
        same(sb.minimize(bowl, grid(), 9, store=tmp_path / "run"), sb.minimize(bowl, grid(), 9))

    def test_every_callback_comes_to_its_end(self) -> None:
        """Also if another's fails, as that of a tracker whose server is down."""

        class Log:
            found: sb.TuningResult | None = None

            def __call__(self, run: sb.RunView) -> None:
                pass

            def end(self, found: sb.TuningResult | None) -> None:
                self.found = found
                raise ConnectionError("the server is down")

        logs = [Log(), Log()]
        with pytest.raises(ConnectionError):
            sb.minimize(bowl, grid(), 2, callbacks=logs)
        assert [log.found is not None and len(log.found) for log in logs] == [2, 2]

    def test_begin_and_end(self, tmp_path: Any) -> None:
        """`begin` sees what the run has already, also if it is complete; `end` the result, or None after an error."""

        class Log:
            def __init__(self) -> None:
                self.seen: list[Any] = []

            def begin(self, run: RunStart) -> None:
                self.seen.append((run.run_id, [ticket.number for ticket in run.tickets], run.budget))

            def __call__(self, run: sb.RunView) -> None:
                self.seen.append(run.ticket.number)
                if run.number == 3:
                    raise LookupError("enough")

            def end(self, found: sb.TuningResult | None) -> None:
                self.seen.append(found)

        logs = [Log() for _ in range(4)]
        with pytest.raises(LookupError):
            sb.minimize(bowl, grid(), 9, store=tmp_path / "run", callbacks=logs[0])
        for log in logs[1:3]:
            found = sb.minimize(bowl, grid(), 5, store=tmp_path / "run", callbacks=log)
            assert log.seen.pop() is found
        sb.minimize(bowl, grid(), 1, callbacks=logs[3])
        run_id = logs[0].seen[0][0]
        assert run_id is not None
        assert logs[0].seen == [(run_id, [], 9), 0, 1, 2, None]
        assert logs[1].seen == [(run_id, [0, 1, 2], 5), 3, 4]
        assert logs[2].seen == [(run_id, [0, 1, 2, 3, 4], 5)]
        assert logs[3].seen[:2] == [(None, [], 1), 0]

    def test_lines(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
        sb.minimize(bowl, grid(), 3, progress=True)
        shown = capsys.readouterr()
        assert "3 of 3" in shown.err
        assert "best " in shown.err
        sb.minimize(bowl, grid(), 3)
        assert capsys.readouterr().err == "", "no terminal, no lines unless asked for"


class TestRules:
    def test_no_improvement(self) -> None:
        found = sb.maximize(lambda x: float(x[0] < 0.5), grid(), 50, stop=sb.NoImprovement(5))
        assert found.stopped_by == "NoImprovement(k=5)"
        assert len(found) == int(np.argmax(found.y)) + 1 + 5

    def test_no_improvement_of_the_front(self) -> None:
        """A setting that no earlier one beats in all objectives is an improvement, whatever its first one is."""

        def trade(x):
            return {"loss": float(x[0]), "seconds": 1.0 - float(x[0])}

        found = sb.minimize(trade, sb.Grid([[0, 1]], 40), 12, objectives=["loss", "seconds"], stop=sb.NoImprovement(3))
        assert (len(found), found.stopped_by) == (12, None)  # all settings are on the front
        flat = sb.minimize(
            lambda x: {"loss": 1.0, "seconds": 2.0}, sb.Grid([[0, 1]], 40), 12, objectives=["loss", "seconds"],
            stop=sb.NoImprovement(3),
        )  # fmt: skip
        assert len(flat) == 4

    @pytest.mark.slow
    def test_counts_on_after_a_resume(self, tmp_path: Any) -> None:
        calls: list[int] = []

        def function(x: np.ndarray) -> float:
            calls.append(1)
            if len(calls) % 3 == 0:
                raise OSError
            return 1.0 - (len(calls) == 5)

        seen: list[int] = []
        for budget in range(1, 12):
            sb.minimize(
                function, grid(), budget, store=tmp_path / "run", callbacks=lambda run: seen.append(run.since_best)
            )
        whole: list[int] = []
        calls.clear()
        sb.minimize(function, grid(), 11, callbacks=lambda run: whole.append(run.since_best))
        assert seen == whole

    def test_a_deadline(self) -> None:
        found = sb.minimize(bowl, grid(), 10_000, stop=[sb.Deadline(0.3)])
        assert found.stopped_by == "Deadline(seconds=0.3)"
        assert len(found) < 10_000
        assert sb.minimize(bowl, grid(), 10_000, seconds=0.3).stopped_by == "seconds"

    @pytest.mark.parametrize("parallel", [None, 3])
    def test_any_function(self, parallel: int | None) -> None:
        def lucky(run: sb.RunView) -> bool:
            return run.number == 7

        found = sb.minimize(bowl, grid(), 30, parallel=parallel, stop=[sb.NoImprovement(99), lucky])
        assert found.stopped_by is not None
        assert found.stopped_by.endswith("lucky")
        assert 7 <= len(found) <= 7 + (parallel or 1) - 1, "those in flight are waited for"
        assert found.policy.pending == []

    @pytest.mark.parametrize(
        ("make", "text"),
        [
            (lambda: sb.NoImprovement(0), "k"), (lambda: sb.Deadline(-1.0), "seconds"),
            (lambda: sb.RegretBelow(0), "eps"), (lambda: sb.RegretBelow(0.1, rkhs_norm="double"), "rkhs_norm"),
            (lambda: sb.RegretBelow(0.1, delta=1.0), "delta"),
        ],
    )  # fmt: skip
    def test_refused(self, make: Any, text: str) -> None:
        with pytest.raises(ValueError, match=f"^{text}: got .*; allowed: "):
            make()


class TestRegretBelow:
    @pytest.mark.parametrize("minimize", [False, True])
    def test_the_bound_is_the_definition(self, minimize: bool) -> None:
        """Largest upper bound minus the lower one at the recommended point, by the posterior itself."""
        policy = sb.IGPUCB(sb.Grid([[0, 1]], 60), sb.RBF(0.2), minimize=minimize, confidence="flynn-reeb", **SETTINGS)
        for _ in range(20):
            x = policy.ask()
            policy.tell(x, bowl(x))
        mean, std = policy.posterior(policy.space.points())
        sign = -1.0 if minimize else 1.0
        best = policy.best()
        expected = (sign * mean + policy.width * std).max() - (sign * best.mean - policy.width * best.std)
        assert sb.RegretBelow(0.1).bound(policy) == pytest.approx(expected, rel=1e-9)

    def test_of_a_box(self) -> None:
        policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2), minimize=True, **SETTINGS)
        for _ in range(12):
            x = policy.ask()
            policy.tell(x, bowl(x))
        rule = sb.RegretBelow(0.1, rkhs_norm=1.0)
        mean, std = policy.posterior(np.linspace(0, 1, 2001))
        gain = policy.information_gain
        width = sb.formulas.confidence.width("flynn-reeb", gain, 0.1, 1.0, 0.1, 0.01)
        best = policy.best()
        expected = (width * std - mean).max() + best.mean + width * best.std
        assert rule.bound(policy) == pytest.approx(expected, rel=1e-4)

    def test_without_a_kernel_in_the_users_units(self) -> None:
        """An estimate: the same function in other units has the same bound in these."""
        bounds = []
        for factor in (1.0, 1000.0):
            policy = sb.GPEI(sb.Box([[0, 1]]), minimize=True)
            for _ in range(15):
                x = policy.ask()
                policy.tell(x, factor * bowl(x))
            bounds.append(sb.RegretBelow(0.1).bound(policy))
        assert bounds[1] == pytest.approx(1000.0 * bounds[0], rel=1e-3)
        found = sb.minimize(bowl, sb.Box([[0, 1]]), 60, stop=sb.RegretBelow(0.01))
        assert found.stopped_by is not None
        assert len(found) < 60

    @pytest.mark.parametrize(
        "make",
        [
            lambda: sb.RandomSearch(sb.Grid([[0, 1]], 9)),
            lambda: sb.SWGPUCB(sb.Grid([[0, 1]], 9), sb.RBF(0.2), memory=5),
            lambda: sb.GPEI(sb.Grid([[0, 1]], 9), sb.RBF(0.2) * sb.TemporalDecay(0.1)),
            lambda: sb.BKB(sb.Grid([[0, 1]], 9), sb.RBF(0.2)),
            lambda: sb.IGPUCB(sb.Grid([[0, 1]], 9), sb.RBF(0.2), rkhs_norm="double"),
        ],
    )
    def test_needs_an_exact_model_of_a_fixed_function(self, make: Any) -> None:
        with pytest.raises(ValueError, match=r"^stop: got .*RegretBelow.*; allowed: "):
            sb.minimize(bowl, make(), 5, stop=sb.RegretBelow(0.1))


class TestInterrupted:
    @pytest.mark.parametrize("stored", [False, True])
    def test_what_was_found_so_far_is_returned(self, stored: bool, tmp_path: Any) -> None:
        calls = []

        def function(x: np.ndarray) -> float:
            calls.append(x)
            if len(calls) == 6:
                os.kill(os.getpid(), signal.SIGINT)
            return bowl(x)

        store = tmp_path / "run" if stored else None
        found = sb.minimize(function, grid(), 9, store=store)
        assert (found.interrupted, len(found), found.stopped_by) == (True, 5, None)
        assert found.best.x is not None
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if stored:
            assert status(tmp_path / "run").rounds == 5
            again = sb.minimize(function, grid(), 9, store=store)
            same(again, sb.minimize(bowl, grid(), 9))
            np.testing.assert_array_equal(calls[6], calls[5])
            assert len(calls) == 10

    def test_before_the_first_value(self) -> None:
        def function(x: np.ndarray) -> float:
            raise KeyboardInterrupt

        found = sb.minimize(function, sb.RandomSearch(sb.Grid([[0, 1]], 9)), 5)
        assert (found.interrupted, len(found), found.measured, found.best.x) == (True, 0, None, None)

    @pytest.mark.parametrize("options", [{}, {"constraints": {"c": sb.AtMost(1.0)}}], ids=["one", "limited"])
    def test_before_any_value(self, options: Any) -> None:
        """Nothing is recommended, and no value expected: what the model believes before is none of the function's."""

        def pressed(setting: Any) -> float:
            raise KeyboardInterrupt

        found = sb.minimize(pressed, {"a": sb.Real(0.0, 1.0)}, 3, **options)
        assert (found.interrupted, found.measured, found.recommended.x) == (True, None, None)
        assert math.isnan(found.value)
        assert math.isnan(found.std)

    @pytest.mark.parametrize("method", ["ask", "learn"])
    def test_a_policy_completes_what_it_does(self, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C while it learns: the observation counts, and the result has it."""
        policy, calls = grid(), []
        original = getattr(sb.GPEI, method)

        def interrupted(self: Any, *arguments: Any, **options: Any) -> Any:
            calls.append(1)
            if len(calls) == 4:
                os.kill(os.getpid(), signal.SIGINT)
            return original(self, *arguments, **options)

        monkeypatch.setattr(sb.GPEI, method, interrupted)
        found = sb.minimize(bowl, policy, 9)
        assert found.interrupted
        assert len(found) == policy.rounds == {"ask": 3, "learn": 4}[method]

    def test_a_value_that_is_there_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C just after the function has returned, while its start is noted."""
        change, calls = Evaluations.change, []

        def interrupted(self: Any, number: int, state: str, **fields: Any) -> Any:
            calls.append(state)
            if calls.count("running") == 4:
                os.kill(os.getpid(), signal.SIGINT)
            return change(self, number, state, **fields)

        monkeypatch.setattr(Evaluations, "change", interrupted)
        found = sb.minimize(bowl, grid(), 9)
        assert (found.interrupted, len(found), found.policy.rounds) == (True, 4, 4)

    def test_values_that_nobody_has_looked_at_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C while the policy chooses the fourth point; calls on threads have ended meanwhile."""
        ask, asks, done, gate = sb.GPEI.ask, [], [], threading.Event()
        before = set(threading.enumerate())

        def function(x: np.ndarray) -> float:
            if len(done) == 3:
                gate.wait(10.0)
            done.append(x)
            return bowl(x)

        def interrupted(self: Any, *arguments: Any, **options: Any) -> Any:
            asks.append(1)
            if len(asks) == 4:
                until(lambda: len(done) == 3 and before.issuperset(threading.enumerate()))
                os.kill(os.getpid(), signal.SIGINT)
            return ask(self, *arguments, **options)

        monkeypatch.setattr(sb.GPEI, "ask", interrupted)
        found = sb.minimize(function, grid(), 9, parallel=2, on="threads:2")
        gate.set()
        assert (found.interrupted, len(found), found.policy.rounds) == (True, 3, 3)

    def test_a_second_one_does_not_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def slow(self: Any, *arguments: Any) -> None:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("goes on")

        monkeypatch.setattr(sb.GPEI, "learn", slow)
        found = sb.minimize(bowl, grid(), 9)
        assert (found.interrupted, len(found)) == (True, 0)

    def test_none_is_printed_beside_the_result(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Pressed again in a callback of compiled code, which can only print it, and while the result is made."""
        learn, recommend, close = sb.GPEI.learn, sb.GPEI.recommend, Evaluations.close

        def press(*_: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)

        def pressed(original: Any) -> Any:
            return lambda *arguments, **given: (press(), original(*arguments, **given))[1]

        def learned(self: Any, *arguments: Any) -> None:
            press()
            ctypes.CFUNCTYPE(None)(press)()
            learn(self, *arguments)

        monkeypatch.setattr(sb.GPEI, "learn", learned)
        monkeypatch.setattr(sb.GPEI, "recommend", pressed(recommend))
        monkeypatch.setattr(Evaluations, "close", pressed(close))
        hook = sys.unraisablehook  # of pytest: what it is given is a failure
        found = sb.minimize(bowl, grid(), 9, store=tmp_path / "run")
        assert (found.interrupted, len(found), found.best.x is not None) == (True, 1, True)
        assert sys.unraisablehook is hook
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_threads(self, tmp_path: Any) -> None:
        """What is in flight is dropped, and evaluated by whoever resumes."""

        def interrupt(run: sb.RunView) -> None:
            if run.number == 8:
                os.kill(os.getpid(), signal.SIGINT)

        found = sb.minimize(bowl, grid(), 20, parallel=3, store=tmp_path / "run", callbacks=interrupt)
        assert found.interrupted
        assert 8 <= len(found) <= 10
        again = sb.minimize(bowl, grid(), 20, parallel=3, store=tmp_path / "run")
        assert len(again) == len(again.tickets) == 20

    def test_elsewhere_it_is_not_touched(self) -> None:
        """In another thread there are no signals; a program's own handler stays."""
        seen, handler = [], signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        try:

            def function(x: np.ndarray) -> float:
                os.kill(os.getpid(), signal.SIGINT)
                return bowl(x)

            found = sb.minimize(function, grid(), 3)
        finally:
            signal.signal(signal.SIGINT, handler)
        assert (len(found), len(seen), found.interrupted) == (3, 3, False)
        thread = threading.Thread(target=lambda: seen.append(len(sb.minimize(bowl, grid(), 3))))
        thread.start()
        thread.join()
        assert seen[-1] == 3


X = [{"rate": 0.01, "depth": 4, "kind": "a"}, {"rate": 0.05, "depth": 9, "kind": "b"}]
Y = [1.0, 5.7]
RECORDS = np.array(
    [(0.01, 4, "a", 1.0), (0.05, 9, "b", 5.7)], dtype=[("rate", float), ("depth", int), ("kind", "U1"), ("loss", float)]
)


class TestWarmStart:
    @pytest.mark.parametrize(
        "given",
        [
            (X, Y), (X, np.array(Y)), RECORDS, pd.DataFrame(RECORDS),
            pd.DataFrame(RECORDS).rename(columns={"loss": "value"}).assign(seconds=3.0),
            sb.TuningResult(sb.Best(None, 0.0, 0.0), grid(), X, np.array(Y)),
        ],
        ids=["lists", "array", "records", "table", "wide table", "result"],
    )  # fmt: skip
    @pytest.mark.sampled(3)
    def test_of_every_kind(self, given: Any) -> None:
        found = sb.minimize(loss, SPACE, 6, warm_start=given)
        assert (len(found), found.earlier, len(found.tickets)) == (8, 2, 6)
        assert found.x[:2] == X
        assert found.y[:2].tolist() == Y
        policy = sb.GPEI(sb.SearchSpace(SPACE), minimize=True)
        policy.tell(X, Y)
        for x, y in zip(found.x[2:], found.y[2:], strict=True):
            assert policy.ask() == x
            policy.tell(x, y)

    def test_of_points_and_arms(self) -> None:
        found = sb.maximize(lambda x: -bowl(x), grid(), 5, warm_start=([[0.0], [1.0]], [-0.09, -0.49]))
        np.testing.assert_array_equal(found.x[:2], [[0.0], [1.0]])
        arms = sb.GPEI(sb.Arms(5), sb.Covariance(np.eye(5) + 0.5))
        assert sb.maximize(float, arms, 3, warm_start=([3, 4], [3.0, 4.0])).x[:2].tolist() == [3, 4]

    @pytest.mark.parametrize("from_file", [False, True])
    @pytest.mark.sampled(2)
    def test_of_the_table_of_a_result(self, from_file: bool) -> None:
        """Without the evaluations that failed, with None as a value, and parameters that do not always exist."""
        space = sb.SearchSpace(
            {
                "kind": sb.Categorical(["a", None]), "flag": sb.Boolean(), "k": sb.Integer(1, 9),
                "depth": sb.Integer(1, 5, when={"kind": "a"}), "o": sb.Ordinal([1, None], when={"flag": True}),
            }
        )  # fmt: skip
        first = sb.minimize(lambda x: x["k"] if x["k"] != 3 else math.nan, space, 20)
        assert first.failed
        table = first.table()
        if from_file:
            table = pd.read_csv(io.StringIO(table.to_csv(index=False)))
        found = sb.minimize(lambda x: 0.0, space, 1, warm_start=table)
        assert found.earlier == len(first.x)
        assert found.x[:-1] == first.x
        assert found.y[:-1].tolist() == first.y.tolist()
        policy, rows = sb.GPEI(space, minimize=True), table.dropna(subset="value")
        policy.tell(rows[list(space.names)].to_dict("records"), rows["value"])
        assert space.arguments(policy.observations.x) == first.x

    def test_counts_as_the_best(self) -> None:
        seen: list[sb.RunView] = []
        found = sb.minimize(loss, SPACE, 3, warm_start=(X, [-9.0, 5.0]), callbacks=seen.append)
        assert found.measured is not None
        assert found.measured[:2] == (X[0], -9.0)
        assert [run.number for run in seen] == [1, 2, 3]
        assert [run.since_best for run in seen] == [1, 2, 3]

    @pytest.mark.parametrize("again", [True, False])
    @pytest.mark.sampled(2)
    def test_is_stored_with_the_run(self, again: bool, tmp_path: Any) -> None:
        whole = sb.minimize(loss, SPACE, 8, warm_start=(X, Y))
        place = tmp_path / "run"
        for budget in (3, 4, 8):
            given = (X, Y) if budget == 3 or again else None
            found = sb.minimize(loss, SPACE, budget, warm_start=given, store=place)
            assert (found.earlier, len(found)) == (2, budget + 2)
        same(found, whole)
        now = status(place)
        assert (now.rounds, now.planned, now.state) == (10, 10, "complete")
        found = resume(place, rounds=12, function=f"{__name__}:loss")
        assert isinstance(found, sb.TuningResult)
        assert (len(found), found.earlier) == (12, 2)

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (([{**X[0], "dpeth": 3}], [1.0]), "x: got 'dpeth'.*did you mean 'depth'"),
            (([{"rate": 0.01, "kind": "a"}], [1.0]), "x: got \"a setting without 'depth'\""),
            (([{**X[0], "depth": 40}], [1.0]), r"x\['depth'\]: got 40"),
            (([{**X[0], "kind": "A"}], [1.0]), r"x\['kind'\]: got 'A'.*'a'"),
            ((X, [1.0]), "got 'values of shape .1,.'; allowed: one for each of the 2 points"),
            ((X, [1.0, np.nan]), "y: got"), ((X, ["1", "2"]), "y: got"), ((X, [1.0, 1e200]), "values up to"),
            (pd.DataFrame(RECORDS).rename(columns={"depth": "dept"}), "the column 'depth'.*did you mean 'dept'"),
            (pd.DataFrame(RECORDS).assign(more=1.0), "columns .*loss.*'more'.*one named 'value'"),
            (pd.DataFrame(RECORDS).drop(columns="loss"), "other columns"),
            (pd.DataFrame(RECORDS).assign(loss=np.nan), "without a value'; allowed: one with"),
            (7, "got 7; allowed: a pair"), ([], "allowed: a pair"), ((X, []), "shape"),
        ],
        ids=str,
    )  # fmt: skip
    def test_refused(self, given: Any, text: str, tmp_path: Any) -> None:
        self.check_refused(given, text, tmp_path)

    def test_several_results_are_refused(self, tmp_path: Any) -> None:
        found = sb.minimize(loss, SPACE, 2)
        self.check_refused([found, found], "allowed: a pair", tmp_path)
        with pytest.raises(ValueError, match=r"^warm_start: got .*allowed: a pair"):
            sb.minimize(lambda s: {"a": 1.0, "b": 2.0}, SPACE, 2, objectives=["a", "b"], warm_start=[found, found])

    @pytest.mark.parametrize("given", [([], []), pd.DataFrame(RECORDS)[:0], RECORDS[:0]])
    def test_nothing_is_known_yet(self, given: Any, tmp_path: Any) -> None:
        """A history that is empty, of a run that goes on with it."""
        for budget in (2, 3):
            found = sb.minimize(loss, SPACE, budget, warm_start=given, store=tmp_path / "run")
            assert (len(found) + len(found.failed), found.earlier) == (budget, 0)

    def check_refused(self, given: Any, text: str, tmp_path: Any) -> None:
        policy = sb.GPEI(sb.SearchSpace(SPACE))
        with pytest.raises(ValueError, match=rf"(?s)^warm_start: .*{text}"):
            sb.minimize(loss, policy, 3, warm_start=given, store=tmp_path / "run")
        assert not any(tmp_path.iterdir())
        assert (policy.rounds, policy.minimize) == (0, False)

    def test_another_one_than_the_stored(self, tmp_path: Any) -> None:
        place = tmp_path / "run"
        sb.minimize(loss, SPACE, 3, warm_start=(X, Y), store=place)
        before = described(place)
        for given in ((X, [1.0, 2.0]), (X[:1], Y[:1])):
            with pytest.raises(ValueError, match=r"^warm_start: got .*; allowed: the 2 with which the run"):
                sb.minimize(loss, SPACE, 3, warm_start=given, store=place)
        sb.minimize(loss, SPACE, 3, store=tmp_path / "plain")
        with pytest.raises(ValueError, match=r"^warm_start: got .*; allowed: the 0 with which the run"):
            sb.minimize(loss, SPACE, 3, warm_start=(X, Y), store=tmp_path / "plain")
        assert described(place)[0] == before[0]

    def test_of_the_table_of_a_result_whose_parameters_have_its_names(self) -> None:
        space = {name: sb.Real(0, 1) for name in ("value", "y", "error")}
        found = sb.minimize(lambda s: (s["value"] - 0.3) ** 2 + s["y"], space, 12)
        again = sb.minimize(lambda s: s["y"], space, 1, warm_start=found.table())
        np.testing.assert_array_equal(again.y[:12], found.y)
        assert again.x[:12] == found.x

    def test_tables_are_of_named_parameters(self) -> None:
        with pytest.raises(ValueError, match=r"^warm_start: got .*the space has no names"):
            sb.minimize(bowl, grid(), 3, warm_start=RECORDS)


class TestStored:
    def test_settings_hold_when_it_is_resumed(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """As many in flight, on as many threads; others if they are given, and these hold from then on."""
        most: list[int] = []
        guard = threading.Lock()
        running: list[int] = []
        together = [threading.Barrier(3)]  # all that may be in flight at once are

        def slow(x: np.ndarray) -> float:
            with guard:
                running.append(1)
                most.append(len(running))
            together[0].wait(60)
            with guard:
                running.pop()
            return bowl(x)

        monkeypatch.setattr("runs.test_minimize.slow_bowl", slow, raising=False)
        place = tmp_path / "run"
        slow.__module__, slow.__qualname__ = __name__, "slow_bowl"
        sb.minimize(slow, grid(), 6, parallel=3, on="threads:3", retries=2, store=place)
        stored = {"parallel": 3, "on": "threads:3", "retries": 2, "timeout": None}
        assert ObservationStore.open(place).attributes["settings"] == stored
        most.clear()
        resume(place, rounds=18, function=f"{__name__}:slow_bowl")
        assert max(most) == 3
        most.clear()
        together[0] = threading.Barrier(2)
        resume(place, rounds=30, function=f"{__name__}:slow_bowl", parallel=2)
        assert max(most) == 2
        assert ObservationStore.open(place).attributes["settings"] == {**stored, "parallel": 2}

    def test_a_store_says_which_way_is_better(self, tmp_path: Any) -> None:
        place = tmp_path / "run"
        found = sb.minimize(bowl, grid(), 5, store=place)
        store = ObservationStore.open(place)
        assert store.attributes["kind"] == "minimize"
        assert store.specification["policy"]["minimize"] is True
        assert status(place).best == found.y.min()
        with pytest.raises(sb.SpecificationDiffers, match="kind: stored 'minimize', given 'maximize'"):
            sb.maximize(bowl, grid(), 5, store=place)
        np.testing.assert_array_equal(store.read(names=["y"])["y"], found.y)

    @pytest.mark.parametrize("parallel", [None, 3])
    @pytest.mark.sampled(2)
    def test_resumed_as_if_it_had_never_stopped(self, parallel: int | None, tmp_path: Any) -> None:
        """Failures in between; where evaluations are made one at a time, to the last bit."""
        function = Function(range(3, 60, 4))
        place, whole = tmp_path / "run", sb.minimize(Function(range(3, 60, 4)), grid(), 24)
        for budget in (1, 2, 3, 4, 8, 9, 24):
            found = sb.minimize(function, grid(), budget, store=place, parallel=parallel)
            assert len(found.tickets) == budget
        assert function.calls == 24
        assert len(found.failed) == len(whole.failed) == 6
        if parallel is None:
            same(found, whole)


def test_a_run_that_a_rule_ended_does_not_go_on(tmp_path: Any) -> None:
    found = [
        sb.minimize(lambda x: 1.0, sb.Box([[0, 1]] * 2), 30, stop=sb.NoImprovement(k), store=tmp_path / "run")
        for k in (5, 5, 5, 7)
    ]
    assert [len(each) for each in found] == [6, 6, 6, 8]
    assert [each.stopped_by for each in found] == ["NoImprovement(k=5)"] * 3 + ["NoImprovement(k=7)"]


def test_arms_have_no_default_policy() -> None:
    with pytest.raises(
        ValueError, match=r"^space_or_policy: got Arms\(.*; allowed: a policy with a kernel of the arms"
    ):
        sb.maximize(lambda arm: 1.0, sb.Arms(5), 8)


def test_a_rule_is_no_class() -> None:
    with pytest.raises(
        ValueError, match=r"^stop: got .*; allowed: a function of the run, or several; of a class an inst"
    ):
        sb.minimize(bowl, sb.Box([[0, 1]] * 2), 8, stop=sb.NoImprovement)


def test_a_learned_bound_waits_for_values_to_learn_from() -> None:
    found = sb.minimize(lambda x: 1e5 * float((x[0] - 0.3) ** 2), sb.Box([[0, 1]] * 2), 30, stop=sb.RegretBelow(1000.0))
    assert len(found) >= 10


def test_failures_after_earlier_values_do_not_end_the_run() -> None:
    def broken(x: np.ndarray) -> float:
        raise MemoryError

    earlier = sb.minimize(bowl, sb.Box([[0, 1]] * 2), 11)
    found = sb.minimize(broken, sb.Box([[0, 1]] * 2), 12, warm_start=earlier)
    assert (len(found.failed), found.earlier) == (12, 11)


def test_a_function_that_exits_has_failed() -> None:
    def exits(x: np.ndarray) -> float:
        if x[0] > 0.5:
            sys.exit(2)
        return bowl(x)

    found = sb.minimize(exits, sb.Box([[0, 1]] * 2), 8)
    assert len(found) + len(found.failed) == 8
    assert all("SystemExit" in ticket.error for ticket in found.failed)


def test_ctrl_c_while_a_program_is_started_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        """Program that has begun when Ctrl-C comes, but of which nobody knows yet."""

        def __init__(self, words: Any, **keywords: Any):
            super().__init__(["sleep", "600"] if len(started) == 2 else words, **keywords)
            started.append(self)
            if len(started) == 3:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    command = sb.Command("echo {k}")
    found = sb.minimize(command, {"k": sb.Integer(0, 3)}, 4)
    assert (found.interrupted, len(found), len(started)) == (True, 2, 3)
    assert started[2].returncode == -signal.SIGTERM
    assert started[2].stdout.closed


class TestTimeout:
    @pytest.mark.slow
    @pytest.mark.usefixtures("forked_workers")
    def test_ends_an_evaluation_on_a_worker_process(self, tmp_path: Any) -> None:
        found = sb.minimize(
            sleepy, {"k": sb.Integer(0, 3), "u": sb.Real(0, 1)}, 4, on="local:2", timeout=15.0, store=tmp_path / "run"
        )
        assert len(found) + len(found.failed) == 4
        assert len(found) > 0
        assert found.failed
        assert {ticket.error for ticket in found.failed} == {"TimeoutError: it took longer than 15 s"}
        assert all(setting["k"] < 2 for setting in found.x)
        assert all(ticket.starts == 1 for ticket in found.tickets)


def sleepy(setting: dict[str, Any]) -> float:
    if setting["k"] >= 2:
        threading.Event().wait(100.0)
    return float(setting["k"])
