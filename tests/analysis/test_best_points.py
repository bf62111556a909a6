"""Regret of the best point, ranks and wins, against loops in plain Python."""

from __future__ import annotations

import itertools
import re
import statistics
from typing import Any

import numpy as np
import pytest
import scipy.stats
import xarray
from matplotlib.figure import Figure

import scalable_bandits as sb
from scalable_bandits import analysis, plots
from scalable_bandits.analysis.curves import case_of
from scalable_bandits.cli.messages import show_table
from scalable_bandits.report.study_page import regrets_table, study_report
from scalable_bandits.studies import Problem, Replicate

CASES, POLICIES, REPLICATES, ROUNDS = ("x", "y"), ("a", "b", "c"), 6, 40


def made(measure: str = "best", seed: int = 0) -> xarray.Dataset:
    """Regrets made up, many of them equal: one run of "b" is not finished, and case "y" lacks "c"."""
    regret = np.random.default_rng(seed).integers(1, 90, (len(CASES), len(POLICIES), REPLICATES, ROUNDS)) / 8.0
    regret[0, 1, 2, 25:] = np.nan
    regret[1, 2] = np.nan
    return xarray.Dataset(
        {
            "regret": (("case", "policy", "replicate", "round"), regret),
            "uniform_regret": (("case", "replicate"), np.full((len(CASES), REPLICATES), 4.0)),
        },
        {"case": list(CASES), "policy": list(POLICIES), "round": np.arange(1, ROUNDS + 1)},
        {"measure": measure, "unit": "mV", "title": "made", "source": "", "absent": '[["y", "c"]]'},
    )


def outcome(result: xarray.Dataset, case: str, policy: str, replicate: int) -> float | None:
    """What counts of a run; None of one that is not finished."""
    regrets = result["regret"].sel(case=case, policy=policy).values[replicate].tolist()
    if any(r != r for r in regrets):
        return None
    return min(regrets) if result.attrs["measure"] == "best" else sum(regrets)


def thinned(keep: Any, measure: str = "best") -> xarray.Dataset:
    """A study that keeps some of its forty rounds."""
    line = sb.Grid([[0.0, 1.0]], 30)
    tables = {
        "name": "thin", "horizon": 40, "replicates": 3, "measure": measure, "keep": keep,
        "environments": {"rough": {"type": "GPSample", "space": line, "kernel": sb.Matern(0.1, nu=1.5)}},
        "policies": {"EI": {"type": "GPEI"}, "random": {"type": "RandomSearch"}},
        "shared": {"policies": {"noise": "exact", "regularization": "noise variance"}},
    }  # fmt: skip
    return sb.Study.from_dict(tables).run()


def test_the_best_point_of_a_mean_is_that_of_each_run():
    result = made()
    rows = {(row.case, row.policy): row for row in analysis.means(result)}
    for case, policy in itertools.product(CASES, POLICIES):
        found = [outcome(result, case, policy, r) for r in range(REPLICATES)]
        known = [value for value in found if value is not None]
        if (case, policy) == ("y", "c"):
            assert (case, policy) not in rows
            continue
        row = rows[case, policy]
        error = statistics.stdev(known) / len(known) ** 0.5
        assert (row.runs, row.best, row.best_standard_error) == (
            len(known), pytest.approx(statistics.mean(known)), pytest.approx(error),
        )  # fmt: skip
    order = [row.best for row in analysis.means(result) if row.case == "x"]
    assert order == sorted(order)
    by_total = [row.regret for row in analysis.means(made("cumulative")) if row.case == "x"]
    assert by_total == sorted(by_total)


