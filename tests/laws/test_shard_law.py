"""Law 5 for streams on Spark, and laws 2, 7 and 8 there: shards that take micro-batches give what the definitions say.

What Spark does in between is done here by a few lines: it cuts rows into micro-batches, sends them to shards, keeps their state, repeats
attempts that failed, and calls whichever worker is free. `tests/spark/test_streaming.py` does the same on Spark with fewer cases.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given

from keuka.algebra.operators import Program
from keuka.automaton.tables import to_bytes
from keuka.errors import DataError
from keuka.events.matches import result_schema
from keuka.plan.division import ByKey, Part, divide_endless
from keuka.plan.planner import output_names, plan
from keuka.run.limits import Limits
from keuka.schema import Header, TimeAxis
from keuka.spark import shard_state
from keuka.spark.shard_state import Store, advance
from keuka.spark.shards import METRICS, Arrived, ShardTask, pack
from keuka.spark.worker import Input, Output

from .outcomes import Bag, Outcome, bag_without_contributors, by_reference, check, without_contributors
from .streams import SHAPES, Rows, table
from .test_laws import Example, examples

AXIS = TimeAxis(None, pa.int64())


class LostError(Exception):
    """The worker of an attempt, or its connection to Spark, is gone."""


@dataclass
class Values:
    """Spark's map of names to bytes: as much of it as a shard uses. An attempt may fail in the middle of what it writes."""

    entries: dict[Any, Any] = field(default_factory=dict)
    n_left: int = 2**62  # writes until one fails

    def getValue(self, key: Any) -> Any:  # noqa: N802  Spark's name, as the next two
        return self.entries.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.n_left -= 1
        if self.n_left < 0:
            raise LostError
        self.entries[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self.entries[key]


@dataclass(frozen=True)
class Chances:
    """What happens on the way: where micro-batches begin, how far rows are out of order, which attempts fail, which worker comes."""

    cuts: Mapping[str, list[int]]  # by stream: how many rows there are before each further batch
    delays: list[int]
    lateness: Mapping[str, int]  # by stream: rows come later than others by no more
    static: str  # a stream that is there as a whole before the first micro-batch, unless it is alone
    fails: list[int]  # by attempt: at which write it fails; 0 if it does not, many if it does behind the last
    workers: list[int]  # by attempt: the number of the worker that Spark calls, or FORGETFUL
    n_shards: int


N_WORKERS = 2
MANY = 1_000
FORGETFUL = N_WORKERS  # a worker that has just been started

CHANCES = st.builds(
    Chances,
    cuts=st.fixed_dictionaries({stream: st.lists(st.integers(0, 25), max_size=6).map(sorted) for stream in SHAPES}),
    delays=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    lateness=st.fixed_dictionaries({stream: st.integers(0, 3) for stream in SHAPES}),
    static=st.sampled_from(["", *SHAPES]),
    fails=st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, MANY]), min_size=5, max_size=5),
    workers=st.lists(st.integers(0, FORGETFUL), min_size=7, max_size=7),
    n_shards=st.integers(1, 4),
)


