"""The benchmark of deterministic settings: its functions, its random search, and what is kept."""

import numpy as np
import pytest


@pytest.mark.parametrize(("name", "half", "at"), [("integer Rastrigin", 10, 0), ("integer Rosenbrock", 5, 1)])
def test_the_optimum_is_among_the_settings(name, half, at):
    from benchmarks import discrete

    for seed in range(20):
        made = discrete.MADE[name](np.random.default_rng(seed))
        shift = np.random.default_rng(seed).integers(-(half // 2), half // 2 + 1, len(made.parameters))
        x = {key: int(at + each) for key, each in zip(made.parameters, shift, strict=True)}
        assert made.value(x) == 0.0
        assert all(value in made.parameters[key] for key, value in x.items())


def test_random_settings_are_not_repeated():
    from benchmarks import discrete

    tuner = discrete.Without({"a": list("xyz"), "b": [1, 2, 3, 4]}, 0)
    assert len({tuple(tuner.ask().values()) for _ in range(12)}) == 12


def test_adjusted_p_values():
    from benchmarks import discrete

    assert discrete.holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])


def test_kept_runs_are_not_played_again(tmp_path, capsys, monkeypatch):
    from benchmarks import discrete

    given = ["--results", str(tmp_path), "--evaluations", "12", "--seeds", "1", "--problems", "table 12 x 12", "Func3C"]
    assert discrete.main(given) == 0
    first = capsys.readouterr().out
    assert first.count("12 / 12 / 12") == 3
    monkeypatch.setattr(discrete, "run", None)
    assert discrete.main(given) == 0
    assert capsys.readouterr().out == first
