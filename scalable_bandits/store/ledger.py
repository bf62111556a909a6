"""What is small in a run and must not be lost: its attributes, the count of its rounds, checksums, evaluations.

Of a run in a folder it is a database of SQLite, each change one transaction. Tables: ``run`` (its attributes),
``state`` (a `State`), ``chunks`` (checksums), ``evaluations`` (a row a `Ticket`). SQLite drops what follows a damaged
frame of its log in silence, takes a missing log for an empty one, and has no checksums of its own. So every row has one
here, the state has the sum of all, and it counts the transactions; the number of the last one is written to a file
beside the database as well, once it is durable.

In other zarr stores, which take simulations alone, it is one object: the attributes of the array ``committed``. When a
run in a folder is closed, it gets that object as a copy.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sqlite3
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

import attrs

from scalable_bandits.store.errors import StoreDamaged, one_line, store_errors
from scalable_bandits.store.files import sync_directory
from scalable_bandits.store.layout import count_document
from scalable_bandits.store.locations import ACKNOWLEDGED, COMMITTED, DATABASE, METADATA, Folder, Location, is_local
from scalable_bandits.tickets import Ticket

DOCUMENT = f"{COMMITTED}/{METADATA}"
LOG = f"{DATABASE}-wal"
MOST_SOUGHT = 10_000  # number of rows that are looked for one at a time between two damages
WAIT_SECONDS = 10.0  # for a reader or a writer that holds the file

Key = tuple[str, int]  # table and number of a row


class State(NamedTuple):
    """State of a run after a transaction."""

    change: int = 0  # number of the transaction
    rounds: int = 0  # number of rounds in the arrays; rounds after them are evaluations
    length: int = 0  # number of all rounds
    total: int = 0  # sum of the checksums of all rows of the database but the state's own
    orderly: int = 1  # 1 if the writer closed the run, else 0
    given: int = 0  # number of evaluations that have a number
    time: float = 0.0  # of the transaction, in seconds since 1970


class Change(NamedTuple):
    """Change of a ledger, which is one transaction. Of several forms of an evaluation the last one counts."""

    attributes: dict[str, Any] | None = None  # new attributes; None: as before
    chunks: Mapping[int, dict[str, int]] = MappingProxyType({})  # checksums of new or longer chunks
    tickets: Sequence[Ticket] = ()  # evaluations that are new or have changed
    rounds: int | None = None  # number of rounds in the arrays, whose evaluations go; None: as before
    length: int | None = None  # number of all rounds; None: as before
    orderly: bool = False  # whether it is the last change of a writer

    def after(self, state: State, growth: int = 0) -> State:
        """Return the state after the change, by which the sum of all checksums grows so much."""
        rounds = state.rounds if self.rounds is None else self.rounds
        length = state.length if self.length is None else self.length
        given = state.given
        for ticket in self.tickets:
            given = max(given, ticket.number + 1)
        return State(state.change + 1, rounds, length, state.total + growth, int(self.orderly), given, time.time())


@attrs.define
class Contents:
    """All that a ledger has."""

    attributes: dict[str, Any] = attrs.field(factory=dict)  # of the run; empty if they cannot be read
    state: State = attrs.field(factory=State)  # after the last transaction
    chunks: dict[int, dict[str, int]] = attrs.field(factory=dict)  # checksums by field of each chunk's counted rounds
    tickets: dict[int, Ticket] = attrs.field(factory=dict)  # evaluations by number
    checksums: dict[Key, int] = attrs.field(factory=dict)  # of a database's rows but the state
    problems: list[str] = attrs.field(factory=list)  # what is damaged


def is_counted(ticket: Ticket, rounds: int) -> bool:
    """Whether an evaluation's value is among so many rounds in the arrays."""
    return ticket.state == "done" and ticket.round is not None and ticket.round <= rounds


class Ledger:
    """Ledger of a run that this process writes, with its contents: one object in the run's location, written last."""

    def __init__(self, location: Location, contents: Contents):
        self._location, self.contents = location, contents

    def check(self) -> None:
        """Raise FileNotFoundError if the ledger was moved or removed."""

    def commit(self, change: Change) -> None:
        """Make a change: durable on return, absent if this raises an error. It may be there after an interrupt."""
        contents, state = self.contents, change.after(self.contents.state)
        attributes, chunks = change.attributes or contents.attributes, {**contents.chunks, **change.chunks}
        write_document(self._location, Contents(attributes, state, chunks))
        self._take(change, state)

    def _take(self, change: Change, state: State, gone: Collection[Key] = ()) -> None:
        """Take over a change that has been made, the state after it, and which evaluations are gone."""
        contents = self.contents
        contents.attributes = change.attributes or contents.attributes
        contents.chunks.update(change.chunks)
        for ticket in change.tickets:
            contents.tickets[ticket.number] = ticket
        for _, number in gone:
            contents.tickets.pop(number, None)
        contents.state = state  # last: if this is interrupted, the change is taken over again

    def close(self) -> None:
        """Release files."""


