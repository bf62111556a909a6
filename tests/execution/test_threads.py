"""`on="threads:2"`: two calls at the same time in this process, and the same numbers."""

import threading
import time

import pytest
from cases.cluster import make_policy, parabola, toy, until
from studies.test_cluster_studies import same

import scalable_bandits as sb
from scalable_bandits.execution import connect, executing, resolve
from scalable_bandits.posteriors.placement import cores, threads_of
from scalable_bandits.studies import Study


class TestThreads:
    def test_no_more_than_asked_for(self):
        """No more threads than requested; tasks that wait for one are forgotten at the end."""
        started, go = [], threading.Event()

        def wait(number):
            started.append(number)
            go.wait()

        with executing("threads:2", wait, "wait") as execution:
            for number in range(6):
                execution.submit(f"wait-{number}", number)
            until(lambda: len(started) == 2)
            time.sleep(0.1)
            threads = [each for each in threading.enumerate() if each.name.startswith("wait-")]
            assert len(threads) == 2
        go.set()
        until(lambda: not any(thread.is_alive() for thread in threads))
        assert sorted(started) == [0, 1]

    @pytest.mark.parametrize(
        ("on", "count"),
        [("threads:4", 4), ("threads:12", 12), ("threads", cores()), ("threads:0", None), ("threads:", None),
         ("threads:-1", None), ("threads:4.0", None), ("local:4", None), (None, None), (4, None)],
    )  # fmt: skip
    def test_names(self, on, count):
        assert threads_of(on) == count

    def test_no_cluster(self):
        """Threads have no client of a cluster."""
        resolve("threads:4")
        with (
            pytest.raises(ValueError, match=r"^on: got 'threads:4'; allowed: a cluster: 'local:4'"),
            connect("threads:4"),
        ):
            pass

    def test_an_evaluation_on_each(self):
        """Two evaluations at the same time, each of which waits for the other."""
        meet = threading.Barrier(2, timeout=60)

        def measured(x):
            meet.wait()
            return parabola(x)

        found = sb.maximize(measured, make_policy(), 6, parallel=2, on="threads:2")
        assert len(found) == 6
        assert not found.failed
        assert len(sb.maximize(measured, make_policy(), 6, on="threads:2")) == 6  # one evaluation a thread

    @pytest.mark.slow
    def test_studies(self, tmp_path):
        """The same numbers in a store and in memory, also with BLAS."""
        same(toy().run(on="threads:2", store=tmp_path / "study"))
        same(toy().run(on="threads:3"))
        study, given = Study.load("srinivas2010-synthetic"), {"replicates": 2, "horizon": 40}
        same(study.run(**given, on="threads:2"), study.run(**given))
