"""The result of `minimize` and `maximize`: both best settings, the text, the HTML and the tables."""

from __future__ import annotations

import copy
import io
import json
import math
import pickle
import re
import sys
import time
from xml.etree import ElementTree

import attrs
import numpy as np
import pandas
import pytest
from cases.command import command
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import scalable_bandits as sb
from scalable_bandits.integrations.tables import evaluations
from scalable_bandits.report.writing import write_report
from scalable_bandits.runs import readable, result
from scalable_bandits.runs.result import best_points
from scalable_bandits.store import ObservationStore

SPACE = sb.SearchSpace(
    {
        "rate": sb.Real(1e-4, 1e-1, log=True),
        "depth": sb.Integer(1, 6),
        "<b>kind</b>": sb.Categorical(["a&b", "$y$", None]),
        "drop": sb.Boolean(),
        "share": sb.Real(0.0, 0.5, when={"drop": True}),
    }
)
OPTIONS = {"noise": 0.1, "regularization": 0.01, "candidates": 32}


def loss(setting):
    return (np.log10(setting["rate"]) + 2.0) ** 2 + abs(setting["depth"] - 4) / 4 + setting.get("share", 0.6)


@pytest.fixture(scope="module")
def found():
    return sb.minimize(loss, sb.GPEI(SPACE, sb.RBF(0.8), minimize=True, **OPTIONS), 12)


def test_both_best_settings_and_what_they_are_worth(found):
    policy = found.policy
    best = policy.best()
    assert found.best == best.x
    assert (found.value, found.std) == (best.mean, best.std)
    i = int(np.argmin(found.y))
    assert found.measured.x == found.x[i]
    assert found.measured.y == found.y[i] == loss(found.x[i])
    assert (found.measured.value, found.measured.std) == policy.posterior(found.x[i])
    higher = sb.maximize(lambda x: -((x[0] - 0.3) ** 2), sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3), **OPTIONS), 6)
    assert higher.measured.y == higher.y.max()


def test_the_best_setting_is_a_dict_and_what_policies_recommend(found):
    best = found.best
    assert isinstance(best, dict)
    assert loss(best) == loss(dict(**best)) == loss(json.loads(json.dumps(best)))
    assert (best.x, best.mean, best.value, best.std) == (dict(best), found.value, found.value, found.std)
    for same in (copy.copy(best), copy.deepcopy(best), pickle.loads(pickle.dumps(best))):
        assert (same, same.mean, same.std) == (best, best.mean, best.std)
    numbers = sb.maximize(lambda x: -x[0], sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3), **OPTIONS), 3)
    x, mean, std = numbers.best
    assert (mean, std) == (numbers.value, numbers.std) == (numbers.best.value, numbers.best.std)
    np.testing.assert_array_equal(x, numbers.best.x)


def test_prints_a_few_aligned_lines(found):
    first, titles, *rows = repr(found).split("\n")
    assert str(found) == repr(found)
    assert first == "TuningResult: smaller is better; 12 evaluations"
    assert [row.split("  ")[0] for row in rows] == [*SPACE.names, "expected value", "measured value"]
    column = titles.index("recommended")
    assert {row[column - 1] for row in rows} == {" "}
    assert all(row[column] != " " for row in rows)
    assert f"{found.best['rate']:.4g}" in rows[0]
    assert " ± " in rows[-2]
    few = sb.minimize(lambda setting: 3.0, {"rate": sb.Real(0.0, 1.0)}, 2)
    assert "±" not in str(few)  # which the summary says, too


def test_prints_on_a_terminal_without_unicode(found, monkeypatch):
    """What it cannot show is replaced, and the columns stay aligned; text of others moves no cursor."""
    lines = str(found).splitlines()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    print(found)
    assert " +- " in str(found)
    assert [line.split()[0] for line in str(found).splitlines()] == [line.split()[0] for line in lines]
    hidden = sb.minimize(lambda setting: setting["a\x1b[2Ké"], {"a\x1b[2Ké": sb.Real(0, 1)}, 2)
    assert "\na\\x1b[2K? " in str(hidden)
    assert "\x1b" not in str(hidden)


def test_a_setting_that_is_both_is_printed_once():
    same = sb.maximize(lambda arm: float(arm == 2), sb.GPEI(sb.Arms(3), sb.Covariance(np.eye(3)), noise=0.1), 5)
    lines = repr(same).split("\n")
    assert lines[1].split("  ")[-1] == "recommended and best measured"
    assert lines[2].split() == ["arm", "2"]
    assert lines[-1].endswith(f"1 (mean of {(same.x == 2).sum()})")


