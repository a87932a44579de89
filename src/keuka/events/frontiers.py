"""Rows between their arrival and their epoch: held until time has passed them, then given out as whole epochs in order of `end`.

Comes in: batches of rows, and promises that a stream has come to some time. Goes out: steps, each with the events of every stream
whose epochs became complete. A stream's frontier is the largest end seen minus its lateness, or what was promised: a row with a
smaller end is late. `order.py` feeds this from files and tables, `engine.py` from what users push.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from keuka.errors import data_error
from keuka.events.columns import Int64Array
from keuka.events.files import place
from keuka.events.sources import OpenStream, joined

Rows = Int64Array | range

# Frontiers are Python integers: an event with end < frontier is complete. These two lie before and after every tick.
BEGINNING, INFINITE = -(2**63), 2**63
MOST_ROWS = 2**62  # of a step that may be as large as it likes
# Leaving out columns before rows are copied costs as much as copying this many columns of a small batch.
NARROW = 6
# Beyond this many runs of held rows neighbours are merged: giving out looks at every run, merging copies rows.
MANY_RUNS = 8


# Not frozen: that costs 0.7 us each, and a push of a few rows, 20 us before the kernel, makes four of them.
@dataclass(eq=False, slots=True)
class EventBatch:
    """Events of one stream, ordered by end; those with equal ends in order of arrival. Never changed."""

    start: Int64Array  # (n,) ticks; for point events the same object as `end`
    end: Int64Array  # (n,) ticks, ascending
    rows: Rows  # (n,) number of the event's row in its source; `OpenStream.where` turns it into a place
    table: pa.RecordBatch  # the wanted columns; without columns it has no rows, so the number of events is len(end)

    def __len__(self) -> int:
        return len(self.end)

    def slice(self, begin: int, stop: int) -> EventBatch:
        """The events begin..stop (exclusive), sharing memory."""
        end = self.end[begin:stop]
        start = end if self.start is self.end else self.start[begin:stop]
        return EventBatch(start, end, self.rows[begin:stop], self.table.slice(begin, stop - begin))


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
        """Takes rows as they arrived, in any order, at least one. Returns the indices of late ones, which it does not take, or None.

        A row is late if its end is before the frontier of the rows before it, or before `floor`. So it does not matter how rows
        are cut into batches.
        """
        late = None
        bound = max(self.frontier, floor)
        in_order = ascending(batch.end)
        if int(batch.end[0]) < bound or not in_order:
            late = late_rows(batch.end, bound, self.stream.lateness)
        largest = int(batch.end[-1] if in_order else batch.end.max())
        if late is not None:
            batch = reordered(self.stream, batch, np.delete(np.arange(len(batch)), late))
        if len(batch):
            self.append(batch if in_order else ordered(self.stream, batch))
        self.promise(largest - self.stream.lateness)
        return late

    def append(self, run: EventBatch) -> None:
        """Takes rows that are in order and not late."""
        self.runs.append(run)
        self.n_held += len(run)
        # As in a binary counter: each row is copied once per doubling of the rows that wait.
        while len(self.runs) > MANY_RUNS and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
            self.runs[-2:] = [merged(self.stream, self.runs[-2:])]

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
        cuts = [(run, cut) for run in self.runs if (cut := before(run.end, frontier))]
        if len(cuts) > 1 and cuts[-1][1] > few_rows:
            frontier = min(frontier, max([int(run.end[cut - 1]) for run, cut in cuts[:-1]]) + 1)
        share = max(1, most_rows // max(1, len(cuts)))
        return min([frontier, *[int(run.end[share - 1]) + 1 for run, cut in cuts if cut > share]])

    def take(self, bound: int, columns: Sequence[str] | None = None) -> EventBatch | None:
        """The rows with an end before the bound, as one batch in order, or None. Of merged runs only the wanted columns are copied."""
        pieces, rest = [], []
        for run in self.runs:
            cut, n = before(run.end, bound), len(run.end)
            if cut == n:
                pieces.append(run)
            elif cut:
                pieces.append(run.slice(0, cut))
                rest.append(run.slice(cut, n))
            else:
                rest.append(run)
        if not pieces:
            return None
        self.runs = rest
        batch = merged(self.stream, pieces, columns) if len(pieces) > 1 else pieces[0]
        self.n_held -= len(batch)
        return batch


class Frontiers:
    """All streams, and the time up to which everything has been given out."""

    def __init__(self, streams: Iterable[OpenStream] = (), few_rows: int = 0) -> None:
        """`few_rows`: up to this many are copied to leave in one step rather than in two."""
        self.time = BEGINNING  # every event with a smaller end was given out; never goes back
        self.arrivals = {stream.name: Arrivals(stream) for stream in streams}
        self._few_rows = few_rows

    def step(self, frontier: int, columns: Mapping[str, Sequence[str]] | None = None, most_rows: int = MOST_ROWS) -> dict[str, EventBatch]:
        """The next whole epochs before the frontier, by stream; empty when time has reached it.

        A stream without events in a step is not in its dict. Where `columns` are given, rows of streams without any are dropped.
        """
        while self.time < frontier:
            bound = frontier
            for arrivals in self.arrivals.values():
                if arrivals.n_held:
                    bound = min(bound, arrivals.bound(frontier, self._few_rows, most_rows))
            found = {}
            for name, arrivals in self.arrivals.items():
                if arrivals.n_held:
                    wanted = None if columns is None else columns.get(name)
                    batch = arrivals.take(bound, wanted)
                    if batch is not None and (columns is None or wanted is not None):
                        found[name] = batch
            self.time = bound
            if found:
                return found
        return {}


def before(end: Int64Array, frontier: int) -> int:
    """How many of the ordered ends lie before the frontier."""
    return len(end) if frontier > int(end[-1]) else int(end.searchsorted(frontier))


def ascending(end: Int64Array) -> bool:
    return not np.count_nonzero(end[1:] < end[:-1])  # .any() takes 2 us more, which a small batch feels


def late_rows(end: Int64Array, bound: int, lateness: int) -> Int64Array | None:
    """The rows that come too late, seen from those before them; `bound` is the frontier before the first."""
    if bound >= INFINITE:
        return np.arange(len(end))
    before_each = np.maximum.accumulate(end[:-1])
    frontiers = np.maximum(np.maximum(before_each, BEGINNING + lateness) - lateness, bound)
    late = np.flatnonzero(end < np.concatenate([np.array([bound], dtype=np.int64), frontiers]))
    return late if len(late) else None


def merged(stream: OpenStream, runs: Sequence[EventBatch], columns: Sequence[str] | None = None) -> EventBatch:
    """One batch of several, ordered by end; runs earlier in the list arrived earlier."""
    first = runs[0]
    tables = [run.table for run in runs]
    if columns is not None and len(columns) + NARROW < first.table.num_columns:
        tables = [table.select(list(columns)) for table in tables]
    table = joined(stream, tables)
    end = np.concatenate([run.end for run in runs])
    start = end if first.start is first.end else np.concatenate([run.start for run in runs])
    rows, last = first.rows, first
    in_order = True
    for run in runs[1:]:
        rows = _joined_rows(rows, run.rows)
        in_order = in_order and last.end[-1] <= run.end[0]
        last = run
    batch = EventBatch(start, end, rows, table)
    return batch if in_order else ordered(stream, batch)


def _joined_rows(first: Rows, second: Rows) -> Rows:
    if isinstance(first, range) and isinstance(second, range) and first.stop == second.start:
        return range(first.start, second.stop)
    return np.concatenate([row_numbers(first), row_numbers(second)])


def row_numbers(rows: Rows) -> Int64Array:
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def ordered(stream: OpenStream, batch: EventBatch) -> EventBatch:
    """The same rows in order of end."""
    return reordered(stream, batch, np.argsort(batch.end, kind="stable"))


def reordered(stream: OpenStream, batch: EventBatch, order: Int64Array) -> EventBatch:
    end = batch.end[order]
    start = end if batch.start is batch.end else batch.start[order]
    return EventBatch(start, end, row_numbers(batch.rows)[order], taken(stream, batch.table, order))


def taken(stream: OpenStream, data: pa.Table | pa.RecordBatch, order: Int64Array) -> pa.Table | pa.RecordBatch:
    """The rows in the given order."""
    if data.num_columns == 0:
        return data
    indices = row_indices(order)
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


def row_indices(order: Int64Array) -> pa.Array:
    """For Arrow's `take`. Not pa.array(order), which imports pandas wherever that is installed."""
    return pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order)])


def _can_be_taken(column: pa.Array | pa.ChunkedArray, indices: pa.Array) -> bool:
    try:
        column.take(indices)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False
    return True
