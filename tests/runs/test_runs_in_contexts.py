"""`minimize` and `maximize` in a context: values that are given; other contexts of the same store count."""

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from cases.command import command

import scalable_bandits as sb
from scalable_bandits.report.run_page import rebuilt, run_report, stored_result
from scalable_bandits.report.watched_run import WatchedRun
from scalable_bandits.report.writing import render
from scalable_bandits.runs.resuming import resume
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore

SPACE = {"load": sb.Real(0.0, 1.0), "depth": sb.Real(0.0, 1.0), "kind": sb.Categorical(["plain", "fine"])}


SPACES = {True: sb.SearchSpace({"x": sb.Real(0.0, 1.0), "load": sb.Real(0.0, 1.0)}), False: sb.Box([[0, 1]] * 2)}


def loss(setting):
    """Smallest where the depth is that of the load, in the better kind."""
    return (setting["depth"] - setting["load"]) ** 2 + 0.1 * (setting["kind"] == "plain")


def bowl(x):
    return float((x[0] - x[1]) ** 2)


def outputs(setting):
    return {"loss": loss(setting), "cost": setting["depth"]}


def test_chooses_the_rest():
    found = sb.minimize(loss, SPACE, 15, context={"load": 0.7}, seed=1)
    assert {x["load"] for x in found.x} == {0.7}
    assert found.context == {"load": 0.7}
    assert found.best["load"] == found.measured.x["load"] == 0.7
    assert found.best["depth"] == pytest.approx(0.7, abs=0.02)
    assert "15 evaluations; where load = 0.7" in repr(found)


def test_is_what_asking_and_telling_does():
    found = sb.minimize(loss, SPACE, 12, context={"load": 0.7}, seed=2)
    policy = sb.GPEI(sb.SearchSpace(SPACE), seed=2, minimize=True)
    for _ in range(12):
        x = policy.ask(context={"load": 0.7})
        policy.tell(x, loss(x))
    np.testing.assert_array_equal(found.policy.observations.x, policy.observations.x)
    assert found.recommended == policy.best(context={"load": 0.7})


@pytest.mark.parametrize(
    ("space", "context", "text"),
    [(sb.Box([[0, 1], [0, 1]]), {1: 0.55}, "x1 = 0.55"), (sb.Grid([[0, 1], [0, 1]], 11), {0: 0.5}, "x0 = 0.5")],
    ids=["box", "grid"],
)
def test_other_spaces(space, context, text):
    ((dimension, value),) = context.items()
    found = sb.maximize(lambda x: -((x[0] - x[1]) ** 2), space, 12, context=context)
    assert (found.x[:, dimension] == value).all()
    assert found.best.x == pytest.approx(value, abs=0.06)
    assert f"where {text}" in repr(found)


def test_what_was_learned_in_another_context_counts(tmp_path):
    """The run of a store goes on in another context; what is best is the best in that one."""
    first = sb.minimize(loss, SPACE, 20, context={"load": 0.2}, store=tmp_path / "run", seed=3)
    assert first.best["load"] == 0.2
    second = sb.minimize(loss, SPACE, 24, context={"load": 0.3}, store=tmp_path / "run", seed=3)
    assert [x["load"] for x in second.x] == [0.2] * 20 + [0.3] * 4
    assert second.measured.x["load"] == second.best["load"] == 0.3
    assert second.measured.y > first.measured.y  # which is the best of all
    assert second.best["depth"] == pytest.approx(0.3, abs=0.05)
    assert second.best["kind"] == "fine"  # four evaluations alone would not find both
    assert "Another setting" not in second.summary()


@pytest.mark.parametrize("names", [True, False])
def test_views_of_a_run_in_several_contexts(tmp_path, names):
    """On the page, in a terminal and in pictures the best one is that of the last context."""
    space, key = SPACES[names], "load" if names else 1

    def loaded(x):
        x, load = (x["x"], x["load"]) if names else x
        return load + (x - load) ** 2

    for load, budget in ((0.2, 8), (0.9, 17)):
        found = sb.minimize(loaded, space, budget, context={key: load}, store=tmp_path / "run", seed=5)
    best = found.measured.y
    assert best == found.y[8:].min() > found.y.min()
    shown = status(tmp_path / "run")
    assert (shown.best, shown.x[key]) == (best, 0.9)
    watched = WatchedRun(tmp_path / "run")
    watched.read()
    assert (watched.best.y, watched.best.x[key]) == (best, 0.9)
    so_far = watched.history()[2]
    np.testing.assert_array_equal(so_far, found.history()["best"])
    page = render(run_report(ObservationStore.open(tmp_path / "run"), str(tmp_path / "run")))
    table = re.search("smallest observations.*?</table>", page, re.DOTALL)[0]
    assert table.count("<tr") == 10  # a heading, and the nine of this context
    at = SPACES[names].parse(found.best.x)[0][0]
    assert [each.at for each in sb.analysis.slices(found)] == at.tolist()
    stars = [line for panel in sb.plots.slices(found) for line in panel.lines if line.get_marker() == "*"]
    assert [star.get_xdata()[0] for star in stars] == at.tolist()
    labels = {line.get_label(): line.get_xdata() for line in sb.plots.history(found).lines}
    assert list(labels["measured, in another context"]) == list(range(1, 9))
    assert set(labels["measured"]) <= set(range(9, 18))
    lines = sb.plots.parallel(found)
    assert [len(each.get_segments()) for each in lines.collections] == [8, 9]
    plt.close("all")


