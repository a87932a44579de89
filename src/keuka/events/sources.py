"""Input streams: whatever data a user has becomes an OpenStream, which is read in batches of Arrow columns.

Comes in: tables in memory, frames, readers, files. Goes out: a schema and a clock for the query path (`OpenStream.type`),
and batches in order of arrival for `order.py`, every column in its canonical type.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keuka.diagnostics import listing, similar
from keuka.errors import DataError, KeukaError, data_error
from keuka.events.clocks import axis_of, lateness_ticks, time_columns
from keuka.events.columns import Int64Array, UnfitError, bytes_of, canonical, column_names, damaged, struct_field, widened
from keuka.events.declarations import csv_options, declared_schema, rejects_rows
from keuka.events.files import BATCH_ROWS, place
from keuka.events.tables import FILE_SHIFT, Data, Declared, to_arrow
from keuka.events.text_values import Csv
from keuka.events.time_formats import similar_formats
from keuka.schema import FIELD, Attribute, Header, Schema, StreamType, schema_of

SAMPLED_ROWS = 10_000  # looked at to guess how many values a column has
JOINED_BYTES = 16_000_000  # batches of this size are passed on however few rows they have


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
    distinct: about how many values columns have, `{"id": 100_000}`. Where a SASE query has several equivalence tests, the one with most
        values divides its events. Data that can be read twice is looked at, so this is for engines and readers.
    schema: the types of columns of a file, as in "at TIMESTAMP, code STRING" or as a pyarrow schema; other columns are as they are.
    csv: how a CSV file is written: a `keuka.Csv`, or a dict such as `{"separator": ";"}`.
    on_bad_row: "error", or "reject" to go on without rows that cannot be events: values that are none of their column's type, too few
        fields, no time, a start after the end.
    """

    data: Any
    time: str | tuple[str, str] | None = None
    lateness: str | int | datetime.timedelta | None = None
    id: str | None = None
    unit: str | None = None
    sort: bool = False
    distinct: Mapping[str, int] | None = None
    schema: str | pa.Schema | None = None
    csv: Csv | Mapping[str, Any] | None = None
    on_bad_row: str | None = None


