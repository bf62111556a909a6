"""Checks of the policy that a run is called with."""

from __future__ import annotations

from scalable_bandits import checks
from scalable_bandits.policies import Policy


def check_fresh(policy: Policy) -> None:
    """Raise ValueError unless a policy was neither asked nor told."""
    checks.kind("policy", policy, Policy, "a policy, such as IGPUCB(space, kernel)")
    if policy.rounds or policy.pending:
        given = f"one that was told {policy.rounds} rounds and has {len(policy.pending)} pending"
        checks.refuse("policy", given, "a fresh one, neither asked nor told")


def check_unrecorded(policy: Policy) -> None:
    """Raise ValueError if a recording of a policy is open, since it would not record the run."""
    if policy.recorded:
        given = "a policy that an open recording records"
        checks.refuse("policy", given, "a policy without an open recording: close the recording first")
