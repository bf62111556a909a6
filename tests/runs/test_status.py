"""`status` and `resume`: what stores hold, and going on from a store alone."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases.command import command
from cases.store import change_attributes

import scalable_bandits as sb
from scalable_bandits.runs.result import best_points
from scalable_bandits.runs.resuming import resume
from scalable_bandits.status import recover, runs_in, status


def environments():
    """One of every kind that can be made again."""
    grid = sb.Grid([[0, 1], [0, 1]], 9)
    noise = sb.GaussianNoise(0.1)
    yield sb.TableEnvironment(grid, np.linspace(0.0, 1.0, 81), noise, seed=1)
    yield sb.RKHSFunction.sparse(grid, sb.RBF(0.3), noise, seed=2)
    yield sb.RKHSFunction.posterior_mean(grid, sb.RBF(0.3), noise, seed=2)
    yield sb.GPSample(grid, sb.Matern(0.3, nu=2.5), noise, seed=3)
    yield sb.Benchmark(
        "branin", sb.Grid([[0, 1], [0, 1]], 9), sb.UniformNoise(0.1), unit_cube=True, scaled=True, seed=4
    )
    arms = sb.Arms(70)
    yield sb.TableEnvironment(arms, np.arange(70.0) % 7, sb.RademacherNoise(0.1), seed=5)
    yield sb.TableEnvironment(sb.Points(np.random.default_rng(0).random((90, 2))), np.arange(90.0) % 11, noise, seed=6)


def policies(space):
    if isinstance(space, sb.Arms):
        kernel = sb.Covariance(np.eye(70) + 0.5)
        yield sb.GPTS(space, kernel, noise=0.1, regularization=0.01, seed=2)
    else:
        kernel = 2.0 * sb.Matern((0.2, 0.4), nu=1.5) + sb.RBF(0.3)
        yield sb.PiGPUCB(space, sb.Matern(0.2, nu=1.5), horizon=60, tightening=True)
        yield sb.GPUCB(space, kernel, noise=0.1, regularization=0.01, scale=5.0)
    yield sb.IGPUCB(space, kernel, noise=0.1, regularization=0.01, engine="tiled", information_gain=2.0)
    yield sb.GPEI(space, kernel, noise=0.1, regularization=0.01, prior_mean=np.linspace(0, 1, space.size))
    yield sb.RandomSearch(space, seed=3)


@pytest.mark.parametrize(
    "environment", list(environments()), ids=lambda e: f"{type(e).__name__} {type(e.space).__name__}"
)
@pytest.mark.sampled(2)
@pytest.mark.slow
def test_resumes_from_the_store_alone(environment, tmp_path):
    """Policy and environment are made again from what the store says, to the last bit."""
    for number, policy in enumerate(policies(environment.space)):
        place = tmp_path / f"{number}.zarr"
        sb.simulate(policy, environment, 23, store=place)
        run = resume(place, rounds=60)
        again = next(p for i, p in enumerate(policies(environment.space)) if i == number)
        whole = sb.simulate(again, environment, 60)
        for name in ("candidate", "y", "regret", "width", "information_gain"):
            np.testing.assert_array_equal(getattr(run, name), getattr(whole, name), err_msg=f"{type(policy)} {name}")


def test_a_maximize_run_needs_its_function(tmp_path):
    from cases.objectives import objective

    place = tmp_path / "run.zarr"

    def make():
        return sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2), noise=0.01, regularization=1e-4)

    sb.maximize(objective, make(), 7, store=place)
    for name, message in (
        (None, r"cases.objectives:objective"),
        ("cases.objectives:nothing", "nothing"),
        ("cases.objectives:number", "a function"),
    ):
        with pytest.raises(ValueError, match=rf"^function: .*{message}"):
            resume(place, rounds=15, function=name)
    found = resume(place, rounds=15, function="cases.objectives:objective")
    whole = sb.maximize(objective, make(), 15)
    np.testing.assert_array_equal(found.x, whole.x)
    np.testing.assert_array_equal(found.y, whole.y)


def test_what_a_store_alone_cannot_resume(tmp_path):
    space = sb.Grid([[0, 1]], 9)
    by_hand = sb.GPEI(space, sb.RBF(0.2))
    with sb.record(by_hand, tmp_path / "hand.zarr"):
        by_hand.tell(by_hand.ask(), 1.0)
    with pytest.raises(ValueError, match="of kind 'record'"):
        resume(tmp_path / "hand.zarr", rounds=3)
    environment = sb.FunctionEnvironment(space, lambda x: x[0])
    sb.simulate(sb.GPEI(space, sb.RBF(0.2)), environment, 3, store=tmp_path / "function.zarr")
    with pytest.raises(ValueError, match=r"^environment.function: got .*lambda.*run its script"):
        resume(tmp_path / "function.zarr", rounds=5)
    table = sb.TableEnvironment(space, np.arange(9.0))
    sb.simulate(sb.GPEI(space, sb.RBF(0.2)), table, 3, store=tmp_path / "sets.zarr", available=lambda t: [t % 9])
    with pytest.raises(ValueError, match="whose availability sets are given by a function"):
        resume(tmp_path / "sets.zarr", rounds=5)
    with pytest.raises(FileNotFoundError, match="no run in"):
        resume(tmp_path / "none.zarr")


def test_a_strangers_store_runs_no_code(tmp_path):
    """A specification that names anything but the package's own classes is refused."""
    place = tmp_path / "run.zarr"
    environment = next(environments())
    sb.simulate(sb.GPEI(environment.space, sb.RBF(0.2)), environment, 3, store=place)
    stolen = {"type": "os.system", "command": "touch stolen"}
    change_attributes(place, lambda attributes: attributes["specification"]["policy"].update(kernel=stolen))
    with pytest.raises(ValueError, match=r"^type: got 'os.system'"):
        resume(place, rounds=5)


