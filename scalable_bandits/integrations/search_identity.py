"""What a stored search is a search of, as plain data: another estimator, other data or other folds are refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import joblib
import numpy as np

from scalable_bandits import identity


def described(value: Any) -> Any:
    """Describe an argument of a search as plain data, the same in every process.

    Parameters
    ----------
    value
        Estimator, scorer, number, text, array (...,) of any shape, or a list, tuple or dict of such values.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return repr(value) if isinstance(value, float) and not math.isfinite(value) else value  # NaN is not NaN
    if hasattr(value, "get_params") and not isinstance(value, type):
        parameters = {name: described(each) for name, each in value.get_params(deep=False).items()}
        return {"class": f"{type(value).__module__}:{type(value).__qualname__}", **parameters}
    if isinstance(value, Mapping):
        return {str(key): described(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [described(each) for each in value]
    if hasattr(value, "__array__"):
        return digest(value)
    return identity.described(value)


def digest(data: Any) -> str:
    """Return the digest of data: an array (...,), a data frame, a sparse matrix or a list."""
    found: str = joblib.hash(data)
    return found
