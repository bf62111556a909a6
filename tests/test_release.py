"""A release: one version everywhere, and what the archives of it hold."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import scalable_bandits as sb

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]


@pytest.fixture(scope="module")
def release():
    """The script of the stage in `.ci/run`."""
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == VERSION
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[1] == VERSION


def test_the_source_archive_has_every_folder_that_the_script_looks_for(release):
    given = {*PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]}
    assert given | {"pyproject.toml", "PKG-INFO", ".gitignore"} == release.SOURCE_FOLDERS | release.SOURCE_FILES
    assert all((ROOT / name).exists() for name in given)


def test_faults_of_archives_are_found(release):
    package = {"scalable_bandits/__init__.py", "scalable_bandits/py.typed"}
    source = {*package, *release.SOURCE_FILES, *(f"{folder}/a.py" for folder in release.SOURCE_FOLDERS - {sb.__name__})}
    assert release.problems_of_source(source) == []
    assert release.problems_of_source(source - {"LICENSE", "tests/a.py"}) == ["missing: LICENSE", "missing: tests"]
    for stray in ("tests/__pycache__/a.pyc", "todo.txt", "other/a.py", "cluster/tls/client.key"):
        assert len(release.problems_of_source(source | {stray})) == 1
    wheel = {*package, "scalable_bandits-1.dist-info/METADATA"}
    assert release.problems_of_wheel(wheel, source) == []
    for name in ("scalable_bandits/py.typed", "tests/a.py"):
        assert release.problems_of_wheel(wheel ^ {name}, source) == [f"only in one of the two archives: {name}"]