@dataclass(frozen=True, eq=False)
class OpenStream:
    """A stream whose schema and clock are known. Readers and standard input can be read only once."""

    name: str
    type: StreamType
    header: Header
    lateness: int  # in ticks
    sort: bool
    data: Data = field(repr=False)
    distinct: Mapping[str, int] = field(default_factory=dict)  # about how many values columns have, as declared
    rejects: bool = False  # are bad rows left out?

    @property
    def time(self) -> tuple[str, ...]:
        """One column, or start and end."""
        return self.header.times

    @property
    def id(self) -> str | None:
        return self.header.id

    def n_distinct(self, column: str) -> int:
        """About how many values a column has: as declared, or in the first rows; 0 if neither is known."""
        if column in self.distinct:
            return self.distinct[column]
        root, path = self.root(column), column.split(FIELD)[1:] if self.root(column) != column else []
        if self.data.table is not None:
            return count_distinct(struct_field(self.data.table.column(root).slice(0, SAMPLED_ROWS), path))
        if self.data.files and self.data.chunks is not None and "-" not in self.data.files:
            try:
                _, batch = next(self.data.chunks([root]), (0, None))
            except KeukaError:
                return 0  # whoever reads the file says what is wrong with it
            return 0 if batch is None else count_distinct(struct_field(batch.column(0).slice(0, SAMPLED_ROWS), path))
        return 0

    def with_exact_types(self, columns: Collection[str]) -> OpenStream:
        """The stream, with the types of these columns no longer guessed."""
        data = self.data.with_exact_types([self.root(column) for column in columns])
        if data is self.data:
            return self
        return replace(self, data=data, type=replace(self.type, schema=_schema(data.schema, place(self.name, None))))

    def root(self, name: str) -> str:
        """The column that holds a column or a field."""
        return name if self.type.schema.index(name) is not None else name.split(FIELD)[0]

    def attribute(self, name: str) -> Attribute:
        """A column, or a field of a struct by the name that `schema.field_name` gives it."""
        attribute = self.type.schema.find(name)
        assert attribute is not None
        return attribute

    def field(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """A field of a struct in its canonical type. Raises UnfitError for a value that does not fit."""
        column, *path = name.split(FIELD)
        return canonical(struct_field(batch.column(column), path), self.attribute(name))

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

    def unfit(self, error: UnfitError, rows: Int64Array | range, column: str | None) -> DataError:
        """What a user is told of a value that has no room; `rows` are the numbers of the rows of its batch."""
        return data_error(error.code, error.problem, error.remedy, where=self.where(int(rows[error.index]), column))


def open_stream(name: str, stream: Stream, reads: Callable[[str], bool] | None = None) -> OpenStream:
    """Looks at the data far enough to know its columns and its clock. `reads`: which columns the query may read; all of them if None."""
    said = place(name, None)
    rejects = rejects_rows(stream.on_bad_row, said)
    declared = Declared(csv_options(stream.csv, said), declared_schema(stream.schema, said), rejects)
    data = to_arrow(name, stream.data, stream.time, declared)
    data = data.with_exact_types([column for column in data.schema.names if reads is None or reads(column)])
    where = place(name, data.files[0] if len(data.files) == 1 else None)
    schema = _schema(data.schema, where)
    try:
        time = time_columns(data.schema, stream.time, where)
        data = data.with_exact_types([*time, *([stream.id] if isinstance(stream.id, str) else [])])
        schema = _schema(data.schema, where)
        axis = axis_of([data.schema.field(column) for column in time], stream.unit, where)
    except DataError as error:
        raise _other_form(data, stream.time, where) or error from None
    _check_id(stream.id, schema, where)
    return OpenStream(
        name=name,
        type=StreamType(schema, axis),
        header=Header(time[0], time[-1], stream.id),
        lateness=lateness_ticks(stream.lateness, axis, where),
        sort=stream.sort,
        data=data,
        distinct=_distinct(stream.distinct, schema, where),
        rejects=rejects,
    )


def _other_form(data: Data, time: object, where: str) -> DataError | None:
    """Times of a CSV file that are not in ISO form, where they are the time of events or nothing else could be."""
    named = (time,) if isinstance(time, str) else time
    columns = [f.name for f in data.schema if pa.types.is_string(f.type) and (not isinstance(named, tuple | list) or f.name in named)]
    for column in columns if data.first_texts is not None else ():
        assert data.first_texts is not None
        texts = data.first_texts(column)
        formats = similar_formats(texts)[:2]
        if formats:
            options = [f'`keuka.Stream(..., csv={{"time_format": "{format}"}})`' for format in formats]
            problem = f"column `{column}` holds times that are not in ISO form, such as `{texts[0]}`"
            return data_error("K537", problem, f"say how they are written: {' or '.join(options)}", where=where)
    return None


def count_distinct(column: pa.Array | pa.ChunkedArray) -> int:
    try:
        return int(pc.count_distinct(column).as_py())
    except pa.ArrowNotImplementedError:  # a type that cannot be compared, so that no test is about it
        return 0


def _distinct(given: object, schema: Schema, where: str) -> dict[str, int]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(n, int) and n > 0 for n in given.values()):
        raise data_error("K515", f"`distinct=` must be a dict from columns to numbers of values, not {given!r}", where=where)
    for name in given:
        if schema.index(name) is None:
            problem = f"`distinct=` names a column `{name}`, which is not there"
            raise data_error("K515", problem, *similar(name, schema.names), f"the columns are {listing(schema.names)}", where=where)
    return dict(given)


# Types whose values have one text each, by which users know an event.
IDENTIFYING = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
)


def _check_id(id: object, schema: Schema, where: str) -> None:
    if id is None:
        return
    if not isinstance(id, str):
        raise data_error("K516", f"`id=` must be the name of a column, not {id!r}", where=where)
    index = schema.index(id)
    if index is None:
        problem = f"there is no column `{id}` to identify events by"
        raise data_error("K516", problem, *similar(id, schema.names), f"the columns are {listing(schema.names)}", where=where)
    if not any(is_of_type(schema[index].arrow) for is_of_type in IDENTIFYING):
        problem = f"column `{id}` cannot identify events: it is {schema[index].arrow}"
        raise data_error("K516", problem, "convert it to text or to integers", where=where)


