"""`screen`: batches measured and told together, resumed after anything, the same on any number of workers."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from cases.command import command

import scalable_bandits as sb
from scalable_bandits import progress
from scalable_bandits.runs.resuming import resume
from scalable_bandits.status import status

long = [pytest.param(last, marks=pytest.mark.long) for last in (1, 15, 16)]
RNG = np.random.default_rng(8)
POINTS = RNG.random((300, 2))
LABELS = [f"candidate {i}" for i in range(300)]
VALUES = dict(zip(LABELS, (np.sin(5 * POINTS[:, 0]) + POINTS[:, 1]).tolist(), strict=True))


@pytest.fixture
def pool(tmp_path):
    """A pool with labels."""
    return sb.Pool.write(tmp_path / "pool.zarr", [{"numbers": POINTS, "labels": LABELS}], chunk=64)


def value(label):
    """Value of a candidate, of which one in twenty fails."""
    if int(label.split()[1]) % 20 == 7:
        raise RuntimeError("no yield")
    return float(np.sin(5 * POINTS[int(label.split()[1]), 0]) + POINTS[int(label.split()[1]), 1])


def choices(found):
    """What was measured, in the order of asking."""
    return found.table()["candidate"].tolist()


def test_is_the_loop_of_ask_and_tell(pool):
    found = sb.screen(VALUES.__getitem__, pool, 50, batch=20)
    policy, expected = sb.GPUCB(sb.Pool(pool.path, repeats=False)), []
    for count in (20, 20, 10):
        labels = policy.ask(count)
        policy.tell(labels, [VALUES[label] for label in labels])
        expected += labels
    assert choices(found) == expected
    assert found.best == policy.best()
    assert found.measured.y == max(VALUES[label] for label in expected)
    assert len(set(expected)) == 50


def test_a_dataset_has_labels(pool):
    found = sb.screen(VALUES.__getitem__, pool, 20, batch=10)
    held = found.dataset()
    assert held["candidate"].values.tolist() == choices(found)
    np.testing.assert_array_equal(held["y"], found.y)
    numbered = sb.screen(float, sb.Pool.write(f"{pool.path}.other", POINTS), 20, batch=10)
    np.testing.assert_array_equal(numbered.dataset()["candidate"], numbered.x)


def test_a_pool_that_is_used_up_ends_the_run(tmp_path):
    """Its last batch is what is left, where the budget of an earlier call is not known before the store is open."""
    pool = sb.Pool.write(tmp_path / "pool.zarr", POINTS[:40])
    known = (list(range(10)), [0.5] * 10)
    sb.screen(float, pool, 20, batch=10, store=tmp_path / "run", warm_start=known)
    found = sb.screen(float, pool, 36, batch=8, store=tmp_path / "run")
    assert (len(found), found.earlier, found.stopped_by) == (40, 10, "the end of the pool")
    assert sorted(choices(found)) == list(range(40))
    assert "ended by the end of the pool" in str(found)
    again = sb.screen(float, pool, 36, batch=8, store=tmp_path / "run")
    assert (choices(again), again.stopped_by) == (choices(found), "the end of the pool")


def test_a_rule_and_callbacks_see_whole_batches(pool):
    seen = []
    found = sb.screen(
        VALUES.__getitem__, pool, 100, batch=10, callbacks=lambda view: seen.append((view.number, view.policy.rounds)),
        stop=lambda view: view.number >= 25,
    )  # fmt: skip
    assert len(found.y) == 30
    assert [rounds for _, rounds in seen] == [10] * 10 + [20] * 10 + [30] * 10


def test_a_whole_pool_is_measured(tmp_path):
    pool = sb.Pool.write(tmp_path / "small.zarr", POINTS[:33])
    found = sb.screen(lambda number: float(POINTS[number, 0]), pool, 33, batch=10)
    assert sorted(choices(found)) == list(range(33))


def test_smaller_values_are_better_if_so_said(pool):
    found = sb.screen(VALUES.__getitem__, pool, 60, batch=20, minimize=True)
    assert found.measured.y <= sorted(VALUES.values())[2]


@pytest.mark.parametrize("on", [None, "threads:3", pytest.param("local:2", marks=pytest.mark.long)])
def test_failures_and_workers_change_no_choice(pool, on):
    alone = sb.screen(value, pool, 60, batch=15)
    found = sb.screen(value, pool, 60, batch=15, on=on)
    assert choices(found) == choices(alone)
    failed = [ticket for ticket in found.tickets if ticket.state == "failed"]
    assert all("no yield" in ticket.error for ticket in failed)
    assert len(found.y) + len(failed) == 60


@pytest.mark.parametrize("last", [pytest.param(14, marks=pytest.mark.slow), *long])
def test_a_killed_run_is_continued_without_measuring_again(pool, tmp_path, last):
    """Between the evaluations of a batch, and at its end."""
    log = tmp_path / "log"
    program = textwrap.dedent(f"""
        import os, signal, sys
        import scalable_bandits as sb
        def measure(label):
            with open({str(log)!r}, "a") as file:
                file.write(label + chr(10))
            count = open({str(log)!r}).read().count(chr(10))
            if sys.argv[1] == "first" and count == {last}:
                os.kill(os.getpid(), signal.SIGKILL)
            return float(len(label) + int(label.split()[1]) % 13)
        sb.screen(measure, sb.Pool({pool.path!r}), 45, batch=15, store={str(tmp_path / "run.zarr")!r}, progress=False)
    """)
    script = tmp_path / "screening.py"
    script.write_text(program)
    assert subprocess.run([sys.executable, script, "first"], check=False).returncode == -signal.SIGKILL
    subprocess.run([sys.executable, script, "again"], check=True)
    found = sb.screen(lambda label: float(len(label) + int(label.split()[1]) % 13), pool, 45, batch=15)
    measured = log.read_text().splitlines()
    assert sorted(measured) == sorted([*choices(found), measured[last - 1]])  # the one at work when it was killed


def test_a_screening_is_shown(pool, tmp_path):
    """In words, and as a page."""
    found = sb.screen(value, pool, 30, batch=15, store=tmp_path / "run.zarr")
    assert f"x = {found.best.x}" in found.summary()
    assert "it may be more, since no candidate was measured twice" in found.summary()
    page = command("report", tmp_path / "run.zarr", "--out", tmp_path / "page.html")
    assert page.exit_code == 0, page.output
    shown, failed = (tmp_path / "page.html").read_text(), [LABELS[int(each.x[0])] for each in found.failed]
    best = max((x for x in choices(found) if x not in failed), key=VALUES.__getitem__)
    assert failed
    assert all(each in shown for each in (found.best.x, best, *failed))
    assert status(tmp_path / "run.zarr").x == best
    os.rename(pool.path, f"{pool.path}.elsewhere")
    assert status(tmp_path / "run.zarr").x == [float(best.split()[1])]
    os.rename(f"{pool.path}.elsewhere", pool.path)
    with pytest.raises(ValueError, match="the candidates of a pool have no order"):
        sb.plots.slices(found)


def test_what_is_measured_of_a_batch_is_shown_before_it_has_ended(pool, tmp_path, monkeypatch, capsys):
    """By the progress, `status` and `watch`; it is not in flight any more."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    calls, seen = [], []

    def measure(label):
        calls.append(label)
        if len(calls) in (8, 19):
            seen.extend(command(*line, tmp_path / "run.zarr").stdout for line in (("status",), ("watch", "--once")))
        return VALUES[label]

    sb.screen(measure, pool, 30, batch=15, store=tmp_path / "run.zarr", progress=True)
    assert re.match(r"GPUCB: 0 of 30.*, 1 of the batch measured\n", capsys.readouterr().err)
    first, watched, second, again = seen
    assert " 0/30 (7 of the batch measured) " in first
    assert "0 of 30 evaluations, 7 of the batch measured" in watched
    assert "no batch has ended yet" in watched
    assert "In flight (4 more)" in watched
    assert re.findall(r"^\d+ +(asked|running|measured) ", watched, re.MULTILINE) == ["asked"] * 4
    assert " 15/30 (3 of the batch measured) " in second
    assert "15 of 30 evaluations, 3 of the batch measured" in again
    assert "of the batch" not in command("status", tmp_path / "run.zarr").stdout


