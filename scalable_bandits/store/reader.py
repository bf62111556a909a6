"""Reading of a run: rounds from its arrays, and those after them from its evaluations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.specification import array_digest, nearest
from scalable_bandits.store.chunks import ChunkReader
from scalable_bandits.store.errors import StoreDamaged, StoreError, one_line, store_errors
from scalable_bandits.store.layout import INPUTS, ROUND, check_other_schema, check_schema, fields_of
from scalable_bandits.store.ledger import Contents, check_attributes, count_problem
from scalable_bandits.store.locations import Location
from scalable_bandits.store.objects import read_document
from scalable_bandits.store.rows import Columns, Field, Rows
from scalable_bandits.tickets import OPEN, Ticket

if TYPE_CHECKING:
    import xarray

KEPT = ("minimize", "maximize", "search")  # kinds of runs whose evaluations stay in the database for good


def read_contents(location: Location, thorough: bool = False) -> Contents:
    """Read the ledger of the run in a location; where its attributes are damaged or it is lost, take their copy.

    With `thorough`, damage is noticed too that only a writer would meet.

    Raises
    ------
    FileNotFoundError
        If there is no run, or the creation of one was interrupted.
    FileExistsError
        If there is something else.
    StoreError
        If the run has another schema, or cannot be read at all.
    """
    check_other_schema(location)
    try:
        contents = location.read_ledger(thorough)
    except FileNotFoundError:
        contents = Contents(problems=[f"{location.ledger_file}: it is missing"])
    if contents.problems and location.unfinished():
        raise FileNotFoundError(f"store: there is no run in {location.name}")
    if contents.attributes is None and location.keeps_tickets:
        with suppress(FileNotFoundError):  # the last close wrote it
            copy = read_document(location)
            contents.attributes = copy.attributes
            if copy.attributes is not None and contents.state.rounds < copy.state.rounds:
                contents.state, contents.chunks = copy.state, copy.chunks
    if contents.attributes is None:
        if not location.occupied():
            raise FileNotFoundError(f"store: there is no run in {location.name}")
        if not location.has_run_files():
            raise FileExistsError(f"store: {location.name} exists already and is not a run; name another place")
        listed = "; ".join(contents.problems)
        text = f"its attributes are damaged, so that its rounds cannot be read ({listed})"
        raise StoreDamaged(f"store {location.name}: {text}; zarr.open_group can read its undamaged arrays")
    check_schema(location.name, contents.attributes)
    check_attributes(location.name, contents.attributes)
    if not contents.state.change:
        contents.state = contents.state.at(_rounds_without_state(contents))
    problem = count_problem(contents)
    if problem and not contents.problems:
        contents.problems.append(problem)
    return contents


def _rounds_without_state(contents: Contents) -> int:
    """Return how many rounds are in the arrays for sure, if the state that counts them cannot be read."""
    assert contents.attributes is not None
    told = [each.round for each in contents.tickets.values() if each.state == "done" and each.round]
    if contents.attributes.get("kind") in KEPT or not contents.chunks:
        return 0
    return min(told) - 1 if told else max(contents.chunks) * int(contents.attributes["chunk"])


class StoredRun:
    """One run, open for reading: fields over rounds 1, 2, ...

    Attributes
    ----------
    location : Location
        Where it is.
    attributes, specification : dict
        Attributes of the run, and the specification that made it, as plain data.
    fields : tuple of Field
        Quantities recorded each round.
    planned : int or None
        Planned number of rounds; None if unknown.
    tickets : dict
        Evaluations by number: all of a tuning run, of other runs those whose round is not in the arrays.
    orderly : bool
        Whether the last writer closed the run; False if it died or is still writing.
    last_write : float
        Time of the last write, in seconds since 1970.
    repairs : list of str
        Repairs made when the run was opened.
    problems : list of str
        Damage found in a run that was opened with `recover`.

    Parameters
    ----------
    location
        Location of the run.
    contents
        What its ledger has.
    recover
        Whether to go on with what can be read if something is damaged, instead of raising.
    """

    _writer = 0  # number of the process that opened it for writing

    def __init__(self, location: Location, contents: Contents, recover: bool = False):
        self.location, self._recover = location, recover
        self.repairs: list[str] = []
        assert contents.attributes is not None
        self.chunk: int = contents.attributes["chunk"]
        self.chunks = ChunkReader(location, contents.attributes)
        self._load(contents)

    def _load(self, contents: Contents) -> None:
        """Take over what a ledger has; raise StoreDamaged if anything is damaged, unless opened with `recover`."""
        assert contents.attributes is not None
        self.attributes = contents.attributes
        self.fields = fields_of(self.attributes)
        self.specification: dict[str, Any] = self.attributes["specification"]
        self.planned: int | None = self.attributes["planned"]
        self.tickets: dict[int, Ticket] = contents.tickets
        self.orderly, self.last_write = contents.state.orderly, contents.state.time
        self._given = contents.state.given
        self.problems = list(contents.problems)
        whole = max(min(contents.state.rounds, (max(contents.chunks, default=-1) + 1) * self.chunk), 0)
        self.chunks.take(whole, contents.chunks)
        self._rows, self._base = Rows(self.fields), whole  # rounds after the first `_base`
        told = sorted((t for t in self.tickets.values() if t.state == "done"), key=lambda ticket: ticket.round or 0)
        later = [ticket for ticket in told if (ticket.round or 0) > whole]
        try:
            columns = columns_of(later, self.fields)
            self._rows.extend(columns, len(later))
        except (ValueError, TypeError) as error:
            self.problems.append(
                f"{self.location.ledger_file}: some evaluations are none of this run ({one_line(error)})"
            )
        self.known = max([whole, contents.state.rounds, *(ticket.round or 0 for ticket in told)])
        if [ticket.round for ticket in later] != list(range(whole + 1, whole + len(later) + 1)) and not self.problems:
            self.problems.append(f"{self.location.ledger_file}: rounds after round {whole} are missing")
        if self.problems and not self._recover:
            listed = "; ".join(self.problems)
            hint = "open it with recover=True to go on with them (a copy of all files is kept)"
            raise StoreDamaged(f"store {self.location.name}: {listed}; {len(self)} rounds can be read: {hint}")

    @property
    def writable(self) -> bool:
        """Whether this process has it open for writing; a forked child of that process has not."""
        return self._writer == os.getpid()

    def __len__(self) -> int:
        """Number of rounds in the run, as of the last `refresh`; for a writer, including rounds not yet durable."""
        return self._base + len(self._rows)

    @property
    def pending(self) -> list[int]:
        """Numbers of the pending candidates, in the order of asking."""
        return [self.tickets[number].candidate for number in sorted(self.tickets) if self.tickets[number].state in OPEN]

    @property
    def given(self) -> int:
        """Number of evaluations that have a number; numbers are not given again."""
        return self._given

    @property
    def failures(self) -> list[Ticket]:
        """Evaluations that failed for good, in the order in which the policy was told them."""
        return sorted((each for each in self.tickets.values() if each.gone), key=lambda ticket: ticket.ended or 0)

    @property
    def kept(self) -> bool:
        """Whether evaluations stay in the database for good."""
        return self.attributes.get("kind") in KEPT

    @property
    def deterministic(self) -> bool:
        """Whether lost rounds can be simulated again to the same numbers, so that nothing after them is needed."""
        return self.attributes.get("kind") == "simulate"

    def refresh(self) -> None:
        """Read again what the run contains.

        Raises
        ------
        StoreDamaged
            If something is damaged, unless the run was opened with `recover`.
        """
        with store_errors(self.location.name, "reading it"):
            contents = read_contents(self.location)
        if contents.attributes is not None and contents.attributes["id"] != self.attributes["id"]:
            text = "another run was put in its place since it was opened: open it again"
            raise StoreError(f"store {self.location.name}: {text}")
        self._load(contents)

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
        chosen = fields if names is None else names
        for name in chosen:
            if name not in (ROUND.name, *fields):
                checks.refuse("names", name, nearest(str(name), (ROUND.name, *fields)))
        base = self._base
        tail = self._rows.view(max(start - base, 0), max(end - base, 0))
        columns: Columns = {}
        for name in chosen:
            if name == ROUND.name:
                columns[name] = np.arange(start + 1, end + 1)
            elif start >= base:
                columns[name] = tail[name].copy()
            elif end <= base:
                columns[name] = self.chunks.read(name, start, end)
            else:
                columns[name] = np.concatenate([self.chunks.read(name, start, base), tail[name]])
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
            if self._base:
                column, chunks = self.chunks.column(field.name), (self.chunk, *field.shape)
                stored = dask.array.from_array(column, chunks=chunks, name=False, asarray=False, fancy=False)
                pieces.append(stored[: self._base])  # a writer has the rounds of the last chunk in memory
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
            stored: Any = self.location.strict_group()[path]
            if (list(stored.shape), stored.dtype.name) != (described["shape"], described["dtype"]):
                raise ValueError("its shape or dtype is wrong")  # before room is made for it
            array = np.asarray(stored[...])
            why = "" if array_digest(array) == described["array"] else "its bytes are not those of its digest"
        except Exception as error:
            array, why = np.empty(0), one_line(error)
        if why:
            hint = "the run can go on if the array is given again"
            text = f"{path}: an array of the specification cannot be read ({why}); {hint}"
            raise StoreDamaged(f"store {self.location.name}: {text}")
        return array

    def size(self) -> int | None:
        """Return the number of bytes on disk; None if unknown."""
        return self.location.size()


def columns_of(tickets: Sequence[Ticket], fields: Iterable[Field]) -> Columns:
    """Return the columns of evaluations that have values, by the fields of a run."""
    values = {
        "call": [t.call for t in tickets], "candidate": [t.candidate for t in tickets], "x": [t.x for t in tickets],
        "y": [t.y for t in tickets], "noise": [np.nan if t.noise is None else t.noise for t in tickets],
        "time": [t.changed for t in tickets],
    }  # fmt: skip
    if not tickets:
        return {field.name: np.empty((0, *field.shape), field.dtype) for field in fields}
    return {
        field.name: np.array(values[field.name], dtype=field.dtype).reshape(len(tickets), *field.shape)
        for field in fields
    }
