"""The policy that `minimize` and `maximize` take for a space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalable_bandits import checks
from scalable_bandits.policies import GPEI, Policy
from scalable_bandits.spaces import SearchSpace, Space
from scalable_bandits.spaces.notations import check_whole


def default_policy(space: Space, seed: int, minimize: bool) -> Policy:
    """Make the default policy of a space: expected improvement, with a kernel that is learned.

    Parameters
    ----------
    space
        Space of the function.
    seed
        Seed of the policy.
    minimize
        Whether smaller values are better.
    """
    return GPEI(space, seed=seed, minimize=minimize)


def policy_for(space_or_policy: Any, seed: int, minimize: bool) -> Policy:
    """Return the policy that was given, or the default one of the space that was given.

    Parameters
    ----------
    space_or_policy
        Policy, space, or dict of parameters by name.
    seed
        Seed of the default policy.
    minimize
        Whether smaller values are better.

    Raises
    ------
    ValueError, TypeError
        If it is none of these, the space is not valid or has no coordinates, or a seed comes with a policy.
    """
    if isinstance(space_or_policy, Policy):
        if seed != 0:
            checks.refuse("seed", seed, "0 with a policy, which has its own")
        return space_or_policy
    check_whole("space_or_policy", space_or_policy)
    space = SearchSpace(space_or_policy) if isinstance(space_or_policy, Mapping) else space_or_policy
    if not isinstance(space, Space):
        allowed = 'a space, a dict of parameters, such as {"rate": Real(0.001, 0.1)}, or a policy, such as GPEI(space)'
        checks.refuse("space_or_policy", space_or_policy, allowed)
    if not space.has_coordinates:
        allowed = "a policy with a kernel of the arms, such as GPEI(arms, Covariance(matrix)): none can be learned"
        checks.refuse("space_or_policy", space, allowed)
    return default_policy(space, checks.integer("seed", seed, 0), minimize)
