"""One tuner of functions that fail in an environment of its own; see `benchmarks/tuners/peers/server.py`."""

from __future__ import annotations

from benchmarks.constrained.tuners import FAILING
from benchmarks.tuners.peers import TUNERS, server

if __name__ == "__main__":
    TUNERS.update(FAILING)
    server.main()
