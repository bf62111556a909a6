"""Studies on workers: the same numbers wherever they run; killed, interrupted, and taken up again."""

import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest
import xarray
from cases.cluster import Builder, by_hand, dies, raises, toy, until
from cases.command import command
from cases.paths import PYTHONPATH

import scalable_bandits as sb
from scalable_bandits.execution import ClusterError
from scalable_bandits.status import runs_in, status
from scalable_bandits.store import StoreError
from scalable_bandits.studies import Study, StudyIncomplete
from scalable_bandits.studies.runs import Player


@functools.cache  # not on import, which every process of a run of all tests makes
def in_turn():
    """The study played in this process."""
    return toy().run().load()


def same(result, reference=None):
    xarray.testing.assert_identical(result.load(), in_turn() if reference is None else reference)


def built(folder):
    """How often which replicate was built."""
    return Counter(path.name.split("-")[0] for path in Path(folder).iterdir() if "-" in path.name)


class TestSameNumbers:
    @pytest.mark.slow
    @pytest.mark.usefixtures("forked_workers")
    @pytest.mark.parametrize("on", ["client of 2", "local:1"])
    def test_wherever_it_runs(self, on, client, tmp_path):
        same(toy().run(on=client if on == "client of 2" else on, store=tmp_path / "study"))

    @pytest.mark.slow
    def test_in_memory(self, client):
        same(toy().run(on=client))

    @pytest.mark.slow
    def test_a_named_study(self, client, tmp_path):
        """Draws of a thousand points, through BLAS."""
        study = Study.load("srinivas2010-synthetic")
        given = {"replicates": 2, "horizon": 40}
        same(study.run(**given, on=client, store=tmp_path / "study"), study.run(**given))

    @pytest.mark.slow
    def test_runs_are_stores_of_their_own(self, client, tmp_path):
        """Complete, and those of `simulate`; one writer each, of another process."""
        toy().run(on=client, store=tmp_path / "study")
        found = [status(place) for place in runs_in(tmp_path / "study")]
        assert len(found) == 12
        assert {(run.state, run.rounds) for run in found} == {("complete", 12)}
        for policy, folder in enumerate(("u-c-b", "random")):
            run = sb.ObservationStore.open(tmp_path / "study" / "b" / folder / "0002").read()
            np.testing.assert_array_equal(run["regret"], in_turn()["regret"].values[1, policy, 2])

    @pytest.mark.slow
    def test_workers_that_were_started_elsewhere(self, tmp_path, monkeypatch):
        """A folder that is named from where the study is started is that folder for all."""
        (tmp_path / "here").mkdir()
        with by_hand(tmp_path / "cluster") as cluster:  # whose working folder is that of the tests
            monkeypatch.chdir(tmp_path / "here")
            same(toy().run(on=cluster.address, store="study"))
        assert len(list(runs_in("study"))) == 12

    def test_workers_without_the_folder(self, tmp_path):
        """It is said which machine has not got what, once for all runs."""
        study = toy()
        player = Player(study.build)
        with pytest.raises(StoreError, match=rf"^store: worker .* has no folder {tmp_path}/study; allowed: a folder"):
            player(study.replicate("a", 0, 12), "random", str(tmp_path / "study" / "a" / "random" / "0000"))
        assert not (tmp_path / "study").exists()
        failed = StudyIncomplete("toy", {"one": "trace\n", "two": "other\n", "three": "trace\n"}, 4, None, True)
        assert str(failed).endswith("plays the failed runs again: one:\nthree:\ntrace\n\ntwo:\nother")
        every = StudyIncomplete("toy", {"one": "in a\nno 1\n", "two": "in b\nno 1\n"}, 2, None, False)
        assert str(every) == "study toy: 2 runs failed: one:\ntwo:\nin a\nno 1"

    @pytest.mark.slow
    def test_a_lazy_dataset(self, tmp_path):
        """A chunk a run; opened by itself, also before it is complete."""
        result = toy().run(store=tmp_path / "study")
        assert result["regret"].chunks == ((1, 1), (1, 1), (1, 1, 1), (12,))
        xarray.testing.assert_identical(Study.open(tmp_path / "study").load(), in_turn())
        with pytest.raises(FileNotFoundError, match="no study in"):
            Study.open(tmp_path / "nothing")


@pytest.mark.slow
class TestGoingOn:
    def test_only_what_is_missing(self, client, tmp_path):
        place, notes = tmp_path / "study", tmp_path / "notes"
        notes.mkdir()
        toy().run(store=place)
        for run in ("a/random/0001", "b/u-c-b/0002"):
            shutil.rmtree(place / run)
        same(toy(Builder(str(notes))).run(store=place, on=client))
        assert set(built(notes)) == {
            "a0",
            "a1",
            "b0",
            "b2",
        }  # a0, b0: whose policies there are, and whether all is valid
        before = built(notes)
        same(toy(Builder(str(notes))).run(store=place, on=client))
        assert built(notes) - before == Counter(a0=1, b0=1)


