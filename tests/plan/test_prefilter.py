"""What must be true of an event for it to matter to a query, so that others are dropped before the kernel."""

from __future__ import annotations

import pyarrow as pa
import pytest

import keuka
from keuka.expressions import Call, show
from keuka.plan.prefilter import MOST_ALTERNATIVES, MOST_CONSTANTS, needed
from keuka.query import prepare
from workloads import w1, w2

COLUMNS = [("ts", pa.int64()), ("type", pa.string()), ("Name", pa.string()), ("Price", pa.float64()), ("Volume", pa.int64())]
EVENTS = pa.table([pa.array([], kind) for _, kind in COLUMNS], names=[name for name, _ in COLUMNS])


def cel(text: str) -> dict[str, str]:
    """By stream, for streams that all have the same columns."""
    query = keuka.cel(text)
    return shown(query, dict.fromkeys(query.inputs, EVENTS))


def sase(text: str) -> dict[str, str]:
    """Over one table of all events."""
    return shown(keuka.sase(text), EVENTS, type_column="type")


def shown(query: keuka.Query, streams: object, **options: object) -> dict[str, str]:
    found = needed(prepare(query, streams, time="ts", **options).plan)  # type: ignore[arg-type]
    return {stream: show(predicate) for stream, predicate in found.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM S", {}),
        ("FROM FILTER {Volume > 100} S", {"S": "Volume > 100"}),
        ("FROM FILTER {Volume > 100 AND Name = 'IBM'} S", {"S": "Name = 'IBM' AND Volume > 100"}),
        ("FROM FILTER {DUR < 5 AND Volume > 100} S", {"S": "Volume > 100"}),
        ("FROM FILTER {DUR < 5} S", {}),
        ("FROM FILTER {FALSE} S", {"S": "FALSE"}),
        ("FROM FILTER {a > 100} (SELECT Volume AS a FROM S)", {"S": "Volume > 100"}),
        ("FROM FILTER {a > 100} (SELECT Price * 2 AS a FROM S)", {"S": "Price * 2.0 > 100.0"}),
        ("FROM FILTER {a > 1} (SELECT a / 2 AS a FROM FILTER {a > 5} (SELECT Price / 2 AS a FROM S))",
         {"S": "Price / 2.0 > 5.0 AND Price / 2.0 / 2.0 > 1.0"}),
        # Every event of S can be the next one, and B ends in nothing.
        ("FROM FILTER {Volume > 100} S NEXT {$2.Name = $1.Name} S", {}),
        ("FROM FILTER {Volume > 100} A NEXT {$2.Name = $1.Name} B", {"A": "Volume > 100"}),
        ("FROM A NEXT {$2.Name = $1.Name AND $2.Price > 5} FILTER {Volume < 9} B", {"B": "Volume < 9 AND Price > 5.0"}),
        ("FROM A NEXT {$1.Price > 5 AND DUR < 5} B", {}),
        ("FROM FILTER {Volume = 1} S NEXT {$2.Volume IN (2, 3)} S", {"S": "Volume IN (1, 2, 3)"}),
        # Whatever follows and has the name is the next one; if its price is higher, the run is at its end.
        ("FROM A FOLD {$2.Name = 'IBM' AND $2.Name = $.Name, $2.Price < 5} B", {"B": "Name = 'IBM'"}),
        ("FROM FILTER {Price > 1} (A NEXT {$2.Volume > 5} B)", {"B": "Volume > 5"}),
        ("FROM FILTER {Price > 1} S UNION FILTER {Price > 2 AND Volume = 1} S UNION FILTER {Price > 1 AND Volume = 2} S",
         {"S": "Price > 1.0 OR Volume = 1 AND Price > 2.0"}),
        ("FROM FILTER {Price > 1} S PUBLISH P; FROM FILTER {Volume > 5} P NEXT FILTER {Name = 'x'} A",
         {"S": "Price > 1.0", "A": "Name = 'x'"}),
    ],
)  # fmt: skip
def test_what_an_event_of_a_stream_must_satisfy(text: str, expected: dict[str, str]):
    assert cel(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Filters are evaluated for every event, so an event that fails is needed, whatever comes behind.
        ("FROM FILTER {Volume * 2 > 100} S", {}),
        ("FROM FILTER {Price > 1} FILTER {Volume * 2 > 100} S", {}),
        ("FROM FILTER {Volume * 2 > 100} FILTER {Price > 1} S", {"S": "Price > 1.0"}),
        # A term that is not true makes up for one that fails.
        ("FROM FILTER {Volume * 2 > 100 AND Price > 1} S", {"S": "Price > 1.0"}),
        ("FROM FILTER {Volume * 2 > 100 OR Price > 1} S", {}),
        ("FROM FILTER {b > 1} (SELECT Volume * 2 AS a, Price AS b FROM S)", {}),
        ("FROM FILTER {b > 1} (SELECT Volume * 2 AS a, Price AS b FROM FILTER {Name = 'x'} S)", {"S": "Name = 'x'"}),
        ("FROM A NEXT {$2.Volume * $1.Volume > 1 AND $2.Price > 5} B", {"B": "Price > 5.0"}),
        ("FROM A NEXT {$2.Price > 5} (SELECT Volume * 2 AS v, Price FROM B)", {}),
    ],
)
def test_an_event_that_can_fail_is_needed(text: str, expected: dict[str, str]):
    assert cel(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SEQ(A a, B b, C c) WHERE [Name] WITHIN 10", "type IN ('A', 'B', 'C')"),
        ("SEQ(A a, !B b, C c) WHERE [Name] WITHIN 10", "type IN ('A', 'B', 'C')"),
        ("SEQ(A a, A b) WITHIN 10", "type = 'A'"),
        ("SEQ(A a, B b, !C c) WHERE a.Price > 5 AND c.Volume = 1 WITHIN 10",
         "type = 'A' AND Price > 5.0 OR type = 'B' OR type = 'C' AND Volume = 1"),
        ("SEQ(A a, B b) WHERE [Name = 'x'] WITHIN 10", "type IN ('A', 'B') AND Name = 'x'"),
        # Only what every alternative asks for must hold.
        ("SEQ(A a, B b) WHERE a.Price > 5 OR b.Price > 5 WITHIN 10", "type IN ('A', 'B')"),
        ("SEQ(A a, !B b, C c) WHERE (a.Price > 5 AND b.Volume = 1) OR b.Volume = 1 WITHIN 10",
         "type IN ('A', 'C') OR type = 'B' AND Volume = 1"),
        # In WHERE an event fails only as a part of a combination, and a term that is false makes up for it.
        ("SEQ(A a, B b) WHERE a.Volume * 2 > 5 AND a.Price > 1 WITHIN 10", "type = 'A' AND Price > 1.0 OR type = 'B'"),
        ("SEQ(A a (Volume * 2 > 5), B b) WHERE a.Price > 1 WITHIN 10", "type IN ('A', 'B')"),
        ("SEQ(ANY(A, B) a, C c) WITHIN 10", "type IN ('A', 'B', 'C')"),
        ("UNORDERED(A a, B b) WHERE a.Price > 5 WITHIN 10", "type = 'A' AND Price > 5.0 OR type = 'B'"),
    ],
)  # fmt: skip
def test_what_an_event_of_a_table_of_types_must_satisfy(text: str, expected: str):
    assert sase(text) == {"events": expected}