def test_goes_on_in_the_context_of_its_last_call(tmp_path):
    """`resume` and the page know it from the store alone; a dimension stays a number."""
    box = sb.Box([[0, 1], [0, 1]])
    whole = sb.minimize(bowl, box, 14, context={1: np.float64(0.25)}, seed=4)
    sb.minimize(bowl, box, 9, context={1: np.float64(0.25)}, store=tmp_path / "run", seed=4)
    found = resume(tmp_path / "run", rounds=14, function=f"{__name__}:bowl")
    np.testing.assert_array_equal(found.x, whole.x)
    assert found.context == {1: 0.25}
    assert found.recommended.x.tolist() == whole.recommended.x.tolist()
    run = ObservationStore.open(tmp_path / "run")
    shown = stored_result(run, rebuilt(run))
    assert shown.context == {1: 0.25}
    assert shown.recommended.x.tolist() == whole.recommended.x.tolist()


def test_numbers_of_numpy_are_kept(tmp_path):
    """As the values that they are."""
    space = {"size": sb.Integer(1, 9), "depth": sb.Real(0.0, 1.0)}
    sb.minimize(sized, space, 4, context={"size": np.int64(4)}, store=tmp_path / "run")
    found = resume(tmp_path / "run", rounds=6, function=f"{__name__}:sized")
    assert found.context == {"size": 4}
    assert [x["size"] for x in found.x] == [4] * 6


def sized(setting):
    return setting["depth"] / setting["size"]


def test_a_given_value_at_the_end_of_its_range_is_no_advice():
    found = sb.minimize(sized, {"size": sb.Integer(1, 9), "depth": sb.Real(0.0, 1.0)}, 14, context={"size": 9}, seed=1)
    assert found.best["depth"] < 0.01
    assert "At the end of its range: depth (" in found.summary()


def test_earlier_observations_of_other_contexts():
    earlier = [{"load": 0.7, "depth": 0.7, "kind": "fine"}, {"load": 0.1, "depth": 0.5, "kind": "fine"}]
    found = sb.minimize(
        loss,
        SPACE,
        8,
        context={"load": 0.2},
        warm_start=(earlier, [loss(x) for x in earlier]),
        stop=sb.NoImprovement(9),
    )
    assert found.measured.x["load"] == 0.2
    assert found.stopped_by is None


def test_no_improvement_is_one_in_the_context():
    """A better value of another context does not count as the best one."""
    earlier = [{"load": 0.7, "depth": 0.7, "kind": "fine"}]
    found = sb.minimize(
        lambda x: 1.0, SPACE, 9, context={"load": 0.2}, warm_start=(earlier, [0.0]), stop=sb.NoImprovement(4)
    )
    assert (found.stopped_by, len(found) - found.earlier) == ("NoImprovement(k=4)", 5)  # the first one improves


def test_limits():
    found = sb.minimize(outputs, SPACE, 15, context={"load": 0.7}, constraints={"cost": sb.AtMost(0.5)})
    assert found.best["load"] == 0.7
    assert found.best["depth"] == pytest.approx(0.5, abs=0.02)
    assert "keep all constraints; where load = 0.7" in repr(found)


def test_objectives(tmp_path):
    given = {"objectives": ["loss", "cost"], "store": tmp_path / "run"}
    sb.minimize(outputs, SPACE, 6, context={"load": 0.0}, **given)
    found = sb.minimize(outputs, SPACE, 16, context={"load": 0.7}, **given)
    assert {point.x["load"] for point in found.front} == {0.7}
    assert found.best["load"] == 0.7
    assert f"Front: {len(found.front)} settings" in found.summary()
    assert f"{len(found.front)} on the front" in repr(found)


def test_nothing_measured_in_the_context(tmp_path):
    """With limits, only what was measured is recommended."""
    given = {"constraints": {"cost": sb.AtMost(0.5)}, "store": tmp_path / "run"}
    sb.minimize(outputs, SPACE, 12, context={"load": 0.7}, **given)

    def fails(setting):
        raise OSError("gone")

    policy = sb.ConstrainedGPEI(sb.SearchSpace(SPACE), constraints={"cost": sb.AtMost(0.5)}, minimize=True)
    earlier = [{"load": 0.7, "depth": 0.2, "kind": "fine"}]
    found = sb.minimize(fails, policy, 3, context={"load": 0.2}, warm_start=(earlier, [outputs(earlier[0])]))
    assert found.recommended.x is None
    assert found.measured is None
    run = ObservationStore.open(tmp_path / "run")
    with ObservationStore.open(tmp_path / "run", "a") as store:
        store.plan(12, {"context": [["load", 0.2]]})
    run = ObservationStore.open(tmp_path / "run")
    assert stored_result(run, rebuilt(run)).context is None