def test_a_strangers_store_of_something_else(tmp_path):
    """What should be a policy is a kernel: refused, not played."""
    sb.simulate(sb.RandomSearch(sb.Arms(3)), sb.TableEnvironment(sb.Arms(3), np.zeros(3)), 5, store=tmp_path / "a.zarr")
    change_attributes(tmp_path / "a.zarr", lambda attributes: attributes["specification"]["policy"].update(type="RBF"))
    with pytest.raises(ValueError, match=r"^type: got 'RBF'; allowed: .*RandomSearch"):
        resume(tmp_path / "a.zarr", rounds=9)


class TestStatus:
    @pytest.fixture
    def folder(self, tmp_path):
        environment = next(environments())
        sb.simulate(sb.IGPUCB(environment.space, sb.RBF(0.3)), environment, 30, store=tmp_path / "a" / "one.zarr")
        sb.maximize(lambda x: -x[0], sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3)), 5, store=tmp_path / "b.zarr")
        return tmp_path

    def test_numbers(self, folder):
        one, other = (status(place) for place in runs_in(folder))
        expected = sb.simulate(sb.IGPUCB(next(environments()).space, sb.RBF(0.3)), next(environments()), 30)
        assert (one.policy, one.environment, one.rounds, one.planned, one.state) == (
            "IGPUCB", "TableEnvironment", 30, 30, "complete",
        )  # fmt: skip
        assert one.regret == expected.cumulative_regret[-1]
        assert one.largest == expected.y.max()
        assert one.size == sum(file.stat().st_size for file in (folder / "a" / "one.zarr").rglob("*") if file.is_file())
        assert (other.policy, other.rounds, other.planned) == ("GPEI", 5, 5)
        assert "lambda" in other.environment
        assert math.isnan(other.regret)
        assert 0 < one.last_write <= other.last_write

    def test_printed(self, folder):
        result = command("status", folder)
        assert result.exit_code == 0, result.output
        words = " ".join(result.stdout.split())
        assert "one.zarr" in words
        assert "30/30" in words
        assert "complete" in words
        assert "best y" in words

    def test_printed_in_eighty_columns(self, folder):
        """Nothing is cut off."""
        result = command("status", folder / "b.zarr", columns=80)
        assert "…" not in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 80

    @pytest.mark.slow
    def test_what_has_no_room_is_left_out(self, tmp_path):
        """Column after column, before a name is folded; a study's runs are named by their policies, which go last."""
        sb.Study.load("srinivas2010-synthetic").run(replicates=1, horizon=2, store=tmp_path / "runs")
        shown = {}
        for columns in (80, 90, 100, 110, 140):
            lines = command("status", tmp_path, columns=columns).stdout.splitlines()
            assert max(map(len, lines)) <= columns
            assert sum("runs/rbf/variance-only/0000 " in line for line in lines) == 1
            shown[columns] = [heading for heading in ("policy", "environment", "size") if f" {heading} " in lines[1]]
        assert shown[80] == []
        assert shown[140] == ["policy", "environment", "size"]
        assert shown[90] in ([], ["policy"])
        assert shown[100] in (["policy"], ["policy", "size"])
        assert shown[110] in (["policy", "size"], ["policy", "environment", "size"])

    def test_running_interrupted_closed(self, tmp_path):
        policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3))
        recording = sb.record(policy, tmp_path / "run.zarr")
        policy.tell([0.5], 1.0)
        assert status(tmp_path / "run.zarr").state == f"running ({os.getpid()})"
        recording.close(orderly=False)
        assert status(tmp_path / "run.zarr").state == "interrupted"
        with sb.record(sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3)), tmp_path / "run.zarr"):
            pass
        assert status(tmp_path / "run.zarr").state == "closed"

    def test_a_damaged_run_does_not_hide_the_others(self, folder):
        (folder / "b.zarr" / "zarr.json").write_text("{")
        (folder / "b.zarr" / "committed" / "zarr.json").write_text("{")
        result = command("status", folder)
        assert result.exit_code == 0
        assert "30/30" in result.stdout

    def test_damage_that_nothing_else_reads_is_an_error(self, tmp_path):
        """The run is complete, so that `resume` plays nothing: its status meets the damaged chunk."""
        space = sb.Grid([[0, 1]], 5)
        environment = sb.TableEnvironment(space, np.arange(5.0), sb.GaussianNoise(0.1), seed=1)
        sb.simulate(sb.RandomSearch(space), environment, 40, store=tmp_path / "run")
        (chunk,) = [path for path in (tmp_path / "run" / "y").rglob("*") if path.is_file() and path.name != "zarr.json"]
        chunk.write_bytes(chunk.read_bytes()[:-8])
        done = command("resume", tmp_path / "run")
        assert done.exit_code == 2
        assert "error: store" in done.stderr
        assert "cannot be read" in done.stderr

    @pytest.mark.parametrize("name", ["nothing", "empty"])
    def test_no_runs(self, tmp_path, name):
        (tmp_path / "empty").mkdir()
        result = command("status", tmp_path / name)
        assert result.exit_code == 2
        assert "error: store" in result.stderr