class Cluster:
    """The shards of one part of a plan, with their state."""

    def __init__(self, part: Part, chances: Chances) -> None:
        self.part, self.chances = part, chances
        self.names = [source.name for source in part.tables.sources]
        self.static = [name for name in self.names if name == chances.static and len(self.names) > 1]
        inputs = [Input(name, SHAPES[name].arrow, header(name), None, ()) for name in self.names]
        schemas = {output.name: result_schema(output.schema, AXIS, False) for output in part.tables.outputs}
        self.n_shards = chances.n_shards if isinstance(part.division, ByKey) else 1
        task = ShardTask(
            tables=to_bytes(part.tables),
            inputs=tuple(inputs),
            lateness=tuple([chances.lateness[name] for name in self.names]),
            is_static=tuple([name in self.static for name in self.names]),
            outputs=tuple([Output(name, i, schema, ()) for i, (name, schema) in enumerate(schemas.items())]),
            late=(),
            axis=AXIS,
            key=tuple([() for _ in self.names]),
            counts_late=tuple([True for _ in self.names]),
            keys=tuple(range(self.n_shards)),
            idle_after=None,
            limits=Limits(),
            n_tasks=1,
        )
        self.task = pickle.dumps(task)
        self.found: dict[str, list[pa.Table]] = {name: [schema.empty_table()] for name, schema in schemas.items()}
        self.cells = [Values() for _ in range(self.n_shards)]
        self.copies: list[dict[str, Any]] = [{} for _ in range(N_WORKERS)]
        self.n_calls = 0

    def take(self, batches: Mapping[str, pa.Table], static: bool = False) -> None:
        """A micro-batch: packed in one piece for each stream, taken by every shard."""
        packed = [row for name, rows in batches.items() if rows.num_rows for row in self.pack(name, rows)]
        for key in range(self.n_shards):
            mine = [row for row in packed if row["_shard"] == key]
            if mine:
                last = {row["_of"]: max(other["last"] for other in mine if other["_of"] == row["_of"]) for row in mine}
                payloads = [(row["_of"], row["_rows"]) for row in mine if row["_rows"] is not None]
                self.call(key, Arrived(0, {} if static else last, tuple(payloads)))

    def pack(self, name: str, rows: pa.Table) -> list[dict[str, Any]]:
        columns = self.part.division.columns.get(name, ()) if isinstance(self.part.division, ByKey) else ()
        keys = [hash_of(row) % self.n_shards for row in zip(*[rows[c].to_pylist() for c in columns], strict=True)] or [0] * rows.num_rows
        sent = pa.table([pa.array(keys, pa.int32()), *rows.columns], names=["_shard", *[f"c{i}" for i in range(rows.num_columns)]])
        return [row for batch in pack(self.task, self.names.index(name), sent.to_batches()) for row in batch.to_pylist()]

    def end(self) -> None:
        for key in range(self.n_shards):
            self.call(key, Arrived(0, {}, (), ("flush",)))

    def call(self, key: int, arrived: Arrived) -> None:
        """An attempt by some worker, and if it fails another one, over the state before it."""
        before = pickle.dumps(self.cells[key])
        if fails := self.chances.fails[self.n_calls % 5]:
            self.cells[key].n_left = fails - 1
            with contextlib.suppress(LostError):
                list(self.attempt(key, arrived))
            self.cells[key] = pickle.loads(before)
        told = list(self.attempt(key, arrived))
        names = list(self.found)
        for of, rows, _ in told:
            if of != METRICS:
                self.found[names[of]].append(rows)

    def attempt(self, key: int, arrived: Arrived) -> Generator[Any]:
        self.n_calls += 1
        worker = self.chances.workers[self.n_calls % 7]
        copies = {} if worker == FORGETFUL else self.copies[worker]
        with mock.patch.object(shard_state, "_copies", copies):
            yield from advance(self.task, Store(self.cells[key]), arrived)


def header(name: str) -> Header:
    time = SHAPES[name].time
    return Header(time, time) if isinstance(time, str) else Header(*time)


def hash_of(row: tuple[Any, ...]) -> int:
    """Equal values have equal hashes, whatever their type; -0.0 is 0.0, and NaN is NaN."""
    return hash(tuple([0 if value == 0 else value if value == value else "NaN" for value in row]))


def by_shards(program: Program, streams: Rows, chances: Chances) -> Outcome:
    found: dict[str, Bag | str] = {}
    for name, (_, operator) in zip(output_names(program), program.outputs, strict=True):
        try:
            for part in divide_endless(plan(Program(((name, operator),)))):
                cluster = Cluster(part, chances)
                cluster.take({name: table(name, streams[name]) for name in cluster.static}, static=True)
                for batches in micro_batches(streams, [name for name in cluster.names if name not in cluster.static], chances):
                    cluster.take(batches)
                cluster.end()
                found[name] = bag_without_contributors(pa.concat_tables(cluster.found[name]))
        except DataError as error:
            found[name] = error.code
    return found


def micro_batches(streams: Rows, names: list[str], chances: Chances) -> list[dict[str, pa.Table]]:
    """Rows in the order of their ends and delays, cut: a row comes no later than the lateness of its stream allows."""
    cut = {}
    for name in names:
        rows = table(name, streams[name])
        ends = np.array([SHAPES[name].end(row) for row in streams[name]], np.int64)
        delays = np.array([min(chances.delays[i % 8], chances.lateness[name]) for i in range(len(ends))], np.int64)
        arrived = rows.take(pa.array(np.lexsort((-ends, ends + delays))))
        cuts = [0, *[min(cut, len(ends)) for cut in chances.cuts[name]], len(ends)]
        cut[name] = [arrived.slice(begin, end - begin) for begin, end in itertools.pairwise(cuts)]
    n = max(len(pieces) for pieces in cut.values())
    return [{name: pieces[i] for name, pieces in cut.items() if i < len(pieces)} for i in range(n)]


@given(examples(), CHANCES)
def test_shards_that_take_micro_batches_give_the_same(example: Example, chances: Chances):
    text, program, streams = example
    with mock.patch.multiple(shard_state, LEAST_LOG=600, KEPT_ENTRIES=2):  # so that snapshots are taken and entries removed
        check(text.text, streams, without_contributors(by_reference(program, streams)), by_shards(program, streams, chances))
