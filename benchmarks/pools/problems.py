"""Pools of published data: molecules, and tables of tuned networks.

The molecules are in a file that `molecules.py` writes, in the environment of the packages that it needs; see `FILE`.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import scalable_bandits as sb
from benchmarks.tuners.peers.apart import folder, python_of
from scalable_bandits.checks import Floats
from scalable_bandits.environments.published.hpo import HPOLib, HPOTable, NASBench201

FILE = "molecules-{share}-{label}.npz"  # in the folder of the environments
LABELS = ("QED", "penalised logP", "rare groups")
SHARE = 0.001  # of the pool that is a batch, and of the best that are counted
SCORED = {0.003: 3, 0.01: 10, 0.024: 24}  # batches after which they are counted, by the share that was measured
CHUNK = 16_384


class Problem(NamedTuple):
    """Candidates with their values, of which larger ones are better."""

    bits: NDArray[np.uint8] | None  # (n, bytes) packed fingerprints
    x: Floats | None  # (n, d) coordinates
    values: Floats  # (n,)

    @property
    def batch(self) -> int:
        """Number of candidates in a batch."""
        return max(int(len(self.values) * SHARE), 1)

    def share_of_best(self, chosen: list[int]) -> float:
        """Return the share of the best candidates that are among those chosen; of tied ones any count."""
        count = self.batch
        last = np.sort(self.values)[-count]
        better, y = np.count_nonzero(self.values > last), self.values[chosen]
        found = np.count_nonzero(y > last) + min(np.count_nonzero(y == last), count - better)
        return float(found / count)

    def pool(self, path: str) -> sb.Pool:
        """Write the candidates, and return them as a pool."""
        rows = self.x if self.bits is None else self.bits
        return sb.Pool.write(path, rows, packed=self.bits is not None, chunk=CHUNK, progress=False)

    def save(self, path: Path, batches: int) -> None:
        """Write what another package's environment reads."""
        candidates: dict[str, Any] = {"x": self.x} if self.bits is None else {"bits": self.bits}
        np.savez(path, y=self.values, batches=np.full(batches, self.batch), **candidates)


@functools.lru_cache(maxsize=1)
def _of_molecules(label: str, share: float) -> Problem:
    path = folder() / FILE.format(share=share, label=label)
    if not path.exists():
        venv.create(folder() / "molecules", with_pip=True)
        for words in (["-m", "pip", "install", "rdkit"], ["-m", "pip", "install", "--no-deps", "molsets"]):
            subprocess.run([str(python_of("molecules")), *words], check=True)
        program = Path(__file__).with_name("molecules.py")
        with tempfile.TemporaryDirectory(dir=folder()) as temporary:
            made = Path(temporary, path.name)
            subprocess.run([str(python_of("molecules")), str(program), str(made), str(share), label], check=True)
            os.replace(made, path)
    with np.load(path) as held:
        return Problem(held["bits"], None, held["values"])


def _of_table(kind: type[HPOTable], name: str) -> Problem:
    """A table without its noise; unordered categories are columns of 0 and 1."""
    options: dict[str, Any] = {"log": True} if kind.LOSS else {}
    made = kind(name, repeats=False, arms=True, **options)
    points = made.space.points(np.arange(made.space.size))
    x = made.space.encode(points)
    unordered = made.space.unordered
    columns = [x[:, [k]] == np.unique(x[:, k]) if k in unordered else x[:, [k]] for k in range(x.shape[1])]
    return Problem(None, np.hstack(columns).astype(np.float64), np.asarray(made.mean(points)))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    **{f"MOSES tenth, {label}": functools.partial(_of_molecules, label, 0.1) for label in LABELS},
    **{f"HPOLib {name}": functools.partial(_of_table, HPOLib, name) for name in HPOLib.TABLES},
    **{f"NAS-Bench-201 {name}": functools.partial(_of_table, NASBench201, name) for name in NASBench201.TABLES},
    **{f"MOSES, {label}": functools.partial(_of_molecules, label, 1.0) for label in LABELS},
}
