"""What is small in a run and must not be lost: its attributes, the count of its rounds, checksums, evaluations.

Of a run in a folder it is a database (`database.py`); in other zarr stores, which take simulations alone, one object:
the attributes of the array ``committed``. When a run in a folder is closed, it gets that object as a copy.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.layout import count_document, fields_of
from scalable_bandits.store.locations import COMMITTED, METADATA, Location
from scalable_bandits.store.rows import check_fields
from scalable_bandits.tickets import Ticket

LARGEST_CHUNK = 2**32  # bytes of a field's chunk
DOCUMENT = f"{COMMITTED}/{METADATA}"


@attrs.frozen
class State:
    """State of a run after a transaction."""

    change: int = 0  # number of the transaction
    rounds: int = 0  # number of rounds in the arrays; rounds after them are evaluations
    length: int = 0  # number of all rounds
    total: int = 0  # sum of the checksums of all rows of the database
    orderly: bool = True  # whether the writer closed the run
    given: int = 0  # number of evaluations that have a number
    time: float = attrs.field(factory=time.time)  # of the transaction, in seconds since 1970


@attrs.frozen
class Change:
    """Change of a ledger, which is one transaction."""

    attributes: dict[str, Any] = attrs.field(factory=dict)  # new attributes; empty: as before
    chunks: dict[int, dict[str, int]] = attrs.field(factory=dict)  # checksums of new or longer chunks
    tickets: Sequence[Ticket] = ()  # evaluations that are new or have changed
    rounds: int | None = None  # number of rounds in the arrays, whose evaluations go; None: as before
    length: int | None = None  # number of all rounds; None: as before
    orderly: bool = False  # whether it is the last change of a writer

    def after(self, state: State, total: int = 0) -> State:
        """Return the state after the change, with the sum of all checksums."""
        given = state.given
        for ticket in self.tickets:
            given = max(given, ticket.number + 1)
        rounds = state.rounds if self.rounds is None else self.rounds
        length = state.length if self.length is None else self.length
        return State(state.change + 1, rounds, length, total, self.orderly, given)


@attrs.define
class Contents:
    """All that a ledger has."""

    attributes: dict[str, Any] = attrs.field(factory=dict)  # of the run; empty if they cannot be read
    state: State = attrs.field(factory=State)  # after the last transaction
    chunks: dict[int, dict[str, int]] = attrs.field(factory=dict)  # checksums by field of each chunk's counted rounds
    tickets: dict[int, Ticket] = attrs.field(factory=dict)  # evaluations by number
    problems: list[str] = attrs.field(factory=list)  # what is damaged

    def take(self, change: Change, state: State) -> None:
        """Take over a change that has been made, and the state after it."""
        self.attributes = change.attributes or self.attributes
        self.chunks.update(change.chunks)
        for ticket in change.tickets:
            self.tickets[ticket.number] = ticket
        if change.rounds is not None:
            for number in [number for number, ticket in self.tickets.items() if is_counted(ticket, change.rounds)]:
                del self.tickets[number]
        self.state = state  # last: if this is interrupted, the change is taken over again


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
        now = attrs.evolve(self.contents, chunks={**self.contents.chunks})
        now.take(change, change.after(self.contents.state))
        write_document(self._location, now)
        self.contents.take(change, now.state)

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
    plain = as_json({"run": contents.attributes, "state": attrs.asdict(contents.state), "chunks": chunks})
    location.put_document(COMMITTED, count_document(sign(plain)))


def as_json(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return data as JSON stores them."""
    found: dict[str, Any] = json.loads(json.dumps(given))
    return found


def digest_of(plain: Mapping[str, Any]) -> str:
    """Return the digest of JSON-ready data without their own digest; the order of keys does not matter."""
    text = json.dumps({**plain, "digest": ""}, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def sign(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with their digest as an additional key."""
    return {**plain, "digest": digest_of(plain)}


def is_signed(plain: Any) -> bool:
    """Whether data carry the digest that `sign` would give them."""
    return isinstance(plain, dict) and bool(plain.get("digest") == digest_of(plain))


# ---- validation: a store is data from elsewhere


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
