"""Pools on disk: candidates in a zarr group that `write` makes, or in a zarr array that something else has written.

| in the group | what it has |
| --- | --- |
| `bits` | packed bits (n, bytes) of fingerprints, if there are any |
| `numbers` | numbers (n, d), if there are any |
| `labels` | labels (n, width) in UTF-8, filled up with zeros, if there are any |
| attributes | identity, chunk, count written so far, ranges of numbers, whether labels are numbers, whether complete |

A chunk is written to all arrays and synced; then the attributes count it. What lies beyond the count is not there, and
is written again. zarr's own checksums (CRC-32C) are in every chunk.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec
from zarr.core.sync import sync
from zarr.storage import FsspecStore

from scalable_bandits import checks
from scalable_bandits.progress import progress_bar, wanted
from scalable_bandits.spaces import Indices
from scalable_bandits.spaces.pool import Shape, StoredRows
from scalable_bandits.store.errors import StoreDamaged, one_line
from scalable_bandits.store.files import sync_directory
from scalable_bandits.store.locations import METADATA, DurableStore
from scalable_bandits.store.pool_sources import Piece, pieces_of

KEY = "pool"  # of the attributes
VERSION = 1
CHUNK_BYTES, LARGEST_CHUNK, LEAST_CHUNK = 2**23, 2**16, 2**10
LABEL_BYTES = 64  # width of the chunks of labels
NUMBER = re.compile(rb"\d+(\.0*)?")  # label that a table or a program may read as a whole number
PASS = 2**14  # least number of candidates that are read together, of arrays with small chunks


def _store(path: str) -> Any:
    return FsspecStore.from_url(path) if "://" in path else DurableStore(Path(path))


class ZarrCandidates:
    """Candidates in zarr arrays; see `StoredCandidates`.

    Parameters
    ----------
    path
        Folder or address, for messages.
    shape
        Number of candidates, and what each has.
    arrays
        Arrays by name: "bits", "numbers", "labels".
    owned
        Whether `write` has written them, so that no chunk may be missing.
    """

    def __init__(self, path: str, shape: Shape, arrays: Mapping[str, zarr.Array[Any]], owned: bool):
        self._path, self.shape, self.arrays, self._owned = path, shape, arrays, owned

    def read(self, part: slice | Indices) -> StoredRows:
        """Read consecutive candidates, or some by number in ascending order."""
        return StoredRows(self.column("bits", part), self.column("numbers", part))

    def labels(self, numbers: Indices) -> list[str]:
        """Read the labels of some candidates, by number in ascending order."""
        found = self.column("labels", numbers)
        assert found is not None
        return [bytes(row).rstrip(b"\0").decode() for row in found]

    def find(self, labels: Iterable[str]) -> dict[str, int]:
        """Look for labels among all; return the number of the first candidate with each that exists."""
        # Half of a surrogate pair is in no label that was stored, and is found nowhere.
        missing, found = {label.encode(errors="surrogatepass"): label for label in labels}, dict[str, int]()
        for start in range(0, self.shape.size, self.shape.chunk):
            if not missing:
                break
            rows = self.column("labels", slice(start, min(start + self.shape.chunk, self.shape.size)))
            assert rows is not None
            texts = np.ascontiguousarray(rows).view(f"S{rows.shape[1]}")[:, 0]
            for i in np.flatnonzero(np.isin(texts, np.array(list(missing)))).tolist():
                if (label := missing.pop(bytes(texts[i]), None)) is not None:
                    found[label] = start + i
        return found

    def column(self, name: str, part: slice | Indices) -> NDArray[Any] | None:
        """Read rows of an array; None if there is no such array."""
        array = self.arrays.get(name)
        if array is None:
            return None
        try:
            found = np.asarray(array[part] if isinstance(part, slice) else array.oindex[part])
        except (ValueError, RuntimeError, OSError) as error:
            raise StoreDamaged(f"{self._part(name, part)} cannot be read ({one_line(error)})") from error
        if self._owned:
            self._check_filled(name, part, found)
        elif not (finite := np.isfinite(found).all(axis=1)).all():
            first = int(np.argmin(finite))
            number = part.start + first if isinstance(part, slice) else int(part[first])
            checks.refuse(f"pool {self._path}, candidate {number}", found[first].tolist(), "finite numbers")
        return found

    def _check_filled(self, name: str, part: slice | Indices, found: NDArray[Any]) -> None:
        """Raise StoreDamaged where zarr has put fill values in the place of a chunk that is missing."""
        array = self.arrays[name]
        empty = np.isnan(found).all(axis=1) if found.dtype.kind == "f" else ~found.any(axis=1)
        if not empty.any():
            return
        rows = np.arange(part.start, part.stop) if isinstance(part, slice) else part
        for chunk in np.unique(rows[empty] // array.chunks[0]).tolist():
            key = f"{array.path}/c/{chunk}/0".lstrip("/")
            if not sync(array.store_path.store.exists(key)):
                first = chunk * array.chunks[0]
                part = slice(first, min(first + array.chunks[0], self.shape.size))
                raise StoreDamaged(f"{self._part(name, part)} are missing: there is no {key}")

    def _part(self, name: str, part: slice | Indices) -> str:
        first, last = (part.start, part.stop - 1) if isinstance(part, slice) else (int(part[0]), int(part[-1]))
        return f"pool {self._path}: {name!r} of candidates {first} to {last}"


def opened(path: str, packed: bool | None = None) -> ZarrCandidates:
    """Open a pool, or an array of candidates, for reading.

    Parameters
    ----------
    path
        Folder or address.
    packed
        Whether an array is one of packed bits; None for what a written pool says, and for numbers otherwise.

    Raises
    ------
    ValueError
        If nothing, or something else, is at the path.
    StoreDamaged
        If the pool is not complete.
    """
    try:
        found = zarr.open(_store(path), mode="r")
    except (FileNotFoundError, ValueError, OSError) as error:
        checks.refuse("path", path, f"a pool of Pool.write, or a zarr array of candidates ({one_line(error)})")
    if isinstance(found, zarr.Array):
        return _foreign(path, found, bool(packed))
    about = _about(path, found)
    if not about["complete"]:
        written = f"only {about['count']:,} candidates have been written"
        raise StoreDamaged(f"pool {path}: {written}; call Pool.write again with the same candidates")
    if packed is not None and packed != ("bits" in about["columns"]):
        checks.refuse("packed", packed, f"{not packed}, as the pool was written")
    return _written(path, found, about)


def _written(path: str, group: zarr.Group, about: dict[str, Any]) -> ZarrCandidates:
    """Return the candidates that have been written to a pool so far."""
    arrays = dict[str, zarr.Array[Any]]()
    for name in about["columns"]:
        array = group.get(name)
        if not isinstance(array, zarr.Array):
            raise StoreDamaged(f"pool {path}: there is no array {name!r}")
        arrays[name] = array
    widths = {name: array.shape[1] for name, array in arrays.items()}
    if any(array.shape[0] < about["count"] for array in arrays.values()):
        raise StoreDamaged(f"pool {path}: an array has fewer than the {about['count']:,} candidates that were written")
    ranges = np.array(about["ranges"]) if about["ranges"] else None
    bits, numbers = widths.get("bits", 0), widths.get("numbers", 0)
    named = "labels" in arrays, about.get("numeric_labels", False)
    shape = Shape(about["count"], bits, numbers, about["chunk"], *named, ranges, about["identity"])
    return ZarrCandidates(path, shape, arrays, owned=True)


def _about(path: str, group: zarr.Group) -> dict[str, Any]:
    about = group.attrs.asdict().get(KEY)
    if not isinstance(about, dict) or about.get("version") != VERSION:
        checks.refuse("path", path, "a pool of Pool.write, or a zarr array of candidates: this is another group")
    return about


def _foreign(path: str, array: zarr.Array[Any], packed: bool) -> ZarrCandidates:
    if array.ndim != 2 or not array.shape[0] or array.dtype.kind not in "iuf":
        checks.refuse("path", f"an array of shape {array.shape}, {array.dtype}", "an array of numbers (n, d)")
    if packed and array.dtype != np.uint8:
        checks.refuse("packed", packed, f"False: the array is one of {array.dtype}, not of bytes")
    n, width = array.shape
    own = array.chunks[0]
    chunk = own * -(-PASS // own)
    widths = (width, 0) if packed else (0, width)
    identity = f"{path} {array.shape} {array.dtype} {array.chunks}"
    shape = Shape(n, *widths, chunk, False, False, None, identity)
    return ZarrCandidates(path, shape, {"bits" if packed else "numbers": array}, owned=False)


# ---- writing


def write(
    path: str, rows: Any, *, packed: bool, label: str | None, chunk: int | None, total: int | None,
    progress: bool | None,
) -> None:  # fmt: skip
    """Write candidates, or those that are missing; see `Pool.write`."""
    if chunk is not None:
        chunk = checks.integer("chunk", chunk, 1)
    store = _store(path)
    group, place = None, Path(path)
    if "://" not in path and not (there := next(p for p in (place, *place.parents) if p.exists())).is_dir():
        checks.refuse("path", path, f"a new folder, or one with an unfinished pool: {there} is a file")
    if "://" in path or place.exists():
        try:
            group = zarr.open_group(store, mode="r+")
        except (FileNotFoundError, ValueError):
            if "://" not in path and any(inside.suffix != ".partial" for inside in place.iterdir()):
                checks.refuse("path", path, "a new folder, or one with an unfinished pool")
    about = None if group is None else _about(path, group)
    if about is not None and about["complete"]:
        checks.refuse("path", path, f"a new one: a pool of {about['count']:,} candidates is there")
    if about is not None and not about["count"]:
        about = None  # arrays may be missing: it is begun again
    start = about["count"] if about is not None else 0
    pieces, first, known = pieces_of(rows, start, packed, label)
    total = known if total is None else checks.integer("total", total, 1)
    shown = (wanted() if progress is None else progress) and total is not None
    writer = None if group is None or about is None else _Writer(path, group, about)
    try:
        with progress_bar(shown, f"pool {place.name}", total or 0, first, unit=" candidates") as advance:
            for piece in _regrouped(pieces, about["chunk"] if about is not None else chunk):
                if writer is None:
                    writer = _Writer.new(path, store, piece, chunk or _chunk_of(piece))
                if first < start:
                    writer.compare(piece, first)
                else:
                    writer.add(piece)
                first += len(piece)
                advance(len(piece))
    except Exception as error:
        if writer is not None and writer.count > start:
            left = f"{writer.count:,} candidates have been written to the pool {path}, which is not finished"
            error.add_note(f"{left}: the same candidates and those that follow finish it; to begin again, delete it")
        raise
    if writer is None:
        checks.refuse("rows", rows, "at least one candidate")
    if first < start:
        writer.refuse_others("rows", f"{first:,} candidates")
    writer.finish()


def _chunk_of(piece: Piece) -> int:
    """Return the default number of candidates in a chunk."""
    return min(max(CHUNK_BYTES // piece.row_bytes // 64 * 64, LEAST_CHUNK), LARGEST_CHUNK)


def _regrouped(pieces: Iterable[Piece], chunk: int | None) -> Iterator[Piece]:
    """Yield pieces of the length of a chunk each, the last one shorter."""
    held: list[Piece] = []
    waiting = 0
    for piece in pieces:
        chunk = chunk or _chunk_of(piece)
        held.append(piece)
        waiting += len(piece)
        while waiting >= chunk:
            whole = Piece.joined(held)
            yield whole.part(0, chunk)
            held, waiting = [whole.part(chunk, len(whole))], waiting - chunk
    if waiting:
        yield Piece.joined(held)


class _Writer:
    """Writer of chunks, the last of which may be shorter."""

    def __init__(self, path: str, group: zarr.Group, about: dict[str, Any]):
        self._path, self._group, self._about = path, group, about
        self._written = _written(path, group, about)

    @property
    def count(self) -> int:
        """Number of candidates that have been written."""
        return cast(int, self._about["count"])

    @classmethod
    def new(cls, path: str, store: Any, piece: Piece, chunk: int) -> _Writer:
        about: dict[str, Any] = {
            "version": VERSION, "identity": uuid.uuid4().hex, "chunk": chunk, "count": 0, "complete": False,
            "columns": list(piece.arrays), "ranges": None,
        }  # fmt: skip
        # The attributes come first: without them, this would be a group of something else after an interruption.
        group = zarr.open_group(store, mode="a", zarr_format=3, attributes={KEY: about})
        for name, rows in piece.arrays.items():
            width = LABEL_BYTES if name == "labels" else rows.shape[1]
            group.create_array(
                name, shape=(0, width), chunks=(chunk, width), dtype=rows.dtype, serializer=BytesCodec(),
                compressors=[ZstdCodec(level=1), Crc32cCodec()], fill_value=np.nan if rows.dtype.kind == "f" else 0,
                config={"write_empty_chunks": True}, overwrite=True,
            )  # fmt: skip
        return cls(path, group, about)

    def _fitted(self, piece: Piece) -> Iterator[tuple[str, zarr.Array[Any], NDArray[Any]]]:
        """Yield the name of each array, the array, and its rows in a piece; ValueError for rows of another form."""
        if list(piece.arrays) != (before := self._about["columns"]):
            checks.refuse("rows", f"candidates with {list(piece.arrays)}", f"those with {before}, as before")
        for name, rows in piece.arrays.items():
            array = self._written.arrays[name]
            width = array.shape[1]
            if name == "labels":
                width = max(width, -(-rows.shape[1] // LABEL_BYTES) * LABEL_BYTES)
                rows = np.pad(rows, ((0, 0), (0, width - rows.shape[1])))
            elif rows.shape[1] != width or rows.dtype != array.dtype:
                allowed = f"rows of {width} numbers, {array.dtype}, as before"
                checks.refuse("rows", f"rows of {rows.shape[1]}, {rows.dtype}", allowed)
            yield name, array, rows

    def compare(self, piece: Piece, first: int) -> None:
        """Refuse candidates, from number `first` on, that are not the ones that have been written there."""
        stop = min(first + len(piece), self.count)
        for name, array, rows in self._fitted(piece):
            before = self._written.column(name, slice(first, stop))
            assert before is not None
            before = np.pad(before, ((0, 0), (0, rows.shape[1] - array.shape[1])))
            if (differs := (rows[: stop - first] != before).any(axis=1)).any():
                self.refuse_others(f"rows, {name!r}", f"another candidate {first + int(differs.argmax())}")
        if stop < first + len(piece):
            self.refuse_others("rows", f"more than {stop:,} candidates")

    def refuse_others(self, argument: str, given: str) -> NoReturn:
        """Refuse candidates that are not the ones that have been written."""
        allowed = f"the {self.count:,} candidates that have been written to {self._path}, and those that follow"
        checks.refuse(argument, given, f"{allowed}; to begin again, delete it")

    def add(self, piece: Piece) -> None:
        """Write a chunk, then count it."""
        about, start = self._about, self.count
        if start % about["chunk"]:
            self.refuse_others("rows", f"more than {start:,} candidates")
        stop = start + len(piece)
        for _, array, rows in self._fitted(piece):
            array.resize((stop, rows.shape[1]))
            array.with_config({"write_empty_chunks": True})[start:stop] = rows
        if "numbers" in piece.arrays:
            numbers = piece.arrays["numbers"]
            ends = np.column_stack([numbers.min(axis=0), numbers.max(axis=0)]).astype(float)
            if about["ranges"] is not None:
                before = np.array(about["ranges"])
                ends = np.column_stack([np.minimum(ends[:, 0], before[:, 0]), np.maximum(ends[:, 1], before[:, 1])])
            about["ranges"] = ends.tolist()
        if "labels" in piece.arrays and not about.get("numeric_labels", False):
            labels = np.ascontiguousarray(piece.arrays["labels"])
            about["numeric_labels"] = any(map(NUMBER.fullmatch, labels.view(f"S{labels.shape[1]}")[:, 0].tolist()))
        about["count"] = stop
        self._group.attrs[KEY] = about

    def finish(self) -> None:
        """Mark the pool as complete, durably."""
        self._about["complete"] = True
        self._group.attrs[KEY] = self._about
        if "://" not in self._path:
            for name in ("", *self._about["columns"]):
                folder = Path(self._path) / name
                with (folder / METADATA).open("rb") as file:
                    os.fsync(file.fileno())
                sync_directory(folder)
