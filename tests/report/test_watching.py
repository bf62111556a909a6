"""Watching: what is seen is what is stored, while it is written, after its writer died, and when it goes on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from cases.cluster import until
from cases.command import command
from cases.paths import PYTHONPATH, TESTS

import scalable_bandits as sb
from scalable_bandits import analysis
from scalable_bandits.cli.charts import DrawnCurve, chart
from scalable_bandits.report.page_server import PageServer
from scalable_bandits.report.watched_page import in_flight_table
from scalable_bandits.report.watched_run import WatchedRun
from scalable_bandits.report.watched_study import WatchedStudy
from scalable_bandits.report.watching import watched
from scalable_bandits.status import status
from scalable_bandits.store import ObservationStore
from scalable_bandits.studies import Problem, Replicate, Study

ARMS = sb.Arms(4)


def simulate(place: Any, horizon: int, seed: int = 0, **options: Any) -> None:
    environment = sb.TableEnvironment(ARMS, [0.1, 0.5, 0.2, 0.4], sb.GaussianNoise(0.1))
    sb.simulate(sb.RandomSearch(ARMS, seed=seed), environment, horizon, store=place, **options)


def tune(place: Path, count: int, policy: Any = None) -> None:
    sb.minimize(lambda x: float((x[0] - 0.3) ** 2), policy or sb.Box([[0, 1]]), count, store=place)


def check_run(seen: WatchedRun, place: Any) -> None:
    """What is seen is what `status` and the store have."""
    stored, now = ObservationStore.open(place), status(place)
    assert seen.state == now.state
    assert np.array_equal(seen.y, stored.read(names=["y"])["y"])
    assert (seen.done, seen.failures, seen.planned) == (now.rounds + now.failures, now.failures, now.planned)
    assert seen.best is not None
    assert seen.best.y == now.best
    _, _, best = seen.history()
    assert best[-1] == now.best


@pytest.mark.parametrize("keep", ["all", "log"])
@pytest.mark.parametrize("kind", ["folder", "object store"])
def test_a_run_that_grows(kind: str, keep: str, tmp_path: Path) -> None:
    """Each reading adds what is new; what is drawn are the numbers of the run."""
    place = tmp_path / "run" if kind == "folder" else zarr.storage.MemoryStore()
    seen = WatchedRun(place)
    seen.read()
    assert seen.state.startswith("waiting: ")
    for horizon in (10, 100, 3000):
        simulate(place, horizon, keep=keep if kind == "folder" else "all")
        seen.read()
        check_run(seen, place)
        assert seen.over
        rounds, regret = seen.regret()
        whole = ObservationStore.open(place).dataset()
        stored = whole["t"].values if "t" in whole else whole["round"].values
        assert rounds[-1] == seen.done == horizon
        assert np.array_equal(regret, whole["cumulative_regret"].values[stored.searchsorted(rounds)])


def test_a_run_that_is_replaced_removed_and_damaged(tmp_path: Path) -> None:
    """It is said, and what comes after is seen."""
    place = tmp_path / "run"
    tune(place, 5)
    seen = WatchedRun(place)
    seen.read()
    check_run(seen, place)
    shutil.rmtree(place)
    seen.read()
    assert seen.state.startswith("waiting: ")
    assert not seen.over
    tune(place, 3, sb.GPEI(sb.Box([[0, 2]]), seed=1))
    seen.read()
    check_run(seen, place)
    database = next(place.rglob("run.sqlite"))
    whole = database.read_bytes()
    database.write_bytes(whole[: len(whole) // 2])
    (place / "committed" / "acknowledged").unlink()
    seen.read()
    assert seen.state.startswith("not readable: ")
    database.write_bytes(whole)
    seen.read()
    check_run(seen, place)


@pytest.mark.parametrize("watching", [True, False])
def test_a_writer_that_ends_while_it_is_read(watching: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run is never said to be interrupted, and its last observation is seen."""
    place, policy = tmp_path / "run", sb.RandomSearch(sb.Arms(3))
    record, whole = sb.record(policy, place), ObservationStore.read
    policy.tell(policy.ask(), 1.0)

    def read(self: ObservationStore, *of: Any, **names: Any) -> Any:
        monkeypatch.undo()
        policy.tell(policy.ask(), 2.0)
        record.close()
        return whole(self, *of, **names)

    monkeypatch.setattr(ObservationStore, "read", read)
    seen = WatchedRun(place)
    if watching:
        seen.read()
    assert (seen.state if watching else status(place).state) == f"running ({os.getpid()})"
    seen.read()
    check_run(seen, place)
    assert (seen.done, seen.state) == (2, "closed")