def test_long_spaces_are_cut_short():
    many = sb.SearchSpace({f"p{i}": sb.Real(0.0, 1.0) for i in range(60)})
    found = sb.minimize(lambda setting: setting["p0"], sb.GPEI(many, sb.RBF(3.0), minimize=True, **OPTIONS), 2)
    lines = repr(found).split("\n")
    assert len(lines) == 2 + result.MOST_ROWS + 1 + 2
    assert lines[2 + result.MOST_ROWS].strip() == "(20 more)"


def test_numbers_have_sensible_digits():
    assert [readable.shown(value) for value in (1e-7, 3, True, "x", None, 123456.789)] == [
        "1e-07", "3", "True", "x", "None", "123457"
    ]  # fmt: skip
    for value, std, text in [
        (-0.00001, 0.012, "0.000 ± 0.012"),
        (123456.7, 1234.5, "123500 ± 1200"),
        (0.5, math.inf, "0.5"),
        (1.03e-9, 2.5e-11, "1.03e-09 ± 2.5e-11"),
        (1e6 + 0.25, 1e-11, "1000000.25 ± 1.0e-11"),
    ]:
        assert readable.with_error(value, std) == text


@pytest.mark.parametrize(
    ("parameter", "value", "text"),
    [
        (sb.Real(1550, 1551), 1550.12064, "1550.1206"), (sb.Real(1550, 1551), 1550.0, "1550"),
        (sb.Real(1550, 1551), 1550.00001, "1550.0000"), (sb.Real(-1e6, -1e6 + 0.01), -1e6 + 0.001234, "-999999.998766"),
        (sb.Real(0, 1), 0.031234, "0.03123"), (sb.Real(0, 50), 12.3456, "12.35"),
        (sb.Real(1e-4, 0.1, log=True), 0.0031622, "0.003162"),
        (sb.Real(1550, 1551, log=True), 1550.12064, "1550.1206"),
        (sb.Categorical([1550.12, 1550.13]), 1550.13, "1550.13"), (sb.Integer(0, 10**7), 1234567, "1234567"),
    ],
)  # fmt: skip
def test_a_setting_has_the_digits_that_its_range_needs(parameter, value, text):
    space = sb.SearchSpace({"p": parameter})
    assert readable.parameter_text(value, space.axes[0]) == text
    assert readable.point_text({"p": value}, 4, space) == f"p = {text}"
    assert readable.point_text(np.array([123456789])) == "x = 123456789"  # number of a candidate


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8), st.sampled_from([0.0, 1e6, -40518.93]))
def test_numbers_beside_each_other_are_told_apart(values, offset):
    """Where they differ in fifteen digits, and to three digits of their spread."""
    values = [offset + value for value in values]
    for text in (readable.shown, readable.significant):
        found = readable.told_apart(values, text=text)
        assert len(set(found)) >= len({float(f"{value:.15g}") for value in values if value})
        apart = np.abs(np.array([float(each.replace(",", "")) for each in found]) - values)
        assert apart.max() <= max(0.005 * np.ptp(values), 1e-14 * np.abs(values).max()) or len(set(values)) == 1


def test_numbers_that_differ_in_late_digits_are_shown_with_these(tmp_path):
    """In the result and its summary, and by the commands; neither a setting nor a value is cut to what all have."""
    place, space = tmp_path / "run.zarr", {"nm": sb.Real(1550, 1551), "big": sb.Real(0, 1)}
    found = sb.minimize(lambda s: (s["nm"] - 1550.1234) ** 2 + 1e6 + 0.1 * s["big"], space, 12, store=place)
    setting, measured = f"{found.best['nm']:.4f}", found.measured.y
    rows = {row[0]: row[1].split(" ")[0] for row in best_points(found).rows}
    assert rows["nm"] == setting
    assert float(rows["measured value"]) == pytest.approx(found.y.min(), abs=1e-3)
    assert len(rows["measured value"].partition(".")[2]) >= len(rows["expected value"].partition(".")[2])
    assert f"Recommended: nm = {setting}" in found.summary()
    shown, watched = (command(*line, place, columns=120).stdout for line in (("status",), ("watch", "--once")))
    page = write_report(place, tmp_path / "page.html").read_text()
    assert f"best y {measured:,.3f}" in shown
    assert f"nm = {found.measured.x['nm']:.4f}" in shown
    assert f"best {measured:.3f}" in watched
    latest = re.findall(r"^\d+ +(1000000[.\d]*) +nm = 155[01]\.\d{4}", watched, re.MULTILINE)
    assert len(set(latest)) >= 6
    assert "1e+06" not in found.summary() + str(found) + shown + watched
    cells = re.findall(r"<td[^>]*>(1,000,000[.\d]*)</td>", page)
    assert len(set(cells)) == len(cells) == 12


