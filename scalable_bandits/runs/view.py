"""What callbacks and stopping rules see of a run: the evaluation that has just ended, and the best one so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from scalable_bandits.policies import Policy
from scalable_bandits.runs.result import Measured


@attrs.frozen(eq=False)
class RunView:
    """View of a run after an evaluation, for callbacks and stopping rules; read only, with points of its own.

    Attributes
    ----------
    number
        Number of evaluations that have ended, failures and those of earlier processes included.
    x
        Point (d,) of the evaluation that has just ended; an arm number, or a dict.
    y
        Its value, in units of y; None if it failed.
    error
        Error of a failed evaluation, in one line.
    best
        Best observation so far; None before the first.
    since_best
        Number of evaluations that have ended since the best observation was made.
    policy
        Policy of the run. Callbacks may call `best` and `posterior`; they must not call `ask`, `tell` or `abandon`.
    seconds
        Time since the call began.
    """

    number: int
    x: Any
    y: float | None
    error: str
    best: Measured | None
    since_best: int
    policy: Policy
    seconds: float


Callback = Callable[[RunView], Any]