@pytest.mark.slow
def test_a_study_of_which_nothing_was_played(tmp_path):
    from cases.cluster import toy

    toy().run(store=tmp_path / "study")
    for run in list(runs_in(tmp_path / "study")):
        shutil.rmtree(run)
    done = command("status", tmp_path / "study")
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}/study: a study without any started run\n")
    assert json.loads(command("status", tmp_path / "study", "--json").stdout) == []


def fails(x):
    raise ArithmeticError(f"nothing at {x}")


def fails_above(setting):
    if setting["x"] > 0.7:
        raise ValueError("too much")
    return setting["x"]


def test_a_smaller_budget_leaves_a_complete_run_as_it_is(tmp_path):
    """Failed evaluations are a part of what was planned."""
    space = {"x": sb.Real(0.0, 1.0)}
    sb.minimize(fails_above, space, 12, store=tmp_path / "run")
    before = status(tmp_path / "run")
    assert (before.rounds + before.failures, before.planned, before.state) == (12, 12, "complete")
    assert before.failures
    sb.minimize(fails_above, space, 5, store=tmp_path / "run")
    assert status(tmp_path / "run").planned == 12


def test_a_run_whose_process_ended_before_it_had_begun(tmp_path):
    """It is "not begun"; the others are checked and recovered all the same."""
    line = sb.TableEnvironment(sb.Arms(3), [0.1, 0.5, 0.2], seed=1)
    for name in ("a", "c"):
        sb.simulate(sb.RandomSearch(sb.Arms(3)), line, 20, store=tmp_path / name)
    (tmp_path / "b" / "committed").mkdir(parents=True)
    (tmp_path / "b" / "committed" / "writer.lock").touch()
    assert [Path(each.name).name for each in sb.check(tmp_path)] == ["a", "b", "c"]
    assert [each.whole for each in sb.check(tmp_path)] == [True] * 3
    assert [status(run).state for run in runs_in(tmp_path)] == ["complete", "not begun", "complete"]
    chunk = next(file for file in (tmp_path / "c" / "y").rglob("c.*") if file.is_file())
    chunk.write_bytes(b"")
    assert [each.whole for each in sb.check(tmp_path)] == [True, True, False]
    assert len(recover(tmp_path)) == 1
    assert [each.whole for each in sb.check(tmp_path)] == [True] * 3
    with pytest.raises(FileNotFoundError, match="there is no run"):
        sb.check(str(tmp_path / "b"))


