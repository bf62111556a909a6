"""Layout of a run in zarr: its arrays and their metadata, its attributes, its schema version.

A run is one group: an array over ``round`` for every field, ``round`` itself, and ``committed``, the number of rounds
that may be trusted. ``committed`` also has a copy of the group's attributes; either copy can be restored from the
other. The metadata of the arrays follow from the attributes; the stored metadata are for other programs.
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
CHUNK = 65_536  # rounds; fastest to write of 16,384 to 1,048,576, with zarr shards and without (benchmarks, "store")
WHOLE: Any = {"write_empty_chunks": True}  # also writes chunks of fill values, so that an absent chunk is a lost one
LARGEST_START = 2**24  # largest number of rounds that new arrays have room for
INPUTS = "inputs"  # group of the specification's arrays, named by their digests
ROUND = Field("round", "int64")
COPY = "run"  # attribute of `committed` with the copy of the group's attributes


class Copies(NamedTuple):
    """Attributes of a run, read from their two copies."""

    attributes: dict[str, Any] | None  # None if neither copy is whole
    damaged: dict[str, str]  # problem of each file whose copy is not used


def read_attributes(location: Location) -> Copies:
    """Read both copies of the attributes of a run; where they differ, the commit record decides.

    Parameters
    ----------
    location
        Location of the run.
    """
    found: dict[str, dict[str, Any]] = {}
    foreign: dict[str, dict[str, Any]] = {}  # of another schema, which may sign them in another way
    damaged = {}
    for file, path in ((METADATA, ""), (f"{COMMITTED}/{METADATA}", COMMITTED)):
        try:
            document = location.document(path)
        except ValueError as error:
            damaged[file] = f"it is not JSON ({error})"
            continue
        attributes = (document or {}).get("attributes")
        if path and isinstance(attributes, dict):
            attributes = attributes.get(COPY)
        if not isinstance(attributes, dict) or "schema" not in attributes or attributes.get("kind") == "study":
            damaged[file] = "it is missing" if document is None else "the attributes of the run are not in it"
        elif not is_signed(attributes):
            damaged[file] = "its attributes do not match their digest"
            if attributes["schema"] != SCHEMA:
                foreign[file] = attributes
        else:
            found[file] = attributes
    found = found or foreign
    # Of two copies of equal rank the group's is used, which is written last.
    run, digest = _recorded(location)
    best = max(found.values(), key=lambda each: (each.get("id") == run, each.get("digest") == digest), default=None)
    for file, attributes in found.items():
        if attributes != best:
            damaged[file] = "its attributes are not those of the other copy"
    return Copies(None if best is None else dict(best), damaged)


def _recorded(location: Location) -> tuple[str, str]:
    """Return the name of the run and the digest of its attributes from its commit record."""
    try:
        record = location.read_record()
    except ValueError:
        return "", ""
    return (record["run"], record["attributes"]) if is_signed(record) else ("", "")


def sign_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as JSON stores them, with their digest."""
    return sign(json.loads(json.dumps(attributes)))


def check_schema(name: str, attributes: Mapping[str, Any]) -> None:
    """Raise StoreError if the attributes of a run or a study have another schema than the one of this version."""
    schema = attributes.get("schema")
    if schema == SCHEMA:
        return
    hint = "a newer version wrote it: upgrade scalable_bandits"
    if schema == 1:
        opened = "Study.open(...)" if attributes.get("kind") == "study" else "ObservationStore.open(...).dataset()"
        hint = f"read it with version 0.2, and export it there: {opened}.to_zarr(...)"
    raise StoreError(f"store {name}: it has schema {schema}, and this version reads schema {SCHEMA} alone; {hint}")


def fields_of(attributes: Mapping[str, Any]) -> tuple[Field, ...]:
    """Return the fields of a run from its attributes."""
    return tuple(Field(f["name"], f["dtype"], tuple(f["shape"]), tuple(f["dimensions"])) for f in attributes["fields"])


