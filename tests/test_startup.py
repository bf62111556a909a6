"""Startup: importing the package is light and compiles nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from numba.core import caching

import scalable_bandits
from scalable_bandits import _numba_compile

HEAVY = {"dask", "distributed", "zarr", "matplotlib", "xarray", "pandas", "rich", "typer", "sklearn", "optuna"}
HEAVY |= {"scipy.stats"}  # a third of what every process would spend on its start


def fresh(code: str) -> list[str]:
    """Words that a new interpreter prints; with compilation on, whatever these tests run under."""
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_DISABLE_JIT"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


def test_compiles_nothing_and_brings_nothing_heavy_in() -> None:
    """After the import no numba function has been compiled, nor loaded, for any types; there are many.

    Neither the import nor a policy's rounds need what only studies, stores and pictures do.
    """
    code = """
import sys
import scalable_bandits as sb
from numba.core.dispatcher import Dispatcher
held = {
    id(value): value
    for name, module in list(sys.modules.items()) if name.startswith("scalable_bandits")
    for value in vars(module).values() if isinstance(value, Dispatcher)
}
print(len(held), ",".join(value.__name__ for value in held.values() if value.signatures) or "none")
p = sb.IGPUCB(sb.Grid([[0, 1]], 9), sb.RBF(0.2))
p.tell(p.ask(), 1.0)
s = sb.Arms(3)
sb.simulate(sb.RandomSearch(s), sb.TableEnvironment(s, [1.0, 2.0, 3.0]), 5)
print(*sys.modules)
"""
    count, compiled, *modules = fresh(code)
    assert int(count) > 10
    assert compiled == "none"
    loaded = set(modules)
    assert {"numpy", "scalable_bandits"} <= loaded
    assert loaded.isdisjoint(HEAVY)


def test_public_names() -> None:
    """Every name in `__all__` is there, also the ones that come when they are used; others say so."""
    names = scalable_bandits.__all__
    assert [name for name in names if getattr(scalable_bandits, name, None) is None] == []
    assert len(set(names)) == len(names)
    name = "nothing"
    with pytest.raises(AttributeError, match=name):
        getattr(scalable_bandits, name)


def test_version() -> None:
    """One version, that of the installed distribution."""
    assert scalable_bandits.__version__ == version("scalable_bandits")


def test_functions_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numba finds no folder that can be written, functions are compiled all the same; one warning says so."""

    def unwritable(self: object) -> None:
        raise PermissionError

    _numba_compile._warn.cache_clear()
    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", unwritable)
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR to a folder") as said:
        compiled = [_numba_compile.njit(cache=True, nogil=True)(function) for function in (abs_difference, maximum)]
    assert len(said) == 1
    assert [each(2, 5) for each in compiled] == [3, 5]


def abs_difference(a: int, b: int) -> int:
    return abs(a - b)


def maximum(a: int, b: int) -> int:
    return max(a, b)


@pytest.mark.slow
def test_no_folder_can_be_written(tmp_path: Path) -> None:
    """Neither the package's, whose `__pycache__` are files here, nor a cache folder: no home, none named."""
    copied = tmp_path / "scalable_bandits"
    shutil.copytree(Path(scalable_bandits.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (copied, *filter(Path.is_dir, copied.rglob("*"))):
        (folder / "__pycache__").touch()
    environment = {"PATH": os.environ["PATH"], "HOME": os.devnull, "PYTHONPATH": str(tmp_path), "NUMBA_OPT": "0"}
    code = """
import scalable_bandits as sb
s = sb.Arms(3)
run = sb.simulate(sb.RandomSearch(s), sb.TableEnvironment(s, [1.0, 2.0, 3.0]), 5)
print(sb.__file__, len(run))
"""
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == [str(copied / "__init__.py"), "5"]
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1
