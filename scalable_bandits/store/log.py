"""One log of a run, open for writing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from scalable_bandits.store import frames
from scalable_bandits.store.frames import Kind
from scalable_bandits.store.locations import Location
from scalable_bandits.store.record import ROUNDS, Extent


class Entry(NamedTuple):
    """A frame that is to be written."""

    kind: Kind
    first: int
    payload: bytes
    time: float | None = None  # now, if not given


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
        Generation, and how many frames it has already.
    """

    def __init__(self, location: Location, run: str, name: str, extent: Extent):
        self._location, self._run, self._name = location, run, name
        self.generation, self.frames = extent.generation, extent.frames
        self._seed = frames.seed_of(run, name, extent.generation)
        self._journal = location.journal(f"{name}-{extent.generation}")

    def next_generation(self) -> Log:
        """The next generation, not yet there."""
        return Log(self._location, self._run, self._name, Extent(self.generation + 1))

    def create(self, entries: Iterable[Entry]) -> None:
        """Make it with its first frames, the START among them."""
        pieces = [frames.encode(self._seed, number, *entry) for number, entry in enumerate(entries)]
        self._journal.create(b"".join(pieces))
        self.frames = len(pieces)

    def append(self, entry: Entry) -> None:
        """Add a frame; it is durable when this returns, and not there if it raises."""
        self._journal.append(frames.encode(self._seed, self.frames, *entry))
        self.frames += 1

    def extent(self, rounds: int) -> Extent:
        """How far it reaches, where the run has so many rounds."""
        return Extent(self.generation, self.frames, rounds if self._name == ROUNDS else 0)

    def mark(self) -> Any:
        """Where it ends, for `rewind`."""
        return self.frames, self._journal.mark()

    def rewind(self, mark: Any) -> None:
        """End where it did before."""
        frames, inside = mark
        self._journal.rewind(inside)
        self.frames = frames

    def remove(self) -> None:
        """Remove its file."""
        self._journal.remove()

    def close(self) -> None:
        """Close its file."""
        self._journal.close()
