"""Other packages' tuners, and the tables on a page."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _root(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def test_tables_are_written_to_a_page():
    from benchmarks.tuners import report

    marks = report.marks_of("a study")
    page = "before\n" + "\nold\n".join(marks) + "\nafter\n"
    sheet = report.Sheet("Title", ["a", "b"], [["1", "2"]])
    written = report.inserted(page, report.markdown(sheet), marks)
    lines = written.splitlines()
    assert (lines[0], lines[-1], lines.count("*Title*"), lines.count("| 1 | 2 |")) == ("before", "after", 1, 1)
    assert "old" not in lines
    assert report.inserted(written, report.markdown(sheet), marks) == written
    for wrong in ("none", written.replace(marks[1], ""), "".join(marks[::-1]), written + marks[0]):
        with pytest.raises(ValueError, match="page: got one without the marks; allowed: "):
            report.inserted(wrong, "", marks)


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
