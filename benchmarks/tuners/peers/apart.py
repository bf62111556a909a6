"""Tuners in environments of their own, each in another process that answers lines of JSON.

One environment for each tuner: what they need does not fit together.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import tempfile
import time
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.tuners.intervals import Parameters, Setting
from benchmarks.tuners.peers import TUNERS, is_here
from benchmarks.tuners.peers.base import NotItsKind
from benchmarks.tuners.peers.server import packed, version_of

ROOT = Path(__file__).parents[3]
SERVER = "benchmarks.tuners.peers.server"  # module that answers
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class PeerError(RuntimeError):
    """What a tuner raised in its own environment, or that its process ended."""


def folder() -> Path:
    """Return the folder of the environments: SCALABLE_BANDITS_PEERS, or one in the user's cache directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("SCALABLE_BANDITS_PEERS") or cache / "scalable_bandits" / "peers")


def python_of(tuner: str) -> Path:
    """Return the path of the interpreter of a tuner's environment, which may not be there."""
    return folder() / tuner / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(tuner: str) -> str:
    """Make the environment of a tuner, anew if there is one, and return the version of its package.

    Raises
    ------
    PeerError
        If the package cannot be installed, or not imported.
    """
    venv.create(folder() / tuner, clear=True, with_pip=True)
    needs = TUNERS[tuner]
    for words in (["-m", "pip", "install", *needs.requirements], ["-c", f"import {', '.join(needs.modules)}"]):
        command, elsewhere = [str(python_of(tuner)), *words], tempfile.gettempdir()
        done = subprocess.run(command, capture_output=True, text=True, cwd=elsewhere, check=False)
        if done.returncode:
            raise PeerError(f"{tuner}: {done.stderr.strip().splitlines()[-1]}")
    return Process(tuner).version


class Process:
    """Process of a tuner's environment.

    Parameters
    ----------
    tuner
        Name of the tuner.
    server
        Module that answers.

    Attributes
    ----------
    cpu_seconds : float
        CPU time of the process, at its last answer.
    version : str
        Name and version of the package.
    """

    def __init__(self, tuner: str, server: str = SERVER) -> None:
        self.tuner, self.server, self.cpu_seconds = tuner, server, 0.0
        variables = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
        self._process = subprocess.Popen(
            [str(python_of(tuner)), "-m", server], env=variables, cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
        )  # fmt: skip
        atexit.register(self.end)
        self.version: str = self.asked("hello", tuner)

    def asked(self, step: str, *arguments: Any) -> Any:
        """Return the answer to a question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([step, *arguments]) + "\n")
            answer = json.loads(self._process.stdout.readline() or "null")
        except BrokenPipeError:
            answer = None
        if answer is None:
            raise PeerError(f"{self.tuner}: its process ended with status {self._process.wait()}")
        self.cpu_seconds = answer["cpu_seconds"]
        if answer.get("error") == NotItsKind.__name__:
            raise NotItsKind(answer["message"])
        if "error" in answer:
            raise PeerError(f"{answer['error']}: {answer['message']}")
        return answer["result"]

    @property
    def ended(self) -> bool:
        """Whether the process is no more."""
        return self._process.poll() is not None

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


class Apart:
    """A tuner whose process answers; a process has one tuner at a time.

    Parameters
    ----------
    process
        Process of its environment.
    parameters, seed, budget
        What tuners are made of.
    """

    def __init__(self, process: Process, parameters: Parameters, seed: int, budget: int) -> None:
        self._process = process
        process.asked("make", process.tuner, packed(parameters), seed, budget)

    def ask(self) -> Setting:
        return dict(self._process.asked("ask"))

    def tell(self, x: Setting, y: float) -> None:
        self._process.asked("tell", x, y)

    def recommend(self) -> Setting:
        return dict(self._process.asked("recommend"))


_STARTED: list[Process] = []


def process_of(tuner: str, server: str = SERVER) -> Process:
    """Return the process of a tuner in which a module answers, which is started once, and again when it has ended."""
    found = next((each for each in _STARTED if (each.tuner, each.server) == (tuner, server) and not each.ended), None)
    if found is None:
        found = Process(tuner, server)
        _STARTED.append(found)
    return found


def cpu_seconds() -> float:
    """Return the CPU time of this process and of the tuners' own ones."""
    return time.process_time() + sum(each.cpu_seconds for each in _STARTED)


def is_missing(tuner: str) -> bool:
    """Whether a tuner is installed neither here nor in an environment of its own."""
    return not (is_here(tuner) or python_of(tuner).exists())


def make(tuner: str, parameters: Any, seed: int, budget: int, keywords: Mapping[str, Any]) -> Any:
    """Make a tuner, here or in its own environment.

    Parameters
    ----------
    tuner
        Name of the tuner.
    parameters
        Parameters, for this package's tuner also a space.
    seed, budget
        Seed, and number of evaluations.
    keywords
        Further arguments, of this package's tuner.
    """
    if is_here(tuner):
        return TUNERS[tuner](parameters, seed, budget, **keywords)
    return Apart(process_of(tuner), parameters, seed, budget)


def version(tuner: str) -> str:
    """Return name and version of the tuner's package."""
    return version_of(TUNERS[tuner]) if is_here(tuner) else process_of(tuner).version
