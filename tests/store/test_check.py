"""`check`: reads everything, changes nothing, says what is whole and what is not."""

import json
import shutil

import numpy as np
import pytest
from cases import every_damage
from cases import store as cases
from cases.command import command
from cases.damage import DAMAGES, DATABASE, ROUNDS, files
from cases.store import CHUNK, create, rows

import scalable_bandits as sb
from scalable_bandits.store import ObservationStore, checkpoints

pytest_plugins = ["cases.store_fixtures"]


def names(place):
    """Return the parts that are damaged."""
    (found,) = sb.check(place)
    assert found.whole == (not [part for part in found.parts if part.problem])
    return [part.name for part in found.parts if part.problem]


@pytest.mark.sampled(4, first="folder")
def test_every_place(place):
    """Whole while it is written, closed, and gone on with."""
    store = create(place, ROUNDS)
    checkpoints.save(store.location, 20, {"a": np.arange(9.0)}, run=store.attributes["id"])
    assert names(place) == []
    store.close()
    assert names(place) == []
    with ObservationStore.open(place, "a") as store:
        store.append(rows(ROUNDS, 3 * CHUNK + 1))
    assert names(place) == []
    (found,) = sb.check(place)
    listed = " ".join(part.name for part in found.parts)
    for part in (f"{3 * CHUNK + 1} rounds", "4 chunk(s) of 4 fields", "checkpoint.npz, after 20 rounds"):
        assert part in listed


@pytest.mark.parametrize(
    "file", ["y/c.0", "y/c.2", "round/c.1", "x/zarr.json", "zarr.json", "committed/c", DATABASE, "committed/zarr.json"]
)
@pytest.mark.parametrize("damage", ["gone", "empty", "half", "flipped"])
@pytest.mark.sampled(8)
def test_names_the_file(closed, file, damage):
    if (damage, file) == ("flipped", DATABASE):  # of a byte that means something
        (closed / file).write_bytes(cases.damaged_row(closed, "candidate"))
    else:
        DAMAGES[damage](closed / file)
    before = files(closed)
    assert any(name.startswith(file) for name in names(closed))
    assert files(closed) == before


def test_an_array_of_the_specification(tmp_path):
    """It is named, and the run goes on where it is given again."""
    space = sb.Points(np.random.default_rng(0).random((40, 3)))
    place = tmp_path / "run.zarr"
    environment = sb.TableEnvironment(space, np.arange(40.0))
    sb.simulate(sb.RandomSearch(space), environment, 5, store=place)
    (chunk,) = (place / "inputs").glob("*/c/*/*")
    DAMAGES["flipped"](chunk)
    assert names(place) == [f"inputs/{chunk.parts[-4]}"]
    assert len(sb.simulate(sb.RandomSearch(space), environment, 9, store=place)) == 9


@pytest.mark.parametrize("damage", ["gone", "flipped", "half", "empty"])
@pytest.mark.sampled(2)
def test_what_is_mended(closed, damage):
    """Metadata are whole once it was opened for writing; damaged numbers of rounds once it was recovered."""
    for file in ("x/zarr.json", "round/c.0"):
        DAMAGES[damage](closed / file)
    (found,) = sb.check(closed)
    assert [part.name for part in found.parts if part.mended and part.problem] == ["x/zarr.json", "round/c.0"]
    with cases.repairs() as said:
        ObservationStore.open(closed, "a", recover=damage != "gone").close()
    assert "x/zarr.json was made again" in said[0]
    assert "the numbers of rounds 1 to 16 were written again" in said[0]
    assert names(closed) == []
    assert not closed.with_name("run.zarr.damaged").exists()


class TestCommand:
    """Code 0 and a line, or code 1 and a line for each damage."""

    def test_whole_damaged_or_nothing(self, closed, tmp_path):
        result = command("check", closed)
        assert result.exit_code == 0
        assert result.stdout.startswith("whole")
        assert f"{ROUNDS} rounds" in result.stdout
        shutil.copytree(closed, tmp_path / "other.zarr")
        (closed / DATABASE).unlink()
        DAMAGES["flipped"](closed / "y" / "c.0")
        result = command("check", closed)
        assert result.exit_code == 1
        for text in (f"{DATABASE}: it is missing", "y/c.0: "):
            assert text in result.stdout
        found = json.loads(command("check", closed, "--json").stdout)
        assert [one["whole"] for one in found] == [False]
        assert {part["name"] for part in found[0]["parts"] if part["problem"]} >= {DATABASE, "y/c.0"}
        result = command("check", tmp_path)
        assert [line.split()[0] for line in result.stdout.splitlines() if not line.startswith(" ")] == [
            "whole",
            "damaged",
        ]
        result = command("check", tmp_path / "none")
        assert result.exit_code == 2
        assert "there is no run in" in result.stderr

    @pytest.mark.slow
    def test_a_study_that_is_recovered(self, tmp_path):
        """Its runs play again what was lost, to the same numbers."""
        place = tmp_path / "runs"
        sizes = ("--replicates", 1, "--horizon", 40)
        result = command("run", "zhou2021-abrupt", *sizes, "--store", place, "--out", tmp_path / "out")
        assert result.exit_code == 0, result.stderr
        expected = sb.Study.open(place).regret.compute()
        assert command("check", place).exit_code == 0
        damaged = sorted(place.rglob("run.sqlite"))[0]
        DAMAGES["half"](damaged)
        result = command("check", place)
        assert result.exit_code == 1
        assert damaged.name in result.stdout
        assert command("resume", place, "--out", tmp_path / "out").exit_code == 1
        result = command("resume", place, "--out", tmp_path / "out", "--recover")
        assert result.exit_code == 0
        assert "will be played again" in result.stderr or "no round is lost" in result.stderr
        np.testing.assert_array_equal(sb.Study.open(place).regret, expected)
        assert command("check", place).exit_code == 0


def test_a_study(tmp_path):
    """What it keeps of all its runs is read too."""
    place = tmp_path / "runs"
    every_damage.Study.study().run(store=place, replicates=1)
    assert all(found.whole for found in sb.check(place))
    DAMAGES["half"](place / "complete" / "notes.npz")
    study, *runs = sb.check(place)
    assert [part.name for part in study.parts if part.problem] == ["complete/notes.npz"] * 2
    assert all(run.whole for run in runs)
    with pytest.warns(
        UserWarning, match=r"complete/notes.npz: .*their numbers are left out until the study is run again"
    ):
        every_damage.Study.study().run(store=place, replicates=1)
    assert all(found.whole for found in sb.check(place))
