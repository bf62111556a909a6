"""Whether there is room for the rounds that a run will have."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scalable_bandits import checks
from scalable_bandits.store.locations import Location
from scalable_bandits.store.rows import Field

# Bytes on disk by bytes of the numbers: 0.32 to 0.62 in runs of six policies on arms, grids and a box, so that a run
# that is refused could not have been stored.
LEAST_SHARE = 0.3


def check_room(location: Location, fields: Sequence[Field], rounds: int, argument: str) -> None:
    """Raise ValueError if so many more rounds need more room than there is.

    Parameters
    ----------
    location
        Location of the run, which need not exist.
    fields
        Fields of a round.
    rounds
        Number of rounds that are not stored yet.
    argument
        Name of the user's argument.
    """
    needed = rounds * sum(8 * math.prod(field.shape) for field in fields) * LEAST_SHARE
    free = location.free()
    if free is not None and needed > free:
        given = f"{rounds:,} more rounds, which need at least {_size(needed)}"
        checks.refuse(argument, given, f"no more than fit into the {_size(free)} that are free at {location.name}")


def _size(count: float) -> str:
    """Return a number of bytes in a unit that suits it."""
    power = max(min(int(math.log10(max(count, 1.0)) // 3), 6), 2)
    return f"{count / 1000.0**power:,.3g} {('', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB')[power]}"
