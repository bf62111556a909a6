"""Tuning with constraints: results, stores, pages, exports and the command show the best that keeps them."""

import json
import math
import re

import numpy as np
import optuna
import pandas
import pytest
from cases.command import command, write_program

import scalable_bandits as sb
from scalable_bandits.integrations.export import export
from scalable_bandits.report.watched_run import WatchedRun
from scalable_bandits.report.writing import write_report
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore, SpecificationDiffers

SPACE = {"x": sb.Real(0.0, 1.0), "y": sb.Real(0.0, 1.0)}
LIMITS = {"cost": sb.AtMost(1.0), "yield": sb.AtLeast(0.1)}


def measured(setting):
    """The best setting that keeps the limits is (.5, .5); cost is not known where x is small."""
    x, y = setting["x"], setting["y"]
    cost = None if x < 0.15 else x + y
    return {"loss": (x - 0.9) ** 2 + (y - 0.9) ** 2, "cost": cost, "yield": min(x, y)}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Store of a run that was ended and continued, and the result without an interruption."""
    place = tmp_path_factory.mktemp("runs") / "run.zarr"
    whole = sb.minimize(measured, SPACE, 18, constraints=LIMITS)
    sb.minimize(measured, SPACE, 12, constraints=LIMITS, store=place)
    found = sb.minimize(measured, SPACE, 18, constraints=LIMITS, store=place)
    np.testing.assert_array_equal(found.y, whole.y)
    assert found.outputs.keys() == whole.outputs.keys()
    for name in LIMITS:
        np.testing.assert_array_equal(found.outputs[name], whole.outputs[name])
    assert found.best == whole.best
    return place, found


def test_result(stored):
    _, found = stored
    table = found.table()
    assert table.columns.tolist() == ["x", "y", "value", "cost", "yield", "feasible", "error", "seconds"]
    kept = (table["cost"] <= 1.0) & (table["yield"] >= 0.1)
    np.testing.assert_array_equal(table["feasible"], kept)
    np.testing.assert_array_equal(found.feasible, kept)
    assert table["cost"].isna().any()  # not measured, and so not feasible
    assert found.measured.y == table["value"][kept].min() < 0.33
    np.testing.assert_array_equal(found.history()["best"], table["value"].where(kept).cummin().ffill())
    assert "cost (at most 1)" in repr(found)
    assert f"{kept.sum()} keep all constraints" in repr(found)
    assert "It keeps all constraints: cost " in found.summary()
    assert "may be better" not in found.summary()  # the bound knows no limits


def test_pictures(stored):
    """Circles are values that miss a limit; slices are grey where a limit hardly holds; the best keeps all."""
    _, found = stored
    lines = {line.get_label(): line for line in sb.plots.parallel(found).lines}
    best = next(line for label, line in lines.items() if label.startswith("best measured"))
    np.testing.assert_allclose(best.get_ydata()[:2], [found.measured.x["x"], found.measured.x["y"]])
    ax = sb.plots.history(found)
    drawn = {line.get_label(): line for line in ax.lines}
    hollow = drawn["measured, not feasible"].get_xdata()
    np.testing.assert_array_equal(hollow, np.flatnonzero(~found.feasible) + 1)
    assert "failed" not in drawn
    x, y = sb.analysis.slices(found)
    assert x.feasible[0] < 0.5 < x.feasible[x.numbers == x.at][0]
    assert y.feasible[-1] < 0.5
    panels = sb.plots.slices(found)
    shaded = [patch for patch in panels[0].collections if patch.get_facecolor()[0, :3].tolist() == [0.5, 0.5, 0.5]]
    assert len(shaded) == 1


def test_other_limits_are_another_run(stored):
    place, _ = stored
    with pytest.raises(SpecificationDiffers, match=re.escape("policy.constraints.cost.limit: stored 1.0, given 2.0")):
        sb.minimize(measured, SPACE, 20, constraints={**LIMITS, "cost": sb.AtMost(2.0)}, store=place)


def test_status_and_page(stored, tmp_path):
    place, found = stored
    best = found.measured
    now = status(place)
    assert now.best == best.y
    assert now.x == best.x
    watched = WatchedRun(place)
    watched.read()
    assert watched.best.y == best.y
    numbers, values, so_far = watched.history()
    assert len(numbers) == len(values) == 18
    np.testing.assert_array_equal(so_far, found.history()["best"])
    page = write_report(place, tmp_path / "page.html").read_text()
    assert "observations that keep all constraints" in page
    assert "cost (at most 1)" in page


def test_a_store_without_a_feasible_evaluation(tmp_path):
    place = tmp_path / "run.zarr"
    found = sb.minimize(measured, SPACE, 4, constraints={"cost": sb.AtMost(-1.0)}, objective="loss", store=place)
    assert found.measured is None
    assert math.isnan(status(place).best)
    watched = WatchedRun(place)
    watched.read()
    assert watched.best is None
    frame, table = command("watch", place, "--once"), command("status", place)
    assert (frame.exit_code, table.exit_code) == (0, 0), frame.output
    assert "best so far" in frame.stdout
    page = write_report(place, tmp_path / "page.html").read_text()
    assert "Of 4 observations none keeps all constraints." in page
    for said in (frame.stdout, table.stdout, page):
        assert "none keeps all constraints" in said
        assert "nan" not in said.split("<svg")[0]
    drawn = sb.plots.parallel(found)
    labels = [text.get_text() for text in drawn.get_legend().get_texts()]
    assert labels == ["worst measured", "recommended (none keeps all constraints)"]


def test_exports(stored, tmp_path):
    place, found = stored
    table = found.table()
    export(place, tmp_path / "run.csv")
    read = pandas.read_csv(tmp_path / "run.csv")
    for name in ("value", "cost", "yield"):
        np.testing.assert_array_equal(read[name], table[name])
    np.testing.assert_array_equal(read["feasible"], table["feasible"])
    storage = optuna.storages.InMemoryStorage()
    export(place, storage, name="run")
    study = optuna.load_study(study_name="run", storage=storage)
    assert study.best_trial.value == found.measured.y  # of those that keep the constraints, as Optuna reads them


def test_recorded_by_hand(tmp_path):
    """Values told at once, with some that were not measured, are there again."""
    policy, place = sb.ConstrainedGPEI(sb.SearchSpace(SPACE), constraints=LIMITS, minimize=True), tmp_path / "run.zarr"
    with sb.record(policy, place):
        points = policy.ask(11)
        policy.tell(points, [measured(x) for x in points])
        x = policy.ask()
    again = sb.ConstrainedGPEI(sb.SearchSpace(SPACE), constraints=LIMITS, minimize=True)
    with sb.record(again, place):
        assert again.pending == [x]
        assert again.best() == policy.best()
        again.tell(x, {**measured(x), "loss": None})
    assert ObservationStore.open(place).dataset()["outputs"].shape == (12, 2)


def test_many_values_at_once_go_to_the_arrays(tmp_path):
    policy, place = sb.ConstrainedGPEI(sb.Box([[0, 1]]), constraints={"g": sb.AtMost(0.5)}), tmp_path / "run.zarr"
    x = np.linspace(0, 1, 1200)[:, None]
    with sb.record(policy, place):
        policy.tell(x, [{"f": value, "g": value if value < 0.9 else None} for value in x[:, 0].tolist()])
    outputs = ObservationStore.open(place).read(names=["outputs"])["outputs"][:, 0]
    np.testing.assert_array_equal(outputs, np.where(x[:, 0] < 0.9, x[:, 0], np.nan))


@pytest.mark.parametrize("on", [None, "threads:2"])
@pytest.mark.sampled(2)
def test_in_flight_and_failures(on):
    def function(setting):
        if setting["x"] > 0.95:
            raise ValueError("too large")
        return measured(setting)

    found = sb.minimize(function, SPACE, 20, constraints=LIMITS, on=on, parallel=2)
    assert len(found) + len(found.failed) == 20
    assert len(found.table()) == 20
    assert found.measured.y < 0.4


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda setting: 1.0, "function: got 1.0; allowed: a dict of values by output (cost, yield)"),
        (lambda setting: {"loss": 1.0, "cots": 1.0, "yield": 1.0}, "did you mean 'cots'"),
    ],
)
def test_a_function_without_the_outputs_is_a_mistake(function, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        sb.minimize(function, SPACE, 5, constraints=LIMITS)


def test_values_that_are_no_numbers_are_failures():
    found = sb.minimize(
        lambda setting: {**measured(setting), "loss": math.inf if setting["x"] > 0.5 else 1.0},
        SPACE, 8, constraints=LIMITS,
    )  # fmt: skip
    assert 0 < len(found.failed) < 8
    assert "numbers up to 1e+100" in found.failed[0].error


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"objective": "loss"}, "objective: got 'loss'; allowed: None without constraints"),
        (
            {"constraints": LIMITS, "warm_start": ([{"x": 0.1, "y": 0.1}], [1.0])},
            "warm_start: got [1.0]; allowed: a di",
        ),
        ({"constraints": LIMITS, "warm_start": 3}, "warm_start: got 3; allowed: a pair of points and dicts"),
        (
            {"constraints": LIMITS, "warm_start": ([{"x": 0.1, "y": 0.1}], [measured({"x": 0.1, "y": 0.1})] * 2)},
            "warm_start: got '2 dicts of values'; allowed: one for each of the 1 points",
        ),
        (
            {"constraints": LIMITS, "warm_start": ([{"x": 0.1, "y": 0.1}], [{"loss": 1.0}])},
            "warm_start: got \"outputs ['loss']\"; allowed: outputs with 'cost'",
        ),
        (
            {"constraints": LIMITS, "warm_start": ([{"x": 7.0, "y": 0.1}], [measured({"x": 0.1, "y": 0.1})])},
            "warm_start: x['x']: got 7.0",
        ),
        ({"constraints": LIMITS, "stop": sb.RegretBelow(0.1)}, "stop: got 'RegretBelow"),  # whose bound knows no limits
        ({"constraints": {"cost": "<= 3"}}, "constraints['cost']: got '<= 3'; allowed: sb.AtMost(number)"),
    ],
)
def test_refuses(arguments, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        sb.minimize(measured, SPACE, 5, **arguments)


def test_earlier_observations(tmp_path):
    """Of a result, or points with dicts; told before the run, and compared with those of a store that goes on."""
    first = sb.minimize(measured, SPACE, 11, constraints=LIMITS)
    points = [dict(x) for x in first.x]
    given, place = (points, [measured(x) for x in points]), tmp_path / "run.zarr"
    found = sb.minimize(measured, SPACE, 3, constraints=LIMITS, warm_start=first, store=place)
    again = sb.minimize(measured, SPACE, 3, constraints=LIMITS, warm_start=given)
    assert found.earlier == again.earlier == 11
    np.testing.assert_array_equal(found.y, again.y)
    np.testing.assert_array_equal(found.y[:11], first.y)
    np.testing.assert_array_equal(found.outputs["cost"][:11], first.outputs["cost"])
    longer = sb.minimize(measured, SPACE, 5, constraints=LIMITS, warm_start=given, store=place)
    np.testing.assert_array_equal(longer.y[:14], found.y)
    given[1][4]["yield"] += 0.5
    with pytest.raises(ValueError, match="11 other observations'; allowed: the 11 with which the run in the store beg"):
        sb.minimize(measured, SPACE, 5, constraints=LIMITS, warm_start=given, store=place)


def test_a_policy_has_its_own_constraints():
    policy = sb.ConstrainedGPEI(sb.SearchSpace(SPACE), constraints=LIMITS)
    with pytest.raises(ValueError, match=r"^constraints: got .*; allowed: None with a policy"):
        sb.minimize(measured, policy, 5, constraints=LIMITS)
    assert sb.minimize(measured, policy, 12).measured.y < 1.0


SCRIPT = """#!/bin/sh
awk -v x="$1" -v y="$2" 'BEGIN {
    printf "{\\"loss\\": %.9f, \\"made\\": {\\"cost\\": %.9f}}\\n", (x - .9)^2 + (y - .9)^2, x + y
}'
"""


def test_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path, SCRIPT)
    line = "./run {x} {y}"
    given = ["tune", "--space", "space.toml", "--command", line, "--minimize", "--store", "s.zarr", "--budget", 14]
    found = command(*given, "--value-from", "loss", "--constraint", "made.cost<=1", "--json")
    assert found.exit_code == 0, found.output
    printed = json.loads(found.stdout)
    assert printed["constraints"][0]["output"] == "made.cost"
    assert printed["measured"]["y"] == status("s.zarr").best
    continued = command("resume", "s.zarr", "--rounds", 15, "--command", line)
    assert continued.exit_code == 0, continued.output
    assert len(ObservationStore.open("s.zarr")) == 15
    for arguments, text in (
        (["--constraint", "made.cost<=1"], "the key of the objective, beside those of other outputs"),
        (["--value-from", "loss", "--constraint", "made.cost"], "--constraint: got 'made.cost'"),
        (["--value-from", "loss", "--constraint", "cost<=1"], "not a JSON object with a number under 'cost'"),
    ):
        given[given.index("--store") + 1] = "t.zarr"
        refused = command(*given, *arguments)
        assert refused.exit_code != 0
        assert text in re.sub(r"\s+", " ", refused.output)


BOX = sb.Box([[0, 1]])


def line(x):
    return {"f": float(x[0]), "q": 1.0 - float(x[0])}


def test_trials_that_were_exported_while_running_get_their_constraints(tmp_path):
    """Else an infeasible one may be the best of Optuna's study."""
    to, begun = f"sqlite:///{tmp_path / 'trials.db'}", []

    def function(x):
        begun.append(x)
        if len(begun) == 3:
            export(tmp_path / "run", to, name="mine")
        return line(x)

    found = sb.minimize(function, BOX, 5, constraints={"q": sb.AtMost(0.5)}, store=tmp_path / "run")
    export(tmp_path / "run", to, name="mine")
    study = optuna.load_study(study_name="mine", storage=to)
    missed = [trial.system_attrs["constraints"] for trial in study.trials]
    assert missed == [pytest.approx([q - 0.5]) for q in found.outputs["q"]]
    assert study.best_value == found.measured.y


