"""Layers: imports go downwards only, and heavy libraries stay where they belong.

The order is that of the design's picture as the package realises it. A module or folder that is not listed here fails
the test: give it its place in `LAYERS`.
"""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

import scalable_bandits

ROOT = Path(scalable_bandits.__file__).parent
NAME = ROOT.name

# From the bottom up. A unit imports from units before it, and from itself where it is a folder.
LAYERS = (
    "checks",
    "terminal",
    "forked",
    "identity",
    "specification",
    "_numba_compile",
    "_numba_philox",
    "randomness",
    "progress",
    "spaces",
    "kernels",
    "environments",
    "priors",
    "formulas",
    "posteriors",
    "policies",
    "warmup",
    "store",
    "execution",
    "runs",
    "studies",
    "planning",
    "analysis",
    "plots",
    "report",
    "integrations",
    "cli",
    "__main__",
    "__init__",
)
# Inside `posteriors/`: the files directly in it, then its folders in this order, then the files that choose among them.
FAMILIES = ("exact", "tiled", "forgetting", "sketched", "sampling", "box", "partition", "hyperparameters", "learned")
ABOVE_FAMILIES = ("registry", "greedy_gain", "model", "box_model", "lazy", "repeated", "__init__")
BY_NAME = {  # files that import modules by name, and why
    "__init__.py": "public names are imported when they are first used",
    "execution/recipes.py": "a recipe names a class of another package",
    "specification.py": "the user names functions and classes to import",
}
COMPILED = (  # how: from the cache, beside other threads; sums and products fused or not, but never rearranged
    "njit(cache=True, nogil=True)",
    "njit(cache=True, nogil=True, fastmath={'contract'})",
    "intrinsic",  # from an address to a pointer
)
ANYWHERE = {"__version__"}  # names of the package itself that are no layer
WHERE = {
    "numba": lambda path: path.name.startswith("_numba"),
    "dask": lambda path: path.parts[0] in ("execution", "store"),
    "distributed": lambda path: path.parts[0] in ("execution", "store"),
    "zarr": lambda path: path.parts[0] in ("execution", "store"),
    "icechunk": lambda path: path.parts[0] == "store",
    "jinja2": lambda path: path.parts[0] == "report",
    "sklearn": lambda path: path.parts[0] == "integrations",
    "joblib": lambda path: path.parts[0] == "integrations",
    "optuna": lambda path: path.parts[0] == "integrations",
    "typer": lambda path: path.parts[0] in ("cli", "__main__.py"),
    "click": lambda path: path.parts[0] in ("cli", "__main__.py"),
}
FORBIDDEN = {"utils", "util", "helpers", "helper", "core", "common", "misc"}

FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=str(path))


def unit(path: Path) -> str:
    """Layer of a file: its folder, or its own name at the top."""
    return path.parts[0].removesuffix(".py")


