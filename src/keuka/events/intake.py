"""What users push into a stream, as event batches: checked against the columns the stream has, and the needed ones converted.

Comes in: tables, frames, lists of dicts. Goes out: batches for `frontiers.py` that hold all columns, because a query that is
added later may want others than those before it; only columns that some query reads are in their canonical types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from keuka.errors import DataError, data_error
from keuka.events.columns import UnfitError, canonical, check_text, damaged, joinable
from keuka.events.files import place
from keuka.events.frontiers import EventBatch, Rows, copied, event_batch
from keuka.events.memory import MemoryTable
from keuka.events.order import read_times
from keuka.events.sources import OpenStream
from keuka.events.tables import to_arrow
from keuka.kernel.arrow import Chunk
from keuka.schema import Attribute, Type, attribute_of

# What costs a few microseconds, however few the rows, is done for so many of them at a time.
SMALL_BATCH = 4_096
WEIGH_AFTER = 65_536

RowsRead = list[tuple[pa.RecordBatch, EventBatch]]  # rows as they came, and as events in order of arrival


class Intake:
    """The door of one stream."""

    def __init__(self, stream: OpenStream) -> None:
        self.stream = stream
        self.n_rows = 0  # that came through so far
        self.row_bytes = 0.0  # about how much memory a row takes
        self._weigh_at = 0  # the number of rows at which that is looked at again
        # A column without any value is taken for text, and later batches may have some.
        self.schema = pa.schema([f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in stream.data.schema])
        self.wanted: tuple[str, ...] = ()  # the columns that are brought to their canonical types; never fewer
        self.fields: tuple[str, ...] = ()  # of structs, that are read
        self._conversions = self._to_convert(())  # columns that are wanted, or cannot be joined as they are
        self._texts: list[int] = []  # columns of text that are wanted
        _check_types(stream, self.schema)
        # The time column of point events whose ticks can be taken as they lie in memory.
        arrow = self.schema.field(stream.header.end).type
        is_plain = pa.types.is_int64(arrow) or (pa.types.is_timestamp(arrow) and arrow.unit == "us")
        self._time_idx = self.schema.get_field_index(stream.header.end) if is_plain and stream.header.is_point else None

    def read(self, data: Any) -> RowsRead:
        """The rows as they came, and as events in order of arrival. Nothing has changed yet, whatever is wrong with them."""
        as_it_is = isinstance(data, pa.RecordBatch) and data.schema.equals(self.schema)
        batches = [data] if as_it_is else self._batches(data)
        found = []
        n_rows = self.n_rows
        for batch in batches:
            if batch.num_rows:
                found.append((batch, self._events(batch, n_rows)))
                n_rows += batch.num_rows
        return found

    def count(self, batches: RowsRead) -> None:
        """Rows that were read are taken: they count, and some of them say how much memory a row takes."""
        for raw, batch in batches:
            self.n_rows += batch.n_events
            if self.n_rows >= self._weigh_at:
                # Not every time: asking a small batch for its size costs as much as taking it in.
                self.row_bytes = raw.nbytes / batch.n_events
                self._weigh_at = min(2 * self.n_rows, self.n_rows + WEIGH_AFTER)

    def converted(self, held: list[EventBatch], columns: Collection[str]) -> list[EventBatch]:
        """Held batches with these columns, too, in their canonical types. `want` must follow, unless a value does not fit."""
        new = [i for i in self._to_convert(columns) if i not in self._conversions]
        return [copied(batch, self._converted(batch.table, batch.rows, new)) for batch in held] if new else held

    def want(self, columns: Iterable[str]) -> None:
        """From now on these columns are needed, too."""
        self.wanted = tuple(dict.fromkeys([*self.wanted, *columns]))
        self._conversions = self._to_convert(self.wanted)
        self._texts = [self.schema.get_field_index(name) for name in self.wanted if self.stream.attribute(name).type is Type.STRING]

    def _to_convert(self, wanted: Collection[str]) -> list[int]:
        return [
            i
            for i, field in enumerate(self.schema)
            if _is_loose(field.type) or (field.name in wanted and _needs_conversion(field.type, self.stream.attribute(field.name)))
        ]

    def _events(self, batch: pa.RecordBatch, first: int) -> EventBatch:
        rows = range(first, first + batch.num_rows)
        try:
            batch.validate()
        except pa.ArrowInvalid as error:
            raise self.stream.unfit(damaged(0, str(error)), rows, None) from None
        table = self._converted(batch, rows, self._conversions) if self._conversions else batch
        for i in self._texts:
            try:
                _check_text(table.column(i))
            except UnfitError as unfit:
                raise self.stream.unfit(unfit, rows, self.schema.names[i]) from None
        self.check_fields(batch, rows, self.fields)
        if self._time_idx is not None:
            chunk = Chunk(table, self._time_idx)
            if chunk.has_times:
                return EventBatch(self.stream, chunk.n_rows, rows, [(chunk, 0, chunk.n_rows)])
        start, end = read_times(self.stream, batch, rows)
        return event_batch(self.stream, start, end, rows, table)

    def put_back(self, batch: pa.RecordBatch, rows: Rows) -> EventBatch:
        """Rows that waited before, whose columns may be in their canonical types already."""
        wanted = [self.schema.get_field_index(name) for name in self.wanted]
        table = self._converted(batch, rows, sorted({*self._conversions, *wanted}))
        self.check_fields(batch, rows, self.fields)
        return event_batch(self.stream, *read_times(self.stream, batch, rows), rows, table)

    def check_fields(self, batch: pa.RecordBatch, rows: Rows, fields: Collection[str]) -> None:
        """Refuses values that do not fit in fields of structs, which are taken out only when their time has come."""
        for name in fields:
            try:
                found = self.stream.field(batch, name)
                if self.stream.attribute(name).type is Type.STRING:
                    _check_text(found)
            except UnfitError as unfit:
                raise self.stream.unfit(unfit, rows, name) from None

    def _converted(self, batch: pa.RecordBatch, rows: Rows, indices: list[int]) -> pa.RecordBatch:
        arrays = batch.columns
        for i in indices:
            name = self.schema.names[i]
            try:
                arrays[i] = canonical(arrays[i], self.stream.attribute(name))
            except UnfitError as unfit:
                raise self.stream.unfit(unfit, rows, name) from None
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)

    # -- data of other kinds, or with other types of the same meaning ------------------------------------------------------

    def _batches(self, data: Any) -> list[pa.RecordBatch]:
        table = self._typed_rows(data) if isinstance(data, list | tuple) else None
        if table is None:
            table = self._alike(memory_table(self.stream.name, data, self.stream.header.time))
        return list(table.to_batches())

    def _typed_rows(self, rows: list[Any] | tuple[Any, ...]) -> pa.Table | None:
        """Rows in the types of the stream, which a few rows by themselves may not show; None if they do not fit."""
        names = set(self.schema.names)
        if not all(isinstance(row, dict) and row.keys() <= names for row in rows):
            return None
        times = [f for f in self.schema if pa.types.is_timestamp(f.type)]
        if any(isinstance(t := row.get(f.name), datetime) and (t.tzinfo is None) == _has_zone(f.type) for f in times for row in rows):
            return None
        try:
            return pa.table([pa.array([row.get(f.name) for row in rows], f.type) for f in self.schema], schema=self.schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None

    def _alike(self, table: pa.Table) -> pa.Table:
        """The table with the columns of the stream in their order and types."""
        if table.schema.equals(self.schema):
            return table
        columns = []
        for field in self.schema:
            index = table.schema.get_field_index(field.name)
            if index < 0:
                raise self._other(f"column `{field.name}` is missing, which was there before")
            column = table.column(index)
            arrow = column.type
            if pa.types.is_null(arrow):
                column = pa.chunked_array([pa.nulls(len(column), field.type)])
            elif not arrow.equals(field.type):
                if _has_zone(arrow) != _has_zone(field.type):
                    raise self._other(f"column `{field.name}` is {arrow}, which was {field.type} before: only one of them has a zone")
                if not attribute_of(field.name, arrow).same_type(attribute_of(field.name, field.type)):
                    raise self._other(f"column `{field.name}` is {arrow}, which was {field.type} before")
                column = self._cast(column, field)
            columns.append(column)
        new = next((name for name in table.column_names if self.schema.get_field_index(name) < 0), None)
        if new is not None:
            raise self._other(f"column `{new}` was not there before")
        return pa.table(columns, schema=self.schema)

    def _cast(self, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        try:
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if pa.types.is_dictionary(field.type):
                column = column.cast(field.type.value_type).dictionary_encode()
            return column.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise self._other(f"column `{field.name}` is {column.type}, which was {field.type} before: {reason}") from None

    def _other(self, problem: str) -> DataError:
        where = f"{place(self.stream.name, None)}, after row {self.n_rows}"
        return data_error("K509", problem, "every batch of a stream has the same columns; what none reads may be null", where=where)


def memory_table(name: str, data: Any, time: object) -> pa.Table:
    """Data that lies in memory as one table; a file, a reader or a generator is refused."""
    if not isinstance(data, str | Path | pa.RecordBatchReader):
        if hasattr(data, "__arrow_c_stream__") and type(data).__module__.partition(".")[0] not in ("pyarrow", "pandas", "polars"):
            data = pa.RecordBatchReader.from_stream(data).read_all()
        table = to_arrow(name, data, time).table
        if table is not None:
            return table.select(table.schema.names) if isinstance(table, MemoryTable) else table
    raise data_error(
        "K512",
        f"a `{type(data).__name__}` is not rows in memory, and only these can be pushed",
        "push the batches of a file or reader one by one: `for batch in reader: engine.push(name, batch)`",
        where=place(name, None),
    )


def _check_text(column: pa.Array) -> None:
    """Refuses text that is not UTF-8 here, where only the batch is lost by it. Arrow is faster on a few rows: 2 us against 5."""
    if len(column) < SMALL_BATCH and not pa.types.is_dictionary(column.type):
        try:
            column.validate(full=True)
            return
        except pa.ArrowInvalid:
            pass  # the next line says which row it is
    check_text(column)


def _has_zone(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow) and arrow.tz is not None)


def _is_loose(arrow: pa.DataType) -> bool:
    """Rows of different batches may have to wait as one: dictionaries must have room for each other's words."""
    return bool(pa.types.is_dictionary(arrow) or pa.types.is_string_view(arrow))


