"""What a worker does with the rows of streams that go on: packs them by shard, lets one live kernel a shard take them, unpacks matches.

Comes in: a ShardTask, made by the driver (`streaming.py`), and record batches of rows. Between the three steps Spark sees rows with one
cell of Arrow bytes each, because it hands its own rows to a stateful function cell by cell. Every shard hears of every batch how far
each stream has come, so time goes on in all of them alike; rows are late if they end before what earlier batches told.
"""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from keuka.automaton.tables import Tables, from_bytes
from keuka.errors import DataError
from keuka.events.columns import bytes_of
from keuka.events.frontiers import BEGINNING, INFINITE, row_indices
from keuka.events.order import read_times
from keuka.events.sources import OpenStream
from keuka.run import live_state, state_bytes
from keuka.run.limits import Limits, ManyMatchesError, out_of_memory_in_shard
from keuka.run.live import Live, LoadedRule
from keuka.run.state_bytes import write_table
from keuka.schema import TimeAxis
from keuka.spark.worker import SHARD, Input, Output, limits_of_task, open_input, rows_counted_in_partition

NOW, MATTERS = "_now", "_matters"  # when the batch began, in microseconds; can the row matter to a query?
OF, ROWS, N_ROWS = "_of", "_rows", "_n_rows"
COMMAND = -1  # instead of the number of a stream
METRICS = -1  # instead of the number of an output
NO_SHARD = -1  # of rows that were rejected before they came to one
FLUSH = "flush"  # a command: the streams have ended

PACKED_ROWS, PACKED_BYTES = 2**18, 2**26  # rows are packed by so many

# A shard is told how far streams have come; no row makes another one late within a batch.
ANY_LATENESS = 2**62
RULE = "query"
NUMBERS = (
    *("events", "late", "matches", "waiting", "live_instances", "state_bytes"),
    *("received_bytes", "written_bytes", "kernel_us", "restored"),
)

# Streams that were silent for too long and are no longer waited for, and the stream that others wait for.
STREAMS = ("idle", "waits_for")

PACKED = pa.schema([(SHARD, pa.int32()), (OF, pa.int32()), ("last", pa.int64()), (ROWS, pa.binary())])
TOLD = pa.schema(
    [
        *[(SHARD, pa.int32()), (OF, pa.int32()), (ROWS, pa.binary()), (N_ROWS, pa.int64())],
        *[(name, pa.int64()) for name in ("time", *NUMBERS)],
        *[(name, pa.string()) for name in STREAMS],
    ]
)


@dataclass(frozen=True)
class ShardTask:
    """All that a worker must know."""

    tables: bytes
    inputs: tuple[Input, ...]
    lateness: tuple[int, ...]  # by input, in ticks
    is_static: tuple[bool, ...]  # by input: are all its rows there before the first batch?
    outputs: tuple[Output, ...]
    late: tuple[Output, ...]  # the late rows of inputs; nobody wants those of an input that is not here
    counts_late: tuple[bool, ...]  # by input: are late rows counted here? Of several shards that read a row, one counts it
    axis: TimeAxis
    key: tuple[tuple[str, ...], ...]  # by input: the columns that say to which shard a row goes
    keys: tuple[int, ...]  # of the shards
    idle_after: float | None  # seconds after which a stream that is silent is no longer waited for
    limits: Limits
    n_tasks: int | None


@functools.lru_cache(maxsize=16)
def load_task(task: bytes) -> ShardTask:
    loaded: ShardTask = pickle.loads(task)
    return loaded


def _opened(input_: Input) -> OpenStream:
    return replace(open_input(input_, input_.schema.empty_table()), lateness=ANY_LATENESS)


# -- into shards -----------------------------------------------------------------------------------------------------------


