"""Law 8 before there are threads: the events of a plan with a key, divided by it and evaluated apart, give what they give together."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import assume, event, given

from keuka.algebra.operators import Program
from keuka.plan.partition import Partition
from keuka.plan.planner import plan

from .keyed import keyed_programs
from .outcomes import Outcome, by_reference, check, lowered
from .queries import programs
from .streams import SHAPES, Row, Rows, rows

N_SHARDS = 3


@st.composite
def examples(draw: st.DrawFn) -> tuple[str, Program, Rows]:
    """A program and streams for it. Runs branch at simultaneous events, so several FOLDs get shorter streams."""
    streams, program = draw(rows()), draw(programs() if draw(st.integers(0, 9)) == 9 else keyed_programs())
    if program.n_folds > 1:
        streams = {stream: stream_rows[:12] for stream, stream_rows in streams.items()}
    return program.text, lowered(program.text), streams


def shards(partition: Partition, streams: Rows) -> list[Rows]:
    """The rows by a hash of their keys; those that may go anywhere by their number."""
    found: list[dict[str, list[Row]]] = [{stream: [] for stream in streams} for _ in range(N_SHARDS)]
    for stream, stream_rows in streams.items():
        places = [SHAPES[stream].arrow.get_field_index(name) for name in partition.columns.get(stream, ())]
        for number, row in enumerate(stream_rows):
            key = [row[place] for place in places]
            chosen = number if not key or None in key else zlib.crc32(repr([canonical(value) for value in key]).encode())
            found[chosen % N_SHARDS][stream].append(row)
    return found


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


@given(examples())
def test_events_divided_by_the_key_give_the_same(example: tuple[str, Program, Rows]):
    text, program, streams = example
    partition = plan(program).partition
    event("no key" if partition is None else f"{len(partition.types)} components")
    assume(partition is not None and partition.types)
    whole = by_reference(program, streams)
    event("results" if any(whole.values()) else "no results")
    check(f"{text}\nby {partition}", streams, whole, united([by_reference(program, shard) for shard in shards(partition, streams)]))
