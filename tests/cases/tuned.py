"""A run of `minimize` in a process of its own: ``python tuned.py STORE LOG PARALLEL ON BUDGET``."""

import sys
import time
from pathlib import Path

import dask
from distributed.utils import get_mp_context

import scalable_bandits as sb

SPACE = {
    "depth": sb.Integer(0, 12),
    "rate": sb.Real(1e-3, 1e-1, log=True),
    "kind": sb.Categorical(["plain", "other"]),
}
SECONDS = 0.05


class Loss:
    """A function that writes down every call, takes a while, and fails for some settings."""

    def __init__(self, log, seconds=SECONDS):
        self.log, self.seconds = str(log), seconds

    def __call__(self, setting):
        with Path(self.log).open("a") as log:
            log.write(f"{setting['depth']} {setting['rate']!r} {setting['kind']}\n")
        time.sleep(self.seconds)
        if setting["depth"] > 9:
            raise MemoryError(f"too deep: {setting['depth']}")
        return (setting["depth"] - 4.0) ** 2 + abs(setting["rate"] - 0.01) + (setting["kind"] == "other")


def play(store, log, parallel, on, budget, seconds=SECONDS):
    return sb.minimize(Loss(log, seconds), SPACE, budget, store=store, parallel=parallel, on=on)


if __name__ == "__main__":
    place, written, number, where, count = sys.argv[1:]
    if where != "here":  # workers are forked, also in the place of those that die
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
        get_mp_context().set_forkserver_preload(["distributed", "scalable_bandits.runs.simulate"])
    found = play(place, written, int(number) or None, None if where == "here" else where, int(count))
    print(len(found), len(found.failed), found.interrupted, flush=True)
