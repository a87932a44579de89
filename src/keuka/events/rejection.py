"""Rows that cannot be events: broken ones, values that are none of their column's type, no time, a start after the end.

A stream either fails at the first of them, or goes on without them (`on_bad_row="reject"`): then they are counted, and whoever wants them
gets them as they stand in their source, with the reason and the place. `match`, the command line and embedded pipelines all use this.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from operator import add

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from keuka.diagnostics import Diagnostic
from keuka.errors import DataError
from keuka.events.columns import UnfitError, canonical, taken, ticks
from keuka.events.files import Broken, Chunk, Originals, place
from keuka.events.formats import typed_chunk
from keuka.events.memory import MemoryTable
from keuka.events.sources import OpenStream, fit
from keuka.events.tables import FILE_SHIFT
from keuka.schema import Attribute

log = logging.getLogger("keuka")

NO_TIME, REVERSED = "no time", "starts after its end"
STREAM, REASON, FILE, LINE, TEXT = "_stream", "_reason", "_file", "_line", "_text"
# What is said of a rejected row, after its own columns.
PLACE = pa.schema([(STREAM, pa.string()), (REASON, pa.string()), (FILE, pa.string()), (LINE, pa.int64()), (TEXT, pa.string())])

Keep = Callable[[str, pa.RecordBatch], None]


@dataclass(frozen=True)
class Counts:
    """How many rows of a stream were read, and how many of them cannot be events."""

    n_read: int = 0
    n_without_time: int = 0
    n_reversed: int = 0
    n_unreadable: int = 0  # broken, or with a value that is none of its column's type

    @property
    def n_rejected(self) -> int:
        return self.n_without_time + self.n_reversed + self.n_unreadable

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, astuple(self), astuple(other)))


def refused(counts: Mapping[str, Counts]) -> DataError | None:
    """What a run without a place for rejected rows says of them."""
    found = []
    help = ('remove such rows, or keep them apart: a sink with `of = "rejected"`', 'or only leave them out: `on_bad_row = "reject"`')
    for name, n in counts.items():
        if n.n_without_time:
            rows = "1 row has" if n.n_without_time == 1 else f"{n.n_without_time:,} rows have"
            found.append(Diagnostic("K502", f"{rows} no time", label=place(name, None), help=help))
        if n.n_reversed:
            rows = "1 event starts after its end" if n.n_reversed == 1 else f"{n.n_reversed:,} events start after their end"
            found.append(Diagnostic("K503", rows, label=place(name, None), help=help))
    return DataError(*found) if found else None


def row_schema(stream: OpenStream) -> pa.Schema:
    """The columns of a stream's rejected rows, as they stand in their source, without what is said of the rows."""
    return pa.schema([field for field in stream.data.originals or stream.data.schema if field.name not in PLACE.names])


