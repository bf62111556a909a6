"""A run as it can be read: whole chunks from zarr, the rounds after them from the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.specification import array_digest, nearest
from scalable_bandits.store import pending as pendings
from scalable_bandits.store.chunks import ChunkReader
from scalable_bandits.store.errors import StoreDamaged, StoreError, one_line
from scalable_bandits.store.frames import Frame, Kind
from scalable_bandits.store.journal_reader import JournalReader
from scalable_bandits.store.layout import INPUTS, ROUND, SCHEMA, fields_of, read_attributes
from scalable_bandits.store.locations import Location
from scalable_bandits.store.record import DIGESTS, TICKETS
from scalable_bandits.store.rows import Columns, Rows
from scalable_bandits.store.scan import Scan, lost_frames, scan
from scalable_bandits.store.schema_1 import scan_schema_1

if TYPE_CHECKING:
    import xarray


ATTEMPTS = 100  # to look at a run between two of its writer's chunks


class StoredRun:
    """One run, open for reading: fields over rounds 1, 2, ...

    Attributes
    ----------
    chunks : ChunkReader
        The whole chunks.
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
    problems : list of str
        What is damaged, of a run that was opened with `recover`.
    last_write : float
        When, in seconds since 1970.

    Parameters
    ----------
    location
        Location of the run.
    attributes
        Attributes of the run.
    recover
        Go on with what can be read where something is damaged, instead of refusing.
    """

    def __init__(self, location: Location, attributes: Mapping[str, Any], recover: bool = False):
        self.location = location
        self.attributes = dict(attributes)
        self.fields = fields_of(attributes)
        self.chunk: int = attributes["chunk"]
        self.specification: dict[str, Any] = dict(attributes["specification"])
        self.planned: int | None = attributes["planned"]
        self.pending: list[int] = []
        self.proposals = pendings.NO_PROPOSALS
        self.dimension: int = attributes.get("proposals", 0)  # of the points in what is pending
        self.orderly = True
        self.repairs: list[str] = []
        self.problems: list[str] = []
        self.known = 0  # rounds that there were, those that are lost included
        self.last_write = 0.0
        self._recover = recover
        self._in_memory_only = False  # whether all rows are in memory for good
        self._scan: Scan | None = None  # as of the last `refresh`
        self.chunks = ChunkReader(location, attributes, recover)
        self._rows = Rows(self.fields)  # the rounds after those

    def __len__(self) -> int:
        """Rounds in the run, as of the last `refresh`; while it is written, those that were appended."""
        return self.chunks.whole + len(self._rows)

    def set_rows(self, columns: Columns) -> None:
        """Be a run of these rows, an array (k, ...) of each field, all in memory."""
        rows, count = self._rows.check(columns)
        self._rows.extend(rows, count)
        self._in_memory_only = True

    def refresh(self) -> None:
        """Look again at what the run holds.

        Raises
        ------
        StoreDamaged
            If something is damaged, unless the run was opened with `recover`.
        """
        if self._in_memory_only:
            return
        for _ in range(ATTEMPTS):
            self.location.refresh()
            before = self._stored_record()
            if self.attributes["schema"] < SCHEMA:
                self._check_same()
            try:
                self._load(self._scan_files())
            except StoreDamaged:
                if self._stored_record() == before:
                    self._check_same()
                    raise
                continue
            if self._stored_record() == before:  # else a chunk was finished in between
                return
        raise StoreError(f"store {self.location.name}: it is written faster than it can be read")

    def _check_same(self) -> None:
        """StoreError if the run was upgraded, or another one put in its place, since it was opened."""
        now = read_attributes(self.location).attributes
        if now is not None and (now["schema"], now.get("id")) != (self.attributes["schema"], self.attributes.get("id")):
            text = "it was upgraded, or another run was put in its place, since it was opened: open it again"
            raise StoreError(f"store {self.location.name}: {text}")

    def _stored_record(self) -> Any:
        """The commit record as it is stored."""
        try:
            return self.location.read_record()
        except ValueError as error:
            return str(error)

    def _scan_files(self) -> Scan:
        """What is in the files."""
        earlier = self.attributes["schema"] < SCHEMA
        return scan_schema_1(self.location, self.attributes) if earlier else scan(self.location, self.attributes)

    def read(self, start: int = 0, stop: int | None = None, names: Sequence[str] | None = None) -> Columns:
        """Columns of rounds start + 1 to stop: arrays over rounds by field.

        Parameters
        ----------
        start, stop
            Number of rounds before the first one read, and the last round read; the run's last if not given.
        names
            Fields, "round" among them; all but the round if not given.

        Returns
        -------
        dict
            Arrays (k, ...) over the k rounds by field, in the units of the field.

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
        folded = min(end, self.chunks.whole)
        tail = self._rows.view(max(start - self.chunks.whole, 0), max(end - self.chunks.whole, 0))
        columns: Columns = {}
        for name in fields if names is None else names:
            if name == ROUND.name:
                columns[name] = np.arange(start + 1, end + 1)
            elif start >= folded:
                columns[name] = tail[name].copy()
            elif end <= self.chunks.whole:
                columns[name] = self.chunks.read(name, start, folded)
            else:
                columns[name] = np.concatenate([self.chunks.read(name, start, folded), tail[name]])
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
        """Array (...,) of the specification, in whose words it is ``{"array": digest, "shape": ..., "dtype": ...}``.

        Raises
        ------
        StoreDamaged
            If it cannot be read, or is another one.
        """
        path = f"{INPUTS}/{described['array']}"
        try:
            array = np.asarray(self.location.strict_group()[path][...])  # type: ignore[index]
            why = "" if array_digest(array) == described["array"] else "its bytes are not those of its digest"
        except Exception as error:
            array, why = np.empty(0), one_line(error)
        if why or (list(array.shape), array.dtype.name) != (described["shape"], described["dtype"]):
            text = f"an array of the specification cannot be read ({why or 'its shape is another one'})"
            raise StoreDamaged(f"store {self.location.name}: {path}: {text}; where it is given, the run goes on")
        return array

    def notes(self) -> list[str]:
        """What a killed process left unfinished; none while the run is being written."""
        if self._scan is None or not self._scan.notes or self.location.writer() is not None:
            return []
        return [f"{note}; opening it for writing mends it" for note in self._scan.notes]

    def size(self) -> int | None:
        """Bytes on disk, where that is known."""
        return self.location.size()

    @property
    def last_scan(self) -> Scan:
        """What the files held at the last `refresh`."""
        assert self._scan is not None
        return self._scan

    @property
    def deterministic(self) -> bool:
        """Whether lost rounds can be played again, to the same numbers: then nothing after them is needed."""
        return self.attributes.get("kind") == "simulate"

    def rows(self) -> Rows:
        """The rounds after the whole chunks."""
        return self._rows

    def tickets(self) -> list[Frame]:
        """The valid frames of the log of tickets."""
        if self._scan is None or TICKETS not in self._scan.logs:
            return []
        return [frame for frame in self._scan.logs[TICKETS].valid() if frame.kind == Kind.TICKET]

    # ---- from the journal

    def _load(self, found: Scan) -> None:
        """Take the rounds after the whole chunks from the journal; StoreDamaged, if anything is, and not `recover`."""
        self._scan = found
        self.chunks.set_record(found.record, found.logs.get(DIGESTS), found.file(self.location, DIGESTS))
        self._rows = Rows(self.fields)
        self.pending, self.proposals, self.orderly = [], pendings.NO_PROPOSALS, False
        self.problems = list(found.problems)
        if TICKETS in found.logs and lost_frames(found.logs[TICKETS], found.least[TICKETS]):
            file = found.file(self.location, TICKETS)
            self.problems.append(f"{file}: some of what became of evaluations cannot be read")
        self.known = JournalReader(self, found).read()
        if self.problems and not self._recover:
            raise StoreDamaged(self._refusal(self.problems))

    def _refusal(self, problems: Sequence[str]) -> str:
        listed = "; ".join(problems)
        kept = f"{len(self)} rounds can be read: open it with recover=True to go on with them (a copy of all is kept)"
        return f"store {self.location.name}: {listed}; {kept}"

    def add_rows(self, rows: Columns, count: int, skip: int = 0) -> None:
        """Add rows but for the first `skip`, in memory; what they answer is pending no longer.

        Parameters
        ----------
        rows
            Arrays (count, ...) of each field.
        count
            Number of rows.
        skip
            Number of rows at the beginning that are left out.
        """
        if count > skip:
            self._rows.extend({name: array[skip:] for name, array in rows.items()}, count - skip)
        if self.pending and "candidate" in rows:
            for candidate in rows["candidate"].tolist():
                if candidate in self.pending:
                    self.pending.remove(candidate)
