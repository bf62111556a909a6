"""Plans: how long a study, or choosing from a pool, takes on so many workers, and how much memory, before it is run."""

from scalable_bandits.execution.calibration import Messages
from scalable_bandits.planning.pilots import Exchanges, Pilot, pilot
from scalable_bandits.planning.plans import Forecast, Machine, Plan, Round, Row, Workers, forecast, plan
from scalable_bandits.planning.screening import Choosing, ScreenedBy, ScreenPlan, plan_screen

__all__ = [
    "Choosing", "Exchanges", "Forecast", "Machine", "Messages", "Pilot", "Plan", "Round", "Row", "ScreenPlan",
    "ScreenedBy", "Workers", "forecast", "pilot", "plan", "plan_screen",
]  # fmt: skip