def _schema(arrow: pa.Schema, where: str) -> Schema:
    """The attributes; dictionaries stand for their values. A column without any value has no type: it is taken for text, all null."""
    names = column_names(arrow, where)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise data_error("K512", f"two columns have the name `{twice}`", "rename one of them", where=where)
    values = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in arrow]
    for name, value in zip(names, values, strict=True):
        _check_zone(name, value, where)
    return schema_of(pa.schema(zip(names, [pa.string() if pa.types.is_null(v) else v for v in values], strict=True)))


def _check_zone(name: str, arrow: pa.DataType, where: str) -> None:
    """A zone is decoded when it is first looked at."""
    try:
        _ = arrow.tz if pa.types.is_timestamp(arrow) else None
    except UnicodeDecodeError:
        problem = f"the time zone of column `{name}` is not UTF-8"
        raise data_error("K514", problem, "convert the column to a zone such as `Europe/Paris`", where=where) from None


def read(opened: OpenStream, columns: Sequence[str], chunk_rows: int = BATCH_ROWS) -> Iterator[tuple[Int64Array, pa.RecordBatch]]:
    """The rows in order of arrival: their numbers, and the wanted columns in canonical types.

    Batches have about `chunk_rows` rows: larger ones are sliced, small ones put together, unless their rows are very long.
    """
    waiting: list[tuple[Int64Array, pa.RecordBatch]] = []
    n_waiting, enough = 0, 0.0
    for first, batch in _chunks(opened, columns):
        for begin in range(0, batch.num_rows, chunk_rows):
            piece = batch.slice(begin, chunk_rows)
            numbers = np.arange(first + begin, first + begin + piece.num_rows, dtype=np.int64)
            if not waiting:
                # Looked at once a group, because asking a small batch for its size costs as much as passing it on.
                enough = min(chunk_rows / 4, JOINED_BYTES * piece.num_rows / max(1, bytes_of(piece)))
            waiting.append((numbers, fit(opened, piece, numbers)))
            n_waiting += piece.num_rows
            if n_waiting >= enough:
                yield _together(opened, waiting)
                waiting, n_waiting = [], 0
    if waiting:
        yield _together(opened, waiting)


def _together(opened: OpenStream, pieces: list[tuple[Int64Array, pa.RecordBatch]]) -> tuple[Int64Array, pa.RecordBatch]:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([numbers for numbers, _ in pieces]), joined(opened, [batch for _, batch in pieces])


def joined(opened: OpenStream, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several with the same columns in canonical types."""
    if len(batches) == 1:
        return batches[0]
    try:
        return pa.concat_batches(batches)
    except pa.ArrowInvalid:  # the offsets of a column cannot reach 2 GB
        columns = {name: joined_column(opened, name, [batch.column(name) for batch in batches]) for name in batches[0].schema.names}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def joined_column(opened: OpenStream, name: str, arrays: Sequence[pa.Array]) -> pa.Array:
    """One array of several of a canonical type."""
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid:  # the offsets cannot reach 2 GB
        pass
    try:
        return pa.concat_arrays([widened(array) for array in arrays])
    except pa.ArrowInvalid:
        problem = f"column `{name}` has more than 2 GB in rows that must be looked at together"
        help = "leave the column out of the query, or allow less lateness"
        raise data_error("K514", problem, help, where=place(opened.name, None)) from None


def _chunks(opened: OpenStream, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    if opened.data.chunks is not None:
        return opened.data.chunks(columns)
    assert opened.data.table is not None
    batches = opened.data.table.select(list(columns)).to_batches()
    starts = itertools.accumulate((batch.num_rows for batch in batches), initial=0)
    return zip(starts, batches, strict=False)


def fit(opened: OpenStream, batch: pa.RecordBatch, rows: Int64Array | range) -> pa.RecordBatch:
    """The batch with every column in its canonical type; a value without room there is an error that names its row."""
    try:
        batch.validate()
    except pa.ArrowInvalid as error:
        raise opened.unfit(damaged(0, str(error)), rows, None) from None
    schema = opened.type.schema
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        index = schema.index(name)
        assert index is not None
        try:
            arrays.append(canonical(array, schema[index]))
        except UnfitError as unfit:
            raise opened.unfit(unfit, rows, name) from None
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
