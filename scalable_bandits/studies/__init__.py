"""Studies: comparisons of policies, with a study file in this folder for each table or figure of the papers."""

from pathlib import Path

from scalable_bandits.studies import (
    bbob,
    bogunovic2016,
    chowdhury2017,
    drift,
    janz2020,
    movielens,
    scalability,
    srinivas2010,
    transfer,
    zhou2021,
    ziomek2025,
)
from scalable_bandits.studies.runs import Problem, Replicate, StudyIncomplete
from scalable_bandits.studies.study import Study
from scalable_bandits.studies.summary import Comparison

__all__ = [
    "Comparison",
    "Problem",
    "Replicate",
    "Study",
    "StudyIncomplete",
    "bbob",
    "bogunovic2016",
    "chowdhury2017",
    "drift",
    "janz2020",
    "movielens",
    "scalability",
    "srinivas2010",
    "transfer",
    "zhou2021",
    "ziomek2025",
]

for _file in sorted(Path(__file__).parent.glob("*.toml")):
    Study.load(_file).register()
