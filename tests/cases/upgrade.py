"""The runs of the kept stores; run as a script by an earlier version it makes those of schema 1."""

import contextlib
import functools
import sys
from pathlib import Path

import numpy as np
import zarr

import scalable_bandits as sb
from scalable_bandits.runs import evaluations, recording

CHUNK, ROUNDS = 16, 41
SPACE = sb.Grid([[0, 1], [0, 1]], [5, 4])
VALUES = [((i * 7) % 20) / 20 for i in range(20)]


def policy(**options):
    return sb.IGPUCB(SPACE, sb.RBF(0.4), **{"noise": 0.1, "regularization": 0.01, "seed": 5, **options})


def environment():
    return sb.TableEnvironment(SPACE, VALUES, sb.GaussianNoise(0.1), seed=3)


def measured(x, t):
    """What is told in round t: a number without last bits of anybody's arithmetic."""
    return round(4 * float(x[0])) / 4 - ((t * 7) % 5) / 8


def tell(asked, rounds):
    """Ask and tell up to so many rounds."""
    while asked.rounds < rounds:
        asked.tell(asked.ask(), measured(asked.pending[0], asked.rounds))


def function(x):
    """A user's function, which fails in a corner."""
    if x[0] < 0.2 and x[1] < 0.2:
        raise ZeroDivisionError
    return -float((x[0] - 0.5) ** 2)


function.__module__ = "upgrade_cases"  # as in the stores that are kept


def objects(path):
    """A zarr store of objects that are put whole."""
    from obstore.store import LocalStore

    return zarr.storage.ObjectStore(LocalStore(path, mkdir=True))


def make(folder):
    """The stores, with small chunks."""
    recording.open_run = functools.partial(recording.open_run, chunk=CHUNK)
    recording.Checkpoints.spent = lambda self, seconds: self.save()
    asked = policy()
    held = sb.record(asked, folder / "schema1-record.zarr")
    tell(asked, ROUNDS)
    asked.ask()
    held.store._journal.close()  # and the process dies
    held.store.location.unlock()
    sb.simulate(policy(), environment(), ROUNDS, store=objects(folder / "schema1-objects.zarr"))
    end, ended = evaluations.Flight._end, []

    def ending(flight):
        end(flight)
        ended.append(1)
        if len(ended) == ROUNDS:
            raise KeyboardInterrupt

    evaluations.Flight._end = ending
    with contextlib.suppress(KeyboardInterrupt):
        sb.maximize(function, policy(), 60, parallel=2, retries=0, store=folder / "schema1-maximize.zarr")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
    np.testing.assert_equal(len(list(Path(sys.argv[1]).glob("*.zarr"))), 3)
