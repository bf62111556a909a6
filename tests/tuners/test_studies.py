"""Tuners on studies: what is played, kept, resumed and counted. No other package is needed."""

import json
from pathlib import Path

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits.studies import Problem, Study

ROOT = Path(__file__).parents[2]
SPACE = sb.SearchSpace({"a": sb.Real(-5.0, 10.0), "b": sb.Real(0.0, 15.0)})


@pytest.fixture(autouse=True)
def _root(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


class Bowl(sb.Environment):
    def __init__(self, scale, noise, seed):
        super().__init__(SPACE, noise, seed)
        self.scale = scale

    def parameters(self):
        return {"scale": self.scale, "noise": self.noise, "seed": self.seed}

    def evaluate(self, points):
        return -self.scale * ((points - [1.0, 3.0]) ** 2).sum(axis=1)

    def optimum(self, t=1, available=None):
        return 0.0


def build(replicate):
    noise = sb.GaussianNoise(0.1 if replicate.case == "noisy" else 0.0)
    environment = Bowl(replicate.values["scale"], noise, replicate.seed)
    return Problem(environment, {"random": sb.RandomSearch(SPACE, seed=replicate.seed)})


@pytest.fixture
def study(monkeypatch):
    cases = ("exact", "noisy")
    axes = {"scale": [1.0, 2.0]}
    made = Study(name="bowls", cases=cases, build=build, horizon=8, replicates=2, axes=axes)
    monkeypatch.setitem(Study.registry, "bowls", made)
    return made


class Counted:
    """A tuner of the box that asks for a = 0, ..., 9, 0, ... and recommends the first."""

    requirements = modules = ("numpy",)
    played = 0

    def __init__(self, parameters, seed, budget=0):
        assert list(parameters) == ["a", "b"]
        type(self).played += 1
        self.told = []

    def ask(self):
        return {"a": float(len(self.told) % 10), "b": 3.0}

    def tell(self, x, y):
        self.told.append((x["a"], y))

    def recommend(self):
        return {"a": self.told[0][0], "b": 3.0}


@pytest.fixture
def counted(monkeypatch):
    from benchmarks.tuners import peers

    monkeypatch.setitem(peers.TUNERS, "counted", Counted)
    monkeypatch.setattr(Counted, "played", 0)


def test_tasks_are_those_of_the_study_replicate_by_replicate(study):
    from benchmarks.tuners.studies import first_task, tasks_of

    tasks = list(tasks_of(study, 2))
    labels = ["exact, scale = 1", "exact, scale = 2", "noisy, scale = 1", "noisy, scale = 2"]
    assert [(task.replicate, task.label) for task in tasks] == [(i, label) for i in (0, 1) for label in labels]
    assert tasks[5].values == {"scale": 2.0}
    assert tasks[5].seed == study.replicate("exact", 1, 8).seed
    assert tasks[5].environment().mean({"a": 0.0, "b": 3.0}) == -2.0
    assert [task.label for task in tasks_of(study, 1, ["noisy", "exact, scale = 2"])] == labels[1:]
    with pytest.raises(ValueError, match="cases"):
        next(tasks_of(study, 1, ["nois"]))
    assert first_task(study).environment().mean({"a": 0.0, "b": 3.0}) == -1.0


def test_a_line_has_the_checkpoints(study, counted, monkeypatch):
    from benchmarks.tuners import studies

    monkeypatch.setattr(studies, "CHECKPOINTS", (2, 100))
    tasks = studies.tasks_of(study, 1, ["exact, scale = 2", "noisy, scale = 2"])
    exact, noisy = (studies.run("counted", task, 5) for task in tasks)
    assert (exact["noisy"], noisy["noisy"], exact["tie"], exact["groups"]) == (False, True, 0.0, ["scale = 2"])
    assert (exact["study"], exact["case"], exact["values"]) == ("bowls", "exact, scale = 2", {"scale": 2.0})
    assert (exact["replicate"], exact["evaluations"]) == (0, 5)
    assert exact["version"].startswith("numpy ")
    assert exact["optimum"] == 0.0
    first, last = exact["checkpoints"]
    assert (first["at"], last["at"]) == (2, 5)
    assert (first["recommended"], first["recommended_value"]) == ([0.0, 3.0], -2.0)
    assert first["best_value"] == first["best_measured_value"] == 0.0
    environment = next(studies.tasks_of(study, 1, ["noisy, scale = 2"])).environment()
    observed = [environment.observe({"a": float(i), "b": 3.0}, i + 1) for i in range(5)]
    true = [-2.0 * (i - 1.0) ** 2 for i in range(5)]
    assert noisy["checkpoints"][1]["best_measured_value"] == true[int(np.argmax(observed))]
    assert json.loads(json.dumps(exact)) == exact


def test_seconds_are_the_tuners_alone(study, monkeypatch):
    from benchmarks.tuners import clock, studies

    spent = 0.0

    def spend(seconds):
        nonlocal spent
        spent += seconds

    class Slow(Counted):
        def __init__(self, parameters, seed):
            super().__init__(parameters, seed)
            spend(0.5)

        def ask(self):
            spend(1)
            return super().ask()

        def tell(self, x, y):
            super().tell(x, y)
            spend(10)

        def recommend(self):
            spend(100)
            return super().recommend()

    def evaluated(x):
        spend(1000)
        return x

    environment = next(studies.tasks_of(study, 1, ["exact"])).environment()
    monkeypatch.setattr(clock.time, "process_time", lambda: spent)
    monkeypatch.setattr(clock.time, "perf_counter", lambda: 2 * spent)
    kept = studies.play(lambda seed: Slow("ab", seed), environment, 5, [2, 3], evaluated)
    assert [(each["cpu_seconds"], each["wall_seconds"]) for each in kept] == [(122.5, 245.0), (233.5, 467.0)]


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("GPSampler", "BoTorch")]


