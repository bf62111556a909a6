"""Runs written by earlier versions, read as this version's.

Schema 0 (version 0.1.0 before it had stores) was the dataset of a finished simulation, written by xarray: its
specification names the environment's type, noise and seed only, so that what is left out is not compared.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.layout import CHUNK, SCHEMA, describe_fields
from scalable_bandits.store.locations import Location
from scalable_bandits.store.rows import Columns, Field

_SCHEMA_0 = ("y", "value", "regret", "cumulative_regret", "width", "information_gain")


class Earlier(NamedTuple):
    """A run of an earlier schema, in this one's terms."""

    attributes: dict[str, Any]
    columns: Columns


def read_earlier(location: Location) -> Earlier | None:
    """Run of an earlier schema, whole; None if there is none here.

    Raises
    ------
    StoreDamaged
        If there is one and it cannot be read.
    """
    try:
        group: Any = location.group()
        if "specification" not in group.attrs or any(name not in group for name in ("candidate", "x", *_SCHEMA_0)):
            return None
    except Exception:  # nothing there, or nothing of ours
        return None
    try:
        specification = json.loads(group.attrs["specification"])
        columns: Columns = {name: np.asarray(group[name][...]) for name in ("candidate", "x", *_SCHEMA_0)}
    except Exception as error:
        raise StoreDamaged(f"store {location.name}: a run of schema 0 that cannot be read ({error})") from error
    x = columns["x"]
    point = Field("x", "int64") if x.ndim == 1 else Field("x", shape=x.shape[1:], dimensions=("dimension",))
    fields = (Field("candidate", "int64"), point, *(Field(name) for name in _SCHEMA_0))
    attributes = {
        "kind": "simulate", "schema": SCHEMA, "upgraded_from": 0, "chunk": CHUNK, "fields": describe_fields(fields),
        "planned": specification.pop("horizon"), "specification": specification,
    }  # fmt: skip
    return Earlier(attributes, columns)
