"""The log of a run's shards: what changed them, in order, and from where a lost one is made again.

    position   number of log entries before it, counted from the beginning of the run
    snapshot   state of one shard at some position

The entries before the oldest snapshot are cut off, so that the log does not grow with the run. It holds `MOST_ENTRIES`
entries or `MOST_BYTES` of arrays, and a few more until the shards that are due have been asked for their states; the
snapshots are held in memory up to `SPOOL_BYTES` a shard, in a temporary file beyond (in TMPDIR).
"""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

import numpy as np

from scalable_bandits.execution.shard_worker import Call, Entry, Rebuild
from scalable_bandits.posteriors.state import State

MOST_ENTRIES = 2_000
MOST_BYTES = 256 * 2**20
SPOOL_BYTES = 8 * 2**20
REPLAY = 20.0  # times what a snapshot costs that making a lost shard again from the last one may take: it costs 5 %
SNAPSHOT_SECONDS = 0.05  # least cost of one: rounds and other messages wait for it


class ShardLog:
    """The log.

    Parameters
    ----------
    makers
        One pickled function a shard, that makes it.
    source
        State of a shard at the end of the log, by its number, if the run knows it; no snapshots are needed then.

    Attributes
    ----------
    first : int
        Position of the first entry that is still there.
    """

    def __init__(self, makers: Sequence[bytes], source: Callable[[int], State] | None = None):
        self._makers, self._source = makers, source
        self.first = 0
        self._entries: list[Entry] = []
        self._sizes: list[int] = []  # bytes of the arrays in each
        self._bytes = 0
        count = len(makers)
        self._hold([None] * count)
        self._positions = [0] * count  # of the snapshots
        self._behind = [0] * count  # entries that concern a shard since its snapshot
        self._seconds = [0.0] * count  # work since the snapshot
        self._cost = SNAPSHOT_SECONDS  # seconds that the last one took, of whichever shard: they are of a kind

    @property
    def end(self) -> int:
        """Position after the last entry."""
        return self.first + len(self._entries)

    @property
    def nbytes(self) -> int:
        """Size of the arrays in the log."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, call: Call, numbers: Iterable[int] | None) -> None:
        """Add a call that changed some shards, or all."""
        entry = Entry(call, None if numbers is None else frozenset(numbers))
        self._entries.append(entry)
        self._sizes.append(_nbytes(call.arguments))
        self._bytes += self._sizes[-1]
        for number in range(len(self._behind)) if entry.numbers is None else entry.numbers:
            if not self._behind[number]:
                self._positions[number] = self.end - 1  # nothing before concerned the shard
            self._behind[number] += 1
        if self._source is not None:
            self._cut(self.end - MOST_ENTRIES)

    def since(self, position: int) -> list[Entry]:
        """Entries from a position on."""
        return self._entries[position - self.first :]

    def rebuild(self, number: int) -> Rebuild:
        """How a shard is made again; the entries from its position on follow."""
        if self._source is not None:
            return Rebuild(self._makers[number], pickle.dumps(self._source(number)), self.end)
        position = self._positions[number] if self._behind[number] else self.end
        return Rebuild(self._makers[number], _content(self._snapshots[number]), position)

    # ---- snapshots

    def worked(self, number: int, seconds: float) -> None:
        """Note that a shard did work that it would have to repeat if it were lost."""
        self._seconds[number] += seconds

    def due(self) -> int | None:
        """The shard whose snapshot is to be taken next; None if none is worth it."""
        if self._source is not None:
            return None
        stale = [number for number, behind in enumerate(self._behind) if behind]
        if not stale:
            return None
        if len(self) >= MOST_ENTRIES or self._bytes >= MOST_BYTES:
            return min(stale, key=self._positions.__getitem__)
        most = max(stale, key=self._seconds.__getitem__)
        return most if self._seconds[most] > REPLAY * self._cost else None

    def keep(self, number: int, state: State, seconds: float = 0.0) -> None:
        """Take the state of a shard that has seen the whole log, which took so long to ask for."""
        if self._source is not None:
            return
        before = self._snapshots[number]
        self._snapshots[number] = _file(pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL))
        if before is not None:
            before.close()
        self._positions[number], self._behind[number], self._seconds[number] = self.end, 0, 0.0
        self._cost = max(seconds, SNAPSHOT_SECONDS)
        self._cut(min((p for p, b in zip(self._positions, self._behind, strict=True) if b), default=self.end))

    def _cut(self, position: int) -> None:
        count = max(position - self.first, 0)
        self._bytes -= sum(self._sizes[:count])
        del self._entries[:count], self._sizes[:count]
        self.first += count

    # ---- copies

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_snapshots": [_content(file) for file in self._snapshots]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._hold([None if held is None else _file(held) for held in state["_snapshots"]])

    def _hold(self, snapshots: list[IO[bytes] | None]) -> None:
        """Have the files of snapshots, which are closed with the log."""
        self._snapshots = snapshots
        weakref.finalize(self, _close, snapshots)


def _file(content: bytes) -> IO[bytes]:
    """A snapshot's file, in memory if it is small."""
    file: IO[bytes] = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 - it is closed with the log
    file.write(content)
    return file


def _close(files: Sequence[IO[bytes] | None]) -> None:
    for file in files:
        if file is not None:
            file.close()


def _content(file: IO[bytes] | None) -> bytes | None:
    if file is None:
        return None
    file.seek(0)
    return file.read()


def _nbytes(value: Any) -> int:
    """Size of the arrays in arguments."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(_nbytes, value.values()))
    return sum(map(_nbytes, value)) if isinstance(value, tuple | list) else 0
