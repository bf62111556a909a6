"""Interface of a location: the place where one run is stored, and what the store needs it to do."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import StorePath, WrapperStore

from scalable_bandits import checks
from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.journal import Journal

COMMITTED = "committed"  # array of the number of rounds; in a folder also the directory of the logs and the lock
BOOKKEEPING = "bookkeeping"  # group of the logs and the lock in stores other than folders
METADATA = "zarr.json"

BEGINNING = 120  # largest size in bytes of a journal without rounds
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
    """Place where one run is stored."""

    name: str
    generation = 0  # number of the transaction; arrays opened in an earlier one are opened again
    separator: Literal[".", "/"] = "/"  # separator of the numbers in a chunk's key
    log_folder: str = BOOKKEEPING  # folder or group of the logs and the commit record
    record_file: str = f"{BOOKKEEPING}/{METADATA}"  # file of the commit record

    @property
    @abstractmethod
    def store(self) -> Store:
        """Zarr store of the location."""

    @abstractmethod
    def journal(self, name: str) -> Journal:
        """Return the journal of this name, which need not exist."""

    @abstractmethod
    def journals(self) -> list[str]:
        """Return the names of the existing journals."""

    @abstractmethod
    def read_record(self) -> Any:
        """Return the commit record as plain data: None if there is none, any JSON value if it is damaged.

        Raises
        ------
        ValueError
            If it is not JSON.
        """

    @abstractmethod
    def write_record(self, record: Mapping[str, Any]) -> None:
        """Replace the commit record durably and as a whole: a crash leaves either the old or the new one."""

    def acknowledge(self, counter: bytes) -> None:  # noqa: B027 - object stores do without: it would cost a request
        """Overwrite the count of acknowledged frames in place, as cheaply as possible."""

    def acknowledged(self) -> bytes | None:
        """Return the count of acknowledged frames; None if none is kept. After a power failure it may be too low."""
        return None

    @abstractmethod
    def lock(self, takeover: bool) -> None:
        """Become the only writer, at once; otherwise raise StoreLocked, which names the current writer."""

    @abstractmethod
    def unlock(self) -> None:
        """Release the lock."""

    def free(self) -> int | None:
        """Return how many bytes can still be stored here; None if that is not known."""
        return None

    def refresh(self) -> None:  # noqa: B027 - only transactions need it
        """Make writes of other processes visible."""

    def commit_transaction(self) -> None:  # noqa: B027
        """Make all writes since the last transaction visible at once."""

    def roll_back(self) -> None:  # noqa: B027
        """Drop the writes since the last transaction."""

    def unfinished_move(self) -> str:
        """Return the name of the sibling that a killed process was about to move here; empty if there is none."""
        return ""

    def finish_move(self, name: str) -> None:
        """Move the sibling of this name here."""
        raise NotImplementedError

    # ---- keys of the zarr store

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a key; None if it does not exist."""
        found = sync(self.store.get(key, default_buffer_prototype()))
        return None if found is None else found.to_bytes()

    def put(self, key: str, data: bytes) -> None:
        """Set a key."""
        sync(self.store.set(key, default_buffer_prototype().buffer.from_bytes(data)))

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
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        return found

    def put_document(self, path: str, document: Mapping[str, Any]) -> None:
        """Write the metadata of an array or group."""
        self.put(f"{path}/{METADATA}" if path else METADATA, json.dumps(document, indent=2).encode())

    def column(self, path: str, document: Mapping[str, Any], strict: bool = False) -> zarr.Array[Any]:
        """Open an array with the given metadata, whatever metadata are stored.

        With `strict` the array is read-only and a missing chunk is an error.
        """
        store = StrictStore(self.store.with_read_only(True)) if strict else self.store
        return zarr.Array.from_dict(StorePath(store, path), dict(document))

    def group(self, mode: Literal["r", "r+", "a"] = "r", path: str | None = None) -> zarr.Group:
        """Open the run's group, or a group inside it; raise FileNotFoundError if it does not exist."""
        return zarr.open_group(self.store, mode=mode, path=path, zarr_format=3, use_consolidated=False)

    # ---- content

    def strict_group(self) -> zarr.Group:
        """Open the run's group for reading; a missing chunk is an error."""
        return zarr.open_group(
            StrictStore(self.store.with_read_only(True)), mode="r", zarr_format=3, use_consolidated=False
        )

    def set_aside(self, path: str) -> str:
        """Move an array aside and say where to; a store that can only replace whole objects removes it."""
        self.delete(path)
        self.commit_transaction()
        return "removed"

    def occupied(self) -> bool:
        """Whether anything is stored here."""
        return bool(self.keys(""))

    def has_rounds(self) -> bool:
        """Whether rounds were ever written here: as chunks, or in a journal."""
        chunks = (key for key in self.keys("") if _CHUNK.search(key))
        without_rounds = (f"{COMMITTED}/", "inputs/", f"{self.log_folder}/")
        if any(not key.startswith(without_rounds) for key in chunks):
            return True
        return any(len(self.journal(name).read() or b"") > BEGINNING for name in self.journals())

    def has_run_files(self) -> bool:
        """Whether there are files that only a run has, possibly a damaged one."""
        return bool(self.keys(f"{COMMITTED}/") or self.keys(f"{self.log_folder}/"))

    def unfinished(self) -> bool:
        """Whether the creation of a run was interrupted: the commit record, which is written last, is missing."""
        try:
            recorded = self.read_record() is not None
        except ValueError:
            return False
        return not recorded and self.had_writer() and not self.has_rounds()

    def had_writer(self) -> bool:
        """Whether a process has locked this location before."""
        return self.has_run_files()

    def clear(self) -> None:
        """Remove what an interrupted creation left."""
        self.remove_partial_files()
        for name in {key.partition("/")[0] for key in self.keys("")} - {self.log_folder, METADATA}:
            self.delete(name)
        for name in self.journals():
            self.journal(name).remove()

    def remove_partial_files(self) -> int:
        """Remove half-written files of a killed writer; return their number."""
        return 0

    def size(self) -> int | None:
        """Return the number of bytes used; None if unknown."""
        return None

    def writer(self) -> dict[str, Any] | None:
        """Return the lock owner's record; None if no process is writing as far as can be found out."""
        return None

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
