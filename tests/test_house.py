"""Rules of the package that no linter knows; those of imports are contracts in `pyproject.toml` (`lint-imports`)."""

import ast
import functools
import re
import tomllib
from pathlib import Path

from cases.paths import ROOT

import scalable_bandits

PACKAGE = Path(scalable_bandits.__file__).parent
COMPILED = (  # how: from the cache, beside other threads; sums and products fused or not, but never rearranged
    "njit(cache=True, nogil=True)",
    "njit(cache=True, nogil=True, forceinline=True)",  # steps of loops: a call would copy and count their arrays
    "njit(cache=True, nogil=True, fastmath={'contract'})",
    "intrinsic",  # from an address to a pointer
)
DRAWERS = {"utils", "util", "helpers", "helper", "core", "common", "misc"}


@functools.cache  # not on import, which every process of a run of all tests makes
def trees() -> dict[Path, ast.Module]:
    """Syntax trees of all files of the package."""
    return {path.relative_to(PACKAGE): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def test_the_architecture_page_lists_the_package() -> None:
    """Every folder and module once, nothing that does not exist, in the order of the layers."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\| `([\w/.]+)` \|", page.split("\n## ")[1], re.MULTILINE)
    folders = {f"{path.parent}/" for path in trees()} - {"./"}
    assert sorted(listed) == sorted(
        folders | {path.name for path in trees() if path.parent == Path()} - {"__init__.py"}
    )
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    for contract, prefix in zip(settings[:2], ("", "posteriors/"), strict=True):
        names = [name.removeprefix(prefix) for name in listed if name.startswith(prefix)]
        units = list(dict.fromkeys(name.split("/")[0].removesuffix(".py") for name in names if name))
        assert sorted(units, key=contract["layers"].index) == units


def test_numba_files_know_nothing() -> None:
    """Arrays and scalars only: of the package they import other numba files at most, and no random numbers."""
    strays = []
    for path, tree in trees().items():
        if not path.name.startswith("_numba") or path.name == "_numba_compile.py":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scalable_bandits"):
                modules = [node.module, *(alias.name for alias in node.names)]
                strays += [] if any(name.split(".")[-1].startswith("_numba") for name in modules) else [(path, modules)]
            elif isinstance(node, ast.Attribute) and node.attr in ("random", "default_rng", "guvectorize", "vectorize"):
                strays.append((path, node.attr))
            elif isinstance(node, ast.FunctionDef) and [ast.unparse(d) in COMPILED for d in node.decorator_list] != [1]:
                strays.append((path, node.name))
    assert strays == []


def test_a_class_has_a_name_of_its_own() -> None:
    names = [node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_file_is_a_drawer_for_odds_and_ends() -> None:
    assert [path for path in trees() if {part.removesuffix(".py").strip("_") for part in path.parts} & DRAWERS] == []


def test_nothing_private_is_unused() -> None:
    """Private functions, classes and constants: what nothing names can go."""
    defined, used = set(), {"_repr_html_"}  # notebooks call that one
    for node in (node for tree in trees().values() for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name):
            (defined if isinstance(node.ctx, ast.Store) else used).add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
    assert {name for name in defined - used if re.match("_[^_].*[^_]$", name)} == set()