def test_running_minima_are_those_of_a_loop():
    result = made()
    rounds, found = analysis.bests(result, "x", "b")
    assert rounds.tolist() == list(range(1, ROUNDS + 1))
    for r, row in enumerate(result["regret"].sel(case="x", policy="b").values.tolist()):
        for t in range(1, ROUNDS + 1):
            expected = min(row[:t]) if r != 2 or t <= 25 else np.nan
            assert found[r, t - 1] == pytest.approx(expected, abs=0, nan_ok=True)
    np.testing.assert_array_equal(analysis.bests(result, "x", "b", 7)[1], found[:, :7])
    curve = next(c for c in analysis.curves(result, "best") if (c.case, c.policy) == ("x", "b"))
    np.testing.assert_array_equal(curve.values, np.delete(found, 2, axis=0))


def test_what_was_not_kept_is_not_known():
    for keep, known in (("all", 40), ("log", 40), (1, 40), (7, 0)):
        result = thinned(keep, "best" if known else "cumulative").assign_attrs(measure="best")
        for label in ("EI", "random"):
            rounds, found = analysis.bests(result, "rough", label)
            assert np.isfinite(found).sum(axis=1).tolist() == [known] * 3, (keep, rounds)
        rows = analysis.means(result)
        assert [np.isfinite((row.best, row.best_standard_error)).all() for row in rows] == [known == 40] * 2
        assert len(analysis.ranks(result)) == len(analysis.curves(result, "best")) == (2 if known == 40 else 0)
        assert all(np.isfinite(row.regret) for row in rows)
        assert len(analysis.wins(result, "EI")) == (known == 40)


def test_rounds_that_the_measure_needs_are_kept():
    with pytest.raises(ValueError, match="keep: got 7; allowed: one that keeps all rounds where measure"):
        thinned(7)


@pytest.mark.parametrize("select", ["case", "policy"])
@pytest.mark.parametrize("name", ["means", "ranks", "differences", "curves", "exponents", "wins", "case_of"])
@pytest.mark.sampled(4)
def test_a_selection_without_a_dimension_is_refused(name, select):
    chosen = made().isel({select: 0})
    label = chosen[select].item() if select in chosen.coords else 0
    arguments = {"wins": ("b",), "case_of": (None,)}.get(name, ())
    with pytest.raises(ValueError, match=re.escape(f"allowed: one selected as sel({select}=[{label!r}])")):
        (case_of if name == "case_of" else getattr(analysis, name))(chosen, *arguments)