@pytest.mark.filterwarnings("ignore")  # those of other packages
@pytest.mark.parametrize("name", ["random", "TPE", "ours", "counted", *SLOW])
@pytest.mark.parametrize("case", ["exact", "noisy"])
@pytest.mark.sampled(4)
def test_checkpoints_change_nothing(name, case, study, counted):
    from benchmarks.tuners import peers, studies
    from benchmarks.tuners.spaces import PeerSpace

    if not peers.is_here(name):
        pytest.skip(f"{name} is not installed")
    environment = next(studies.tasks_of(study, 1, [case])).environment()
    given = SPACE if name == "ours" else PeerSpace(SPACE).parameters
    found = []
    for checkpoints in ([16], [3, 11, 12, 15, 16]):
        asked = []

        def make(seed, asked=asked):
            tuner = peers.TUNERS[name](given, seed, 12)
            plain = tuner.ask
            tuner.ask = lambda: asked.append(plain()) or asked[-1]
            return tuner

        line = studies.play(make, environment, 2**62 + 3, checkpoints, lambda x: x)
        found.append((asked, line[-1]["recommended"], line[-1]["best_value"]))
    assert len(found[0][0]) == 16
    assert found[0] == found[1]


def test_kept_runs_are_not_played_again(study, counted, tmp_path):
    from benchmarks.tuners import lines
    from benchmarks.tuners.studies import play_missing, tasks_of

    def play(evaluations, replicates=1, **more):
        return list(play_missing(tmp_path, "c", tasks_of(study, replicates, ["exact"]), "counted", evaluations, **more))

    assert [task.key for task, _ in play(4)] == [("exact, scale = 1", 0), ("exact, scale = 2", 0)]
    assert Counted.played == 3  # one of them before what is measured
    path = lines.path_of(tmp_path, "bowls", "c")
    assert path == tmp_path / "bowls" / "c.jsonl"
    assert play(3) == play(4) == []
    assert len(play(4, replicates=2)) == 2
    kept = path.read_bytes()
    path.write_bytes(kept[:-40])  # of a process that was killed
    assert len(lines.load(tmp_path, "bowls", "c")) == 3
    assert [task.key for task, _ in play(4, replicates=2)] == [("exact, scale = 2", 1)]
    again = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["case"] for line in again] == ["exact, scale = 1", "exact, scale = 2"] * 2
    path.write_bytes(kept[:-1])  # a line without its end is torn, too
    assert len(play(4, replicates=2)) == 1
    assert len(play(6)) == 2
    longest = lines.load(tmp_path, "bowls", "c")
    assert sorted(line["evaluations"] for line in longest.values()) == [4, 4, 6, 6]
    assert "got {'q': 1}; the kept run had {}" in str(play(4, keywords={"q": 1})[0][1])
    path.write_bytes(b"{\n" + kept)
    with pytest.raises(ValueError, match=r"line 1: got b'{'; allowed: JSON"):
        lines.load(tmp_path, "bowls", "c")


