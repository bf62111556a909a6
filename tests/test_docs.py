"""The guides say what is there: files, public classes, measured figures."""

import json
import re
from pathlib import Path

import pytest
from cases.paths import ROOT

import scalable_bandits as sb

PACKAGE = Path(sb.__file__).parent
CLASSES = sorted(name for name in sb.__all__ if isinstance(getattr(sb, name), type))


def test_paths_on_the_architecture_page_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    paths = re.findall(r"`((?:\w+/)+\w+\.py)`", page)
    assert paths
    assert [path for path in paths if not (PACKAGE / path).exists() and not (ROOT / path).exists()] == []


def test_the_glossary_has_every_public_class() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    assert [name for name in CLASSES if f"`{name}`" not in page] == []


def test_the_glossary_has_no_other_words_twice() -> None:
    """One line for one word; `code` that looks like a class is public or an attribute of one that is."""
    page = (ROOT / "docs" / "glossary.md").read_text().split("## Notation")[0]
    words = re.findall(r"^\| ([^|`]+) \|", page, re.MULTILINE)
    words = [word for word in words if word not in ("word", "---")]
    assert len(words) == len(set(words))
    named = set(re.findall(r"`([A-Z]\w+)`", page))
    assert named <= set(sb.__all__)


def test_the_page_of_scalability_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of `python -m docs.scalability`, with a figure for each study of the page."""
    monkeypatch.syspath_prepend(ROOT)
    from docs import scalability

    page = scalability.PAGE.read_text()
    assert page == scalability.page()
    pictures = re.findall(r"!\[[^]]*\]\(([\w.-]+)\)", page)
    assert len(pictures) == 6
    assert [name for name in pictures if not (ROOT / "docs" / name).is_file()] == []


def test_the_page_of_barriers_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of `python -m docs.barriers`."""
    monkeypatch.syspath_prepend(ROOT)
    from docs import barriers

    assert barriers.PAGE.read_text() == barriers.page()


@pytest.mark.slow
def test_the_batches_of_the_page_of_barriers_are_those_of_the_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes sum to the rounds; there are as many as the policy ended, and perhaps an unfinished one."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import barriers

    function, rounds = barriers.problem(0), 400
    policies = {name: make(function, rounds, 0) for name, make in barriers.POLICIES.items()}
    for policy in policies.values():
        sb.simulate(policy, function, rounds)
    sizes = {name: barriers.batch_sizes(policy, rounds).tolist() for name, policy in policies.items()}
    assert {name: sum(each) for name, each in sizes.items()} == dict.fromkeys(policies, rounds)
    batched = policies["BBKB"]
    assert len(sizes["BBKB"]) - batched.batches in (0, 1)
    assert 1 < batched.batches < rounds
    assert sizes["BBKB"] == batches_of_bbkb(sb.BBKB(**barriers._known(function, 0)), function, rounds)
    assert len(sizes["MiniGP-UCB"]) == policies["MiniGP-UCB"].choices < rounds
    assert sizes["IGP-UCB"] == [1] * rounds
    assert sizes["DUETS"] == sizes["PhasedElimination"] == [20, 90, 190, 100]


def batches_of_bbkb(policy: sb.BBKB, function: sb.RKHSFunction, rounds: int) -> list[int]:
    """Sizes of the batches of BBKB, played round by round."""
    sizes = [0]
    for t in range(1, rounds + 1):
        before = policy.batches
        x = policy.ask()
        policy.tell(x, function.mean(x) + function.noise_at(t))
        sizes[-1] += 1
        if policy.batches > before:
            sizes.append(0)
    return sizes if sizes[-1] else sizes[:-1]


def test_the_table_of_the_readme_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of `python -m benchmarks.horizon`."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import horizon

    table = horizon.table(json.loads(horizon.RESULT.read_text()))
    assert "\n".join(table) in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_picture_of_the_readme_can_be_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From numbers that are measured here, at a tiny size and without peers."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import horizon

    curves = dict(horizon.measured(6, 30, 2, 1.0, ["IGP-UCB", "pi-GP-UCB"]))
    assert [found["rounds"][-1] for found in curves.values()] == [30, 30]
    record = {"side": 6, "horizon": 30, "seeds": 2, "limit": 1.0, "curves": curves}
    horizon.draw(record, tmp_path / "horizon.png")
    assert (tmp_path / "horizon.png").stat().st_size > 10_000
    assert len(horizon.table(record)) == 4


def test_links_lead_to_files() -> None:
    targets = [
        (page, target)
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        if "://" not in target
    ]
    assert [f"{page.name}: {target}" for page, target in targets if not (page.parent / target).exists()] == []


def test_lines_of_prose_are_short() -> None:
    """At most 120 columns, but for rows of tables."""
    pages = (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
    lines = [(page.name, line) for page in pages for line in page.read_text().splitlines()]
    assert [each for each in lines if len(each[1]) > 120 and not each[1].startswith("|")] == []
