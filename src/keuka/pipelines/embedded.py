"""Runs a pipeline in this process: files in, the kernel, files out. Nothing here needs Java.

Sinks are written while matches are found, beside their places, and moved there when all of them are complete.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from keuka.errors import DataError
from keuka.events.rejection import count, in_columns, refused, rejected_schema, row_schema
from keuka.events.sinks import writing
from keuka.pipelines.checking import Bound, described, files_of
from keuka.pipelines.staging import make_directory, staging
from keuka.pipelines.values import CONSOLE, LATE, METRICS, N_SHOWN, REJECTED, Progress, Report, Steps, metrics_table
from keuka.query import Prepared, prepare
from keuka.run.embedded import Progress as RunProgress
from keuka.run.embedded import run as run_tables

Write = Callable[[str, pa.RecordBatch], None]  # a batch to all sinks of an output


@dataclass
class Shown:
    """The first rows of what goes to the console, and the number of all."""

    schema: pa.Schema
    batches: list[pa.RecordBatch] = field(default_factory=list)
    n_rows: int = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self.n_rows < N_SHOWN:  # an empty slice would keep the memory of its batch
            self.batches.append(batch.slice(0, N_SHOWN - self.n_rows))
        self.n_rows += batch.num_rows

    def result(self) -> tuple[pa.Table, int]:
        return pa.Table.from_batches(self.batches, self.schema), self.n_rows


def run(bound: Bound, on_progress: Callable[[Progress], None] | None) -> Report:
    steps = Steps()
    reject = "reject" if bound.has_sink(REJECTED) else None  # such a sink is for the bad rows of all streams
    streams = {name: described(stream, files_of(stream, here=True), reject) for name, stream in bound.streams.items()}
    prepared = prepare(bound.query, streams, type_column=bound.type_column, params=bound.params, outputs=bound.outputs)
    rejections = prepared.rejections
    # Streams that reject rows are counted already.
    opened = tuple([stream if stream.rejects else rejections.watch(stream) for stream in prepared.opened])
    schema = rejected_schema([row_schema(stream) for stream in prepared.opened])
    schemas = {name: prepared.schema(name) for name in bound.outputs}
    schemas |= {REJECTED: schema, LATE: schema, METRICS: metrics_table({}, {}, {}, 0).schema}
    shown: dict[str, Shown] = {}
    steps.end("plan")
    with _sinks(bound, schemas, shown) as write:
        if bound.has_sink(REJECTED):
            rejections.keep = lambda stream, rows: write(REJECTED, in_columns(rows, schema))
        matches = dict.fromkeys(bound.outputs, 0)
        try:
            for batch in run_tables(prepared.tables, opened, on_progress=_reporting(prepared, on_progress), limits=bound.limits):
                write(batch.output, batch.rows)
                matches[batch.output] += batch.rows.num_rows
        except DataError as error:
            if error.code not in ("K502", "K503"):
                raise
            raise refused({stream.name: count(stream) for stream in prepared.opened if not stream.rejects}) or error from None
        prepared.warn_of_types()
        read = {name: n.n_read for name, n in rejections.counts.items()}
        rejected = {name: n.n_rejected for name, n in rejections.counts.items()}
        for batch in metrics_table(read, rejected, matches, steps.total).to_batches():
            write(METRICS, batch)
        steps.end("match")
    steps.end("publish")
    if not bound.has_sink(REJECTED):
        rejections.warn()
    return Report(read, rejected, matches, steps.seconds, {of: first.result() for of, first in shown.items()})


def _reporting(prepared: Prepared, on_progress: Callable[[Progress], None] | None) -> Callable[[RunProgress], None] | None:
    if on_progress is None:
        return None
    sizes = [stream.n_rows for stream in prepared.opened]
    n_total = None if None in sizes else sum([size for size in sizes if size is not None])
    return lambda progress: on_progress(Progress("events", progress.n_events, n_total))


@contextlib.contextmanager
def _sinks(bound: Bound, schemas: Mapping[str, pa.Schema], shown: dict[str, Shown]) -> Iterator[Write]:
    """A function that writes to open sinks. First every file is completed, then directories take their places."""
    writers: dict[str, list[Callable[[pa.RecordBatch], None]]] = {name: [] for name in schemas}

    def write(of: str, batch: pa.RecordBatch) -> None:
        for write_to in writers[of]:
            write_to(batch)

    with staging([sink for sink in bound.sinks if sink.format != CONSOLE]) as staged, contextlib.ExitStack() as files:
        for sink in bound.sinks:
            assert sink.of is not None  # filled in with the outputs
            if sink.format == CONSOLE:
                writers[sink.of].append(shown.setdefault(sink.of, Shown(schemas[sink.of])).write)
            else:
                assert sink.path is not None  # only the console has none
                directory = staged.stage(sink, sink.path)
                make_directory(directory)
                file = directory / f"part-{uuid.uuid4()}.{sink.format}"
                writers[sink.of].append(files.enter_context(writing(schemas[sink.of], str(file))))
        yield write
