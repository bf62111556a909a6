"""Evaluations in flight: how many, which next, what becomes of each; killed, and taken up again."""

import contextlib
import os
import threading
import time
from collections import Counter

import numpy as np
import pytest
from cases.cluster import SPACE, Deadly, by_hand, make_policy, parabola, until
from distributed import Client, LocalCluster, Status

import scalable_bandits as sb
from scalable_bandits.execution import ClusterError, Event, Execution
from scalable_bandits.runs.evaluations import Evaluating, EvaluationPlan, Evaluations
from scalable_bandits.runs.interrupts import Interrupts
from scalable_bandits.store import ObservationStore
from scalable_bandits.tickets import Ticket


class TestInFlight:
    def test_one_at_a_time_is_the_sequential_run(self):
        one, turn = sb.maximize(parabola, make_policy(), 25, parallel=1), sb.maximize(parabola, make_policy(), 25)
        np.testing.assert_array_equal(one.x, turn.x)
        np.testing.assert_array_equal(one.y, turn.y)
        assert one.best == turn.best

    def test_asks_as_soon_as_any_returns(self):
        """The first evaluation returns only when all others have: waves would never get there."""
        finished, guard, running, most = threading.Event(), threading.Lock(), [], []
        done = []

        def evaluate(x):
            with guard:
                running.append(1)
                most.append(len(running))
                first = len(most) == 1
            if first:
                assert finished.wait(60)
            with guard:
                running.pop()
                done.append(1)
                if len(done) == 19:
                    finished.set()
            return parabola(x)

        found = sb.maximize(evaluate, make_policy(), 20, parallel=4)
        assert len(found) == 20
        assert found.tickets[0].changed == max(ticket.changed for ticket in found.tickets)
        assert max(most) <= 4
        np.testing.assert_array_equal(found.x[-1], SPACE.value(found.tickets[0].candidate))

    def test_the_others_are_pending(self):
        """As by hand: the next point is chosen with the ones in flight pending, and told as they return."""
        gate, asked = threading.Barrier(3), []

        def evaluate(x):
            asked.append(float(x[0]))
            gate.wait(60)
            return parabola(x)

        sb.maximize(evaluate, make_policy(), 3, parallel=3)
        assert sorted(asked) == sorted(make_policy().ask(3)[:, 0])

    def test_five_pulls_of_one_arm_are_five_measurements(self):
        numbers = iter(range(100))
        policy = sb.RandomSearch(sb.Arms(1))
        found = sb.maximize(lambda arm: next(numbers), policy, 5, parallel=5)
        assert sorted(found.y) == [0, 1, 2, 3, 4]
        assert [ticket.candidate for ticket in found.tickets] == [0] * 5

    def test_time_is_up(self):
        """No evaluation begins then; those that run are waited for."""
        begun = []

        def evaluate(x):
            begun.append(x)
            threading.Event().wait(0.6)
            return parabola(x)

        found = sb.maximize(evaluate, make_policy(), 1000, parallel=2, seconds=0.5)
        assert len(found) == len(begun) <= 2
        assert len(sb.maximize(evaluate, make_policy(), 1000, seconds=np.float32(0.5))) <= 1

    @pytest.mark.parametrize("parallel", [None, 2])
    def test_no_time_at_all(self, parallel):
        """Nothing failed, and nothing is recommended."""
        found = sb.maximize(parabola, make_policy(), 5, seconds=1e-12, parallel=parallel)
        assert (len(found), found.tickets) == (0, ())
        assert found.best.x is None
        assert np.isnan([found.best.mean, found.best.std]).all()

    @pytest.mark.parametrize("parallel", [None, 1])
    def test_a_function_that_works_in_place(self, parallel):
        """What it does to its point is told to nobody."""

        def shifted(x):
            x -= 0.3
            return float(-(x**2).sum())

        def play(function):
            policy = sb.GPEI(sb.Box([[-1, 1]]), sb.RBF(0.4), noise=0.1, regularization=0.01)
            return sb.maximize(function, policy, 12, parallel=parallel), policy

        (found, policy), (same, _) = play(shifted), play(lambda x: shifted(x.copy()))
        np.testing.assert_array_equal(found.x, same.x)
        assert found.best == same.best
        assert policy.pending == []


