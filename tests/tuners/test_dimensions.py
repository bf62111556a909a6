"""The benchmark in many dimensions: what it compares, and that kept runs are not played again."""

import numpy as np
import pytest
from environments.published.installed import needs

from scalable_bandits.environments.published.sources import COCO


@needs(COCO)
@pytest.mark.parametrize("problem", ["Rastrigin", "pairs", "hidden hartmann6"])
def test_regret(problem):
    """Simple regret, which is never negative; points outside the box are moved to its boundary."""
    from benchmarks import dimensions

    regret = dimensions.Regret(dimensions.PROBLEMS[problem](20, 1))
    dimensions.randomly(regret, 30, 0)
    assert len(regret.smallest) == 30
    assert (np.diff(regret.smallest) <= 0).all()
    assert regret.smallest[-1] >= 0
    assert regret(np.full(20, 9.0)) == regret(np.full(20, 5.0))


def test_kept_runs_are_not_played_again(tmp_path, capsys, monkeypatch):
    from benchmarks import dimensions

    words = ["--evaluations", "12", "--seeds", "1", "--problems", "pairs", "--dimensions", "20"]
    given = [*words, "--tuners", "ours", "random", "--runs", str(tmp_path)]
    assert dimensions.main(given) == 0
    first = capsys.readouterr().out
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(dimensions, "played", None)
    assert dimensions.main(given) == 0
    assert capsys.readouterr().out == first