def read_document(location: Location) -> Contents:
    """Read a ledger that is one object, or the copy of a database."""
    try:
        document = location.document(COMMITTED)
    except ValueError as error:
        return Contents(problems=[f"{DOCUMENT}: it is not JSON ({error})"])
    if document is None:
        return Contents(problems=[f"{DOCUMENT}: it is missing"])
    stored = document.get("attributes")
    if not isinstance(stored, dict) or not is_signed(stored):
        return Contents(problems=[f"{DOCUMENT}: its attributes do not match their digest"])
    return Contents(stored["run"], State(**stored["state"]), dict(enumerate(stored["chunks"])))


def write_document(location: Location, contents: Contents) -> None:
    """Write what `read_document` reads, as one object."""
    chunks = [contents.chunks[number] for number in sorted(contents.chunks)]
    plain = as_json({"run": contents.attributes, "state": contents.state._asdict(), "chunks": chunks})
    location.put_document(COMMITTED, count_document(sign(plain)))


def as_json(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return data as JSON stores them."""
    found: dict[str, Any] = json.loads(json.dumps(given))
    return found


def sign(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON-ready data with their digest as an additional key; the order of keys does not matter."""
    text = json.dumps({**plain, "digest": ""}, sort_keys=True, separators=(",", ":"))
    return {**plain, "digest": hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}


def is_signed(plain: Any) -> bool:
    """Whether data carry the digest that `sign` would give them."""
    return isinstance(plain, dict) and bool(plain.get("digest") == sign(plain)["digest"])


# ---- the database


# Columns of the tables; each has a last one more, the row's checksum.
_COLUMNS = {
    "run": "number INTEGER PRIMARY KEY, attributes TEXT",
    "state": """number INTEGER PRIMARY KEY, change INTEGER, rounds INTEGER, length INTEGER, total INTEGER,
        orderly INTEGER, given INTEGER, time REAL""",
    "chunks": "number INTEGER PRIMARY KEY, checksums TEXT",
    "evaluations": """number INTEGER PRIMARY KEY, candidate INTEGER, state TEXT, setting TEXT, y REAL, noise REAL,
        round INTEGER, x TEXT, error TEXT, trace TEXT, starts INTEGER, failures INTEGER, "where" TEXT, asked REAL,
        changed REAL, seconds REAL, ended INTEGER, call INTEGER, result TEXT""",  # attributes of `Ticket`, in its order
}
_TABLES = {table: f"CREATE TABLE {table} ({columns}, checksum INTEGER)" for table, columns in _COLUMNS.items()}
_PUT = {
    table: f"INSERT OR REPLACE INTO {table} VALUES (?{', ?' * (1 + columns.count(','))})"
    for table, columns in _COLUMNS.items()
}
_X = Ticket._fields.index("x")
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # Python cannot decode SQLite's message where it quotes damaged text


def _checksum(table: str, values: Sequence[Any]) -> int:
    return zlib.crc32(repr((table, *values)).encode())


def _row_of(ticket: Ticket) -> tuple[Any, ...]:
    """Return the row of a ticket, without its checksum."""
    result = None if ticket.result is None else json.dumps(ticket.result)
    return (*ticket[:_X], json.dumps(ticket.x), *ticket[_X + 1 : -1], result)


def _ticket_of(values: Sequence[Any]) -> Ticket:
    """Return the ticket of a row without its checksum; ValueError or TypeError if it cannot be one."""
    result = None if values[-1] is None else json.loads(values[-1])
    return Ticket._make((*values[:_X], tuple(json.loads(values[_X])), *values[_X + 1 : -1], result))


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    if path.is_symlink():
        raise StoreDamaged(f"store {path.parent.parent}: {path.name} is a symbolic link, which is not followed")
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=WAIT_SECONDS, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


class Database(Ledger):
    """Database of the run in a folder that this process writes, with its contents; without any it is a new one."""

    def __init__(self, root: Path, contents: Contents):
        self.contents, self._root, self._path = contents, root, root / DATABASE
        self._counter = -1  # descriptor of the file with the number of the last transaction
        if (root / LOG).exists():  # SQLite cuts it at the first damaged frame
            shutil.copyfile(root / LOG, root / f"{LOG}.kept")
        self._connection = _connect(self._path, "rw" if contents.state.change else "rwc")
        try:
            mode = "WAL" if is_local(root) else "TRUNCATE"
            for setting in (f"journal_mode = {mode}", "synchronous = FULL", "fullfsync = ON"):
                self._connection.execute(f"PRAGMA {setting}")
            sync_directory(self._path.parent)
            self._inode = self._path.stat().st_ino
        except BaseException:
            self._connection.close()
            raise

    def check(self) -> None:
        """Raise FileNotFoundError if the file was moved or removed: SQLite goes on writing to it."""
        if os.stat(self._path).st_ino != self._inode:
            raise FileNotFoundError(errno.ENOENT, "it was moved or removed", self._path)

    def commit(self, change: Change) -> None:
        contents, known, execute = self.contents, self.contents.checksums, self._connection.execute
        rows, gone = dict[Key, tuple[Any, ...]](), set[Key]()
        if change.attributes:
            rows["run", 0] = 0, json.dumps(change.attributes)
        for number, chunk in change.chunks.items():
            rows["chunks", number] = number, json.dumps(chunk)
        for ticket in change.tickets:
            rows["evaluations", ticket.number] = _row_of(ticket)
        if change.rounds is not None:
            everything = (*contents.tickets.values(), *change.tickets)
            gone = {("evaluations", each.number) for each in everything if is_counted(each, change.rounds)}
        sums, growth = dict[Key, int](), 0
        for key in gone:
            rows.pop(key, None)
            growth -= known.get(key, 0)
        for key, row in rows.items():
            sums[key] = _checksum(key[0], row)
            growth += sums[key] - known.get(key, 0)
        state = change.after(contents.state, growth)
        last = (0, *state)
        try:
            with store_errors(str(self._root), f"writing {DATABASE}"):
                self.check()
                execute("BEGIN IMMEDIATE")
                for statement in () if contents.state.change else _TABLES.values():
                    execute(statement)
                for key, row in rows.items():
                    execute(_PUT[key[0]], (*row, sums[key]))
                for _, number in gone:
                    execute("DELETE FROM evaluations WHERE number = ?", (number,))
                execute(_PUT["state"], (*last, _checksum("state", last)))
                execute("COMMIT")
                self._committed(change, state, gone, sums)
        except BaseException:
            if self._roll_back() == state.change > contents.state.change:  # an interrupt came after the commit
                self._committed(change, state, gone, sums)
            raise

    def _roll_back(self) -> int:
        """Roll back a transaction that failed; return the number of the last one in the database, 0 if unreadable."""
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # which SQLite may have done itself
                self._connection.execute("ROLLBACK")
        with suppress(sqlite3.Error):
            found = self._connection.execute("SELECT change FROM state").fetchone()
            return int(found[0]) if found else 0
        return 0

    def _committed(self, change: Change, state: State, gone: Collection[Key], sums: Mapping[Key, int]) -> None:
        """Take over a transaction, and write its number beside the database; not synced, it only detects damage."""
        self.contents.checksums.update(sums)
        for key in gone:
            self.contents.checksums.pop(key, None)
        self._take(change, state, gone)
        with suppress(OSError):  # a number that is too low does no harm
            if self._counter < 0:
                flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
                self._counter = os.open(self._root / ACKNOWLEDGED, flags, 0o666)
            text = f"{self.contents.attributes['id'][:16]:16} {state.change:020}"
            os.pwrite(self._counter, f"{text} {zlib.crc32(text.encode()):08x}\n".encode(), 0)

    def close(self) -> None:
        """Release the file; leave it, if no reader holds it, without a log, so that it can be read from any medium."""
        if self._counter >= 0:
            os.close(self._counter)
            self._counter = -1
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()


def copy_database(source: Path, target: Path) -> None:
    """Write the database of a run as it is now, in rollback mode, to another folder, which has none."""
    with closing(_connect(source / DATABASE, "ro")) as reader, closing(_connect(target / DATABASE, "rwc")) as writer:
        reader.backup(writer)
        writer.execute("PRAGMA journal_mode = DELETE")
    with (target / DATABASE).open("rb") as file:
        os.fsync(file.fileno())


# ---- opening


def open_ledger(location: Location, contents: Contents) -> Ledger:
    """Open the ledger of a run for writing, with the contents that it has."""
    return Database(location.path, contents) if isinstance(location, Folder) else Ledger(location, contents)


def read_ledger(location: Location, thorough: bool = False) -> Contents:
    """Return what the ledger of a run has, with `thorough` also damage that only a writer would meet."""
    return _read(location.path, thorough) if isinstance(location, Folder) else read_document(location)


def _read(root: Path, thorough: bool) -> Contents:
    """Read a database, in one short transaction that waits for no writer, and compare it with its checksums."""
    path, contents = root / DATABASE, Contents()
    problems, rows = contents.problems, dict[str, list[tuple[Any, ...]]]()
    if not path.exists() or not path.stat().st_size:  # SQLite would remove the log of an empty one
        problems.append("it is empty" if path.exists() else "it is missing")
    else:
        run, told = _acknowledged(root)  # before the database, which its writer may change at any moment
        try:
            with closing(_connect(path, "rw" if _has_unfinished(path) else "ro")) as connection:
                connection.execute("BEGIN")
                tables = dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL").fetchall())
                if tables == _TABLES:
                    rows.update((table, _rows(connection, table, problems)) for table in _TABLES)
                else:
                    problems.append("its tables are not those of a run" if tables else "it has no tables")
                if thorough and not problems:  # some pages matter to a writer alone
                    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                    problems += [] if found == "ok" else [f"its pages are damaged ({found})"]
        except _UNREADABLE as error:
            problems.append(f"it cannot be read ({one_line(error)})")
        if rows:
            _interpret(rows, contents)
        change = contents.state.change
        if contents.attributes and run and run != str(contents.attributes.get("id", ""))[:16]:
            problems.append(f"it is of another run than {ACKNOWLEDGED}")
        elif contents.attributes and told > change:
            lost = f"it ends with transaction {change}, and {told} were acknowledged"
            problems.append(f"{lost}: it, or its log {LOG}, was cut or put back")
    contents.problems = [f"{DATABASE}: {problem}" for problem in problems]
    return contents


def _acknowledged(root: Path) -> tuple[str, int]:
    """Return the name of a run and the number of its last acknowledged transaction; empty, 0 if they are unreadable."""
    with suppress(OSError, ValueError):
        text, _, found = (root / ACKNOWLEDGED).read_text().strip().rpartition(" ")
        if int(found, 16) == zlib.crc32(text.encode()):
            return text[:16].strip(), int(text[17:])
    return "", 0


def _has_unfinished(path: Path) -> bool:
    """Whether a writer died in a transaction of a rollback journal, which SQLite has to roll back before it reads."""
    with closing(_connect(path, "ro")) as connection:
        try:
            connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as error:
            return error.sqlite_errorname == "SQLITE_READONLY_ROLLBACK"
    return False


def _rows(connection: sqlite3.Connection, table: str, problems: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of a table; where some cannot be read, all others."""
    try:
        return connection.execute(f"SELECT * FROM {table}").fetchall()
    except _UNREADABLE as error:
        problems.append(f"some rows of {table} cannot be read ({one_line(error)})")
    found: dict[Any, tuple[Any, ...]] = {}
    ends = [-1, MOST_SOUGHT]
    for i, order in enumerate(("ASC", "DESC")):  # up to the damage from either end
        with suppress(*_UNREADABLE):
            for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1 {order}"):
                found[row[0]] = row
                ends[i] = row[0]
    for number in range(ends[0] + 1, min(ends[1], ends[0] + MOST_SOUGHT)):  # between two damages one at a time
        with suppress(*_UNREADABLE):
            for row in connection.execute(f"SELECT * FROM {table} WHERE number = ?", (number,)):
                found[row[0]] = row
    return list(found.values())


def _interpret(rows: Mapping[str, Sequence[tuple[Any, ...]]], contents: Contents) -> None:
    """Put rows that match their checksums into contents, and note those that do not."""
    for table, found in rows.items():
        bad = []
        for *values, stored in found:
            number = values[0]
            try:
                if _checksum(table, values) != stored:
                    raise ValueError("it is not what was written")
                if table == "evaluations":
                    contents.tickets[number] = _ticket_of(values)
                elif table == "chunks":
                    contents.chunks[number] = dict(json.loads(values[1]))
                elif table == "state":
                    contents.state = State(*values[1:])
                    continue
                else:
                    contents.attributes = dict(json.loads(values[1]))
                contents.checksums[table, number] = stored
            except (ValueError, TypeError, RecursionError):
                bad.append(str(number))
        if bad:
            listed = ", ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
            contents.problems.append(f"rows of {table} that are not what was written: {listed}")
    if not contents.state.change:
        contents.problems.append("its state cannot be read")
    elif sum(contents.checksums.values()) != contents.state.total and not contents.problems:
        contents.problems.append("rows are missing, or are older than others")
