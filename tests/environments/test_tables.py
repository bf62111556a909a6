"""Functions given by tables, with one value or several measurements for each candidate."""

import math

import numpy as np
import pandas
import pytest
import xarray
from hypothesis import given
from hypothesis import strategies as st

import scalable_bandits as sb

NAN = math.nan
LOG = {
    "width": [16, 32, 16, 64, 16],
    "rate": [0.1, 0.1, 0.1, 0.5, 0.3],
    "kind": ["b", "a", "b", "b", "b"],
    "loss": [3.0, 2.0, 1.0, 7.0, 4.0],
}


def rows_of(environment):
    space = environment.space
    found = environment.measurements if environment.measurements is not None else environment.table()[:, None]
    return [(space.value(i), [y for y in row if not math.isnan(y)]) for i, row in enumerate(found.tolist())]


EXPECTED = [
    ({"width": 16, "rate": 0.1, "kind": "b"}, [-3.0, -1.0]),
    ({"width": 32, "rate": 0.1, "kind": "a"}, [-2.0]),
    ({"width": 64, "rate": 0.5, "kind": "b"}, [-7.0]),
    ({"width": 16, "rate": 0.3, "kind": "b"}, [-4.0]),
]


def structured():
    kinds = [("width", int), ("rate", float), ("kind", "U4"), ("loss", float)]
    return np.array(list(zip(*LOG.values(), strict=True)), dtype=kinds)


@pytest.mark.parametrize(
    "table",
    [LOG, pandas.DataFrame(LOG), structured(), xarray.Dataset({name: ("row", each) for name, each in LOG.items()})],
    ids=["dict", "pandas", "structured", "xarray"],
)
def test_from_table(table):
    """Rows with equal settings are measurements of one arm."""
    parameters = ["width", "rate", "kind"]
    environment = sb.TableEnvironment.from_table(table, "loss", parameters, minimize=True)
    assert rows_of(environment) == EXPECTED
    assert environment.optimum() == -2.0
    assert environment.mean(EXPECTED[0][0]) == -2.0
    assert [type(kind).__name__ for kind in environment.space.space.kinds] == ["Integer", "Real", "Categorical"]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "zarr"])
def test_from_files(ending, tmp_path):
    path = tmp_path / f"log.{ending}"
    frame = pandas.DataFrame(LOG)
    if ending == "zarr":
        numbers = xarray.Dataset({name: ("row", each) for name, each in LOG.items() if name != "kind"})
        numbers.to_zarr(path, consolidated=False)
    elif ending == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    names = ["width", "rate"] if ending == "zarr" else ["width", "rate", "kind"]
    environment = sb.TableEnvironment.from_table(path, "loss", names, minimize=True)
    kept = [({name: setting[name] for name in names}, values) for setting, values in EXPECTED]
    assert rows_of(environment) == kept


def test_a_grid_of_xarray_and_columns_of_measurements():
    """Coordinates are parameters; several columns are measurements, in the order of the columns, row by row."""
    grid = xarray.Dataset(
        {"first": (("a", "b"), [[1.0, 2.0], [3.0, 4.0]]), "second": (("a", "b"), [[5.0, NAN], [7.0, 8.0]])},
        coords={"a": [0.0, 1.0], "b": ["u", "v"]},
    )
    environment = sb.TableEnvironment.from_table(grid, ["first", "second"])
    assert rows_of(environment) == [
        ({"a": 0.0, "b": "u"}, [1.0, 5.0]), ({"a": 0.0, "b": "v"}, [2.0]),
        ({"a": 1.0, "b": "u"}, [3.0, 7.0]), ({"a": 1.0, "b": "v"}, [4.0, 8.0]),
    ]  # fmt: skip


def test_types_of_columns():
    frame = pandas.DataFrame(
        {
            "flag": [True, False], "size": pandas.Categorical(["s", "l"], ["s", "m", "l"], ordered=True),
            "word": pandas.Categorical(["q", "p"]), "constant": [2, 2], "y": [1.0, 2.0],
        }
    )  # fmt: skip
    space = sb.TableEnvironment.from_table(frame, "y").space.space
    assert dict(zip(space.names, space.kinds, strict=True)) == {
        "flag": sb.Boolean(), "size": sb.Ordinal(["s", "l"]), "word": sb.Categorical(["p", "q"]),
        "constant": sb.Ordinal([2]),
    }  # fmt: skip


