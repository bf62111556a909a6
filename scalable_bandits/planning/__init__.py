"""Plans: how long a study takes on so many workers, and how much memory, before it is run."""

from scalable_bandits.execution.calibration import Messages
from scalable_bandits.planning.pilots import Exchanges, Pilot, pilot
from scalable_bandits.planning.plans import Forecast, Machine, Plan, Round, Row, Workers, forecast, plan

__all__ = [
    "Exchanges", "Forecast", "Machine", "Messages", "Pilot", "Plan", "Round", "Row", "Workers", "forecast", "pilot",
    "plan",
]  # fmt: skip
