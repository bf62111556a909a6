"""What is public says what it takes and what it refuses, and says it of parameters that there are."""

import ast
import importlib
import inspect
import re
import textwrap

import pytest

import scalable_bandits as sb

# Their functions and classes are public: the pages of the reference.
MODULES = (
    "acquisition",
    "analysis",
    "confidence",
    "environments",
    "execution",
    "information",
    "kernels",
    "plots",
    "policies",
    "posteriors",
    "priors",
    "report",
    "spaces",
    "specification",
    "status",
    "store",
    "studies",
    "theory",
)
MADE_BY_OTHERS = (".ObservationStore", ".StoredRun", ".Trajectory")  # by `open`, by `simulate`
REFUSALS = ("ValueError", "TypeError")


def described(doc, section):
    """Names that a section of a docstring in numpydoc's form describes; None if it has no such section."""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", doc, re.MULTILINE | re.DOTALL)
    if found is None:
        return None
    heads = re.findall(r"^(\S[^\n]*)\n {4}\S", found[1], re.MULTILINE)
    return [name.strip("* ") for head in heads for name in head.partition(" : ")[0].split(",")]


def refuses(function):
    """Whether its own lines raise a ValueError or a TypeError."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        raised = ast.unparse(node.exc) if isinstance(node, ast.Raise) and node.exc is not None else ""
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if raised.startswith(REFUSALS) or called in ("checks.refuse", "refuse"):
            return True
    return False


def names_of(signature):
    return [name for name in signature.parameters if name not in ("self", "cls")]


def public():
    """Every public function, class and method of one, by its name."""
    modules = [sb, *(importlib.import_module(f"scalable_bandits.{name}") for name in MODULES)]
    found = {}
    for module in modules:
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
        ]
        for name in names:
            value = getattr(module, name)
            if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            found[f"{value.__module__}.{value.__qualname__}"] = value
            for kind in value.__mro__ if inspect.isclass(value) else ():
                if not kind.__module__.startswith("scalable_bandits"):
                    continue
                for own, method in vars(kind).items():
                    method = getattr(method, "__func__", method)
                    if not own.startswith("_") and inspect.isfunction(method):
                        found[f"{kind.__module__}.{method.__qualname__}"] = method
    return found


PUBLIC = public()
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
FUNCTIONS = {name: value for name, value in PUBLIC.items() if not inspect.isclass(value)}


def overridden(name):
    """The docstring that stands for a function's: its own, or that of the method which it overrides."""
    function = FUNCTIONS[name]
    if function.__doc__ or "." not in function.__qualname__:
        return inspect.cleandoc(function.__doc__ or "")
    holder, _, method = name.rpartition(".")
    return inspect.getdoc(getattr(CLASSES[holder], method)) or "" if holder in CLASSES else "an inner class's"


def test_there_is_much_to_look_at():
    assert len(CLASSES) > 80
    assert len(FUNCTIONS) > 200


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    """Those that describe parameters describe all that there are, in their order; those that refuse say so."""
    function, doc = FUNCTIONS[name], overridden(name)
    assert doc
    parameters = described(doc, "Parameters")
    taken = names_of(inspect.signature(function))
    if parameters is not None:
        assert parameters == taken
    else:
        shared = described(inspect.getdoc(inspect.getmodule(function)) or "", "Parameters") or []
        assert len(taken) < 4 or not function.__doc__ or set(taken) <= set(shared), f"takes {taken}"
    if refuses(function):
        assert described(doc, "Raises") or any(error in doc for error in REFUSALS)


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    """Each parameter is described by the class or by a base; none is described that there is not."""
    value = CLASSES[name]
    assert value.__doc__
    if issubclass(value, tuple | Exception):
        return  # a named tuple says it beside its fields
    docs = [inspect.cleandoc(kind.__doc__ or "") for kind in value.__mro__ if kind.__module__.startswith("scalable_")]
    taken = [] if getattr(value, "_is_protocol", False) else names_of(inspect.signature(value))
    own = described(docs[0], "Parameters") or []
    assert [parameter for parameter in own if parameter not in taken] == []
    if not name.endswith(MADE_BY_OTHERS):
        sections = [described(doc, section) for doc in docs for section in ("Parameters", "Attributes")]
        everywhere = {parameter for section in sections for parameter in section or []}
        assert [parameter for parameter in taken if parameter not in everywhere] == []
    made = [vars(value).get(method) for method in ("__init__", "__attrs_post_init__")]
    if any(refuses(method) for method in made if inspect.isfunction(method) and method.__module__ == value.__module__):
        assert described(docs[0], "Raises")