def test_the_folder_of_a_result_is_no_store(tmp_path):
    (tmp_path / "result.zarr").mkdir()
    (tmp_path / "result.zarr" / "zarr.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="has the result of a study; `report` reads it"):
        next(runs_in(tmp_path))


def test_what_failed_as_it_ran_leaves_with_1(tmp_path):
    """All evaluations of the budget had failed, for good: there is no bad usage in that."""
    policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3))
    with pytest.raises(RuntimeError, match="all 2 evaluations failed"):
        sb.maximize(fails, policy, 2, store=tmp_path / "run.zarr", parallel=1, retries=0)
    result = command("resume", tmp_path / "run.zarr", "--function", f"{__name__}:fails", "--parallel", 1)
    assert result.exit_code == 1
    assert "error: function: all 2 evaluations failed" in result.stderr


TROUBLE = {
    "value": ValueError("the sensor is gone"), "key": KeyError("sensor"), "os": OSError("no such device"),
    "user": KeyboardInterrupt(),
}  # fmt: skip
trouble = None  # what `experiment` raises; "nothing": it returns None


def experiment(x):
    if trouble in TROUBLE:
        raise TROUBLE[trouble]
    return None if trouble == "nothing" else -((x[0] - 0.3) ** 2)


def fresh():
    return sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3), noise=0.1, regularization=0.01)


def begun(place, function=experiment):
    """A run of three evaluations, and how to go on with it."""
    sb.maximize(function, fresh(), 3, store=place)
    return "resume", place, "--function", f"{__name__}:{function.__name__}"


@pytest.mark.parametrize("kind", ["value", "key", "os", "nothing"])
@pytest.mark.sampled(4)
def test_a_function_that_fails_now_and_then(kind, tmp_path, monkeypatch):
    """Whatever it raises, the run goes on, and says what failed; the failures are stored."""
    call = begun(tmp_path / "run.zarr")
    monkeypatch.setattr(sys.modules[__name__], "trouble", kind)
    result = command(*call, "--rounds", 5)
    assert result.exit_code == 0, result.output
    error = "function: got None" if kind == "nothing" else type(TROUBLE[kind]).__name__
    assert f"failed: 2 evaluations: {error}" in result.stderr
    assert "3/5 (2 failed)" in result.stdout
    now = status(tmp_path / "run.zarr")
    assert (now.rounds, now.planned, now.failures, now.state) == (3, 5, 2, "complete")
    monkeypatch.undo()
    assert command(*call, "--rounds", 7).exit_code == 0
    assert status(tmp_path / "run.zarr").rounds == 5


def test_in_python_its_error_is_told_when_nothing_works(monkeypatch):
    """With the function's own lines alone."""
    monkeypatch.setattr(sys.modules[__name__], "trouble", "key")
    with pytest.raises(RuntimeError, match=r"(?s)all 5 .*raise TROUBLE.*KeyError: 'sensor'") as raised:
        sb.maximize(experiment, fresh(), 5)
    assert "evaluations.py" not in str(raised.value)


def test_stopped_by_the_user(tmp_path, monkeypatch):
    call = begun(tmp_path / "run.zarr")
    monkeypatch.setattr(sys.modules[__name__], "trouble", "user")
    result = command(*call, "--rounds", 5)
    assert result.exit_code == 130
    assert result.stderr == f"interrupted; continue with: scalable-bandits {' '.join(map(str, call))}\n"
    assert "expected value" in result.stdout


def half(x):
    if x[0] > 0.5:
        raise ValueError("too hot")
    return -x[0]


