"""Names of version 0.1 work for one more version, and say that they are old."""

import importlib

import numpy as np
import pytest

import scalable_bandits as sb
from scalable_bandits import posteriors
from scalable_bandits._renamed import CLASSES, MEMBERS, MODULES
from scalable_bandits.specification import differences


def test_old_modules_have_the_public_names_of_the_new_ones():
    for old in MODULES:
        new = importlib.import_module(f"scalable_bandits.{MODULES[old]}")
        renamed = importlib.import_module(f"scalable_bandits.{old}")
        names = [name for name, value in vars(new).items() if getattr(value, "__module__", "") == new.__name__]
        for name in (name for name in names if not name.startswith("_")):
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


def test_old_classes():
    for old in ("BlockedEngine", "AutoregressiveEngine", "SlidingEngine", "Observations", "Sketch"):
        with pytest.warns(DeprecationWarning, match=CLASSES[old]):
            assert getattr(posteriors, old) is getattr(posteriors, CLASSES[old])


def test_a_class_of_the_package_itself():
    with pytest.warns(DeprecationWarning, match=r"scalable_bandits.Maximum is .* use scalable_bandits.TuningResult"):
        assert sb.Maximum is sb.TuningResult
    with pytest.warns(DeprecationWarning, match="TuningResult"):
        assert importlib.import_module("scalable_bandits.maximize").Maximum is sb.TuningResult


def test_old_constants():
    with pytest.warns(DeprecationWarning, match="DenseEngine.limit"):
        assert posteriors.DENSE_MAXIMUM == 20_000
    with pytest.warns(DeprecationWarning, match="PathwiseEngine.limit"):
        assert posteriors.PATHWISE_MAXIMUM == 20_000_000


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


def policy():
    played = sb.IGPUCB(sb.Grid([[0, 1]], 5), sb.RBF(0.2))
    for y in (0.5, 1.0):
        played.tell(played.ask(), y)
    return played


def test_old_members_of_every_policy():
    for old, new in MEMBERS["Policy"].items():
        with pytest.warns(DeprecationWarning, match=rf"IGPUCB.{old} is deprecated .* use IGPUCB.{new}"):
            assert getattr(policy(), old) is not None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_members_do_what_they_did():
    played = policy()
    played.wait_for([3], True)
    played.give_up([0])
    assert played.ask_is_stateful == played.asks_matter
    assert played.pending_points.numbers == [3]
    columns, covariance = played.pending_covariance()
    expected = played.model.pending_covariance([3])
    np.testing.assert_array_equal(columns, expected[0])
    np.testing.assert_array_equal(covariance, expected[1])
    np.testing.assert_array_equal(played.reduction(), played.model.reduction([3]))
    engine = played.fresh_engine(np.zeros((2, 1)), np.zeros(2))
    assert type(engine) is type(played.posterior_engine)
    assert len(engine.mean()) == 2
    played.forget()
    assert not played.queried.any()
    unknown = sb.PEGPUCB(sb.Grid([[0, 1]], 5), [sb.Prior("one", sb.RBF(0.2))])
    assert unknown.book == unknown.add_play
    assert played.posterior_engine.asks_matter is False


def test_methods_that_a_subclass_overrides_under_their_old_names():
    made, foreseen = [], []
    with pytest.warns(DeprecationWarning, match="Own") as warnings:

        class Own(sb.IGPUCB):
            def fresh_engine(self, points, prior_mean):
                made.append(len(points))
                return posteriors.DenseEngine(self.present_kernel, points, prior_mean)

            def anticipate(self, count):
                foreseen.append(count)

            @property
            def asks_matter(self):
                return True

    assert sorted(str(each.message).partition(" and")[0] for each in warnings) == [
        "Own.anticipate is deprecated", "Own.asks_matter is deprecated", "Own.fresh_engine is deprecated",
    ]  # fmt: skip
    assert {each.filename for each in warnings} == {__file__}
    played = Own(sb.Grid([[0, 1]], 5), sb.RBF(0.2), engine="tiled")
    played.tell([[0.0], [1.0]], [1.0, 2.0])
    assert isinstance(played.posterior_engine, posteriors.DenseEngine)
    assert (made, foreseen, played.ask_is_stateful) == ([5], [2], True)
