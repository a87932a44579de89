"""Law 8 for workers that do not know each other: whatever `plan/division.py` makes of a program gives what it gives as a whole.

What Spark does in between is done here by a few lines: rows go to shards by slices of time as long as a match can reach (by key:
test_partition_law.py), results of one part are the input of the next.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import currently_in_test_context, event, given

import keuka
from keuka.algebra.operators import Program
from keuka.errors import DataError
from keuka.events.sources import open_stream
from keuka.plan.division import END, START, BySlices, Part, Undivided, divide
from keuka.plan.planner import output_names, plan
from keuka.run.embedded import run
from keuka.schema import TimeAxis
from keuka.spark.worker import Slices, own

from .outcomes import Bag, Outcome, bag_without_contributors, by_reference, check, lowered, without_contributors
from .streams import SHAPES, Rows, table
from .test_laws import Example, examples

AXIS = TimeAxis(None, pa.int64())


def by_parts(program: Program, streams: Rows, n_shards: int) -> Outcome:
    """Each output divided by itself, so that an overflow in one says nothing about the others."""
    found: dict[str, Bag | str] = {}
    for name, (_, operator) in zip(output_names(program), program.outputs, strict=True):
        parts = divide(plan(Program(((name, operator),))), axis=AXIS, n_workers=n_shards)
        if currently_in_test_context():
            event(" ".join([type(part.division).__name__ for part in parts]))
        try:
            found[name] = bag_without_contributors(results(parts, streams, n_shards)[name])
        except DataError as error:
            found[name] = error.code
    return found


def as_a_set(program: Program, streams: Rows, n_shards: int) -> Outcome:
    """All outputs at once; each is wanted once, however many parts need it."""
    names = list(output_names(program))
    parts = divide(plan(program), axis=AXIS, n_workers=n_shards)
    event(f"{len(parts)} parts")
    found = results(parts, streams, n_shards)
    return {name: bag_without_contributors(found[name]) for name in names}


def results(parts: tuple[Part, ...], streams: Rows, n_shards: int) -> dict[str, pa.Table]:
    data = {name: keuka.Stream(table(name, rows), time=SHAPES[name].time) for name, rows in streams.items()}
    made: dict[str, pa.Table] = {}
    for part in parts:
        for name, rows in part_results(part, data, n_shards).items():
            made[name] = rows
            renamed = rows.rename_columns([*rows.column_names[:-2], START, END])
            data[name] = keuka.Stream(renamed, time=(START, END))
    return made


def part_results(part: Part, data: dict[str, keuka.Stream], n_shards: int) -> dict[str, pa.Table]:
    slices = Slices(max(1, part.division.reach), max(1, part.division.reach), n_shards) if isinstance(part.division, BySlices) else None
    found: dict[str, list[pa.RecordBatch]] = {output.name: [] for output in part.tables.outputs}
    schemas = {}
    for output in part.tables.outputs:
        fields = [pa.field(a.name, a.arrow) for a in output.schema.attributes]
        schemas[output.name] = pa.schema([*fields, pa.field("_start", pa.int64()), pa.field("_end", pa.int64())])
    for shard in [None] if slices is None else range(n_shards):
        opened = [open_stream(s.name, sent(data[s.name], slices, shard)) for s in part.tables.sources]
        for batch in run(part.tables, opened):
            found[batch.output].append(batch.rows if slices is None or shard is None else own(batch.rows, slices, shard))
    return {name: pa.Table.from_batches(batches, schemas[name]) for name, batches in found.items()}


def sent(stream: keuka.Stream, slices: Slices | None, shard: int | None) -> keuka.Stream:
    """The rows that a shard gets: those of its slices, and those that matches in them can reach back to."""
    if slices is None:
        return stream
    end = stream.time if isinstance(stream.time, str) else stream.time[-1]
    ends = stream.data[end].to_pylist()
    chosen = [shard in {at // slices.length % slices.n_shards, (at + slices.reach) // slices.length % slices.n_shards} for at in ends]
    return keuka.Stream(stream.data.filter(pa.array(chosen, pa.bool_())), time=stream.time)


@given(examples(), st.integers(1, 5))
def test_a_program_divided_over_workers_gives_the_same(example: Example, n_shards: int):
    text, program, streams = example
    check(text.text, streams, without_contributors(by_reference(program, streams)), by_parts(program, streams, n_shards))


@given(examples(), st.integers(1, 5))
def test_so_does_a_set_of_queries(example: Example, n_shards: int):
    text, program, streams = example
    expected = without_contributors(by_reference(program, streams))
    if "K507" not in expected.values():
        check(text.text, streams, expected, as_a_set(program, streams, n_shards))


def test_an_absence_that_only_a_slice_sees_raises_nothing():
    """What is computed from it would overflow; so such queries are not divided by time."""
    last = 2**63 - 1
    rows = {"S": [(5, "a", 1, 0.0, True), (18, "a", last, 0.0, True)], "Q": [(21, "a", 0, 0.0, True)], "I": []}
    for text in ("SEQ(S a, !Q b) WITHIN 5 RETURN a.n + 1 AS m", "SEQ(!Q b, S a) WITHIN 5 RETURN a.n + 1 AS m"):
        program = lowered(keuka.sase(text))
        check(text, rows, without_contributors(by_reference(program, rows)), by_parts(program, rows, 2))


def test_why_a_query_is_not_divided_tells_apart_no_window_from_one_that_comes_too_late():
    reasons = {}
    for text in ("FROM S NEXT S", "FROM FILTER {DUR < 5} (S NEXT {$2.n + 1 > $1.n} S)"):
        (part,) = divide(plan(lowered(keuka.cel(text))), axis=AXIS, n_workers=2)
        assert isinstance(part.division, Undivided)
        reasons[text] = part.division.reason.partition(", and ")[2]
    assert [*reasons.values()] == ["has no window", "has no window that is tested before what can overflow"]
