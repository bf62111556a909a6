"""Interface of a location: the place where one run is stored, and what the store needs it to do."""

from __future__ import annotations

import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import IO, Any, Literal

import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import StorePath, WrapperStore

from scalable_bandits import checks
from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.ledger import Contents, Ledger

COMMITTED = "committed"  # array of the number of rounds, in whose folder the ledger and the lock are
METADATA = "zarr.json"

_CHUNK = re.compile(r"/c([./]\d+)*$")  # end of the key of a chunk


class StrictStore(WrapperStore[Store]):
    """Read-only view of a zarr store in which a missing chunk is an error instead of a block of fill values."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        found = await self._store.get(key, prototype, byte_range)
        if found is None and _CHUNK.search(key):
            raise StoreDamaged(f"the chunk {key} is missing")
        return found


async def _listed(store: Store, prefix: str) -> list[str]:
    return [key async for key in store.list_prefix(prefix)]


class Location(ABC):
    """Place where one run is stored.

    Attributes
    ----------
    keeps_tickets : bool
        Whether evaluations can be kept here, each in a transaction.
    ledger_file : str
        File of the ledger.
    """

    name: str
    ledger_file = f"{COMMITTED}/{METADATA}"
    keeps_tickets = False
    separator: Literal[".", "/"] = "/"  # separator of the numbers in a chunk's key

    @property
    @abstractmethod
    def store(self) -> Store:
        """Zarr store of the location."""

    @abstractmethod
    def read_ledger(self, thorough: bool = False) -> Contents:
        """Return what the ledger has, with `thorough` also damage that only a writer would meet.

        Raises
        ------
        FileNotFoundError
            If there is none.
        """

    @abstractmethod
    def open_ledger(self, contents: Contents | None) -> Ledger:
        """Open the ledger for writing, with the contents that it has; None makes a new one."""

    @abstractmethod
    def lock(self, takeover: bool) -> None:
        """Become the only writer, at once; otherwise raise StoreLocked, which names the current writer."""

    @abstractmethod
    def unlock(self) -> None:
        """Release the lock."""

    @abstractmethod
    def writer(self) -> dict[str, Any] | None:
        """Return the lock owner's record; None if no process is writing as far as can be found out."""

    # ---- keys of the zarr store

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a key; None if it does not exist."""
        found = sync(self.store.get(key, default_buffer_prototype()))
        return None if found is None else found.to_bytes()

    def put(self, key: str, data: bytes) -> None:
        """Set a key."""
        sync(self.store.set(key, default_buffer_prototype().buffer.from_bytes(data)))

    def put_file(self, key: str, write: Callable[[IO[bytes]], Any]) -> None:
        """Set a key to what a function writes to a file."""
        buffer = io.BytesIO()
        write(buffer)
        self.put(key, buffer.getvalue())

    def get_file(self, key: str) -> IO[bytes] | None:
        """Open a key for reading; None if it does not exist."""
        data = self.get(key)
        return None if data is None else io.BytesIO(data)

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with a prefix."""
        return sync(_listed(self.store, prefix))

    def delete(self, path: str) -> None:
        """Remove an array, or a group with its content."""
        sync(self.store.delete_dir(path))

    def document(self, path: str) -> dict[str, Any] | None:
        """Return the stored metadata of an array or group; None if there are none.

        Raises
        ------
        ValueError
            If they are not a JSON object.
        """
        data = self.get(f"{path}/{METADATA}" if path else METADATA)
        if data is None:
            return None
        try:
            found = json.loads(data)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        return found

    def put_document(self, path: str, document: Mapping[str, Any]) -> None:
        """Write the metadata of an array or group."""
        self.put(f"{path}/{METADATA}" if path else METADATA, json.dumps(document).encode())

    def column(self, path: str, document: Mapping[str, Any], strict: bool = False) -> zarr.Array[Any]:
        """Open an array with the given metadata, whatever metadata are stored.

        With `strict` the array is read-only and a missing chunk is an error.
        """
        store = StrictStore(self.store.with_read_only(True)) if strict else self.store
        return zarr.Array.from_dict(StorePath(store, path), dict(document))

    def strict_group(self) -> zarr.Group:
        """Open the run's group for reading; a missing chunk is an error."""
        return zarr.open_group(
            StrictStore(self.store.with_read_only(True)), mode="r", zarr_format=3, use_consolidated=False
        )

    # ---- content

    def occupied(self) -> bool:
        """Whether anything is stored here."""
        return bool(self.keys(""))

    def has_run_files(self) -> bool:
        """Whether there are files that only a run has, possibly a damaged one."""
        return bool(self.keys(f"{COMMITTED}/"))

    def unfinished(self) -> bool:
        """Whether the creation of a run was interrupted: there is no ledger, which is written last, and no round."""
        chunks = (key for key in self.keys("") if _CHUNK.search(key))
        return self.has_run_files() and all(key.startswith((f"{COMMITTED}/", "inputs/")) for key in chunks)

    def clear(self) -> None:
        """Remove what an interrupted creation left."""
        for name in {key.partition("/")[0] for key in self.keys("")} - {COMMITTED, METADATA}:
            self.delete(name)

    def set_aside(self, key: str) -> str:
        """Move a damaged key aside and say where to; a store that can only replace whole objects removes it."""
        sync(self.store.delete(key))
        return "removed"

    def remove_partial_files(self) -> int:
        """Remove half-written files of a killed writer; return their number."""
        return 0

    def free(self) -> int | None:
        """Return how many bytes can still be stored here; None if that is not known."""
        return None

    def size(self) -> int | None:
        """Return the number of bytes used; None if unknown."""
        return None

    def unfinished_move(self) -> str:
        """Return the name of the sibling that a killed process was about to move here; empty if there is none."""
        return ""

    def finish_move(self, name: str) -> None:
        """Move the sibling of this name here."""
        raise NotImplementedError

    def free_sibling(self, suffix: str) -> Location:
        """Return an unused location beside this one.

        Raises
        ------
        ValueError
            If the location has no siblings.
        """
        checks.refuse("recover", self.name, "a store in a folder, of which a copy can be kept: copy it to one first")

    def move(self, place: Location) -> None:
        """Move the content to another location, which does not exist yet."""
        raise NotImplementedError
