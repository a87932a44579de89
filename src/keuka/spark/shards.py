"""What a worker does with the rows of streams that go on: packs them by shard, lets one live kernel a shard take them, unpacks matches.

Comes in: a ShardTask, made by the driver (`streaming.py`), and record batches of rows. Between the three steps Spark sees rows with one
cell of Arrow bytes each, because it hands its own rows to a stateful function cell by cell. Every shard hears of every batch how far
each stream has come, so time goes on in all of them alike; rows are late if they end before what earlier batches told.
"""

from __future__ import annotations

import functools
import json
import pickle
import time as clock
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from keuka.automaton.tables import Tables, from_bytes
from keuka.errors import data_error
from keuka.events.frontiers import BEGINNING, INFINITE, row_indices
from keuka.events.order import read_times
from keuka.events.sources import OpenStream, Stream, open_stream
from keuka.run import live_state, state_bytes
from keuka.run.limits import Limits, ManyMatchesError
from keuka.run.live import Live, LoadedRule
from keuka.run.state_bytes import write_table
from keuka.schema import TimeAxis
from keuka.spark.worker import SHARD, Input, Output, limits_of_task

NOW, MATTERS = "_now", "_matters"  # when the batch began, in microseconds; can the row matter to a query?
OF, ROWS, N_ROWS = "_of", "_rows", "_n_rows"
COMMAND = -1  # instead of the number of a stream
METRICS = -1  # instead of the number of an output
NO_SHARD = -1  # of rows that were rejected before they came to one
FLUSH = "flush"  # a command: the streams have ended

PACKED_ROWS = 2**18  # rows are packed by so many
PIECE_BYTES = 16 * 2**20  # of a snapshot

# A shard is told how far streams have come; no row makes another one late within a batch.
ANY_LATENESS = 2**62
RULE = "query"
NUMBERS = (
    *("events", "late", "matches", "waiting", "live_instances", "state_bytes"),
    *("received_bytes", "written_bytes", "kernel_us", "restored"),
)

# Streams that were silent for too long and are no longer waited for, and the stream that others wait for.
STREAMS = ("idle", "waits_for")

PACKED = pa.schema([(SHARD, pa.int32()), (OF, pa.int32()), (NOW, pa.int64()), ("last", pa.int64()), (ROWS, pa.binary())])
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
    axis: TimeAxis
    keys: tuple[int, ...]  # of the shards
    idle_after: float | None  # seconds after which a stream that is silent is no longer waited for
    limits: Limits
    n_tasks: int | None


@functools.lru_cache(maxsize=16)
def _loaded(task: bytes) -> ShardTask:
    loaded: ShardTask = pickle.loads(task)
    return loaded


def _opened(input_: Input) -> OpenStream:
    stream = Stream(input_.schema.empty_table(), time=input_.header.time, id=input_.header.id, unit=input_.unit)
    return replace(open_stream(input_.name, stream), lateness=ANY_LATENESS)


# -- into shards -----------------------------------------------------------------------------------------------------------


