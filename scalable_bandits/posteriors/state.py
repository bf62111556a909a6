"""State as named arrays: what a posterior is at one moment, to be kept and put back bit for bit.

Every object that has a state gives it by ``state() -> State`` and takes it back by ``restore(state)`` on an object
made from the same specification. Numbers are arrays without dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

State = dict[str, NDArray[Any]]


def arrays(**values: ArrayLike) -> State:
    """State of some numbers and arrays.

    Parameters
    ----------
    values
        By name: numbers, or arrays (...,) of any shape.
    """
    return {name: np.asarray(value) for name, value in values.items()}


def nested(**parts: Mapping[str, NDArray[Any]]) -> State:
    """State of an object's parts, each under its name.

    Parameters
    ----------
    parts
        States, whose arrays (...,) stay as they are.
    """
    return {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}


def part(state: Mapping[str, NDArray[Any]], name: str) -> State:
    """State of one part of what `nested` put together; empty if it had none.

    Parameters
    ----------
    state
        What `nested` gave, arrays (...,) by name.
    name
        Of the part.
    """
    start = f"{name}."
    return {key.removeprefix(start): value for key, value in state.items() if key.startswith(start)}
