"""What of a DataFrame is sent to workers: rows and columns that can matter, and the value that says which rows must meet.

Spark takes names that differ only in case for the same, so columns are known by their places here.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from keuka.events.clocks import unit_of
from keuka.events.rejection import NO_TIME, REVERSED
from keuka.events.sources import OpenStream, Stream
from keuka.expressions import Expression
from keuka.plan.division import ByKey, Division, Part
from keuka.schema import FIELD, MICROSECONDS, MOST_DIGITS, Header
from keuka.spark.expressions import fitting, microseconds, weakened


@dataclass(frozen=True)
class Frame:
    """A stream as a DataFrame, and what the driver knows of it."""

    data: DataFrame
    schema: pa.Schema
    header: Header
    unit: str | None
    rejects: bool = False  # are rows that cannot be events left out?


def data_of(stream: Any) -> Any:
    return stream.data if isinstance(stream, Stream) else stream


def frame_of(opened: OpenStream, given: Any) -> Frame:
    return Frame(data_of(given), opened.data.schema, opened.header, unit_of(opened.type.axis), opened.rejects)


# -- rows -----------------------------------------------------------------------------------------------------------------


def with_fields(frame: Frame, names: Sequence[str]) -> Frame:
    """The frame with these columns, of which the last may be fields of structs: Spark reads and sends nothing else of a struct."""
    fields = names[len(frame.schema) :]
    if not fields:
        return frame
    places, schema = positions(frame.schema), frame.schema
    columns = []
    for position, name in enumerate(fields, len(places)):
        root, *path = name.split(FIELD)
        value, arrow = column_of(frame, root), frame.schema.field(root).type
        for field in path:
            value, arrow = value.getField(field), arrow.field(field).type
        columns.append(value.alias(f"c{position}"))
        schema = schema.append(pa.field(name, arrow))
    return replace(frame, data=frame.data.toDF(*places).select(*places, *columns), schema=schema)


def positions(schema: pa.Schema) -> list[str]:
    """Columns are known by their places here: Spark takes names that differ only in case for the same."""
    return [f"c{i}" for i in range(len(schema))]


def positioned(frame: Frame) -> DataFrame:
    """The rows with columns known by their places. Rows that cannot be events are left out if they are rejected."""
    rows = frame.data.toDF(*positions(frame.schema))
    return rows.where(~is_wrong(times_of(frame))) if frame.rejects else rows


def can_matter(frame: Frame, predicate: Expression | None, read: Collection[int]) -> Column | None:
    """Can a row matter? None if Spark cannot tell.

    Rows that are no events can, so that an error names them. So can those with a decimal of too many digits in a column that is read.
    """
    wrong = is_wrong(times_of(frame))
    columns = [fitting(sf.col(name), field.type) for name, field in zip(positions(frame.schema), frame.schema, strict=True)]
    matters = None if predicate is None else weakened(predicate, columns)
    if matters is None:
        return None
    for i, field in enumerate(frame.schema):
        if i in read and pa.types.is_decimal(field.type) and field.type.precision > MOST_DIGITS:
            wrong |= columns[i].isNull() & sf.col(f"c{i}").isNotNull()
    return matters | wrong


Times = Sequence[tuple[Column, pa.DataType]]  # the times of a row, with their types: one, or start and end


def times_of(frame: Frame) -> Times:
    return [(column_of(frame, name), frame.schema.field(name).type) for name in frame.header.times]


def is_wrong(times: Times) -> Column:
    """Can these not be the times of an event?"""
    if len(times) == 1:
        return times[0][0].isNull()
    start, end = [tick_of(*time) for time in times]
    return start.isNull() | end.isNull() | (start > end)


def wrong_time(times: Times) -> Column:
    """Why these cannot be the times of an event; null if they can."""
    missing = functools.reduce(operator.or_, [column.isNull() for column, _ in times])
    return sf.when(missing, NO_TIME) if len(times) == 1 else sf.when(missing, NO_TIME).when(is_wrong(times), REVERSED)


def sent_columns(part: Part, frame: Frame, columns: Sequence[str]) -> list[int]:
    """The columns that workers need: those the kernel reads, the times, and those that identify an event."""
    names = {*columns, *frame.header.times}
    if part.plan.contributors:
        names |= set(frame.schema.names) if frame.header.id is None else {frame.header.id}
    return [i for i, name in enumerate(frame.schema.names) if name in names]


def sent_header(frame: Frame, contributors: bool) -> Header:
    """The header that workers get: ids of events are for contributors alone."""
    return frame.header if contributors else replace(frame.header, id=None)


# -- keys -----------------------------------------------------------------------------------------------------------------


def key_hash(division: Division, frame: Frame, stream: str) -> Column:
    """Rows with equal values of this must meet."""
    end = column_of(frame, frame.header.end)
    names = division.columns.get(stream, ()) if isinstance(division, ByKey) else ()
    keys = [_key(column_of(frame, name), frame.schema.field(name).type) for name in names]
    # A row with a null in its key meets no other, but equal rows must stay together where ids count them.
    anywhere = sf.xxhash64(end)
    unknown = functools.reduce(operator.or_, [key.isNull() for key in keys], sf.lit(False))
    return sf.when(unknown, anywhere).otherwise(sf.xxhash64(*keys)) if keys else anywhere


def column_of(frame: Frame, name: str) -> Column:
    return sf.col(f"c{frame.schema.names.index(name)}")


def _key(column: Column, arrow: pa.DataType) -> Column:
    """A key in the one type that all streams have it in; 0.0 and -0.0 are equal, and have equal hashes here."""
    if pa.types.is_integer(arrow):
        return column.cast("bigint")
    if pa.types.is_floating(arrow):
        return sf.when(column == 0.0, sf.lit(0.0)).otherwise(column.cast("double"))
    return fitting(column, arrow)


def tick_of(column: Column, arrow: pa.DataType) -> Column:
    """A time as the kernel counts it, whatever the zone of the session."""
    if pa.types.is_integer(arrow):
        return column.cast("bigint")
    return sf.unix_date(column).cast("bigint") * MICROSECONDS["day"] if pa.types.is_date(arrow) else microseconds(column)
