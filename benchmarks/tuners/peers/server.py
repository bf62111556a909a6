"""One tuner in an environment of its own: questions come as lines of JSON, answers go out as such.

    hello (tuner) -> name and version of its package
    make (tuner, parameters, seed, budget), ask (), tell (x, y), recommend () -> what the tuner returns
    an answer has "result" or "error", and "cpu_seconds" of the process

What the packages print goes to the standard error stream.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
import time
import warnings
from typing import Any

from benchmarks.tuners.intervals import Interval, Parameters
from benchmarks.tuners.peers import TUNERS


def packed(parameters: Parameters) -> list[list[Any]]:
    """Return parameters as JSON can have them."""
    return [[name, isinstance(each, tuple), list(each)] for name, each in parameters.items()]


def unpacked(given: list[list[Any]]) -> Parameters:
    """Return the parameters again."""
    return {name: Interval(*each) if interval else each for name, interval, each in given}


def version_of(kind: Any) -> str:
    """Return name and version of the package of a class of tuners, the first of its requirements."""
    package = re.split(r"[\[<>=!]", kind.requirements[0])[0]
    return f"{package} {importlib.metadata.version(package)}"


class Server:
    """Holds the tuner that was made last."""

    def __init__(self) -> None:
        self.tuner: Any = None

    def hello(self, tuner: str) -> str:
        return version_of(TUNERS[tuner])

    def make(self, tuner: str, parameters: list[list[Any]], seed: int, budget: int) -> None:
        self.tuner = TUNERS[tuner](unpacked(parameters), seed, budget)

    def ask(self) -> Any:
        return self.tuner.ask()

    def tell(self, x: Any, y: float) -> None:
        self.tuner.tell(x, y)

    def recommend(self) -> Any:
        return self.tuner.recommend()

    def answer(self, step: str, *arguments: Any) -> dict[str, Any]:
        """Return the answer to a question; errors of the packages, of any kind, are answers."""
        try:
            answer = {"result": getattr(self, step)(*arguments)}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        return {**answer, "cpu_seconds": time.process_time()}


def main() -> None:
    """Answer the lines of the standard input stream, until it ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    server = Server()
    for line in sys.stdin:
        print(json.dumps(server.answer(*json.loads(line)), default=lambda number: number.item()), file=out)


if __name__ == "__main__":
    main()
