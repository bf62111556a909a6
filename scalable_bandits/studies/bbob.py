"""Functions of the bbob suite with one published instance for each replicate: 5, 6, 7, ..., or others.

Source: Hansen et al. 2021, and for the noise Hansen, Finck, Ros & Auger 2009. Differs from the suite in: spaces are the
box in which the optimum is, and numbers of evaluations are small. The noisy study has noise of the suite's models in
their severe form, on functions of the noiseless suite that the noisy one has, too.
"""

from __future__ import annotations

from scalable_bandits import checks
from scalable_bandits.environments.published import BBOB, LargeScaleBBOB, MixedIntegerBBOB
from scalable_bandits.policies import GPEI, RandomSearch
from scalable_bandits.studies.runs import Problem, Replicate

FIRST = 5  # instance of the first replicate
SUITES = {"bbob": BBOB, "bbob-largescale": LargeScaleBBOB, "bbob-mixint": MixedIntegerBBOB}


def function(
    replicate: Replicate, *, function: int = 1, dimension: int = 2, model: str = "", first: int = FIRST,
    suite: str = "bbob",
) -> Problem:  # fmt: skip
    """Make an instance of a function, without noise or with noise of a model by name; `first` is the first instance."""
    if suite not in SUITES:
        checks.refuse("suite", suite, f"one of {', '.join(SUITES)}")
    environment = SUITES[suite](function, dimension, first + replicate.number, model=model or None, seed=replicate.seed)
    space, seed = environment.space, replicate.seed
    return Problem(environment, {"GP-EI": GPEI(space, seed=seed), "random": RandomSearch(space, seed=seed)})
