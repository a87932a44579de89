"""What a worker does with a partition: its rows as streams, one kernel over them, its matches as batches.

Comes in: a Task, made by the driver (`jobs.py`), and record batches of rows. Goes out: rows of results. Rows of several streams, or of
several outputs, share one list of columns (`Slots`), so that they can be one DataFrame.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keuka.automaton.tables import Tables, from_bytes
from keuka.errors import KeukaError
from keuka.events.columns import bytes_of
from keuka.events.sources import OpenStream, Stream, open_stream
from keuka.run.embedded import run
from keuka.run.limits import Limits, default_memory
from keuka.schema import RESULT, Header, TimeAxis
from keuka.spark.sorted_runs import SortedRuns

OF = "_of"  # which stream or which output a row is of
SHARD = "_shard"  # for which shard it is

MOST_TICKS = 2**61  # times further away are in the last slice
# A worker holds rows of a partition up to this size. Then it takes twice as much for sorting them.
HELD_BYTES = 128 * 2**20


@dataclass(frozen=True)
class Slots:
    """Columns that rows of several kinds share: a kind leaves those empty that it has no use for."""

    types: tuple[pa.DataType, ...]
    places: tuple[tuple[int, ...], ...]  # by kind: where each of its columns is


def share(kinds: Sequence[pa.Schema]) -> Slots:
    """As few columns as will do: one for each type, as often as the kind with most of it needs."""
    types: list[pa.DataType] = []
    places = []
    for schema in kinds:
        taken: list[int] = []
        for field in schema:
            free = [i for i, type_ in enumerate(types) if type_.equals(field.type) and i not in taken]
            if not free:
                types.append(field.type)
            taken.append(free[0] if free else len(types) - 1)
        places.append(tuple(taken))
    return Slots(tuple(types), tuple(places))


@dataclass(frozen=True)
class Input:
    """A stream on the worker: the columns that are sent there, and what must be said of them."""

    name: str
    schema: pa.Schema
    header: Header
    unit: str | None
    slots: tuple[int, ...]  # where its columns are in a batch


@dataclass(frozen=True)
class Output:
    name: str
    tag: int | None  # None if there is only this one
    schema: pa.Schema
    slots: tuple[int, ...]

    @property
    def number(self) -> int:
        """The tag of one of several."""
        assert self.tag is not None
        return self.tag


@dataclass(frozen=True)
class Slices:
    """Time is cut into slices of a length, in the units that times are shown in, and dealt out to shards in turn.

    A match ends at most `reach` after any event it depends on, so an event is sent to the shard of its slice, and to that of the next.
    """

    reach: int
    length: int
    n_shards: int


@dataclass(frozen=True)
class Task:
    """All that a worker must know."""

    tables: bytes
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    output_types: tuple[pa.DataType, ...]
    slices: Slices | None
    axis: TimeAxis  # that of all parts, which may read streams on others
    limits: Limits
    n_tasks: int | None  # that an executor runs at once; None: as many as it has processors


@functools.lru_cache(maxsize=16)
def _loaded(task: bytes) -> tuple[Task, Tables]:
    """Once a process: workers serve many partitions."""
    loaded: Task = pickle.loads(task)
    return loaded, from_bytes(loaded.tables)


def run_partition(task_: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The results of the rows of a partition. Slices of time of several shards may have come to one."""
    task, tables = _loaded(task_)
    with rows_counted_in_partition():
        for shard, opened in _streams(task, batches):
            for found in run(tables, opened, axis=task.axis, limits=limits_of_task(task.limits, task.n_tasks)):
                result = found.rows if task.slices is None or shard is None else own(found.rows, task.slices, shard)
                if result.num_rows:
                    yield _packed(result, next(o for o in task.outputs if o.name == found.output), task.output_types)


@contextlib.contextmanager
def rows_counted_in_partition() -> Iterator[None]:
    """Errors that name a row say how it was counted."""
    try:
        yield
    except KeukaError as error:
        note = "rows are counted within a partition of Spark, as they came to it"
        raise type(error)(*[replace(d, help=(*d.help, note)) if d.label else d for d in error.diagnostics]) from None


