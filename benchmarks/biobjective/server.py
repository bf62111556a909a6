"""One tuner with two objectives in an environment of its own; see `benchmarks/tuners/peers/server.py`."""

from __future__ import annotations

from benchmarks.biobjective.tuners import PEERS
from benchmarks.tuners.peers import TUNERS, server

if __name__ == "__main__":
    TUNERS.update(PEERS)
    server.main()