def test_a_store_alone_continues_a_screening(pool, tmp_path):
    """By batches as before, and not one at a time."""
    found = sb.screen(value, pool, 30, batch=15, store=tmp_path / "run.zarr", on="threads:2")
    more = resume(tmp_path / "run.zarr", rounds=60, function=f"{__name__}:value")
    assert choices(more)[:30] == choices(found)
    assert choices(more) == choices(sb.screen(value, pool, 60, batch=15))


@pytest.mark.parametrize("kind", ["pair", "numbers", "table", "file", "result"])
@pytest.mark.sampled(5)
def test_goes_on_from_earlier_measurements(kind, pool, tmp_path):
    """Which are beside the budget, and in the store of the run, by which it is resumed."""
    first, run = sb.screen(value, pool, 40, batch=20), tmp_path / "run.zarr"
    assert first.failed
    first.table().to_csv(tmp_path / "table.csv")
    given = {
        "pair": (first.x, first.y), "numbers": ([LABELS.index(label) for label in first.x], first.y),
        "table": first.table(), "file": pd.read_csv(tmp_path / "table.csv"), "result": first,
    }[kind]  # fmt: skip
    found = sb.screen(value, pool, 15, batch=15, warm_start=given, store=run)
    assert (found.earlier, len(found.tickets), found.x[: found.earlier]) == (len(first.x), 15, first.x)
    policy = sb.GPUCB(sb.Pool(pool.path, repeats=False))
    policy.tell(first.x, first.y)
    assert set(choices(found)[found.earlier :]) == set(policy.ask(15))
    for more in (
        sb.screen(value, pool, 30, batch=15, warm_start=given, store=run),
        resume(run, rounds=len(first.x) + 30, function=f"{__name__}:value"),
    ):
        assert choices(more) == choices(sb.screen(value, pool, 30, batch=15, warm_start=given))
    with pytest.raises(ValueError, match=r"^warm_start: got .*; allowed: the"):
        sb.screen(value, pool, 30, batch=15, warm_start=(first.x[1:], first.y[1:]), store=run)


