"""A query is compiled once for streams that are alike, and what it was compiled to before never shows in a result."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

import keuka
from keuka.query import MOST_COMPILED, prepare

ROWS = {"t": [1, 2, 2, 4], "k": [1, 1, 2, 1], "x": [5, 7, 7, 9], "type": ["A", "B", "A", "B"]}
EVENTS = pa.table(ROWS)
PAIRS = "SEQ(A a, B b) WHERE [k] AND b.x - a.x > :least WITHIN 3 RETURN a.x AS x, b.t AS t PUBLISH Pairs"
OPTIONS: dict[str, Any] = {"time": "t", "type_column": "type", "params": {"least": 1}}


def in_days(zone: str | None) -> pa.Table:
    times = pa.array([datetime(2026, 1, t, tzinfo=UTC) for t in ROWS["t"]], pa.timestamp("us", "UTC"))
    return EVENTS.set_column(0, "t", times.cast(pa.timestamp("us", zone)))


def with_column(name: str, values: list[Any]) -> pa.Table:
    return EVENTS.set_column(EVENTS.schema.get_field_index(name), name, pa.array(values))


# Each differs from the first in one thing that decides what a query becomes.
CALLS: dict[str, Callable[[keuka.Query], object]] = {
    "as it is": lambda q: keuka.match(q, EVENTS, **OPTIONS),
    "another value": lambda q: keuka.match(q, EVENTS, **OPTIONS | {"params": {"least": 2}}),
    "a value of another type": lambda q: keuka.match(q, EVENTS, **OPTIONS | {"params": {"least": 1.0}}),
    "contributors": lambda q: keuka.match(q, EVENTS, **OPTIONS, contributors=True),
    "a column of another type": lambda q: keuka.match(q, with_column("x", [5.0, 7.5, 7.5, 9.0]), **OPTIONS),
    "a key of another type": lambda q: keuka.match(q, with_column("k", ["a", "a", "b", "a"]), **OPTIONS),
    "another order of columns": lambda q: keuka.match(q, EVENTS.select(["type", "x", "k", "t"]), **OPTIONS),
    "ticks that are days": lambda q: keuka.match(q, EVENTS, **OPTIONS, unit="day"),
    "timestamps": lambda q: keuka.match(q, in_days(None), **OPTIONS),
    "timestamps of a zone": lambda q: keuka.match(q, in_days("Asia/Tokyo"), **OPTIONS),
    "timestamps of another zone": lambda q: keuka.match(q, in_days("Europe/Paris"), **OPTIONS),
    "two streams": lambda q: keuka.match(q, {"A": EVENTS, "B": EVENTS}, time="t", params={"least": 1}),
    "another type column": lambda q: keuka.match(q, EVENTS.rename_columns(["t", "k", "x", "kind"]), **OPTIONS | {"type_column": "kind"}),
    "all outputs": lambda q: keuka.match_all(q, EVENTS, **OPTIONS),
    "a name": lambda q: keuka.match(q, {"Events": EVENTS}, **OPTIONS),
}


def outcome(call: Callable[[keuka.Query], object], query: keuka.Query) -> object:
    try:
        result = call(query)
    except keuka.KeukaError as error:
        return str(error)
    tables = result if isinstance(result, dict) else {"": result}
    return {name: (table.schema, table.to_pylist()) for name, table in tables.items()}


def test_a_used_query_gives_what_a_new_one_gives():
    """One after the other in both directions; a window of days is a mistake where ticks are only numbers."""
    for text in (PAIRS, PAIRS.replace("WITHIN 3", "WITHIN 2 days")):
        expected = {name: outcome(call, keuka.sase(text)) for name, call in CALLS.items()}
        used = keuka.sase(text)
        for name in [*CALLS, *reversed(CALLS), *CALLS]:
            assert outcome(CALLS[name], used) == expected[name], name
        assert len(used.compiled) <= MOST_COMPILED


def test_streams_that_are_alike_share_the_tables():
    query = keuka.sase(PAIRS)
    first = prepare(query, EVENTS, **OPTIONS)
    assert prepare(query, EVENTS.slice(2), **OPTIONS).tables is first.tables
    assert prepare(query, EVENTS, **OPTIONS | {"params": {"least": 2}}).tables is not first.tables


def test_what_the_planner_asked_of_the_data_is_asked_again():
    query = keuka.sase("SEQ(A a, B b) WHERE [k, x] WITHIN 3")
    plans = [prepare(query, table, time="t", type_column="type") for table in (EVENTS, with_column("k", [1, 2, 3, 4]), EVENTS)]
    assert [dict(plan.plan.partition.columns) for plan in plans if plan.plan.partition] == [{"events": (column,)} for column in "xkx"]


def test_a_query_travels_without_what_it_was_compiled_to():
    query = keuka.sase(PAIRS)
    keuka.match(query, EVENTS, **OPTIONS)
    moved = pickle.loads(pickle.dumps(query))
    assert not moved.compiled
    assert keuka.match(moved, EVENTS, **OPTIONS).equals(keuka.match(query, EVENTS, **OPTIONS))