def test_a_search_space_says_how_columns_are_seen():
    space = {"width": [16, 32, 64], "rate": sb.Real(0.01, 1.0, log=True)}
    environment = sb.TableEnvironment.from_table(LOG, "loss", space)
    np.testing.assert_allclose(
        environment.space.encode(environment.space.points()),
        [[0.0, 0.5], [0.5, 0.5], [1.0, math.log(50, 100)], [0.0, math.log(30, 100)]],
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.floats(-5, 5)), min_size=1, max_size=30))
def test_grouping_by_hand(rows):
    """Against a dict of lists."""
    expected = {}
    for a, b, y in rows:
        expected.setdefault((a, b), []).append(y)
    a, b, y = zip(*rows, strict=True)
    environment = sb.TableEnvironment.from_table({"a": a, "b": b, "y": y}, "y")
    assert rows_of(environment) == [({"a": a, "b": b}, ys) for (a, b), ys in expected.items()]
    np.testing.assert_allclose(environment.table(), [np.mean(ys) for ys in expected.values()], atol=1e-12)


MEASURED = [[1.0, 3.0, NAN, 2.0], [5.0, NAN, NAN, NAN], [0.0, 4.0, 4.0, 4.0]]


class TestMeasurements:
    """A pull returns one of the measurements of an arm."""

    def test_averages_and_constants_by_hand(self):
        environment = sb.TableEnvironment(sb.Arms(3), MEASURED)
        assert environment.table().tolist() == [2.0, 5.0, 3.0]
        assert environment.optimum() == 5.0
        assert environment.sub_gaussian == 2.0  # half of the range of the third
        assert environment.deviation == pytest.approx(math.sqrt((1 + 1 + 0 + 9 + 1 + 1 + 1) / (2 + 0 + 3)))
        assert not environment.same_noise_everywhere
        assert math.isnan(sb.TableEnvironment(sb.Arms(2), [1.0, 2.0]).deviation)

    def test_pulls(self):
        """Each measurement equally often, the same one for a seed and a round, whatever was asked before."""
        environment = sb.TableEnvironment(sb.Arms(3), MEASURED, seed=4)
        rounds = np.arange(1, 4001)
        for arm, row in enumerate(MEASURED):
            drawn = np.array([environment.observe(arm, int(t)) for t in rounds])
            values, counts = np.unique(drawn, return_counts=True)
            given, often = np.unique([y for y in row if not math.isnan(y)], return_counts=True)
            np.testing.assert_array_equal(values, given)
            share = often / often.sum()
            assert (np.abs(counts / 4000 - share) < 5 * np.sqrt(share * (1 - share) / 4000) + 1e-12).all()
        again = sb.TableEnvironment(sb.Arms(3), MEASURED, seed=4)
        assert [again.observe(0, t) for t in (50, 7)] == [environment.observe(0, t) for t in (50, 7)]
        assert again.observe([0, 2, 0], 9).tolist() == [again.observe(a, t) for a, t in ((0, 9), (2, 10), (0, 11))]
        other = sb.TableEnvironment(sb.Arms(3), MEASURED, seed=5)
        assert [other.observe(2, t) for t in range(1, 60)] != [environment.observe(2, t) for t in range(1, 60)]

    def test_noise_on_top(self):
        plain = sb.TableEnvironment(sb.Arms(3), MEASURED, seed=4)
        noisy = sb.TableEnvironment(sb.Arms(3), MEASURED, sb.GaussianNoise(0.5), seed=4)
        for t in range(1, 20):
            assert noisy.observe(0, t) == plain.observe(0, t) + noisy.noise_at(t)
        assert noisy.sub_gaussian == math.hypot(2.0, 0.5)

    @pytest.mark.parametrize("space", [sb.Arms(3), sb.Grid([[0.0, 1.0]], 3)], ids=["arms", "grid"])
    def test_simulated(self, space):
        """Every y is a measurement of its arm, every regret that of the averages."""
        environment = sb.TableEnvironment(space, MEASURED, seed=1)
        run = sb.simulate(sb.RandomSearch(space, seed=2), environment, 200)
        for arm, y, value, regret in zip(run.candidate, run.y, run.value, run.regret, strict=True):
            assert y in MEASURED[arm]
            assert (value, regret) == (environment.table()[arm], 5.0 - environment.table()[arm])
        assert [environment.observe(space.value(int(arm)), t) for t, arm in enumerate(run.candidate, 1)] == list(run.y)

    def test_simulated_with_unavailable_arms(self):
        environment = sb.TableEnvironment(sb.Arms(3), MEASURED, seed=1)
        moving = sb.MovingSearchSpace(environment, [[1, 0, 1], [0, 0, 1]])
        assert moving.sub_gaussian == environment.sub_gaussian
        run = sb.simulate(sb.RandomSearch(moving.space, seed=2), moving, 50)
        for t, (arm, y) in enumerate(zip(run.candidate, run.y, strict=True), 1):
            assert y == environment.observe(int(arm), t)

    def test_a_tuner_on_the_whole_search_space(self):
        """A table of all combinations serves policies that do not list them."""
        space = sb.SearchSpace({"a": [1, 2, 3], "b": ["u", "v"]})
        values = np.arange(12.0).reshape(6, 2)
        environment = sb.TableEnvironment(space, values)
        assert environment.mean({"a": 2, "b": "v"}) == 6.5
        assert environment.optimum() == 10.5
        run = sb.simulate(sb.GPEI(space, seed=1), environment, 15)
        assert run.value.max() == 10.5
        assert set(run.y) <= set(values.ravel())

    def test_copy(self):
        environment = sb.TableEnvironment(sb.Arms(3), MEASURED, seed=4)
        copy = sb.TableEnvironment.from_dict(environment.to_dict())
        assert [copy.observe(0, t) for t in range(1, 30)] == [environment.observe(0, t) for t in range(1, 30)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.TableEnvironment(sb.Arms(2), [[1.0, NAN], [NAN, NAN]]), r"^values\[1\]: got \[nan, nan\]"),
        (lambda: sb.TableEnvironment(sb.Arms(2), [[1.0, math.inf], [1.0, 2.0]]), r"^values\[0\]: got \[1.0, inf\]"),
        (lambda: sb.TableEnvironment(sb.Arms(2), [[1.0, 2.0]]), r"^values: got 'shape \(1, 2\)'; allowed: \(2,\)"),
        (lambda: sb.TableEnvironment(sb.Box([[0, 1]]), [1.0]), "^space: got Box"),
        (lambda: sb.TableEnvironment(sb.Points([[1.0], [1.0]]), [[1.0, NAN], [1.0, 2.0]]), "^values: got"),
        (lambda: sb.TableEnvironment.from_table(LOG, "cost"), "^value: got 'cost'; allowed: .*known: kind, loss"),
        (lambda: sb.TableEnvironment.from_table(LOG, "kind"), "^value: got 'kind'; allowed: columns of numbers"),
        (lambda: sb.TableEnvironment.from_table(LOG, "loss", ["depth"]), "^parameters: got 'depth'"),
        (lambda: sb.TableEnvironment.from_table(LOG, "loss", ["loss"]), "^parameters: got 'loss'; allowed: columns"),
        (lambda: sb.TableEnvironment.from_table(LOG, "loss", []), r"^parameters: got \[\]"),
        (lambda: sb.TableEnvironment.from_table(LOG, "loss", {"kind": ["a"]}), r"^table\['kind'\]: got 'b'"),
        (lambda: sb.TableEnvironment.from_table({"a": [1], "y": [math.inf]}, "y"), "^table: got .*'y': inf.* in row 0"),
        (lambda: sb.TableEnvironment.from_table({"a": [1, 2], "y": [1.0, NAN]}, "y"), "^table: got .* in row 1 .and 0"),
        (lambda: sb.TableEnvironment.from_table({"a": [1, NAN], "y": [1, 2]}, "y"), "^table: got \"'a' empty .* row 1"),
        (lambda: sb.TableEnvironment.from_table({"a": ["u", None], "y": [1, 2]}, "y"), "^table: got \"'a' empty"),
        (lambda: sb.TableEnvironment.from_table({"a": [], "y": []}, "y"), "^table: got 'no row'"),
        (lambda: sb.TableEnvironment.from_table(7, "y"), "^table: got 7; allowed: a DataFrame"),
        (lambda: sb.TableEnvironment.from_table(LOG, "loss", minimize="yes"), "^minimize: got 'yes'"),
    ],
)  # fmt: skip
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"none\.csv does not exist"):
        sb.TableEnvironment.from_table(tmp_path / "none.csv", "y")
    (tmp_path / "log.txt").write_text("a,y")
    with pytest.raises(ValueError, match=r"^table: got .*log.txt'; allowed: the name of a file that ends in .csv"):
        sb.TableEnvironment.from_table(tmp_path / "log.txt", "y")
    (tmp_path / "log.parquet").write_bytes(b"")

    def missing(path):
        raise ImportError("no engine")

    monkeypatch.setattr(pandas, "read_parquet", missing)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        sb.TableEnvironment.from_table(tmp_path / "log.parquet", "y")


def test_repr() -> None:
    shown = repr(sb.TableEnvironment(sb.Arms(3), [0.0, 1.0, 2.0], sb.GaussianNoise(0.5), seed=4))
    assert shown == "TableEnvironment(space=Arms(count=3), noise=GaussianNoise(scale=0.5), seed=4)"
