"""Checks of the policy that a run is called with."""

from __future__ import annotations

import warnings

import attrs

from scalable_bandits import checks
from scalable_bandits.policies import Policy


def check_fresh(policy: Policy) -> None:
    """Raise ValueError unless a policy was neither asked nor told."""
    checks.kind("policy", policy, Policy, "a policy, such as IGPUCB(space, kernel)")
    if policy.rounds or policy.pending or policy.failures:
        given = f"one that was told {policy.rounds} rounds and has {len(policy.pending)} pending"
        checks.refuse("policy", given, "a fresh one, neither asked nor told")


def check_unrecorded(policy: Policy) -> None:
    """Raise ValueError if a recording of a policy is open, since it would not record the run."""
    if policy.recorded:
        given = "a policy that an open recording records"
        checks.refuse("policy", given, "a policy without an open recording: close the recording first")


def set_direction(policy: Policy, minimize: bool) -> None:
    """Let a fresh policy minimise; refuse to let one that was made with ``minimize=True`` maximise."""
    if policy.minimize == minimize:
        return
    if not minimize:
        checks.refuse("policy", "one with minimize=True", "one that maximises; or call `minimize`")
    given = {field.alias: getattr(policy, field.name) for field in attrs.fields(type(policy)) if field.init}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # were given when the policy was made
        type(policy).__init__(policy, **{**given, "minimize": True})  # makes its model again
