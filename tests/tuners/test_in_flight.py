"""The benchmark of evaluations in flight: what is in flight, how many evaluations there are, and what is kept."""

import numpy as np
import pytest

import scalable_bandits as sb


class Counted(sb.FunctionEnvironment):
    """A parabola that keeps the points at which it was evaluated."""

    def __init__(self):
        self.points = []
        super().__init__(sb.Box([[-1.0, 1.0]] * 2), lambda x: -float(x @ x), optimum=0.0)

    def mean(self, x, t=1):
        self.points.append(tuple(x))
        return super().mean(x, t)


@pytest.mark.parametrize("flight", [1, 3, 20])
def test_so_many_are_in_flight_and_all_are_told(flight):
    from benchmarks import in_flight

    class Watched(sb.GPEI):
        asked, most = 0, 0

        def propose(self, allowed=None):
            type(self).asked += 1
            type(self).most = max(self.most, len(self.pending_points) + 1)
            return super().propose(allowed)

    environment = Counted()
    policy = Watched(environment.space, sb.RBF(0.3), noise=0.1, regularization=0.01)
    line = in_flight.play(policy, environment, flight, 12)
    assert (Watched.asked, Watched.most, policy.rounds, policy.pending) == (12, min(flight, 12), 12, [])
    assert len(environment.points) == 12
    best = max(-float(np.dot(x, x)) for x in environment.points)
    assert line["checkpoints"][0]["at"] == 12
    assert line["checkpoints"][0]["best_value"] == pytest.approx(best, rel=1e-12)


@pytest.mark.slow
def test_kept_runs_are_not_played_again(tmp_path, capsys, monkeypatch):
    """And one that is missing is; the table counts wins on the runs that both have."""
    pytest.importorskip("cocoex")
    from benchmarks import in_flight

    given = ["--results", str(tmp_path), "--evaluations", "12", "--flights", "2", "--replicates", "1", "--markdown"]
    given += ["--cases", "bbob, function = 2, dimension = 2"]
    assert in_flight.main([*given, "--policies", "mean"]) == 0
    kept = (tmp_path / "bbob" / "mean-2.jsonl").read_text()
    assert "| 2 | 1 0 0 |" in capsys.readouterr().out
    assert in_flight.main(given) == 0
    assert (tmp_path / "bbob" / "mean-2.jsonl").read_text() == kept
    printed = capsys.readouterr().out
    assert "| 2 | 1 1 1 |" in printed
    assert "mean, 2 in flight" not in printed
    monkeypatch.setattr(in_flight, "run", None)
    assert in_flight.main(given) == 0
    assert "| 2 | 1 1 1 |" in capsys.readouterr().out
