"""Tables of tuned networks against a plain reading of their files."""

import ast
import math
import pickle

import numpy as np
import pytest

from environments.published.installed import check_pulls, folder, needs
from scalable_bandits.environments.published import HPOBench, HPOLib, NASBench201
from scalable_bandits.environments.published.hpo import gathered
from scalable_bandits.environments.published.sources import HPO_TABLES

pytestmark = needs(HPO_TABLES)
TABLES = [(HPOLib, "naval_propulsion", "val_loss"), (HPOBench, "car", "val_acc"), (NASBench201, "cifar10", "val_acc")]
ranges = pytest.mark.parametrize(
    ("kind", "least", "most", "size", "repeats"),
    [
        (HPOLib, 0.0, math.inf, 62_208, {4: 62_208}),
        (HPOBench, 0.0, 1.0, 30_000, {5: 30_000}),
        (NASBench201, 0.0, 100.0, 15_625, {2: 7_456, 3: 8_169}),
    ],
)


@pytest.fixture(scope="module", params=TABLES, ids=lambda case: case[1])
def case(request):
    """Class, name of the table, and lists of measurements by key."""
    kind, table, metric = request.param
    with (folder(HPO_TABLES) / "datasets" / kind.FOLDER / f"{table}.pkl").open("rb") as file:
        entries = pickle.load(file)
    return kind, table, {key: entry[metric] for key, entry in entries.items()}


def key_of(kind, setting):
    """The package's rule: a digit for each parameter, in the order of their names: the position of its value."""
    return "".join(str(kind.PARAMETERS[name].index(setting[name])) for name in sorted(setting))


@pytest.mark.sampled(3)
def test_every_setting(case):
    """Each setting has the measurements of its key, and f is their average; the optimum is the best of these."""
    kind, table, entries = case
    environment = kind(table, arms=True)
    sign = -1.0 if kind is HPOLib else 1.0
    assert environment.space.size == len(entries)
    averages = {key: sign * sum(each) / len(each) for key, each in entries.items()}
    assert environment.optimum() == pytest.approx(max(averages.values()), rel=1e-12)
    rng = np.random.default_rng(0)
    for arm in (*rng.integers(environment.space.size, size=300).tolist(), int(np.argmax(environment.table()))):
        setting = environment.space.value(arm)
        expected = [sign * y for y in entries[key_of(kind, setting)]]
        found = environment.measurements[arm]
        assert found[~np.isnan(found)].tolist() == expected
        assert environment.mean(setting) == pytest.approx(averages[key_of(kind, setting)], rel=1e-12)


@pytest.mark.slow
def test_pulls(case):
    """Of settings with as many measurements as any, and of NAS-Bench-201 also one that lacks its third."""
    kind, table, entries = case
    environment = kind(table, arms=True, seed=3)
    counts = (~np.isnan(environment.measurements)).sum(axis=1)
    for count in np.unique(counts):
        arm = int(np.flatnonzero(counts == count)[17])
        measured = entries[key_of(kind, environment.space.value(arm))]
        assert len(measured) == count
        check_pulls(environment, arm, [-y for y in measured] if kind is HPOLib else measured)
    assert kind(table, seed=4).observe(environment.space.value(0), 1) in environment.measurements[0]


@ranges
def test_sizes_and_units(kind, least, most, size, repeats):
    for table in kind.TABLES[:1]:
        environment = kind(table)
        measured = np.abs(environment.measurements)
        counts, often = np.unique((~np.isnan(measured)).sum(axis=1), return_counts=True)
        assert environment.space.size == size
        assert dict(zip(counts.tolist(), often.tolist(), strict=True)) == repeats
        assert least <= np.nanmin(measured) <= np.nanmax(measured) <= most
        if kind is NASBench201:
            assert np.nanmax(measured) > 1.0  # per cent


@ranges
def test_parameters_are_the_packages(kind, least, most, size, repeats):
    """As in the text of its modules; in the order of their names, which is that of the digits of a key."""
    text = (folder(HPO_TABLES) / f"{kind.__name__.lower()}.py").read_text()
    named = {node.arg: node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.keyword)}
    if kind is not NASBench201:  # there a comprehension
        assert ast.literal_eval(named["search_space"]) == kind.PARAMETERS
    assert list(kind.PARAMETERS) == sorted(kind.PARAMETERS)
    assert sorted(kind.TABLES) == sorted(ast.literal_eval(named["available_dataset_names"]))
    assert math.prod(map(len, kind.PARAMETERS.values())) == size


def test_logarithms_and_averages():
    plain, logs = HPOLib("naval_propulsion"), HPOLib("naval_propulsion", log=True)
    np.testing.assert_allclose(logs.table(), -np.log10(-plain.measurements).mean(axis=1))
    averages = HPOLib("naval_propulsion", repeats=False)
    assert averages.measurements is None
    np.testing.assert_array_equal(averages.table(), plain.table())
    x = averages.space.setting(averages.space.candidate_set(1, 0).points()[0])
    assert averages.observe(x, 1) == averages.observe(x, 2) == averages.mean(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HPOBench("cars"), r"^table: got 'cars'; allowed: did you mean 'car'\?"),
        (lambda: HPOBench(3), "^table: got 3"),
        (lambda: HPOBench("car", log=True), "^log: got True; allowed: False for HPOBench"),
        (lambda: HPOBench("car", arms=1), "^arms: got 1"),
        (lambda: gathered({"0": {"y": [1.0]}}, "y", (2,)), "^entries: got '1 settings .*; allowed: 2 settings"),
        (lambda: gathered({"0": {"y": [1.0]}, "1": {"y": [math.inf]}}, "y", (2,)), "^entries: got '1 settings"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