@pytest.mark.slow
class TestFailures:
    @pytest.mark.parametrize("wrong", [raises, dies], ids=lambda f: f.__name__)
    def test_once(self, wrong, client, tmp_path):
        """A run that fails is tried again; one whose worker dies runs again by itself."""
        (tmp_path / "notes").mkdir()
        same(toy(Builder(str(tmp_path / "notes"), wrong)).run(on=client, store=tmp_path / "study"))
        assert (tmp_path / "notes" / "wrong").exists()
        until(lambda: len(client.nthreads()) == 2)

    @pytest.mark.parametrize("cluster", [False, True], ids=["here", "cluster"])
    def test_always(self, cluster, client, tmp_path):
        """Reported with its traceback, by name, when all others are there; what is missing is NaN."""
        (tmp_path / "notes").mkdir()
        study = toy(Builder(str(tmp_path / "notes"), raises, once=False))
        with pytest.raises(
            StudyIncomplete, match=r"(?s)2 runs failed.*b, random, replicate 1:.*in raises.*is off"
        ) as caught:
            study.run(on=client if cluster else None, store=tmp_path / "study" if cluster else None)
        assert sorted(caught.value.failed) == ["b, random, replicate 1", "b, u c b, replicate 1"]
        found = caught.value.result.load()
        assert int(np.isnan(found["regret"]).sum()) == 24
        assert (found["candidate"].sel(case="b", replicate=1) == -1).all()
        xarray.testing.assert_identical(found.sel(case="a"), in_turn().sel(case="a"))
        if cluster:
            same(toy().run(store=tmp_path / "study"))

    def test_by_command(self, tmp_path, monkeypatch):
        """Exit code 1, the runs by name, nothing left but the store, from which `resume` goes on."""
        (tmp_path / "notes").mkdir()
        monkeypatch.chdir(tmp_path)
        builder = Builder(str(tmp_path / "notes"), raises, once=False)
        monkeypatch.setitem(Study.registry, "toy-study", toy(builder))
        failed = command("run", "toy-study", "--store", "study")
        assert failed.exit_code == 1
        assert "b, u c b, replicate 1" in failed.stderr
        assert "the instrument is off" in failed.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "study"]
        builder.wrong = None
        again = command("resume", "study")
        assert again.exit_code == 0, again.output
        assert sorted(path.name for path in (tmp_path / "toy-study").iterdir()) == ["regret.png", "table.csv"]
        assert command("run", "toy-study", "--store", "study").exit_code == 0
        refused = command("run", "toy-study", "--store", "toy-study")
        assert refused.exit_code == 2
        assert "is the folder of the store" in refused.stderr

    def test_the_scheduler_is_lost(self, tmp_path):
        place, notes = tmp_path / "study", tmp_path / "notes"
        notes.mkdir()
        study = toy(Builder(str(notes), seconds=0.2), replicates=8)
        with by_hand(tmp_path / "cluster") as cluster:

            def kill_scheduler():
                until(lambda: sum(built(notes).values()) >= 4)
                cluster.scheduler.kill()

            thread = threading.Thread(target=kill_scheduler)
            thread.start()
            with pytest.raises(ClusterError, match="connection to the scheduler"):
                study.run(on=cluster.address, store=place)
            thread.join()
        complete = [run for run in map(status, runs_in(place)) if run.state == "complete"]
        assert 1 <= len(complete) < 32
        (tmp_path / "others").mkdir()
        same(toy(Builder(str(tmp_path / "others")), replicates=8).run(store=place), toy(replicates=8).run())
        assert sum(built(tmp_path / "others").values()) <= 33 - len(complete) // 2

    def test_interrupted(self, tmp_path):
        """Ctrl-C reaches the whole process group: the study can be resumed, and no process is left."""
        (tmp_path / "notes").mkdir()
        code = (
            "import sys; from cases.cluster import *; from scalable_bandits.cli import app\n"
            "if __name__ == '__main__':\n"
            "    toy(Builder('notes', seconds=0.3), replicates=8).register()\n"
            "    app(['run', 'toy-study', '--on', 'local:1', '--store', 'study'])"
        )
        (tmp_path / "script.py").write_text(code)
        process = subprocess.Popen(
            [sys.executable, "script.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": PYTHONPATH}, text=True,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        until(lambda: sum(built(tmp_path / "notes").values()) >= 4)
        started = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130, said
        assert (
            "of 32 runs are complete, and the others are kept as far as they got; continue with: scalable-ban" in said
        )
        assert "Traceback" not in said
        assert len(started) >= 2  # the worker, and what keeps count of resources
        assert not psutil.wait_procs(started, timeout=60)[1]
        assert not (tmp_path / "toy-study").exists()
        same(toy(replicates=8).run(store=tmp_path / "study"), toy(replicates=8).run())
