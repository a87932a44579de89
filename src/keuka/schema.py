"""Types, attributes and schemas of streams, and how Arrow columns and units of time map to them (SEMANTICS 1)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import pyarrow as pa


class Type(enum.Enum):
    """The types an expression can have. OTHER passes through a query but cannot be used in expressions."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DOUBLE = "double"
    STRING = "string"
    TIMESTAMP = "timestamp"
    OTHER = "other"
    NULL = "null"  # the type of the literal NULL alone; unifies with every type


@dataclass(frozen=True)
class Attribute:
    """A named, typed column. `arrow` is the type it has in result tables (a time zone, an OTHER type)."""

    name: str
    type: Type
    arrow: pa.DataType = field(compare=False)

    def renamed(self, name: str) -> Attribute:
        return Attribute(name, self.type, self.arrow)

    def same_type(self, other: Attribute) -> bool:
        return self.type is other.type and (self.type is not Type.OTHER or self.arrow.equals(other.arrow))


@dataclass(frozen=True)
class Schema:
    """The attributes of a stream, in order; names are distinct."""

    attributes: tuple[Attribute, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    def index(self, name: str) -> int | None:
        for i, attribute in enumerate(self.attributes):
            if attribute.name == name:
                return i
        return None

    def __len__(self) -> int:
        return len(self.attributes)

    def __getitem__(self, index: int) -> Attribute:
        return self.attributes[index]


ARROW_OF = {
    Type.BOOLEAN: pa.bool_(),
    Type.INTEGER: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.TIMESTAMP: pa.timestamp("us"),
    Type.NULL: pa.null(),
}


def attribute_of(name: str, arrow: pa.DataType) -> Attribute:
    """The attribute an Arrow column of this type becomes."""
    value = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
    if pa.types.is_boolean(value):
        return Attribute(name, Type.BOOLEAN, pa.bool_())
    if pa.types.is_integer(value):
        return Attribute(name, Type.INTEGER, pa.int64())
    if pa.types.is_floating(value):
        return Attribute(name, Type.DOUBLE, pa.float64())
    if pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value):
        return Attribute(name, Type.STRING, pa.string())
    if pa.types.is_timestamp(value):
        return Attribute(name, Type.TIMESTAMP, pa.timestamp("us", tz=value.tz))
    return Attribute(name, Type.OTHER, arrow)


def schema_of(arrow: pa.Schema) -> Schema:
    return Schema(tuple(attribute_of(f.name, f.type) for f in arrow))


# Units a duration may be written in, in microseconds. A day is 24 hours.
MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "msec": 1_000,
    "s": 1_000_000,
    "sec": 1_000_000,
    "second": 1_000_000,
    "seconds": 1_000_000,
    "min": 60_000_000,
    "minute": 60_000_000,
    "minutes": 60_000_000,
    "hour": 3_600_000_000,
    "hours": 3_600_000_000,
    "day": 86_400_000_000,
    "days": 86_400_000_000,
    "week": 604_800_000_000,
    "weeks": 604_800_000_000,
}

MAX_TICK = 2**63 - 1  # +inf; sums of ticks saturate here


@dataclass(frozen=True)
class TimeAxis:
    """What one tick is: microseconds per tick (1 for timestamp columns, None for integers without a declared unit)."""

    tick_us: int | None
    arrow: pa.DataType = field(compare=False)  # the type of `_start` and `_end` in results


@dataclass(frozen=True)
class Meaning:
    """What a stream that another rule publishes stands for. The ids of its readers are those of one query set (SEMANTICS 1)."""

    fingerprint: bytes
    columns: tuple[bytes, ...]  # what each column comes from
    n_leaves: int  # how many source occurrences are behind it


@dataclass(frozen=True)
class StreamType:
    """All that the query path knows of an input stream."""

    schema: Schema
    axis: TimeAxis
    meaning: Meaning | None = None  # of a stream that another rule publishes
