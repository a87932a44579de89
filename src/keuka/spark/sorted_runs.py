"""Rows of one stream that are too many to be held: sorted by time piece by piece, written to disk, and read back in order of time.

Only a worker knows how many rows its partition has, because one key may have most of them. So the worker itself sorts what it cannot hold
(decision 23 has the times of Spark's own sort beside it). The files have no name, so nothing is left behind when a worker is killed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np
import pyarrow as pa

from keuka.errors import data_error
from keuka.events.columns import Int64Array
from keuka.events.frontiers import ascending, taken
from keuka.events.order import read_times
from keuka.events.sources import OpenStream

# While runs are merged, one batch of each is in memory.
BATCH_ROWS, BATCH_BYTES = 2**14, 2**20
MOST_RUNS = 64  # so many of equal size become one, because all stay open until they are read


class SortedRuns:
    def __init__(self, stream: OpenStream) -> None:
        """`stream`: what is known of the stream; it needs no rows."""
        self.stream = stream
        self.n_rows = 0
        self.files: list[tuple[int, IO[bytes]]] = []  # and how often their rows were merged

    def add(self, table: pa.Table) -> None:
        """Writes rows as a run of their own."""
        numbers = range(self.n_rows, self.n_rows + table.num_rows)
        self.n_rows += table.num_rows
        if not table.num_rows:
            return
        _, end = read_times(self.stream, table, numbers)
        if not ascending(end):
            order = np.argsort(end, kind="stable")
            table, end = taken(self.stream, table.combine_chunks(), order), end[order]
        table = table.append_column("tick", pa.array(end))  # the end of an event, behind its columns
        self.files.append((0, _written(table.schema, [table])))
        while len(self.files) >= MOST_RUNS and self.files[-MOST_RUNS][0] == self.files[-1][0]:
            times, together = self.files[-1][0] + 1, [file for _, file in self.files[-MOST_RUNS:]]
            self.files[-MOST_RUNS:] = [(times, _written(table.schema, self._merged(together)))]

    def read(self) -> Iterator[pa.RecordBatch]:
        """All rows in order of time."""
        for table in self._merged([file for _, file in self.files]):
            yield from table.remove_column(table.num_columns - 1).to_batches()

    def _merged(self, files: list[IO[bytes]]) -> Iterator[pa.Table]:
        runs = [_Run(file) for file in files]
        while runs:
            # Later batches of every run have later rows, so up to here the rows at hand are all there are.
            upto = min([int(run.ends[-1]) for run in runs])
            pieces = [piece for run in runs if (piece := run.take(upto)).num_rows]
            table = pa.Table.from_batches(pieces)
            if len(pieces) > 1:
                order = np.argsort(table.column(table.num_columns - 1).to_numpy(), kind="stable")
                table = taken(self.stream, table.combine_chunks(), order)
            yield table
            runs = [run for run in runs if run.go_on()]


class _Run:
    """A run while it is read: what is left of the batch at hand."""

    def __init__(self, file: IO[bytes]) -> None:
        self._batches = iter(pa.ipc.open_stream(file))
        self._take_up(next(self._batches))

    def _take_up(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.ends: Int64Array = batch.column(batch.num_columns - 1).to_numpy()

    def take(self, upto: int) -> pa.RecordBatch:
        """The rows that end at a tick or before."""
        n = int(np.searchsorted(self.ends, upto, side="right"))
        taken = self.batch.slice(0, n)
        self.batch, self.ends = self.batch.slice(n), self.ends[n:]
        return taken

    def go_on(self) -> bool:
        """Reads the next batch if this one is used up. Is there more?"""
        if not len(self.ends):
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._take_up(batch)
        return True


def _written(schema: pa.Schema, tables: Iterable[pa.Table]) -> IO[bytes]:
    """A file of these rows, in small batches, which is open, and gone when it is closed."""
    try:
        file = tempfile.TemporaryFile(dir=_folder())  # noqa: SIM115  # open until it is read
        with pa.ipc.new_stream(pa.PythonFile(file, "w"), schema) as writer:
            for table in tables:
                writer.write_table(table, max_chunksize=max(1, min(BATCH_ROWS, BATCH_BYTES * table.num_rows // table.nbytes)))
        file.seek(0)
    except OSError as error:
        problem = f"a partition of Spark has more rows than a worker holds, and they cannot be written to disk: {error.strerror}"
        raise data_error("K558", problem, "give `spark.local.dir` more room, or use more `shards`") from None
    return file


def _folder() -> str | None:
    """A directory that Spark gives its workers for such files; None for the one of the system."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