@pytest.mark.parametrize(
    ("context", "more", "text"),
    [
        ({"lode": 0.5}, {}, "context: got 'lode'; allowed: names of parameters"),
        ({"load": 2.0}, {}, "context['load']: got 2.0; allowed: a number from 0.0 to 1.0"),
        ({"load": 0.1, "depth": 0.1, "kind": "fine"}, {}, "allowed: fewer coordinates, so that one can be chosen"),
        ({}, {}, "context: got {}; allowed: coordinates by dimension"),
        (0.5, {}, "context: got 0.5; allowed: coordinates by dimension"),
        ({"load": 0.5}, {"stop": sb.RegretBelow(0.1)}, "stop: got 'RegretBelow'; allowed: other rules in a context"),
    ],
)
def test_refuses(context, more, text, tmp_path):
    """Before a store is made."""
    with pytest.raises(ValueError, match=re.escape(text)):
        sb.minimize(loss, SPACE, 5, context=context, store=tmp_path / "run", **more)
    assert not (tmp_path / "run").exists()


def test_by_the_command(tmp_path, monkeypatch):
    """A number, and a text; and in another context in the next call."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text(
        '[load]\ntype = "Real"\nlow = 0.0\nhigh = 1.0\n[depth]\ntype = "Integer"\nlow = 0\nhigh = 9\n'
        '[kind]\ntype = "Categorical"\nvalues = ["plain", "fine"]\n'
    )
    call = ["tune", "--space", "space.toml", "--command", "echo {depth}", "--store", "run", "--minimize"]

    def played(*more):
        done = command(*call, *more)
        return done.exit_code, done.output

    status, output = played("--budget", "3", "--context", "load=0.7", "--context", "kind=fine")
    assert status == 0
    assert "where load = 0.7, kind = fine" in output
    status, output = played("--budget", "5", "--context", "load=0.2", "--context", "kind=plain", "--json")
    assert status == 0
    run = ObservationStore.open(tmp_path / "run")
    found = [json.loads(ticket.setting) for _, ticket in sorted(run.tickets.items())]
    assert [x["load"] for x in found] == [0.7] * 3 + [0.2] * 2
    assert [x["kind"] for x in found] == ["fine"] * 3 + ["plain"] * 2
    for wrong, text in [
        ("load", "--context"), ("load=high", "context['load']"), ("lode=1", "context"), ("kind=fine", "--context"),
    ]:  # fmt: skip
        status, output = played("--budget", "6", "--context", "kind=plain", "--context", wrong)
        assert status == 2
        assert text in output


CANDIDATES = np.random.default_rng(3).random((60, 1))


def assay(choice):
    return -abs(CANDIDATES[choice["candidate"], 0] - choice["heat"])


@pytest.mark.slow
def test_a_screening_goes_on_in_another_context(tmp_path):
    """Batches of a pool; a candidate that was measured in one context may be measured in the other."""
    path = sb.Pool.write(tmp_path / "pool.zarr", CANDIDATES, chunk=25, progress=False).path
    pool, store = sb.Pool(path, contexts={"heat": (0.0, 1.0)}), tmp_path / "run"
    first = sb.screen(assay, pool, 15, batch=5, context={"heat": 0.3}, store=store)
    second = sb.screen(assay, pool, 25, batch=5, context={"heat": 0.4}, store=store)
    assert [choice["heat"] for choice in second.x] == [0.3] * 15 + [0.4] * 10
    for found, heat, choices in [(first, 0.3, first.x), (second, 0.4, second.x[15:])]:
        assert found.measured.x == max(choices, key=assay)
        assert assay(found.best.x) > -0.05
        assert (found.best.x["heat"], found.measured.x["heat"]) == (heat, heat)
    again = resume(store, rounds=30, function=f"{__name__}:assay")
    assert [choice["heat"] for choice in again.x[25:]] == [0.4] * 5
    with pytest.raises(ValueError, match=r"context: got None; allowed: a dict such as \{'heat': 0.0\}: on this pool"):
        sb.screen(assay, pool, 15, batch=5, store=tmp_path / "other")


def test_a_point_that_is_left_in_another_context_keeps_nothing_waiting(tmp_path):
    """What is started is what was asked for in this context, so that its value is known when the next is chosen."""

    class Killed(BaseException):
        pass

    calls = []

    def killed(x):
        calls.append(x)
        if len(calls) == 3:
            raise Killed
        return bowl(x)

    box, store = sb.Box([[0, 1], [0, 1]]), tmp_path / "run"
    with pytest.raises(Killed):
        sb.minimize(killed, box, 10, context={0: 0.2}, store=store, durability="round")
    pending = []
    found = sb.minimize(killed, box, 7, context={0: 0.9}, store=store, callbacks=lambda run: pending.append(
        [x for x in run.policy.pending if x[0] == 0.9]
    ))  # fmt: skip
    assert pending == [[]] * 5
    assert [x[0] for x in found.x] == [0.2] * 2 + [0.9] * 5
    assert found.history()["best"].isna().tolist() == [True] * 2 + [False] * 5
