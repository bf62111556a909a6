"""Named studies: one for each table or figure of the papers."""

from scalable_bandits.studies import chowdhury2017, janz2020, janz2022, srinivas2010
from scalable_bandits.studies.study import Problem, Replicate, Study
from scalable_bandits.studies.summary import Comparison, Row, summarize

__all__ = [
    "Comparison",
    "Problem",
    "Replicate",
    "Row",
    "Study",
    "chowdhury2017",
    "janz2020",
    "janz2022",
    "srinivas2010",
    "summarize",
]