def _streams(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int | None, list[OpenStream]]]:
    """The streams of each shard. Their rows are held if they are few; if they are many, each stream is sorted on disk."""
    held: list[pa.RecordBatch] = []
    n_bytes = 0
    runs: dict[int | None, list[SortedRuns]] = {}
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            n_bytes += bytes_of(batch)
        if n_bytes > HELD_BYTES:
            _add(task, held, runs)
            held, n_bytes = [], 0
    if not runs:
        for shard, tables in _divided(task, held):
            yield shard, [open_input(input_, table) for input_, table in zip(task.inputs, tables, strict=True)]
        return
    _add(task, held, runs)
    for shard, streams in runs.items():
        readers = [pa.RecordBatchReader.from_batches(i.schema, r.read()) for i, r in zip(task.inputs, streams, strict=True)]
        yield shard, [open_input(input_, reader) for input_, reader in zip(task.inputs, readers, strict=True)]


def _add(task: Task, held: list[pa.RecordBatch], runs: dict[int | None, list[SortedRuns]]) -> None:
    for shard, tables in _divided(task, held):
        if shard not in runs:
            runs[shard] = [SortedRuns(open_input(input_, input_.schema.empty_table())) for input_ in task.inputs]
        for stream, table in zip(runs[shard], tables, strict=True):
            stream.add(table)


def _divided(task: Task, held: Sequence[pa.RecordBatch]) -> Iterator[tuple[int | None, list[pa.Table]]]:
    """The rows of each shard, by input."""
    if not held:
        return
    rows = pa.Table.from_batches(held)
    for shard in [None] if task.slices is None else pc.unique(rows[SHARD]).to_pylist():
        mine = rows if shard is None else rows.filter(pc.equal(rows[SHARD], shard))
        yield shard, [_rows_of(input_, i, mine, len(task.inputs)) for i, input_ in enumerate(task.inputs)]


def limits_of_task(limits: Limits, n_tasks: int | None) -> Limits:
    """What a task may take: what was said, or its share of what the machine has. `n_tasks`: how many run at once, None if nobody knows."""
    if limits.memory is not None:
        return limits
    return replace(limits, memory=max(1, default_memory() // (n_tasks or len(os.sched_getaffinity(0)))))


def _rows_of(input_: Input, index: int, rows: pa.Table, n_inputs: int) -> pa.Table:
    mine = rows if n_inputs == 1 else rows.filter(pc.equal(rows[OF], index))
    columns = [mine.column(slot).cast(field.type) for slot, field in zip(input_.slots, input_.schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=input_.schema)


def open_input(input_: Input, rows: pa.Table | pa.RecordBatchReader) -> OpenStream:
    return open_stream(input_.name, Stream(rows, time=input_.header.time, id=input_.header.id, unit=input_.unit))


def own(rows: pa.RecordBatch, slices: Slices, shard: int) -> pa.RecordBatch:
    """The matches that end in a slice of this shard; others have all their events elsewhere, too."""
    ends = rows.column(rows.schema.get_all_field_indices(RESULT.end)[-1])  # a query may have one of its own, if it is not a result
    if pa.types.is_date(ends.type):
        ends = ends.cast(pa.int32())
    ticks = np.clip(ends.cast(pa.int64()).to_numpy(), -MOST_TICKS, MOST_TICKS)
    return rows.filter(pa.array((ticks // slices.length) % slices.n_shards == shard))


def _packed(rows: pa.RecordBatch, output: Output, types: tuple[pa.DataType, ...]) -> pa.RecordBatch:
    place = {slot: i for i, slot in enumerate(output.slots)}
    arrays = [rows.column(place[slot]).cast(type_) if slot in place else pa.nulls(rows.num_rows, type_) for slot, type_ in enumerate(types)]
    if output.tag is None:
        return pa.RecordBatch.from_arrays(arrays, schema=output.schema)
    tags = pa.repeat(pa.scalar(output.tag, pa.int32()), rows.num_rows)
    return pa.RecordBatch.from_arrays([tags, *arrays], names=[OF, *slot_names(len(types))])


def slot_names(n_slots: int) -> list[str]:
    return [f"v{i}" for i in range(n_slots)]