def test_a_pool_that_was_moved(pool, tmp_path):
    """A table has numbers until the run goes on with the pool at its new place, which its store then knows."""
    run, table, moved = tmp_path / "run.zarr", tmp_path / "table.csv", tmp_path / "moved.zarr"
    measured = choices(sb.screen(value, pool, 30, batch=15, store=run))
    os.rename(pool.path, moved)
    done = command("export", run, "--to", table)
    assert done.exit_code == 0
    assert "note: the pool of the run cannot be opened" in " ".join(done.stderr.split())
    assert pd.read_csv(table)["candidate"].tolist() == [LABELS.index(label) for label in measured]
    with pytest.raises(ValueError, match=r"^path: got .*; where the pool has moved, `screen` with its new place"):
        resume(run, rounds=45, function=f"{__name__}:value")
    sb.screen(value, sb.Pool(moved), 30, batch=15, store=run)
    again = resume(run, rounds=45, function=f"{__name__}:value")
    assert choices(again)[:30] == measured
    done = command("export", run, "--to", table, "--overwrite")
    assert (done.stderr, pd.read_csv(table)["candidate"].tolist()) == ("", choices(again))


def test_what_does_not_fit_is_refused(pool, tmp_path):
    for argument, message in (
        ({"batch": 0}, "batch: got 0"), ({"batch": 1.5}, "batch: got 1.5"), ({"minimize": 1}, "minimize: got 1"),
        ({"batch": 5, "seed": -1}, "seed: got -1"),
        ({"budget": 301}, "budget: got 301; allowed: at most 300, the number of candidates"),
        (
            {"budget": 299, "warm_start": ([3, 4, 4], [1.0, 2.0, 2.1])},
            "budget: got 299; allowed: at most 298, the number of candidates without earlier",
        ),
        ({"warm_start": ([300], [1.0])}, r"^warm_start: x: got 300\.0; allowed: the number of a candidate"),
        ({"warm_start": pd.DataFrame({"label": LABELS[:1], "y": 1.0})}, "^warm_start: .*the column 'candidate'"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            sb.screen(VALUES.__getitem__, pool, **{"budget": 10, "batch": 5, **argument})
    with pytest.raises(ValueError, match="a pool, such as"):
        sb.screen(VALUES.__getitem__, sb.Box([[0, 1]]), 10, batch=5)
    with pytest.raises(ValueError, match="a policy on a pool"):
        sb.screen(VALUES.__getitem__, sb.GPEI(sb.Box([[0, 1]])), 10, batch=5)
    assert os.listdir(tmp_path) == ["pool.zarr"]


def test_the_command_screens_a_pool_with_a_program(tmp_path, monkeypatch):
    """The label is the argument; a candidate whose program fails is left out, and the run goes on from its store."""
    monkeypatch.chdir(tmp_path)
    labels = ["C" * (1 + i % 20) + "N" * (i // 20) for i in range(100)]
    sb.Pool.write("pool.zarr", [{"numbers": np.arange(100.0)[:, None], "labels": labels}])
    with open("assay", "w") as script:
        script.write('#!/bin/sh\nif [ "$1" = CC ]; then exit 3; fi\necho "${#1}"\n')
    os.chmod("assay", 0o755)

    line = ["screen", "--pool", "pool.zarr", "--store", "run.zarr", "--budget", "100", "--batch", "25", "--json"]
    refused = command(*line, "--command", "./assay {smiles}", "--maximize")
    assert refused.exit_code == 2
    assert "known: candidate" in refused.output
    assert not os.path.exists("run.zarr")
    assert "screen: say which values are better" in command(*line, "--command", "./assay {candidate}").output
    done = command(*line, "--command", "./assay {candidate}", "--maximize")
    found = json.loads(done.stdout)
    assert found["evaluations"] == 100
    assert found["measured"]["y"] == 24
    assert found["measured"]["x"] == "C" * 20 + "N" * 4
    assert [failure["ticket"] for failure in found["failed"]] != []
    for words, offered in ((), False), (("--store", "part.zarr", "--budget", "60"), True):
        shown = command(*line[:-1], *words, "--command", "./assay {candidate}", "--maximize").stdout
        assert ("more evaluations: " in shown, "--rounds 100\n" in shown) == (offered, offered)
    fewer = command(*line, "--budget", "50", "--command", "./assay {candidate}", "--maximize")
    assert "nothing was evaluated: the run has 100 already, --budget is 50" in " ".join(fewer.stderr.split())
    assert "nothing was evaluated" not in done.stderr
    again = command("resume", "run.zarr", "--command", "./assay {candidate}", "--json")
    assert again.exit_code == 0


@pytest.mark.parametrize("label", ["A", "1"])
def test_equal_labels_in_one_batch(label, tmp_path):
    """Each candidate is told its own value; which of them a label means is warned of."""
    rows = {"numbers": np.array([[0.0], [10.0], [20.0]]), "labels": [label, label, "B"]}
    pool = sb.Pool.write(tmp_path / "pool", [rows], progress=False)
    values = iter([1.0, 2.0, 3.0])
    with pytest.warns(UserWarning, match="candidates 0 and 1 have one label, '[A1]'"):
        found = sb.screen(lambda label: next(values), pool, 3, batch=3, progress=False)
    model = found.policy.model
    assert sorted(found.policy.domain.points(model.numbers)[:, 0].tolist()) == [0.0, 1.0, 2.0]
    assert sorted(found.y) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("error", [RuntimeError("spilt"), None])
def test_failures_among_values_of_the_first_batch(error, tmp_path):
    """They do not end the run, however many they are; nor does a result that is no number."""
    pool = sb.Pool.write(tmp_path / "pool", np.random.default_rng(3).random((200, 2)), progress=False)

    def measure(number, calls=[]):  # noqa: B006
        calls.append(number)
        if len(calls) % 4:
            return float(number % 17)
        if error is not None:
            raise error
        return None

    found = sb.screen(measure, pool, 60, batch=50, progress=False)
    assert (len(found), len(found.failed)) == (45, 15)
