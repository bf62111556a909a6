"""Plans: how long a study takes on so many workers, and how much memory, before it is run."""

from scalable_bandits.planning.pilots import Pilot, pilot
from scalable_bandits.planning.plans import Plan, Row, Workers, plan

__all__ = ["Pilot", "Plan", "Row", "Workers", "pilot", "plan"]
