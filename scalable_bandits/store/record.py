"""The commit record of a run: which rounds, which digests and which logs belong to it. Written last, and whole.

It is the one file that says what must be there. Every log is named with its generation and the number of frames that it
had at the last commit, so that a log that is missing, cut or replaced by an earlier one is noticed.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import attrs

ROUNDS, TICKETS, DIGESTS = "journal", "tickets", "digests"  # the logs


class Extent(NamedTuple):
    """How far a log reached."""

    generation: int
    frames: int = 0
    rounds: int = 0  # in the run then; 0 in the other logs

    @classmethod
    def from_plain(cls, values: Any) -> Self:
        """Convert a list of three whole numbers; ValueError for anything else."""
        if not isinstance(values, list) or len(values) != 3 or any(type(v) is not int or v < 0 for v in values):
            raise ValueError(f"{values!r} is not the extent of a log")
        return cls(*values)


def digest_of(plain: Any) -> str:
    """Digest of JSON-ready data, whatever the order of its keys."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def sign(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The same data with its digest as one more key."""
    return {**plain, "digest": digest_of({key: value for key, value in plain.items() if key != "digest"})}


def is_signed(plain: Any) -> bool:
    """Whether data has the digest that `sign` gave it."""
    if not isinstance(plain, dict) or "digest" not in plain:
        return False
    return plain["digest"] == digest_of({key: value for key, value in plain.items() if key != "digest"})


@attrs.frozen
class CommitRecord:
    """What is committed.

    Attributes
    ----------
    run
        Name of the run, drawn when it was made.
    attributes
        Digest of the run's attributes.
    rounds
        Rounds in the arrays that any zarr reader may trust.
    chain
        CRC-32 of the digests of all whole chunks, in their order.
    tail
        CRC-32 of each field's rows after the last whole chunk, as far as `rounds` reaches; empty if there are none.
    logs
        Extents of the logs at the last commit, by name.
    """

    run: str
    attributes: str = ""
    rounds: int = 0
    chain: int = 0
    tail: tuple[int, ...] = ()
    logs: Mapping[str, Extent] = attrs.field(factory=dict)

    def file(self, name: str) -> str:
        """Name of a log's file."""
        return f"{name}-{self.logs[name].generation}"

    def to_plain(self) -> dict[str, Any]:
        """JSON-ready data with their digest."""
        logs = {name: list(extent) for name, extent in self.logs.items()}
        return sign({**attrs.asdict(self, recurse=False), "tail": list(self.tail), "logs": logs})

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """From what `to_plain` gave.

        Raises
        ------
        ValueError
            If it does not have its digest.
        """
        if not is_signed(plain):
            raise ValueError("its digest does not match")
        logs = {name: Extent.from_plain(values) for name, values in plain["logs"].items()}
        given = {key: value for key, value in plain.items() if key != "digest"}
        return cls(**{**given, "tail": tuple(plain["tail"]), "logs": logs})


_COUNTER = struct.Struct("<8s6Q")  # start of the run's name, extents of two logs
_COUNTED = (ROUNDS, TICKETS)


def encode_counter(run: str, journal: Extent, tickets: Extent) -> bytes:
    """Bytes that say how far two logs reach, to be overwritten in place after every frame."""
    data = _COUNTER.pack(run[:8].encode(), *journal, *tickets)
    return data + zlib.crc32(data).to_bytes(4, "little")


def decode_counter(run: str, data: bytes | None) -> dict[str, Extent] | None:
    """Extents of what `encode_counter` gave; None if the bytes are damaged or another run's."""
    if data is None or len(data) != _COUNTER.size + 4:
        return None
    if zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        return None
    start, *numbers = _COUNTER.unpack(data[:-4])
    if start != run.encode()[:8]:
        return None
    return {name: Extent(*numbers[3 * i : 3 * i + 3]) for i, name in enumerate(_COUNTED)}
