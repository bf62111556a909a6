"""Studies: comparisons of policies, with a study file in this folder for each table or figure of the papers."""

from pathlib import Path

from scalable_bandits.studies.runs import Problem, Replicate, StudyIncomplete
from scalable_bandits.studies.study import Study
from scalable_bandits.studies.summary import Comparison

__all__ = [
    "Comparison",
    "Problem",
    "Replicate",
    "Study",
    "StudyIncomplete",
]

for _file in sorted(Path(__file__).parent.glob("*.toml")):
    Study.load(_file).register()