def empty_table(name: str, schema: pa.Schema) -> pa.Table:
    """A table without rows. An engine has one of each stream and of each result, and Arrow has types that it cannot make one of."""
    for field in schema:
        try:
            pa.schema([field]).empty_table()
            hash(field.type)  # results of one schema are one table
        except (pa.ArrowException, TypeError):
            raise _unfit_type(name, field, "Arrow has no empty column of it, or cannot compare it") from None
    return schema.empty_table()


def _check_types(stream: OpenStream, schema: pa.Schema) -> None:
    """Refuses types whose rows Arrow can neither join nor reorder, before any of them has to wait."""
    empty_table(stream.name, schema)
    for field in schema:
        try:
            row = joinable(pa.nulls(1, field.type))
            pa.concat_arrays([row, row]).take(pa.array([1, 0]))
        except (pa.ArrowException, UnfitError):
            raise _unfit_type(stream.name, field, "Arrow cannot reorder it") from None


def _unfit_type(name: str, field: pa.Field, reason: str) -> DataError:
    problem = f"a column of type {field.type} cannot wait for its time: {reason}"
    return data_error("K512", problem, "convert the column, or leave it out", where=place(name, None, None, field.name))


def _needs_conversion(arrow: pa.DataType, attribute: Attribute) -> bool:
    """Could `canonical` give anything but the column as it is?"""
    if _is_loose(arrow) or attribute.type in (Type.DATE, Type.DECIMAL):  # of which values are looked for that do not fit
        return True
    if attribute.type is Type.OTHER or (attribute.type is Type.STRING and pa.types.is_large_string(arrow)):
        return False
    return not arrow.equals(attribute.arrow)
