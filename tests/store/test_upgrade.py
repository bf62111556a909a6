"""One store of each earlier schema is kept; it opens, and its run goes on."""

import copy
import errno
import itertools
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray
from cases import upgrade as cases
from cases.damage import DAMAGES
from cases.paths import STORES
from cases.upgrade import SPACE

import scalable_bandits as sb
from scalable_bandits.store import folder, journal
from scalable_bandits.store.journal import replace_file
from scalable_bandits.store.tickets import read_tickets

pytestmark = pytest.mark.slow


def make(**options):
    """The run of the kept stores of a finished simulation."""
    return cases.policy(**options), cases.environment()


@pytest.fixture(params=sorted(STORES.glob("schema?.zarr")), ids=lambda path: path.stem)
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
    with pytest.warns(UserWarning, match=r"upgraded to schema 2; the original is in .*run\.zarr\.earlier"):
        sb.ObservationStore.open(kept, "a").close()
    with xarray.open_zarr(tmp_path / "run.zarr.earlier", consolidated=False) as earlier:
        assert earlier.sizes["round"] == 25


# ---- runs of schema 1 of other kinds: whole chunks, pending points, tickets, checkpoints, halves of an array


def copy_of(name, tmp_path):
    return Path(shutil.copytree(STORES / f"schema1-{name}.zarr", tmp_path / "run.zarr"))


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_recording_goes_on(tmp_path):
    """With its pending point; the schema is changed in place, and nothing is left of the earlier one."""
    place = copy_of("record", tmp_path)
    expected = cases.policy()
    cases.tell(expected, cases.ROUNDS)
    before = contents(place)
    reader = sb.ObservationStore.open(place)
    asked = int(SPACE.index(copy.deepcopy(expected).ask())[0])
    assert (len(reader), reader.pending, reader.orderly) == (cases.ROUNDS, [asked], False)
    whole = reader.read()
    reader.dataset().compute()
    assert contents(place) == before
    again = cases.policy()
    with pytest.warns(UserWarning, match=r"run\.zarr: upgraded to schema 2"):
        held = sb.record(again, place)
    with held:
        assert again.rounds == cases.ROUNDS
        cases.tell(again, 60)
    cases.tell(expected, 60)
    np.testing.assert_array_equal(again.posterior(SPACE.points()), expected.posterior(SPACE.points()))
    found = sb.ObservationStore.open(place).read(0, cases.ROUNDS)
    assert {name: values.tolist() for name, values in found.items() if name != "noise"} == {
        name: values.tolist() for name, values in whole.items() if name != "noise"
    }
    assert not (place / "committed" / "journal").exists()
    assert sb.check(place)[0].whole


def test_tickets_go_on(tmp_path):
    """Evaluations that were in flight run again, and those that failed are remembered."""
    place = copy_of("maximize", tmp_path)
    before = read_tickets(sb.ObservationStore.open(place))
    assert len(before) > 100
    with pytest.warns(UserWarning, match="upgraded to schema 2"):
        sb.ObservationStore.open(place, "a").close(orderly=False)
    changes = read_tickets(sb.ObservationStore.open(place))
    assert changes == before
    failed = {change.number for change in changes if change.fields["state"] == "failed"}
    assert failed
    found = sb.maximize(cases.function, cases.policy(), 60, parallel=1, retries=0, store=place)
    assert failed <= {ticket.number for ticket in found.tickets if ticket.state == "failed"}
    assert len(found) + len(found.failed) == 60


def test_objects_go_on(tmp_path):
    pytest.importorskip("obstore", reason="obstore is not installed")
    place = copy_of("objects", tmp_path)
    expected = sb.simulate(*make(), 60)
    before = contents(place)
    reader = sb.ObservationStore.open(cases.objects(place))
    np.testing.assert_array_equal(reader.read(names=["candidate"])["candidate"], expected.candidate[: cases.ROUNDS])
    assert contents(place) == before
    with pytest.warns(UserWarning, match="upgraded to schema 2"):
        run = sb.simulate(*make(), 60, store=cases.objects(place))
    assert_same(run, expected)
    assert sb.check(cases.objects(place))[0].whole


@pytest.mark.parametrize("name", ["record", "maximize"])
@pytest.mark.slow
def test_cut_short_at_every_write(name, tmp_path, monkeypatch):
    """An upgrade that is interrupted is done again; no round and no ticket is lost on the way."""
    place = copy_of(name, tmp_path)
    expected = sb.ObservationStore.open(place).read()
    for allowed in itertools.count():
        again = shutil.copytree(place, tmp_path / f"{allowed}.zarr")
        room = iter(range(allowed))

        def replace(path, data, room=room):
            if next(room, None) is None:
                raise OSError(errno.ENOSPC, "no space left on device")
            replace_file(path, data)

        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for module in (journal, folder):
                patch.setattr(module, "replace_file", replace)
            try:
                sb.ObservationStore.open(again, "a").close()
                done = True
            except OSError:
                done = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for mode in ("r", "a"):
                with sb.ObservationStore.open(again, mode) as store:
                    for field, values in expected.items():
                        np.testing.assert_array_equal(store.read()[field], values)
        assert sb.check(again)[0].whole
        if done:
            assert allowed > 5
            return


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_a_damaged_chunk_is_recovered_from(tmp_path, damage):
    """The earlier schema had checksums of chunks: the damage is named, and what is left is kept."""
    place = copy_of("record", tmp_path)
    expected = sb.ObservationStore.open(place).read(names=["y"])["y"]
    DAMAGES[damage](place / "y" / "c.1")
    with pytest.raises(sb.StoreDamaged, match=r"y/c\.1: rounds 17 to 32 of 'y' cannot be read"):
        sb.ObservationStore.open(place, "a")
    with pytest.warns(UserWarning, match="16 round"):
        sb.ObservationStore.open(place, "a", recover=True).close()
    kept = sb.ObservationStore.open(place).read(names=["y"])["y"]
    np.testing.assert_array_equal(kept, np.delete(expected, np.arange(16, 32)))