def pack(task_: bytes, index: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a stream in a partition: one row for each shard, with the rows it needs and the last time of all."""
    task = _loaded(task_)
    input_ = task.inputs[index]
    stream = _opened(input_)
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum([each.num_rows for each in waiting]) >= PACKED_ROWS:
            yield _packed(task, index, stream, waiting)
            waiting = []
    if waiting:
        yield _packed(task, index, stream, waiting)


def _packed(task: ShardTask, index: int, stream: OpenStream, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    shards, now, matters = rows.column(0).to_numpy(), rows.column(1)[0].as_py(), rows.column(2)
    schema = task.inputs[index].schema
    arrays = [array.cast(column.type) for array, column in zip(rows.columns[3:], schema, strict=True)]
    table = pa.RecordBatch.from_arrays(arrays, schema=schema)
    last = int(read_times(stream, table, range(rows.num_rows))[1].max())
    if matters.false_count:
        table, shards = table.filter(matters), shards[matters.to_numpy(zero_copy_only=False)]
    if len(task.keys) > 1:
        # Small numbers are sorted by their digits, at a tenth of the cost.
        table = table.take(row_indices(np.argsort(shards.astype(np.uint16), kind="stable")))
    ends = np.cumsum(np.bincount(shards, minlength=len(task.keys))).tolist()
    pieces = [table.slice(begin, end - begin) for begin, end in zip([0, *ends], ends, strict=False)]
    payloads = [write_table(pa.Table.from_batches([piece])) if piece.num_rows else None for piece in pieces]
    same = [
        pa.repeat(pa.scalar(value, field.type), len(pieces)) for value, field in zip((index, now, last), list(PACKED)[1:4], strict=True)
    ]
    return pa.RecordBatch.from_arrays([pa.array(task.keys, pa.int32()), *same, pa.array(payloads, pa.binary())], schema=PACKED)


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
        self.live = Live(lambda: self.now / 1e6, task.idle_after, keep_late=bool(task.late))
        self.live.memory_limit = limits_of_task(task.limits, task.n_tasks).n_bytes
        for input_ in task.inputs:
            self.live.open(_opened(input_))
        self.live.expect([input_.name for input_ in task.inputs])
        self.live.load(_rule(task, from_bytes(tables)))

    def step(self, arrived: Arrived) -> Iterator[tuple[int, pa.Table]]:
        """The matches and the late rows of a batch, with the numbers of their outputs."""
        live, task = self.live, self.task
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
            if live.delivery.n_found:
                matches = live.delivery.deliver()
                for output in task.outputs:
                    table = matches.of(output.name)
                    if table.num_rows:
                        yield output.number, table
            if is_done:
                break

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
        own = {name: counted[name] for name in ("events", "late", "matches", "waiting", "live_instances")}
        return own | {"state_bytes": counted["bytes"]}

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


# -- its state in Spark's store --------------------------------------------------------------------------------------------

LEAST_LOG = 1_000_000  # bytes of a log below which no snapshot is written
LOGS_PER_SNAPSHOT = 2  # a log may be so many times as long as the last snapshot
KEPT_ENTRIES = 16  # of a log stay behind a snapshot, for workers that saw the shard some batches ago


@dataclass(frozen=True)
class Head:
    """Where a shard stands, as its state says."""

    id: str  # of the shard in this checkpoint
    number: int = 0  # of batches that it has seen
    first: int = 1  # the number of the first one that is still in the log
    snapshot: int = 0  # the number of the batch after which it was taken; 0 if there is none
    snapshot_bytes: int = 0
    log_bytes: int = 0  # since then

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Head:
        return cls(**json.loads(content))


@dataclass
class Copy:
    """A shard as this process last saw it."""

    shard: Shard
    task: bytes
    number: int
    token: str


# Workers serve many partitions, and go on with those they have seen. The oldest are forgotten first.
_copies: dict[str, Copy] = {}


def advance(task_: bytes, store: Store, arrived: Arrived) -> Iterator[tuple[int, pa.Table | None, dict[str, Any]]]:
    """Lets a shard take a batch: what it found, and in the end its numbers.

    A copy of the shard is taken up if the state says that it is not another attempt's. What it has missed stands in the log.
    """
    began = clock.perf_counter_ns()
    task = _loaded(task_)
    head = store.head()
    copy = _copies.pop(head.id, None)
    n_restored = 0
    if copy is None or copy.task != task_ or store.token(copy.number) != copy.token:
        copy = Copy(Shard(task, store.tables(task)), task_, 0, "")
        if head.snapshot:
            copy.shard.put(store.snapshot())
            copy.number = head.snapshot
        n_restored = 1
    shard = copy.shard
    for number in range(copy.number + 1, head.number + 1):
        for _ in shard.step(Arrived.from_bytes(store.entry(number))):
            pass
    before = shard.numbers()
    for of, table in shard.step(arrived):
        yield of, table, {}
    number, token = head.number + 1, store.new_token()
    entry = arrived.to_bytes()
    store.append(number, token, entry)
    n_written = len(entry)
    head = replace(head, number=number, log_bytes=head.log_bytes + len(entry))
    if head.log_bytes > max(LEAST_LOG, LOGS_PER_SNAPSHOT * head.snapshot_bytes):
        snapshot = shard.take()
        n_written += len(snapshot)
        store.put_snapshot(snapshot)
        first = max(head.first, number - KEPT_ENTRIES)
        for old in range(head.first, first):
            store.remove(old)
        head = replace(head, first=first, snapshot=number, snapshot_bytes=len(snapshot), log_bytes=0)
    store.put_head(head)
    _keep(head.id, Copy(shard, task_, number, token), task)
    after = shard.numbers()
    counted = {name: after[name] - before[name] for name in ("events", "late", "matches")}
    held = {name: after[name] for name in ("waiting", "live_instances", "state_bytes")}
    kernel_us = (clock.perf_counter_ns() - began) // 1000
    n_received = sum([len(content) for _, content in arrived.rows])
    spent = {"received_bytes": n_received, "written_bytes": n_written, "kernel_us": kernel_us, "restored": n_restored}
    yield METRICS, None, {**counted, **held, **spent, **shard.streams(), "time": shard.time}


def _keep(id: str, copy: Copy, task: ShardTask) -> None:
    _copies[id] = copy
    limit = limits_of_task(task.limits, task.n_tasks).n_bytes
    held = {other: kept.shard.live.n_bytes for other, kept in _copies.items()}
    while sum(held.values()) > limit and len(held) > 1:
        oldest = next(iter(held))
        del held[oldest], _copies[oldest]


ANOTHER = {"meaning": "another meaning", "columns": "other columns", "shards": "another number of shards", "lateness": "another lateness"}


def described(task: ShardTask) -> dict[str, Any]:
    """What must stay as it is as long as a checkpoint is used. Tables may change: a later version may plan in another way."""
    columns = [[i.name, [[f.name, str(f.type)] for f in i.schema], i.header.times, i.header.id, i.unit] for i in task.inputs]
    meaning = {output.name: output.fingerprint.hex() for output in from_bytes(task.tables).outputs}
    facts: dict[str, Any] = {"meaning": meaning, "columns": columns, "shards": len(task.keys), "lateness": task.lateness}
    return dict(json.loads(json.dumps(facts)))  # as it comes out of a checkpoint


class Store:
    """The state of one shard in Spark's store: what it was made for, a head, a log of batches with the tokens of attempts, a snapshot."""

    def __init__(self, plan: Any, head: Any, tokens: Any, log: Any, snapshot: Any) -> None:
        self._plan, self._head, self._tokens, self._log, self._snapshot = plan, head, tokens, log, snapshot

    def tables(self, task: ShardTask) -> bytes:
        """Those that the checkpoint was made with. Another query, other columns and another number of shards are refused (K557)."""
        own = described(task)
        row = self._plan.get()
        if row is None:
            self._plan.update((task.tables, json.dumps(own)))
            return task.tables
        tables, text = row
        theirs = json.loads(text)
        differing = [what for what in own if own[what] != theirs.get(what)]
        if differing:
            problem = f"the checkpoint belongs to a streaming query with {' and '.join([ANOTHER[what] for what in differing])}"
            raise data_error("K557", problem, "start with another checkpoint, or go back to what it was made with")
        return bytes(tables)

    def head(self) -> Head:
        row = self._head.get()
        return Head(self.new_token()) if row is None else Head.from_bytes(row[0])

    def put_head(self, head: Head) -> None:
        self._head.update((head.to_bytes(),))

    def entry(self, number: int) -> bytes:
        return bytes(self._log.getValue((number,))[0])

    def token(self, number: int) -> str | None:
        """Of the attempt whose entry is in the log; None if it is no longer there."""
        row = self._tokens.getValue((number,))
        return None if row is None else str(row[0])

    def append(self, number: int, token: str, entry: bytes) -> None:
        self._tokens.updateValue((number,), (token,))
        self._log.updateValue((number,), (entry,))

    def remove(self, number: int) -> None:
        self._tokens.removeKey((number,))
        self._log.removeKey((number,))

    def snapshot(self) -> bytes:
        return b"".join([row[0] for row in self._snapshot.get()])

    def put_snapshot(self, snapshot: bytes) -> None:
        self._snapshot.put([(snapshot[i : i + PIECE_BYTES],) for i in range(0, len(snapshot), PIECE_BYTES)])

    @staticmethod
    def new_token() -> str:
        return uuid.uuid4().hex


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