def rejected_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all streams, and what is said of a rejected row. What has several types is text."""
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            same = types.setdefault(field.name, field.type).equals(field.type)
            types[field.name] = field.type if same else pa.string()
    return pa.schema([*types.items(), *PLACE])


class Rejections:
    """Counts the rows of streams while they are read. Rejected rows go to `keep`, if somebody wants them."""

    def __init__(self) -> None:
        self.counts: dict[str, Counts] = {}
        self.first: dict[str, str] = {}  # the reason and place of each stream's first rejected row
        self.keep: Keep | None = None

    def watch(self, stream: OpenStream) -> OpenStream:
        """The stream, counted, and without its bad rows if it is to reject them. A table is then read like a file that is sorted."""
        self.counts[stream.name] = Counts()
        if isinstance(stream.data.table, MemoryTable):
            stream = replace(stream, data=replace(stream.data, originals=_convertible(stream.data.table)))
        read = self._good_rows if stream.rejects else self._all_rows
        data = replace(stream.data, table=None, chunks=lambda columns: read(stream, columns))
        return replace(stream, data=data, sort=stream.sort or stream.in_memory)

    @property
    def n_rejected(self) -> int:
        return sum([counts.n_rejected for counts in self.counts.values()])

    def warn(self) -> None:
        """Says how many rows nobody will see, and why."""
        for name, counts in self.counts.items():
            if counts.n_rejected:
                log.warning("%s", self.summary(name))

    def summary(self, name: str) -> str:
        counts = self.counts[name]
        were = "was" if counts.n_rejected == 1 else "were"
        first = f"; the first: {self.first[name]}" if name in self.first else ""
        return f"{counts.n_rejected:,} of {counts.n_read:,} rows of stream `{name}` {were} rejected{first}"

    def _all_rows(self, stream: OpenStream, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        assert stream.data.chunks is not None  # only files are counted without rejecting
        for first, batch in stream.data.chunks(columns):
            self.counts[stream.name] += Counts(batch.num_rows)
            yield first, batch

    def _good_rows(self, stream: OpenStream, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for file_idx, chunk in _apart(stream, columns):
            reasons = _why(stream, chunk)
            bad = np.zeros(len(chunk.rows), dtype=bool) if reasons is None else reasons.is_valid().to_numpy(zero_copy_only=False)
            self._count(stream, file_idx, chunk, reasons, bad)
            good = np.flatnonzero(~bad)
            # Pieces whose rows follow each other, so that a number and a length say which they are.
            for begin, end in pairwise([0, *(np.flatnonzero(np.diff(chunk.rows[good]) != 1) + 1).tolist(), len(good)]):
                if begin < end:
                    values = chunk.values.slice(int(good[begin]), end - begin)
                    yield (file_idx << FILE_SHIFT) + int(chunk.rows[good[begin]]), values.select(list(columns))

    def _count(self, stream: OpenStream, file_idx: int, chunk: Chunk, reasons: pa.Array | None, bad: npt.NDArray[np.bool_]) -> None:
        why = [] if reasons is None else reasons.drop_null().to_pylist()
        n_without_time, n_reversed = why.count(NO_TIME), why.count(REVERSED)
        n_unreadable = len(why) - n_without_time - n_reversed + len(chunk.broken)
        n_read = len(chunk.rows) + len(chunk.broken)
        self.counts[stream.name] += Counts(n_read, n_without_time, n_reversed, n_unreadable)
        if n_read and (why or chunk.broken) and (self.keep is not None or stream.name not in self.first):
            rows = _rejected_rows(stream, file_idx, chunk, why, np.flatnonzero(bad))
            self.first.setdefault(stream.name, _first(rows))
            if self.keep is not None:
                self.keep(stream.name, rows)


def _convertible(table: MemoryTable) -> pa.Schema:
    """The columns that rejected rows can show. One that nobody reads cannot fail a call, whatever it holds."""
    fields = []
    for name in table.schema.names:
        with contextlib.suppress(DataError):
            fields.append((name, table.column(name).type))
    return pa.schema(fields)


def _apart(stream: OpenStream, columns: Sequence[str]) -> Iterator[tuple[int, Chunk]]:
    """The rows of a stream as they are, bad ones included."""
    data = stream.data
    if data.apart is not None:
        yield from data.apart(columns)
    elif data.table is not None:
        n_rows = 0
        for batch in data.table.select((data.originals or data.schema).names).to_batches():
            yield 0, typed_chunk(batch, n_rows, columns)
            n_rows += batch.num_rows
    elif data.chunks is not None:
        for first, batch in data.chunks(data.schema.names):
            yield 0, typed_chunk(batch, first, columns)


def _why(stream: OpenStream, chunk: Chunk) -> pa.Array | None:
    """Why each row cannot be an event, null where it can; None if all can."""
    reasons = chunk.reasons
    for name, column in zip(chunk.values.schema.names, chunk.values.columns, strict=True):
        unfit = _unfit(column, stream.attribute(name))
        reasons = reasons if unfit is None else unfit if reasons is None else pc.coalesce(reasons, unfit)
    if not len(chunk.rows):
        return reasons
    times = chunk.values.select(list(stream.header.times))
    if reasons is not None:
        good = pc.is_null(reasons)
        kept = [pc.if_else(good, column, pa.scalar(None, column.type)) for column in times.columns]
        times = pa.RecordBatch.from_arrays(kept, names=times.schema.names)
    timed = reasons_of(stream, times, int(chunk.rows[0]))
    return reasons if timed is None else timed if reasons is None else pc.coalesce(reasons, timed)


def _unfit(column: pa.Array, attribute: Attribute) -> pa.Array | None:
    """Why values do not fit the engine's types; None if all do."""
    try:
        canonical(column, attribute)
        return None
    except UnfitError as error:
        if len(column) == 1:
            return pa.array([f"`{attribute.name}`: {error.problem}"], pa.string())
    middle = len(column) // 2
    halves = [(half, _unfit(half, attribute)) for half in (column[:middle], column[middle:])]
    return pa.concat_arrays([pa.nulls(len(half), pa.string()) if why is None else why for half, why in halves])


