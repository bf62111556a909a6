"""Where a run is kept: what every place can do."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, Literal

import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.core.sync import sync
from zarr.storage import WrapperStore

from scalable_bandits import checks
from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.journal import Journal

COMMITTED = "committed"  # the array of the count; the folder of a run's journal and lock too, where zarr lists nothing
JOURNAL = "journal"
BOOKKEEPING = "bookkeeping"  # the group with the journal and the lock where a run is no folder

_CHUNK = re.compile(r"/c([./]\d+)*$")  # how the key of a chunk ends


class CompleteStore(WrapperStore[Store]):
    """For reading: a chunk that is not there is an error, not a block of fill values."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        found = await self._store.get(key, prototype, byte_range)
        if found is None and _CHUNK.search(key):
            raise StoreDamaged(f"the chunk {key} is missing")
        return found


async def _listed(store: Store, prefix: str) -> list[str]:
    return [key async for key in store.list_prefix(prefix)]


class Location(ABC):
    """A place that holds one run."""

    name: str
    generation = 0  # what was opened in an earlier one has to be opened again
    separator: Literal[".", "/"] = "/"  # between the numbers in a chunk's key

    @property
    @abstractmethod
    def store(self) -> Store:
        """Zarr's view of it."""

    @abstractmethod
    def journal(self, group: zarr.Group, earlier: Journal | None = None, name: str = JOURNAL) -> Journal:
        """A journal of the run whose group is given; goes on from the same journal as it was opened earlier."""

    @abstractmethod
    def lock(self, takeover: bool) -> None:
        """Become the only writer, at once or not at all: StoreLocked names who is."""

    @abstractmethod
    def unlock(self) -> None:
        """Stop being it."""

    def look_again(self) -> None:  # noqa: B027 - most places have nothing to do
        """See what others wrote since."""

    def settle(self) -> None:  # noqa: B027
        """Make what was written visible as one."""

    def group(self, mode: Literal["r", "r+", "a"] = "r", path: str | None = None) -> zarr.Group:
        """The run's group, or one inside it; FileNotFoundError if it is not there."""
        return zarr.open_group(self.store, mode=mode, path=path, zarr_format=3, use_consolidated=False)

    def array(self, name: str) -> zarr.Array[Any]:
        """One of the run's arrays; FileNotFoundError if it is not there."""
        return zarr.open_array(self.store, mode="r", path=name, zarr_format=3)

    def first_missing(self, name: str, chunks: int) -> int:
        """Number of the first chunk along the rounds, of so many, that an array does not have; `chunks` if it has all.

        Asks for names only.
        """
        array = self.array(name)
        inner = (0,) * (array.ndim - 1)
        there = set(sync(_listed(self.store, f"{name}/")))
        keys = (f"{name}/{array.metadata.encode_chunk_key((i, *inner))}" for i in range(chunks))
        return next((i for i, key in enumerate(keys) if key not in there), chunks)

    def remove_metadata(self, name: str) -> bool:
        """Remove metadata that cannot be read, of an array or (no name) of the group; False if that cannot be done."""
        return False

    def complete(self) -> zarr.Group:
        """The run's group for reading, in which a missing chunk is an error."""
        store = CompleteStore(self.store.with_read_only(True))
        return zarr.open_group(store, mode="r", zarr_format=3, use_consolidated=False)

    def occupied(self) -> bool:
        """Whether anything is there."""
        try:
            self.group()
        except FileNotFoundError:
            return self._holds(COMMITTED)
        except Exception:  # something that cannot be read
            pass
        return True

    def _holds(self, name: str) -> bool:
        try:
            self.array(name)
        except Exception as error:  # metadata that cannot be read are there
            return not isinstance(error, FileNotFoundError)
        return True

    def marked(self) -> bool:
        """Whether what is there bears the marks of a run, be it a damaged one."""
        return self._holds(COMMITTED) or BOOKKEEPING in self.group()

    def unfinished(self) -> bool:
        """Whether what is there is a run whose making was interrupted."""
        try:
            inside = self.group(path=BOOKKEEPING)
        except FileNotFoundError:
            return False
        return not self._holds(COMMITTED) and JOURNAL not in inside

    def clear(self) -> None:
        """Remove what an interrupted making left."""
        if self.unfinished():
            for name in list(self.group().keys()):
                if name != BOOKKEEPING:
                    del self.group("r+")[name]

    def sweep(self) -> int:
        """Remove what a writer that died left half written; tells how many files."""
        return 0

    def size(self) -> int | None:
        """Bytes taken, where it is known."""
        return None

    def writer(self) -> dict[str, Any] | None:
        """Who is writing, as far as can be told; None if nobody is."""
        return None

    def beside(self, what: str) -> Location:
        """A place of its own next to this one."""
        checks.refuse("store", self.name, "a store in a folder: copy it to one to upgrade it")

    def move(self, place: Location) -> None:
        """Become another place."""
        raise NotImplementedError

    def set_aside(self) -> str:
        """Copy everything to a place of its own, before something is cut; tells where."""
        checks.refuse("recover", self.name, "a store in a folder, which can be copied before anything is cut")