@pytest.mark.slow
def test_resumed_for_a_script(tmp_path):
    """One record: how far it is, the best point, and what failed for good."""
    call = begun(tmp_path / "run.zarr")
    record = json.loads(command(*call, "--json", "--rounds", 5).stdout)
    assert (record["rounds"], record["planned"], record["state"], record["failed"]) == (5, 5, "complete", [])
    found = sb.maximize(experiment, fresh(), 5)
    assert record["largest"] == found.y.max()
    assert record["best"] == {"x": found.best.x.tolist(), "mean": found.best.mean, "std": found.best.std}
    printed = command(*call).stdout
    assert all(row[1] in printed for row in best_points(found).rows)
    sb.maximize(half, fresh(), 6, store=tmp_path / "half.zarr", parallel=1, retries=0)
    again = command("resume", tmp_path / "half.zarr", "--function", f"{__name__}:half", "--json", "--parallel", 1)
    failed = json.loads(again.stdout)["failed"]
    assert again.exit_code == 0
    assert {ticket["error"] for ticket in failed} == {"ValueError: too hot"}
    numbers = ", ".join(str(ticket["ticket"]) for ticket in failed)
    said = f"failed: {len(failed)} evaluations: ValueError: too hot (tickets {numbers})"
    assert said in " ".join(again.stderr.split())
    environment = next(environments())
    sb.simulate(next(policies(environment.space)), environment, 5, store=tmp_path / "simulated.zarr")
    simulated = json.loads(command("resume", tmp_path / "simulated.zarr", "--json").stdout)
    assert (simulated["rounds"], simulated["best"], simulated["failed"]) == (5, None, [])


SCRIPT = """
import scalable_bandits as sb

def experiment(x):
    return -float((x[0] - 0.3) ** 2)

def policy():
    return sb.GPEI(sb.Grid([[0, 1]], 40), sb.RBF(0.2), noise=0.1, regularization=0.01)

if __name__ == "__main__":
    print(len(sb.maximize(experiment, policy(), 6, store="run.zarr")))
"""


STARTS = {"file": ["tune.py"], "module": ["-m", "tune"], "typed": ["-c", f"__name__ = '__main__'\n{SCRIPT}"]}


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(start, id=name, marks=pytest.mark.long if name == "module" else pytest.mark.slow)
        for name, start in STARTS.items()
    ],
)
def test_a_script_is_resumed_by_its_name(tmp_path, start, monkeypatch):
    """What a script stores while it runs is what others import it by; typed in, its functions go by their names."""
    (tmp_path / "tune.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which the command adds the working folder
    monkeypatch.delitem(sys.modules, "tune", raising=False)

    def call(*arguments, program=sys.executable):
        return subprocess.run([program, *arguments], cwd=tmp_path, text=True, capture_output=True, check=False)

    assert call(*start).stdout == "6\n"
    named = sb.ObservationStore.open(tmp_path / "run.zarr").specification["function"]["function"]
    assert named == ("__main__:experiment" if start[0] == "-c" else "tune:experiment")
    refused = command("resume", tmp_path / "run.zarr")
    assert refused.exit_code == 2
    assert named in refused.stderr
    words = "resume", "run.zarr", "--function", "tune:experiment", "--rounds", "8"  # which is in the working folder
    if start[0] == "-c":
        done = command(*words)
        assert done.exit_code == 0, done.output
    else:  # as a user types it
        done = call(*words, program=Path(sys.executable).with_name("scalable-bandits"))
        assert done.returncode == 0, done.stderr
    assert "8/8" in done.stdout
    again = command("resume", "run.zarr", "--function", "tune:policy", "--rounds", "9")
    assert again.exit_code == 2
    assert "given 'tune:policy'" in again.stderr
    assert call(*start).stdout == "8\n"  # what there is, is there
    assert len(sb.ObservationStore.open(tmp_path / "run.zarr")) == 8


def test_several_objectives_are_named_and_runs_keep_their_names(tmp_path):
    """The best value is one of the first objective; a narrow window leaves out what matters less than a run's name."""

    def trade(x):
        return {"loss": float(x[0]), "seconds": 1.0 - float(x[0])}

    for name in ("first-experiment.zarr", "second-experiment.zarr"):
        options = {"objectives": ["loss", "seconds"], "store": tmp_path / name}
        found = sb.minimize(trade, sb.Grid([[0, 1]], 9), 4, **options)
    one = status(tmp_path / name)
    assert (one.objective, one.smallest) == ("loss", found.y.min())
    wide, narrow = (command("status", tmp_path, columns=columns).stdout for columns in (140, 60))
    assert f"best loss {found.y.min():.4g}" in wide
    for shown in (wide, narrow):
        assert "first-experiment.zarr" in shown
        assert "second-experiment.zarr" in shown
    assert "GPEHVI" in wide
    assert "GPEHVI" not in narrow
    watched = command("watch", tmp_path / name, "--once", columns=100).stdout
    assert f"best loss {found.y.min():.6g} in evaluation" in watched
    assert "loss, best so far (smaller is better)" in watched
