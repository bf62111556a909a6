"""Where a run is kept: what every place can do."""

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

COMMITTED = "committed"  # the array of the count; the folder of a run's logs and lock too, where zarr lists nothing
JOURNAL_1 = "journal"  # the journal of schema 1; later ones have their generation in their names
BOOKKEEPING = "bookkeeping"  # the group with the logs and the lock where a run is no folder
METADATA = "zarr.json"

BEGINNING = 120  # bytes at the most of a journal that has begun and says nothing yet
_CHUNK = re.compile(r"/c([./]\d+)*$")  # how the key of a chunk ends


class StrictStore(WrapperStore[Store]):
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
    log_folder: str = BOOKKEEPING  # where the logs and the commit record are
    record_file: str = f"{BOOKKEEPING}/{METADATA}"  # that the commit record is in

    @property
    @abstractmethod
    def store(self) -> Store:
        """Zarr's view of it."""

    @abstractmethod
    def journal(self, name: str) -> Journal:
        """The journal of this name."""

    @abstractmethod
    def journals(self) -> list[str]:
        """Names of the journals that are there."""

    @abstractmethod
    def read_schema_1(self, name: str) -> bytes:
        """Bytes of a journal of schema 1; none if it is not there."""

    @abstractmethod
    def remove_schema_1(self, name: str) -> None:
        """Remove a journal of schema 1, if it is there."""

    @abstractmethod
    def read_record(self) -> Any:
        """The commit record as plain data; None if there is none, and whatever JSON there is if it is damaged.

        Raises
        ------
        ValueError
            If it is no JSON.
        """

    @abstractmethod
    def write_record(self, record: Mapping[str, Any]) -> None:
        """Replace the commit record, durably; it is whole or the earlier one."""

    def acknowledge(self, counter: bytes) -> None:  # noqa: B027 - object stores would need another request for it
        """Overwrite the count of acknowledged frames in place, as cheaply as may be."""

    def acknowledged(self) -> bytes | None:
        """The count as it was last written, or as the system kept it; None if none is kept."""
        return None

    @abstractmethod
    def lock(self, takeover: bool) -> None:
        """Become the only writer, at once or not at all: StoreLocked names who is."""

    @abstractmethod
    def unlock(self) -> None:
        """Stop being it."""

    def refresh(self) -> None:  # noqa: B027 - most places have nothing to do
        """See what others wrote since."""

    def commit_transaction(self) -> None:  # noqa: B027
        """Make what was written visible as one."""

    def roll_back(self) -> None:  # noqa: B027
        """Forget what was written and is not settled."""

    def unfinished_move(self) -> str:
        """Name of the place of a run that was to be moved here, of a process that was killed before; empty if none."""
        return ""

    def finish_move(self, left: str) -> None:
        """Move it here."""
        raise NotImplementedError

    # ---- keys of the zarr store

    def get(self, key: str) -> bytes | None:
        """Bytes of a key; None if it is not there."""
        found = sync(self.store.get(key, default_buffer_prototype()))
        return None if found is None else found.to_bytes()

    def put(self, key: str, data: bytes) -> None:
        """Set a key."""
        sync(self.store.set(key, default_buffer_prototype().buffer.from_bytes(data)))

    def keys(self, prefix: str) -> list[str]:
        """Keys that begin so."""
        return sync(_listed(self.store, prefix))

    def delete(self, path: str) -> None:
        """Remove an array or a group with all that is in it."""
        sync(self.store.delete_dir(path))

    def document(self, path: str) -> dict[str, Any] | None:
        """Metadata of an array or group as it is stored; None if there is none.

        Raises
        ------
        ValueError
            If it is no JSON object.
        """
        data = self.get(f"{path}/{METADATA}" if path else METADATA)
        if data is None:
            return None
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("it is no JSON object")
        return found

    def put_document(self, path: str, document: Mapping[str, Any]) -> None:
        """Write the metadata of an array or group."""
        self.put(f"{path}/{METADATA}" if path else METADATA, json.dumps(document, indent=2).encode())

    def column(self, path: str, document: Mapping[str, Any], strict: bool = False) -> zarr.Array[Any]:
        """An array whose metadata are given, whatever the store says of them; a missing chunk is an error if asked."""
        store = StrictStore(self.store.with_read_only(True)) if strict else self.store
        return zarr.Array.from_dict(StorePath(store, path), dict(document))

    def group(self, mode: Literal["r", "r+", "a"] = "r", path: str | None = None) -> zarr.Group:
        """The run's group, or one inside it; FileNotFoundError if it is not there."""
        return zarr.open_group(self.store, mode=mode, path=path, zarr_format=3, use_consolidated=False)

    # ---- what is here

    def strict_group(self) -> zarr.Group:
        """The run's group for reading, in which a missing chunk is an error."""
        return zarr.open_group(
            StrictStore(self.store.with_read_only(True)), mode="r", zarr_format=3, use_consolidated=False
        )

    def set_aside(self, path: str) -> str:
        """Put an array out of the way, and say where; where only whole objects can be put, it is removed."""
        self.delete(path)
        self.commit_transaction()
        return "removed"

    def occupied(self) -> bool:
        """Whether anything is there."""
        return bool(self.keys(""))

    def has_rounds(self) -> bool:
        """Whether rounds were ever written here: chunks, or a journal with more than its beginning."""
        chunks = (key for key in self.keys("") if _CHUNK.search(key))
        aside = (f"{COMMITTED}/", "inputs/", f"{self.log_folder}/")
        if any(not key.startswith(aside) for key in chunks):
            return True
        return any(len(self.journal(name).read() or b"") > BEGINNING for name in self.journals())

    def has_run_files(self) -> bool:
        """Whether what is there bears the marks of a run, be it a damaged one."""
        return bool(self.keys(f"{COMMITTED}/") or self.keys(f"{self.log_folder}/"))

    def unfinished(self) -> bool:
        """Whether what is there is a run whose making was interrupted: the commit record comes last."""
        try:
            recorded = self.read_record() is not None
        except ValueError:
            return False
        return not recorded and self.had_writer() and not self.read_schema_1(JOURNAL_1) and not self.has_rounds()

    def had_writer(self) -> bool:
        """Whether a writer has been here."""
        return self.has_run_files()

    def clear(self) -> None:
        """Remove what an interrupted making left."""
        self.remove_partial_files()
        for name in {key.partition("/")[0] for key in self.keys("")} - {self.log_folder, METADATA}:
            self.delete(name)
        for name in self.journals():
            self.journal(name).remove()

    def remove_partial_files(self) -> int:
        """Remove what a writer that died left half written; tells how many files."""
        return 0

    def size(self) -> int | None:
        """Bytes taken, where it is known."""
        return None

    def writer(self) -> dict[str, Any] | None:
        """The process that is writing, as far as can be told; None if there is no writer."""
        return None

    def free_sibling(self, what: str, why: str) -> Location:
        """A place of its own next to this one; ValueError if there is none, of the argument `why`."""
        checks.refuse(why, self.name, "a store in a folder, of which a copy can be kept: copy it to one first")

    def move(self, place: Location) -> None:
        """Become another place."""
        raise NotImplementedError
