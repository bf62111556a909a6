"""Stored runs of named spaces: `status` and `resume` speak of settings."""

import json
import sys

import pytest
from cases.command import command

import scalable_bandits as sb
from scalable_bandits.status import status

SPACE = sb.SearchSpace(
    {
        "[b]depth[/b]": sb.Integer(1, 6),
        "kind": sb.Categorical(["a", None]),
        "share": sb.Real(0.0, 0.5, when={"kind": "a"}),
    },
    where=lambda setting: setting["[b]depth[/b]"] < 6,
)


def loss(setting):
    return setting["[b]depth[/b]"] + setting.get("share", 1.0)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run with constraints, and one that can be resumed from its store alone."""
    folder = tmp_path_factory.mktemp("named")
    free = sb.SearchSpace(dict(zip(SPACE.names, SPACE.kinds, strict=True)))
    found = {}
    for name, space in (("constrained", SPACE), ("free", free)):
        policy = sb.GPEI(space, sb.RBF(0.8), noise=0.1, regularization=0.01, minimize=True, candidates=32)
        found[name] = sb.minimize(loss, policy, 6, store=folder / name)
    return folder, found


@pytest.mark.parametrize("name", ["constrained", "free"])
def test_status_has_the_best_setting(stored, name):
    folder, found = stored
    assert status(folder / name).x == found[name].measured.x
    shown = command("status", folder / name)
    assert shown.exit_code == 0
    text = ", ".join(
        f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in found[name].measured.x.items()
    )
    assert f"best y at {text}\n" in shown.stdout
    (record,) = json.loads(command("status", folder / name, "--json").stdout)
    assert record["x"] == found[name].measured.x


def test_status_of_other_runs(stored, tmp_path):
    box = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.3), noise=0.1, regularization=0.01)
    found = sb.maximize(lambda x: x[0], box, 3, store=tmp_path / "box")
    assert status(tmp_path / "box").x == found.measured.x.tolist()
    arms = sb.Arms(3)
    sb.simulate(sb.RandomSearch(arms), sb.TableEnvironment(arms, [1.0, 2.0, 3.0]), 5, store=tmp_path / "simulated")
    assert status(tmp_path / "simulated").x is None
    assert "best y at" not in command("status", stored[0]).stdout  # several runs


def test_resume_names_the_recommended_setting(stored, monkeypatch):
    folder, _ = stored
    monkeypatch.setitem(sys.modules, "named_loss", type("Module", (), {"loss": staticmethod(loss)}))
    done = command("resume", folder / "free", "--function", "named_loss:loss", "--rounds", 8)
    assert done.exit_code == 0, done.output
    assert "best: [b]depth[/b] = " in done.stdout
    done = command("resume", folder / "free", "--function", "named_loss:loss", "--rounds", 8, "--json")
    best = json.loads(done.stdout)["best"]
    assert set(best["x"]) <= set(SPACE.names)
    assert best["x"]["[b]depth[/b]"] in range(1, 7)
