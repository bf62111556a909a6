"""Schedulers and workers started by hand on loopback, and what is played on them."""

import contextlib
import importlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
import psutil
from distributed.utils import get_mp_context

import scalable_bandits as sb
from cases.paths import PYTHONPATH
from cases.studies import arms
from scalable_bandits.execution.clusters import local
from scalable_bandits.studies import Study

QUIET = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False",  # nor is a worker that a test paused set going again
}


def be(what, arguments, environment, log):
    """Be what ``dask WHAT`` starts, in a process that was forked off."""
    with Path(log).open("ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    os.environ.update(environment)
    dask.config.refresh()
    importlib.import_module(f"distributed.cli.dask_{what}").main(arguments)


class ByHand:
    """``dask scheduler`` and ``dask worker``, as a user types them.

    Their processes are forked from one that has imported everything; those of a worker with options are really started.
    """

    def __init__(self, folder, *options, scheme="tcp"):
        self.folder, self.options, self.scheme = folder, options, scheme
        self.file = folder / "scheduler.json"
        self.environment = {**os.environ, **QUIET, "PYTHONPATH": PYTHONPATH}
        self.processes, self.ends = [], []
        self.scheduler = self._start(
            "scheduler", "--host", f"{scheme}://127.0.0.1", "--port", "0", "--no-dashboard", "--no-show",
            "--dashboard-address", "127.0.0.1:0",
        )  # fmt: skip
        until(lambda: self.file.exists() and self.file.read_text())  # it is made, then written

    def _start(self, what, *arguments, fork=True):
        words, path = [*arguments, *self.options, "--scheduler-file", str(self.file)], self.folder / f"{what}.log"
        if fork:
            with forked():
                process = get_mp_context().Process(target=be, args=(what, words, self.environment, path))
                process.start()
            self.ends.append(process.join)
        else:
            with path.open("ab") as log:
                command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words]
                process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
            self.ends.append(process.wait)
        self.processes.append(process)
        return process

    def worker(self, *arguments):
        """Start one more worker of one thread, without a nanny: what dies stays dead."""
        return self._start(
            "worker", "--nthreads", "1", "--no-nanny", "--host", f"{self.scheme}://127.0.0.1", "--no-dashboard",
            *arguments, fork=not arguments,
        )  # fmt: skip

    @property
    def address(self):
        return json.loads(self.file.read_text())["address"]


@contextlib.contextmanager
def by_hand(folder, workers=1, *options, scheme="tcp"):
    """A cluster that is gone afterwards."""
    folder.mkdir(exist_ok=True)
    cluster = ByHand(folder, *options, scheme=scheme)
    try:
        for _ in range(workers):
            cluster.worker()
        yield cluster
    finally:
        for process in cluster.processes:
            process.kill()
        for end in cluster.ends:
            end()


def running(pid):
    """Whether a process is there and has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def until(condition, seconds=300):
    """Wait for something to become true."""
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop, "it never came"
        time.sleep(0.02)


def until_it_works(function, *arguments):
    """Call a function until it raises no ConnectionError."""
    while True:
        with contextlib.suppress(ConnectionError):
            return function(*arguments)


# ---- workers that are killed, and come back


@contextlib.contextmanager
def forked():
    """Worker processes are forked from one that has imported everything: they are there, and back, ten times sooner."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "scalable_bandits.runs.simulate", "cases.cluster"])
        yield


class Standing:
    """A cluster of four worker processes, which come back when they are killed; a new one where they do not."""

    def __init__(self):
        self.stack = self.client = None

    def __call__(self):
        if self.client is not None:
            try:
                self.client.cluster.scale(4)  # in the place of nannies that gave up
                self.client.wait_for_workers(4, timeout=300)
                until(self.complete)  # and none of these was killed a moment ago, which the scheduler has not seen yet
            except (TimeoutError, AssertionError):
                self.close()
        if self.client is None:
            self.stack = contextlib.ExitStack()
            self.client = self.stack.enter_context(local(4))
        return self.client

    def complete(self):
        """Whether four workers run, and the scheduler knows these."""
        there, nannies = self.client.nthreads(), list(self.client.cluster.workers.values())
        return len(there) == len(nannies) == 4 and all(
            nanny.worker_address in there and nanny.pid and running(nanny.pid) for nanny in nannies
        )

    def close(self):
        if self.client is not None:
            with contextlib.suppress(KeyError):  # of distributed, where a killed worker is taken off its list twice
                self.stack.close()
        self.client = None


