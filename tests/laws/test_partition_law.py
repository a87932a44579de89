"""Law 8 before there are threads: the events of a plan with a key, divided by it and evaluated apart, give what they give together."""

from __future__ import annotations

import itertools
import math
import zlib
from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import assume, event, given

from keuka.algebra.operators import Program
from keuka.algebra.semantics import Event
from keuka.algebra.values import evaluate
from keuka.automaton.automata import AutomatonOperator
from keuka.automaton.contract import Partition, Plan
from keuka.plan.planner import plan
from keuka.run.interpreter import Epoch, UnfitValueError, interpreters

from .keyed import keyed_programs
from .outcomes import Outcome, by_reference, by_trace, check, lowered
from .queries import programs
from .streams import SHAPES, Row, Rows, events, rows

N_SHARDS = 3


@st.composite
def examples(draw: st.DrawFn) -> tuple[str, Program, Rows]:
    """A program and streams for it. Runs branch at simultaneous events, so several FOLDs get shorter streams."""
    streams, program = draw(rows()), draw(programs() if draw(st.integers(0, 9)) == 9 else keyed_programs())
    if program.n_folds > 1:
        streams = {stream: stream_rows[:12] for stream, stream_rows in streams.items()}
    return program.text, lowered(program), streams


def shards(partition: Partition, streams: Rows) -> list[Rows]:
    """The rows by a hash of their keys; those that may go anywhere by their number."""
    found: list[dict[str, list[Row]]] = [{stream: [] for stream in streams} for _ in range(N_SHARDS)]
    for stream, stream_rows in streams.items():
        for number, row in enumerate(stream_rows):
            key = key_of(partition, stream, row)
            chosen = number if not key or None in key else zlib.crc32(repr(key).encode())
            found[chosen % N_SHARDS][stream].append(row)
    return found


def key_of(partition: Partition, stream: str, row: Row) -> list[Any]:
    """The values of a row's key; none for a stream that can be divided at will."""
    return [canonical(row[SHAPES[stream].arrow.get_field_index(name)]) for name in partition.columns.get(stream, ())]


def canonical(value: Any) -> Any:
    """One form for all values that are equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def united(outcomes: list[Outcome]) -> Outcome:
    """The bags together; an overflow in one shard is the end of the output."""
    found: dict[str, Counter[Any] | str] = {}
    for name in outcomes[0]:
        each = [outcome[name] for outcome in outcomes]
        errors = [one for one in each if isinstance(one, str)]
        found[name] = errors[0] if errors else sum([one for one in each if isinstance(one, Counter)], Counter())
    return found


def keyed(program: Program) -> Plan:
    """The plan of a program that has a key; others are not looked at."""
    planned = plan(program)
    event("no key" if planned.partition is None else f"{len(planned.partition.types)} components")
    assume(planned.partition is not None and planned.partition.types)
    return planned


@given(examples())
def test_events_divided_by_the_key_give_the_same(example: tuple[str, Program, Rows]):
    text, program, streams = example
    partition = keyed(program).partition
    assert partition is not None
    whole = by_reference(program, streams)
    event("results" if any(whole.values()) else "no results")
    check(f"{text}\nby {partition}", streams, whole, united([by_reference(program, shard) for shard in shards(partition, streams)]))


def operators_of(planned: Plan) -> dict[str, AutomatonOperator]:
    return {stage.name: stage.physical for stage in planned.stages if isinstance(stage.physical, AutomatonOperator)}


@given(examples())
def test_an_instance_holds_the_key_of_its_events_where_the_plan_says(example: tuple[str, Program, Rows]):
    text, program, streams = example
    planned = keyed(program)
    assert planned.partition is not None
    machines = interpreters({name: operator.automaton for name, operator in operators_of(planned).items()})
    arrivals = sorted([(e.end, stream, e) for stream, found in events(streams).items() for e in found], key=lambda a: a[:2])
    for end, epoch in itertools.groupby(arrivals, key=lambda a: a[0]):
        present: dict[str, list[Event]] = {}
        for _, stream, arrived in epoch:
            present.setdefault(stream, []).append(arrived)
        for name, machine in machines.items():
            record = Epoch()
            try:
                machine.process(end, present, record)
            except UnfitValueError:
                return
            present[name] = record.results
            for instance in machine.instances:
                keys = machine.automaton.states[instance.state].conditions.keys
                ordinals = planned.partition.ordinals[name][instance.state]
                held = [evaluate(keys[i][1], (instance.event.payload, (), instance.last)) for i in ordinals]
                behind = [key_of(planned.partition, stream, streams[stream][row]) for stream, row in instance.event.contributors]
                assert all(of_one == [canonical(v) for v in held] for of_one in behind), f"{text}\n{instance}\n{held} {behind}"


@given(examples(), st.integers(0, 60))
def test_the_trace_of_a_key_has_the_matches_of_its_events(example: tuple[str, Program, Rows], number: int):
    text, program, streams = example
    last = Program(program.outputs[-1:])
    partition = keyed(last).partition
    assert partition is not None
    keys = [key_of(partition, stream, row) for stream in partition.columns for row in streams[stream]]
    assume(keys)
    key = keys[number % len(keys)]
    alone = {s: [row for row in found if key_of(partition, s, row) == key] for s, found in streams.items()}
    check(f"{text}\nfor {key}", streams, by_reference(last, alone), by_trace(last, streams, key=key))
