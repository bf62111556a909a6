"""A run as it can be read: whole chunks from zarr, the rounds after them from the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.specification import nearest
from scalable_bandits.store import journal as journals
from scalable_bandits.store import pending as pendings
from scalable_bandits.store.errors import StoreDamaged, StoreError
from scalable_bandits.store.journal import Kind
from scalable_bandits.store.layout import INPUTS, ROUND, fields_of
from scalable_bandits.store.locations import COMMITTED, Location
from scalable_bandits.store.rows import Columns, Rows

if TYPE_CHECKING:
    import xarray

ATTEMPTS = 100  # to look at a run between two of its writer's chunks


class StoredRun:
    """One run, open for reading: fields over rounds 1, 2, ...

    Attributes
    ----------
    specification : dict
        What made the run, as plain data.
    planned : int or None
        Rounds that the run is to have, where that is known.
    pending : list of int
        Candidates asked for and not told.
    proposals : Proposals
        Their points, of a policy that plays a whole box.
    orderly : bool
        Whether the last writer closed the run, as opposed to having died.
    repairs : list of str
        What opening had to mend.
    last_write : float
        When, in seconds since 1970.
    """

    def __init__(self, location: Location, attributes: Mapping[str, Any]):
        self.location = location
        self.attributes = dict(attributes)
        self.fields = fields_of(attributes)
        self.chunk: int = attributes["chunk"]
        self.specification: dict[str, Any] = dict(attributes["specification"])
        self.planned: int | None = attributes["planned"]
        self.pending: list[int] = []
        self.proposals = pendings.NONE
        self.dimension: int = attributes.get("proposals", 0)  # of the points in what is pending
        self.orderly = True
        self.repairs: list[str] = []
        self.last_write = 0.0
        self._fixed = False  # whether all rows are in memory for good
        self._folded = 0  # rounds in whole chunks
        self._rows = Rows(self.fields)  # the rounds after those

    def __len__(self) -> int:
        """Rounds in the run, as of the last `refresh`; while it is written, those that were appended."""
        return self._folded + len(self._rows)

    def keep(self, columns: Columns) -> None:
        """Be a run of these rows, an array (k, ...) of each field, all in memory."""
        rows, count = self._rows.check(columns)
        self._rows.extend(rows, count)
        self._fixed = True

    def refresh(self) -> None:
        """Look again at what the run holds."""
        if self._fixed:
            return
        for _ in range(ATTEMPTS):
            self.location.look_again()
            before = self._count()
            try:
                self._load(self.location.journal(self.location.group()).read(), before)
            except StoreDamaged:
                if self._count() == before:
                    raise
                continue
            if self._count() == before:  # else a chunk was finished in between
                return
        raise StoreError(f"store {self.location.name}: it is written faster than it can be read")

    def read(self, start: int = 0, stop: int | None = None, names: Sequence[str] | None = None) -> Columns:
        """Columns of rounds start + 1 to stop: arrays over rounds by field.

        Parameters
        ----------
        start, stop
            How many rounds are left out before, and which is the last; the run's last if not given.
        names
            Fields, "round" among them; all but the round if not given.

        Returns
        -------
        dict
            Of each field an array (k, ...) over the k rounds, in the units of the field.

        Raises
        ------
        ValueError
            If a number is negative, or there is no such field.
        StoreDamaged
            If a chunk is missing or its checksum wrong; the message says which rounds are readable.
        """
        end = len(self) if stop is None else min(checks.integer("stop", stop, 0), len(self))
        start = min(checks.integer("start", start, 0), end)
        fields = [field.name for field in self.fields]
        for name in fields if names is None else names:
            if name not in (ROUND.name, *fields):
                checks.refuse("names", name, nearest(str(name), (ROUND.name, *fields)))
        folded = min(end, self._folded)
        tail = self._rows.view(max(start - self._folded, 0), max(end - self._folded, 0))
        columns: Columns = {}
        for name in fields if names is None else names:
            if name == ROUND.name:
                columns[name] = np.arange(start + 1, end + 1)
            elif start >= folded:
                columns[name] = tail[name].copy()
            elif end <= self._folded:
                columns[name] = self._chunks(name, start, folded)
            else:
                columns[name] = np.concatenate([self._chunks(name, start, folded), tail[name]])
        return columns

    def sample(self, name: str, rounds: np.ndarray) -> np.ndarray:
        """One field at some rounds (k,), ascending from 1: (k, ...), with never more than a chunk in memory."""
        pieces = []
        positions = np.asarray(rounds) - 1
        for first in range(0, len(self), self.chunk):
            inside = positions[(positions >= first) & (positions < first + self.chunk)]
            if len(inside):
                pieces.append(self.read(first, first + self.chunk, [name])[name][inside - first])
        return np.concatenate(pieces) if pieces else np.empty(0)

    def dataset(self) -> xarray.Dataset:
        """The run as a lazy xarray dataset (dask arrays) over ``round``."""
        import dask.array
        import pandas
        import xarray

        group, tail = self.location.complete(), self._rows.view()
        variables: dict[str, Any] = {}
        for field in self.fields:
            pieces = []
            if self._folded:
                pieces.append(dask.array.from_zarr(group[field.name])[: self._folded])
            if len(self._rows) or not pieces:
                pieces.append(dask.array.from_array(tail[field.name].copy(), chunks=-1))
            array = pieces[0] if len(pieces) == 1 else dask.array.concatenate(pieces)
            variables[field.name] = ((ROUND.name, *field.dimensions), array)
        return xarray.Dataset(variables, coords={ROUND.name: pandas.RangeIndex(1, len(self) + 1)})

    def input(self, digest: str) -> NDArray[Any]:
        """Array (...,) that the specification speaks of, shaped as it says; StoreDamaged if it cannot be read."""
        try:
            return np.asarray(self.location.complete()[f"{INPUTS}/{digest}"][...])  # type: ignore[index]
        except Exception as error:
            text = f"store {self.location.name}: an array of the specification cannot be read ({error})"
            raise StoreDamaged(text) from error

    def size(self) -> int | None:
        """Bytes on disk, where that is known."""
        return self.location.size()

    # ---- from what is on disk

    def _count(self) -> int:
        try:
            return int(np.asarray(self.location.complete()[COMMITTED][()]))  # type: ignore[index]
        except Exception:  # it is gone, or codecs and metadata raise what they like
            return self._recount()

    def _recount(self) -> int:
        """Rounds in the arrays, by the chunks that are there in all of them."""
        group: Any = self.location.group()
        try:
            arrays = [group[field.name] for field in (ROUND, *self.fields)]
            chunks = min(array.nchunks_initialized for array in arrays)
            last = np.asarray(arrays[0][max(chunks - 1, 0) * self.chunk : chunks * self.chunk])
        except Exception as error:
            text = f"store {self.location.name}: neither its count nor its arrays can be read ({error})"
            raise StoreDamaged(text) from error
        return max(chunks - 1, 0) * self.chunk + int((last > 0).sum())

    def _chunks(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows of one field from the arrays."""
        try:
            return np.asarray(self.location.complete()[name][start:stop])  # type: ignore[index]
        except Exception as error:
            raise StoreDamaged(self._damage(name, start, stop, error)) from error

    def _damage(self, name: str, start: int, stop: int, error: Exception) -> str:
        first = self.first_unreadable(name, start, stop)
        last = min(first + self.chunk, max(len(self), stop))
        why = " ".join(str(error).split()) or type(error).__name__
        return (
            f"store {self.location.name}: rounds {first + 1} to {last} of {name!r} cannot be read ({why}); "
            f"rounds 1 to {first} can be recovered: open it with recover=True"
        )

    def first_unreadable(self, name: str, start: int, stop: int) -> int:
        """First chunk boundary from which on rows of a field cannot be read; `stop` if all can."""
        for first in range(start // self.chunk * self.chunk, stop, self.chunk):
            try:
                self.location.complete()[name][first : min(first + self.chunk, stop)]  # type: ignore[index]
            except Exception:
                return first
        return stop

    def _load(self, data: bytes, committed: int) -> int:
        """Take the rounds after the whole chunks from the journal's bytes; tells how many of these are good."""
        self._folded = committed // self.chunk * self.chunk
        self._rows = Rows(self.fields)
        self.pending, self.proposals, self.orderly = [], pendings.NONE, False
        good = seen = 0
        for frame, stop in journals.parse(data):
            if frame.kind == Kind.START:
                if good:
                    break
                seen = frame.first
                if seen > committed:
                    text = f"rounds {committed + 1} to {seen} are gone; rounds 1 to {committed} can be recovered"
                    raise StoreDamaged(f"store {self.location.name}: {text}: open it with recover=True")
            elif frame.first > max(seen, self._folded):
                break  # not what follows
            if frame.kind == Kind.ROWS:
                if frame.first < seen:
                    break  # left over from an earlier journal
                columns, count = self._rows.decode(frame.payload)
                seen = frame.first + count
                self._take(columns, count, skip=min(max(len(self) - frame.first, 0), count))
            else:
                self.pending, self.proposals = pendings.decode(frame.payload, self.dimension)
            self.orderly = frame.kind == Kind.CLOSED
            self.last_write = frame.time
            good = stop
        if committed > len(self):  # the journal is gone: the unfinished chunk was published when the run was closed
            have = len(self)
            rows = {field.name: self._chunks(field.name, have, committed) for field in self.fields}
            self._rows.extend(rows, committed - have)
            self.repairs.append(f"rounds {have + 1} to {committed} were missing in the journal, read from the arrays")
        return good

    def _take(self, rows: Columns, count: int, skip: int = 0) -> None:
        """Add rows but for the first `skip`; what they answer is pending no longer."""
        if count > skip:
            self._rows.extend({name: array[skip:] for name, array in rows.items()}, count - skip)
        if self.pending and "candidate" in rows:
            for candidate in rows["candidate"].tolist():
                if candidate in self.pending:
                    self.pending.remove(candidate)
