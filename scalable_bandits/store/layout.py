"""Layout of a run in zarr: its arrays and their metadata, its schema version.

A run is one group: an array over ``round`` for every field, ``round`` itself, and ``committed``, the number of rounds
that any zarr reader may trust. In the folder of ``committed`` lies what is authoritative, the ledger (`ledger.py`). All
metadata follow from it; the stored ones are for other programs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import zarr
from numpy.typing import NDArray
from zarr.codecs import ZstdCodec

from scalable_bandits import checks
from scalable_bandits.store.errors import StoreError
from scalable_bandits.store.locations import COMMITTED, INPUTS, Location
from scalable_bandits.store.rows import Field

SCHEMA = 3
CHUNK = 65_536  # rounds; fastest to write of 16,384 to 1,048,576, with zarr shards and without (benchmarks, "store")
WHOLE: Any = {"write_empty_chunks": True}  # also writes chunks of fill values, so that an absent chunk is a lost one
# Bytes on disk by bytes of the numbers: 0.32 to 0.62 in runs of six policies on arms, grids and a box, so that a run
# that is refused could not have been stored.
LEAST_SHARE = 0.3
ROUND = Field("round", "int64")


def check_schema(name: str, attributes: Mapping[str, Any]) -> None:
    """Raise StoreError if the attributes of a run or a study have another schema than the one of this version."""
    schema = attributes.get("schema")
    if schema == SCHEMA:
        return
    hint = "a newer version wrote it: upgrade scalable_bandits"
    if schema in (1, 2):
        opened = "Study.open(...)" if attributes.get("kind") == "study" else "ObservationStore.open(...).dataset()"
        hint = f"read it with version 0.2, and export it there: {opened}.to_zarr(...)"
    raise StoreError(f"store {name}: it has schema {schema}, and this version reads schema {SCHEMA} alone; {hint}")


def check_other_schema(location: Location) -> None:
    """Raise StoreError if the group in a location without a run of this schema is one of another."""
    try:
        attributes = (location.document("") or {}).get("attributes")
    except ValueError:
        return
    if isinstance(attributes, dict) and "schema" in attributes and attributes.get("kind") != "study":
        check_schema(location.name, attributes)


def describe_fields(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """Return fields as plain data."""
    return [{**f._asdict(), "shape": list(f.shape), "dimensions": list(f.dimensions)} for f in fields]


def fields_of(attributes: Mapping[str, Any]) -> tuple[Field, ...]:
    """Return the fields of a run from its attributes."""
    return tuple(Field(f["name"], f["dtype"], tuple(f["shape"]), tuple(f["dimensions"])) for f in attributes["fields"])


# ---- metadata of groups and arrays in zarr's format

_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
_ZSTD = {"name": "zstd", "configuration": {"level": 0, "checksum": True}}


def group_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a group."""
    return {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}


def field_document(field: Field, chunk: int, length: int, separator: str) -> dict[str, Any]:
    """Return the metadata of a field's array over `length` rounds."""
    return {
        **_array_document([length, *field.shape], [chunk, *field.shape], field.dtype, separator),
        "fill_value": "NaN" if math.isnan(field.fill) else field.fill, "codecs": [_BYTES, _ZSTD], "attributes": {},
        "dimension_names": [ROUND.name, *field.dimensions],
    }  # fmt: skip


def count_document(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of the array ``committed``, with attributes."""
    codecs, document = [_BYTES, {"name": "crc32c"}], _array_document([], [], "int64", "/")
    return {**document, "fill_value": 0, "codecs": codecs, "attributes": dict(attributes)}


def _array_document(shape: list[int], chunks: list[int], dtype: str, separator: str) -> dict[str, Any]:
    """Return what the metadata of all arrays have in common."""
    return {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": separator}},
    }  # fmt: skip


def compare(location: Location, path: str, expected: Mapping[str, Any]) -> str:
    """Return what is wrong with stored metadata; empty if nothing is, or there is room for more rounds."""
    try:
        stored = location.document(path)
    except ValueError as error:
        return f"it is not JSON ({error})"
    if stored is None:
        return "it is missing"
    shape, needed = stored.get("shape"), expected.get("shape")
    if isinstance(shape, list) and needed and shape[1:] == needed[1:] and shape and type(shape[0]) is int:
        stored["shape"] = needed if shape[0] >= needed[0] else shape
    names = sorted(key for key, value in expected.items() if stored.get(key) != value)
    return f"its {', '.join(names)} are not those of the run" if names else ""


def put_inputs(location: Location, inputs: Mapping[str, NDArray[Any]]) -> None:
    """Write the long arrays of a specification, by their digests."""
    if inputs:
        location.put_document(INPUTS, group_document({}))
    for digest, values in inputs.items():
        zarr.create_array(
            location.store, name=f"{INPUTS}/{digest}", shape=values.shape, chunks=values.shape,
            dtype=values.dtype.name, overwrite=True, compressors=ZstdCodec(level=0, checksum=True), config=WHOLE,
        )[...] = values  # fmt: skip


def put_count(location: Location, rounds: int) -> None:
    """Write the number of rounds that other zarr readers may trust: the chunk of ``committed``."""
    location.column(COMMITTED, count_document({})).with_config(WHOLE)[...] = rounds


def described_arrays(value: Any) -> list[dict[str, Any]]:
    """Return the descriptions of the long arrays in a specification."""
    if isinstance(value, dict):
        if {"array", "shape", "dtype"} <= set(value):
            return [value]
        value = list(value.values())
    return [found for inside in value for found in described_arrays(inside)] if isinstance(value, list) else []


def check_room(location: Location, fields: Sequence[Field], rounds: int, argument: str) -> None:
    """Raise ValueError, which names the user's argument, if so many more rounds need more room than there is."""
    from rich.filesize import decimal

    needed = int(rounds * sum(8 * math.prod(field.shape) for field in fields) * LEAST_SHARE)
    free = location.free()
    if free is not None and needed > free:
        given = f"{rounds:,} more rounds, which need at least {decimal(needed, precision=2)}"
        checks.refuse(
            argument, given, f"no more than fit into the {decimal(free, precision=2)} that are free at {location.name}"
        )
