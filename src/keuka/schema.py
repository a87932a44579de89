"""Types, attributes and schemas of streams, and how Arrow columns and units of time map to them (docs/semantics.md, 1)."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

import pyarrow as pa


class Type(enum.Enum):
    """The types an expression can have. OTHER passes through a query but cannot be used in expressions."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DOUBLE = "double"
    STRING = "string"
    TIMESTAMP = "timestamp"
    DATE = "date"
    DECIMAL = "decimal"  # of up to 18 digits; how many of them stand behind the point is in the attribute's Arrow type
    OTHER = "other"
    NULL = "null"  # the type of the literal NULL alone; unifies with every type


WORD_TYPES = (Type.INTEGER, Type.DOUBLE, Type.TIMESTAMP)  # whose values are 64 bits in Arrow, too


@dataclass(frozen=True)
class Attribute:
    """A named, typed column. `arrow` is the type it has in result tables (a time zone, the scale of a decimal, an OTHER type)."""

    name: str
    type: Type
    arrow: pa.DataType = field(compare=False)

    def renamed(self, name: str) -> Attribute:
        return Attribute(name, self.type, self.arrow)

    def same_type(self, other: Attribute) -> bool:
        return self.type is other.type and (self.type not in (Type.OTHER, Type.DECIMAL) or self.arrow.equals(other.arrow))


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

    def find(self, name: str) -> Attribute | None:
        """The attribute of this name, or the field that `field_name` gives it to."""
        index = self.index(name)
        if index is not None:
            return self.attributes[index]
        column, *path = name.split(FIELD)
        root = self.index(column)
        return field_at(self.attributes[root], tuple(path)) if path and root is not None else None

    def __len__(self) -> int:
        return len(self.attributes)

    def __getitem__(self, index: int) -> Attribute:
        return self.attributes[index]


@dataclass(frozen=True)
class Header:
    """The columns of events, or of matches, that say what each of them has beside its attributes. A point event has one time column."""

    start: str
    end: str
    id: str | None = None
    op: str | None = None  # whether an event comes or is taken back
    valid_to: str | None = None  # the end of its lifetime

    @property
    def is_point(self) -> bool:
        return self.start == self.end

    @property
    def times(self) -> tuple[str, ...]:
        """One column, or start and end."""
        return (self.start,) if self.is_point else (self.start, self.end)

    @property
    def time(self) -> str | tuple[str, str]:
        """The times as users name them."""
        return self.start if self.is_point else (self.start, self.end)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that there are, in order."""
        return (*self.times, *[name for name in (self.id, self.op, self.valid_to) if name is not None])

    def fields(self, time: pa.DataType) -> list[pa.Field]:
        """All columns with their types, times being of this one."""
        is_time = {*self.times, self.valid_to}
        return [pa.field(name, time if name in is_time else pa.string()) for name in self.names]


RESULT = Header("_start", "_end")  # of every match
TRACKED = Header("_start", "_end", id="_id")  # of one whose contributors are shown


ARROW_OF = {
    Type.BOOLEAN: pa.bool_(),
    Type.INTEGER: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.TIMESTAMP: pa.timestamp("us"),
    Type.DATE: pa.date32(),
    Type.NULL: pa.null(),
}

MOST_DIGITS = 18  # of a decimal: the kernel holds it as a 64-bit number of units of its last digit
MOST_DECIMAL = 10**MOST_DIGITS - 1
MOST_SCALE = 38  # digits behind the point; Spark's decimals have no more
MOST_DAYS = (2**63 - 1) // 86_400_000_000  # of a date since 1970, so that its midnight fits 64-bit microseconds


def decimal_type(scale: int) -> pa.DataType:
    """The type that decimals with so many digits behind the point have in results, whatever their precision was."""
    return pa.decimal128(max(MOST_DIGITS, scale), scale)


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
    if pa.types.is_date(value):
        return Attribute(name, Type.DATE, pa.date32())
    if pa.types.is_decimal(value) and 0 <= value.scale <= MOST_SCALE:
        return Attribute(name, Type.DECIMAL, decimal_type(value.scale))
    return Attribute(name, Type.OTHER, arrow)


FIELD = "\x1f"  # stands between the names of a struct and its fields where they are the name of one column; no column has it in its own


def field_name(column: str, path: tuple[str, ...]) -> str:
    """The name of the column that holds a field of a struct."""
    return FIELD.join((column, *path))


def shown_name(column: str) -> str:
    """The name of a column as a query writes it."""
    return column.replace(FIELD, ".")


def field_at(attribute: Attribute, path: tuple[str, ...]) -> Attribute:
    """The field of a struct as an attribute of its own. A field without any value has no type, and is taken for text."""
    arrow = attribute.arrow
    for name in path:
        arrow = arrow.field(name).type
    return attribute_of(field_name(attribute.name, path), pa.string() if pa.types.is_null(arrow) else arrow)


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
    "m": 60_000_000,
    "hour": 3_600_000_000,
    "hours": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "days": 86_400_000_000,
    "week": 604_800_000_000,
    "weeks": 604_800_000_000,
}

_DURATION = re.compile(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]+)\s*")


def read_duration(text: str) -> tuple[str, int] | None:
    """A text such as `10 min` as its digits and the microseconds of its unit; None if it is no duration."""
    parts = _DURATION.fullmatch(text)
    return None if parts is None or parts[2].lower() not in MICROSECONDS else (parts[1], MICROSECONDS[parts[2].lower()])


def write_duration(n_us: int) -> str:
    """Microseconds in the largest unit that divides them: `90 s`."""
    unit = next(u for u in ("week", "day", "hour", "min", "s", "ms", "us") if n_us % MICROSECONDS[u] == 0)
    return f"{n_us // MICROSECONDS[unit]} {unit}"


MAX_TICK = 2**63 - 1  # +inf; sums of ticks saturate here


@dataclass(frozen=True)
class TimeAxis:
    """What one tick is: microseconds per tick (1 for timestamp columns, None for integers without a declared unit)."""

    tick_us: int | None
    arrow: pa.DataType = field(compare=False)  # the type of times in results


@dataclass(frozen=True)
class Meaning:
    """What a stream that another rule publishes stands for. The ids of its readers are those of one query set (docs/semantics.md, 1)."""

    fingerprint: bytes
    columns: tuple[bytes, ...]  # what each column comes from
    n_leaves: int  # how many source occurrences are behind it


@dataclass(frozen=True)
class StreamType:
    """All that the query path knows of an input stream."""

    schema: Schema
    axis: TimeAxis
    meaning: Meaning | None = None  # of a stream that another rule publishes
