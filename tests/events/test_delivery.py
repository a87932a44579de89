"""Matches of several rules in one table: the order of `_end`, names, rules that come and go before a delivery."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keuka.events import delivery
from keuka.events.columns import ticks
from keuka.events.delivery import Delivery, by_end

SCHEMA = pa.schema({"n": pa.int64(), "_start": pa.int64(), "_end": pa.int64()})
OTHER = pa.schema({"m": pa.int64(), "_start": pa.int64(), "_end": pa.int64()})


def batch(ends: list[int], first: int = 0, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    numbers = range(first, first + len(ends))
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), pa.array(ends, pa.int64()), pa.array(ends, pa.int64())], schema=schema
    )


@given(st.lists(st.lists(st.integers(0, 9), min_size=1).map(sorted), min_size=1, max_size=5))
def test_rows_of_several_batches_come_in_the_order_of_their_end(ends: list[list[int]]):
    batches = [batch(found, 100 * i) for i, found in enumerate(ends)]
    expected = sorted([row for found in batches for row in found.to_pylist()], key=lambda row: row["_end"])
    assert [row for found in by_end(batches) for row in found.to_pylist()] == expected
    # What is done where the rows are too long to be copied into one batch.
    pieces = delivery._epochs(batches, [ticks(found.column("_end")) for found in batches])
    assert [row for found in pieces for row in found.to_pylist()] == expected


def test_names_stand_in_front():
    found = Delivery()
    for name in ("a", "b"):
        found.announce(name, "out", name, SCHEMA)
    found.collect([("b", "out", batch([7] * 3))])
    found.collect([("a", "out", batch([8])), ("b", "out", batch([8]))])
    table = found.deliver().table
    assert table.column("_query").to_pylist() == ["b", "b", "b", "a", "b"]
    assert table.schema.field(0).type == pa.dictionary(pa.int32(), pa.string())


def test_tables_do_not_change_when_rules_do_before_they_are_asked_for():
    found = Delivery()
    found.announce("a", "out", "a", SCHEMA)
    found.collect([("a", "out", batch([1]))])
    matches = found.deliver()
    found.withdraw("a", "out")
    found.announce("a", "out", "new", OTHER)
    assert matches.of("a").num_rows == 1
    assert list(matches.queries) == ["a"]


def test_tables_are_there_while_a_rule_has_their_schema():
    found = Delivery()
    assert found.deliver().tables == ()
    found.announce("a", "out", "a", SCHEMA)
    found.announce("b", "out", "b", OTHER)
    assert [table.column_names[1] for table in found.deliver()] == ["n", "m"]
    found.withdraw("a", "out")
    assert [table.column_names[1] for table in found.deliver()] == ["m"]


def test_matches_of_a_rule_that_went_and_of_its_namesake_are_both_delivered():
    found = Delivery()
    found.announce("a", "out", "a", SCHEMA)
    found.announce("b", "out", "b", SCHEMA)
    found.collect([("a", "out", batch([1])), ("b", "out", batch([0]))])
    found.withdraw("a", "out")
    found.announce("a", "out", "a", OTHER)
    found.collect([("a", "out", batch([2], schema=OTHER)), ("b", "out", batch([2]))])
    matches = found.deliver()
    assert [(row["_query"], row["_end"]) for row in matches.to_pylist()] == [("b", 0), ("a", 1), ("b", 2), ("a", 2)]
    assert matches.of("b").num_rows == 2
    assert len(found.deliver()) == 0
    assert sorted(found.deliver().queries) == ["a", "b"]


def test_what_was_not_delivered_can_be_put_back():
    found, again = Delivery(), Delivery()
    found.announce("a", "out", "a", SCHEMA)
    found.collect([("a", "out", batch([1, 2]))])
    for table in found.pending():
        again.put_back(table)
    assert again.deliver().of("a").equals(found.deliver().of("a"))
    assert len(again.deliver()) == 0
