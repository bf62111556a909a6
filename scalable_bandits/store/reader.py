"""Reading of a run: the whole chunks from zarr, the rounds after them from the journal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.specification import array_digest, nearest
from scalable_bandits.store import pending as pendings
from scalable_bandits.store.chunks import ChunkReader
from scalable_bandits.store.errors import StoreDamaged, StoreError, one_line
from scalable_bandits.store.failures import Failure
from scalable_bandits.store.frames import Frame, Kind
from scalable_bandits.store.journal_reader import JournalReader
from scalable_bandits.store.layout import INPUTS, ROUND, fields_of, read_attributes
from scalable_bandits.store.locations import Location
from scalable_bandits.store.record import DIGESTS, TICKETS
from scalable_bandits.store.rows import Columns, Rows
from scalable_bandits.store.scan import Scan, lost_frames, scan

if TYPE_CHECKING:
    import xarray


ATTEMPTS = 100  # limit of the attempts to read a run between two chunks of its writer


class StoredRun:
    """One run, open for reading: fields over rounds 1, 2, ...

    Attributes
    ----------
    chunks : ChunkReader
        Reader of the whole chunks.
    specification : dict
        Specification that made the run, as plain data.
    planned : int or None
        Planned number of rounds; None if unknown.
    pending : list of int
        Numbers of the pending candidates.
    proposals : Proposals
        Points of the pending candidates of a run on a box.
    failures : list of Failure
        Failures of evaluations, in the order in which the policy was told them.
    orderly : bool
        Whether the last writer closed the run; False if it died or is still writing.
    repairs : list of str
        Repairs made when the run was opened.
    problems : list of str
        Damage found in a run that was opened with `recover`.
    last_write : float
        Time of the last write, in seconds since 1970.

    Parameters
    ----------
    location
        Location of the run.
    attributes
        Attributes of the run.
    recover
        Whether to go on with what can be read if something is damaged, instead of raising.
    """

    _writer = 0  # number of the process that opened it for writing

    def __init__(self, location: Location, attributes: Mapping[str, Any], recover: bool = False):
        self.location = location
        self.attributes = dict(attributes)
        self.fields = fields_of(attributes)
        self.chunk: int = attributes["chunk"]
        self.specification: dict[str, Any] = dict(attributes["specification"])
        self.planned: int | None = attributes["planned"]
        self.pending: list[int] = []
        self.proposals = pendings.NO_PROPOSALS
        self.failures: list[Failure] = []
        self.dimension: int = attributes.get("proposals", 0)  # of the points of pending candidates; 0 unless on a box
        self.orderly = True
        self.repairs: list[str] = []
        self.problems: list[str] = []
        self.known = 0  # number of rounds, including lost ones
        self.last_write = 0.0
        self._recover = recover
        self._scan: Scan | None = None  # result of the last `refresh`
        self.chunks = ChunkReader(location, attributes, recover)
        self._rows = Rows(self.fields)  # rounds after the whole chunks

    @property
    def writable(self) -> bool:
        """Whether this process has it open for writing; a forked child of that process has not."""
        return self._writer == os.getpid()

    def __len__(self) -> int:
        """Number of rounds in the run, as of the last `refresh`; for a writer, including rounds not yet durable."""
        return self.chunks.whole + len(self._rows)

    def refresh(self) -> None:
        """Read again what the run contains.

        Raises
        ------
        StoreDamaged
            If something is damaged, unless the run was opened with `recover`.
        """
        for _ in range(ATTEMPTS):
            self.location.refresh()
            before = self._stored_record()
            try:
                self._load(scan(self.location, self.attributes))
            except StoreDamaged:
                if self._stored_record() == before:
                    self._check_same()
                    raise
                continue
            if self._stored_record() == before:  # otherwise a chunk was finished meanwhile
                return
        raise StoreError(f"store {self.location.name}: it is written faster than it can be read")

    def _check_same(self) -> None:
        """Raise StoreError if the run was replaced by another one since it was opened."""
        now = read_attributes(self.location).attributes
        if now is not None and now["id"] != self.attributes["id"]:
            text = "another run was put in its place since it was opened: open it again"
            raise StoreError(f"store {self.location.name}: {text}")

    def _stored_record(self) -> Any:
        """Return the commit record as it is stored."""
        try:
            return self.location.read_record()
        except ValueError as error:
            return str(error)

    def read(self, start: int = 0, stop: int | None = None, names: Sequence[str] | None = None) -> Columns:
        """Return the columns of rounds start + 1 to stop: arrays over rounds by field.

        Parameters
        ----------
        start
            Number of rounds before the first one read.
        stop
            Last round read; the last round of the run by default.
        names
            Names of the fields, possibly with "round"; all fields without "round" by default.

        Returns
        -------
        dict
            Arrays (k, ...) over the k rounds by field, in the units of the field.

        Raises
        ------
        ValueError
            If a number is negative, or a field does not exist.
        StoreDamaged
            If a chunk is missing or damaged; the message says which rounds can be read.
        """
        end = len(self) if stop is None else min(checks.integer("stop", stop, 0), len(self))
        start = min(checks.integer("start", start, 0), end)
        fields = [field.name for field in self.fields]
        for name in fields if names is None else names:
            if name not in (ROUND.name, *fields):
                checks.refuse("names", name, nearest(str(name), (ROUND.name, *fields)))
        in_chunks = min(end, self.chunks.whole)
        tail = self._rows.view(max(start - self.chunks.whole, 0), max(end - self.chunks.whole, 0))
        columns: Columns = {}
        for name in fields if names is None else names:
            if name == ROUND.name:
                columns[name] = np.arange(start + 1, end + 1)
            elif start >= in_chunks:
                columns[name] = tail[name].copy()
            elif end <= self.chunks.whole:
                columns[name] = self.chunks.read(name, start, in_chunks)
            else:
                columns[name] = np.concatenate([self.chunks.read(name, start, in_chunks), tail[name]])
        return columns

    def sample(self, name: str, rounds: np.ndarray) -> np.ndarray:
        """Return one field (k, ...) at rounds (k,), counted from 1 and ascending; holds at most one chunk in memory."""
        pieces = []
        positions = np.asarray(rounds) - 1
        for first in range(0, len(self), self.chunk):
            inside = positions[(positions >= first) & (positions < first + self.chunk)]
            if len(inside):
                pieces.append(self.read(first, first + self.chunk, [name])[name][inside - first])
        return np.concatenate(pieces) if pieces else np.empty(0)

    def dataset(self) -> xarray.Dataset:
        """Return the run as a lazy xarray dataset (dask arrays) over ``round``."""
        import dask.array
        import pandas
        import xarray

        tail = self._rows.view()
        variables: dict[str, Any] = {}
        for field in self.fields:
            pieces = []
            if self.chunks.whole:
                column, chunks = self.chunks.column(field.name), (self.chunk, *field.shape)
                pieces.append(dask.array.from_array(column, chunks=chunks, name=False, asarray=False, fancy=False))
            if len(self._rows) or not pieces:
                pieces.append(dask.array.from_array(tail[field.name].copy(), chunks=-1))
            array = pieces[0] if len(pieces) == 1 else dask.array.concatenate(pieces)
            variables[field.name] = ((ROUND.name, *field.dimensions), array)
        return xarray.Dataset(variables, coords={ROUND.name: pandas.RangeIndex(1, len(self) + 1)})

    def input(self, described: Mapping[str, Any]) -> NDArray[Any]:
        """Return an array (...,) of the specification.

        Parameters
        ----------
        described
            Description of the array in the specification: ``{"array": digest, "shape": ..., "dtype": ...}``.

        Raises
        ------
        StoreDamaged
            If the array cannot be read, or does not match its description.
        """
        path = f"{INPUTS}/{described['array']}"
        try:
            array = np.asarray(self.location.strict_group()[path][...])  # type: ignore[index]
            why = "" if array_digest(array) == described["array"] else "its bytes are not those of its digest"
        except Exception as error:
            array, why = np.empty(0), one_line(error)
        if why or (list(array.shape), array.dtype.name) != (described["shape"], described["dtype"]):
            text = f"an array of the specification cannot be read ({why or 'its shape or dtype is wrong'})"
            hint = "the run can go on if the array is given again"
            raise StoreDamaged(f"store {self.location.name}: {path}: {text}; {hint}")
        return array

    def notes(self) -> list[str]:
        """Return what a killed process left unfinished; empty while the run is being written."""
        if self._scan is None or not self._scan.notes or self.location.writer() is not None:
            return []
        return [f"{note}; opening it for writing repairs it" for note in self._scan.notes]

    def size(self) -> int | None:
        """Return the number of bytes on disk; None if unknown."""
        return self.location.size()

    @property
    def last_scan(self) -> Scan:
        """Result of the last `refresh`."""
        assert self._scan is not None
        return self._scan

    @property
    def deterministic(self) -> bool:
        """Whether lost rounds can be simulated again to the same numbers, so that nothing after them is needed."""
        return self.attributes.get("kind") == "simulate"

    def rows(self) -> Rows:
        """Return the rounds after the whole chunks."""
        return self._rows

    def tickets(self) -> list[Frame]:
        """Return the valid frames of the log of tickets."""
        if self._scan is None or TICKETS not in self._scan.logs:
            return []
        return [frame for frame in self._scan.logs[TICKETS].valid() if frame.kind == Kind.TICKET]

    # ---- from the journal

    def _load(self, found: Scan) -> None:
        """Take over the result of a scan; raise StoreDamaged if anything is damaged, unless opened with `recover`."""
        self._scan = found
        self.chunks.set_record(found.record, found.logs[DIGESTS], found.file(self.location, DIGESTS))
        self._rows = Rows(self.fields)
        self.pending, self.proposals, self.failures, self.orderly = [], pendings.NO_PROPOSALS, [], False
        self.problems = list(found.problems)
        if TICKETS in found.logs and lost_frames(found.logs[TICKETS], found.least[TICKETS]):
            file = found.file(self.location, TICKETS)
            self.problems.append(f"{file}: the state of some evaluations cannot be read")
        self.known = JournalReader(self, found).read()
        if self.problems and not self._recover:
            raise StoreDamaged(self._refusal(self.problems))

    def _refusal(self, problems: Sequence[str]) -> str:
        """Return the message that refuses a damaged run."""
        listed = "; ".join(problems)
        hint = "open it with recover=True to go on with them (a copy of all files is kept)"
        return f"store {self.location.name}: {listed}; {len(self)} rounds can be read: {hint}"

    def take(self, rows: Columns, count: int, skip: int = 0) -> None:
        """Add rows in memory, without the first `skip`; the candidates in all of them are no longer pending.

        Parameters
        ----------
        rows
            Arrays (count, ...) of each field.
        count
            Number of rows.
        skip
            Number of rows to leave out at the beginning.
        """
        if count > skip:
            self._rows.extend({name: array[skip:] for name, array in rows.items()}, count - skip)
        if self.pending and "candidate" in rows:
            self.pending = pendings.remaining(self.pending, rows["candidate"].tolist())
