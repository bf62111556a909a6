"""The examples in docstrings give what they show, in the package as it is installed."""

import doctest
import importlib
import pkgutil

import pytest

import scalable_bandits

MODULES = [m.name for m in pkgutil.walk_packages(scalable_bandits.__path__, "scalable_bandits.")]


@pytest.mark.parametrize("name", ["scalable_bandits", *MODULES])
def test_examples(name):
    """None fails."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    """An empty search would pass for ever."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [e for name in MODULES for d in finder.find(importlib.import_module(name)) for e in d.examples]
    assert len(examples) >= 15
