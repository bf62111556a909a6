"""Data and functions that others published in packages of the package index, as environments.

Nothing is downloaded, and no code of the packages is run, except that of coco-experiment for `BBOB`. Where a package is
missing, `DataMissing` names the command that installs it. `SOURCES` has the packages, their licences and whom to cite.
"""

from scalable_bandits.environments.published.bbob import BBOB
from scalable_bandits.environments.published.bocode import HPOB, LCBench, SilverNanoparticles
from scalable_bandits.environments.published.chemistry import Chemistry
from scalable_bandits.environments.published.hpo import HPOBench, HPOLib, NASBench201
from scalable_bandits.environments.published.ratings import Volcano, load_movielens
from scalable_bandits.environments.published.sources import SOURCES, Source

__all__ = [
    "BBOB",
    "HPOB",
    "SOURCES",
    "Chemistry",
    "HPOBench",
    "HPOLib",
    "LCBench",
    "NASBench201",
    "SilverNanoparticles",
    "Source",
    "Volcano",
    "load_movielens",
]
