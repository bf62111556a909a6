"""The progress line: its count, its estimate of the time that is left, and where it is shown."""

import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scalable_bandits import progress
from scalable_bandits.progress import progress_bar


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock)
    return clock


def test_lines_where_there_is_no_terminal(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in the first half minute; then what is done, and what is left, ever more rarely."""
    words = ""
    with progress_bar(True, "study", 110, 10, unit=" runs", text=lambda: words) as advance:
        for _ in range(29):
            clock.now += 1.0
            advance(0)
        assert capsys.readouterr().err == ""
        clock.now += 1.0
        advance(0)
        assert capsys.readouterr().err == "study: 10 of 110 runs, 30 s elapsed\n"
        clock.now += 30.0
        words = "best 3"
        advance(4)
        said = "study: 14 of 110 runs, 4 runs/min, 0:01:00 elapsed, 0:24:00 left, best 3\n"
        assert capsys.readouterr().err == said
        lines = 0
        for _ in range(96):
            clock.now += 60.0
            advance(1)
            lines += capsys.readouterr().err.count("\n")
        assert 20 < lines < 60
    with progress_bar(print, "study", 10) as advance:
        assert advance is print


def seconds_left(capsys: pytest.CaptureFixture[str]) -> float:
    """Return the time that is left by the last line of the log."""
    last = capsys.readouterr().err.splitlines()[-1]
    found = re.search(r"(\d+):(\d+):(\d+) left", last) or re.search(r"()()(\d+) s left", last)
    assert found is not None
    hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return 3600 * hours + 60 * minutes + seconds


@pytest.mark.parametrize("block", [1, 64, 30_000])
def test_the_estimate_is_right_after_the_first_percent(
    block: int, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slow start (what is loaded), and then an even pace of two minutes in all, in rounds or in blocks."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    total = 120_000 if block == 1 else 10**8
    pace = 120.0 / total
    with progress_bar(True, "run", total) as advance:
        done = 0
        clock.now += 3.0
        while done < total // 100:
            clock.now += block * pace
            advance(block)
            done += block
        assert seconds_left(capsys) == pytest.approx((total - done) * pace, rel=0.1)
        for _ in range(2000):
            clock.now += block * pace
            advance(block)
            done += block
        assert seconds_left(capsys) == pytest.approx((total - done) * pace, rel=0.1)


@pytest.mark.parametrize(("block", "slow"), [(100, 1e-4), (1, 10.0)])
def test_the_estimate_follows_the_pace(
    block: int, slow: float, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a minute, or of long steps some ten of them, after the pace has changed the estimate is the new one."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    steps = 4000 if block == 100 else 20
    with progress_bar(True, "run", 10**6) as advance:
        for pace in (slow / 10, slow):
            for _ in range(steps):
                clock.now += block * pace
                advance(block)
        left = (10**6 - 2 * steps * block) * slow
        if left < 86_400:
            assert seconds_left(capsys) == pytest.approx(left, rel=0.1)
        else:
            assert f"{1 / slow * 60:.3g}/min" in capsys.readouterr().err.splitlines()[-1]


def test_the_estimate_grows_while_nothing_comes(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step takes six seconds, 20 of 40 are done: time is counted down until the next one is due, and then up."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    found = {}
    with progress_bar(True, "run", 40) as advance:
        for second in range(1, 181):
            clock.now += 1.0
            advance(second <= 120 and second % 6 == 0)
            if left := re.search(r"(\d+):(\d+) left", capsys.readouterr().err):
                found[second] = 60 * int(left[1]) + int(left[2])
    until_due = {second: left for second, left in found.items() if 120 <= second <= 126}
    later = [left for second, left in found.items() if second > 126]
    assert until_due == {second: 240 - second for second in until_due}
    assert until_due
    assert later == sorted(later)
    assert later[-1] > 160


@pytest.mark.parametrize("width", [140, 60, 30])
def test_a_terminal_has_one_line_with_what_fits(
    width: int, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last state says all steps; the narrower the terminal, the less else."""
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", str(width))
    with progress_bar(True, "run", 40, done=10, text=lambda: "3 in flight, best 0.1") as advance:
        for _ in range(20):
            clock.now += 0.25
            advance(1)
    printed = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", capsys.readouterr().err)
    last = [line for line in re.split(r"[\r\n]+", printed) if line][-1]
    assert len(last) <= width
    if width > 30:
        assert last.startswith("run")
        assert "30 of 40" in last
        assert "2 s left, 3 in flight, best 0.1" in last
    assert ("4/s, 5 s elapsed" in last) == (width == 140)


NOTEBOOK = """
import time
from scalable_bandits.progress import progress_bar
with progress_bar(True, "run", 5, text=lambda: "best 3") as advance:
    for _ in range(5):
        print("a step")
        time.sleep(0.15)
        advance(1)
"""


@pytest.mark.slow
def test_a_notebook_has_one_line_without_widgets(tmp_path: Path) -> None:
    """The line is one output, in the saved notebook as it was last; nothing warns."""
    import nbformat  # takes seconds, which every process of a run of all tests would spend
    from nbclient import NotebookClient

    notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(NOTEBOOK)])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    lines = [each for each in notebook.cells[0].outputs if each.output_type == "display_data"]
    others = [each for each in notebook.cells[0].outputs if each.output_type != "display_data"]
    assert len(lines) == 1
    assert "5 of 5" in lines[0]["data"]["text/plain"]
    assert "best 3" in lines[0]["data"]["text/plain"]
    assert {each.name for each in others} == {"stdout"}


def test_hidden() -> None:
    with progress_bar(False, "run", 10) as advance:
        advance(3)
