"""The database of a run in a folder: what is small and must not be lost, each change one transaction of SQLite.

Tables: ``run`` ("attributes" and "state", as JSON), ``chunks`` (checksums), ``evaluations`` (a row a `Ticket`).

SQLite drops what follows a damaged frame of its log in silence, takes a missing log for an empty one, and has no
checksums of its own. So every row has one here, the state has the sum of all, and it counts the transactions; the
number of the last one is written to a file beside the database as well, once it is durable.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import struct
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import attrs

from scalable_bandits.store.errors import StoreDamaged, one_line, store_errors
from scalable_bandits.store.files import sync_directory
from scalable_bandits.store.ledger import Contents, State
from scalable_bandits.tickets import Ticket

FILE, ACKNOWLEDGED = "run.sqlite", "acknowledged"
MOST_SOUGHT = 10_000  # number of rows that are looked for one at a time between two damages
WAIT_SECONDS = 10.0  # for a reader or a writer that holds the file
_LOCAL = ("ext", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay", "apfs", "hfs", "ntfs", "jfs", "bcachefs")

# Columns of the table of evaluations, attributes of `Ticket`, in the order in which a person reads them.
_COLUMNS = {
    "number": "INTEGER PRIMARY KEY", "state": "TEXT", "setting": "TEXT", "y": "REAL", "noise": "REAL",
    "round": "INTEGER", "candidate": "INTEGER", "x": "TEXT", "error": "TEXT", "trace": "TEXT", "starts": "INTEGER",
    "failures": "INTEGER", "\"where\"": "TEXT", "asked": "REAL", "changed": "REAL", "seconds": "REAL",
    "ended": "INTEGER", "call": "INTEGER", "result": "TEXT",
}  # fmt: skip
_NAMES = tuple(name.strip('"') for name in _COLUMNS)
_TABLES = {
    "run": "CREATE TABLE run (name TEXT PRIMARY KEY, value TEXT, checksum INTEGER) WITHOUT ROWID",
    "chunks": "CREATE TABLE chunks (number INTEGER PRIMARY KEY, checksums TEXT, checksum INTEGER)",
    "evaluations": f"CREATE TABLE evaluations ({', '.join(map(' '.join, _COLUMNS.items()))}, checksum INTEGER)",
}
_WIDTHS = {"run": 3, "chunks": 3, "evaluations": len(_COLUMNS) + 1}
_MODULUS = 2**62
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # Python cannot decode SQLite's message where it quotes damaged text


class Key(NamedTuple):
    """Place of a row."""

    table: str
    name: Any  # value of its first column


def _row_checksum(table: str, values: Sequence[Any]) -> int:
    return zlib.crc32(repr((table, *values)).encode())


def _values_of(ticket: Ticket) -> tuple[Any, ...]:
    """Return the row of a ticket, without its checksum."""
    values = {name: getattr(ticket, name) for name in _NAMES}
    values["x"] = json.dumps(list(ticket.x))
    values["y"] = None if ticket.y is None else ticket.y + 0.0  # SQLite keeps -0.0 as 0
    values["result"] = None if ticket.result is None else json.dumps(ticket.result)
    return tuple(values.values())


def _rows_of(
    attributes: Mapping[str, Any] | None, chunks: Mapping[int, Sequence[int]], tickets: Iterable[Ticket]
) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the tables and rows of attributes (none for None), checksums of chunks and tickets."""
    rows: list[tuple[str, tuple[Any, ...]]] = []
    if attributes is not None:
        rows.append(("run", ("attributes", json.dumps(attributes))))
    for number, sums in chunks.items():
        rows.append(("chunks", (number, json.dumps(list(sums)))))
    for ticket in tickets:
        rows.append(("evaluations", _values_of(ticket)))
    return rows


def _ticket_of(values: Sequence[Any]) -> Ticket:
    """Return the ticket of a row without its checksum; ValueError or TypeError if it cannot be one."""
    found = dict(zip(_NAMES, values, strict=True))
    found["x"] = tuple(json.loads(found["x"]))
    found["result"] = None if found["result"] is None else json.loads(found["result"])
    return Ticket(**found)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    if path.is_symlink():
        raise StoreDamaged(f"store {path.parent.parent}: {path.name} is a symbolic link, which is not followed")
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=WAIT_SECONDS, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def is_local(path: Path) -> bool:
    """Whether a folder is on a disk of this machine, whose locks and shared memory can be trusted."""
    import psutil

    inside = Path(os.path.realpath(path))
    kinds = {part.mountpoint: part.fstype.lower() for part in psutil.disk_partitions(all=True)}
    mounted = next((str(folder) for folder in (inside, *inside.parents) if str(folder) in kinds), "")
    return kinds.get(mounted, "").startswith(_LOCAL)


