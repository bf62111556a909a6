"""The walks on the architecture page: each names the files that a call enters, in the order in which it enters them."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cases.paths import ROOT

import scalable_bandits as sb

PACKAGE = Path(sb.__file__).parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def entered(call: Callable[[], object]) -> list[str]:
    """Return the package's files in the order in which a call enters them, again and again."""
    files: list[str] = []

    def profile(frame: object, event: str, _: object) -> None:
        name = frame.f_code.co_filename  # type: ignore[attr-defined]
        if event == "call" and name.startswith(str(PACKAGE)):
            files.append(Path(name).relative_to(PACKAGE).as_posix())

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return files


def named(section: str) -> list[str]:
    """Return the files that the numbered steps of a section name, in their order."""
    (text,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    steps = "".join(re.findall(r"^\d\. .*(?:\n   .*)*", text, re.MULTILINE))
    return re.findall(r"`((?:\w+/)*\w+\.py)`", steps)


def check(section: str, call: Callable[[], object]) -> None:
    files, found = named(section), iter(entered(call))
    assert len(files) > 5
    assert [file for file in files if file not in found] == []  # each after the one before it


def policy() -> sb.IGPUCB:
    return sb.IGPUCB(sb.Grid([[0, 1]], 11), sb.RBF(0.3), noise=0.1, regularization=1.0)


def test_ask() -> None:
    played = policy()
    played.tell([0.5], 1.0)
    check("How `ask` chooses a point", played.ask)


def test_a_durable_tell(tmp_path: Path) -> None:
    def call() -> None:
        recorded = policy()
        with sb.record(recorded, tmp_path / "run.zarr"):
            recorded.tell(recorded.ask(), 1.0)
            recorded.tell([[0.5]] * 1000, [1.0] * 1000)

    check("How a `tell` becomes durable", call)


def test_minimize() -> None:
    space = {"a": sb.Real(0, 1)}
    check("How `minimize` works", lambda: sb.minimize(lambda s: s["a"], space, 3, stop=sb.NoImprovement(9)).measured)


@pytest.mark.slow
def test_shards(client: object) -> None:
    priors = [sb.Prior(str(i), sb.RBF(0.1 * i)) for i in (1, 2)]

    def call() -> None:
        played = sb.PEGPUCB(sb.Grid([[0, 1]], 11), priors, noise=0.1, regularization=0.01, on=client)
        played.tell(played.ask(), 1.0)
        played.ask()

    check("How shards work", call)
