"""Shards on the workers of the cluster that `on=` names."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from scalable_bandits.execution.base import ClusterError
from scalable_bandits.execution.connect import SecureAddress, connect, resolve
from scalable_bandits.execution.shard_pool import ShardPool
from scalable_bandits.posteriors.state import State

if TYPE_CHECKING:
    from distributed import Client


class ClusterExecutor:
    """Workers of a cluster, found or started when they are first needed.

    Parameters
    ----------
    on
        Name, address, client or recipe of the cluster, as `connect` takes it.
    """

    threads = 1
    remote = True

    def __init__(self, on: Any):
        resolve(on)
        self._on = on
        self._client: Client | None = None
        self._end: Any = None
        self._pools: weakref.WeakSet[ShardPool] = weakref.WeakSet()

    def __reduce__(self) -> Any:
        return type(self), (self.portable,)

    @property
    def portable(self) -> Any:
        """What `on` says, for another process: of a client its scheduler's address, and certificates if there are any.

        Raises
        ------
        ClusterError
            If it is a client that is closed.
        """
        if isinstance(self._on, str | os.PathLike | SecureAddress):
            return self._on
        if self._on.scheduler is None:
            raise ClusterError("on: the client is closed; a copy of what uses it could not find its scheduler")
        address = self._on.scheduler.address
        encrypted = address.startswith(("tls://", "wss://"))
        return SecureAddress(address, self._on.security) if encrypted else address

    @property
    def client(self) -> Client:
        """Client of the cluster, connected now if it is not yet."""
        if self._client is None:
            stack = ExitStack()
            self._client = stack.enter_context(connect(self._on))
            self._end = weakref.finalize(self, _aside, stack.close)
        return self._client

    def shards(
        self, makers: Sequence[Callable[[], Any]], name: str, source: Callable[[int], State] | None = None
    ) -> ShardPool:
        """Shards on these workers, by the functions that make them."""
        return ShardPool(self, makers, name, source)

    def adopt(self, pool: ShardPool) -> None:
        """Take a pool whose shards are released by `close`."""
        self._pools.add(pool)

    def close(self) -> None:
        """Have the workers delete the shards, and end a cluster that was started here.

        What is asked later makes them again.
        """
        for pool in list(self._pools):
            pool.close()
        if self._client is not None:
            self._client = None
            self._end()


def _aside(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function that blocks: from a thread of its own, if this one may be the client's."""
    if threading.current_thread() is threading.main_thread():
        function(*arguments)
    else:
        threading.Thread(target=function, args=arguments).start()
