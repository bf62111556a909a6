"""What is public says what it takes and what it refuses, and says it of parameters that there are.

Every array, taken or given, has its shape beside it; what a module's function takes is described, all of it.
"""

import ast
import importlib
import inspect
import re
import textwrap

import attrs
import pytest
from cases.paths import ROOT

import scalable_bandits as sb

# Their functions and classes are public: the pages of the reference.
MODULES = (
    "analysis",
    "environments",
    "execution",
    "formulas.acquisition",
    "formulas.confidence",
    "formulas.information_gain",
    "formulas.rates",
    "integrations.sklearn",
    "integrations.optuna",
    "integrations.mlflow",
    "integrations.wandb",
    "integrations.tensorboard",
    "kernels",
    "plots",
    "policies",
    "posteriors",
    "priors",
    "report",
    "runs.resuming",
    "spaces",
    "specification",
    "status",
    "store",
    "studies",
)
MADE_BY_OTHERS = (".ObservationStore", ".StoredRun", ".Trajectory")  # by `open`, by `simulate`
REFUSALS = ("ValueError", "TypeError")


ARRAY = re.compile(r"\b(ndarray|NDArray|ArrayLike|Floats|Indices|Mask|Columns)\b")  # in an annotation
SHAPE = re.compile(r"\((?:\d|[a-zA-Z|.])[\w .|+*-]*,[\w ,.|+*-]*\)")  # (n, d), (k,), (2 m,), (...,)
REFERENCE = re.compile(r"\bAs (in|of|for) `")


def entries(doc, section):
    """What a section of a docstring in numpydoc's form says of each name; None if it has no such section."""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", doc, re.MULTILINE | re.DOTALL)
    if found is None:
        return None
    parts = re.findall(r"^(\S[^\n]*)\n( {4}\S(?:[^\n]*\n {4}|\n)*[^\n]*)", found[1], re.MULTILINE)
    return {name.strip("* "): text for head, text in parts for name in head.partition(" : ")[0].split(",")}


def described(doc, section):
    """Names that a section describes; None if there is no such section."""
    found = entries(doc, section)
    return None if found is None else list(found)


def has_shape(text):
    """Whether a shape is there, or where it is."""
    return SHAPE.search(text) or REFERENCE.search(text)


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
            name for name, value in vars(module).items() if getattr(value, "__module__", "").startswith(module.__name__)
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


def test_the_reference_has_every_public_name():
    """By itself, or with its module."""
    pages = [page.read_text() for page in (ROOT / "docs" / "api").glob("*.md")]
    named = {name for page in pages for name in re.findall(r":: scalable_bandits\.([\w.]+)", page)}
    assert "EVERY_POLICY" in named  # conf.py lists them
    for name in set(sb.__all__).difference(vars(sb.policies)):
        module = getattr(getattr(sb, name), "__module__", "").removeprefix("scalable_bandits.")
        assert {name, module} & named, name


def function(name):
    """Those that describe parameters describe all that there are, in their order; those that refuse say so."""
    value, doc = FUNCTIONS[name], overridden(name)
    assert doc
    parameters = described(doc, "Parameters")
    taken = names_of(inspect.signature(value))
    if parameters is not None:
        assert parameters == taken
    else:
        shared = described(inspect.getdoc(inspect.getmodule(value)) or "", "Parameters") or []
        assert len(taken) < 4 or not value.__doc__ or set(taken) <= set(shared), f"takes {taken}"
    if refuses(value):
        assert described(doc, "Raises") or any(error in doc for error in REFUSALS)


def shapes_of_function(name):
    """Each array that is taken, and that is given."""
    function, doc = FUNCTIONS[name], inspect.cleandoc(FUNCTIONS[name].__doc__ or "")
    if not doc:
        return  # it overrides another, which says it
    shared = entries(inspect.getdoc(inspect.getmodule(function)) or "", "Parameters") or {}
    said, signature = {**shared, **(entries(doc, "Parameters") or {})}, inspect.signature(function)
    arrays = [p for p, value in signature.parameters.items() if ARRAY.search(str(value.annotation))]
    assert [parameter for parameter in arrays if not has_shape(said.get(parameter, doc))] == []
    if ARRAY.search(str(signature.return_annotation)):
        assert has_shape("".join((entries(doc, "Returns") or {"": doc}).values()))


def function_of_module(name):
    """Their parameters are described, all of them, by the function or by its module for several."""
    function = FUNCTIONS[name]
    docs = [inspect.getdoc(said) or "" for said in (function, inspect.getmodule(function))]
    known = {parameter for doc in docs for parameter in described(doc, "Parameters") or []}
    assert [parameter for parameter in inspect.signature(function).parameters if parameter not in known] == []


def says_what_it_refuses(value, seen=()):
    """Whether a class has a section Raises, or one whose parameters it says that it shares."""
    doc = inspect.cleandoc(value.__doc__ or "")
    if described(doc, "Raises"):
        return True
    named = [other for other in CLASSES.values() if f"`{other.__name__}`" in doc and other not in (*seen, value)]
    return any(says_what_it_refuses(other, (*seen, value)) for other in named)


def shapes_and_refusals_of_class(name):
    """Each array that is taken has its shape; one whose fields are checked says what they must be."""
    value = CLASSES[name]
    if issubclass(value, tuple):  # beside its fields, where `docs/conf.py` finds it
        for field, comment in re.findall(r"^    \w+: ([^#\n]*)(?:# *(.+))?$", inspect.getsource(value), re.MULTILINE):
            assert not ARRAY.search(field) or has_shape(comment), field
        return
    if issubclass(value, Exception):
        return
    said = {}
    for kind in reversed(value.__mro__):
        doc = inspect.cleandoc(kind.__doc__ or "") if kind.__module__.startswith("scalable_") else ""
        said |= {**(entries(doc, "Attributes") or {}), **(entries(doc, "Parameters") or {})}
    taken = inspect.signature(value).parameters.items()
    arrays = [parameter for parameter, one in taken if ARRAY.search(str(one.annotation))]
    assert [parameter for parameter in arrays if not has_shape(said.get(parameter, ""))] == []
    fields = attrs.fields(value) if attrs.has(value) else ()
    if any(field.init and (field.validator or field.converter) for field in fields):
        assert says_what_it_refuses(value)


def class_(name):
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


@pytest.mark.parametrize(
    ("check", "names"),
    [
        (function, FUNCTIONS),
        (shapes_of_function, FUNCTIONS),
        (function_of_module, [name for name, value in FUNCTIONS.items() if "." not in value.__qualname__]),
        (class_, CLASSES),
        (shapes_and_refusals_of_class, CLASSES),
    ],
    ids=["function", "shapes of function", "function of module", "class", "shapes and refusals of class"],
)
def test_every_public_name(check, names):
    """The checks above, of each name; the offenders are listed with what is wrong."""
    offenders = {}
    for name in names:
        try:
            check(name)
        except AssertionError as error:
            offenders[name] = str(error)
    assert offenders == {}