class Killer:
    """Kills workers at random rounds, just before a round or in the middle of it."""

    def __init__(self, client, seed, horizon, kills=5):
        self.client, self.random = client, random.Random(seed)
        self.aimed = set()
        self.rounds = set(self.random.sample(range(2, horizon), kills))
        self.killed = []
        self.threads = []
        self.patience = 0.0

    def __call__(self, t):
        if t not in self.rounds:
            return
        self.patience = time.monotonic() + 5.0
        while len(alive := self.pids()) < 2:  # one that is left keeps the run going while the others come back
            time.sleep(0.05)
            if time.monotonic() > self.patience:  # nannies whose workers die as they start give up
                self.client.cluster.scale(4)
                self.patience = time.monotonic() + 5.0
        pid = self.random.choice(alive)
        self.aimed.add(pid)
        delay = self.random.choice([0.0, 0.001, 0.003])
        thread = threading.Thread(target=self.kill, args=(pid, delay))
        thread.start()
        self.threads.append(thread)
        if not delay:
            thread.join()

    def pids(self):
        """Of the workers that are there."""
        nannies = self.client.cluster.workers.values()
        there = self.client.nthreads()
        alive = [nanny.pid for nanny in nannies if nanny.pid and nanny.worker_address in there]
        return [pid for pid in alive if pid not in self.aimed]

    def kill(self, pid, delay):
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)

    def ended(self):
        """Who was killed, once all are gone: on a busy machine a process is seen running for a while after its end."""
        for thread in self.threads:
            thread.join()
        until(lambda: not any(map(running, self.killed)))
        assert len(self.killed) == len(set(self.killed))
        return self.killed


def free_port():
    """A port of loopback that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


# ---- functions to maximise

SPACE = sb.Grid([[0, 1]], 40)


def make_policy(space=SPACE, **options):
    return sb.GPEI(space, sb.RBF(0.2), noise=0.1, regularization=0.01, **options)


def parabola(x):
    return -float((x[0] - 0.3) ** 2)


class Deadly:
    """Kills the process that calls it: once, or whenever it is called at some point.

    From the 20th call on it waits for a file, if one is given, and is harmless.
    """

    def __init__(self, folder, at=None, gate=None):
        self.folder, self.at, self.gate = str(folder), at, gate

    def __call__(self, x):
        number = len(list(Path(self.folder).iterdir()))
        (Path(self.folder) / f"{time.time_ns()}-{os.getpid()}").touch()
        time.sleep(0.05)
        if self.gate is not None and number >= 20:
            until(Path(self.gate).exists)
        elif number == 5 if self.at is None else self.at(x):
            os.kill(os.getpid(), signal.SIGKILL)
        return parabola(x)


# ---- studies


class Builder:
    """Arms by the replicate's seed; notes in a folder what is built where, and may go wrong there."""

    def __init__(self, folder=None, wrong=None, once=True, seconds=0.0):
        self.folder, self.wrong, self.once, self.seconds = folder, wrong, once, seconds

    def __call__(self, replicate):
        if self.folder is not None:
            (Path(self.folder) / f"{replicate.case}{replicate.number}-{os.getpid()}-{time.time_ns()}").touch()
            time.sleep(self.seconds)
        if self.wrong is not None and (replicate.case, replicate.number) == ("b", 1):
            marker = Path(self.folder) / "wrong"
            if not (self.once and marker.exists()):
                marker.touch()
                self.wrong()
        return arms(replicate, "u c b")


def raises():
    raise LookupError("the instrument is off")


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def toy(builder=None, **changes):
    """Two cases, two policies, three replicates of twelve rounds."""
    given = {
        "name": "toy-study", "title": "A toy", "source": "nowhere", "cases": ("a", "b"), "build": builder or Builder(),
        "horizon": 12, "replicates": 3, "duration": "no time",
    }  # fmt: skip
    return Study(**{**given, **changes})
