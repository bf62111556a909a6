"""Engines by name: what is registered, and what policies take."""

import pytest

import scalable_bandits as sb
from scalable_bandits.posteriors import DenseEngine, Engine, check_engine, find_engine, register_engine
from scalable_bandits.posteriors.registry import engine_class, engine_names

GRID, KERNEL = sb.Grid([[0, 1]], 12), sb.Matern(0.2)


class OwnEngine(DenseEngine):
    """The dense engine, for smaller spaces."""

    limit = 100


@pytest.fixture
def own(registries):
    register_engine("own", OwnEngine)


@pytest.mark.usefixtures("own")
def test_policies_take_a_registered_engine():
    assert find_engine("own") is engine_class("own") is OwnEngine
    assert isinstance(sb.IGPUCB(GRID, KERNEL, engine="own").model.engine, OwnEngine)
    with pytest.raises(ValueError, match=r"^space: got '101 candidates'; allowed: at most 100 for the engine 'own'"):
        sb.IGPUCB(sb.Grid([[0, 1]], 101), KERNEL, engine="own")


@pytest.mark.usefixtures("own")
def test_thompson_sampling_takes_an_engine_that_draws():
    assert "own" in engine_names(lambda engine: engine.draws)
    truth = sb.RKHSFunction.sparse(GRID, KERNEL, sb.UniformNoise(1.0), seed=1)
    played = [sb.simulate(sb.GPTS(GRID, KERNEL, engine=name), truth, 40) for name in ("own", "dense")]
    assert played[0].candidate.tolist() == played[1].candidate.tolist()
    with pytest.raises(ValueError, match=r"^samples: got 'pathwise'; allowed: 'auto' or 'exact' with the engine 'own'"):
        sb.GPTS(GRID, KERNEL, engine="own", samples="pathwise")


def test_the_default_follows_from_kernel_and_size():
    assert check_engine("auto", 6_000) == "dense"
    assert check_engine("auto", 6_001) == "tiled"
    assert check_engine("auto", 10, epsilon=0.1) == "autoregressive"
    assert check_engine("auto", 12, features=3) == check_engine("auto", 1_000_000, features=500) == "weights"
    assert check_engine("auto", 11, features=3) == "dense"


def test_what_an_engine_cannot_do_is_refused():
    with pytest.raises(ValueError, match=r"^engine: got 'dens'; allowed: .*dense"):
        check_engine("dens", 10)
    with pytest.raises(ValueError, match=r"^engine: got 'dense'; allowed: 'auto' or 'autoregressive' for a kernel"):
        check_engine("dense", 10, epsilon=0.1)
    with pytest.raises(ValueError, match=r"^engine: got 'sketched'; allowed: .*'tiled'.*, which are exact"):
        check_engine("sketched", 10, exact=True)


def test_what_cannot_be_registered():
    with pytest.raises(TypeError, match=r"^engine: got .*; allowed: a subclass of Engine"):
        register_engine("own", dict)
    with pytest.raises(ValueError, match=r"^name: got 'auto'"):
        register_engine("auto", DenseEngine)
    forgetful = type("Forgetful", (DenseEngine,), {"observe": DenseEngine.observe})
    with pytest.raises(ValueError, match=r"^engine: got 'Forgetful without STATE'"):
        register_engine("own", forgetful)
    assert all(issubclass(engine_class(name), Engine) for name in engine_names(lambda _: True)[1:])
