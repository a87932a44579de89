"""Rows between their arrival and their epoch: held until time has passed them, then given out as whole epochs in order of `end`.

Comes in: batches of rows, and promises that a stream has come to some time. Goes out: steps, each with the events of every stream
whose epochs became complete. A stream's frontier is the largest end seen minus its lateness, or what was promised: a row with a
smaller end is late. `order.py` feeds this from files and tables, `engine.py` from what users push.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from keuka.errors import data_error
from keuka.events.columns import Int64Array
from keuka.events.files import place
from keuka.events.sources import OpenStream, joined, joined_column
from keuka.kernel.arrow import Chunk

Rows = Int64Array | range
Piece = tuple[Chunk, int, int]  # rows of a batch: the first, and that after the last

# Frontiers are Python integers: an event with end < frontier is complete. These two lie before and after every tick.
BEGINNING, INFINITE = -(2**63), 2**63
MOST_ROWS = 2**62  # of a step that may be as large as it likes
# Beyond this many runs of held rows neighbours are merged: giving out looks at every run, merging copies rows.
MANY_RUNS = 8


# Not frozen: that costs 0.7 us each, and a push of a few rows makes four of them.
@dataclass(eq=False, slots=True)
class EventBatch:
    """Events of one stream, ordered by end; those with equal ends in order of arrival. Never changed."""

    stream: OpenStream
    n_events: int
    rows: Rows  # (n,) number of the event's row in its source; `OpenStream.where` turns it into a place
    pieces: list[Piece]  # where their times and columns are

    def __len__(self) -> int:
        return self.n_events

    @property
    def is_point(self) -> bool:
        """Do all events start when they end?"""
        return all(chunk.is_point for chunk, _, _ in self.pieces)

    @property
    def start(self) -> Int64Array:
        """(n,) ticks."""
        return _joined_times([chunk.starts()[first:last] for chunk, first, last in self.pieces])

    @property
    def end(self) -> Int64Array:
        """(n,) ticks, ascending."""
        return _joined_times([chunk.ends()[first:last] for chunk, first, last in self.pieces])

    @property
    def first_end(self) -> int:
        chunk, first, _ = self.pieces[0]
        return int(chunk.end_at(first))

    @property
    def last_end(self) -> int:
        chunk, _, last = self.pieces[-1]
        return int(chunk.end_at(last - 1))

    def n_before(self, frontier: int) -> int:
        """How many events end before the frontier."""
        n = 0
        for chunk, first, last in self.pieces:
            n_here = chunk.n_before(frontier, first, last)
            n += n_here
            if n_here < last - first:
                break
        return n

    def slice(self, begin: int, stop: int) -> EventBatch:
        """The events begin..stop (exclusive), sharing memory."""
        return EventBatch(self.stream, stop - begin, self.rows[begin:stop], _some(self.pieces, begin, stop))

    def column(self, name: str) -> pa.Array:
        """A column of all events, or a field of a struct among them; rows that lie in several batches are copied together."""
        if name in self.pieces[0][0].batch.schema.names:
            arrays = [chunk.batch.column(name).slice(first, last - first) for chunk, first, last in self.pieces]
        else:
            arrays = [self.stream.field(chunk.batch.slice(first, last - first), name) for chunk, first, last in self.pieces]
        return arrays[0] if len(arrays) == 1 else joined_column(self.stream, name, arrays)

    @property
    def table(self) -> pa.RecordBatch:
        """All columns of all events; without columns it has no rows."""
        return joined(self.stream, [chunk.batch.slice(first, last - first) for chunk, first, last in self.pieces])


def event_batch(stream: OpenStream, start: Int64Array, end: Int64Array, rows: Rows, batch: pa.RecordBatch) -> EventBatch:
    """The rows of one record batch as events."""
    return EventBatch(stream, len(end), rows, [(Chunk(batch, -1, start, end), 0, len(end))])


def _joined_times(pieces: list[Int64Array]) -> Int64Array:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _some(pieces: list[Piece], begin: int, stop: int) -> list[Piece]:
    """Where the rows begin..stop of all the pieces are."""
    if len(pieces) == 1:
        chunk, first, _ = pieces[0]
        return [(chunk, first + begin, first + stop)]
    found = []
    for chunk, first, last in pieces:
        low, high = max(begin, 0), min(stop, last - first)
        if low < high:
            found.append((chunk, first + low, first + high))
        begin, stop = begin - (last - first), stop - (last - first)
    return found


class Arrivals:
    """One stream's rows that time has not passed yet.

    What is held are ordered runs, one per batch that came, so that a row is copied when it leaves together with rows of another
    run and seldom before.
    """

    def __init__(self, stream: OpenStream) -> None:
        self.stream = stream
        self.frontier = BEGINNING
        self.n_held = 0
        self.runs: list[EventBatch] = []  # those that arrived earlier first

    def push(self, batch: EventBatch, floor: int = BEGINNING) -> Int64Array | None:
        """Takes rows of one batch as they arrived, at least one. Returns the indices of late ones, which it does not take, or None.

        A row is late if its end is before the frontier of the rows before it, or before `floor`. So it does not matter how rows
        are cut into batches.
        """
        late = None
        bound = max(self.frontier, floor)
        in_order = len(batch.pieces) == 1 and batch.pieces[0][0].is_ascending()
        largest = batch.last_end if in_order else int(batch.end.max())
        if batch.first_end < bound or not in_order:
            late = late_rows(batch.end, bound, self.stream.lateness)
            if late is not None:
                batch = reordered(batch, np.delete(np.arange(len(batch)), late))
        if batch.n_events:
            self.append(batch if in_order else ordered(batch))
        self.promise(largest - self.stream.lateness)
        return late

    def append(self, run: EventBatch) -> None:
        """Takes rows that are in order and not late."""
        self.runs.append(run)
        self.n_held += run.n_events
        # As in a binary counter: each row is copied once per doubling of the rows that wait.
        while len(self.runs) > MANY_RUNS and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
            self.runs[-2:] = [copied(merged([(run, run.n_events) for run in self.runs[-2:]]))]

    def promise(self, frontier: int) -> None:
        """No row with a smaller end will come. Frontiers never go back."""
        self.frontier = max(self.frontier, frontier)

    def bound(self, frontier: int, few_rows: int, most_rows: int) -> int:
        """Where a step towards the frontier should end for this stream: after about `most_rows` rows, and where copying ends.

        Earlier runs are merged with only as much of the last as they reach into; the rest of it then leaves as it is, in a step of
        its own. A step has its price, so `few_rows` are rather copied.
        """
        if self.n_held <= min(few_rows, most_rows):
            return frontier
        cuts = [(run, cut) for run in self.runs if (cut := run.n_before(frontier))]
        if len(cuts) > 1 and cuts[-1][1] > few_rows:
            frontier = min(frontier, max([int(run.end[cut - 1]) for run, cut in cuts[:-1]]) + 1)
        share = max(1, most_rows // max(1, len(cuts)))
        return min([frontier, *[int(run.end[share - 1]) + 1 for run, cut in cuts if cut > share]])

    def take(self, bound: int) -> EventBatch | None:
        """The rows with an end before the bound, as one batch in order, or None."""
        cuts, rest = [], []
        for run in self.runs:
            cut = run.n_before(bound)
            if cut:
                cuts.append((run, cut))
            if cut < run.n_events:
                rest.append(run.slice(cut, run.n_events) if cut else run)
        if not cuts:
            return None
        self.runs = rest
        batch = merged(cuts)
        self.n_held -= batch.n_events
        return batch


class Frontiers:
    """All streams, and the time up to which everything has been given out."""

    def __init__(self, streams: Iterable[OpenStream] = (), few_rows: int = 0) -> None:
        """`few_rows`: up to this many are copied to leave in one step rather than in two."""
        self.time = BEGINNING  # every event with a smaller end was given out; never goes back
        self.arrivals = {stream.name: Arrivals(stream) for stream in streams}
        self._few_rows = few_rows

    def step(self, frontier: int, wanted: Collection[str] | None = None, most_rows: int = MOST_ROWS) -> dict[str, EventBatch]:
        """The next whole epochs before the frontier, by stream; empty when time has reached it.

        A stream without events in a step is not in its dict. Rows of streams that are not `wanted` are dropped.
        """
        while self.time < frontier:
            bound = frontier
            for arrivals in self.arrivals.values():
                if arrivals.n_held:
                    bound = min(bound, arrivals.bound(frontier, self._few_rows, most_rows))
            found = {}
            for name, arrivals in self.arrivals.items():
                if arrivals.n_held:
                    batch = arrivals.take(bound)
                    if batch is not None and (wanted is None or name in wanted):
                        found[name] = batch
            self.time = bound
            if found:
                return found
        return {}


def ascending(end: Int64Array) -> bool:
    return not (end[1:] < end[:-1]).any()


def late_rows(end: Int64Array, bound: int, lateness: int) -> Int64Array | None:
    """The rows that come too late, seen from those before them; `bound` is the frontier before the first."""
    if bound >= INFINITE:
        return np.arange(len(end))
    before_each = np.maximum.accumulate(end[:-1])
    frontiers = np.maximum(np.maximum(before_each, BEGINNING + lateness) - lateness, bound)
    late = np.flatnonzero(end < np.concatenate([np.array([bound], dtype=np.int64), frontiers]))
    return late if len(late) else None


def merged(runs: Sequence[tuple[EventBatch, int]]) -> EventBatch:
    """The first events of each run, so many, as one batch in order of end; runs earlier in the list arrived earlier.

    Columns are copied when they are asked for.
    """
    run, n = runs[0]
    if len(runs) == 1:
        return run if n == run.n_events else run.slice(0, n)
    rows, pieces, in_order = run.rows[:n], _some(run.pieces, 0, n), True
    for run, cut in runs[1:]:
        n += cut
        rows = _joined_rows(rows, run.rows[:cut])
        chunk, _, stop = pieces[-1]
        in_order = in_order and chunk.end_at(stop - 1) <= run.first_end
        pieces += _some(run.pieces, 0, cut)
    batch = EventBatch(run.stream, n, rows, pieces)
    return batch if in_order else ordered(batch)


def copied(batch: EventBatch, table: pa.RecordBatch | None = None) -> EventBatch:
    """The same events in one batch of their own, or with other columns: those of `table`."""
    end = batch.end
    start = end if batch.is_point else batch.start
    return event_batch(batch.stream, start, end, batch.rows, batch.table if table is None else table)


def _joined_rows(first: Rows, second: Rows) -> Rows:
    if isinstance(first, range) and isinstance(second, range) and first.stop == second.start:
        return range(first.start, second.stop)
    return np.concatenate([row_numbers(first), row_numbers(second)])


def row_numbers(rows: Rows) -> Int64Array:
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def ordered(batch: EventBatch) -> EventBatch:
    """The same rows in order of end."""
    return reordered(batch, np.argsort(batch.end, kind="stable"))


def reordered(batch: EventBatch, order: Int64Array) -> EventBatch:
    end = batch.end[order]
    start = end if batch.is_point else batch.start[order]
    return event_batch(batch.stream, start, end, row_numbers(batch.rows)[order], taken(batch.stream, batch.table, order))


# Of a column that Arrow cannot pick rows from: it knows no way, or the column is damaged.
UNORDERABLE = (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowIndexError)


def taken(stream: OpenStream, data: pa.Table | pa.RecordBatch, order: Int64Array) -> pa.Table | pa.RecordBatch:
    """The rows in the given order."""
    if data.num_columns == 0:
        return data
    indices = row_indices(order)
    try:
        return data.take(indices)
    except UNORDERABLE:
        field = next(f for f in data.schema if not _can_be_taken(data.column(f.name), indices))
        raise data_error(
            "K512",
            f"rows must be sorted, but Arrow cannot reorder column `{field.name}` of type {field.type}",
            "convert the column, or give the rows in order of time",
            where=place(stream.name, None),
        ) from None


def row_indices(order: Int64Array) -> pa.Array:
    """For Arrow's `take`. Not pa.array(order), which imports pandas wherever that is installed."""
    return pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order)])


def _can_be_taken(column: pa.Array | pa.ChunkedArray, indices: pa.Array) -> bool:
    try:
        column.take(indices)
    except UNORDERABLE:
        return False
    return True
