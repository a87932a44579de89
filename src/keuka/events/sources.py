"""Input streams: whatever data a user has becomes an OpenStream, which is read in batches of Arrow columns.

Comes in: tables in memory, frames, readers, files. Goes out: a schema and a clock for the query path (`OpenStream.type`),
and batches in order of arrival for `order.py`, every column in its canonical type.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from keuka.diagnostics import listing, similar
from keuka.errors import data_error
from keuka.events.clocks import axis_of, lateness_ticks, time_columns
from keuka.events.columns import Int64Array, UnfitError, canonical
from keuka.events.files import BATCH_ROWS, place
from keuka.events.tables import FILE_SHIFT, Data, to_arrow
from keuka.schema import Schema, StreamType, schema_of


@dataclass(frozen=True, eq=False)
class Stream:
    """Events and what must be said about them.

    data: a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or polars frame, a list of dicts, an iterable of record
        batches, or a path: a file (CSV, Parquet, Arrow IPC, newline-delimited JSON), a directory or pattern of such files
        (read in the order of their names), or `-` for standard input.
    time: the column that holds the time of events, or a pair of columns (start, end); by default the only timestamp column.
    lateness: how far rows of a file or reader may be out of order: a text such as "5 s", a timedelta, or plain ticks.
    id: the column that identifies an event.
    unit: what one tick of an integer time column is, for example "ms".
    sort: read a file or reader whole and sort it. Tables in memory are always sorted.
    """

    data: Any
    time: str | tuple[str, str] | None = None
    lateness: str | int | datetime.timedelta | None = None
    id: str | None = None
    unit: str | None = None
    sort: bool = False


@dataclass(frozen=True, eq=False)
class OpenStream:
    """A stream whose schema and clock are known. Readers and standard input can be read only once."""

    name: str
    type: StreamType
    time: tuple[str, ...]  # one column, or start and end
    lateness: int  # in ticks
    id: str | None
    sort: bool
    data: Data = field(repr=False)

    @property
    def kind(self) -> str:
        """What results become: "pandas", "polars" or "arrow"."""
        return self.data.kind

    @property
    def in_memory(self) -> bool:
        return self.data.table is not None

    @property
    def n_rows(self) -> int | None:
        """About how many rows there are, for a progress bar; None if that is not known."""
        return self.data.n_rows

    def where(self, row: int, column: str | None = None) -> str:
        """The place of a row, given by its number, for messages."""
        file_idx, row_in_file = row >> FILE_SHIFT, row & ((1 << FILE_SHIFT) - 1)
        return place(self.name, self.data.files[file_idx] if self.data.files else None, row_in_file, column)


def open_stream(name: str, stream: Stream) -> OpenStream:
    """Looks at the data far enough to know its columns and its clock."""
    data = to_arrow(name, stream.data, stream.time)
    where = place(name, data.files[0] if len(data.files) == 1 else None)
    schema = _schema(data.schema, where)
    time = time_columns(data.schema, stream.time, where)
    axis = axis_of([data.schema.field(column) for column in time], stream.unit, where)
    if stream.id is not None and stream.id not in schema.names:
        raise data_error(
            "K516",
            f"there is no column `{stream.id}` to identify events by",
            *similar(stream.id, schema.names),
            f"the columns are {listing(schema.names)}",
            where=where,
        )
    return OpenStream(
        name=name,
        type=StreamType(schema, axis),
        time=time,
        lateness=lateness_ticks(stream.lateness, axis, where),
        id=stream.id,
        sort=stream.sort,
        data=data,
    )


def _schema(arrow: pa.Schema, where: str) -> Schema:
    """The attributes. A column without any value has no type of its own; it is taken for text, all null."""
    twice = next((name for name in arrow.names if arrow.names.count(name) > 1), None)
    if twice is not None:
        raise data_error("K512", f"two columns have the name `{twice}`", "rename one of them", where=where)
    return schema_of(pa.schema([pa.field(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in arrow]))


def read(opened: OpenStream, columns: Sequence[str], chunk_rows: int = BATCH_ROWS) -> Iterator[tuple[Int64Array, pa.RecordBatch]]:
    """The rows in order of arrival: their numbers, and the wanted columns in canonical types.

    Batches have about `chunk_rows` rows: larger ones are sliced, small ones put together.
    """
    waiting: list[tuple[Int64Array, pa.RecordBatch]] = []
    n_waiting = 0
    for first, batch in _chunks(opened, columns):
        for begin in range(0, batch.num_rows, chunk_rows):
            piece = batch.slice(begin, chunk_rows)
            numbers = np.arange(first + begin, first + begin + piece.num_rows, dtype=np.int64)
            waiting.append((numbers, fit(opened, piece, numbers)))
            n_waiting += piece.num_rows
            if 4 * n_waiting >= chunk_rows:
                yield _joined(waiting)
                waiting, n_waiting = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[tuple[Int64Array, pa.RecordBatch]]) -> tuple[Int64Array, pa.RecordBatch]:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([numbers for numbers, _ in pieces]), pa.concat_batches([batch for _, batch in pieces])


def _chunks(opened: OpenStream, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    if opened.data.chunks is not None:
        return opened.data.chunks(columns)
    assert opened.data.table is not None
    batches = opened.data.table.select(list(columns)).to_batches()
    starts = itertools.accumulate((batch.num_rows for batch in batches), initial=0)
    return zip(starts, batches, strict=False)


def fit(opened: OpenStream, batch: pa.RecordBatch, rows: Int64Array | range) -> pa.RecordBatch:
    """The batch with every column in its canonical type; a value without room there is an error that names its row."""
    schema = opened.type.schema
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        index = schema.index(name)
        assert index is not None
        try:
            arrays.append(canonical(array, schema[index]))
        except UnfitError as unfit:
            raise data_error(unfit.code, unfit.problem, unfit.remedy, where=opened.where(int(rows[unfit.index]), name)) from None
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