class TestFailures:
    @pytest.mark.parametrize("parallel", [None, 3])
    def test_tried_again(self, parallel):
        calls = Counter()

        def evaluate(x):
            calls[float(x[0])] += 1
            if calls[float(x[0])] < 3:
                raise OSError("busy")
            return parabola(x)

        found = sb.maximize(evaluate, make_policy(), 12, parallel=parallel, retries=2)
        assert len(found) == 12
        again = [t for t in found.tickets if t.failures]
        assert again
        assert all(t.state == "done" and t.starts == t.failures + 1 and t.error == "OSError: busy" for t in again)
        assert not found.failed

    @pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
    @pytest.mark.parametrize("parallel", [1, 4])
    @pytest.mark.sampled(3)
    @pytest.mark.slow
    def test_given_up_on_a_whole_box(self, parallel, stored, tmp_path):
        """Part of the box fails: it is looked for elsewhere, in the process that saw it and in a later one."""

        def evaluate(x):
            if x[0] > 0.6:
                raise OSError("out of range")
            return float(x[0] - (x[1] - 0.4) ** 2)  # largest where it fails

        def play(budget):
            policy = sb.GPEI(sb.Box([[0, 1], [0, 1]]), sb.RBF((0.3, 0.3)), noise=0.1, regularization=0.01)
            store = tmp_path / "run.zarr" if stored else None
            return sb.maximize(evaluate, policy, budget, parallel=parallel, retries=0, store=store), policy

        found, policy = play(24)
        assert len(found) + len(found.failed) == 24
        assert len(found) >= 5
        assert found.failed
        assert (found.x[:, 0] <= 0.6).all()
        assert policy.pending == []
        asked = Counter(t.candidate for t in found.failed)
        assert max(asked.values()) <= 2 + parallel
        if stored:
            more, policy = play(48)
            assert len(more) + len(more.failed) == 48
            assert len(more) > len(found)
            assert policy.pending == []

    def test_all_fail(self):
        with pytest.raises(RuntimeError, match=r"(?s)all 6 evaluations failed.*in refuse_all.*KeyError: 'no such"):
            sb.maximize(refuse_all, make_policy(), 6, parallel=2)
        with pytest.raises(RuntimeError, match="fails at every point of the space"):
            sb.maximize(refuse_all, make_policy(sb.Grid([[0, 1]], 2)), 60, parallel=1)
        with pytest.raises(RuntimeError, match="fails at every point of the space"):
            sb.maximize(refuse_all, make_policy(sb.Points([0.1, 0.9, 0.9, 0.9])), 60, parallel=1)

    def test_all_failed_before(self, tmp_path):
        """Mended since, the function is not evaluated again within the budget: the message says what would do that."""
        works = []

        def evaluate(x):
            if not works:
                raise OSError("broken")
            return parabola(x)

        place = tmp_path / "run"
        with pytest.raises(RuntimeError, match=r"(?s)all 4 evaluations failed.*in evaluate.*broken$"):
            sb.maximize(evaluate, make_policy(), 4, store=place, parallel=2, retries=0)
        works.append(True)
        with pytest.raises(RuntimeError, match=r"(?s)all 4 .*broken.*a larger budget would evaluate it again$"):
            sb.maximize(evaluate, make_policy(), 4, store=place, parallel=2)
        assert len(sb.maximize(evaluate, make_policy(), 7, store=place, parallel=2)) == 3

    def test_answers_that_come_late_or_twice(self):
        """They change nothing."""

        class Twice(Execution):
            slots = 3

            def __init__(self):
                self.tasks, self.old = [], []

            def submit(self, key, *arguments):
                self.tasks.append(Event("done", key, parabola(*arguments)))

            def events(self, seconds=None):
                task = self.tasks.pop()
                self.old.append(task)
                return [task, task._replace(value=99.0), Event("failed", task.key, error="x"), *self.old]

        policy = make_policy()
        with Evaluations(policy) as evaluations:
            ended = list(Evaluating(evaluations, Twice(), "parabola", EvaluationPlan(budget=15), Interrupts()))
        assert len(ended) == policy.rounds == 15
        assert all(ticket.state == "done" for ticket in evaluations.tickets.values())
        assert policy.best().mean < 1.0


def refuse_all(x):
    raise KeyError("no such instrument")


