"""Build a wheel and a source archive, look into both, and play ten rounds in an environment of the wheel alone.

What the source archive installs is what the wheel installs, byte for byte.

python .ci/release.py FOLDER        the archives, the environment and what the source archive installs are put there
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "scalable_bandits"
SOURCE_FOLDERS = {NAME, ".ci", "tests", "docs", "benchmarks", "notebooks", "cluster"}
SOURCE_FILES = {
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE", "pyproject.toml", "PKG-INFO",
    ".gitignore",
}  # fmt: skip
JUNK = re.compile(
    r"__pycache__|\.(pyc|nbi|nbc|pem|key|srl|orig|rej|swp|log)$|\.egg-info|(^|/)(_build|dist|build)/|\.DS_Store"
)
PLAY = f"""
import sys
import {NAME} as sb
assert sb.__file__.startswith(sys.prefix), sb.__file__
space = sb.Grid([[0, 1]], 50)
policy = sb.IGPUCB(space, sb.Matern(0.2, nu=1.5), noise=0.1)
run = sb.simulate(policy, sb.Benchmark("forrester", space, sb.GaussianNoise(0.1)), 10)
assert len(run) == 10
print(sb.__version__, sb.__file__)
"""
METADATA = f"""
from importlib.metadata import distribution
from packaging.metadata import Metadata
Metadata.from_email(distribution({NAME!r}).read_text("METADATA"), validate=True)
"""


def problems_of_source(names: Iterable[str]) -> list[str]:
    """Return what is wrong with the files of a source archive, named without its top folder."""
    names = set(names)
    folders, files = {name.split("/")[0] for name in names if "/" in name}, {name for name in names if "/" not in name}
    missing = sorted((SOURCE_FOLDERS - folders) | (SOURCE_FILES - files))
    stray = sorted((folders - SOURCE_FOLDERS) | (files - SOURCE_FILES) | {name for name in names if JUNK.search(name)})
    return [f"missing: {name}" for name in missing] + [f"does not belong there: {name}" for name in stray]


def problems_of_wheel(names: Iterable[str], source: Iterable[str]) -> list[str]:
    """Return what is wrong with the files of a wheel: it has the package as in the source archive, and metadata."""
    names = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    package = {name for name in source if name.startswith(f"{NAME}/")}
    return [f"only in one of the two archives: {name}" for name in sorted(names ^ package)]


def differences(wheel: zipfile.ZipFile, installed: Path) -> list[str]:
    """Return in what the files that a source archive has installed are not those of the wheel."""
    holds = {name: wheel.read(name) for name in wheel.namelist() if not name.endswith((".dist-info/RECORD", "/"))}
    found = {
        str(path.relative_to(installed)): path.read_bytes() for path in installed.rglob("*") if path.is_file()
    }  # and what pip writes: which command, by whom, from where
    packed = {name for name in found if name.startswith(f"{NAME}/")}
    missing = sorted(name for name in holds if found.get(name) != holds[name])
    return [f"differs once installed from source: {name}" for name in [*missing, *sorted(packed - holds.keys())]]


def call(*command: str | Path) -> str:
    """Run a program outside of the repository, without paths into it, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([*map(str, command)], cwd="/", env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def environment_of(folder: Path) -> Path:
    """Make an environment and return its Python."""
    call(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


def play(python: Path) -> None:
    """Play with what is installed, by import and by the command."""
    os.environ["NUMBA_OPT"] = "0"  # nothing compiled elsewhere serves here, and there is little to play
    print(call(python, "-I", "-c", PLAY))
    call(python.parent / "scalable-bandits", "show", "srinivas2010-synthetic")


def main(folder: Path) -> None:
    """Build, look, install, play."""
    call(sys.executable, "-m", "build", "--outdir", folder, ROOT)  # the wheel is built from the source archive
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    wheel, archive = folder / f"{NAME}-{version}-py3-none-any.whl", folder / f"{NAME}-{version}.tar.gz"
    with tarfile.open(archive) as tar:
        source = [member.name.split("/", 1)[1] for member in tar if member.isfile()]
    problems = problems_of_source(source) + problems_of_wheel(zipfile.ZipFile(wheel).namelist(), source)
    if problems:
        sys.exit("\n".join(problems))

    python = environment_of(folder / "from-wheel")  # --no-compile: all that is imported here is little of all modules
    call(python, "-m", "pip", "install", "--quiet", "--no-compile", wheel)
    call(python, "-m", "pip", "check")
    call(python, "-c", METADATA)
    play(python)

    other = folder / "from-source"
    call(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", other, archive)
    problems = differences(zipfile.ZipFile(wheel), other)
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
