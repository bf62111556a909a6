"""The examples in docstrings give what they show, in the package as it is installed."""

import doctest
import importlib
from pathlib import Path

import pytest

import scalable_bandits

ROOT = Path(scalable_bandits.__file__).parent
FILES = [path.relative_to(ROOT.parent) for path in ROOT.rglob("*.py") if ">>> " in path.read_text()]
MODULES = sorted(".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in FILES)


SLOW = {"scalable_bandits.warmup": pytest.mark.slow}  # it compiles everything


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in MODULES])
def test_examples(name):
    """There are some, and none fails."""
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert failed == 0 < attempted


def test_there_are_modules_with_examples():
    """An empty search would pass for ever."""
    assert len(MODULES) >= 15