class TestStored:
    def test_a_point_left_pending_is_evaluated_by_whoever_resumes(self, tmp_path):
        """Also one by one: an evaluation whose retry did not fit in the time is pending after an orderly end."""
        seen = []

        def note(x):
            seen.append(x.copy())
            return parabola(x)

        sb.maximize(note, make_policy(), 3, store=tmp_path / "run")
        with ObservationStore.open(tmp_path / "run", "a") as store:
            store.append(tickets=[Ticket(store.given, 7, x=tuple(SPACE.points([7])[0].tolist()))])
        sb.maximize(note, make_policy(), 5, store=tmp_path / "run")
        np.testing.assert_array_equal(seen[3], SPACE.points([7])[0])

    def test_tickets_are_stored(self, tmp_path):
        store = tmp_path / "run"
        calls = []

        def evaluate(x):
            calls.append(x)
            if len(calls) == 3:
                raise OSError("busy")
            return parabola(x)

        sb.maximize(evaluate, make_policy(), 6, parallel=2, retries=1, store=store)
        found = sb.maximize(evaluate, make_policy(), 9, parallel=2, retries=1, store=store)
        assert len(found) == 9
        assert [t.number for t in found.tickets] == list(range(9))
        assert Counter((t.state, t.starts, t.failures) for t in found.tickets) == {("done", 1, 0): 8, ("done", 2, 1): 1}
        assert tuple(ObservationStore.open(store).tickets.values()) == found.tickets

    def test_failures_count_when_it_goes_on(self, tmp_path):
        def evaluate(x):
            if x[0] > 0.5:
                raise OSError("broken")
            return parabola(x)

        place, space = tmp_path / "run", sb.Grid([[0, 1]], 6)
        first = sb.maximize(evaluate, make_policy(space), 10, store=place, parallel=2)
        again = sb.maximize(evaluate, make_policy(space), 16, store=place, parallel=2)
        assert first.failed
        assert len(again.tickets) == 16
        assert len(again) + len(again.failed) == 16
        left_out = [c for c, n in Counter(t.candidate for t in first.failed).items() if n >= 2]
        assert not {t.candidate for t in again.tickets[10:]} & set(left_out)


