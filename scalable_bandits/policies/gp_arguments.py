"""Validators of the arguments of policies with a Gaussian-process model."""

from __future__ import annotations

from typing import Any

import attrs

from scalable_bandits import checks
from scalable_bandits.kernels import Kernel
from scalable_bandits.policies.base import Policy
from scalable_bandits.posteriors.hyperparameters.marginal_likelihood import LogNormal


def kernel_or_learned(policy: Policy, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse a kernel that does not fit the space, or none where none can be learned."""
    kind, allowed = type(policy), "a kernel, such as RBF(0.2)"
    if value is None and policy.space.has_coordinates and vars(kind).get("learns_kernel", False):
        return
    if not policy.space.has_coordinates:
        allowed = "a kernel of arms, such as Covariance(matrix)"
    elif value is None:
        allowed += f": {kind.__name__} learns none"
    checks.instance_of(Kernel, allowed)(policy, field, value)


def given(number: float) -> float | None:
    """Return a number, or None if it was not given."""
    return number


def positive_or_learned(policy: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse a number that is not positive."""
    if value is not None:
        checks.positive(policy, field, value)


def mean_or_sample(policy: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse draws at pending points where a policy does not always play the maximum of an index."""
    if value not in ("mean", "sample"):
        checks.refuse(field.alias or field.name, value, "'mean', 'sample'")
    if value == "sample" and not (policy.maximizes_index and policy.assumes_draws):
        allowed = f"'mean' for {type(policy).__name__}; 'sample' needs one that always plays the maximum of an index"
        checks.refuse(field.alias or field.name, value, allowed)


def prior_or_auto(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    """Refuse what is no prior on lengthscales."""
    if not isinstance(value, LogNormal | None) and value != "auto":
        checks.refuse(field.name, value, "a LogNormal, 'auto', or None")
