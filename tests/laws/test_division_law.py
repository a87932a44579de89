"""Law 8 for workers that do not know each other: whatever `plan/division.py` makes of a program gives what it gives as a whole.

What Spark does in between is done here by a few lines: rows go to shards by slices of time as long as a match can reach (by key:
test_partition_law.py), results of one part are the input of the next. A worker holds the rows of a partition, or sorts them on disk.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from unittest import mock

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import currently_in_test_context, event, given

import keuka
from keuka.algebra.operators import Program
from keuka.automaton.tables import to_bytes
from keuka.errors import DataError
from keuka.events.matches import result_schema
from keuka.events.sources import open_stream
from keuka.plan.division import END, START, BySlices, Part, Undivided, divide
from keuka.plan.planner import output_names, plan
from keuka.schema import TimeAxis
from keuka.spark import sorted_runs, worker
from keuka.spark.worker import OF, SHARD, Input, Output, Slices, Slots, Task, share, slot_names

from .outcomes import Bag, Outcome, bag_without_contributors, by_reference, check, lowered, without_contributors
from .streams import SHAPES, Rows, table
from .test_laws import Example, examples

AXIS = TimeAxis(None, pa.int64())


@dataclass(frozen=True)
class Held:
    """How many bytes of rows a worker holds before it sorts them on disk, the rows of a batch there, and how many runs become one."""

    n_bytes: int
    batch_rows: int
    most_runs: int


WHOLE = Held(2**30, 1, 2)
HELD = st.one_of(st.just(WHOLE), st.builds(Held, st.integers(1, 1000), st.integers(1, 4), st.integers(2, 4)))


def by_parts(program: Program, streams: Rows, n_shards: int, held: Held) -> Outcome:
    """Each output divided by itself, so that an overflow in one says nothing about the others."""
    found: dict[str, Bag | str] = {}
    for name, (_, operator) in zip(output_names(program), program.outputs, strict=True):
        parts = divide(plan(Program(((name, operator),))), axis=AXIS, n_workers=n_shards)
        if currently_in_test_context():
            event(" ".join([type(part.division).__name__ for part in parts]))
        try:
            found[name] = bag_without_contributors(results(parts, streams, n_shards, held)[name])
        except DataError as error:
            found[name] = error.code
    return found


def as_a_set(program: Program, streams: Rows, n_shards: int, held: Held) -> Outcome:
    """All outputs at once; each is wanted once, however many parts need it."""
    names = list(output_names(program))
    parts = divide(plan(program), axis=AXIS, n_workers=n_shards)
    event(f"{len(parts)} parts")
    found = results(parts, streams, n_shards, held)
    return {name: bag_without_contributors(found[name]) for name in names}


def results(parts: tuple[Part, ...], streams: Rows, n_shards: int, held: Held) -> dict[str, pa.Table]:
    data = {name: keuka.Stream(table(name, rows), time=SHAPES[name].time) for name, rows in streams.items()}
    made: dict[str, pa.Table] = {}
    for part in parts:
        for name, rows in part_results(part, data, n_shards, held).items():
            made[name] = rows
            renamed = rows.rename_columns([*rows.column_names[:-2], START, END])
            data[name] = keuka.Stream(renamed, time=(START, END))
    return made


def part_results(part: Part, data: dict[str, keuka.Stream], n_shards: int, held: Held) -> dict[str, pa.Table]:
    """What a worker makes of one partition that has the rows of all shards."""
    slices = Slices(max(1, part.division.reach), max(1, part.division.reach), n_shards) if isinstance(part.division, BySlices) else None
    opened = [open_stream(source.name, data[source.name]) for source in part.tables.sources]
    schemas = [stream.data.schema for stream in opened]
    sent_as = share(schemas)
    first = 1 if slices is None else 2  # the columns before
    inputs = [
        Input(stream.name, schema, stream.header, None, tuple([first + slot for slot in places]))
        for stream, schema, places in zip(opened, schemas, sent_as.places, strict=True)
    ]
    made = {output.name: result_schema(output.schema, AXIS, False) for output in part.tables.outputs}
    told_as = share(list(made.values()))
    outputs = [Output(name, i, schema, places) for i, ((name, schema), places) in enumerate(zip(made.items(), told_as.places, strict=True))]
    # With one input rows do not say of which they are; the column is there and nobody reads it.
    task = Task(to_bytes(part.tables), tuple(inputs), tuple(outputs), told_as.types, slices, AXIS, keuka.Limits(), 1)
    rows = [sent(data[stream.name], i, sent_as, slices) for i, stream in enumerate(opened)]
    batches = [batch for table in rows for batch in table.to_batches(max_chunksize=3)]
    runs = {"BATCH_ROWS": held.batch_rows, "MOST_RUNS": held.most_runs}
    with mock.patch.object(worker, "HELD_BYTES", held.n_bytes), mock.patch.multiple(sorted_runs, **runs):
        told = pa.Table.from_batches(worker.run_partition(pickle.dumps(task), batches), tagged(told_as.types))
    found = {}
    for output in outputs:
        own = told.filter(pc.equal(told[OF], output.tag))
        columns = [own[f"v{slot}"].cast(field.type) for slot, field in zip(output.slots, output.schema, strict=True)]
        found[output.name] = pa.Table.from_arrays(columns, output.schema.names)
    return found


def sent(stream: keuka.Stream, index: int, slots: Slots, slices: Slices | None) -> pa.Table:
    """The rows of a stream as Spark sends them: each to the shards of its slice and of the last one that its matches can end in."""
    end = stream.time if isinstance(stream.time, str) else stream.time[-1]
    table = stream.data
    shards = None
    if slices is not None:
        ends = table[end].to_pylist()
        where = [{at // slices.length % slices.n_shards, (at + slices.reach) // slices.length % slices.n_shards} for at in ends]
        table = table.take(pa.array([row for row, several in enumerate(where) for _ in several], pa.int64()))
        shards = pa.array([shard for several in where for shard in several], pa.int32())
    of = dict(zip(slots.places[index], table.columns, strict=True))
    columns = [of[slot] if slot in of else pa.nulls(table.num_rows, type_) for slot, type_ in enumerate(slots.types)]
    before = {} if shards is None else {SHARD: shards}
    before[OF] = pa.array([index] * table.num_rows, pa.int32())
    return pa.table([*before.values(), *columns], names=[*before, *slot_names(len(columns))])


def tagged(types: tuple[pa.DataType, ...]) -> pa.Schema:
    return pa.schema([(OF, pa.int32()), *zip(slot_names(len(types)), types, strict=True)])


@given(examples(), st.integers(1, 5), HELD)
def test_a_program_divided_over_workers_gives_the_same(example: Example, n_shards: int, held: Held):
    text, program, streams = example
    check(text.text, streams, without_contributors(by_reference(program, streams)), by_parts(program, streams, n_shards, held))


@given(examples(), st.integers(1, 5), HELD)
def test_so_does_a_set_of_queries(example: Example, n_shards: int, held: Held):
    text, program, streams = example
    expected = without_contributors(by_reference(program, streams))
    if "K507" not in expected.values():
        check(text.text, streams, expected, as_a_set(program, streams, n_shards, held))


def test_an_absence_that_only_a_slice_sees_raises_nothing():
    """What is computed from it would overflow; so such queries are not divided by time."""
    last = 2**63 - 1
    rows = {"S": [(5, "a", 1, 0.0, True), (18, "a", last, 0.0, True)], "Q": [(21, "a", 0, 0.0, True)], "I": []}
    for text in ("SEQ(S a, !Q b) WITHIN 5 RETURN a.n + 1 AS m", "SEQ(!Q b, S a) WITHIN 5 RETURN a.n + 1 AS m"):
        program = lowered(keuka.sase(text))
        check(text, rows, without_contributors(by_reference(program, rows)), by_parts(program, rows, 2, WHOLE))


def test_why_a_query_is_not_divided_tells_apart_no_window_from_one_that_comes_too_late():
    reasons = {}
    for text in ("FROM S NEXT S", "FROM FILTER {DUR < 5} (S NEXT {$2.n + 1 > $1.n} S)"):
        (part,) = divide(plan(lowered(keuka.cel(text))), axis=AXIS, n_workers=2)
        assert isinstance(part.division, Undivided)
        reasons[text] = part.division.reason.partition(", and ")[2]
    assert [*reasons.values()] == ["has no window", "has no window that is tested before what can overflow"]
