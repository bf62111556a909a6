"""Result of `minimize` and `maximize`: the best point, recommended and measured, and every evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np

from scalable_bandits.policies import Best, Policy
from scalable_bandits.runs.evaluations import Ticket

if TYPE_CHECKING:
    import xarray


class Measured(NamedTuple):
    """Best observation."""

    x: Any  # point (d,), an arm number, or a dict
    y: float  # in units of y


@attrs.frozen(eq=False)
class TuningResult:
    """Result of `minimize` and `maximize`.

    Attributes
    ----------
    best : Best
        Recommended point, with posterior mean and standard deviation; x is None if nothing is known yet.
    policy : Policy
        Policy after the run.
    x
        Points (n, d) of the observations in order; for `Arms` arm numbers (n,), for a `SearchSpace` a list of n dicts.
    y
        Values (n,), in units of y.
    tickets
        Tickets of the evaluations, in the order of asking.
    earlier
        Number of earlier observations (`warm_start`), which come first in x and y.
    interrupted
        Whether Ctrl-C ended the run.
    stopped_by
        Name of the rule that ended the run before its budget was used; None if none did.
    """

    best: Best
    policy: Policy
    x: np.ndarray | list[dict[str, Any]]
    y: np.ndarray
    tickets: tuple[Ticket, ...] = ()
    earlier: int = 0
    interrupted: bool = False
    stopped_by: str | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def minimize(self) -> bool:
        """Whether smaller values are better."""
        return self.policy.minimize

    @property
    def measured(self) -> Measured | None:
        """Best observation, the first of equal ones; None without any."""
        if not len(self.y):
            return None
        i = int(np.argmin(self.y) if self.minimize else np.argmax(self.y))
        return Measured(self.x[i], float(self.y[i]))

    @property
    def failed(self) -> list[Ticket]:
        """Tickets of the evaluations that failed in all their attempts."""
        return [ticket for ticket in self.tickets if ticket.final and ticket.state == "failed"]

    def dataset(self) -> xarray.Dataset:
        """Return the observations as xarray dataset over ``round``; of a named space with a variable a parameter."""
        import xarray

        variables: dict[str, Any] = {}
        if isinstance(self.x, list):
            for name in dict.fromkeys(name for setting in self.x for name in setting):
                variables[name] = "round", np.array([setting.get(name) for setting in self.x], dtype=object)
        else:
            variables["x"] = ("round", "dimension")[: self.x.ndim], self.x
        rounds = np.arange(1, len(self.y) + 1)
        return xarray.Dataset({**variables, "y": ("round", self.y)}, coords={"round": rounds})
