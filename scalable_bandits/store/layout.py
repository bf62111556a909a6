"""How a run lies in zarr: its arrays and their metadata, its attributes, its schema version.

One group: an array over ``round`` for every field, ``round`` itself, and ``committed``, the count of rounds that may
be trusted, which also keeps a copy of the group's attributes (either can be made again from the other). The metadata of
the arrays follow from the attributes; what a store says of them is read by other programs only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import zarr
from numpy.typing import NDArray
from zarr.codecs import ZstdCodec

from scalable_bandits.store.errors import StoreDamaged, StoreError
from scalable_bandits.store.locations import COMMITTED, METADATA, Location
from scalable_bandits.store.record import is_signed, sign
from scalable_bandits.store.rows import Field

SCHEMA = 2
CHUNK = 65_536  # rounds; of 16,384 to 1,048,576, with shards and without, the fastest to write (benchmarks, "store")
WHOLE: Any = {"write_empty_chunks": True}  # chunks of fill values too: one that is not there is missing
LARGEST_START = 2**24  # rounds that arrays are made for at once, at the most
INPUTS = "inputs"  # the group of the specification's arrays, by digest
ROUND = Field("round", "int64")
COPY = "run"  # the attribute of `committed` that holds the copy


class Copies(NamedTuple):
    """The attributes of a run, as far as either copy of them is whole."""

    attributes: dict[str, Any] | None  # None if neither is there: no run, or not made to its end
    damaged: dict[str, str]  # files whose copy differs, and why


def read_attributes(location: Location) -> Copies:
    """Read the attributes of a run from both places.

    Parameters
    ----------
    location
        Location of the run. Where the copies differ, its commit record decides.
    """
    found: dict[str, dict[str, Any]] = {}
    newer: dict[str, dict[str, Any]] = {}  # of a version that may sign them in another way
    damaged = {}
    for file, path in ((METADATA, ""), (f"{COMMITTED}/{METADATA}", COMMITTED)):
        try:
            document = location.document(path)
        except ValueError as error:
            damaged[file] = f"it is no JSON ({error})"
            continue
        attributes = (document or {}).get("attributes")
        if path and isinstance(attributes, dict):
            attributes = attributes.get(COPY)
        if not isinstance(attributes, dict) or "schema" not in attributes:
            damaged[file] = "it is missing" if document is None else "the attributes of the run are not in it"
        elif (attributes["schema"] != 1 or "digest" in attributes) and not is_signed(attributes):
            damaged[file] = "its attributes do not match their digest"
            if type(attributes["schema"]) is int and attributes["schema"] > SCHEMA:
                newer[file] = attributes
        else:
            found[file] = attributes
    found = found or newer
    # A copy of schema 1 has no digest: it is the run's where neither has one, or where an upgrade was cut short.
    # Of two that rank alike the group's, which is written last, counts.
    run, digest = _recorded(location)
    best: dict[str, Any] | None = None
    rank: tuple[Any, ...] = ()
    for attributes in found.values():
        own = attributes.get("id") == run, attributes.get("digest") == digest, attributes["schema"]
        if best is None or own > rank:
            best, rank = attributes, own
    for file, attributes in found.items():
        if attributes != best:
            damaged[file] = "its attributes are not those of the other copy"
    return Copies(None if best is None else dict(best), damaged)


def _recorded(location: Location) -> tuple[str, str]:
    """Name of the run and digest of its attributes, by its commit record."""
    try:
        record = location.read_record()
    except ValueError:
        return "", ""
    return (record["run"], record["attributes"]) if is_signed(record) else ("", "")


def sign_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as JSON keeps them, with their digest."""
    return sign(json.loads(json.dumps(attributes)))


def check_schema(name: str, attributes: Mapping[str, Any]) -> None:
    """StoreError if a run is of another schema version than this code writes."""
    if attributes["schema"] > SCHEMA:
        raise StoreError(
            f"store {name}: it was written by a newer version (schema {attributes['schema']}; "
            f"this one knows up to {SCHEMA}): upgrade scalable_bandits"
        )


def fields_of(attributes: Mapping[str, Any]) -> tuple[Field, ...]:
    """Fields of a run from its attributes."""
    return tuple(Field(f["name"], f["dtype"], tuple(f["shape"]), tuple(f["dimensions"])) for f in attributes["fields"])


