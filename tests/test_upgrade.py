"""One store of each earlier schema is kept; it opens, and its run goes on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray

import scalable_bandits as sb

STORES = Path(__file__).parent / "stores"


def make(**options):
    """The run of the kept stores."""
    space = sb.Grid([[0, 1], [0, 1]], [5, 4])
    values = [((i * 7) % 20) / 20 for i in range(20)]
    environment = sb.TableEnvironment(space, values, sb.GaussianNoise(0.1), seed=3)
    policy = sb.IGPUCB(space, sb.RBF(0.4), **{"noise": 0.1, "regularization": 0.01, "seed": 5, **options})
    return policy, environment


@pytest.fixture(params=sorted(STORES.glob("*.zarr")), ids=lambda path: path.stem)
def kept(request, tmp_path):
    return shutil.copytree(request.param, tmp_path / "run.zarr")


def whole(rounds):
    return sb.simulate(*make(), rounds)


def assert_same(run, expected):
    one, other = run.dataset().compute(), expected.dataset()
    xarray.testing.assert_allclose(one.drop_attrs(), other.drop_attrs(), rtol=1e-9)
    np.testing.assert_array_equal(one.candidate, other.candidate)


def test_opens_for_reading(kept):
    """Without a change on disk."""
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    store = sb.ObservationStore.open(kept)
    assert (len(store), store.planned, store.specification["policy"]["type"]) == (25, 25, "IGPUCB")
    np.testing.assert_allclose(store.read(names=["y"])["y"], whole(25).y, rtol=1e-12)
    np.testing.assert_allclose(store.dataset().cumulative_regret[-1], whole(25).cumulative_regret[-1], rtol=1e-9)
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before


@pytest.mark.filterwarnings("ignore:store .* upgraded to schema")
def test_goes_on(kept):
    run = sb.simulate(*make(), 60, store=kept)
    assert_same(run, whole(60))
    root = json.loads((kept / "zarr.json").read_text())["attributes"]
    assert root["schema"] == 2
    assert_same(sb.simulate(*make(), 70, store=kept), whole(70))


@pytest.mark.filterwarnings("ignore:store .* upgraded to schema")
def test_another_specification_is_refused(kept):
    with pytest.raises(sb.SpecificationDiffers, match=r"policy.noise: stored 0.1, given 0.2"):
        sb.simulate(*make(noise=0.2), 60, store=kept)


def test_upgrade_says_so_and_keeps_what_was(tmp_path):
    kept = shutil.copytree(STORES / "schema0.zarr", tmp_path / "run.zarr")
    with pytest.warns(UserWarning, match=r"upgraded to schema 2; what it was is in .*run\.zarr\.earlier"):
        sb.ObservationStore.open(kept, "a").close()
    with xarray.open_zarr(tmp_path / "run.zarr.earlier", consolidated=False) as earlier:
        assert earlier.sizes["round"] == 25
