"""One tuner with constraints in an environment of its own; see `benchmarks/tuners/peers/server.py`."""

from __future__ import annotations

from benchmarks.constrained.tuners import PEERS
from benchmarks.tuners.peers import TUNERS, server

if __name__ == "__main__":
    TUNERS.update(PEERS)
    server.main()
