"""Tuning with several objectives: results, stores, pages, exports and the command show the front."""

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import optuna
import pandas
import pytest
from cases.command import command, write_program
from naive import fronts

import scalable_bandits as sb
from scalable_bandits.formulas.hypervolume import hypervolume
from scalable_bandits.integrations.export import export
from scalable_bandits.report.writing import write_report
from scalable_bandits.runs.resuming import resume
from scalable_bandits.store import ObservationStore, SpecificationDiffers

SPACE = {"x": sb.Real(0.0, 1.0), "y": sb.Real(0.0, 1.0)}
GOALS = {"loss": "minimize", "speed": "maximize"}
LIMITS = {"cost": sb.AtMost(1.2)}


def measured(setting):
    """Loss is smallest at (.9, .2), speed largest at (.1, .8), and unknown where x is small."""
    x, y = setting["x"], setting["y"]
    speed = None if x < 0.05 else 2.0 - (x - 0.1) ** 2 - (y - 0.8) ** 2
    return {"loss": (x - 0.9) ** 2 + (y - 0.2) ** 2, "speed": speed, "cost": x + y}


def evaluated(found):
    """Oriented values (n, 2) of the evaluations of which all is known, and which keep the limit."""
    table = found.table().dropna(subset=["speed"])
    table = table[table["cost"] <= 1.2]
    return np.column_stack([-table["loss"], table["speed"]])


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Store of a run that was ended and continued, and the result without an interruption."""
    place = tmp_path_factory.mktemp("runs") / "run.zarr"
    whole = sb.minimize(measured, SPACE, 20, objectives=GOALS, constraints=LIMITS)
    sb.minimize(measured, SPACE, 12, objectives=GOALS, constraints=LIMITS, store=place)
    found = sb.minimize(measured, SPACE, 20, objectives=GOALS, constraints=LIMITS, store=place)
    np.testing.assert_array_equal(found.y, whole.y)
    np.testing.assert_array_equal(found.outputs["speed"], whole.outputs["speed"])
    assert found.front == whole.front
    return place, found


def test_result(stored):
    _, found = stored
    table = found.table()
    assert table.columns.tolist() == ["x", "y", "loss", "speed", "cost", "feasible", "error", "seconds"]
    expected = {tuple(point) for point in fronts.front([tuple(row) for row in evaluated(found).tolist()])}
    points = {(-measured(each.x)["loss"], measured(each.x)["speed"]) for each in found.front}
    assert sorted(points) == pytest.approx(np.array(sorted(expected)))
    assert [each.values["loss"] for each in found.front] == sorted(each.values["loss"] for each in found.front)
    assert found.best in [each.x for each in found.front]
    heading = repr(found).splitlines()[0]
    assert "loss is minimized, speed is maximized; 20 evaluations" in heading
    assert heading.endswith(f"; {len(found.front)} on the front")
    assert repr(found).splitlines()[1].split("  ")[-1] == "largest speed"
    summary = found.summary()
    assert summary.startswith("loss is minimized")  # a name stays as it is
    assert f"Front: {len(found.front)} settings, loss from " in summary
    assert "It keeps all constraints: cost " in summary


def test_history_is_the_hypervolume(stored):
    _, found = stored
    ends = found.policy.reference_point
    values, reference = evaluated(found), np.array([-ends["loss"], ends["speed"]])
    grown = found.history()["hypervolume"]
    assert grown.is_monotonic_increasing
    assert grown.iloc[-1] == 1.0
    known = found.table()
    kept = (known["speed"].notna() & (known["cost"] <= 1.2)).to_numpy()
    for i in (3, 8, 14):
        part = hypervolume(values[: kept[: i + 1].sum()], reference)
        assert grown.iloc[i] == pytest.approx(part / hypervolume(values, reference))


def test_pictures(stored):
    _, found = stored
    ax = sb.plots.front(found)
    drawn = {line.get_label(): line for line in ax.lines}
    assert len(drawn["measured, not feasible"].get_xdata()) == (~found.feasible).sum()
    assert "recommended" in {text.get_text() for text in ax.get_legend().get_texts()}
    assert ax.get_ylabel() == "speed (larger is better)"
    (edge,) = (line for line in ax.lines if line.get_drawstyle().startswith("steps"))
    # What the line dominates is what its points dominate: it stays on the worse side of them.
    x, y = np.array(edge.get_xdata()), np.array(edge.get_ydata())
    assert edge.get_drawstyle() == "steps-post"
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) > 0).all()
    assert sb.plots.history(found).get_ylabel().startswith("hypervolume")
    swapped = sb.plots.front(found, objectives=["speed", "loss"])
    assert swapped.get_xlabel() == "speed (larger is better)"
    (edge,) = (line for line in swapped.lines if line.get_drawstyle().startswith("steps"))
    assert edge.get_drawstyle() == "steps-pre"  # of so much speed, the loss is that of the next faster setting
    with pytest.raises(ValueError, match="objectives: got"):
        sb.plots.front(found, objectives=["speed", "cost"])
    single = sb.minimize(lambda setting: setting["x"], SPACE, 3)
    with pytest.raises(ValueError, match="front: got 'a run with one objective'"):
        sb.plots.front(single)


def test_pictures_name_the_objective_that_they_show(stored):
    _, found = stored
    assert sb.plots.parallel(found).get_xticklabels()[-1].get_text() == "loss\n(smaller is better)"
    assert sb.plots.slices(found)[0].get_ylabel() == "loss\n(smaller is better)"
    assert sb.plots.importance(found).get_xlabel() == "share of the variance of loss"
    plt.close("all")


@pytest.mark.parametrize("exact", [True, False])
def test_without_a_feasible_setting_the_recommended_one_is_shown(exact):
    """It has values of all objectives, and by how much it misses the limit."""
    rng = np.random.default_rng(1)

    def infeasible(setting):
        noise = rng.normal(0.0, 0.0 if exact else 0.01, 3)
        return dict(
            zip(
                ("a", "b", "c"),
                noise + np.array([0.0, 1.0, 2.0]) + setting["x"] * np.array([1.0, -1.0, 1.0]),
                strict=True,
            )
        )

    found = sb.minimize(infeasible, SPACE, 12, objectives=["a", "b"], constraints={"c": sb.AtMost(1.5)})
    assert not found.front
    heading, column, *rows = repr(found).splitlines()
    assert heading.endswith("; 0 keep all constraints; no setting surely keeps all constraints")
    assert column.split() == ["recommended"]
    assert [row.split()[0] for row in rows] == ["x", "y", "a", "b", "c"]
    assert "missed by" in rows[-1]
    point = found.policy.measured_point(found.best)
    assert point.values["a"] == pytest.approx(found.best["x"], abs=0.04)
    assert point.values["b"] == pytest.approx(1.0 - found.best["x"], abs=0.04)
    assert "-0 " not in repr(found) + " "
    assert "\nIts values: a " in found.summary()
    with pytest.raises(ValueError, match=r"x: got .*; allowed: a point that was measured"):
        found.policy.measured_point({"x": 0.123, "y": 0.456})


def test_continued_from_the_store_alone(stored, tmp_path):
    place, _ = stored
    copied = tmp_path / "copy.zarr"
    sb.copy(place, copied)
    found = resume(copied, rounds=22, function=f"{__name__}:measured")
    whole = sb.minimize(measured, SPACE, 22, objectives=GOALS, constraints=LIMITS)
    np.testing.assert_array_equal(found.y, whole.y)


def test_another_direction_is_another_run(stored):
    place, _ = stored
    with pytest.raises(SpecificationDiffers, match=r"policy\.objectives\.speed: stored 'maximize', given 'minimize'"):
        sb.minimize(measured, SPACE, 22, objectives={**GOALS, "speed": "minimize"}, constraints=LIMITS, store=place)


def test_page(stored, tmp_path):
    place, found = stored
    page = write_report(place, tmp_path / "page.html").read_text()
    assert f"of the {len(found.front)} settings of the front" in page
    assert "Measured values and the front" in page
    assert "Growth of the front" in page
    assert "observations that keep" not in page


@pytest.mark.parametrize("least", [0.3, 2.0])
def test_watched_where_the_first_objective_is_not_always_measured(least, tmp_path):
    """Some of its values, or none."""
    place = tmp_path / "run.zarr"
    sb.minimize(
        lambda x: {"loss": x[0] if x[0] > least else None, "speed": x[0]}, sb.Box([[0, 1]]), 6,
        objectives=GOALS, store=place,
    )  # fmt: skip
    frame = command("watch", place, "--once")
    assert frame.exit_code == 0, frame.output
    assert ("no finite value yet" in frame.stdout) == (least == 2.0)


def test_exports(stored, tmp_path):
    place, found = stored
    export(place, tmp_path / "run.csv")
    read = pandas.read_csv(tmp_path / "run.csv")
    np.testing.assert_array_equal(read["speed"], found.table()["speed"])
    storage = optuna.storages.InMemoryStorage()
    export(place, storage, name="run")
    study = optuna.load_study(study_name="run", storage=storage)
    assert [each.name for each in study.directions] == ["MINIMIZE", "MAXIMIZE"]
    unknown = found.table()["speed"].isna().sum()
    assert sum(trial.state.name == "FAIL" for trial in study.trials) == unknown
    best = sorted(trial.values[0] for trial in study.best_trials)  # Optuna's front, of those that keep the limit
    assert best == pytest.approx([each.values["loss"] for each in found.front], abs=1e-12)


def test_a_table_is_an_earlier_run(stored, tmp_path):
    """As the result itself is, with what was not measured; also one that was exported."""
    place, found = stored
    export(place, tmp_path / "run.csv")
    given = {"objectives": GOALS, "constraints": LIMITS, "seed": 1}
    whole = sb.minimize(measured, SPACE, 3, warm_start=found, **given)
    for table in (found.table(), pandas.read_csv(tmp_path / "run.csv")):
        again = sb.minimize(measured, SPACE, 3, warm_start=table, **given)
        np.testing.assert_array_equal(again.y, whole.y)
        np.testing.assert_array_equal(again.outputs["speed"], whole.outputs["speed"])
    with pytest.raises(ValueError, match="warm_start: got \"a table without the column 'speed'\""):
        sb.minimize(measured, SPACE, 3, warm_start=found.table().drop(columns="speed"), **given)
    failed = found.table().assign(loss=np.nan, speed=np.nan, cost=np.nan)
    with pytest.raises(ValueError, match="warm_start: got 'a table without a value'"):
        sb.minimize(measured, SPACE, 3, warm_start=failed, **given)
    nothing = sb.minimize(measured, SPACE, 3, warm_start=found.table().head(0), **given)
    assert nothing.earlier == 0


def test_three_objectives():
    found = sb.maximize(
        lambda setting: {"a": setting["x"], "b": setting["y"], "c": -setting["x"] - setting["y"]},
        SPACE, 14, objectives=["a", "b", "c"],
    )  # fmt: skip
    assert type(found.policy) is sb.HypervolumeUCB
    assert len(found.front) == 14  # each gains in c what it loses in a or b
    assert sb.plots.front(found, objectives=["b", "c"]).get_xlabel() == "b (larger is better)"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"objectives": ["loss"]}, "objectives: got ['loss']; allowed: names of two outputs or more"),
        ({"objectives": GOALS, "objective": "loss"}, "objective: got 'loss'; allowed: None with objectives"),
        ({"objectives": {"speed": "maximize", "loss": "minimize"}}, "objectives['speed']: got 'maximize'"),
        ({"objectives": GOALS, "constraints": {"loss": sb.AtMost(1)}}, "constraints: got 'loss'"),
        ({"objectives": ["loss", "sped"]}, "did you mean 'speed'"),
        ({"objectives": GOALS, "warm_start": ([{"x": 0.1, "y": 0.1}], [1.0])}, "warm_start: got [1.0]; allowed: a di"),
    ],
)
def test_refuses(arguments, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        sb.minimize(measured, SPACE, 5, **arguments)


SCRIPT = """#!/bin/sh
awk -v x="$1" -v y="$2" 'BEGIN {
    printf "{\\"loss\\": %.9f, \\"made\\": {\\"speed\\": %.9f}}\\n", (x - .9)^2 + y^2, 2 - (x - .1)^2 - (y - .8)^2
}'
"""


def test_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path, SCRIPT)
    line = "./run {x} {y}"
    given = ["tune", "--space", "space.toml", "--command", line, "--minimize", "--store", "s.zarr", "--budget", 13]
    found = command(*given, "--value-from", "loss", "--objective", "made.speed=maximize", "--json")
    assert found.exit_code == 0, found.output
    printed = json.loads(found.stdout)
    assert printed["front"]
    assert set(printed["front"][0]["values"]) == {"loss", "made.speed"}
    continued = command("resume", "s.zarr", "--rounds", 14, "--command", line)
    assert continued.exit_code == 0, continued.output
    assert len(ObservationStore.open("s.zarr")) == 14
    given[given.index("--store") + 1] = "t.zarr"
    for arguments, text in (
        (["--objective", "made.speed"], "--objective: got 'made.speed'; allowed: with --value-from"),
        (["--value-from", "loss", "--objective", "loss"], "--objective: got 'loss'; allowed: another key"),
        (["--value-from", "loss", "--objective", "made.speed=up"], "--objective: got 'made.speed=up'"),
    ):
        refused = command(*given, *arguments)
        assert refused.exit_code != 0
        assert text in re.sub(r"\s+", " ", refused.output)


def test_the_recommended_setting_is_on_the_front_whatever_the_reference():
    """Where nothing is beyond the reference it is the best by the first objective."""
    reference = {"a": -1.0, "b": -1.0}
    policy = sb.GPEHVI(sb.Box([[0, 1]]), objectives=["a", "b"], reference=reference)
    found = sb.minimize(lambda x: {"a": (x[0] - 0.3) ** 2, "b": (x[0] - 0.4) ** 2}, policy, 8)
    np.testing.assert_array_equal(found.best.x, found.front[0].x)
    assert found.best.mean == pytest.approx(found.y.min())
