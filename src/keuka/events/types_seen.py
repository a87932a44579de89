"""Which types the rows of a table have, where a column says to which stream a row belongs: a type that no row has is likely misspelt.

Looked at are the batches that are read anyway, one vectorized call each, and only as long as a type that is read is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from keuka.diagnostics import WARNING, Diagnostic, Span, listing, similar
from keuka.events.files import BATCH_ROWS, place
from keuka.events.sources import OpenStream

# The first rows mostly have all types, so pieces begin small: 65,536 rows at once took a tenth of W2's instructions.
FIRST_ROWS = 1_024
MOST_SEEN = 1_000  # types that are remembered, to offer similar ones


@dataclass
class TypesSeen:
    """The types that rows have had so far, of those that a query reads and of others."""

    column: str
    read: Mapping[str, Span | None]  # the types that the query reads, and where it says so
    seen: set[str] = field(default_factory=set)
    n_rows: int = 0

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple([name for name in self.read if name not in self.seen])

    def look(self, batch: pa.RecordBatch) -> None:
        if self.column not in batch.schema.names:
            return
        begin, n_rows = 0, FIRST_ROWS
        while self.missing and begin < batch.num_rows:
            self.add(pc.unique(batch.column(self.column).slice(begin, n_rows)).to_pylist())
            self.n_rows += min(n_rows, batch.num_rows - begin)
            begin, n_rows = begin + n_rows, 4 * n_rows

    def add(self, types: Iterable[object]) -> None:
        for name in types:
            if isinstance(name, str) and (name in self.read or len(self.seen) < MOST_SEEN):
                self.seen.add(name)

    def watched(self, stream: OpenStream) -> OpenStream:
        """The stream, whose types are looked at while it is read."""
        chunks = stream.data.chunks
        if chunks is None:
            return stream  # tables in memory are looked at when they have been read

        def watched_chunks(columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
            for first, batch in chunks(columns):
                self.look(batch)
                yield first, batch

        return replace(stream, data=replace(stream.data, chunks=watched_chunks))

    def look_at(self, stream: OpenStream) -> None:
        """Looks at rows that lie in memory, or can be read again, as far as must be."""
        data = stream.data
        if data.table is not None:
            batches: Iterable[pa.RecordBatch] = data.table.select([self.column]).to_batches(max_chunksize=BATCH_ROWS)
        else:
            assert data.chunks is not None
            batches = (batch for _, batch in data.chunks([self.column]))
        for batch in batches:
            self.look(batch)
            if not self.missing:
                return

    def warnings(self, stream: str) -> tuple[Diagnostic, ...]:
        """What is to be said at the end of the rows of the stream. Of a stream without rows there is nothing to say."""
        return missing_types(self.column, stream, {name: self.read[name] for name in self.missing}, self.seen) if self.n_rows else ()


@dataclass
class LiveTypes:
    """The types of a stream that is pushed, where rules come and go. `since` says after how many rows each type was first read."""

    stream: str
    types: TypesSeen
    since: dict[str, int] = field(default_factory=dict)
    warned: set[str] = field(default_factory=set)

    def expect(self, read: Mapping[str, Span | None], n_rows: int) -> None:
        """From now on rules read these types."""
        self.since = {name: self.since.get(name, n_rows) for name in read}
        self.types.read = dict(read)

    def warnings(self, n_rows: int, least: int) -> tuple[Diagnostic, ...]:
        """Of types that did not come among at least so many rows."""
        missing = {name: self.types.read[name] for name in self.types.missing if n_rows - self.since[name] >= least}
        return missing_types(self.types.column, self.stream, missing, self.types.seen)

    def new_warnings(self, n_rows: int, least: int) -> tuple[Diagnostic, ...]:
        """The same, but of each type once."""
        due = [name for name in self.types.missing if name not in self.warned and n_rows - self.since[name] >= least]
        self.warned.update(due)
        return missing_types(self.types.column, self.stream, {name: self.types.read[name] for name in due}, self.types.seen)


def missing_types(column: str, stream: str, missing: Mapping[str, Span | None], seen: Collection[str]) -> tuple[Diagnostic, ...]:
    """A warning for each type that is read and that no row has."""
    label = f"the types are in column `{column}`"
    found = []
    for name, span in missing.items():
        there = f"rows have {listing(sorted(seen), 8)}" if seen else "every row has a null there"
        where = label if span is not None else f"{place(stream, None)}, {label}"
        found.append(Diagnostic("K545", f"no row has the type `{name}`", span, where, (*similar(name, seen), there), WARNING))
    return tuple(found)