def log_is_torn(folder: Path) -> bool:
    """Whether the log of a database has a frame whose checksum is wrong: SQLite ends its reading there, in silence.

    Frames of another salt are older ones, which belong no more to the log (https://www.sqlite.org/walformat.html).
    """
    data = (folder / f"{FILE}-wal").read_bytes() if (folder / f"{FILE}-wal").exists() else b""
    if len(data) < 32:
        return False
    order = ">" if data[3] & 1 else "<"
    page, salt = int.from_bytes(data[8:12], "big"), data[16:24]
    sums = _log_checksum(data[:24], order, (0, 0))
    if data[24:32] != struct.pack(">2I", *sums):
        return True
    for start in range(32, len(data) - 24, 24 + page):
        frame = data[start : start + 24 + page]
        if frame[8:16] != salt:
            return False
        sums = _log_checksum(frame[:8] + frame[24:], order, sums)
        if len(frame) < 24 + page or frame[16:24] != struct.pack(">2I", *sums):
            return True
    return False


def _log_checksum(data: bytes, order: str, before: tuple[int, int]) -> tuple[int, int]:
    first, second = before
    for one, other in struct.iter_unpack(f"{order}2I", data[: len(data) // 8 * 8]):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


class Database:
    """Database of a run that this process writes.

    Parameters
    ----------
    folder
        Folder of the database.
    contents
        What it has, as `read` returned it; None makes a new database.
    """

    def __init__(self, folder: Path, contents: Contents | None = None):
        self._folder, self._path, self._name = folder, str(folder / FILE), str(folder.parent)
        self.state = State()
        self._sums: dict[Key, int] = {}  # checksums of all rows but the state
        self._run_id = ""
        self._counter = -1
        if contents is not None and contents.attributes is not None:
            self.state, self._run_id = contents.state, contents.attributes["id"]
            self._sums = _sums_of(contents)
            if log_is_torn(folder):  # before SQLite cuts it
                shutil.copyfile(folder / f"{FILE}-wal", folder / f"{FILE}-wal.torn")
        self._connection = _connect(folder / FILE, "rwc" if contents is None else "rw")
        try:
            mode = "WAL" if is_local(folder) else "TRUNCATE"
            for setting in (f"journal_mode = {mode}", "synchronous = FULL", "fullfsync = ON"):
                self._connection.execute(f"PRAGMA {setting}")
            sync_directory(folder)
            self._inode = (folder / FILE).stat().st_ino
        except BaseException:
            self._connection.close()
            raise

    def check(self) -> None:
        """Raise FileNotFoundError if the file was moved or removed: SQLite goes on writing to it."""
        if os.stat(self._path).st_ino != self._inode:
            raise FileNotFoundError(errno.ENOENT, "it was moved or removed", self._path)

    def commit(
        self, *, attributes: Mapping[str, Any] | None = None, chunks: Mapping[int, Sequence[int]] | None = None,
        tickets: Iterable[Ticket] = (), folded: Iterable[int] = (), rounds: int | None = None, orderly: bool = False,
    ) -> None:  # fmt: skip
        """Make one change: durable on return, absent if this raises. Parameters as in `Ledger.commit`."""
        puts = _rows_of(attributes, chunks or {}, tickets)
        sums, gone, new = self._sums, list[Key](), dict[Key, int]()
        total, given = self.state.total, self.state.given
        if attributes is not None:
            self._run_id = attributes["id"]
        for table, values in puts:
            key = Key(table, values[0])
            new[key] = _row_checksum(table, values)
            total += new[key] - sums.get(key, 0)
            if table == "evaluations":
                given = max(given, key.name + 1)
        for number in folded:
            if (key := Key("evaluations", number)) in sums:
                gone.append(key)
                total -= sums[key]
        state = State(
            self.state.change + 1, self.state.rounds if rounds is None else rounds,
            total % _MODULUS, orderly, given,
        )  # fmt: skip
        try:
            with store_errors(self._name, f"writing {self._folder.name}/{FILE}"):
                self._write(puts, new, gone, state)
        except BaseException:
            self._forget(state.change)  # an interrupt may come after the transaction
            if self.state.change == state.change:
                self._sums = {**{key: value for key, value in sums.items() if key not in gone}, **new}
            raise
        self.state = state  # from here to the end of `deque` no interrupt comes
        sums.update(new)
        deque(map(sums.pop, gone), maxlen=0)
        self._acknowledge()

    def _write(
        self, puts: Sequence[tuple[str, tuple[Any, ...]]], new: Mapping[Key, int], gone: Sequence[Key], state: State
    ) -> None:
        execute = self._connection.execute
        self.check()
        execute("BEGIN IMMEDIATE")
        if state.change == 1:
            for statement in _TABLES.values():
                execute(statement)
        for table, values in puts:
            places = ", ".join("?" * _WIDTHS[table])
            execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", (*values, new[Key(table, values[0])]))
        if gone:
            self._connection.executemany("DELETE FROM evaluations WHERE number = ?", [(key.name,) for key in gone])
        described = ("state", json.dumps(attrs.asdict(state)))
        execute("INSERT OR REPLACE INTO run VALUES (?, ?, ?)", (*described, _row_checksum("run", described)))
        execute("COMMIT")

    def _forget(self, change: int) -> None:
        """Roll back a transaction; if it had been committed already, take over its state."""
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # which SQLite may have done itself
                self._connection.execute("ROLLBACK")
        found = None
        with suppress(sqlite3.Error):
            found = self._connection.execute("SELECT value FROM run WHERE name = 'state'").fetchone()
        if found is not None and (stored := State(**json.loads(found[0]))).change == change:
            self.state = stored
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Write the number of the last transaction beside the database, not synced: it only detects damage."""
        with suppress(OSError):  # a number that is too low does no harm
            if self._counter < 0:
                flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
                self._counter = os.open(self._folder / ACKNOWLEDGED, flags, 0o666)
            text = f"{self._run_id[:16]:16} {self.state.change:020}"
            os.pwrite(self._counter, f"{text} {zlib.crc32(text.encode()):08x}\n".encode(), 0)

    def close(self) -> None:
        """Release the file; leave it, if no reader holds it, without a log, so that it can be read from any medium."""
        if self._counter >= 0:
            os.close(self._counter)
            self._counter = -1
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()


def copy(source: Path, target: Path) -> None:
    """Write a database as it is now, in rollback mode, to another folder, which has none."""
    reader, writer = _connect(source / FILE, "ro"), _connect(target / FILE, "rwc")
    try:
        reader.backup(writer)
        writer.execute("PRAGMA journal_mode = DELETE")
    finally:
        reader.close()
        writer.close()
    with (target / FILE).open("rb") as file:
        os.fsync(file.fileno())


# ---- reading


def acknowledged(folder: Path) -> tuple[str, int]:
    """Return the name of a run and the number of its last acknowledged transaction; empty, 0 if they are unreadable."""
    with suppress(OSError, ValueError):
        text, _, found = (folder / ACKNOWLEDGED).read_text().strip().rpartition(" ")
        if int(found, 16) == zlib.crc32(text.encode()):
            return text[:16].strip(), int(text[17:])
    return "", 0


def read(folder: Path) -> Contents:
    """Read a database, in one short transaction that waits for no writer, and compare it with its checksums.

    Parameters
    ----------
    folder
        Folder of the database.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    path, contents = folder / FILE, Contents()
    if not path.exists():
        raise FileNotFoundError(path)
    file = f"{folder.name}/{FILE}"
    if not path.stat().st_size:  # SQLite would remove its log, also where it only reads
        contents.problems.append(f"{file}: it is empty")
        return contents
    run, told = acknowledged(folder)  # before the database, which its writer may change at any moment
    rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _TABLES}
    try:
        connection = _connect(path, "ro")
        try:
            if _has_unfinished(connection):
                connection.close()
                connection = _connect(path, "rw")  # SQLite rolls back what a dead writer was writing
            connection.execute("BEGIN")
            tables = dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL").fetchall())
            if tables != _TABLES:
                wrong = "its tables are not those of a run" if tables else "it has no tables"
                contents.problems.append(f"{file}: {wrong}")
                return contents
            for table in _TABLES:
                rows[table] = _rows(connection, table, contents.problems, file)
        finally:
            connection.close()
    except _UNREADABLE as error:
        contents.problems.append(f"{file}: it cannot be read ({one_line(error)})")
    _interpret(rows, contents, file)
    if contents.attributes is not None and run:
        if run != str(contents.attributes.get("id", ""))[:16]:
            contents.problems.append(f"{file}: it is of another run than {folder.name}/{ACKNOWLEDGED}")
        elif told > contents.state.change:
            lost = f"it ends with transaction {contents.state.change}, and {told} were acknowledged"
            contents.problems.append(f"{file}: {lost}: it, or its log {FILE}-wal, was cut or put back")
    return contents


def _has_unfinished(connection: sqlite3.Connection) -> bool:
    """Whether a writer died in a transaction of a rollback journal, so that nothing can be read without a change."""
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        return error.sqlite_errorname == "SQLITE_READONLY_ROLLBACK"
    return False


def _rows(connection: sqlite3.Connection, table: str, problems: list[str], file: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table; where some cannot be read, all others."""
    try:
        return connection.execute(f"SELECT * FROM {table}").fetchall()
    except _UNREADABLE as error:
        problems.append(f"{file}: some rows of {table} cannot be read ({one_line(error)})")
    found: dict[Any, tuple[Any, ...]] = {}
    ends = [-1, MOST_SOUGHT]
    for i, order in enumerate(("ASC", "DESC")):  # up to the damage from either end
        with suppress(*_UNREADABLE):
            for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1 {order}"):
                found[row[0]] = row
                ends[i] = row[0]
    # Between two damages one at a time.
    names = range(ends[0] + 1, min(ends[1], ends[0] + MOST_SOUGHT)) if table != "run" else ("attributes", "state")
    column = "name" if table == "run" else "number"
    for name in names:
        with suppress(*_UNREADABLE):
            for row in connection.execute(f"SELECT * FROM {table} WHERE {column} = ?", (name,)):
                found[row[0]] = row
    return sorted(found.values(), key=lambda row: str(row[0]) if table == "run" else row[0])


def structure_problem(folder: Path) -> str:
    """Return what is wrong with the pages of a database, of which some matter to a writer alone; empty if nothing."""
    try:
        connection = _connect(folder / FILE, "ro")
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        finally:
            connection.close()
    except _UNREADABLE as error:
        found = one_line(error)
    return "" if found == "ok" else f"{folder.name}/{FILE}: its pages are damaged ({found})"


def _interpret(rows: Mapping[str, Sequence[tuple[Any, ...]]], contents: Contents, file: str) -> None:
    """Put rows that match their checksums into contents, and note those that do not."""
    total = 0
    for table, found in rows.items():
        bad = []
        for *values, stored in found:
            if _row_checksum(table, values) != stored:
                bad.append(str(values[0]))
                continue
            try:
                if table == "evaluations":
                    contents.tickets[values[0]] = _ticket_of(values)
                elif table == "chunks":
                    contents.chunks[values[0]] = [int(each) for each in json.loads(values[1])]
                elif values[0] == "state":
                    contents.state = State(**json.loads(values[1]))
                    continue
                elif values[0] == "attributes":
                    contents.attributes = dict(json.loads(values[1]))
            except (ValueError, TypeError, RecursionError):
                bad.append(str(values[0]))
                continue
            total += stored
        if bad:
            listed = ", ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
            contents.problems.append(f"{file}: rows of {table} that are not what was written: {listed}")
    if not contents.state.change:
        contents.problems.append(f"{file}: its state cannot be read")
    elif total % _MODULUS != contents.state.total and not contents.problems:
        contents.problems.append(f"{file}: rows are missing, or are older than others")


def _sums_of(contents: Contents) -> dict[Key, int]:
    """Return the checksums of all rows but the state."""
    rows = _rows_of(contents.attributes, contents.chunks, contents.tickets.values())
    return {Key(table, values[0]): _row_checksum(table, values) for table, values in rows}
