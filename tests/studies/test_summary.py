"""The summary of a study: its numbers are those of the runs, computed by hand."""

import re

import numpy as np
import pytest
import scipy.stats
import xarray

import scalable_bandits as sb
from scalable_bandits.studies.summary import Published

POLICIES = ("good", "equal", "bad")
UNIFORM = 2.0  # regret of uniform play per round


def made(cases=("a", "b"), replicates=6, horizon=20, **attributes):
    """Regrets of three policies, of which one is half as good as the others."""
    rng = np.random.default_rng(0)
    sizes = {"case": len(cases), "policy": 3, "replicate": replicates, "round": horizon}
    shared = rng.gamma(4.0, 0.05, (len(cases), 1, replicates, horizon))  # of the functions, which all policies share
    regret = shared * np.array([1.0, 1.0, 2.0])[:, None, None] + 0.01 * rng.random(tuple(sizes.values()))
    labels = {"case": list(cases), "policy": list(POLICIES), "round": np.arange(1, horizon + 1)}
    known = {"study": "made", "title": "Made up", "unit": "V", "measure": "cumulative", **attributes}
    uniform = ("case", "replicate"), np.full((len(cases), replicates), UNIFORM)
    return xarray.Dataset({"regret": (tuple(sizes), regret), "uniform_regret": uniform}, labels, known)


def study(**options):
    return sb.Study("made", ("a", "b"), lambda replicate: None, 20, 6, **options)


def lines(text):
    assert str(text) == repr(text)
    assert len(text.splitlines()) <= 10
    return text.splitlines()


def test_the_best_policies_and_who_is_within_chance_of_them():
    result = made()
    total = result["regret"].sum("round")
    size, *cases, ranks = lines(study().summary(result))
    assert size == "Made up: 2 cases, 3 policies, 6 replicates, 20 rounds"
    for line, case in zip(cases, "ab", strict=True):
        here = total.sel(case=case).values  # (policies, replicates)
        best = int(here.mean(axis=1).argmin())
        share, error = (number / (20 * UNIFORM) for number in (here[best].mean(), here[best].std(ddof=1) / np.sqrt(6)))
        name, shown, shown_error = re.match(rf"{case}: (\w+) is best, ([\d.]+) ± ([\d.]+) of uniform", line).groups()
        assert name == POLICIES[best]
        assert float(shown) == pytest.approx(share, abs=1e-3)
        assert float(shown_error) == pytest.approx(error, rel=0.06)
        near = []
        for other in set(range(3)) - {best}:
            difference = here[other] - here[best]
            if scipy.stats.t.interval(0.95, 5, difference.mean(), scipy.stats.sem(difference))[0] <= 0.0:
                near.append(POLICIES[other])
        ending = f"not clearly worse: {', '.join(near)}" if near else "all others are clearly worse"
        assert line.endswith(ending)
    values = total.transpose("policy", "case", "replicate").values.reshape(3, -1)
    mean_ranks = scipy.stats.rankdata(values, axis=0).mean(axis=1)
    order = np.argsort(mean_ranks, kind="stable")
    listed = ", ".join(f"{POLICIES[i]} {mean_ranks[i]:.2f}" for i in order)
    wins = int((values[order[0]] < values[order[1]]).sum())
    p_value = scipy.stats.binomtest(wins, 12).pvalue
    assert ranks.startswith(f"Mean ranks over all cases: {listed}; ")
    assert f"has less regret than {POLICIES[order[1]]} in {wins} of 12 runs" in ranks
    assert float(re.search(r"p = ([\d.e-]+)\)", ranks)[1]) == pytest.approx(p_value, rel=0.06)


def test_a_study_of_best_points_and_one_of_a_single_replicate():
    result = made(("a",), measure="best")
    least = result["regret"].min("round").sel(case="a").values
    best = int(least.mean(axis=1).argmin())
    line = lines(study().summary(result))[1]
    name, shown = re.match(r"a: (\w+) is best, regret of the best point ([\d.]+) ± [\d.]+ V", line).groups()
    assert (name, float(shown)) == (POLICIES[best], pytest.approx(least[best].mean(), rel=0.05))
    assert "one run says nothing of chance" in lines(study().summary(made(replicates=1)))[1]


def test_unfinished_studies():
    result = made()
    result["regret"][1, 1, :, 10:] = np.nan
    result["regret"][0, 2, 0] = np.nan
    size, _, second, ranks = lines(study().summary(result))
    assert size.endswith("20 rounds; 7 of 36 runs unfinished")
    assert second.endswith("; all others with finished runs are clearly worse")
    assert "good" in ranks
    result["regret"][:] = np.nan
    assert lines(study().summary(result)) == [
        "Made up: 2 cases, 3 policies, 6 replicates, 20 rounds; 36 of 36 runs unfinished"
    ]


def test_many_cases_are_counted():
    cases = [f"case {i}" for i in range(9)]
    result = made(cases)
    best = result["regret"].sum("round").mean("replicate").values.argmin(axis=1)
    counted = next(line for line in lines(study().summary(result)) if line.startswith("Best of a case: "))
    shown = {name: int(count) for name, count in re.findall(r"(\w+) in (\d+)", counted)}
    assert shown == {name: n for i, name in enumerate(POLICIES) if (n := int((best == i).sum()))}


def test_published_numbers_are_compared_where_the_sizes_are_those_of_the_study():
    result = made()
    share = (result["regret"].sum("round") / (20 * UNIFORM)).sel(case="a", policy="good").values
    error = share.std(ddof=1) / np.sqrt(6)
    table = {
        "a": {"good": {"fraction": f"{share.mean() + 1.8 * error}"}, "bad": {"fraction": f"{share.mean()}"}},
        "b": {"good": {"fraction": "about a tenth"}},
    }
    compared = study(published=Published(table))
    assert lines(compared.summary(result))[-1] == "Published numbers: 1 of 2 are within 2 standard errors of ours"
    assert not lines(compared.summary(made(horizon=10)))[-1].startswith("Published")


def test_what_is_summarised_is_the_store_or_what_is_given(tmp_path):
    tables = {
        "name": "stored", "horizon": 8, "replicates": 2,
        "environments": {"line": {"type": "GPSample", "space": sb.Grid([[0, 1]], 9), "kernel": sb.RBF(0.3)}},
        "policies": {"UCB": {"type": "IGPUCB"}, "random": {"type": "RandomSearch"}},
    }  # fmt: skip
    place = tmp_path / "study"
    kept = sb.Study.from_dict({**tables, "store": str(place)})
    text = kept.summary(kept.run())
    assert text == kept.summary() == sb.Study.from_dict(tables).summary(place)
    with pytest.raises(ValueError, match=r"^result: got None; allowed: a result of the study 'stored', or its folder"):
        sb.Study.from_dict(tables).summary()
    with pytest.raises(ValueError, match=r"^result: got \"one of 'made'\"; allowed: a result of the study 'stored'"):
        kept.summary(made())
    with pytest.raises(FileNotFoundError, match=r"^store: there is no study in "):
        kept.summary(tmp_path / "nothing")