def test_the_number_of_the_best(tmp_path: Path) -> None:
    """Failures count, and so do rounds that are not kept."""

    def function(x: Any) -> float:
        if x[0] < 0.5:
            raise ValueError("too small")
        return float(x[0])

    found = sb.minimize(function, sb.RandomSearch(sb.Box([[0, 1]])), 9, store=tmp_path / "tuned")
    best = found.table()["value"]
    seen = watched(tmp_path / "tuned")
    assert found.failed
    assert isinstance(seen, WatchedRun)
    assert seen.best is not None
    assert (seen.best.number, seen.best.y) == (best.idxmin(), best.min())
    assert seen.history()[0].tolist() == best.dropna().index.tolist()
    simulate(tmp_path / "run", 3000, keep="log")
    kept = ObservationStore.open(tmp_path / "run").dataset()
    seen = watched(tmp_path / "run")
    assert isinstance(seen, WatchedRun)
    assert seen.best is not None
    row = int(kept["y"].values.argmax())
    assert seen.best.number == kept["t"].values[row] > row + 1


def test_a_writer_of_some_rounds_that_ends_without_any(tmp_path: Path) -> None:
    place = tmp_path / "run"
    simulate(place, 50, keep="log")
    seen = WatchedRun(place)
    with ObservationStore.open(place, "a"):
        seen.read()
        assert seen.state == f"running ({os.getpid()})"
    seen.read()
    check_run(seen, place)


def test_a_run_that_cannot_be_read_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is missing later, although it was over by then."""
    tune(tmp_path / "run", 5)
    seen = WatchedRun(tmp_path / "run")

    def failing(*_: Any) -> Any:
        raise OSError("the network is down")

    monkeypatch.setattr(ObservationStore, "read", failing)
    seen.read()
    assert seen.state == "not readable: the network is down"
    monkeypatch.undo()
    seen.read()
    check_run(seen, tmp_path / "run")


def begin(place: Path, budget: int) -> subprocess.Popen[str]:
    words = [sys.executable, str(TESTS / "cases" / "tuned.py"), place, f"{place}.log", 2, "here", budget]
    return subprocess.Popen(list(map(str, words)), env={**os.environ, "PYTHONPATH": PYTHONPATH}, text=True)


@pytest.mark.slow
def test_a_run_is_killed_and_goes_on_while_it_is_watched(tmp_path: Path) -> None:
    place = tmp_path / "run"
    seen = WatchedRun(place)

    def sees(condition: Callable[[], bool]) -> None:
        def read() -> bool:
            seen.read()
            return condition()

        until(read)

    process = begin(place, 40)
    sees(lambda: seen.done >= 3)
    assert seen.state == f"running ({process.pid})"
    sees(
        lambda: any(
            each.ticket.state == "running" and each.x.keys() == {"depth", "rate", "kind"} for each in seen.in_flight
        )
    )
    sees(lambda: seen.left is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    seen.read()  # one reading is enough: the command reads every second
    assert seen.interrupted
    assert not seen.over
    check_run(seen, place)
    before = seen.done
    process = begin(place, 40)
    sees(lambda: seen.done > before)
    sees(lambda: seen.over)
    assert process.wait() == 0
    assert seen.state == "complete"
    check_run(seen, place)
    last = seen.latest[:3]
    tickets = [each for each in ObservationStore.open(place).tickets.values() if each.ended is not None]
    assert [each.number for each in last] == [40, 39, 38]
    assert [each.y for each in last if not each.error] == [
        each.y for each in sorted(tickets, key=lambda each: -(each.ended or 0))[:3] if each.y is not None
    ]


def build(replicate: Replicate) -> Problem:
    environment = sb.TableEnvironment(ARMS, [0.1, 0.5, 0.2, 0.4], sb.GaussianNoise(0.3), seed=replicate.seed)
    kernel = sb.Covariance(np.eye(4))
    policy = sb.IGPUCB(ARMS, kernel, noise=0.3, regularization=0.09, seed=replicate.seed)
    return Problem(environment, {"ucb": policy, "random": sb.RandomSearch(ARMS, seed=replicate.seed)})


TOY = Study(name="toy", title="A toy", source="nowhere", cases=("a", "b"), build=build, horizon=200, replicates=3)


def check_study(seen: WatchedStudy, place: Path) -> None:
    """Means and curves are those of the study's result."""
    result = Study.open(place)
    assert seen.complete == seen.runs == 12
    for row in seen.table():
        mean = next(each for each in analysis.means(result) if (each.case, each.policy) == (row.case, row.policy))
        assert (row.complete, row.running, row.round) == (mean.runs, 0, mean.horizon)
        assert row.regret == pytest.approx(mean.regret)
        assert row.error == pytest.approx(mean.standard_error)
        rounds, regret = seen.curves(row.case)[row.policy]
        whole = result["regret"].sel(case=row.case, policy=row.policy).cumsum("round").mean("replicate")
        assert regret == pytest.approx(whole.sel(round=rounds).values)


