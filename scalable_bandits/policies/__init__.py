"""Policies: one algorithm with its variants, one file."""

from scalable_bandits.policies.addgpts import AddGPTS as AddGPTS
from scalable_bandits.policies.addgpucb import AddGPUCB as AddGPUCB
from scalable_bandits.policies.base import Best as Best
from scalable_bandits.policies.base import Policy as Policy
from scalable_bandits.policies.bbkb import BBKB as BBKB
from scalable_bandits.policies.bkb import BKB as BKB
from scalable_bandits.policies.constrainedgpei import ConstrainedGPEI as ConstrainedGPEI
from scalable_bandits.policies.constrainedgpei import Margin as Margin
from scalable_bandits.policies.duets import DUETS as DUETS
from scalable_bandits.policies.etgpucb import ETGPUCB as ETGPUCB
from scalable_bandits.policies.fully_bayesian import FullyBayesianGPUCB as FullyBayesianGPUCB
from scalable_bandits.policies.gpei import GPEI as GPEI
from scalable_bandits.policies.gpei import GPPI as GPPI
from scalable_bandits.policies.gpts import GPTS as GPTS
from scalable_bandits.policies.gpucb import GPUCB as GPUCB
from scalable_bandits.policies.igpucb import IGPUCB as IGPUCB
from scalable_bandits.policies.independent_ts import IndependentTS as IndependentTS
from scalable_bandits.policies.irgpucb import IRGPUCB as IRGPUCB
from scalable_bandits.policies.lbgpucb import LBGPUCB as LBGPUCB
from scalable_bandits.policies.mlegpucb import MLEGPUCB as MLEGPUCB
from scalable_bandits.policies.one_moment import MeanOnly as MeanOnly
from scalable_bandits.policies.one_moment import VarianceOnly as VarianceOnly
from scalable_bandits.policies.outputs import AtLeast as AtLeast
from scalable_bandits.policies.outputs import AtMost as AtMost
from scalable_bandits.policies.partitioneducb import PartitionedUCB as PartitionedUCB
from scalable_bandits.policies.path_improvement import PIMS as PIMS
from scalable_bandits.policies.path_improvement import PSEI as PSEI
from scalable_bandits.policies.pegpucb import PEGPUCB as PEGPUCB
from scalable_bandits.policies.pegpucb import PriorsExhausted as PriorsExhausted
from scalable_bandits.policies.phased_elimination import PhasedElimination as PhasedElimination
from scalable_bandits.policies.pigpucb import CoverElement as CoverElement
from scalable_bandits.policies.pigpucb import PiGPUCB as PiGPUCB
from scalable_bandits.policies.random_search import RandomSearch as RandomSearch
from scalable_bandits.policies.regret_balancing import RegretBalancing as RegretBalancing
from scalable_bandits.policies.repeated_choice import MiniGPEI as MiniGPEI
from scalable_bandits.policies.repeated_choice import MiniGPUCB as MiniGPUCB
from scalable_bandits.policies.rgpucb import RGPUCB as RGPUCB
from scalable_bandits.policies.successive_rejects import SuccessiveRejects as SuccessiveRejects
from scalable_bandits.policies.supkernelucb import SupKernelUCB as SupKernelUCB
from scalable_bandits.policies.swgpucb import SWGPUCB as SWGPUCB
from scalable_bandits.policies.tally import Rejection as Rejection
from scalable_bandits.policies.tvgpucb import TVGPUCB as TVGPUCB
from scalable_bandits.policies.ucb1 import UCB1 as UCB1
from scalable_bandits.policies.wgpucb import WGPUCB as WGPUCB

__all__ = [name for name, value in vars().items() if isinstance(value, type)]  # without the modules
