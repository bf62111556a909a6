"""The executor that holds shards on the workers of the cluster named by `on=`."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from scalable_bandits.execution.base import ClusterError
from scalable_bandits.execution.connect import SecureAddress, connect, resolve
from scalable_bandits.execution.shard_pool import ShardPool
from scalable_bandits.posteriors.placement import Shard, Source

if TYPE_CHECKING:
    from distributed import Client


class ClusterExecutor:
    """Executor of a cluster, which is found or started when it is first needed.

    Parameters
    ----------
    on
        Name, address, client or recipe of the cluster; see `connect`.

    Attributes
    ----------
    pools : WeakSet of ShardPool
        Pools that `close` closes.
    """

    threads = 1
    remote = True

    def __init__(self, on: Any):
        resolve(on)
        self._on = on
        self._client: Client | None = None
        self._disconnect: Any = None
        self.pools: weakref.WeakSet[ShardPool[Any]] = weakref.WeakSet()

    def __reduce__(self) -> Any:
        return type(self), (self.portable,)

    @property
    def portable(self) -> Any:
        """Value of `on` for another process: the address of the scheduler in the place of a client.

        Raises
        ------
        ClusterError
            If `on` is a closed client.
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
        """Client of the cluster; the first access connects it."""
        if self._client is None:
            stack = ExitStack()
            self._client = stack.enter_context(connect(self._on))
            self._disconnect = weakref.finalize(self, _in_main_or_new_thread, stack.close)
        return self._client

    def shards(self, source: Source[Shard], count: int, name: str) -> ShardPool[Shard]:
        """Return shards; see `placement.Executor`."""
        return ShardPool(self, source, count, name)

    def close(self) -> None:
        """Delete the shards on the workers and end a cluster that was started here; both start again when needed."""
        for pool in list(self.pools):
            pool.close()
        if self._client is not None:
            self._client = None
            self._disconnect()


def _in_main_or_new_thread(function: Callable[[], None]) -> None:
    """Call a function that blocks: in a new thread unless in the main one, as this may be the thread of the client."""
    if threading.current_thread() is threading.main_thread():
        function()
    else:
        threading.Thread(target=function).start()