def test_a_recorded_policy_is_exported(tmp_path):
    policy = sb.ConstrainedGPEI(BOX, constraints={"q": sb.AtMost(0.5)}, objective="f", minimize=True)
    with sb.record(policy, tmp_path / "recording"):
        for i in range(3):
            x = policy.ask()
            policy.tell(x, {**line(x), **({"f": None} if i == 1 else {})})
    to = f"sqlite:///{tmp_path / 'trials.db'}"
    assert export(tmp_path / "recording", to, name="mine") == 3
    trials = optuna.load_study(study_name="mine", storage=to).trials
    assert [trial.state.name for trial in trials] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert all("constraints" in trial.system_attrs for trial in trials)


def test_the_best_evaluation_is_one_that_keeps_the_limit():
    """Of equal values the first one does not; and of repeats some may lack the value."""
    told = iter([(3.0, 9.0), (3.0, 0.0), (4.0, 0.0)])
    found = sb.minimize(lambda x: dict(zip("fq", next(told), strict=True)), BOX, 3, constraints={"q": sb.AtMost(1)})
    assert "Best measured value: 3 in evaluation 2 of 3" in found.summary()
    points, rows = [[0.0], [0.0], [1.0]], [{"f": 0.5, "q": 1.0}, {"f": None, "q": 1.0}, {"f": 0.7, "q": 1.0}]
    policy = sb.ConstrainedGPEI(sb.Grid([[0, 1]], 2), constraints={"q": sb.AtMost(2)}, objective="f", minimize=True)
    found = sb.minimize(lambda x: {"f": 1.0, "q": 1.0}, policy, 1, warm_start=(points, rows))
    assert "nan" not in repr(found)