@pytest.mark.parametrize("workload", [w2.W2, w2.W3, w2.W3_AFTER], ids=lambda workload: workload.name)
def test_of_twenty_types_three_are_needed(workload: w2.Workload):
    found = shown(keuka.sase(workload.query), w2.generate(workload, 100), type_column="type")
    assert found == {"events": "type IN ('A', 'B', 'C')"}


def test_every_trade_can_continue_a_run_of_w1():
    assert shown(keuka.cel(w1.QUERY), w1.generate(100)) == {}


def test_many_queries_still_say_which_types_they_read():
    n = MOST_ALTERNATIVES + 1
    rules = [keuka.cel(f"FROM FILTER {{Price > {i}}} A NEXT {{$2.Name = $1.Name}} B PUBLISH P{i}") for i in range(n)]
    (predicate,) = needed(prepare(keuka.query(rules[:5]), EVENTS, time="ts", type_column="type").plan).values()
    assert show(predicate).count("type = 'A' AND Price >") == 5
    assert shown(keuka.query(rules), EVENTS, type_column="type") == {"events": "type IN ('A', 'B')"}


def test_what_takes_too_long_to_say_is_not_said():
    many = [keuka.cel(f"FROM FILTER {{Price > {i}}} S PUBLISH P{i}") for i in range(MOST_ALTERNATIVES + 1)]
    assert shown(keuka.query(many), {"S": EVENTS}) == {}
    constants = ", ".join([str(i) for i in range(MOST_CONSTANTS + 1)])
    assert cel(f"FROM FILTER {{Volume IN ({constants})}} S") == {}


def test_values_computed_from_computed_values_do_not_grow_without_bound():
    text = "S"
    for _ in range(40):
        text = f"(SELECT Price + Price AS Price FROM {text})"
    assert cel(f"FROM FILTER {{Price > 1}} {text}") == {}
    assert cel(f"FROM FILTER {{Price > 1}} {text} PUBLISH A; FROM FILTER {{Volume = 1}} S") == {}


def test_a_predicate_cannot_fail_and_reads_the_event_alone():
    text = "FROM FILTER {Volume * 2 > 1 AND Price > 1 AND DUR < 5} S NEXT {$2.Price > $1.Price AND $2.Name = 'x'} S"
    (predicate,) = needed(prepare(keuka.cel(text), EVENTS, time="ts").plan).values()
    assert show(predicate) == "Price > 1.0 OR Name = 'x'"
    assert isinstance(predicate, Call)