def test_a_run_that_fails_is_not_kept(study, monkeypatch, tmp_path):
    from benchmarks.tuners import lines, peers
    from benchmarks.tuners.studies import play_missing, tasks_of

    monkeypatch.setitem(peers.TUNERS, "broken", lambda parameters, seed, budget: 1 / 0)
    found = [run for _, run in play_missing(tmp_path, "b", tasks_of(study, 1), "broken", 4)]
    assert [type(run) for run in found] == [ZeroDivisionError] * 4
    assert lines.load(tmp_path, "bowls", "b") == {}


def results(values, tie=0.0, groups=()):
    from benchmarks.tuners.lines import Key
    from benchmarks.tuners.standings import Result

    made = enumerate(values)
    return {Key(f"case {i}", 0): Result(v, 10 - v, tie, 1.0, groups, "x 1") for i, v in made if v is not None}


def test_ranks():
    from benchmarks.tuners.standings import mean_ranks

    found = {"a": results([3, 1, 5, 9]), "b": results([2, 1, 5]), "c": results([1, 0, 5, 1])}
    ranks, common = mean_ranks(found)
    assert common == 3
    assert ranks == pytest.approx({"a": (1 + 1.5 + 2) / 3, "b": (2 + 1.5 + 2) / 3, "c": (3 + 3 + 2) / 3})
    near = {"a": results([1.0], tie=1e-8), "b": results([1.0 + 5e-9], tie=1e-8)}
    assert mean_ranks(near)[0] == {"a": 1.5, "b": 1.5}
    ranks, common = mean_ranks({"a": results([1]), "b": {}})
    assert common == 0
    assert np.isnan(ranks["a"])


def test_the_sign_test_leaves_ties_out():
    from benchmarks.tuners.standings import Score, score

    ours, theirs = results([3, 3, 3, 3, 3, 3, 1, 1, 7]), results([2, 2, 2, 2, 2, 4, 1, 1 + 1e-12])
    found = score(ours, theirs)
    assert (found, str(found)) == ((5, 2, 1), "5-2-1")
    assert found.p == pytest.approx(2 * (1 + 7 + 21) / 2**7)
    assert score(results([1.0], tie=1e-8), results([1.0 + 1e-9], tie=1e-8)) == (0, 0, 1)
    assert Score(0, 0, 4).p == 1.0
    assert str(score(ours, {})) == ""


def test_with_noise_recommended_values_are_compared():
    from benchmarks.tuners.standings import results_at

    each = {"at": 100, "recommended_value": 1.0, "best_value": 2.0, "cpu_seconds": 3.0}
    line = {"tie": 0.0, "optimum": 5.0, "groups": [], "version": "x 1", "checkpoints": [each]}
    assert results_at({"k": {**line, "noisy": True}}, 100)["k"][:2] == (1.0, 4.0)
    assert results_at({"k": {**line, "noisy": False}}, 100)["k"][:2] == (2.0, 3.0)
    assert results_at({"k": {**line, "noisy": False}}, 500) == {}