def test_earlier_values_keep_their_names():
    """A result of another objective is no observation of this one; one with the objectives exchanged is."""
    limits = {"q": sb.AtMost(2.0)}
    earlier = sb.minimize(lambda x: {"loss": x[0], "q": 1.0}, BOX, 3, constraints=limits, objective="loss")
    cost = {"constraints": limits, "objective": "cost", "warm_start": earlier}
    with pytest.raises(ValueError, match=r"^warm_start: .*outputs with 'cost'"):
        sb.minimize(lambda x: {"cost": 100.0 + x[0], "q": 1.0}, BOX, 1, **cost)
    both = sb.minimize(line, BOX, 3, objectives=["f", "q"])
    turned = sb.minimize(line, BOX, 1, objectives=["q", "f"], warm_start=both)
    np.testing.assert_array_equal(turned.y[:3], both.outputs["q"])
    np.testing.assert_array_equal(turned.outputs["f"][:3], both.y)


@pytest.mark.parametrize("kind", [sb.SafeOpt, sb.StageOpt, sb.LoSBO])
def test_safe_policies_without_constraints_can_minimise(kind):
    more = {sb.StageOpt: {"stage": 3}, sb.LoSBO: {"lipschitz": 3.0, "noise_bound": 0.1}}.get(kind, {})
    given = {"threshold": 1.0, "safe_start": [0.5], "noise": 0.1, "regularization": 0.01, **more}
    found, same = (
        sb.minimize(lambda x: float((x[0] - 0.4) ** 2), kind(sb.Grid([[0, 1]], 21), sb.RBF(0.3), **given, **own), 4)
        for own in ({}, {"minimize": True})
    )
    np.testing.assert_array_equal(found.x, same.x)