def module(path: Path) -> str:
    """Dotted name of a file inside the package."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {module(path) for path in FILES}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """All that a file imports, also inside functions and for types only: line and dotted name."""
    package = (NAME, *path.parts[:-1])
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join((*package[: len(package) - node.level + 1], *filter(None, [node.module])))
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def internal(path: Path) -> Iterator[tuple[int, str]]:
    """Modules of the package that a file imports, by their dotted names inside the package."""
    for line, name in imports(path):
        head, _, inside = name.partition(".")
        if head != NAME or inside in ANYWHERE:
            continue
        while inside and inside not in MODULES:
            inside = inside.rpartition(".")[0]
        yield line, inside or "__init__"


def test_finds_the_package() -> None:
    """The tests below look at something."""
    assert {"spaces", "cli", "kernels.base", "policies"} <= MODULES
    found = {name for _, name in internal(Path("policies/gp_policy.py"))}
    assert {"checks", "kernels", "policies.base", "posteriors", "spaces"} <= found


def test_imports_go_down() -> None:
    """Nothing imports from its own height or above, but from within its own folder."""
    assert {unit(path) for path in FILES} <= set(LAYERS)
    upward = [
        f"{path}:{line} imports {name}"
        for path in FILES
        for line, name in internal(path)
        if name.split(".")[0] != unit(path) and LAYERS.index(name.split(".")[0]) >= LAYERS.index(unit(path))
    ]
    assert upward == []


def family_height(name: str) -> int:
    """Height inside `posteriors/` of a module, by its dotted name inside the package."""
    _, _, inside = name.partition(".")
    first = inside.split(".")[0] or "__init__"
    if first in ABOVE_FAMILIES:
        return len(FAMILIES)
    return FAMILIES.index(first) if first in FAMILIES else -1


def test_families_of_posteriors_import_down() -> None:
    """A family imports the files below all families, and families before it; the registry and its users stand above."""
    paths = [path for path in FILES if path.parts[0] == "posteriors"]
    assert {path.parts[1] for path in paths if len(path.parts) > 2} == set(FAMILIES)
    upward = [
        f"{path}:{line} imports {name}"
        for path in paths
        for line, name in internal(path)
        if name.split(".")[0] == "posteriors" and family_height(name) > family_height(module(path))
    ]
    assert upward == []


def test_no_import_by_name() -> None:
    """Where the tests above would not see it: `import_module` and `__import__` are for names that a user gives."""
    strays = [
        f"{path}:{node.lineno} uses {ast.unparse(node)}"
        for path in FILES
        if path.as_posix() not in BY_NAME
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Name) and node.id in ("import_module", "__import__"))
        or (isinstance(node, ast.Attribute) and node.attr in ("import_module", "__import__"))
        or (isinstance(node, ast.alias) and node.name in ("import_module", "__import__"))
    ]
    assert strays == []
    own = [  # a user's module, not one of the package
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path in FILES
        if len(path.parts) > 1
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func) and NAME in ast.unparse(node)
    ]
    assert own == []


def test_no_circles() -> None:
    """Also not within a folder, and not by an import inside a function."""
    graph = {module(path): {name for _, name in internal(path)} - {module(path)} for path in FILES}
    list(graphlib.TopologicalSorter(graph).static_order())


def test_libraries_stay_in_their_places() -> None:
    """Numba in `_numba*.py` only, Dask and zarr in `execution/` and the store only."""
    strays = [
        f"{path}:{line} imports {name}"
        for path in FILES
        for line, name in imports(path)
        if name.split(".")[0] in WHERE and not WHERE[name.split(".")[0]](path)
    ]
    assert strays == []


def test_numba_files_know_nothing() -> None:
    """Arrays and scalars only: of the package they import other numba files at most, and no random numbers."""
    paths = [path for path in FILES if path.name.startswith("_numba") and path.name != "_numba_compile.py"]
    strays = [f"{path}: {n}" for path in paths for _, n in internal(path) if not n.split(".")[-1].startswith("_numba")]
    for path in paths:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and node.attr in ("random", "default_rng", "guvectorize", "vectorize"):
                strays.append(f"{path}:{node.lineno} {node.attr}")
            if isinstance(node, ast.FunctionDef) and [ast.unparse(d) in COMPILED for d in node.decorator_list] != [
                True
            ]:
                strays.append(f"{path}:{node.lineno} {node.name}")
    assert strays == []


def test_files_say_what_they_are() -> None:
    """By a docstring, and by a name that is no drawer for odds and ends."""
    drawers = [path for path in FILES if {part.removesuffix(".py").strip("_") for part in path.parts} & FORBIDDEN]
    assert [str(path) for path in (*drawers, *(path for path in FILES if not ast.get_docstring(tree(path))))] == []


def test_nothing_private_is_unused() -> None:
    """Private functions, classes and constants: what nothing names can go."""
    defined, used = {}, set()
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined[node.name] = path
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined[node.id] = path
            elif isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)
    private = {name for name in defined if name.strip("_") and name.startswith("_") and not name.endswith("__")}
    assert not {name: str(defined[name]) for name in private - used - {"_repr_html_"}}  # notebooks call that one