def _rejected_rows(stream: OpenStream, file_idx: int, chunk: Chunk, why: Sequence[str], bad: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The bad rows of a chunk, in the order of the source."""
    schema = row_schema(stream)
    found: Originals = chunk.originals(bad)
    columns = [_joined(found.columns.column(f.name), chunk.broken, f.name) for f in schema]
    n_rows = len(bad) + len(chunk.broken)
    file = stream.data.files[file_idx] if stream.data.files else None
    said = [
        pa.array([stream.name] * n_rows, pa.string()),
        pa.array([*why, *[each.reason for each in chunk.broken]], pa.string()),
        pa.array([file] * n_rows, pa.string()),
        pa.array([*found.lines, *[each.line for each in chunk.broken]], pa.int64()),
        pa.array([*[None] * len(bad), *[each.text for each in chunk.broken]], pa.string()),
    ]
    rows = pa.RecordBatch.from_arrays([*columns, *said], schema=pa.schema([*schema, *PLACE]))
    order = np.argsort(np.concatenate([chunk.rows[bad], [each.row for each in chunk.broken]]), kind="stable")
    return taken(rows, order.astype(np.int64))


def _joined(column: pa.Array, broken: Sequence[Broken], name: str) -> pa.Array:
    """A column of bad rows; only rows of text can be broken."""
    return pa.concat_arrays([column, pa.array([each.values.get(name) for each in broken], column.type)]) if broken else column


def _first(rows: pa.RecordBatch) -> str:
    first = rows.slice(0, 1).select(PLACE.names).to_pylist()[0]
    line = "" if first[LINE] is None else f"line {first[LINE]}"
    where = ", ".join([part for part in (first[FILE], line) if part])
    return f"{where}: {first[REASON]}" if where else str(first[REASON])


def in_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rejected rows of one stream with the columns of all."""
    names = rows.schema.names
    arrays = [_as(rows.column(f.name), f.type) if f.name in names else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Text where another stream has another type; also types without an Arrow cast have a Python one."""
    if column.type.equals(wanted):
        return column
    return pa.array([None if value is None else str(value) for value in column.to_pylist()], wanted)


# ---- times


def count(stream: OpenStream) -> Counts:
    """Reads the times of a stream again."""
    assert stream.data.chunks is not None
    total = Counts()
    for first, batch in stream.data.chunks(list(stream.header.times)):
        reasons = reasons_of(stream, batch, first)
        why = [] if reasons is None else reasons.to_pylist()
        total += Counts(batch.num_rows, why.count(NO_TIME), why.count(REVERSED))
    return total


def reasons_of(stream: OpenStream, batch: pa.RecordBatch, first: int) -> pa.Array | None:
    """Which rows have no time, or a start after their end; null where neither is so, and None if all are good."""
    rows = range(first, first + batch.num_rows)
    times = fit(stream, batch.select(list(stream.header.times)), rows)
    missing = np.zeros(batch.num_rows, dtype=bool)
    for column in times.columns:
        missing |= column.is_null().to_numpy(zero_copy_only=False)
    filled = [column.fill_null(0) if column.null_count else column for column in times.columns]
    start, end = ticks(filled[0]), ticks(filled[-1])
    reversed_ = (start > end) & ~missing
    if not missing.any() and not reversed_.any():
        return None
    return pa.array(np.where(missing, NO_TIME, REVERSED), pa.string(), mask=~(missing | reversed_))
