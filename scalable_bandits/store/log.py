"""Logs of a run, open for writing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from scalable_bandits.store import frames
from scalable_bandits.store.frames import Frame, Kind
from scalable_bandits.store.locations import Location
from scalable_bandits.store.record import ROUNDS, Extent


class Entry(NamedTuple):
    """Content of a frame to be written."""

    kind: Kind
    first: int
    payload: bytes
    time: float | None = None  # seconds since 1970; the time of writing if None

    @classmethod
    def of(cls, frame: Frame) -> Entry:
        """Return the content of an existing frame."""
        return cls(frame.kind, frame.first, frame.payload, frame.time)


class Log:
    """One generation of a log.

    Parameters
    ----------
    location
        Location of the run.
    run
        Name of the run.
    name
        Name of the log.
    extent
        Generation, and number of frames already written.
    """

    def __init__(self, location: Location, run: str, name: str, extent: Extent):
        self._location, self._run, self._name = location, run, name
        self.generation, self.frames = extent.generation, extent.frames
        self._seed = frames.seed_of(run, name, extent.generation)
        self._journal = location.journal(f"{name}-{extent.generation}")

    def next_generation(self) -> Log:
        """Return the next generation, whose file is not made yet."""
        return Log(self._location, self._run, self._name, Extent(self.generation + 1))

    def create(self, entries: Iterable[Entry]) -> None:
        """Make the file with its first frames, which include START."""
        pieces = [frames.encode(self._seed, number, *entry) for number, entry in enumerate(entries)]
        self._journal.create(b"".join(pieces))
        self.frames = len(pieces)

    def append(self, entry: Entry) -> None:
        """Add a frame: durable on return, absent if this raises."""
        self._journal.append(frames.encode(self._seed, self.frames, *entry))
        self.frames += 1

    def extent(self, rounds: int) -> Extent:
        """Return the current extent, for a run of `rounds` rounds."""
        return Extent(self.generation, self.frames, rounds if self._name == ROUNDS else 0)

    def mark(self) -> Any:
        """Return the current end, for `rewind`."""
        return self.frames, self._journal.mark()

    def rewind(self, mark: Any) -> None:
        """Cut the log back to an end returned by `mark`."""
        frames, end = mark
        self._journal.rewind(end)
        self.frames = frames

    def remove(self) -> None:
        """Remove the log's file."""
        self._journal.remove()

    def close(self) -> None:
        """Close the log's file."""
        self._journal.close()