@pytest.mark.parametrize("measure", ["best", "cumulative", "average"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(3)
def test_ranks_and_wins_are_those_of_a_loop(measure, seed):
    result = made(measure, seed)
    pairs = list(itertools.product(CASES, range(REPLICATES)))
    found = {row.policy: row for row in analysis.ranks(result)}
    assert [row.rank for row in found.values()] == sorted(row.rank for row in found.values())
    for policy in POLICIES:
        places = []
        for case, r in pairs:
            others = [outcome(result, case, each, r) for each in POLICIES]
            own, known = outcome(result, case, policy, r), [value for value in others if value is not None]
            if own is not None:
                places.append(sum(v < own for v in known) + (sum(v == own for v in known) + 1) / 2)
        assert (found[policy].pairs, found[policy].rank) == (len(places), pytest.approx(statistics.mean(places)))
    for against, tie in itertools.product(POLICIES, (0.0, 0.25)):
        rows = {row.policy: row for row in analysis.wins(result, against, tie)}
        assert set(rows) == set(POLICIES) - {against}
        for policy, row in rows.items():
            both = [(outcome(result, case, policy, r), outcome(result, case, against, r)) for case, r in pairs]
            counts = [0, 0, 0]
            for own, other in both:
                if own is not None and other is not None:
                    counts[2 if abs(own - other) <= tie else int(own > other)] += 1
            assert [row.wins, row.losses, row.ties] == counts
            assert row.pairs == sum(counts)
            decided = counts[0] + counts[1]
            expected = scipy.stats.binomtest(counts[0], decided).pvalue if decided else 1.0
            assert row.p_value == pytest.approx(expected)


def test_ranks_of_a_case():
    result = made()
    found = analysis.case_ranks(result)
    assert set(found) == {(c, p, ROUNDS) for c, p in itertools.product(CASES, POLICIES)} - {("y", "c", ROUNDS)}
    total = sum(found["x", "a", ROUNDS] * REPLICATES for _ in "x") + found["y", "a", ROUNDS] * REPLICATES
    rank = next(row.rank for row in analysis.ranks(result) if row.policy == "a")
    assert total / (2 * REPLICATES) == pytest.approx(rank)


def test_a_policy_ties_with_its_copy():
    result = made()
    result["regret"].loc[{"policy": "b"}] = result["regret"].sel(policy="a").values
    row = next(row for row in analysis.wins(result, "a") if row.policy == "b")
    assert row == ("b", ROUNDS, "a", 12, 0, 0, 12, 1.0)
    with pytest.raises(ValueError, match=r"^against: got 'd'; allowed: one of a, b, c$"):
        analysis.wins(result, "d")
    with pytest.raises(ValueError, match=r"^tie: got -1"):
        analysis.wins(result, "a", -1.0)


def test_differences_are_by_the_measure():
    for measure in ("best", "cumulative", "average"):
        result = made(measure)
        row = next(row for row in analysis.differences(result, against="a") if row[:2] == ("x", "b"))
        both = [(outcome(result, "x", "b", r), outcome(result, "x", "a", r)) for r in range(REPLICATES)]
        pairs = [own - other for own, other in both if own is not None and other is not None]
        assert row.difference == pytest.approx(statistics.mean(pairs))
        assert (row.runs, row.wins) == (5, pytest.approx(sum(pair < 0.0 for pair in pairs) / 5))
    first = analysis.means(made())[0].policy
    assert next(row.against for row in analysis.differences(made())) == first


def test_horizons_have_rows_of_their_own():
    """A policy played at two horizons; the other, played once, counts at both."""
    result = made().sel(case=["x"], policy=["a", "b"])
    result = result.assign_coords(policy=["a, horizon = 15", "a, horizon = 40"], horizon=("policy", [15, 40]))
    result["regret"].loc[{"policy": "a, horizon = 15", "round": slice(16, None)}] = np.nan
    result.attrs["horizons"] = [15, 40]
    labels = {horizon: label for each in analysis.policies_of(result).values() for horizon, label in each.items()}
    rows = {row.horizon: row for row in analysis.means(result)}
    assert {row.horizon for row in analysis.ranks(result)} == {15, 40} == set(rows)
    for horizon, label in labels.items():
        found = result["regret"].sel(case="x", policy=label).values[:, :horizon]
        assert rows[horizon].best == pytest.approx(found[np.isfinite(found).all(axis=1)].min(axis=1).mean())


class TestFigure:
    def test_curves_are_means_of_running_minima(self):
        result = made().sel(policy=["a"])
        ax = plots.regret_curves(result, "x", Figure().subplots())
        running = np.minimum.accumulate(result["regret"].sel(case="x", policy="a").values, axis=1)
        np.testing.assert_allclose(ax.lines[0].get_ydata(), running.mean(axis=0))
        assert ax.get_ylabel() == "regret of the best point\n(mV)"
        assert len(ax.collections) == 1

    @pytest.mark.parametrize(("last", "log", "scales"), [
        (0.01, None, ("linear", "log")), (0.5, None, ("linear", "linear")), (0.0, None, ("linear", "linear")),
        (0.0, True, ("log", "log")), (0.01, False, ("linear", "linear")),
    ])  # fmt: skip
    @pytest.mark.parametrize("count", [1, 2, 5])
    def test_axes(self, last, log, scales, count):
        """Logarithmic if the means are positive and far apart; a regret of 0 does not break it."""
        regret = np.full((1, 1, count, 20), 1.0)
        regret[..., 10:] = last
        labels = {"case": ["x"], "policy": ["a"], "round": np.arange(1, 21)}
        result = xarray.Dataset({"regret": (("case", "policy", "replicate", "round"), regret)}, labels)
        figure = Figure()
        ax = plots.regret_curves(result, ax=figure.subplots(), measure="best", log=log)
        assert (ax.get_xscale(), ax.get_yscale()) == scales
        low, high = ax.get_ylim()
        assert high > 1.0
        assert low == pytest.approx(0.3 * (last or 1.0)) if scales[1] == "log" else low == 0.0
        figure.canvas.draw()

    def test_trajectories(self):
        space = sb.Grid([[0, 1]], 20)
        policy, environment = sb.RandomSearch(space), sb.Benchmark("forrester", space, sb.GaussianNoise(0.1))
        run = sb.simulate(policy, environment, horizon=30)
        ax = plots.regret_curves(run, measure="best", ax=Figure().subplots())
        np.testing.assert_allclose(ax.lines[0].get_ydata(), [min(run.regret[:t]) for t in range(1, 31)])
        some = sb.simulate(sb.RandomSearch(space), environment, horizon=30, keep=7)
        assert not plots.regret_curves(some, measure="best", ax=Figure().subplots()).lines
        with pytest.raises(ValueError, match=r"^measure: got 'least'; allowed: 'cumulative', 'average' or 'best'$"):
            plots.regret_curves(run, measure="least")


class TestTables:
    def test_of_the_command(self, monkeypatch, capsys):
        result = made()
        result["policy"] = ["GP-UCB, lengths", "b", "c"]
        monkeypatch.setenv("COLUMNS", "80")
        show_table(regrets_table(result), without=["runs"])
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        assert "…" not in "".join(lines)
        assert [line.strip() for line in lines if line.strip() in CASES] == list(CASES)
        by_policy = [re.split(r"\s{2,}", line.strip()) for line in lines if line.startswith(" b ")]
        assert len(by_policy) == 2  # in each case
        row = next(row for row in analysis.means(result) if (row.case, row.policy) == ("x", "b"))
        numbers = [float(cell.partition(" ")[0].replace(",", "")) for cell in by_policy[0][1:]]
        rank = analysis.case_ranks(result)["x", "b", ROUNDS]
        assert numbers == pytest.approx((row.best, rank, row.regret, row.fraction), rel=0.01)
        assert by_policy[0][1].endswith(f"± {row.best_standard_error:.2g}")

    def test_of_the_report(self):
        def build(replicate: Replicate) -> Problem:
            space = sb.Grid([[0, 1]], 20)
            options: dict[str, Any] = {"noise": 0.1, "regularization": 0.01, "seed": replicate.seed}
            policies = {"EI": sb.GPEI(space, sb.RBF(0.2), **options), "random": sb.RandomSearch(space, **options)}
            return Problem(sb.Benchmark("forrester", space, sb.GaussianNoise(0.1)), policies)

        result = sb.Study("tuning", ("one",), build, 15, 4, measure="best").run()
        sections = {section.title: section for section in study_report(result, "here", None).sections}
        tables = {block.title: block for block in sections["Tables"].blocks}
        assert list(tables)[:3] == ["Regret of the best point", "Ranks", "Paired differences"]
        best = tables["Regret of the best point"]
        assert list(best.headings) == [
            "policy", "runs", "best regret", "mean rank", "cumulative regret", "of uniform"
        ]  # fmt: skip
        assert all(len(row) == len(block.headings) for block in tables.values() for row in block.rows)
        assert [float(row[2].partition(" ")[0]) for row in best.rows] == pytest.approx(
            [row.best for row in analysis.means(result)], rel=0.01
        )
        first, second = tables["Ranks"].rows
        one = next(row for row in analysis.wins(result, first[0]) if row.policy == second[0])
        assert list(map(int, second[4:7])) == [one.wins, one.losses, one.ties]
        assert "Regret of the best point minus" in tables["Paired differences"].text
