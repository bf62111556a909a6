"""A release: one version everywhere, and what the archives of it hold."""

import importlib.util
import re
import tomllib
import zipfile
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


def test_what_the_source_archive_installs_is_compared(release, tmp_path):
    """Byte for byte with the wheel; what pip writes is not compared."""
    wheel, installed = tmp_path / "a.whl", tmp_path / "installed"
    held = {f"{sb.__name__}/__init__.py": "1", "a.dist-info/METADATA": "2"}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**held, "a.dist-info/RECORD": "3"}.items():
            archive.writestr(name, text)
    for name, text in {**held, "a.dist-info/RECORD": "4", "a.dist-info/INSTALLER": "pip"}.items():
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text(text)
    assert release.differences(zipfile.ZipFile(wheel), installed) == []
    (installed / sb.__name__ / "other.py").write_text("")
    (installed / "a.dist-info" / "METADATA").write_text("5")
    (installed / sb.__name__ / "__init__.py").unlink()
    assert [each.rpartition(" ")[2] for each in release.differences(zipfile.ZipFile(wheel), installed)] == [
        "a.dist-info/METADATA", f"{sb.__name__}/__init__.py", f"{sb.__name__}/other.py",
    ]  # fmt: skip
