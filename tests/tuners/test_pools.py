"""`python -m benchmarks pools`: what is counted, and runs that are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


def test_of_tied_candidates_any_count_as_the_best() -> None:
    from benchmarks.pools.problems import Problem

    values = np.array([5.0] * 2 + [4.0] * 10 + [0.0] * 3988)  # the best four are the two of 5 and any two of 4
    problem = Problem(None, np.arange(4000.0)[:, None], values)
    assert problem.batch == 4
    assert problem.share_of_best([0, 20]) == 0.25
    assert problem.share_of_best([5, 6, 7, 8]) == 0.5
    assert problem.share_of_best([0, 1, 9, 10, 11]) == 1.0


def test_a_chooser_is_told_what_it_chose() -> None:
    from benchmarks.pools import choosers

    values, told = np.arange(10.0), []

    class Next:
        def choose(self, count: int, chosen: list[int], y: np.ndarray) -> list[int]:
            told.append((list(chosen), y.tolist()))
            return list(range(len(chosen), len(chosen) + count))

    chosen, seconds = choosers.play(Next(), [2, 3], values)
    assert chosen == [0, 1, 2, 3, 4]
    assert len(seconds) == 2
    assert told == [([], []), ([0, 1], [0.0, 1.0])]


def test_runs_are_kept_and_not_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks.pools import command
    from benchmarks.pools.problems import Problem

    x = np.random.default_rng(0).random((2000, 2))
    monkeypatch.setitem(command.PROBLEMS, "made", lambda: Problem(None, x, -np.abs(x - 0.5).sum(axis=1)))
    given = ["--pools", "made", "--tuners", "GPUCB", "random", "--seeds", "1", "--results", str(tmp_path)]
    assert command.main(given) == 0
    monkeypatch.setattr(command, "run", None)
    assert command.main(given) == 0
    shown = capsys.readouterr().out
    assert "after 2.4 % were measured" in shown
    assert "made" in shown