def test_html_is_a_table_with_everything_escaped(found):
    page = ElementTree.fromstring(f"<div>{found._repr_html_()}</div>")
    (table,) = page.iter("table")
    assert "tex2jax_ignore" in table.get("class")
    rows = [["".join(cell.itertext()).strip() for cell in row] for row in table.iter("tr")]
    summarized = best_points(found)
    assert rows == [["", *summarized.columns], *map(list, summarized.rows)]
    assert "<b>kind</b>" in [row[0] for row in rows]
    assert table.find("caption").text == summarized.heading == "smaller is better; 12 evaluations"


def test_the_table_has_a_row_an_evaluation(found):
    table = found.table()
    assert table.index.tolist() == list(range(1, 13))
    assert table.columns.tolist()[:6] == [*SPACE.names, "value"]
    assert table["value"].tolist() == found.y.tolist()
    assert set(table["error"]) == {""}
    assert table["depth"].dtype == np.int64
    for row, setting in zip(table.to_dict("records"), found.x, strict=True):
        assert {name: row[name] for name in setting} == setting
        assert math.isnan(row["share"]) == ("share" not in setting)
    again = sb.GPEI(SPACE, sb.RBF(0.8), minimize=True, **OPTIONS)
    again.tell(table[list(SPACE.names)].to_dict("records"), table["value"])
    assert again.rounds == 12


def test_parameters_may_have_the_names_of_other_columns():
    space = sb.SearchSpace({"value": sb.Integer(1, 3), "y": sb.Real(0.0, 1.0), "round": sb.Boolean()})
    found = sb.minimize(lambda s: s["value"] + s["y"], sb.GPEI(space, sb.RBF(0.8), minimize=True, **OPTIONS), 3)
    table, data = found.table(), found.dataset()
    assert table["value"].tolist() == [setting["value"] for setting in found.x]
    assert table["value_"].tolist() == found.y.tolist()
    assert data["y"].values.tolist() == [setting["y"] for setting in found.x]
    assert data["y_"].values.tolist() == found.y.tolist()
    assert data["round"].values.tolist() == [setting["round"] for setting in found.x]
    assert data.sizes == {"round_": 3}


def test_a_dataset_has_numbers_as_numbers_and_all_outputs(found, tmp_path):
    """Also one with the name of another column, in all tables."""
    data = found.dataset()
    assert data["depth"].dtype == np.int64
    assert data["share"].dtype == np.float64
    assert [bool(np.isnan(value)) for value in data["share"].values] == ["share" not in setting for setting in found.x]
    several = sb.minimize(
        lambda s: {"loss": s["x"], "seconds": None if s["x"] > 0.5 else s["x"], "y": 1.0 - s["x"]},
        {"x": sb.Real(0.0, 1.0)}, 6, objectives=["loss", "seconds"], constraints={"y": sb.AtLeast(0.5)},
        store=tmp_path / "run",
    )  # fmt: skip
    stored = evaluations(ObservationStore.open(tmp_path / "run"))
    data, table = several.dataset(), several.table()
    assert set(data) == {"x", "y", "seconds", "y_", "feasible"}
    assert list(table) == ["x", "loss", "seconds", "y", "feasible", "error", "seconds_"]
    for one, other in {"y": "loss", "seconds": "seconds", "y_": "y", "feasible": "feasible"}.items():
        np.testing.assert_array_equal(data[one].values, table[other])
        np.testing.assert_array_equal(data[one].values, stored[other])
    np.testing.assert_array_equal(table["seconds_"], stored["seconds_"])
    np.testing.assert_array_equal(data["feasible"], data["x"] <= 0.5)


def test_what_an_objective_that_was_not_measured_says_of_limits(tmp_path):
    """Nothing: in results and in tables of stores."""
    found = sb.minimize(
        lambda s: {"loss": s["x"], "seconds": None if s["x"] > 0.5 else s["x"], "size": s["x"]},
        {"x": sb.Real(0.0, 1.0)}, 8, objectives=["loss", "seconds"], constraints={"size": sb.AtMost(0.8)},
        store=tmp_path / "run",
    )  # fmt: skip
    x = np.array([setting["x"] for setting in found.x])
    assert ((x > 0.5) & (x <= 0.8)).any()
    np.testing.assert_array_equal(found.feasible, x <= 0.8)
    stored = evaluations(ObservationStore.open(tmp_path / "run"))
    assert stored["feasible"].tolist() == found.table()["feasible"].tolist() == found.feasible.tolist()