@pytest.mark.slow
def test_a_study_on_two_workers(tmp_path: Path, client: Any) -> None:
    """Watched from its first run to its last, it counts up, and ends with the numbers of an unwatched one."""
    place, seen = tmp_path / "study", WatchedStudy(tmp_path / "study")
    player = threading.Thread(target=lambda: TOY.run(store=place, on=client))
    player.start()
    counts = [0]

    def ended() -> bool:
        seen.read()
        counts.append(seen.complete)
        return seen.over

    until(ended)
    player.join()
    assert counts == sorted(counts)
    check_study(seen, place)
    unwatched = TOY.run()
    assert np.array_equal(Study.open(place)["regret"].values, unwatched["regret"].values)


def test_a_study_that_grows(tmp_path: Path) -> None:
    place = tmp_path / "study"
    TOY.run(store=place, policies=["ucb"])
    seen = watched(place)
    assert isinstance(seen, WatchedStudy)
    assert (seen.state, seen.complete, {row.policy for row in seen.table()}) == ("complete", 6, {"ucb"})
    TOY.run(store=place)
    seen.read()
    check_study(seen, place)


# ---- how it is shown


@pytest.fixture
def served(tmp_path: Path) -> Iterator[PageServer]:
    tune(tmp_path / "run", 6)
    server = PageServer(watched(tmp_path / "run"))
    yield server
    server.stop()


def test_the_page_is_for_browsers_on_this_machine(served: PageServer) -> None:
    """At its address alone, and not by a name that an attacker lets resolve to this machine."""
    with urllib.request.urlopen(served.url) as answer:
        text, headers = answer.read().decode(), answer.headers
    assert "6 of 6 evaluations" in text
    assert "complete" in text
    assert "Importance of the parameters" in text
    assert all(each.startswith(("data:", "#")) for each in re.findall(r'(?:src|href)="([^"]*)', text))
    nonce = re.search(r'<script nonce="([^"]+)"', text)
    assert nonce is not None
    assert f"script-src 'nonce-{nonce[1]}'" in headers["Content-Security-Policy"]
    assert served.url.startswith("http://127.0.0.1:")
    port = served.url.split(":")[2].split("/")[0]
    for host, path, code in [("evil.example", served.url, 403), ("localhost", f"http://127.0.0.1:{port}/", 404)]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(path, headers={"Host": f"{host}:{port}"}))
        assert refused.value.code == code
        assert b"evaluations" not in refused.value.read()
    again = urllib.request.Request(served.url, headers={"Host": f"localhost:{port}"})
    with urllib.request.urlopen(again) as answer:
        assert answer.status == 200


def once(place: Path) -> Any:
    return command("watch", place, "--once", columns=80)


