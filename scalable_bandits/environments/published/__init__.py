"""Data and functions that others published in packages of the package index, as environments.

Nothing is downloaded, and no code of the packages is run, except that of coco-experiment for `BBOB`, `LargeScaleBBOB`
and `MixedIntegerBBOB`. Where a package is missing, `DataMissing` names the command that installs it. `SOURCES` has the
packages, their licences and whom to cite.
"""

from scalable_bandits.environments.published.bbob import BBOB as BBOB
from scalable_bandits.environments.published.bbob import LargeScaleBBOB as LargeScaleBBOB
from scalable_bandits.environments.published.bbob import MixedIntegerBBOB as MixedIntegerBBOB
from scalable_bandits.environments.published.bocode import HPOB as HPOB
from scalable_bandits.environments.published.bocode import LCBench as LCBench
from scalable_bandits.environments.published.bocode import SilverNanoparticles as SilverNanoparticles
from scalable_bandits.environments.published.chemistry import Chemistry as Chemistry
from scalable_bandits.environments.published.hpo import HPOBench as HPOBench
from scalable_bandits.environments.published.hpo import HPOLib as HPOLib
from scalable_bandits.environments.published.hpo import NASBench201 as NASBench201
from scalable_bandits.environments.published.ratings import Volcano as Volcano
from scalable_bandits.environments.published.ratings import load_movielens as load_movielens
from scalable_bandits.environments.published.sources import SOURCES as SOURCES
from scalable_bandits.environments.published.sources import Source as Source
