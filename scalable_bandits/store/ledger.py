"""What is small in a run and must not be lost: its attributes, the count of its rounds, checksums, evaluations."""

from __future__ import annotations

import hashlib
import json
import math
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from scalable_bandits.store.errors import StoreDamaged
from scalable_bandits.store.rows import Field, check_fields
from scalable_bandits.tickets import Ticket

LARGEST_CHUNK = 2**32  # bytes of a field's chunk


@attrs.frozen
class State:
    """State of a run after a transaction.

    Attributes
    ----------
    change
        Number of the transaction.
    rounds
        Number of rounds in the arrays; rounds after them are evaluations.
    total
        Sum of the checksums of all rows of the database, modulo 2^62.
    orderly
        Whether the writer closed the run.
    given
        Number of evaluations that have a number.
    time
        Time of the transaction, in seconds since 1970.
    """

    change: int = 0
    rounds: int = 0
    total: int = 0
    orderly: bool = True
    given: int = 0
    time: float = attrs.field(factory=time.time)

    def at(self, rounds: int) -> State:
        """Return this state with another number of rounds in the arrays."""
        return attrs.evolve(self, rounds=rounds)


@attrs.define
class Contents:
    """All that a ledger has.

    Attributes
    ----------
    attributes
        Attributes of the run; None if they cannot be read.
    state
        State after the last transaction.
    chunks
        Checksums of each field, by the number of the chunk; of the last chunk those of the rounds that it has.
    tickets
        Evaluations by number.
    problems
        What is damaged.
    """

    attributes: dict[str, Any] | None = None
    state: State = attrs.field(factory=State)
    chunks: dict[int, list[int]] = attrs.field(factory=dict)
    tickets: dict[int, Ticket] = attrs.field(factory=dict)
    problems: list[str] = attrs.field(factory=list)


class Ledger(Protocol):
    """Interface of the ledger of a run that is being written."""

    state: State

    def check(self) -> None:
        """Raise FileNotFoundError if the ledger was moved or removed."""

    def commit(
        self, *, attributes: Mapping[str, Any] | None = None, chunks: Mapping[int, Sequence[int]] | None = None,
        tickets: Iterable[Ticket] = (), folded: Iterable[int] = (), rounds: int | None = None, orderly: bool = False,
    ) -> None:  # fmt: skip
        """Make one change: durable on return, absent if this raises.

        Parameters
        ----------
        attributes
            New attributes.
        chunks
            Checksums of new or longer chunks.
        tickets
            Evaluations that are new or have changed.
        folded
            Numbers of the evaluations whose rounds are in the arrays now.
        rounds
            Number of rounds in the arrays.
        orderly
            Whether this is the last change of a writer.
        """

    def close(self) -> None:
        """Release files."""


def checksum(values: NDArray[np.generic]) -> int:
    """Return the CRC-32 of the bytes (little-endian, C order) of an array (k, ...)."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return zlib.crc32(np.ascontiguousarray(little).reshape(-1).view(np.uint8).data)


def digest_of(plain: Any) -> str:
    """Return the digest of JSON-ready data; the order of keys does not matter."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def sign(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with their digest as an additional key."""
    return {**plain, "digest": digest_of({key: value for key, value in plain.items() if key != "digest"})}


def is_signed(plain: Any) -> bool:
    """Whether data carry the digest that `sign` would give them."""
    if not isinstance(plain, dict) or "digest" not in plain:
        return False
    return bool(plain["digest"] == digest_of({key: value for key, value in plain.items() if key != "digest"}))


# ---- validation: a store is data from elsewhere


def fields_of(attributes: Mapping[str, Any]) -> tuple[Field, ...]:
    """Return the fields of a run from its attributes."""
    return tuple(Field(f["name"], f["dtype"], tuple(f["shape"]), tuple(f["dimensions"])) for f in attributes["fields"])


def check_attributes(name: str, attributes: Any) -> None:
    """Raise StoreDamaged unless attributes are those of a run.

    Parameters
    ----------
    name
        Name of the store.
    attributes
        What is stored as its attributes.
    """
    try:
        fields = check_fields(fields_of(attributes))
        chunk, planned = attributes["chunk"], attributes["planned"]
        sound = type(chunk) is int and chunk >= 1 and (planned is None or (type(planned) is int and planned >= 0))
        sound &= all(8 * chunk * math.prod(field.shape) <= LARGEST_CHUNK for field in fields)
        sound &= isinstance(attributes["id"], str) and isinstance(attributes["specification"], dict)
        sound &= isinstance(attributes.get("kind", ""), str) and isinstance(attributes.get("settings", {}), dict)
        why = "" if sound else "a value in them is none that a run has"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    if why:
        raise StoreDamaged(f"store {name}: its attributes are not those of a run ({why})")


def count_problem(contents: Contents) -> str:
    """Return what is wrong with the count of rounds and the checksums of chunks; empty if nothing is."""
    assert contents.attributes is not None
    rounds, fields = contents.state.rounds, len(contents.attributes["fields"])
    needed = -(-rounds // contents.attributes["chunk"])
    if rounds < 0 or len(contents.chunks) != needed or (needed and max(contents.chunks) != needed - 1):
        return f"it counts {rounds} rounds, and has the checksums of {len(contents.chunks)} chunk(s)"
    if any(len(each) != fields for each in contents.chunks.values()):
        return f"the checksums of a chunk are not those of {fields} fields"
    return ""
