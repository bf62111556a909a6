"""The Python of the README and of the guides runs as it stands."""

import re

import matplotlib.pyplot as plt
import pytest
from cases.paths import ROOT


def run(document):
    """Its blocks one after the other, in one namespace, as a reader would type them: what they leave in it."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)
    assert blocks
    namespace = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, document, "exec"), namespace)
    plt.close("all")
    return namespace


def test_readme(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = run("README.md")
    printed = capsys.readouterr().out
    assert printed.startswith("TuningResult: smaller is better; 30 evaluations")
    assert "influence" in printed
    assert namespace["found"].value < 1.0
    stored = namespace["run"].dataset()
    assert stored.sizes["round"] == 10_000


def test_choosing():
    """A box in units of its own: the point asked for is within it, and told."""
    namespace = run("docs/choosing.md")
    assert -5.0 <= namespace["x"][0] <= -1.0
    assert 1.0 <= namespace["units"] <= 1000.0
    assert namespace["policy"].round == 2


@pytest.mark.slow
def test_tuning(capsys, tmp_path, monkeypatch):
    """The kernel is learned; a run is recorded in a store."""
    monkeypatch.chdir(tmp_path)
    namespace = run("docs/tuning.md")
    assert namespace["policy"].rounds == 40
    assert namespace["found"].best.x[0] == pytest.approx(7.0, abs=1.0)
    assert (tmp_path / "tuning.zarr").is_dir()


@pytest.mark.slow
def test_integrations(tmp_path, monkeypatch):
    """A study of Optuna, then another policy in it."""
    monkeypatch.chdir(tmp_path)
    namespace = run("docs/integrations.md")
    assert len(namespace["study"].trials) == 50
    assert namespace["study"].best_params["depth"] in (6, 7, 8)
    assert namespace["policy"].space.names == ("depth", "rate")


def test_research(capsys, tmp_path, monkeypatch):
    """Runs, a cover, a drifting function, several priors, a study."""
    monkeypatch.chdir(tmp_path)
    namespace = run("docs/research.md")
    assert namespace["run"].dataset().sizes["round"] == 10_000
    assert namespace["dynamic"].dataset().sizes["round"] == 1500
    assert "high" not in namespace["policy"].surviving
    assert namespace["study"].sizes["replicate"] == 4


@pytest.mark.slow
def test_searches_of_scikit_learn(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = run("docs/integrations.md")
    assert namespace["search"].best_score_ > 0.97
    assert (tmp_path / "search.zarr").is_dir()
