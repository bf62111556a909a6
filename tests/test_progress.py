"""The progress bar: its count, and its estimate of the time that is left."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import rich.console
import rich.progress

from scalable_bandits import progress
from scalable_bandits.progress import Advance, progress_bar


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rich.console, "monotonic", clock)
    return clock


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, total: int, done: int = 0) -> Iterator[tuple[Advance, Any]]:
    """A bar, and rich's own record of it."""
    bars: list[Any] = []
    add = rich.progress.Progress.add_task

    def adding(self: Any, *given: Any, **options: Any) -> Any:
        bars.append(self)
        return add(self, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(rich.progress.Progress, "add_task", adding)
        patch.setattr(rich.console.Console, "is_terminal", True)
        with progress_bar(True, "run", total, done) as advance:
            yield advance, lambda: bars[0].tasks[0]


def test_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in the first half minute; then what is done, and what is left, ever more rarely."""
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock)
    with progress_bar(True, "study", 110, 10, unit=" runs") as advance:
        for _ in range(29):
            clock.now += 1.0
            advance(0)
        assert capsys.readouterr().err == ""
        clock.now += 1.0
        advance(0)
        assert capsys.readouterr().err == "study: 10 of 110 runs, no step yet\n"
        clock.now += 30.0
        advance(4, "best 3")
        assert capsys.readouterr().err == "study: 14 of 110 runs, about 24 min left, best 3\n"
        lines = 0
        for _ in range(96):
            clock.now += 60.0
            advance(1)
            lines += capsys.readouterr().err.count("\n")
        assert 20 < lines < 60
    with progress_bar(print, "study", 10) as advance:
        assert advance is print


@pytest.mark.parametrize("block", [1, 64, 30_000])
def test_the_estimate_is_right_after_the_first_percent(
    block: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow start (what is loaded), and then an even pace of two minutes in all, in rounds or in blocks."""
    total = 120_000 if block == 1 else 10**8
    pace = 120.0 / total
    with watched(monkeypatch, total) as (advance, task):
        done = 0
        clock.now += 3.0
        while done < total // 100:
            clock.now += block * pace
            advance(block)
            done += block
        left = (total - done) * pace
        assert task().time_remaining == pytest.approx(left, rel=0.1)
        for _ in range(2000):
            clock.now += block * pace
            advance(block)
            done += block
        assert task().time_remaining == pytest.approx((total - done) * pace, rel=0.1)


def test_the_estimate_follows_the_pace(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute after the pace has changed, the time that is left is that of the new pace."""
    with watched(monkeypatch, 10**6) as (advance, task):
        for pace in (1e-5, 1e-4):
            for _ in range(4000):
                clock.now += 100 * pace
                advance(100)
        assert task().time_remaining == pytest.approx((10**6 - 8e5) * 1e-4, rel=0.1)


def test_all_steps_are_shown_at_the_end(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch, 1000, done=10) as (advance, task):
        for _ in range(700):
            advance(1)
        assert task().completed < 710
    assert task().completed == 710


def test_a_text_is_shown_at_once(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch, 1000) as (advance, task):
        advance(1)
        advance(1, text="best 3.5")
        assert task().completed == 2
        assert task().fields["text"] == "best 3.5"


def test_hidden() -> None:
    with progress_bar(False, "run", 10) as advance:
        advance(3)