def test_functions_of_bbob_have_groups_and_near_ties():
    pytest.importorskip("cocoex")
    from benchmarks.tuners.studies import Task, run
    from scalable_bandits.environments.published.bbob import BBOB

    def one(replicate):
        return Problem(BBOB(3, 2, 4, seed=replicate.seed), {})

    line = run("random", Task(Study("f3", ("f3",), one, 5, 1), "f3", "f3", {}, 0), 3)
    assert (line["tie"], line["groups"], line["noisy"]) == (1e-8, ["separable", "2 dimensions"], False)
    assert line["optimum"] >= line["checkpoints"][0]["best_value"]


def test_intervals():
    from benchmarks.tuners.intervals import Interval

    plain, log, whole = Interval(2.0, 3.0), Interval(1e-4, 1.0, log=True), Interval(1, 9, whole=True)
    assert (plain.at(0.25), plain.place(2.25)) == (2.25, 0.25)
    assert log.at(0.5) == pytest.approx(1e-2)
    assert (log.at(0.0), log.place(1.0)) == (1e-4, 1.0)
    assert [whole.at(u) for u in (0.0, 0.49, 1.0)] == [1, 5, 9]
    counts = np.bincount([whole.spread(u) for u in np.linspace(0, 1, 900, endpoint=False)], minlength=10)
    assert counts[0] == 0
    assert np.ptp(counts[1:]) <= 2
    wide = Interval(1, 1000, log=True, whole=True)
    assert {wide.spread(u) for u in (0.0, 0.999999)} == {1, 1000}


def test_peers_see_the_parameters_of_a_search_space():
    from benchmarks.tuners.intervals import Interval
    from benchmarks.tuners.spaces import PeerSpace

    space = sb.SearchSpace({
        "rate": sb.Real(1e-4, 1.0, log=True), "depth": sb.Integer(1, 9), "width": [16, 32, 64],
        "size": sb.Ordinal(["small", "large"]), "kind": sb.Categorical([None, "a", 3]), "flag": sb.Boolean(),
        "more": sb.Integer(2, 4, when={"flag": True}),
    })  # fmt: skip
    seen = PeerSpace(space)
    assert dict(seen.parameters) == {
        "rate": Interval(1e-4, 1.0, log=True), "depth": Interval(1, 9, whole=True), "width": [16, 32, 64],
        "size": [0, 1], "kind": ["None", "a", "3"], "flag": ["False", "True"], "more": Interval(2, 4, whole=True),
    }  # fmt: skip
    asked = {"rate": 0.01, "depth": 3, "width": 32, "size": 1, "kind": "3", "flag": "True", "more": 4}
    assert seen.point(asked) == {**asked, "size": "large", "kind": 3, "flag": True}
    without = seen.point({**asked, "flag": "False"})
    assert "more" not in without
    assert space.check(without).shape == (1, 7)
    with pytest.raises(ValueError, match="where"):
        PeerSpace(sb.SearchSpace({"a": sb.Real(0, 1)}, where=lambda x: x["a"] > 0.5))
    with pytest.raises(ValueError, match="arms"):
        PeerSpace(sb.Arms(3))


def test_the_nearest_listed_setting_is_measured():
    from benchmarks.tuners.intervals import Interval
    from benchmarks.tuners.spaces import PeerSpace

    parameters = {"rate": sb.Real(1e-4, 1.0, log=True), "kind": ["a", "b", "c"], "depth": sb.Integer(0, 10)}
    rows = [(1e-4, "a", 0), (1e-2, "c", 5), (1.0, "a", 10), (0.5, "b", 9)]
    seen = PeerSpace(sb.Settings(parameters, [dict(zip(parameters, row, strict=True)) for row in rows]))
    assert seen.parameters["rate"] == Interval(1e-4, 1.0, log=True)

    def nearest(*asked):
        return tuple(seen.point(dict(zip(parameters, asked, strict=True))).values())

    assert all(nearest(*row) == row for row in rows)
    assert nearest(2e-3, "c", 6) == rows[1]  # on the logarithm's scale
    assert nearest(1.0, "c", 10) == rows[1]  # 0.5, 0.5 away from it; from the next, 1
    assert nearest(1.0, "a", 9) == rows[2]
    whole = PeerSpace(sb.Settings({"width": [16, 32, 64], "kind": ["a", "b"]}))
    assert whole.point({"width": 32, "kind": "b"}) == {"width": 32, "kind": "b"}


