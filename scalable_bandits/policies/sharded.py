"""Policies whose shards may be on the workers of a cluster."""

from __future__ import annotations

from typing import Any, Self

import attrs

from scalable_bandits.policies.base import Policy
from scalable_bandits.posteriors.placement import Executor, executor


@attrs.define(eq=False, kw_only=True, slots=False)
class ShardedPolicy(Policy):
    """A policy with an executor of its shards.

    Parameters
    ----------
    on
        Executor: None (this process), "threads:4" (threads of this process), "local:4" (worker processes of this
        machine), the address of a Dask scheduler, a `distributed.Client`, or a recipe. The numbers are the same on
        every executor, and `on` is not part of the specification. A cluster that was started ends with the policy, or
        with `close`. A copy of the policy, also by pickle, has the scheduler's address in the place of a client.

    Other parameters are those of `Policy`.
    """

    on: Any = attrs.field(default=None, repr=False)
    _executor: Executor = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._executor = executor(self.on)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "on": self._executor.portable}

    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in super().parameters().items() if name != "on"}

    def close(self) -> None:
        """Delete the policy's shards on workers, and end a cluster that was started for it.

        Both are made again if the policy is used again. ``with sb.PEGPUCB(..., on="local:4") as policy:`` closes it at
        the end. Your own client stays open.
        """
        self._executor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
