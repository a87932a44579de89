"""From order of arrival to event-time order, in whole epochs.

Comes in: opened streams. Goes out: steps, each with the events of every stream whose epochs became complete, ordered by
`end`. Each stream has a frontier (the largest end seen minus its lateness); the smallest frontier of all streams is the
engine's, and every event before it is complete (ARCHITECTURE, "Time, order, consistency").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keuka.errors import data_error
from keuka.events.clocks import out_of_order, show_duration, show_time
from keuka.events.columns import MOST_TEXT, Int64Array, UnfitError, joinable, ticks
from keuka.events.files import BATCH_ROWS, place
from keuka.events.sources import OpenStream, fit, joined, read
from keuka.schema import TimeAxis

# Frontiers are Python integers: an event with end < frontier is complete. These two lie before and after every tick.
BEGINNING, INFINITE = -(2**63), 2**63


@dataclass(frozen=True, eq=False)
class EventBatch:
    """Events of one stream, ordered by end; those with equal ends in order of arrival."""

    start: Int64Array  # (n,) ticks
    end: Int64Array  # (n,) ticks, ascending
    rows: Int64Array  # (n,) number of the event's row in its source; `OpenStream.where` turns it into a place
    table: pa.RecordBatch  # the wanted columns; without columns it has no rows, so the number of events is len(end)

    def __len__(self) -> int:
        return len(self.end)

    def slice(self, begin: int, stop: int) -> EventBatch:
        """The events begin..stop (exclusive), sharing memory."""
        return EventBatch(self.start[begin:stop], self.end[begin:stop], self.rows[begin:stop], self.table.slice(begin, stop - begin))


# Newly completed events of one stream, and its frontier after them.
Advance = tuple[EventBatch, int]


def in_order(
    opened: Sequence[OpenStream], columns: Mapping[str, Sequence[str]], chunk_rows: int = BATCH_ROWS
) -> Iterator[dict[str, EventBatch]]:
    """Steps of complete epochs: every event of an epoch is in one step, and later steps hold only later epochs.

    A stream without events in a step is not in its dict. `columns` are the wanted ones by stream; batches of input are
    brought to about `chunk_rows` rows, which changes where steps end and nothing else.
    """
    advances = [_advances(stream, columns[stream.name], chunk_rows) for stream in opened]
    waiting: list[deque[EventBatch]] = [deque() for _ in opened]
    frontiers = [BEGINNING] * len(opened)
    frontier = BEGINNING
    while frontier < INFINITE and opened:
        slowest = frontiers.index(frontier)
        advance = next(advances[slowest], None)
        if advance is None:
            frontiers[slowest] = INFINITE
        else:
            waiting[slowest].append(advance[0])
            frontiers[slowest] = advance[1]
        if min(frontiers) == frontier:
            continue
        frontier = min(frontiers)
        released = {stream.name: _released(stream, queue, frontier) for stream, queue in zip(opened, waiting, strict=True)}
        if step := {name: events for name, events in released.items() if events is not None}:
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
                f"`{opened[0].time[-1]}` is {_clock(first)}, `{stream.time[-1]}` is {_clock(axis)}",
                "convert one of the time columns; for integers declare the same `unit=`, for timestamps give both a zone or neither",
            )
    arrows = [stream.type.axis.arrow for stream in opened]
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


def _released(stream: OpenStream, queue: deque[EventBatch], frontier: int) -> EventBatch | None:
    """Takes what is complete from a queue of batches that follow each other."""
    pieces = []
    while queue:
        head = queue.popleft()
        cut = _before(head.end, frontier)
        if cut:
            pieces.append(head.slice(0, cut) if cut < len(head) else head)
        if cut < len(head):
            queue.appendleft(head.slice(cut, len(head)))
            break
    return _merged(stream, pieces) if pieces else None


def _before(end: Int64Array, frontier: int) -> int:
    """How many of the ordered ends lie before the frontier."""
    return len(end) if frontier > 2**63 - 1 else int(np.searchsorted(end, frontier, side="left"))


def _advances(stream: OpenStream, columns: Sequence[str], chunk_rows: int) -> Iterator[Advance]:
    if stream.in_memory or stream.sort:
        return _sorted_advances(stream, columns, chunk_rows)
    return _arriving_advances(stream, columns, chunk_rows)


# ---- data that is there as a whole


def _sorted_advances(stream: OpenStream, columns: Sequence[str], chunk_rows: int) -> Iterator[Advance]:
    """Slices of about `chunk_rows` rows that end with an epoch; a sorted table is never copied."""
    table, rows = _whole(stream, columns, chunk_rows)
    start, end = _header(stream, table, rows)
    order = None if _ascending(end) else np.argsort(end, kind="stable")
    if order is not None:
        start, end = start[order], end[order]
    table = table.select(list(columns)) if order is None else _takeable(stream, table.select(list(columns)))
    begin, n = 0, len(end)
    while begin < n:
        stop = min(begin + chunk_rows, n)
        stop = int(np.searchsorted(end, end[stop - 1], side="right"))
        taken = np.arange(begin, stop, dtype=np.int64) if order is None else order[begin:stop]
        part = table.slice(begin, stop - begin) if order is None else _taken(stream, table, taken)
        numbers = taken if isinstance(rows, range) else rows[taken]
        batch = _one_batch(stream, part, numbers)
        yield EventBatch(start[begin:stop], end[begin:stop], numbers, batch), int(end[stop]) if stop < n else INFINITE
        begin = stop


def _whole(stream: OpenStream, columns: Sequence[str], chunk_rows: int) -> tuple[pa.Table, Int64Array | range]:
    """The time and wanted columns, and the number of each row."""
    names = list(dict.fromkeys([*stream.time, *columns]))
    if stream.data.table is not None:
        return stream.data.table.select(names), range(stream.data.table.num_rows)
    pieces = list(read(stream, names, chunk_rows))
    if not pieces:
        return stream.data.schema.empty_table().select(names), range(0)
    return pa.Table.from_batches([batch for _, batch in pieces]), np.concatenate([rows for rows, _ in pieces])


def _one_batch(stream: OpenStream, table: pa.Table, rows: Int64Array) -> pa.RecordBatch:
    fitted, n = [], 0
    for batch in table.to_batches():
        fitted.append(fit(stream, batch, rows[n : n + batch.num_rows]))
        n += batch.num_rows
    return joined(stream, fitted) if fitted else pa.RecordBatch.from_arrays([], names=[])  # no columns were asked for


def _takeable(stream: OpenStream, table: pa.Table) -> pa.Table:
    """The table in types that Arrow can take rows from, whatever its chunks: it joins them, which fails beyond 2 GB of text."""
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if pa.types.is_dictionary(field.type) or pa.types.is_string_view(field.type):
            try:
                column = pa.chunked_array([joinable(chunk) for chunk in column.chunks])
            except UnfitError as unfit:
                raise data_error(unfit.code, unfit.problem, unfit.remedy, where=place(stream.name, None, None, field.name)) from None
        elif pa.types.is_string(field.type) and column.nbytes > MOST_TEXT:
            column = column.cast(pa.large_string())
        table = table.set_column(i, field.name, column)
    return table


def _ascending(end: Int64Array) -> bool:
    return bool((end[1:] >= end[:-1]).all())


# ---- data that arrives


def _arriving_advances(stream: OpenStream, columns: Sequence[str], chunk_rows: int) -> Iterator[Advance]:
    """Holds back what is not complete: without lateness the rows of the last tick, else all not older than the lateness.

    What is held are ordered runs, one per batch. Each row is copied at most twice however long it is held; the rows of an
    ordered batch behind the held ones are not copied at all.
    """
    held: list[EventBatch] = []
    largest = BEGINNING
    for rows, batch in read(stream, list(dict.fromkeys([*stream.time, *columns])), chunk_rows):
        start, end = _header(stream, batch, rows)
        _check_order(stream, end, rows, largest)
        largest = max(largest, int(end.max()))
        frontier = max(BEGINNING, largest - stream.lateness)
        held.append(_merged(stream, [EventBatch(start, end, rows, batch.select(list(columns)))]))
        complete, held = _divided(held, frontier)
        yield from _without_copy(stream, complete, frontier)
    if held:
        yield _merged(stream, held), INFINITE


def _check_order(stream: OpenStream, end: Int64Array, rows: Int64Array, largest: int) -> None:
    """Is a row further back than the lateness allows, seen from the largest end that arrived before it?"""
    if end[0] >= largest and _ascending(end):
        return
    before = np.maximum.accumulate(np.concatenate([np.array([largest], dtype=np.int64), end[:-1]]))
    late = end < np.maximum(before, BEGINNING + stream.lateness) - stream.lateness
    if late.any():
        index = int(late.argmax())
        where = stream.where(int(rows[index]), stream.time[-1])
        raise out_of_order(int(end[index]), int(before[index]), stream.type.axis, stream.lateness, where)


def _divided(runs: list[EventBatch], frontier: int) -> tuple[list[EventBatch], list[EventBatch]]:
    complete, rest = [], []
    for run in runs:
        cut = _before(run.end, frontier)
        if cut:
            complete.append(run.slice(0, cut))
        if cut < len(run):
            rest.append(run.slice(cut, len(run)))
    return complete, rest


def _without_copy(stream: OpenStream, complete: list[EventBatch], frontier: int) -> Iterator[Advance]:
    """Merges the earlier runs with only as much of the last as they reach into, and passes the rest of it on as it is."""
    if len(complete) > 1:
        *earlier, last = complete
        reach = max(int(run.end[-1]) for run in earlier) + 1
        cut = _before(last.end, reach)
        yield _merged(stream, [*earlier, last.slice(0, cut)]), reach
        complete = [last.slice(cut, len(last))]
    for run in complete:
        if len(run):
            yield run, frontier


def _merged(stream: OpenStream, runs: list[EventBatch]) -> EventBatch:
    """One batch, ordered by end; runs earlier in the list arrived earlier."""
    if len(runs) == 1:
        merged = runs[0]
    else:
        start, end, rows = (np.concatenate([getattr(run, name) for run in runs]) for name in ("start", "end", "rows"))
        merged = EventBatch(start, end, rows, joined(stream, [run.table for run in runs]))
    if _ascending(merged.end):
        return merged
    order = np.argsort(merged.end, kind="stable")
    return EventBatch(merged.start[order], merged.end[order], merged.rows[order], _taken(stream, merged.table, order))


def _taken(stream: OpenStream, data: pa.Table | pa.RecordBatch, order: Int64Array) -> pa.Table | pa.RecordBatch:
    if data.num_columns == 0:
        return data
    # Not pa.array(order), which imports pandas wherever that is installed.
    indices = pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order)])
    try:
        return data.take(indices)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        field = next(f for f in data.schema if not _can_be_taken(data.column(f.name), indices))
        raise data_error(
            "K512",
            f"rows must be sorted, but Arrow cannot reorder column `{field.name}` of type {field.type}",
            "convert the column, or give the rows in order of time",
            where=place(stream.name, None),
        ) from None


def _can_be_taken(column: pa.Array | pa.ChunkedArray, indices: pa.Array) -> bool:
    try:
        column.take(indices)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True


# ---- times


def _header(stream: OpenStream, data: pa.Table | pa.RecordBatch, rows: Int64Array | range) -> tuple[Int64Array, Int64Array]:
    """Start and end of every row; for a point event one array twice."""
    starts_ends = [_times(stream, data, name, rows) for name in stream.time]
    start, end = starts_ends[0], starts_ends[-1]
    if start is not end and (start > end).any():
        index = int((start > end).argmax())
        axis = stream.type.axis
        raise data_error(
            "K503",
            f"an event starts at {show_time(int(start[index]), axis)}, after its end at {show_time(int(end[index]), axis)}",
            f"if the columns are the other way round, write `time=({stream.time[1]!r}, {stream.time[0]!r})`",
            where=stream.where(int(rows[index])),
        )
    return start, end


def _times(stream: OpenStream, data: pa.Table | pa.RecordBatch, name: str, rows: Int64Array | range) -> Int64Array:
    column = data.column(name)
    if column.null_count:
        index = int(pc.index(pc.is_null(column), True).as_py())
        raise data_error("K502", "an event has no time", "fill in or remove such rows", where=stream.where(int(rows[index]), name))
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