class TestOnACluster:
    @pytest.mark.slow
    def test_evaluations_on_workers(self, client, tmp_path):
        """Each has its own key, so that equal points are measured anew; all workers take part."""
        found = sb.maximize(measured_anew, sb.RandomSearch(sb.Arms(2)), 16, on=client, store=tmp_path / "run")
        assert len(set(found.y)) == 16
        assert len({ticket.where for ticket in found.tickets}) == 2
        assert {(ticket.state, ticket.starts) for ticket in found.tickets} == {("done", 1)}

    @pytest.mark.slow
    def test_a_large_function_is_sent_once(self, client):
        """Thirty megabytes in it; a warning of Dask would fail this test."""
        table = np.zeros(4_000_000)
        found = sb.maximize(lambda x: float(x[0] + table[0]), make_policy(), 12, on=client, parallel=4)
        assert len(found) == 12

    def test_errors_come_back_with_their_traceback(self, client):
        with pytest.raises(RuntimeError, match=r"(?s)in refuse_all.*KeyError: 'no such instrument'"):
            sb.maximize(refuse_all, make_policy(), 3, on=client)

    def test_what_cannot_be_sent(self, client):
        lock = threading.Lock()
        with pytest.raises(ClusterError, match="cannot be sent to other processes"):
            sb.maximize(lambda x: lock and 1.0, make_policy(), 3, on=client)

    @pytest.mark.slow
    def test_a_worker_dies(self, client, tmp_path):
        """Its evaluation is lost, and runs again elsewhere by itself."""
        (tmp_path / "calls").mkdir()
        found = sb.maximize(Deadly(tmp_path / "calls"), make_policy(), 14, on=client, store=tmp_path / "run")
        assert len(found) == 14
        tickets = ObservationStore.open(tmp_path / "run").tickets.values()
        assert sum(ticket.starts > 1 for ticket in tickets) >= 1
        assert all(ticket.state == "done" for ticket in tickets)
        until(lambda: len(client.nthreads()) == 2)  # its nanny has made a new one

    @pytest.mark.long
    def test_a_point_that_ends_its_worker_at_once(self, tmp_path):
        """Before the report of its start has left: it is begun eight times at most, Dask's four and once again."""
        calls = tmp_path / "calls"

        def deadly(setting):
            if setting["a"] == 2:
                with calls.open("a") as file:
                    file.write("x")
                os._exit(1)
            return float(setting["a"])

        found = sb.minimize(deadly, {"a": [3, 2, 1]}, 3, on="local:1", retries=0, parallel=1)
        assert (len(found), len(found.failed)) == (2, 1)
        assert len(calls.read_text()) <= 8

    @pytest.mark.slow
    def test_a_deadly_point_and_a_late_worker(self, tmp_path):
        """One point kills whatever evaluates it: given up, the others go on; then on a worker that came late.

        The workers of the beginning take no more evaluations once it is there, and finish those that they have.
        """
        (tmp_path / "calls").mkdir()
        gate, late = tmp_path / "gate", []
        deadly = Deadly(tmp_path / "calls", at=near_the_best, gate=str(gate))
        with by_hand(tmp_path / "cluster", 4) as cluster:

            def come_late():
                until(lambda: len(list((tmp_path / "calls").iterdir())) == 22)  # two wait at the gate
                with Client(cluster.address, set_as_default=False) as client:
                    early = set(client.nthreads())
                    client.run(pause)
                    cluster.worker()
                    until(lambda: len(client.nthreads()) == len(early) + 1)
                    late.extend(set(client.nthreads()) - early)
                    until(lambda: {each for each, status in statuses(client).items() if status == "paused"} == early)
                gate.touch()

            thread = threading.Thread(target=come_late)
            thread.start()
            policy = make_policy(sb.Grid([[0, 1]], 5))
            found = sb.maximize(deadly, policy, 60, on=cluster.address, parallel=2, store=tmp_path / "run")
            thread.join()
        assert {ticket.candidate for ticket in found.failed} == {1}
        assert 1 <= len(found.failed) <= 3
        assert "KilledWorker" in found.failed[0].error
        assert len(found) == 60 - len(found.failed)
        first, last = ({ticket.where for ticket in part} for part in (found.tickets[:20], found.tickets[22:]))
        assert {where.split()[0] for where in last} == set(late)
        assert not first & last

    @pytest.mark.slow
    def test_room_that_comes_late(self):
        """As many in flight as the workers have room for: three, once two more have come."""
        with in_threads(1) as client:

            def come():
                until(lambda: MEETING.n_waiting)
                client.cluster.scale(3)

            thread = threading.Thread(target=come)
            thread.start()
            found = sb.maximize(meet, make_policy(), 3, on=client, retries=0)
            thread.join()
        assert len(found) == 3

    @pytest.mark.slow
    def test_a_worker_of_several_in_a_process_leaves(self):
        """The others keep what they need."""
        with in_threads(2) as client:

            def leave():
                until(lambda: len(WALKED) >= 3)
                client.retire_workers(list(client.nthreads())[:1], close_workers=True)

            thread = threading.Thread(target=leave)
            thread.start()
            found = sb.maximize(walk, make_policy(), 40, on=client, retries=0)
            thread.join()
            assert len(client.nthreads()) == 1
        assert len(found) == 40

    @pytest.mark.slow
    def test_the_scheduler_is_lost(self, tmp_path):
        """An error that says so; the store has what was told, and the run goes on without the cluster."""
        place = tmp_path / "run"
        (tmp_path / "calls").mkdir()
        with by_hand(tmp_path / "cluster", 2) as cluster:
            slow = Deadly(tmp_path / "calls", at=never)

            def kill_scheduler():
                until(lambda: len(list((tmp_path / "calls").iterdir())) >= 12)
                cluster.scheduler.kill()

            thread = threading.Thread(target=kill_scheduler)
            thread.start()
            with pytest.raises(ClusterError, match=r"connection to the scheduler at tcp://127.0.0.1:.* was lost"):
                sb.maximize(slow, make_policy(), 500, on=cluster.address, store=place)
            thread.join()
        before = len(ObservationStore.open(place))
        assert 8 <= before < 500
        found = sb.maximize(slow, make_policy(), before + 6, parallel=2, store=place)
        assert len(found) == before + 6


@contextlib.contextmanager
def in_threads(count):
    """Client of workers in threads of this process."""
    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


MEETING = threading.Barrier(3)
WALKED = []


def meet(x):
    """Returns when two others are in flight too."""
    MEETING.wait(60)
    return parabola(x)


def walk(x):
    WALKED.append(x)
    time.sleep(0.02)
    return parabola(x)


def pause(dask_worker):
    dask_worker.status = Status.paused


def statuses(client):
    """Of the workers, as the scheduler sees them."""
    return {address: found["status"] for address, found in client.scheduler_info(n_workers=-1)["workers"].items()}


def near_the_best(x):  # which is asked for among the first, in whatever order values come
    return abs(x[0] - 0.3) < 0.1


def never(x):
    return False


def measured_anew(arm):
    return float(np.random.default_rng().random())
