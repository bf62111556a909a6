"""Studies: comparisons of policies, with a study file in this folder for each table or figure of the papers."""

from pathlib import Path

from scalable_bandits.studies.runs import Problem as Problem
from scalable_bandits.studies.runs import Replicate as Replicate
from scalable_bandits.studies.runs import StudyIncomplete as StudyIncomplete
from scalable_bandits.studies.study import Study as Study
from scalable_bandits.studies.summary import Comparison as Comparison

for _file in sorted(Path(__file__).parent.glob("*.toml")):
    Study.load(_file).register()
