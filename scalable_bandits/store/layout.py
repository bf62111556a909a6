"""How a run lies in zarr: its arrays, its attributes, its schema version.

One group: an array over ``round`` for every field, ``round`` itself, and ``committed``, the count of rounds that may
be trusted, which also keeps a copy of the group's attributes (either can be made again from the other).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec

from scalable_bandits.store.errors import StoreDamaged, StoreError
from scalable_bandits.store.locations import COMMITTED, Location
from scalable_bandits.store.rows import Field

SCHEMA = 1
CHUNK = 65_536  # rounds; of 16,384 to 1,048,576, with shards and without, the fastest to write (benchmarks, "store")
WHOLE: Any = {"write_empty_chunks": True}  # chunks of fill values too: one that is not there is missing
LARGEST_START = 2**24  # rounds that arrays are made for at once, at the most
INPUTS = "inputs"  # the group of the specification's arrays, by digest
ROUND = Field("round", "int64")


def attributes_of(location: Location) -> dict[str, Any] | None:
    """Attributes of a run, from the group or their copy; None if neither is there: no run, or not made to its end."""
    for read in (lambda: location.group().attrs, lambda: location.array(COMMITTED).attrs["run"]):
        try:
            attributes: dict[str, Any] = dict(read())  # type: ignore[arg-type]
        except Exception:  # whatever a truncated file makes zarr raise
            continue
        if "schema" in attributes:
            return attributes
    return None


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


def lay_out(
    location: Location, attributes: Mapping[str, Any], inputs: Mapping[str, NDArray[Any]] | None = None
) -> list[str]:
    """Make what is not there yet of a run's group and arrays; tells what that was. The attributes come last."""
    try:
        group = location.group("a")
    except Exception as error:
        if not location.remove_metadata(""):
            raise StoreDamaged(f"store {location.name}: its metadata cannot be read ({error})") from error
        group = location.group("a")
    for digest, values in (inputs or {}).items():
        group.require_group(INPUTS).create_array(
            digest, shape=values.shape, chunks=values.shape, dtype=values.dtype.name, overwrite=True,
            compressors=ZstdCodec(level=0, checksum=True), config=WHOLE,
        )[...] = values  # fmt: skip
    fields, chunk = fields_of(attributes), attributes["chunk"]
    made = []
    # As long as planned, so that closing a complete run has nothing to trim; as the others, where one is made again.
    lengths = {f.name: location.array(f.name).shape[0] for f in (ROUND, *fields) if _readable(location, f.name)}
    length = max(lengths.values(), default=min(max(attributes["planned"] or chunk, 1), LARGEST_START))
    for field in (ROUND, *fields):
        if field.name in lengths:
            continue
        group.create_array(
            field.name,
            shape=(length, *field.shape),
            chunks=(chunk, *field.shape),
            dtype=field.dtype,
            fill_value=field.fill,
            compressors=ZstdCodec(level=0, checksum=True),
            chunk_key_encoding={"name": "default", "separator": location.separator},
            dimension_names=(ROUND.name, *field.dimensions),
        )
        made.append(field.name)
    if not _readable(location, COMMITTED):
        group.create_array(
            COMMITTED, shape=(), chunks=(), dtype="int64", fill_value=0, compressors=Crc32cCodec(),
            attributes={"run": dict(attributes)},
        )  # fmt: skip
        made.append(COMMITTED)
    if "schema" not in group.attrs:
        group.update_attributes(dict(attributes))
        made.append("the attributes")
    return made


def _readable(location: Location, name: str) -> bool:
    """Whether an array's metadata can be read; what cannot is removed, to be made again."""
    try:
        location.array(name)
    except FileNotFoundError:
        return False
    except Exception as error:  # whatever garbage makes zarr raise
        if not location.remove_metadata(name):
            text = f"store {location.name}: the metadata of {name!r} cannot be read ({error})"
            raise StoreDamaged(text) from error
        return False
    return True


def describe_fields(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """Fields as plain data."""
    return [{**f._asdict(), "shape": list(f.shape), "dimensions": list(f.dimensions)} for f in fields]