def pack(task_: bytes, index: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a stream in a partition: one row for each shard, with the rows it needs and the last time of all."""
    task = load_task(task_)
    stream = _opened(task.inputs[index])
    n_before = 0
    with rows_counted_in_partition():
        for piece in _pieces(batches):
            yield _packed(task, index, stream, piece, n_before)
            n_before += piece.num_rows


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    n_rows = n_bytes = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + bytes_of(batch)
        if n_rows >= PACKED_ROWS or n_bytes >= PACKED_BYTES:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, n_rows, n_bytes = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def _packed(task: ShardTask, index: int, stream: OpenStream, sent: pa.Table, n_before: int) -> pa.RecordBatch:
    shards = sent[SHARD].to_numpy()
    schema = task.inputs[index].schema
    columns = sent.columns[sent.num_columns - len(schema) :]
    table = pa.Table.from_arrays([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)
    last = int(read_times(stream, table, range(n_before, n_before + table.num_rows))[1].max())
    if MATTERS in sent.column_names:
        matters = sent[MATTERS]
        table, shards = table.filter(matters), shards[matters.to_numpy()]
    if len(task.keys) > 1:
        # Small numbers are sorted by their digits, at a tenth of the cost.
        table = table.take(row_indices(np.argsort(shards.astype(np.min_scalar_type(len(task.keys))), kind="stable")))
    ends = np.cumsum(np.bincount(shards, minlength=len(task.keys))).tolist()
    pieces = [table.slice(begin, end - begin) for begin, end in zip([0, *ends], ends, strict=False)]
    payloads = [write_table(piece) if piece.num_rows else None for piece in pieces]
    told = {
        SHARD: pa.array(task.keys, pa.int32()),
        OF: pa.repeat(pa.scalar(index, pa.int32()), len(pieces)),
        "last": pa.repeat(pa.scalar(last, pa.int64()), len(pieces)),
        ROWS: pa.array(payloads, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(told, schema=PACKED)


# -- one shard -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrived:
    """What a micro-batch brings a shard, and what is written to its log."""

    now: int  # when the batch began, in microseconds
    last: Mapping[int, int]  # by input: the largest end of all rows of the batch, whosoever they are
    rows: tuple[tuple[int, bytes], ...]  # by input
    commands: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        facts = {"now": self.now, "last": list(self.last.items()), "of": [of for of, _ in self.rows], "commands": self.commands}
        sections = {f"rows/{i}": content for i, (_, content) in enumerate(self.rows)}
        return state_bytes.pack({"facts": json.dumps(facts).encode(), **sections})

    @classmethod
    def from_bytes(cls, entry: bytes) -> Arrived:
        sections = state_bytes.unpack(entry)
        facts = json.loads(sections["facts"])
        rows = [(of, sections[f"rows/{i}"]) for i, of in enumerate(facts["of"])]
        return cls(facts["now"], dict(facts["last"]), tuple(rows), tuple(facts["commands"]))


class Shard:
    """The live kernel of a shard: rows in, matches out, its state as bytes."""

    def __init__(self, task: ShardTask, tables: bytes) -> None:
        self.task = task
        self.now = 0
        self.live = Live(lambda: self.now / 1e6, task.idle_after, keep_late=bool(task.late), tells_late=False)
        self.live.memory_limit = limits_of_task(task.limits, task.n_tasks).n_bytes
        for input_ in task.inputs:
            self.live.open(_opened(input_))
        self.live.expect([input_.name for input_ in task.inputs])
        self.live.load(_rule(task, from_bytes(tables)))

    def step(self, arrived: Arrived) -> Iterator[tuple[int, pa.Table]]:
        """The matches and the late rows of a batch, with the numbers of their outputs."""
        live, task = self.live, self.task
        if not self.now:  # streams are silent from here on, until they bring rows
            for stream in live.streams.values():
                stream.heard = arrived.now / 1e6
        self.now = arrived.now
        for of, content in arrived.rows:
            name = task.inputs[of].name
            live.take(name, live.streams[name].intake.read(pa.ipc.open_stream(content).read_all()))
        for of, last in arrived.last.items():
            live.promise(max(last - task.lateness[of], BEGINNING), [task.inputs[of].name])
        if arrived.last:  # what is there as a whole came before
            live.promise(INFINITE, [input_.name for input_, is_static in zip(task.inputs, task.is_static, strict=True) if is_static])
        yield from self._late_rows()
        is_end = FLUSH in arrived.commands
        if is_end:
            live.promise(INFINITE, live.streams)
        while True:
            is_done = True
            try:
                live.run(INFINITE if is_end else None)
            except ManyMatchesError:
                is_done = False
            except DataError as error:
                raise self._explained(error) from None
            if live.delivery.n_found:
                matches = live.delivery.deliver()
                for output in task.outputs:
                    table = matches.of(output.name)
                    if table.num_rows:
                        yield output.number, table
            if is_done:
                break

    def _explained(self, error: DataError) -> DataError:
        """What is said of an engine that holds too much, for a shard."""
        if error.code != "K518":
            return error
        waiting = {name: (stream.arrivals.n_held, stream.n_bytes) for name, stream in self.live.streams.items()}
        names = ", ".join([output.name for output in self.task.outputs])
        return out_of_memory_in_shard(self.live.memory_limit, names, self.live.usage(RULE), waiting)

    def _late_rows(self) -> Iterator[tuple[int, pa.Table]]:
        wanted = {output.name: output for output in self.task.late}
        for name, stream in self.live.streams.items():
            if stream.late and name in wanted:
                yield wanted[name].number, pa.Table.from_batches(stream.late).select(wanted[name].schema.names)
            stream.late = []

    def streams(self) -> dict[str, str]:
        """The names of streams that are no longer waited for, and of the one that others wait for."""
        waiting = self.live.waiting()
        return {"idle": ", ".join(self.live.idle()), "waits_for": "" if waiting is None else waiting.stream}

    def numbers(self) -> dict[str, int]:
        """What is known of it, as totals since the beginning."""
        counted = self.live.counters([RULE])
        own = {name: counted[name] for name in ("events", "matches", "waiting", "live_instances")}
        late = [
            self.live.streams[input_.name].n_late for input_, counts in zip(self.task.inputs, self.task.counts_late, strict=True) if counts
        ]
        return own | {"late": sum(late), "state_bytes": counted["bytes"]}

    @property
    def time(self) -> int:
        """Every event before this tick was processed."""
        return min(self.live.frontiers.time, INFINITE - 1)  # there is a column for it

    def take(self) -> bytes:
        facts, sections = state_bytes.write_state(live_state.take(self.live))
        facts |= {"now": self.now, "heard": {name: live.heard for name, live in self.live.streams.items()}}
        facts["n_matches"] = self.live.n_matches[RULE]
        return state_bytes.pack({"state": json.dumps(facts).encode(), **sections})

    def put(self, snapshot: bytes) -> None:
        sections = state_bytes.unpack(snapshot)
        facts = state_bytes.read_facts(sections, "state")
        live_state.put(self.live, state_bytes.read_state(facts, sections))
        self.now = facts.count("now")
        for name, heard in facts.get("heard").items():
            self.live.streams[name].heard = heard
        self.live.n_matches[RULE] = facts.count("n_matches")


def _rule(task: ShardTask, tables: Tables) -> LoadedRule:
    return LoadedRule(
        name=RULE,
        tables=tables,
        since=-(2**63),
        is_bounded=False,
        contributors=tables.contributors,
        axis=task.axis,
        names={output.name: output.name for output in tables.outputs},
        published={},
        types={},
    )


# -- out of shards ---------------------------------------------------------------------------------------------------------


def tell(shard: int, of: int, table: pa.Table | None, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """A row that leaves a shard, by columns."""
    rows, n_rows = (None, None) if table is None else (write_table(table), table.num_rows)
    return {SHARD: shard, OF: of, ROWS: rows, N_ROWS: n_rows, **{name: numbers.get(name) for name in ("time", *NUMBERS, *STREAMS)}}


def pass_by(of: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows that no shard gets, as rows that leave one."""
    for batch in batches:
        if batch.num_rows:
            yield pa.RecordBatch.from_pylist([tell(NO_SHARD, of, pa.Table.from_batches([batch]), {})], TOLD)


def unpack(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The tables in the rows of shards."""
    for batch in batches:
        for rows in batch.column(0):
            for found in pa.ipc.open_stream(rows.as_buffer()):
                yield pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(found.columns, schema, strict=True)], schema=schema)
