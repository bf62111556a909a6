"""A run as it can be read: whole chunks from zarr, the rounds after them from the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.specification import nearest
from scalable_bandits.store import digests as digesting
from scalable_bandits.store import pending as pendings
from scalable_bandits.store import upgrade
from scalable_bandits.store.digests import Digests
from scalable_bandits.store.errors import StoreDamaged, StoreError
from scalable_bandits.store.frames import Frame, Gap, Kind
from scalable_bandits.store.layout import INPUTS, ROUND, SCHEMA, field_document, fields_of
from scalable_bandits.store.locations import Location
from scalable_bandits.store.record import DIGESTS, ROUNDS, TICKETS, CommitRecord
from scalable_bandits.store.rows import Columns, Field, Rows
from scalable_bandits.store.scan import Scan, lost_frames, scan

if TYPE_CHECKING:
    import xarray

ANOTHER = "its digest is not that of what was written: the file was replaced by another"
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
        self.proposals = pendings.NONE
        self.dimension: int = attributes.get("proposals", 0)  # of the points in what is pending
        self.orderly = True
        self.repairs: list[str] = []
        self.problems: list[str] = []
        self.known = 0  # rounds that there were, those that are lost included
        self.last_write = 0.0
        self._recover = recover
        self._fixed = False  # whether all rows are in memory for good
        self._record = CommitRecord(attributes.get("id", ""))
        self._scan: Scan | None = None  # as of the last `refresh`
        self._digests: Digests | None = None  # of the whole chunks, once they were asked for
        self._recent: dict[str, tuple[int, NDArray[Any]]] = {}  # the chunk of each field that was read last
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
        """Look again at what the run holds.

        Raises
        ------
        StoreDamaged
            If something is damaged, unless the run was opened with `recover`.
        """
        if self._fixed:
            return
        for _ in range(ATTEMPTS):
            self.location.look_again()
            before = self._commit()
            try:
                self._load(self._look())
            except StoreDamaged:
                if self._commit() == before:
                    raise
                continue
            if self._commit() == before:  # else a chunk was finished in between
                return
        raise StoreError(f"store {self.location.name}: it is written faster than it can be read")

    def _commit(self) -> Any:
        """The commit record as it is stored."""
        try:
            return self.location.read_record()
        except ValueError as error:
            return str(error)

    def _look(self) -> Scan:
        """What is in the files."""
        earlier = self.attributes["schema"] < SCHEMA
        return upgrade.scan_earlier(self.location, self.attributes) if earlier else scan(self.location, self.attributes)

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

        tail, table = self._rows.view(), self.digests() if self._folded else None
        variables: dict[str, Any] = {}
        for number, field in enumerate(self.fields):
            pieces = []
            if self._folded:
                expected = None if table is None else table[:, number]
                text = f"store {self.location.name}: {field.name}: some rounds cannot be read"
                column = _Column(self._array_of(field.name), self._folded, expected, self.chunk, text)
                chunks = (self.chunk, *field.shape)
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
            array = np.asarray(self.location.complete()[path][...])  # type: ignore[index]
            why = "" if array_digest(array) == described["array"] else "its bytes are not those of its digest"
        except Exception as error:
            array, why = np.empty(0), " ".join(str(error).split()) or type(error).__name__
        if why or (list(array.shape), array.dtype.name) != (described["shape"], described["dtype"]):
            text = f"an array of the specification cannot be read ({why or 'its shape is another one'})"
            raise StoreDamaged(f"store {self.location.name}: {path}: {text}; where it is given, the run goes on")
        return array

    def notes(self) -> list[str]:
        """What a killed process left, of a run that nobody is writing; opening it for writing mends it."""
        if self._scan is None or not self._scan.notes or self.location.writer() is not None:
            return []
        return [f"{note}; opening it for writing mends it" for note in self._scan.notes]

    def size(self) -> int | None:
        """Bytes on disk, where that is known."""
        return self.location.size()

    @property
    def whole(self) -> int:
        """Rounds in whole chunks."""
        return self._folded

    @property
    def committed(self) -> int:
        """Rounds in the arrays, for any zarr reader."""
        return self._record.rounds

    @property
    def chain(self) -> int:
        """CRC-32 of the digests of all whole chunks, by the commit record."""
        return self._record.chain

    @property
    def tail(self) -> tuple[int, ...]:
        """CRC-32 of each field's rows in the unfinished chunk, by the commit record."""
        return self._record.tail

    @property
    def last_scan(self) -> Scan:
        """What the files held at the last `refresh`."""
        assert self._scan is not None
        return self._scan

    # ---- from the arrays

    def _array_of(self, name: str) -> Any:
        """The array of a field, by what the attributes say of it; a missing chunk is an error."""
        field: Field = next(f for f in (ROUND, *self.fields) if f.name == name)
        length = (max(self._record.rounds, self._folded) // self.chunk + 1) * self.chunk
        document = field_document(field, self.chunk, length, self.location.separator)
        return self.location.column(name, document, complete=True)

    def key(self, name: str, number: int) -> str:
        """Key of a chunk."""
        field = next(f for f in (ROUND, *self.fields) if f.name == name)
        return f"{name}/c" + "".join(f"{self.location.separator}{i}" for i in (number, *(0 for _ in field.shape)))

    def digests(self) -> Digests | None:
        """Digests (chunks, fields) of all whole chunks; None of a run of an earlier schema, which has none.

        They are made from the chunks where their log is damaged, and believed if the commit record says the same.
        """
        if self._digests is None and self._scan is not None and DIGESTS in self._scan.logs:
            contents, chunks = self._scan.logs[DIGESTS], self._folded // self.chunk
            table = digesting.decode(contents, len(self.fields), chunks)
            if table is None or digesting.chain(table) != self._record.chain:
                table = self.compute_digests()
                if digesting.chain(table) != self._record.chain and not self._recover:
                    file = self._scan.file(self.location, DIGESTS)
                    raise StoreDamaged(self._refusal([f"{file} is damaged, and some chunk is not what was committed"]))
            self._digests = table
        return self._digests

    def compute_digests(self) -> Digests:
        """Digests (chunks, fields) of the chunks as they are."""
        chunks = self._folded // self.chunk
        table = np.zeros((chunks, len(self.fields)), dtype=np.uint32)
        for i in range(chunks):
            columns = (self.stored(f.name, i * self.chunk, (i + 1) * self.chunk) for f in self.fields)
            table[i] = [digesting.digest(values) for values in columns]
        return table

    def stored(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows of one field as they are in its array."""
        try:
            return np.asarray(self._array_of(name)[start:stop])
        except Exception as error:  # codecs raise what they like
            raise StoreDamaged(self.damage(name, start, stop, error)) from error

    def _chunks(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Rows of one field from whole chunks, compared with their digests."""
        first, last = start // self.chunk, -(-stop // self.chunk)
        held = self._recent.get(name)
        if held is None or last - first > 1 or held[0] != first:
            values = self.stored(name, first * self.chunk, last * self.chunk)
            table, column = self.digests(), [f.name for f in self.fields].index(name)
            for i in range(first, last) if table is not None else ():
                piece = values[(i - first) * self.chunk : (i - first + 1) * self.chunk]
                if digesting.digest(piece) != table[i, column]:  # type: ignore[index]
                    raise StoreDamaged(self.damage(name, i * self.chunk, (i + 1) * self.chunk, ANOTHER))
            self._recent[name] = held = first, values
        return held[1][start - first * self.chunk : stop - first * self.chunk].copy()

    def damage(self, name: str, start: int, stop: int, error: Exception | str) -> str:
        if isinstance(error, Exception):
            start = self.first_unreadable(name, start, stop)
        last = min(start + self.chunk, max(len(self), stop))
        why = " ".join(str(error).split()) or type(error).__name__
        return f"{self._damage_of(name, start // self.chunk, last)} ({why}); {self._hint()}"

    def _damage_of(self, name: str, number: int, last: int | None = None) -> str:
        first = number * self.chunk
        rounds = "some rounds" if last is None else f"rounds {first + 1} to {last}"
        file = name if last is None else self.key(name, number)
        return f"store {self.location.name}: {file}: {rounds} of {name!r} cannot be read"

    def _hint(self) -> str:
        """What can be had in spite of damage."""
        kept = "the rounds before it can" if self.deterministic else "all others can"
        return f"{kept} be recovered: open it with recover=True"

    @property
    def deterministic(self) -> bool:
        """Whether lost rounds can be played again, to the same numbers: then nothing after them is needed."""
        return self.attributes.get("kind") == "simulate"

    def first_missing(self, name: str) -> int:
        """Number of the first whole chunk that an array does not have; as many as there are, if it has all.

        Asks for names only.
        """
        there = set(self.location.keys(f"{name}/"))
        chunks = self._folded // self.chunk
        return next((i for i in range(chunks) if self.key(name, i) not in there), chunks)

    def first_unreadable(self, name: str, start: int, stop: int) -> int:
        """First chunk boundary from which on rows of a field cannot be read; `stop` if all can."""
        array = self._array_of(name)
        for first in range(start // self.chunk * self.chunk, stop, self.chunk):
            try:
                array[first : min(first + self.chunk, stop)]
            except Exception:
                return first
        return stop

    def rows(self) -> Rows:
        """The rounds after the whole chunks."""
        return self._rows

    def tickets(self) -> list[Frame]:
        """The valid frames of the log of tickets."""
        if self._scan is None or TICKETS not in self._scan.logs:
            return []
        return [frame for frame in self._scan.logs[TICKETS].valid() if frame.kind == Kind.TICKET]

    def published(self) -> Columns | None:
        """Rows after the whole chunks as the last close wrote them to the arrays; None if they are damaged."""
        stop = self._record.rounds
        try:
            rows = {f.name: self.stored(f.name, self._folded, stop) for f in self.fields}
        except StoreDamaged:
            return None
        tail = self._record.tail
        if self.attributes["schema"] == SCHEMA and tuple(map(digesting.digest, rows.values())) != tail:
            return None
        return rows

    # ---- from the journal

    def _load(self, found: Scan) -> None:
        """Take the rounds after the whole chunks from the journal; StoreDamaged, if anything is, and not `recover`."""
        self._scan, self._record, self._digests, self._recent = found, found.record, None, {}
        self._folded = found.record.rounds // self.chunk * self.chunk
        self._rows = Rows(self.fields)
        self.pending, self.proposals, self.orderly = [], pendings.NONE, False
        self.problems = list(found.problems)
        if TICKETS in found.logs and lost_frames(found.logs[TICKETS], found.least[TICKETS]):
            file = found.file(self.location, TICKETS)
            self.problems.append(f"{file}: some of what became of evaluations cannot be read")
        self.known = _JournalReading(self, found).take()
        if self.problems and not self._recover:
            raise StoreDamaged(self._refusal(self.problems))

    def _refusal(self, problems: Sequence[str]) -> str:
        listed = "; ".join(problems)
        kept = f"{len(self)} rounds can be read: open it with recover=True to go on with them (a copy of all is kept)"
        return f"store {self.location.name}: {listed}; {kept}"

    def _take(self, rows: Columns, count: int, skip: int = 0) -> None:
        """Add rows but for the first `skip`; what they answer is pending no longer."""
        if count > skip:
            self._rows.extend({name: array[skip:] for name, array in rows.items()}, count - skip)
        if self.pending and "candidate" in rows:
            for candidate in rows["candidate"].tolist():
                if candidate in self.pending:
                    self.pending.remove(candidate)


class _JournalReading:
    """Takes the rounds of a journal into a run, around what is damaged.

    Parameters
    ----------
    run
        The run, which holds the whole chunks only.
    found
        What is in its files.
    """

    def __init__(self, run: StoredRun, found: Scan):
        self._run = run
        self._contents, self._least = found.logs[ROUNDS], found.least[ROUNDS]
        self._file = found.file(run.location, ROUNDS)
        self._position = run._folded  # rounds that are in the run, or are known to be lost
        self._cut = False  # whether a lost round ends the run

    def take(self) -> int:
        """Take everything that can be had; tells how many rounds there were."""
        gap: Gap | None = None
        seen = self._run._folded
        for item in self._contents.items:
            if isinstance(item, Gap):
                gap = item if item.frames != 0 else None
                continue
            if gap is not None or item.first > max(seen, self._run._folded):
                self._pass(gap, item.first)
            if self._cut:
                return max(self._position, self._least.rounds)
            gap, seen = None, self._read(item)
        self._finish(gap)
        return self._position

    def _read(self, frame: Frame) -> int:
        """Take what a frame says; tells how many rounds the run had after it."""
        run = self._run
        run.orderly, run.last_write = frame.kind == Kind.CLOSED, frame.time
        if frame.kind != Kind.ROWS:
            run.pending, run.proposals = pendings.decode(frame.payload, run.dimension)
            return frame.first
        columns, count = run._rows.decode(frame.payload)
        run._take(columns, count, skip=min(max(self._position - frame.first, 0), count))
        self._position = max(self._position, frame.first + count)
        return frame.first + count

    def _pass(self, gap: Gap | None, rounds: int) -> None:
        """Go on after damaged frames, where the run had so many rounds."""
        self._run.problems.append(f"{self._where(gap)}: damaged; {self._fill(rounds)}")

    def _where(self, gap: Gap | None) -> str:
        return self._file if gap is None or gap.stop == gap.start else f"{self._file}, bytes {gap.start} to {gap.stop}"

    def _fill(self, rounds: int) -> str:
        """Take lost rounds from the arrays, where the last close wrote them; says what is lost in the end."""
        run, start = self._run, self._position
        if min(rounds, run._record.rounds) > start:
            rows = run.published()
            if rows is not None:
                self._position = min(rounds, run._record.rounds)
                inside = slice(start - run._folded, self._position - run._folded)
                run._take({name: values[inside] for name, values in rows.items()}, self._position - start)
        first, self._position = self._position, max(self._position, rounds)
        if first >= rounds:
            return "no round is lost, but what was pending may be"
        self._cut = run.deterministic
        return f"rounds {first + 1} to {rounds} cannot be read"

    def _finish(self, gap: Gap | None) -> None:
        """Compare the end with what is known to have been there."""
        run, contents = self._run, self._contents
        start, rounds = self._position, max(self._least.rounds, run._record.rounds)
        missing = self._least.frames - contents.frames
        if gap is not None:
            self._run.problems.append(f"{self._where(gap)}: damaged, and no frame follows; {self._fill(rounds)}")
        elif missing > 0 and contents.frames:
            run.problems.append(f"{self._file}: it ends too early, {missing} frames are missing; {self._fill(rounds)}")
        elif rounds > start:
            lost = self._fill(rounds)
            if self._cut or run.attributes["schema"] == SCHEMA:
                run.problems.append(f"{self._file}: {lost}")
            else:  # which did not count what it had in its journal
                run.repairs.append(f"rounds {start + 1} to {rounds} were missing in the journal, read from the arrays")


class _Column:
    """Rows of a field in whole chunks, for dask: an array (n, ...) that compares what it reads with its digests."""

    def __init__(self, array: Any, rounds: int, expected: NDArray[np.uint32] | None, chunk: int, damage: str):
        self._array, self._expected, self._chunk, self._damage = array, expected, chunk, damage
        self.shape, self.dtype, self.ndim = (rounds, *array.shape[1:]), array.dtype, array.ndim

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows = index[0] if isinstance(index, tuple) else index
        start, stop, step = rows.indices(self.shape[0])
        first, last = start // self._chunk, -(-stop // self._chunk)
        values = np.asarray(self._array[first * self._chunk : last * self._chunk])
        if self._expected is not None:
            for i in range(first, last):
                piece = values[(i - first) * self._chunk : (i - first + 1) * self._chunk]
                if digesting.digest(piece) != self._expected[i]:
                    raise StoreDamaged(f"{self._damage} (chunk {i}: {ANOTHER})")
        inside = values[start - first * self._chunk : stop - first * self._chunk : step]
        return inside[(slice(None), *index[1:])] if isinstance(index, tuple) else inside


def array_digest(array: NDArray[Any]) -> str:
    """Digest that names an array (...,) of a specification."""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()