def test_the_history_is_the_best_so_far(found):
    past = found.history()
    pandas.testing.assert_series_equal(past["value"], found.table()["value"])
    assert past["best"].tolist() == np.minimum.accumulate(found.y).tolist()


def test_tables_of_spaces_without_names():
    box = sb.maximize(lambda x: -x[0], sb.GPEI(sb.Box([[0, 1], [0, 2]]), sb.RBF(0.3), **OPTIONS), 3)
    assert box.table().columns.tolist()[:3] == ["x0", "x1", "value"]
    np.testing.assert_array_equal(box.table()[["x0", "x1"]], box.x)
    arms = sb.maximize(float, sb.GPEI(sb.Arms(3), sb.Covariance(np.eye(3)), noise=0.1), 4)
    assert arms.table()["arm"].tolist() == arms.x.tolist()


@pytest.mark.parametrize("parallel", [None, 2])
def test_failures_have_rows_in_their_place(tmp_path, parallel):
    """Also after the run was resumed; every row has the time that the function took."""
    calls = []

    def experiment(setting):
        calls.append(setting)
        time.sleep(0.01)
        if setting["depth"] in (2, 5):
            raise RuntimeError(f"no {setting['depth']}")
        return loss(setting)

    def tune(budget):
        policy = sb.GPEI(SPACE, sb.RBF(0.8), minimize=True, **OPTIONS)
        return sb.minimize(experiment, policy, budget, parallel=parallel, store=tmp_path / "run")

    first = tune(10).table()
    assert 0 < (first["error"] != "").sum() < 9
    found = tune(14)
    table = found.table()
    pandas.testing.assert_frame_equal(table.iloc[:10], first)
    assert len(table) == len(calls) == 14
    if parallel is None:
        assert table["depth"].tolist() == [setting["depth"] for setting in calls]
    failed = table["depth"].isin((2, 5))
    assert table["error"].tolist() == [f"RuntimeError: no {d}" if d in (2, 5) else "" for d in table["depth"]]
    assert table["value"].isna().tolist() == failed.tolist()
    assert table["value"].dropna().tolist() == found.y.tolist()
    assert (table["seconds"] >= 0.009).all()
    assert found.history()["best"].dropna().min() == found.measured.y
    assert best_points(found).heading == f"smaller is better; 14 evaluations ({failed.sum()} failed)"


def test_earlier_observations_come_first(found):
    more = sb.minimize(loss, sb.GPEI(SPACE, sb.RBF(0.8), **OPTIONS), 3, warm_start=found)
    table = more.table()
    assert table["value"].tolist() == more.y.tolist() == [*found.y, *more.y[12:]]
    assert table["seconds"].isna().tolist() == [True] * 12 + [False] * 3
    assert best_points(more).heading == "smaller is better; 3 evaluations after 12 earlier observations"


@pytest.mark.parametrize("failures", [0, 1])
def test_results_without_values(failures):
    """Interrupted before the first value, or after a failure alone."""
    calls = []

    def failing(setting):
        calls.append(setting)
        if len(calls) > failures:
            raise KeyboardInterrupt
        raise RuntimeError("no")

    none = sb.minimize(failing, sb.GPEI(SPACE, sb.RBF(0.8), **OPTIONS), 9)
    heading = "1 evaluation (1 failed)" if failures else "0 evaluations"
    assert repr(none) == f"TuningResult: smaller is better; {heading}; interrupted"
    assert heading in none._repr_html_()
    assert none.measured is None
    assert none.history()["value"].isna().tolist() == [True] * failures
    assert none.table()["error"].tolist() == ["RuntimeError: no"] * failures
    figures = [Figure() for _ in range(4)]
    sb.plots.history(none, figures[0].subplots())
    sb.plots.slices(none, ax=figures[1].subplots())
    sb.plots.importance(none, figures[2].subplots())
    if failures:
        sb.plots.parallel(none, figures[3].subplots())
    else:
        with pytest.raises(ValueError, match=r"^found: got 'a result without evaluations'"):
            sb.plots.parallel(none, figures[3].subplots())
    for figure in figures:
        figure.canvas.draw()


def test_headings_say_how_a_run_ended():
    space = sb.Box([[0, 1]])
    found = sb.minimize(lambda x: 1.0, sb.GPEI(space, sb.RBF(0.3), **OPTIONS), 9, stop=sb.NoImprovement(3))
    assert best_points(found).heading == f"smaller is better; {len(found)} evaluations; ended by {found.stopped_by}"
    interrupted = attrs.evolve(found, interrupted=True)
    assert best_points(interrupted).heading.endswith("evaluations; interrupted")
