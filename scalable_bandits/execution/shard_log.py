"""The log of a run's shards: the calls that changed them, in order, and what a lost shard is made from.

    position   number of entries before an entry, counted from the beginning of the run
    snapshot   pickled state of one shard at some position

Entries older than all snapshots are deleted, so that the log does not grow with the run. It holds about `MOST_ENTRIES`
entries or `MOST_BYTES` of arrays. Snapshots of up to `SPOOL_BYTES` are in memory, larger ones in temporary files
(TMPDIR).
"""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np

from scalable_bandits.execution.shard_worker import Call, Entry, Request
from scalable_bandits.posteriors.state import State

MOST_ENTRIES = 2_000
MOST_BYTES = 256 * 2**20
SPOOL_BYTES = 8 * 2**20
REPLAY = 20.0  # most time to replay a lost shard's entries, in times of a snapshot: snapshots cost 5 %
SNAPSHOT_SECONDS = 0.05  # least cost of a snapshot: it delays rounds and other messages


class Snapshot:
    """Pickled state of a shard, in memory or in a temporary file.

    Parameters
    ----------
    content
        The pickled state.
    """

    def __init__(self, content: bytes):
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 - closed by `finalize`
        self._file.write(content)
        weakref.finalize(self, self._file.close)

    def __reduce__(self) -> Any:
        return Snapshot, (self.content(),)

    def content(self) -> bytes:
        """Return the pickled state."""
        self._file.seek(0)
        return self._file.read()


class ShardLog:
    """Log of the calls that changed shards, with a snapshot of each shard.

    Parameters
    ----------
    makers
        One pickled function a shard, which makes it.
    source
        Function that returns the state of a shard at the end of the log by its number. No snapshots are taken then.

    Attributes
    ----------
    first : int
        Position of the first entry that is still in the log.
    """

    def __init__(self, makers: Sequence[bytes], source: Callable[[int], State] | None = None):
        self._makers, self._source = list(makers), source
        self.first = 0
        self._entries: list[Entry] = []
        self._sizes: list[int] = []  # bytes of the arrays in each entry
        count = len(makers)
        self._snapshots: list[Snapshot | None] = [None] * count
        self._behind: list[int | None] = [None] * count  # position of the first entry that is not in the snapshot
        self._seconds = [0.0] * count  # work since the snapshot
        self._cost = SNAPSHOT_SECONDS  # seconds that the last snapshot took, as an estimate for all shards

    @property
    def end(self) -> int:
        """Position after the last entry."""
        return self.first + len(self._entries)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in the log, in bytes."""
        return sum(self._sizes)

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, call: Call, numbers: Sequence[int] | None) -> None:
        """Add a call that changed the shards with these numbers (all for None)."""
        for number in range(len(self._makers)) if numbers is None else numbers:
            if self._behind[number] is None:
                self._behind[number] = self.end
        self._entries.append(Entry(call, None if numbers is None else frozenset(numbers)))
        self._sizes.append(_nbytes(call.arguments))
        if self._source is not None:
            self._delete_before(self.end - MOST_ENTRIES)

    def add(self, number: int, maker: bytes) -> None:
        """Add the shard of the next number, which no earlier entry concerns, unless it is there."""
        if number < len(self._makers):
            return
        self._makers.append(maker)
        self._snapshots.append(None)
        self._behind.append(None)
        self._seconds.append(0.0)

    def since(self, position: int) -> list[Entry]:
        """Return the entries from a position on."""
        return self._entries[position - self.first :]

    def rebuild(self, number: int) -> Request:
        """Return what a lost shard is made from; the entries from its position on have to be replayed."""
        if self._source is not None:
            return Request(number, self.end, self._makers[number], pickle.dumps(self._source(number)))
        snapshot, behind = self._snapshots[number], self._behind[number]
        content = None if snapshot is None else snapshot.content()
        return Request(number, self.end if behind is None else behind, self._makers[number], content)

    # ---- snapshots

    def worked(self, number: int, seconds: float) -> None:
        """Add to the time of the work that would be repeated if a shard were lost."""
        self._seconds[number] += seconds

    def due(self) -> int | None:
        """Return the number of the shard whose snapshot is to be taken next; None if no snapshot is worth its cost."""
        behind = {number: position for number, position in enumerate(self._behind) if position is not None}
        if self._source is not None or not behind:
            return None
        if len(self) >= MOST_ENTRIES or self.nbytes >= MOST_BYTES:
            return min(behind, key=behind.__getitem__)
        most = max(behind, key=self._seconds.__getitem__)
        return most if self._seconds[most] > REPLAY * self._cost else None

    def keep(self, number: int, state: State, seconds: float = 0.0) -> None:
        """Store the state of a shard at the end of the log as its snapshot; asking for it took so many seconds."""
        if self._source is not None:
            return
        self._snapshots[number] = Snapshot(pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL))
        self._behind[number], self._seconds[number] = None, 0.0
        self._cost = max(seconds, SNAPSHOT_SECONDS)
        self._delete_before(min((position for position in self._behind if position is not None), default=self.end))

    def _delete_before(self, position: int) -> None:
        count = max(position - self.first, 0)
        del self._entries[:count], self._sizes[:count]
        self.first += count


def _nbytes(value: Any) -> int:
    """Return the size of the arrays in arguments; Dask's `sizeof` would draw from the user's random numbers."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(_nbytes, value.values()))
    return sum(map(_nbytes, value)) if isinstance(value, tuple | list) else 0
