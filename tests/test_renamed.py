"""Names of version 0.1 work for one more version, and say that they are old."""

import importlib

import pytest

import scalable_bandits as sb
from scalable_bandits import posteriors
from scalable_bandits._renamed import CLASSES, MODULES
from scalable_bandits.specification import differences


@pytest.mark.parametrize("old", MODULES)
def test_old_modules_have_the_public_names_of_the_new_ones(old):
    new = importlib.import_module(f"scalable_bandits.{MODULES[old]}")
    renamed = importlib.import_module(f"scalable_bandits.{old}")
    names = [name for name, value in vars(new).items() if getattr(value, "__module__", "") == new.__name__]
    for name in names:
        with pytest.warns(DeprecationWarning, match=rf"{old}.{name} is deprecated .* use scalable_bandits"):
            assert getattr(renamed, name) is getattr(new, name)


def test_the_ways_in_which_a_module_is_imported():
    with pytest.warns(DeprecationWarning, match="formulas.confidence.srinivas_finite"):
        from scalable_bandits.confidence import srinivas_finite
    with pytest.warns(DeprecationWarning, match="formulas.confidence.srinivas_finite"):
        assert sb.confidence.srinivas_finite is srinivas_finite
    with pytest.warns(DeprecationWarning, match=r"posteriors.greedy_gain"):
        from scalable_bandits.information import GreedyInformationGain
    assert GreedyInformationGain is sb.GreedyInformationGain
    with pytest.warns(DeprecationWarning, match=r"results.table_of is deprecated .* use .*study_output.regret_table"):
        assert importlib.import_module("scalable_bandits.results").table_of.__name__ == "regret_table"
    importlib.import_module("scalable_bandits.simulate")
    assert callable(sb.simulate), "the function, whatever was imported"


@pytest.mark.parametrize("old", ["BlockedEngine", "AutoregressiveEngine", "SlidingEngine", "Observations"])
def test_old_classes(old):
    with pytest.warns(DeprecationWarning, match=CLASSES[old]):
        assert getattr(posteriors, old) is getattr(posteriors, CLASSES[old])


def test_unknown_names():
    with pytest.raises(AttributeError, match=r"'scalable_bandits.confidence' has no attribute 'nothing'"):
        sb.confidence.nothing  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        posteriors.nothing  # noqa: B018


def test_an_engine_of_another_name():
    grid, kernel = sb.Grid([[0, 1]], 5), sb.RBF(0.2)
    with pytest.warns(DeprecationWarning, match="engine='blocked' is deprecated .* use engine='tiled'"):
        assert sb.IGPUCB(grid, kernel, engine="blocked").engine == "tiled"
    with pytest.warns(DeprecationWarning, match="engine='blocked' is deprecated .* use engine='tiled'"):
        sb.PEGPUCB(grid, [sb.Prior("one", kernel)], engine="blocked")
    data = sb.IGPUCB(grid, kernel, engine="tiled").to_dict()
    earlier = {**data, "engine": "blocked"}  # as a store of 0.1 has it
    assert sb.Policy.from_dict(earlier).to_dict() == data
    assert differences(earlier, data) == []
    assert differences({**data, "engine": "dense"}, data) == ["engine: stored 'dense', given 'tiled'"]
