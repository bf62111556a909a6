"""Reading of a run: rounds from its arrays, and those after them from its evaluations."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from numpy.typing import NDArray

from scalable_bandits import checks
from scalable_bandits.specification import array_digest, check_name
from scalable_bandits.store.arrays import Arrays
from scalable_bandits.store.errors import StoreDamaged, StoreError, one_line, store_errors
from scalable_bandits.store.layout import ROUND, check_other_schema, check_schema, fields_of
from scalable_bandits.store.ledger import Contents, is_counted, read_document, read_ledger
from scalable_bandits.store.locations import INPUTS, Location
from scalable_bandits.store.rows import Columns, Field, Rows, check_fields
from scalable_bandits.tickets import OPEN, Ticket

if TYPE_CHECKING:
    import xarray

LARGEST_CHUNK = 2**32  # bytes of a field's chunk
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
    contents = read_ledger(location, thorough)
    if contents.problems:
        check_other_schema(location)
        if location.unfinished() or not location.occupied():
            raise FileNotFoundError(f"store: there is no run in {location.name}")
    if not contents.attributes:
        copy = read_document(location)  # the last close wrote it
        contents.attributes = copy.attributes
        if contents.state.rounds < copy.state.rounds:
            contents.state, contents.chunks = copy.state, copy.chunks
    if not contents.attributes:
        if not location.has_run_files():
            raise FileExistsError(f"store: {location.name} exists already and is not a run; name a run, or a new place")
        listed = "; ".join(contents.problems)
        text = f"its attributes are damaged, so that its rounds cannot be read ({listed})"
        raise StoreDamaged(f"store {location.name}: {text}; zarr.open_group can read its undamaged arrays")
    check_schema(location.name, contents.attributes)
    check_attributes(location.name, contents.attributes)
    if not contents.state.change:  # then so many rounds are in the arrays for sure
        told = [ticket.round for ticket in contents.tickets.values() if ticket.state == "done" and ticket.round]
        whole = max(contents.chunks, default=0) * contents.attributes["chunk"]
        whole = min(told) - 1 if told and contents.chunks else whole
        contents.state = contents.state._replace(rounds=whole, length=max([whole, *told]))
    problem = count_problem(contents)
    if problem and not contents.problems:
        contents.problems.append(problem)
    return contents


def check_attributes(name: str, attributes: Any) -> None:
    """Raise StoreDamaged unless the attributes in the store of this name are those of a run."""
    try:
        fields = check_fields(fields_of(attributes))
        chunk, planned = attributes["chunk"], attributes["planned"]
        sound = type(chunk) is int and chunk >= 1 and (planned is None or (type(planned) is int and planned >= 0))
        sound &= all(8 * chunk * math.prod(field.shape) <= LARGEST_CHUNK for field in fields)
        sound &= isinstance(attributes["id"], str) and isinstance(attributes["specification"], dict)
        sound &= isinstance(attributes.get("kind", ""), str) and isinstance(attributes.get("settings", {}), dict)
        why = "" if sound else "one of their values is not one that a run can have"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    if why:
        raise StoreDamaged(f"store {name}: its attributes are not those of a run ({why})")


def count_problem(contents: Contents) -> str:
    """Return what is wrong with the count of rounds and the checksums of chunks; empty if nothing is."""
    rounds, names = contents.state.rounds, {field["name"] for field in contents.attributes["fields"]}
    needed = -(-rounds // contents.attributes["chunk"])
    if rounds < 0 or len(contents.chunks) != needed or (needed and max(contents.chunks) != needed - 1):
        return f"it counts {rounds} rounds, and has the checksums of {len(contents.chunks)} chunk(s)"
    if any(each.keys() != names for each in contents.chunks.values()):
        return f"the checksums of a chunk are not those of {', '.join(sorted(names))}"
    return ""


class StoredRun:
    """One run, open for reading: fields over rounds 1, 2, ...

    Attributes
    ----------
    location : Location
        Where it is.
    contents : Contents
        What its ledger has.
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
        self._load(contents)

    def _load(self, contents: Contents) -> None:
        """Take over what a ledger has; raise StoreDamaged if anything is damaged, unless opened with `recover`."""
        self.contents, self.attributes, self.tickets = contents, contents.attributes, contents.tickets
        self.fields, self.chunk = fields_of(self.attributes), int(self.attributes["chunk"])
        self.specification: dict[str, Any] = self.attributes["specification"]
        self.planned: int | None = self.attributes["planned"]
        self.problems, file = list(contents.problems), self.location.ledger_file
        state = contents.state
        whole = max(min(state.rounds, (max(contents.chunks, default=-1) + 1) * self.chunk), 0)
        contents.state = state._replace(rounds=whole)
        self.orderly, self.last_write = bool(state.orderly), state.time
        later = [each for each in self.tickets.values() if each.state == "done" and not is_counted(each, whole)]
        later.sort(key=lambda ticket: ticket.round or 0)
        self.arrays, self._buffer, self._told = (
            Arrays(self.location, contents),
            Rows(self.fields, whole),
            list[Ticket](),
        )
        try:
            self._buffer.extend(columns_of(later, self.fields))
        except (ValueError, TypeError) as error:
            self.problems.append(f"{file}: some evaluations are none of this run ({one_line(error)})")
        rounds = list(range(whole + 1, len(self) + 1))
        if (len(self) != state.length or [each.round for each in later] != rounds) and not self.problems:
            self.problems.append(f"{file}: rounds after round {whole} are missing")
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
        return self._buffer.stop + len(self._told)

    @property
    def _rows(self) -> Rows:
        """Rows of the rounds after those in the arrays; of a writer, of all rounds of the last chunk."""
        if self._told:  # rows are made when they are read, which is much later where values are told one by one
            self._buffer.extend(columns_of(self._told, self.fields))
            self._told = []
        return self._buffer

    @property
    def pending(self) -> list[int]:
        """Numbers of the pending candidates, in the order of asking."""
        return [self.tickets[number].candidate for number in sorted(self.tickets) if self.tickets[number].state in OPEN]

    @property
    def given(self) -> int:
        """Number of evaluations that have a number; numbers are not given again."""
        return self.contents.state.given

    @property
    def failures(self) -> list[Ticket]:
        """Evaluations that failed for good, in the order in which the policy was told them."""
        return sorted((each for each in self.tickets.values() if each.gone), key=lambda ticket: ticket.ended or 0)

    @property
    def kept(self) -> bool:
        """Whether evaluations stay in the database for good."""
        return self.attributes.get("kind") in KEPT

    def refresh(self) -> None:
        """Read again what the run contains.

        Raises
        ------
        StoreDamaged
            If something is damaged, unless the run was opened with `recover`.
        """
        with store_errors(self.location.name, "reading it"):
            contents = read_contents(self.location)
        if contents.attributes["id"] != self.attributes["id"]:
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
            check_name("names", name, (ROUND.name, *fields))
        columns, base = self._rows.view(start, end), self._rows.start
        found: Columns = {}
        for name in chosen:
            if name == ROUND.name:
                found[name] = np.arange(start + 1, end + 1)
            elif start >= base:
                found[name] = columns[name].copy()
            else:
                stored = self.arrays.read(name, start, min(end, base))
                found[name] = np.concatenate([stored, columns[name]]) if end > base else stored
        return found

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

        base, tail = self._rows.start, self._rows.view()
        variables: dict[str, Any] = {}
        for field in self.fields:
            pieces = [dask.array.from_array(tail[field.name].copy(), chunks=-1)] if len(self) > base or not base else []
            if base:  # a writer has the rounds of the last chunk in memory, too
                sizes = [min(self.chunk, base - start) for start in range(0, base, self.chunk)]
                stored = dask.array.map_blocks(
                    self.arrays.block, field.name, chunks=(tuple(sizes), *((size,) for size in field.shape)),
                    dtype=field.dtype, meta=np.empty((0,) * (1 + len(field.shape)), field.dtype),
                    name=f"{field.name}-{uuid.uuid4().hex}",
                )  # fmt: skip
                pieces.insert(0, stored)
            variables[field.name] = ((ROUND.name, *field.dimensions), dask.array.concatenate(pieces))
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
            stored: Any = zarr.open_array(self.location.store, mode="r", path=path)
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


def columns_of(tickets: Sequence[Ticket], fields: Sequence[Field]) -> Columns:
    """Return the columns of evaluations that have values, by the fields of a run."""
    values = {
        "call": [t.call for t in tickets], "candidate": [t.candidate for t in tickets], "x": [t.x for t in tickets],
        "y": [t.y for t in tickets], "noise": [np.nan if t.noise is None else t.noise for t in tickets],
        "time": [t.changed for t in tickets],
    }  # fmt: skip
    if not tickets:
        return {field.name: np.empty((0, *field.shape), field.dtype) for field in fields}
    if any(field.name == "outputs" for field in fields):
        values["outputs"] = [list(t.result["outputs"].values()) for t in tickets]
    return {
        field.name: np.array(values[field.name], dtype=field.dtype).reshape(len(tickets), *field.shape)
        for field in fields
    }
