"""What `trace` shows: whole traces of worked examples as golden files, and one small case for each thing that can happen to an event.

`pytest --rewrite-goldens` writes tests/golden/traces anew; read the difference as a user would before it is kept.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

import keuka

GOLDEN = Path(__file__).parents[1] / "golden"

# (worked example, key, limit)
TRACES: dict[str, tuple[str, object, int]] = {
    "query_7_matches_ibm": ("query_7_on_table_1", "IBM", 50),
    "query_7_over_all_events": ("query_7_on_table_1", None, 50),
    "query_7_why_not": ("query_7_with_an_event_that_ends_the_run", "IBM", 50),
    "double_top_of_three_streams": ("double_top_by_resubscription", "Dell", 6),
    "intervals_that_overlap": ("figure_1_intervals", None, 50),
}


@pytest.mark.parametrize("name", TRACES)
def test_the_trace_of_a_worked_example_is_the_golden_one(name: str, rewrite_goldens: bool):
    example, key, limit = TRACES[name]
    folder = GOLDEN / "worked_examples" / example
    tables = {path.stem: pyarrow.csv.read_csv(path) for path in folder.glob("*.csv") if not path.name.startswith("matches")}
    time = ("start", "end") if any("start" in table.column_names for table in tables.values()) else "Time"
    found = f"{keuka.query(folder / 'query.cel').trace(tables, time=time, key=key, limit=limit)}\n"
    file = GOLDEN / "traces" / f"{name}.txt"
    if rewrite_goldens:
        file.write_text(found)
    assert file.read_text() == found


Tick = tuple[int, str | None, Any]


def traced(text: str, *ticks: Tick, **options: Any) -> str:
    """The trace over ticks (t, name, price), blanks in rows made single."""
    rows = [{"t": t, "name": name, "price": price} for t, name, price in ticks]
    table = pa.Table.from_pylist(rows, pa.schema([("t", pa.int64()), ("name", pa.string()), ("price", pa.float64())]))
    trace = keuka.cel(text).trace(table, time="t", **options)
    return "\n".join([" ".join(line.split()) for line in str(trace).splitlines()])


RISES = "SELECT name, price FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S"


def test_a_start_that_fails_its_filter_says_so():
    found = traced("SELECT name FROM FILTER {price > 5} S", (1, "a", 3.0), (2, "a", 7.0))
    assert "start price > 5 3.0 > 5.0 false nothing begins" in found
    assert "start price > 5 7.0 > 5.0 true match 1\nmatch 1 at 2: name 'a'" in found
    assert found.endswith("\n2 events, 1 match, 0 partial matches waiting, 0 expired")


def test_every_term_of_a_condition_is_shown_with_its_values():
    found = traced(RISES, (1, "a", 3.0), (2, "a", 2.0), (3, "a", None))
    assert "next $2.name = $1.name 'a' = 'a' true\n$2.price > $1.price 2.0 > 3.0 false waits on" in found
    assert "$2.price > $1.price NULL > 3.0 unknown waits on" in found


def test_other_keys_are_named_up_to_three_and_then_counted():
    found = traced(RISES, *[(t, f"n{t}", 1.0) for t in range(1, 7)])
    last = found.split("6 S name 'n6'")[1]
    assert last.count("waits on, $2.name = $1.name: 'n6' = 'n") == 3
    assert "and 2 more wait on, for other keys" in last


def test_a_filter_above_a_next_ends_what_it_does_not_keep():
    found = traced("SELECT name FROM FILTER {price > 5} (S NEXT {$2.name = $1.name} S)", (1, "a", 3.0), (2, "a", 2.0))
    assert "then price > 5 2.0 > 5.0 false ends" in found


def test_a_run_shows_its_steps_and_what_they_change():
    found = traced("SELECT name, price FROM S FOLD {$2.name = $.name, $2.price > $.price} S", (1, "a", 3.0), (2, "a", 4.0), (3, "a", 1.0))
    assert "step $2.price > $.price 4.0 > 3.0 true goes on with $.price 4.0; match 1" in found
    assert "step $2.price > $.price 1.0 > 4.0 false ends" in found


def test_a_run_whose_result_is_filtered_goes_on():
    found = traced("SELECT name FROM FILTER {DUR > 2} (S FOLD {$2.name = $.name, TRUE} S)", (1, "a", 3.0), (2, "a", 4.0))
    assert "next $2.name = $.name 'a' = 'a' true goes on" in found
    assert "then DUR > 2 2 > 2 false no result yet" in found


def test_simultaneous_candidates_make_branches_with_numbers_of_their_own():
    found = traced("SELECT name FROM FILTER {price > 9} (S FOLD {$2.name = $.name, TRUE} S)", (1, "a", 3.0), (2, "a", 4.0), (2, "a", 5.0))
    assert "2 S name 'a', price 5.0 (at the same time)" in found
    assert "goes on as #4 with" not in found
    assert "goes on as #4" in found
    assert "goes on as #5" in found


def test_an_event_that_does_not_follow_says_so():
    table = pa.table({"s": [1, 2, 4], "e": [3, 4, 5], "k": [1, 1, 1]})
    found = str(keuka.cel("SELECT k FROM I NEXT {$2.k = $1.k} I").trace(table, time=("s", "e")))
    assert "begins at 2, not after 3" in found
    assert "does not follow; waits on" in found


def test_a_filter_of_the_second_input_says_that_it_is_no_candidate():
    found = traced("SELECT name FROM S NEXT {$2.name = $1.name} (FILTER {price > 5} S)", (1, "a", 3.0), (2, "a", 4.0), (3, "a", 6.0))
    assert "for A price > 5 4.0 > 5.0 false not a candidate" in found
    assert "match 2" in found


def test_what_expires_and_until_when_the_rest_waits_is_said():
    found = traced("SELECT name FROM S NEXT {$2.price > $1.price AND DUR <= 3} S", (1, "a", 3.0), (5, "a", 2.0))
    assert "#1 in A since 1 with $1.price 3.0 expires, DUR would be more than 3" in found
    assert "waiting at the end\n#2 in A since 5 with $1.price 2.0, until 7" in found
    assert found.endswith("1 partial match waiting, 1 expired")


def test_an_overflow_ends_the_trace_where_it_ends_the_query():
    text = "SELECT t * 4611686018427387904 AS large FROM S"
    found = traced(text, (1, "a", 1.0), (2, "a", 1.0), (3, "a", 1.0))
    assert "match 1" in found
    assert found.endswith("error[K507]: the value of `t * 4611686018427387904` does not fit into 64 bits; `match` stops here")


def test_the_halves_of_a_between_are_told_apart():
    found = traced("SELECT name FROM FILTER {price BETWEEN 2 AND 4} S", (1, "a", 5.0))
    assert "start $1.price >= 2.0 5.0 >= 2.0 true\n$1.price <= 4.0 5.0 <= 4.0 false nothing begins" in found


def test_parameters_and_computed_sides_are_shown_as_values():
    found = traced("SELECT name FROM FILTER {price > 2 * :least OR name IN ('b', 'c')} S", (1, "a", 5.0), params={"least": 3})
    assert "start price > 2 * :least OR name IN ('b', 'c') 5.0 > 6.0 OR 'a' IN ('b', 'c') false nothing begins" in found


def test_durations_and_times_are_written_with_their_units():
    at = [datetime.datetime(2024, 3, 1, 9, minute) for minute in (0, 5)]
    table = pa.table({"at": at, "k": [1, 1]})
    found = str(keuka.cel("SELECT k FROM FILTER {DUR >= 6 min AND at > '2024-03-01 08:00'} (S NEXT {$2.k = $1.k} S)").trace(table))
    assert "DUR >= 6 min" in found
    assert "5 min + 1 us >= 6 min" in found
    assert "2024-03-01 09:05:00 > 2024-03-01 08:00:00" in found


# -- which events ----------------------------------------------------------------------------------------------------------


def test_only_the_events_of_the_key_are_shown():
    found = traced(RISES, (1, "a", 1.0), (2, "b", 2.0), (3, "a", 3.0), key="a")
    assert "query_1: events with name = 'a'\n" in found
    assert "'b'" not in found
    assert found.endswith("2 events, 1 match, 1 partial match waiting, 0 expired")


def test_a_null_key_is_found_by_none():
    found = traced(RISES, (1, "a", 1.0), (2, None, 2.0), key={"name": None})
    assert "events with name = NULL" in found
    assert "1 event, " in found


def test_events_chosen_by_a_column_that_is_no_key_are_shown_with_what_comes_next_for_them():
    text = "SELECT name FROM S NEXT {$2.price > $1.price} S"
    found = traced(text, (1, "a", 5.0), (2, "b", 4.0), (3, "b", 6.0), (4, "b", 7.0), key={"name": "a"})
    assert "query_1: events with name = 'a', and others that come next for one of them" in found
    assert "2 S name" not in found
    assert "3 S name 'b', price 6.0\n#1 in A since 1" in found
    assert "match 1 from 1 to 3: name 'b'" in found
    assert found.endswith("2 events, 1 match, 0 partial matches waiting, 0 expired")


def test_a_key_of_two_streams_chooses_from_both():
    stock = pa.table({"t": [1, 3], "name": ["a", "b"]})
    news = pa.table({"t": [2, 4], "symbol": ["a", "b"]})
    query = keuka.cel("SELECT symbol FROM Stock NEXT {symbol = name} News")
    for key in ("b", ("b",), {"name": "b"}, {"symbol": "b"}):
        found = query.trace({"Stock": stock, "News": news}, time="t", key=key)
        assert str(found).startswith("query_1: events with Stock.name = 'b', News.symbol = 'b'\n")
        assert [match.payload for match in found.matches] == [("b",)]


def test_a_column_of_two_components_means_the_one_of_each_stream():
    """Without names, values go to the components in their order; a name that stands in two chooses the column of that name."""
    query = keuka.cel("FROM Stock NEXT {$1.name = $2.other AND $1.other = $2.name} News")
    stock = pa.table({"t": [1, 2], "name": ["a", "b"], "other": ["b", "a"]})
    news = pa.table({"t": [3], "name": ["b"], "other": ["a"]})
    data = {"Stock": stock, "News": news}
    assert len(query.trace(data, time="t", key=("b", "a")).matches) == 1
    assert not query.trace(data, time="t", key=("b", "b")).matches
    named = query.trace(data, time="t", key={"name": "b"})
    assert "Stock.name = 'b', News.name = 'b'" in named.text


def test_what_is_beyond_the_limit_is_counted():
    found = traced(RISES, *[(t, "a", 1.0) for t in range(1, 1003)], limit=2)
    assert "\n... and 1,000 more events; `limit=` shows more\n" in found
    assert "waiting now" in found
    assert found.endswith("2 events, 0 matches, 2 partial matches waiting, 0 expired")


def test_many_waiting_ones_are_counted():
    found = traced(RISES, *[(t, "a", -float(t)) for t in range(1, 31)])
    assert "and 10 more\n" in found


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ("SELECT name FROM S NEXT S", "a", "the events of this query have no key in common"),
        (RISES, ("a", "b"), "the key of this query is `name`, but 2 values were given"),
        (RISES, {"nam": "a"}, "no stream has a column `nam` to choose events by"),
        (RISES, {"price": "high"}, "'high' is not a value of `price`, which is double"),
        (RISES, {"name": object}, "is not a value of `name`, which is string"),
    ],
)
def test_a_key_that_is_none_is_refused(text, key, problem):
    with pytest.raises(keuka.DataError, match="K524") as raised:
        traced(text, (1, "a", 1.0), key=key)
    assert problem in str(raised.value)


@pytest.mark.parametrize("limit", [0, -1, "5", None])
def test_a_limit_is_a_number_of_events(limit):
    with pytest.raises(ValueError, match="limit must be a whole number"):
        traced(RISES, (1, "a", 1.0), limit=limit)


def test_columns_of_types_that_only_pass_through_are_shown():
    table = pa.table({"t": [1], "raw": pa.array([b"\x00\x01"]), "list": pa.array([[1, 2]])})
    found = str(keuka.cel("SELECT raw, list FROM S").trace(table, time="t"))
    assert "raw b'\\x00\\x01', list [1, 2]" in found


def test_texts_of_any_length_keep_a_trace_readable():
    found = traced("SELECT name FROM FILTER {name <> 'b'} S", (1, "a" * 10_000, 1.0))
    assert max(map(len, found.splitlines())) < 300


def test_an_overflow_in_a_filter_is_shown_though_nothing_waits():
    """A filter is evaluated for every event, as `match` does."""
    streams = {"S": pa.table({"t": [1, 2], "n": [0, -(2**63)]}), "Q": pa.table({"t": pa.array([], pa.int64())})}
    shown = str(keuka.cel("FROM Q NEXT FILTER {(-(n) IS NULL)} S").trace(streams, time="t"))
    assert "error[K507]" in shown