def test_one_frame(tmp_path: Path) -> None:
    """The state, the best setting, importance and the last evaluations, in 80 columns; the exit code says how it is."""
    place = tmp_path / "run"
    space = {"rate": sb.Real(1e-3, 1.0, log=True), "depth": sb.Integer(1, 5)}
    sb.minimize(lambda x: x["rate"] + x["depth"], space, 8, store=place)
    shown = once(place)
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.stdout.splitlines())) <= 80
    for words in ("8 of 8 evaluations", "complete", "best 1.0", "importance", "depth", "Latest"):
        assert words in shown.stdout
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    code = (
        "import os, sys, scalable_bandits as sb; policy = sb.RandomSearch(sb.Arms(3))\n"
        "with sb.record(policy, sys.argv[1]): policy.tell(policy.ask(), 1.0); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "dead")], env=environment, check=False)
    shown = once(tmp_path / "dead")
    assert "interrupted" in shown.stdout
    assert shown.exit_code == 3
    assert once(tmp_path / "nothing").exit_code == 2


def crowd(replicate: Replicate) -> Problem:
    environment = sb.TableEnvironment(ARMS, [0.1, 0.5, 0.2, 0.4], seed=replicate.seed)
    return Problem(environment, {f"policy {i}": sb.RandomSearch(ARMS, seed=i) for i in range(50)})


@pytest.mark.slow
def test_a_frame_of_many_policies(tmp_path: Path) -> None:
    """It says how many more there are than it has room for."""
    crowded = Study(name="crowd", title="A crowd", source="nowhere", cases=("a",), build=crowd, horizon=3, replicates=1)
    crowded.run(store=tmp_path / "study")
    shown = once(tmp_path / "study")
    assert shown.exit_code == 0, shown.output
    assert len(shown.stdout.splitlines()) <= 40
    more = re.search(r"Policies \((\d+) more\)", shown.stdout)
    assert more is not None
    assert int(more[1]) + len(re.findall(r"policy \d+ +1 of 1", shown.stdout)) == 50


def test_a_chart_is_a_picture_of_its_numbers() -> None:
    """A line that rises is at the bottom on the left and at the top on the right; points outside are at the edge.

    Points that are not finite are not drawn.
    """
    x, nothing = np.arange(50.0), DrawnCurve(np.arange(3.0), np.array([np.nan, np.inf, np.nan]))
    title, *rows, ends = chart([DrawnCurve(x, 3.0 * x), nothing], 40, 10, "rising").plain.splitlines()
    assert (title.rstrip(), len(rows)) == ("rising", 8)
    assert {len(row) for row in rows} == {40}
    drawn = [[place for place, sign in enumerate(row) if sign > "\u2800"] for row in rows]
    assert drawn == sorted(drawn, reverse=True)
    assert (drawn[-1][0], drawn[0][-1]) == (4, 39)
    assert (rows[0].split()[0], rows[-1].split()[0], ends.split()) == ("147", "0", ["0", "49"])
    points = chart([DrawnCurve(x, np.full(50, 9.0), joined=False)], 40, 6, "", limits=(0.0, 1.0)).plain.splitlines()
    assert "\u2022" in points[1]
    assert not any("\u2022" in row for row in points[2:])
    assert [line.rstrip() for line in chart([nothing], 40, 10, "none").plain.splitlines()] == [
        "none", "no finite value yet"
    ]  # fmt: skip


def test_outside_a_notebook(tmp_path: Path) -> None:
    """The error names the command."""
    tune(tmp_path / "run", 2)
    with pytest.raises(RuntimeError, match=r"^watch: this is no notebook; .*scalable-bandits watch .*run"):
        sb.watch(tmp_path / "run")
    with pytest.raises(ValueError, match=r"^store: got .*; allowed: "):
        sb.watch(3)


@pytest.mark.slow
def test_in_a_notebook(tmp_path: Path) -> None:
    """The call returns at once, and its output follows the run to its end."""
    code = f"""
import scalable_bandits as sb
policy = sb.RandomSearch(sb.Arms(3))
with sb.record(policy, {str(tmp_path / "run")!r}):
    policy.tell(policy.ask(), 1.0)
    seen = sb.watch({str(tmp_path / "run")!r})
    policy.tell(policy.ask(), 2.5)
seen
"""
    import nbformat  # takes seconds, which every process of a run of all tests would spend
    from nbclient import NotebookClient

    cells = [code, "seen.stop()"]
    notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    options: dict[str, Any] = {"iopub_timeout": 60, "resources": {"metadata": {"path": str(tmp_path)}}}  # busy machines
    NotebookClient(notebook, kernel_name="python3", **options).execute()
    (output,) = notebook.cells[0].outputs
    assert output["data"]["text/plain"] == "RandomSearch: 2 evaluations"
    assert "closed" in output["data"]["text/html"]


def test_what_was_in_flight_as_the_run_was_interrupted_is_dropped(tmp_path: Path) -> None:
    """It does not run any more, and nobody waits for it."""
    place, begun = tmp_path / "run", threading.Semaphore(0)

    def loss(setting: dict[str, Any]) -> float:
        begun.release()
        threading.Event().wait(0.4)
        return setting["x"]

    def press() -> None:
        for _ in range(2):
            begun.acquire()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    found = sb.minimize(loss, {"x": sb.Real(0.0, 1.0)}, 6, store=place, parallel=2)
    assert found.interrupted
    run = WatchedRun(place)
    run.read()
    rows = in_flight_table(run).rows
    assert len(rows) == 2
    assert {row[1] for row in rows} <= {"dropped", "asked"}  # the latter if it was not yet known that it had begun
    assert [row[2] for row in rows] == [""] * 2