def describe_fields(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """Return fields as plain data."""
    return [{**f._asdict(), "shape": list(f.shape), "dimensions": list(f.dimensions)} for f in fields]


# ---- metadata of groups and arrays in zarr's format

_BYTES = [{"name": "bytes", "configuration": {"endian": "little"}}]
_COMPRESSED = [*_BYTES, {"name": "zstd", "configuration": {"level": 0, "checksum": True}}]


def group_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a group."""
    return {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}


def field_document(field: Field, chunk: int, length: int, separator: str) -> dict[str, Any]:
    """Return the metadata of a field's array over `length` rounds."""
    document = _array([length, *field.shape], field.dtype, [chunk, *field.shape], separator)
    return document | {
        "fill_value": "NaN" if math.isnan(field.fill) else field.fill,
        "codecs": list(_COMPRESSED),
        "dimension_names": [ROUND.name, *field.dimensions],
    }


def count_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of the array ``committed``, with the copy of the attributes."""
    document = _array([], "int64", [], "/")
    more = {"fill_value": 0, "codecs": [*_BYTES, {"name": "crc32c"}], "attributes": {COPY: dict(attributes)}}
    return document | more


def _array(shape: list[int], dtype: str, chunks: list[int], separator: str) -> dict[str, Any]:
    """Return what the metadata of all arrays have in common."""
    return {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": separator}},
        "attributes": {}, "storage_transformers": [],
    }  # fmt: skip


def bytes_document(size: int, piece: int, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an array of bytes in pieces."""
    document = _array([size], "uint8", [min(piece, max(size, 1))], "/")
    codecs = [{"name": "bytes"}, {"name": "crc32c"}]
    return document | {"fill_value": 0, "codecs": codecs, "attributes": dict(attributes)}


def notes_document(shape: Sequence[int], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an array of a study's numbers in one piece."""
    document = _array(list(shape), "float64", list(shape), "/")
    names = {"dimension_names": ["case", "replicate"]} if len(shape) == 2 else {}
    return document | {"fill_value": "NaN", "codecs": list(_COMPRESSED), "attributes": dict(attributes)} | names


def documents(location: Location, attributes: Mapping[str, Any], length: int) -> dict[str, dict[str, Any]]:
    """Return the metadata of all groups and arrays of a run by path, for arrays over `length` rounds."""
    chunk, separator = attributes["chunk"], location.separator
    columns = {f.name: field_document(f, chunk, length, separator) for f in (ROUND, *fields_of(attributes))}
    return {**columns, COMMITTED: count_document(attributes), "": group_document(attributes)}


def compare(location: Location, path: str, expected: Mapping[str, Any]) -> str:
    """Return what is wrong with stored metadata; empty if only the number of rounds differs."""
    try:
        stored = location.document(path)
    except ValueError as error:
        return f"it is not JSON ({error})"
    if stored is None:
        return "it is missing"
    given = {**stored, "shape": [*expected.get("shape", [])[:1], *(stored.get("shape") or [])[1:]]}
    names = [
        key for key, value in expected.items() if given.get(key, [] if key == "storage_transformers" else None) != value
    ]
    return f"its {', '.join(sorted(names))} are not those of the run" if names else ""


def length_of(location: Location, path: str) -> int | None:
    """Return the number of rounds of an array by its stored metadata; None if they cannot be read."""
    try:
        shape = (location.document(path) or {})["shape"]
        return shape[0] if type(shape[0]) is int and shape[0] >= 0 else None
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def lay_out(
    location: Location, attributes: Mapping[str, Any], inputs: Mapping[str, NDArray[Any]] | None = None
) -> list[str]:
    """Make the missing or damaged parts of a run's group and arrays; return what was made.

    The attributes are written last. Arrays get the length of the existing ones, or the planned length, so that closing
    a complete run does not trim them.
    """
    planned = min(max(attributes["planned"] or attributes["chunk"], 1), LARGEST_START)
    lengths = (length_of(location, field.name) for field in (ROUND, *fields_of(attributes)))
    length = max((known for known in lengths if known is not None), default=planned)
    made = []
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
            made.append(f"{path}/{METADATA}".lstrip("/") + f" was made again: {wrong}")
    return made


def refuse_attributes(location: Location, damaged: Mapping[str, str]) -> StoreDamaged:
    """Return the error for a run whose attributes are damaged in both copies."""
    listed = "; ".join(f"{file}: {why}" for file, why in damaged.items())
    text = "both copies of its attributes are damaged, so that its rounds cannot be read"
    return StoreDamaged(f"store {location.name}: {text} ({listed}); zarr.open_group can read its undamaged arrays")


def described_arrays(value: Any) -> list[dict[str, Any]]:
    """Return the descriptions of the long arrays in a specification."""
    if isinstance(value, dict):
        if {"array", "shape", "dtype"} <= set(value):
            return [value]
        value = list(value.values())
    return [found for inside in value for found in described_arrays(inside)] if isinstance(value, list) else []
