"""Policies: one algorithm with its variants, one file."""

from scalable_bandits.policies.base import Best, Policy
from scalable_bandits.policies.bbkb import BBKB
from scalable_bandits.policies.bkb import BKB
from scalable_bandits.policies.duets import DUETS
from scalable_bandits.policies.etgpucb import ETGPUCB
from scalable_bandits.policies.fully_bayesian import FullyBayesianGPUCB
from scalable_bandits.policies.gpei import GPEI, GPPI
from scalable_bandits.policies.gpts import GPTS
from scalable_bandits.policies.gpucb import GPUCB
from scalable_bandits.policies.igpucb import IGPUCB
from scalable_bandits.policies.independent_ts import IndependentTS
from scalable_bandits.policies.irgpucb import IRGPUCB
from scalable_bandits.policies.lbgpucb import LBGPUCB
from scalable_bandits.policies.mlegpucb import MLEGPUCB
from scalable_bandits.policies.one_moment import MeanOnly, VarianceOnly
from scalable_bandits.policies.path_improvement import PIMS, PSEI
from scalable_bandits.policies.pegpucb import PEGPUCB, PriorsExhausted
from scalable_bandits.policies.phased_elimination import PhasedElimination
from scalable_bandits.policies.pigpucb import CoverElement, PiGPUCB
from scalable_bandits.policies.random_search import RandomSearch
from scalable_bandits.policies.regret_balancing import RegretBalancing
from scalable_bandits.policies.repeated_choice import MiniGPEI, MiniGPUCB
from scalable_bandits.policies.rgpucb import RGPUCB
from scalable_bandits.policies.successive_rejects import SuccessiveRejects
from scalable_bandits.policies.supkernelucb import SupKernelUCB
from scalable_bandits.policies.swgpucb import SWGPUCB
from scalable_bandits.policies.tally import Rejection
from scalable_bandits.policies.tvgpucb import TVGPUCB
from scalable_bandits.policies.ucb1 import UCB1
from scalable_bandits.policies.wgpucb import WGPUCB

__all__ = [
    "BBKB",
    "BKB",
    "DUETS",
    "ETGPUCB",
    "GPEI",
    "GPPI",
    "GPTS",
    "GPUCB",
    "IGPUCB",
    "IRGPUCB",
    "LBGPUCB",
    "MLEGPUCB",
    "PEGPUCB",
    "PIMS",
    "PSEI",
    "RGPUCB",
    "SWGPUCB",
    "TVGPUCB",
    "UCB1",
    "WGPUCB",
    "Best",
    "CoverElement",
    "FullyBayesianGPUCB",
    "IndependentTS",
    "MeanOnly",
    "MiniGPEI",
    "MiniGPUCB",
    "PhasedElimination",
    "PiGPUCB",
    "Policy",
    "PriorsExhausted",
    "RandomSearch",
    "RegretBalancing",
    "Rejection",
    "SuccessiveRejects",
    "SupKernelUCB",
    "VarianceOnly",
]
