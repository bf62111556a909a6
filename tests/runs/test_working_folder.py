"""A store is where it was opened, whatever folder the user's function changes to."""

import os
from pathlib import Path
from typing import Any

import pytest
from cases.command import command

import scalable_bandits as sb

SPACE = sb.Grid([[0, 1]], 40)


def elsewhere(x: Any) -> float:
    Path("other").mkdir(exist_ok=True)
    os.chdir("other")
    return float(x[0])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("durability", ["round", "block"])
def test_a_simulation(durability: Any, folder: Path) -> None:
    environment = sb.FunctionEnvironment(SPACE, elsewhere, optimum=1.0)
    run = sb.simulate(sb.RandomSearch(SPACE), environment, 4, store="run", durability=durability)
    assert len(run) == len(run.y) == 4
    assert all(part.whole for part in sb.check(folder / "run"))
    assert not list(folder.rglob("other/run"))


def test_a_tuning_run_and_its_command(folder: Path) -> None:
    assert len(sb.minimize(elsewhere, sb.RandomSearch(SPACE), 4, store="run")) == 4
    os.chdir(folder)
    done = command("resume", "run", "--function", f"{__name__}:elsewhere", "--rounds", 6)
    assert done.exit_code == 0, done.output
    assert "6/6" in done.stdout
    assert Path.cwd() == folder
    assert not list(folder.rglob("other/run"))