def describe_fields(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """Fields as plain data."""
    return [{**f._asdict(), "shape": list(f.shape), "dimensions": list(f.dimensions)} for f in fields]


# ---- metadata of groups and arrays, as zarr's format has them


def group_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of the run's group."""
    return {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}


def field_document(field: Field, chunk: int, length: int, separator: str) -> dict[str, Any]:
    """Metadata of the array of a field over so many rounds."""
    document = _array([length, *field.shape], field.dtype, [chunk, *field.shape], separator)
    return document | {
        "fill_value": "NaN" if math.isnan(field.fill) else field.fill,
        "codecs": [*_BYTES, {"name": "zstd", "configuration": {"level": 0, "checksum": True}}],
        "dimension_names": [ROUND.name, *field.dimensions],
    }


def count_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of the count, with the copy of the attributes."""
    document = _array([], "int64", [], "/")
    more = {"fill_value": 0, "codecs": [*_BYTES, {"name": "crc32c"}], "attributes": {COPY: dict(attributes)}}
    return document | more


_BYTES = [{"name": "bytes", "configuration": {"endian": "little"}}]


def _array(shape: list[int], dtype: str, chunks: list[int], separator: str) -> dict[str, Any]:
    return {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": separator}},
        "attributes": {}, "storage_transformers": [],
    }  # fmt: skip


def bytes_document(size: int, piece: int, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of an array of bytes in pieces."""
    document = _array([size], "uint8", [min(piece, max(size, 1))], "/")
    codecs = [{"name": "bytes"}, {"name": "crc32c"}]
    return document | {"fill_value": 0, "codecs": codecs, "attributes": dict(attributes)}


def notes_document(shape: Sequence[int], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of an array of numbers in one piece, of a study."""
    document = _array(list(shape), "float64", list(shape), "/")
    codecs = [*_BYTES, {"name": "zstd", "configuration": {"level": 0, "checksum": True}}]
    names = ("case", "replicate") if len(shape) == 2 else None
    more = {"fill_value": "NaN", "codecs": codecs, "attributes": dict(attributes)}
    return document | more | ({} if names is None else {"dimension_names": list(names)})


def documents(location: Location, attributes: Mapping[str, Any], length: int) -> dict[str, dict[str, Any]]:
    """Metadata of everything in a run's group, by path; of arrays as long as given."""
    chunk, separator = attributes["chunk"], location.separator
    columns = {f.name: field_document(f, chunk, length, separator) for f in (ROUND, *fields_of(attributes))}
    return {**columns, COMMITTED: count_document(attributes), "": group_document(attributes)}


def compare(location: Location, path: str, expected: Mapping[str, Any]) -> str:
    """What is wrong with the metadata that a store has; nothing if they are right, but for the number of rounds."""
    try:
        stored = location.document(path)
    except ValueError as error:
        return f"it is no JSON ({error})"
    if stored is None:
        return "it is missing"
    given = {**stored, "shape": [*expected.get("shape", [])[:1], *(stored.get("shape") or [])[1:]]}
    names = [
        key for key, value in expected.items() if given.get(key, [] if key == "storage_transformers" else None) != value
    ]
    return f"its {', '.join(sorted(names))} are not those of the run" if names else ""


def length_of(location: Location, path: str) -> int | None:
    """Rounds that an array has by its metadata; None if these cannot be read."""
    try:
        shape = (location.document(path) or {})["shape"]
        return shape[0] if type(shape[0]) is int and shape[0] >= 0 else None
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def lay_out(
    location: Location, attributes: Mapping[str, Any], inputs: Mapping[str, NDArray[Any]] | None = None
) -> list[str]:
    """Make what is not there yet, or is damaged, of a run's group and arrays; tells what that was.

    The attributes come last. Arrays are made as long as planned, so that closing a complete run has nothing to trim, or
    as long as the others.
    """
    planned = min(max(attributes["planned"] or attributes["chunk"], 1), LARGEST_START)
    lengths = (length_of(location, field.name) for field in (ROUND, *fields_of(attributes)))
    length = max((known for known in lengths if known is not None), default=planned)
    mended = []
    if inputs:
        location.put_document(INPUTS, group_document({}))
    for digest, values in (inputs or {}).items():
        zarr.create_array(
            location.store, name=f"{INPUTS}/{digest}", shape=values.shape, chunks=values.shape,
            dtype=values.dtype.name, overwrite=True, compressors=ZstdCodec(level=0, checksum=True), config=WHOLE,
        )[...] = values  # fmt: skip
    for path, expected in documents(location, attributes, length).items():
        wrong = compare(location, path, expected)
        if wrong:
            location.put_document(path, expected)
            mended.append(f"{path}/{METADATA}".lstrip("/") + f" was made again: {wrong}")
    return mended


def refuse_attributes(location: Location, damaged: Mapping[str, str]) -> StoreDamaged:
    """The error of a run neither of whose copies of the attributes can be used."""
    listed = "; ".join(f"{file}: {why}" for file, why in damaged.items())
    text = "both copies of its attributes are damaged, so that its rounds cannot be read"
    return StoreDamaged(
        f"store {location.name}: {text} ({listed}); arrays that are whole are there for zarr.open_group"
    )


def described_arrays(value: Any) -> list[dict[str, Any]]:
    """The long arrays that a specification speaks of, in its words."""
    if isinstance(value, dict):
        if {"array", "shape", "dtype"} <= set(value):
            return [value]
        value = list(value.values())
    return [found for inside in value for found in described_arrays(inside)] if isinstance(value, list) else []
