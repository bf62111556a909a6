"""Named studies: one for each table or figure of the papers."""

from scalable_bandits.studies import (
    bogunovic2016,
    calandriello2020,
    chowdhury2017,
    flynn2024,
    janz2020,
    janz2022,
    srinivas2010,
    zhou2021,
    ziomek2025,
)
from scalable_bandits.studies.runs import Problem, Replicate, StudyIncomplete
from scalable_bandits.studies.study import Study
from scalable_bandits.studies.summary import Comparison, Row, summarize

__all__ = [
    "Comparison",
    "Problem",
    "Replicate",
    "Row",
    "Study",
    "StudyIncomplete",
    "bogunovic2016",
    "calandriello2020",
    "chowdhury2017",
    "flynn2024",
    "janz2020",
    "janz2022",
    "srinivas2010",
    "summarize",
    "zhou2021",
    "ziomek2025",
]
