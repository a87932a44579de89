"""From opened streams to event-time order, in whole epochs.

Comes in: opened streams, read here as far as they are needed. Goes out: steps, each with the events of every stream whose
epochs became complete, ordered by `end`. `frontiers.py` holds the rows meanwhile; always the stream that is furthest behind
is read on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keuka.errors import data_error
from keuka.events.clocks import out_of_order, show_duration, show_time
from keuka.events.columns import MOST_TEXT, Int64Array, UnfitError, bytes_of, is_text, joinable, ticks
from keuka.events.files import BATCH_ROWS, place
from keuka.events.frontiers import BEGINNING, INFINITE, Arrivals, EventBatch, Frontiers, ascending, event_batch, taken
from keuka.events.sources import OpenStream, fit, joined, read
from keuka.schema import TimeAxis

Count = Callable[[str, int], None]  # how many bytes of a stream's rows wait

__all__ = ["EventBatch", "common_axis", "in_order", "one_axis", "read_times"]


def in_order(
    opened: Sequence[OpenStream],
    columns: Mapping[str, Sequence[str]],
    chunk_rows: int = BATCH_ROWS,
    hold: Callable[[int, str], None] = lambda n_bytes, stream: None,
) -> Iterator[dict[str, EventBatch]]:
    """Steps of complete epochs: every event of an epoch is in one step, and later steps hold only later epochs.

    A stream without events in a step is not in its dict. `columns` are the wanted ones by stream; batches of input are
    brought to about `chunk_rows` rows, which changes where steps end and nothing else. `hold` is told how many bytes of rows that were
    read wait, and of which stream most of them are; tables that were in memory before are not counted.
    """
    frontiers = Frontiers(opened)
    held: Counter[str] = Counter()  # bytes by stream

    def count(stream: str, n_bytes: int) -> None:
        held[stream] = n_bytes
        hold(held.total(), held.most_common(1)[0][0])

    feeds = {name: _feed(arrivals, columns[name], chunk_rows, count) for name, arrivals in frontiers.arrivals.items()}
    while frontiers.time < INFINITE and opened:
        slowest = min(frontiers.arrivals.values(), key=lambda arrivals: arrivals.frontier)
        next(feeds[slowest.stream.name], None)
        frontier = min([arrivals.frontier for arrivals in frontiers.arrivals.values()])
        while step := frontiers.step(frontier):
            yield step


def common_axis(opened: Sequence[OpenStream]) -> TimeAxis:
    """The one clock of all streams. Zones may differ (results are then in UTC); what a tick is, and whether a zone is known, may not."""
    first = opened[0].type.axis
    for stream in opened:
        axis = stream.type.axis
        integers = pa.types.is_integer(axis.arrow) != pa.types.is_integer(first.arrow)
        if axis.tick_us != first.tick_us or integers or {_zoned(axis), _zoned(first)} == {True, False}:
            raise data_error(
                "K511",
                f"the streams `{opened[0].name}` and `{stream.name}` do not share one clock: "
                f"`{opened[0].header.end}` is {_clock(first)}, `{stream.header.end}` is {_clock(axis)}",
                "convert one of the time columns; for integers declare the same `unit=`, for timestamps give both a zone or neither",
            )
    return one_axis([stream.type.axis for stream in opened])


def one_axis(axes: Sequence[TimeAxis]) -> TimeAxis:
    """The clock of results over streams that share one but for their zones."""
    first, arrows = axes[0], [axis.arrow for axis in axes]
    if all(arrow.equals(first.arrow) for arrow in arrows):
        return first
    zoned = any(pa.types.is_timestamp(arrow) and arrow.tz is not None for arrow in arrows)
    return TimeAxis(first.tick_us, pa.timestamp("us", tz="UTC" if zoned else None))


def _zoned(axis: TimeAxis) -> bool | None:
    """Is it said which zone the timestamps are in? None for dates, which go with either."""
    return axis.arrow.tz is not None if pa.types.is_timestamp(axis.arrow) else None


def _clock(axis: TimeAxis) -> str:
    if pa.types.is_integer(axis.arrow):
        return "an integer without a unit" if axis.tick_us is None else f"an integer in units of {show_duration(1, axis)}"
    if pa.types.is_date(axis.arrow):
        return "a date"
    return f"a timestamp in {axis.arrow.tz}" if axis.arrow.tz else "a timestamp without a zone"


def _feed(arrivals: Arrivals, columns: Sequence[str], chunk_rows: int, count: Count) -> Iterator[None]:
    """Reads a stream: every step brings more rows in, or the promise that there are none."""
    if arrivals.stream.in_memory or arrivals.stream.sort:
        yield from _feed_sorted(arrivals, columns, chunk_rows, count)
    else:
        yield from _feed_arriving(arrivals, columns, chunk_rows, count)
    arrivals.promise(INFINITE)


# ---- data that is there as a whole


def _feed_sorted(arrivals: Arrivals, columns: Sequence[str], chunk_rows: int, count: Count) -> Iterator[None]:
    """Slices of about `chunk_rows` rows that end with an epoch; a sorted table is never copied."""
    stream = arrivals.stream
    table, rows = _whole(stream, columns, chunk_rows, count)
    start, end = read_times(stream, table, rows)
    order = None if ascending(end) else np.argsort(end, kind="stable")
    if order is not None:
        start, end = (end[order],) * 2 if start is end else (start[order], end[order])
    table = table.select(list(columns)) if order is None else _takeable(stream, table.select(list(columns)))
    begin, n = 0, len(end)
    while begin < n:
        stop = min(begin + chunk_rows, n)
        stop = int(np.searchsorted(end, end[stop - 1], side="right"))
        chosen = np.arange(begin, stop, dtype=np.int64) if order is None else order[begin:stop]
        part = table.slice(begin, stop - begin) if order is None else taken(stream, table, chosen)
        numbers = chosen if isinstance(rows, range) else rows[chosen]
        ends = end[begin:stop]
        starts = ends if start is end else start[begin:stop]
        arrivals.append(event_batch(stream, starts, ends, numbers, _one_batch(stream, part, numbers)))
        arrivals.promise(int(end[stop]) if stop < n else INFINITE)
        yield
        begin = stop


def _whole(stream: OpenStream, columns: Sequence[str], chunk_rows: int, count: Count) -> tuple[pa.Table, Int64Array | range]:
    """The time and wanted columns, and the number of each row."""
    names = list(dict.fromkeys([*stream.header.times, *columns]))
    if stream.data.table is not None:
        return stream.data.table.select(names), range(stream.data.table.num_rows)
    pieces, n_bytes = [], 0
    for piece in read(stream, names, chunk_rows):
        pieces.append(piece)
        n_bytes += bytes_of(piece[1])
        count(stream.name, n_bytes)
    if not pieces:
        # Of the whole schema Arrow cannot make a table, if nobody reads a column of unions.
        return pa.table({name: pa.nulls(0, stream.data.schema.field(name).type) for name in names}), range(0)
    return pa.Table.from_batches([batch for _, batch in pieces]), np.concatenate([rows for rows, _ in pieces])


def _one_batch(stream: OpenStream, table: pa.Table, rows: Int64Array) -> pa.RecordBatch:
    fitted, n = [], 0
    for batch in table.to_batches():
        fitted.append(fit(stream, batch, rows[n : n + batch.num_rows]))
        n += batch.num_rows
    return joined(stream, fitted) if fitted else pa.RecordBatch.from_arrays([], names=[])  # no columns were asked for


def _takeable(stream: OpenStream, table: pa.Table) -> pa.Table:
    """The table in types that Arrow can take rows from, whatever its chunks: it joins them, which fails beyond 2 GB of text.

    Numbers and texts are joined here once, because every take from chunks costs as much as all rows.
    """
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if pa.types.is_dictionary(field.type) or pa.types.is_string_view(field.type):
            try:
                column = pa.chunked_array([joinable(chunk) for chunk in column.chunks])
            except UnfitError as unfit:
                raise data_error(unfit.code, unfit.problem, unfit.remedy, where=place(stream.name, None, None, field.name)) from None
        elif pa.types.is_string(field.type) and column.nbytes > MOST_TEXT:
            column = column.cast(pa.large_string())
        if column.num_chunks > 1 and (pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type) or is_text(column.type)):
            column = pa.chunked_array([column.combine_chunks()])
        table = table.set_column(i, field.name, column)
    return table


# ---- data that arrives


def _feed_arriving(arrivals: Arrivals, columns: Sequence[str], chunk_rows: int, count: Count) -> Iterator[None]:
    stream, largest = arrivals.stream, BEGINNING
    n_rows = n_bytes = 0  # that were read
    for rows, batch in read(stream, list(dict.fromkeys([*stream.header.times, *columns])), chunk_rows):
        start, end = read_times(stream, batch, rows)
        late = arrivals.push(event_batch(stream, start, end, rows, batch.select(list(columns))))
        if late is not None:
            first = int(late[0])
            before = max([largest, *end[:first].tolist()])
            where = stream.where(int(rows[first]), stream.header.end)
            raise out_of_order(int(end[first]), before, stream.type.axis, stream.lateness, where)
        largest = max(largest, int(end.max()))
        n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + bytes_of(batch)
        count(stream.name, arrivals.n_held * n_bytes // n_rows)
        yield


# ---- times


def read_times(stream: OpenStream, data: pa.Table | pa.RecordBatch, rows: Int64Array | range) -> tuple[Int64Array, Int64Array]:
    """Start and end of every row; for a point event one array twice."""
    header = stream.header
    start = _times(stream, data, header.start, rows)
    end = start if header.is_point else _times(stream, data, header.end, rows)
    if start is not end and (start > end).any():
        index = int((start > end).argmax())
        axis = stream.type.axis
        raise data_error(
            "K503",
            f"an event starts at {show_time(int(start[index]), axis)}, after its end at {show_time(int(end[index]), axis)}",
            f"if the columns are the other way round, write `time=({header.end!r}, {header.start!r})`",
            where=stream.where(int(rows[index])),
        )
    return start, end


def _times(stream: OpenStream, data: pa.Table | pa.RecordBatch, name: str, rows: Int64Array | range) -> Int64Array:
    column = data.column(name)
    if column.null_count:
        index = int(pc.index(pc.is_null(column), True).as_py())
        raise data_error(
            "K502",
            "an event has no time",
            'fill in such rows, or leave them out: `on_bad_row="reject"`',
            where=stream.where(int(rows[index]), name),
        )
    pieces, n = [], 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        here = rows[n : n + len(chunk)]
        batch = fit(stream, pa.RecordBatch.from_arrays([chunk], names=[name]), here)
        try:
            pieces.append(ticks(batch.column(0)))
        except UnfitError as unfit:
            raise stream.unfit(unfit, here, name) from None
        n += len(chunk)
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros(0, dtype=np.int64), *pieces])