def test_boxes_and_points_have_coordinates():
    from benchmarks.tuners.intervals import Interval
    from benchmarks.tuners.spaces import PeerSpace

    box = PeerSpace(sb.Box([[0.0, 1.0], [2.0, 5.0]]))
    assert dict(box.parameters) == {"x0": Interval(0.0, 1.0), "x1": Interval(2.0, 5.0)}
    assert box.point({"x0": 0.25, "x1": 3.0}).tolist() == [0.25, 3.0]
    points = PeerSpace(sb.Points([[0.0, 7.0, 2.0], [1.0, 7.0, 100.0], [0.5, 7.0, 60.0]]))
    assert dict(points.parameters) == {"x0": Interval(0.0, 1.0), "x1": [7.0], "x2": Interval(2.0, 100.0)}
    assert points.point({"x0": 0.6, "x1": 7.0, "x2": 50.0}).tolist() == [0.5, 7.0, 60.0]


def test_the_command_plays_keeps_and_shows(study, tmp_path, capsys):
    from benchmarks.tuners import command, report

    page, folder = tmp_path / "page.md", tmp_path / "kept"
    marks = (report.marks_of("bowls"), report.marks_of("other"))
    page.write_text("before\n" + "\nold\n".join([*marks[0], *marks[1]]) + "\nafter\n")
    given = ["--study", "bowls", "--tuners", "ours", "random", "--results", str(folder), "--replicates", "1"]
    assert command.main([*given, "--evaluations", "14", "--cases", "exact"]) == 0
    shown = capsys.readouterr()
    assert "ours bowls, exact, scale = 2, replicate 0: regret " in shown.err
    assert sorted(path.name for path in (folder / "bowls").iterdir()) == ["ours.jsonl", "random.jsonl"]
    assert command.main([*given, "--no-play", "--markdown", str(page)]) == 0
    text = page.read_text()
    assert "*bowls, 14 evaluations: best measured value*" in text
    assert "| ours | 1 (2) | 1.00 |" in text
    assert "| exact, scale = 2 | 1-0-0 |" in text
    assert text.count("\nold\n") == 2
    assert text.endswith("<!-- end of results other -->\nafter\n")


def test_a_quick_run_plays_a_task_of_each_study(study, monkeypatch, capsys):
    from benchmarks.tuners import command

    monkeypatch.setattr(command, "STUDIES", ("bowls",))
    assert command.main(["--quick", "--markdown", "--tuners", "random"]) == 0
    assert "*bowls, 12 evaluations: best measured value*" in capsys.readouterr().out


def test_what_fails_and_what_is_left_out_are_said(study, counted, monkeypatch, capsys):
    from benchmarks.tuners import command, peers

    given = ["--study", "bowls", "--quick", "--tuners", "counted"]

    def fails(tuner):
        raise error

    monkeypatch.setattr(Counted, "ask", fails)
    error = RuntimeError("a seed it does not like")
    assert command.main(given) == 1
    assert "counted bowls, exact, replicate 0: RuntimeError: a seed it does not like" in capsys.readouterr().err
    error = peers.NotItsKind("kind: got categories")
    assert command.main(given) == 0
    assert "counted bowls, exact, replicate 0 is left out: kind: got categories" in capsys.readouterr().err


def test_a_study_without_its_data_is_left_out(monkeypatch, capsys, tmp_path):
    from benchmarks.tuners import command
    from scalable_bandits.environments.sensors import DataMissing

    def missing(replicate):
        raise DataMissing("tables are not installed: pip install tables")

    monkeypatch.setitem(Study.registry, "absent", Study("absent", ("only",), missing, 5, 1))
    given = ["--study", "absent", "--tuners", "random", "--results", str(tmp_path)]
    for more in ([], ["--quick"]):
        assert command.main([*given, *more]) == 0
        assert "random: the study absent is left out: tables are not installed" in capsys.readouterr().err
