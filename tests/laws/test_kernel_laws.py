"""Laws of the forest and its state: merging and loading change nothing (law 4), nor do snapshots (law 7), moved keys or threads (law 8)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, event, given

import keuka
from keuka.algebra.operators import Map, Program
from keuka.automaton.compile import compile_tables
from keuka.automaton.tables import Tables, from_bytes, to_bytes
from keuka.events.frontiers import reordered
from keuka.events.order import EventBatch, common_axis, in_order
from keuka.events.sources import OpenStream, open_stream
from keuka.expressions import Column
from keuka.plan.planner import output_names, plan
from keuka.run import state
from keuka.run.results import MatchBatch
from keuka.run.runner import Runner
from keuka.schema import Schema, Type

from .keyed import keyed_programs
from .outcomes import Outcome, bag_of_table, by_reference, check, known_by, lowered, processed, rows_by_id
from .queries import Program as ProgramText
from .sase_queries import any_programs, sase_programs
from .streams import SHAPES, Rows, rows, table

Step = dict[str, EventBatch]
BEGINNING = -(2**63)


@st.composite
def streams_for(draw: st.DrawFn, *texts: ProgramText) -> Rows:
    n = min([text.most_events for text in texts], default=25)
    n = min(n, 12) if sum([text.n_folds for text in texts]) > 1 else n
    return {stream: stream_rows[:n] for stream, stream_rows in draw(rows()).items()}


def tables_of(program: Program) -> Tables:
    """As they would come out of a snapshot."""
    return from_bytes(to_bytes(compile_tables(plan(program, contributors=True))))


def opened(streams: Rows) -> list[OpenStream]:
    return [open_stream(s, keuka.Stream(table(s, streams[s]), time=SHAPES[s].time)) for s in SHAPES]


def runner_of(streams: Rows, *, threads: int = 1) -> Runner:
    inputs = opened(streams)
    return Runner(inputs, common_axis(inputs), threads)


def epochs(streams: Rows, chunk_rows: int = 2) -> list[Step]:
    return list(in_order(opened(streams), {s: tuple(SHAPES[s].arrow.names) for s in SHAPES}, chunk_rows))


def outcome(program: Program, streams: Rows, found: Iterable[MatchBatch], query: str) -> Outcome:
    """What a query gave, as the reference evaluator says it."""
    sources = rows_by_id(streams)
    bags: dict[str, Counter[object]] = {name: Counter() for name in output_names(program)}
    for batch in found:
        if batch.query == query:
            bags[batch.output] += bag_of_table(pa.Table.from_batches([batch.rows]), sources)
    return bags


def without_overflow(expected: Outcome) -> Outcome:
    assume("K507" not in expected.values())
    event("results" if any(expected.values()) else "no results")
    return expected


def keyed_sase() -> st.SearchStrategy[ProgramText]:
    """Sequences of which all components have the key."""
    return sase_programs().filter(lambda program: "[k]" in program.text or "[n]" in program.text)


def ids(found: Iterable[MatchBatch]) -> list[tuple[str, str, str]]:
    return sorted([(b.query, b.output, i) for b in found for i in b.rows.column("_id").to_pylist()])


@given(st.data())
def test_queries_loaded_together_give_what_each_gives_alone(data: st.DataObject):
    """Programs often begin alike, or are the same: then they share states."""
    first = data.draw(any_programs())
    texts = [first, data.draw(st.one_of(st.just(first), any_programs())), data.draw(any_programs())]
    streams = data.draw(streams_for(*texts))
    lowered_ = [lowered(text) for text in texts]
    expected = [without_overflow(by_reference(program, streams)) for program in lowered_]
    runner = runner_of(streams)
    for i, program in enumerate(lowered_):
        runner.load(f"q{i}", tables_of(program))
    n_parts = len({part for i in range(3) for part in runner.forest.parts_of(f"q{i}")})
    event("parts are shared" if n_parts < sum([len(runner.forest.parts_of(f"q{i}")) for i in range(3)]) else "nothing is shared")
    found = [batch for step in [*epochs(streams), {}] for batch in processed(runner, step)]
    for i, program in enumerate(lowered_):
        check(texts[i].text, streams, expected[i], outcome(program, streams, found, f"q{i}"))


@given(st.data())
def test_a_query_loaded_in_mid_stream_sees_later_epochs_only(data: st.DataObject):
    """The same query may be there from the beginning, and another one may go: neither shows."""
    text = data.draw(any_programs())
    streams = data.draw(streams_for(text, text))
    program = lowered(text)
    tables = tables_of(program)
    steps = epochs(streams)
    loaded_at, gone_at = sorted(data.draw(st.tuples(st.integers(0, len(steps)), st.integers(0, len(steps)))))
    since = max([int(batch.end[-1]) for step in steps[:loaded_at] for batch in step.values()], default=BEGINNING)
    last = max([int(batch.end[-1]) for step in steps[:gone_at] for batch in step.values()], default=BEGINNING)
    end = {s: SHAPES[s].arrow.get_field_index(SHAPES[s].time if isinstance(SHAPES[s].time, str) else SHAPES[s].time[-1]) for s in SHAPES}
    seen = {s: [row for row in stream_rows if row[end[s]] > since] for s, stream_rows in streams.items()}
    early = {s: [row for row in stream_rows if row[end[s]] <= last] for s, stream_rows in streams.items()}
    expected = without_overflow(by_reference(program, seen))
    expected_early = known_by(last, without_overflow(by_reference(program, early)))
    without_overflow(by_reference(program, streams))
    runner = runner_of(streams)
    if data.draw(st.booleans()):
        runner.load("early", tables)
    found: list[MatchBatch] = []
    for i, step in enumerate([*steps, {}]):
        if i == loaded_at:
            runner.load("late", tables, since)
        if i == gone_at and "early" in runner.forest.queries:
            runner.unload("early")
            if data.draw(st.booleans()):
                runner.forest.compact()
            check(text.text, early, expected_early, outcome(program, streams, found, "early"))
        found += processed(runner, step)
    check(text.text, seen, expected, outcome(program, streams, found, "late"))
    runner.unload("late")
    assert not [store for kind in runner.forest.kinds for store in kind.stores()]
    assert runner.machines[0].n_bytes >= 0


def narrow(program: Program) -> Program:
    """The same, but only one column of the last output is wanted: its states keep fewer values."""
    name, operator = program.outputs[-1]
    first = operator.schema.attributes[0]
    return Program((*program.outputs[:-1], (name, Map(operator, (Column(0, 0, first.type, first.name),), Schema((first,))))))


def sizes_of_states(taken: state.ShardState) -> set[tuple[str, int]]:
    """A state may be there more than once, with more values or fewer."""
    return {(name.split("/")[1], table.num_rows) for name, table in taken.kernel.items() if name.startswith("state/")}


@given(st.data())
def test_stopping_anywhere_and_going_on_from_a_snapshot_gives_the_same(data: st.DataObject):
    text = data.draw(any_programs())
    streams = data.draw(streams_for(text))
    program = lowered(text)
    expected = without_overflow(by_reference(program, streams))
    steps = epochs(streams)
    cut = data.draw(st.integers(0, len(steps)))
    tables = {"q": tables_of(program), "narrow": tables_of(narrow(program))}
    # What keeps fewer values shares the states of the other, or has its own of the same name, by the order they come in.
    names = data.draw(st.sampled_from([("q",), ("narrow", "q"), ("q", "narrow")]))
    runner = runner_of(streams)
    for name in names:
        runner.load(name, tables[name])
    found = [batch for step in steps[:cut] for batch in processed(runner, step)]
    taken = state.take(runner)
    event("with instances" if any(name.startswith(("state/", "stack/")) for name in taken.kernel) else "empty")
    another = runner_of(streams)
    if data.draw(st.booleans()):
        other = lowered(data.draw(any_programs()))
        without_overflow(by_reference(other, streams))
        another.load("other", tables_of(other), 2**62)
    again = data.draw(st.sampled_from([names, ("q",)]))
    for name in again:
        another.load(name, tables[name])
    state.put(another, taken)
    assert (sizes_of_states(state.take(another)) == sizes_of_states(taken)) or again != names
    there = [*found, *[batch for step in [*steps[cut:], {}] for batch in processed(another, step)]]
    here = [*found, *[batch for step in [*steps[cut:], {}] for batch in processed(runner, step)]]
    check(text.text, streams, expected, outcome(program, streams, there, "q"))
    assert ids([b for b in there if b.query in again]) == ids([b for b in here if b.query in again])
    state.drop(runner)
    assert runner.usage("q").n_instances == 0


@given(st.data())
def test_keys_moved_to_another_kernel_in_mid_stream_change_nothing(data: st.DataObject):
    text = data.draw(st.one_of(keyed_programs(), keyed_sase()))
    streams = data.draw(streams_for(text))
    program = lowered(text)
    planned = plan(program, contributors=True)
    assume(planned.partition is not None and planned.partition.types)
    assert planned.partition is not None
    expected = without_overflow(by_reference(program, streams))
    steps = epochs(streams)
    cut = data.draw(st.integers(0, len(steps)))
    stays = data.draw(st.integers(0, 3))
    tables = compile_tables(planned)
    home, away = runner_of(streams), runner_of(streams)
    for runner in (home, away):
        runner.load("q", tables)
    found = [batch for step in steps[:cut] for batch in processed(home, step)]
    keys = sorted({repr(k): k for k in moved_keys(planned.partition.columns, streams, stays)}.items())
    fields = [pa.field(f"f{i}", arrow_type(type_)) for i, type_ in enumerate(planned.partition.types)]
    columns = [pa.array([key[i] for _, key in keys], field.type) for i, field in enumerate(fields)]
    chosen = pa.StructArray.from_arrays(columns, fields=fields)
    state.put(away, state.take(home, chosen))
    state.drop(home, chosen)
    event("instances move" if away.usage("q").n_instances else "nothing moves")
    moved = {repr(canonical_key(key)) for _, key in keys}
    for step in steps[cut:]:
        for runner, mine in ((home, False), (away, True)):
            part = {s: kept for s, b in step.items() if (kept := rows_with(b, planned.partition.columns.get(s, ()), moved, mine))}
            if part:
                found += processed(runner, part)
    found += [batch for runner in (home, away) for batch in processed(runner, {})]
    check(f"{text.text}\nby {planned.partition}", streams, expected, outcome(program, streams, found, "q"))


@pytest.mark.parametrize("condition", ["$2.x = $1.x", "$2.x = $1.x AND $2.k = $1.k"])
def test_nan_and_the_zeros_of_either_sign_are_keys(condition: str):
    streams: Rows = {"S": [(1, "a", 0, -0.0, True), (2, "a", 0, math.nan, True), (3, "a", 0, 1.0, True)], "Q": [], "I": []}
    planned = plan(lowered(f"FROM S NEXT {{{condition}}} S"))
    assert planned.partition is not None
    runner = runner_of(streams)
    runner.load("q", compile_tables(planned))
    for step in epochs(streams):
        processed(runner, step)
    columns = {"x": pa.array([0.0, math.nan]), "k": pa.array(["a", "a"])}
    keys = pa.StructArray.from_arrays([columns[name] for name in planned.partition.columns["S"]], names=planned.partition.columns["S"])
    state.drop(runner, keys)
    assert runner.usage("q").n_instances == 1


@pytest.mark.parametrize("query", [keuka.cel("FROM S NEXT {$2.b = $1.b} S"), keuka.sase("SEQ(S v0, S v1) WHERE [b] WITHIN 9")])
def test_truth_values_are_keys(query: keuka.Query):
    streams: Rows = {"S": [(1, "a", 0, 0.0, True), (2, "a", 0, 0.0, False), (3, "a", 0, 0.0, True)], "Q": [], "I": []}
    program = lowered(query)
    planned = plan(program, contributors=True)
    home, away = runner_of(streams), runner_of(streams)
    for runner in (home, away):
        runner.load("q", compile_tables(planned))
    steps = epochs(streams, 1)
    found = [batch for step in steps[:2] for batch in processed(home, step)]
    before = home.usage("q").n_instances
    falsehood = pa.StructArray.from_arrays([pa.array([False])], names=["b"])
    state.put(away, state.take(home, falsehood))
    state.drop(home, falsehood)
    assert 0 < home.usage("q").n_instances == before - away.usage("q").n_instances < before
    found += [batch for step in [*steps[2:], {}] for batch in processed(home, step)]
    check(str(query), streams, by_reference(program, streams), outcome(program, streams, found, "q"))


def arrow_type(type_: Type) -> pa.DataType:
    found = {Type.STRING: pa.string(), Type.DOUBLE: pa.float64(), Type.BOOLEAN: pa.bool_()}
    return found.get(type_, pa.int64())


def canonical_key(key: tuple[object, ...]) -> tuple[object, ...]:
    return tuple([value + 0.0 if isinstance(value, float) else value for value in key])


def moved_keys(columns: object, streams: Rows, stays: int) -> list[tuple[object, ...]]:
    found = []
    assert isinstance(columns, dict)
    for stream, names in columns.items():
        places = [SHAPES[stream].arrow.get_field_index(name) for name in names]
        for row in streams[stream]:
            key = tuple([row[place] for place in places])
            if None not in key and len(repr(canonical_key(key))) % 4 != stays:
                found.append(canonical_key(key))
    return found


def rows_with(batch: EventBatch, names: tuple[str, ...], moved: set[str], wanted: bool) -> EventBatch | None:
    columns = [batch.column(name).to_pylist() for name in names]
    keys = [canonical_key(key) for key in zip(*columns, strict=True)] if names else [()] * len(batch)
    chosen = np.array([i for i, key in enumerate(keys) if (repr(key) in moved) == wanted], np.int64)
    if not len(chosen):
        return None
    return reordered(batch, chosen)


@given(st.data())
def test_four_threads_give_what_one_gives(data: st.DataObject):
    text = data.draw(st.one_of(keyed_programs(), keyed_sase()))
    streams = data.draw(streams_for(text))
    program = lowered(text)
    tables = compile_tables(plan(program, contributors=True))
    assume(tables.partition is not None)
    expected = without_overflow(by_reference(program, streams))
    runner = runner_of(streams, threads=4)
    runner.load("q", tables)
    found = [batch for step in [*epochs(streams, data.draw(st.sampled_from([1, 3, 100]))), {}] for batch in processed(runner, step)]
    check(text.text, streams, expected, outcome(program, streams, found, "q"))
