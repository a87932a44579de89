"""Rows that cannot be events: those without a time, and intervals that start after their end.

A pipeline either keeps them apart (a sink `of = "rejected"`) or fails and says how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from keuka.diagnostics import Diagnostic
from keuka.errors import DataError
from keuka.events.columns import ticks
from keuka.events.files import place
from keuka.events.sources import OpenStream, fit

NO_TIME, REVERSED = "no time", "starts after its end"
STREAM, REASON = "_stream", "_reason"


@dataclass(frozen=True)
class Counts:
    """How many rows of a stream were read, and how many of them cannot be events."""

    n_read: int = 0
    n_without_time: int = 0
    n_reversed: int = 0

    @property
    def n_rejected(self) -> int:
        return self.n_without_time + self.n_reversed

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.n_read + other.n_read, self.n_without_time + other.n_without_time, self.n_reversed + other.n_reversed)


def refused(counts: Mapping[str, Counts]) -> DataError | None:
    """What a run without a place for rejected rows says of them."""
    found = []
    help = ('remove such rows, or keep them apart: a sink with `of = "rejected"`',)
    for name, n in counts.items():
        if n.n_without_time:
            rows = "1 row has" if n.n_without_time == 1 else f"{n.n_without_time:,} rows have"
            found.append(Diagnostic("K502", f"{rows} no time", label=place(name, None), help=help))
        if n.n_reversed:
            rows = "1 event starts after its end" if n.n_reversed == 1 else f"{n.n_reversed:,} events start after their end"
            found.append(Diagnostic("K503", rows, label=place(name, None), help=help))
    return DataError(*found) if found else None


def rejected_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all streams, and where a row is from and why it was rejected. What has several types is text."""
    types: dict[str, pa.DataType] = {}
    for schema in schemas:
        for field in schema:
            same = types.setdefault(field.name, field.type).equals(field.type)
            types[field.name] = field.type if same else pa.string()
    return pa.schema([*types.items(), (STREAM, pa.string()), (REASON, pa.string())])


@dataclass(frozen=True)
class Watch:
    """Counts the rows of streams while they are read; with `keep`, rejected rows go there and are events no more."""

    counts: dict[str, Counts]
    keep: Callable[[str, pa.RecordBatch, pa.Array], None] | None

    def watched(self, stream: OpenStream) -> OpenStream:
        self.counts[stream.name] = Counts()
        return replace(stream, data=replace(stream.data, chunks=lambda columns: self.chunks(stream, columns)))

    def chunks(self, stream: OpenStream, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        assert stream.data.chunks is not None  # files are never in memory as a whole
        wanted = list(columns) if self.keep is None else stream.data.schema.names
        for first, batch in stream.data.chunks(wanted):
            reasons = None if self.keep is None else reasons_of(stream, batch, first)
            self.counts[stream.name] += counted(batch, reasons)
            if self.keep is None or reasons is None:
                yield first, batch.select(list(columns))
                continue
            wrong = reasons.is_valid()
            self.keep(stream.name, batch.filter(wrong), reasons.filter(wrong))
            # Slices, so that the numbers of the rows between still follow each other.
            bounds = np.flatnonzero(np.concatenate([[True], wrong.to_numpy(zero_copy_only=False), [True]]))
            for begin, end in zip(bounds[:-1], bounds[1:] - 1, strict=True):
                if begin < end:
                    yield first + int(begin), batch.slice(begin, end - begin).select(list(columns))


def count(stream: OpenStream) -> Counts:
    """Reads the times of a stream again."""
    assert stream.data.chunks is not None
    total = Counts()
    for first, batch in stream.data.chunks(list(dict.fromkeys(stream.time))):
        total += counted(batch, reasons_of(stream, batch, first))
    return total


def counted(batch: pa.RecordBatch, reasons: pa.Array | None) -> Counts:
    if reasons is None:
        return Counts(batch.num_rows)
    found = reasons.to_pylist()
    return Counts(batch.num_rows, found.count(NO_TIME), found.count(REVERSED))


def reasons_of(stream: OpenStream, batch: pa.RecordBatch, first: int) -> pa.Array | None:
    """Why each row cannot be an event, null where it can; None if all can."""
    rows = range(first, first + batch.num_rows)
    times = fit(stream, batch.select(list(stream.time)), rows)
    missing = np.zeros(batch.num_rows, dtype=bool)
    for column in times.columns:
        missing |= column.is_null().to_numpy(zero_copy_only=False)
    filled = [column.fill_null(0) if column.null_count else column for column in times.columns]
    start, end = ticks(filled[0]), ticks(filled[-1])
    reversed_ = (start > end) & ~missing
    if not missing.any() and not reversed_.any():
        return None
    return pa.array(np.where(missing, NO_TIME, REVERSED), pa.string(), mask=~(missing | reversed_))
