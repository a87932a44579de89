"""The live engine as users see it: rules, pushes, time, what is late, what waits, memory, snapshots."""

from __future__ import annotations

import copy
import datetime
import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import keuka
from keuka.run import checkpoints

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "n": pa.int64()})
RISES = "SELECT k, n_1 AS low, n AS high FROM S NEXT {$2.k = $1.k AND $2.n > $1.n} S"
ALL = "SELECT n FROM S"


def rows(*triples: tuple[int, str, int]) -> list[dict[str, Any]]:
    return [{"t": t, "k": k, "n": n} for t, k, n in triples]


def ticks(*times: int) -> list[dict[str, Any]]:
    """Rows whose number is their time."""
    return rows(*[(t, "a", t) for t in times])


def numbers(matches: keuka.Matches) -> list[int]:
    return [row["n"] for row in matches.to_pylist()]


@pytest.fixture
def engine() -> keuka.Engine:
    return keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t")


class HandMovedClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def raised(call: Callable[[], object]) -> keuka.KeukaError:
    with pytest.raises(keuka.KeukaError) as caught:
        call()
    return caught.value


# ---- events and time


def test_matches_come_with_the_push_that_makes_them_certain(engine: keuka.Engine):
    engine.add(RISES, name="rises")
    assert len(engine.push("S", rows((1, "a", 5), (2, "b", 1)))) == 0
    assert len(engine.push("S", rows((3, "a", 7)))) == 0
    assert engine.push("S", rows((4, "b", 0))).to_pylist() == [{"_query": "rises", "k": "a", "low": 5, "high": 7, "_start": 1, "_end": 3}]
    assert len(engine.close()) == 0


def test_the_latest_tick_waits_for_a_later_one(engine: keuka.Engine):
    engine.add(ALL)
    assert numbers(engine.push("S", ticks(1, 2))) == [1]
    assert numbers(engine.push("S", ticks(2))) == []
    assert numbers(engine.push("S", ticks(3))) == [2, 2]
    assert numbers(engine.close()) == [3]


def test_advance_closes_the_epoch_of_its_time_and_no_later_one(engine: keuka.Engine):
    engine.add(ALL)
    assert numbers(engine.push("S", ticks(4, 5, 6, 7)[:0])) == []
    assert numbers(engine.push("S", rows((5, "a", 5)))) == []
    assert numbers(engine.advance(4)) == []
    assert numbers(engine.push("S", rows((5, "a", 50)))) == []
    assert numbers(engine.advance(5)) == [5, 50]
    assert numbers(engine.push("S", rows((5, "a", 51), (6, "a", 6)))) == []
    assert engine.late == {"S": 1, "T": 0}
    assert numbers(engine.advance(6)) == [6]


def test_a_promise_is_never_taken_back(engine: keuka.Engine):
    engine.add(ALL)
    engine.advance(10)
    engine.advance(3)
    engine.push("S", ticks(5))
    assert engine.late["S"] == 1


def test_advance_of_all_streams_holds_for_streams_that_come_later():
    engine = keuka.Engine({"S": SCHEMA}, time="t")
    engine.add("SELECT n FROM New")
    engine.advance(10)
    engine.push("New", ticks(10, 11))
    assert engine.late == {"S": 0, "New": 1}


@pytest.mark.parametrize(
    "time",
    [
        datetime.datetime(2024, 1, 31, 9, 30),
        pd.Timestamp("2024-01-31 09:30"),
        pd.Timestamp("2024-01-31 09:30").to_datetime64(),
        "2024-01-31T09:30",
        "2024-01-31 09:30:00",
        1_706_693_400_000_000,
    ],
)
def test_times_may_be_given_in_many_ways(time: object):
    engine = keuka.Engine()
    engine.add("SELECT n FROM S")
    engine.push("S", [{"at": datetime.datetime(2024, 1, 31, 9, 30), "n": 1}])
    assert len(engine.advance(time)) == 1


def test_times_in_a_zone_need_one_and_dates_are_midnight():
    zoned = keuka.Engine()
    zoned.add("SELECT n FROM S")
    zoned.push("S", [{"at": datetime.datetime(2024, 1, 31, 9, 30, tzinfo=datetime.UTC), "n": 1}])
    assert len(zoned.advance("2024-01-31T11:29:59.999999+02:00")) == 0
    assert len(zoned.advance("2024-01-31T11:30+02:00")) == 1
    assert raised(lambda: zoned.advance("2024-01-31T11:30")).code == "K521"
    local = keuka.Engine()
    local.add("SELECT n FROM S")
    local.push("S", [{"at": datetime.date(2024, 1, 31), "n": 1}])
    assert len(local.advance("2024-01-30T23:59")) == 0
    assert len(local.advance(datetime.date(2024, 1, 31))) == 1


@pytest.mark.parametrize("time", ["tomorrow", 1.5, None, True, pd.NaT, 2**63])
def test_what_is_no_time_is_refused(time: object):
    engine = keuka.Engine()
    engine.push("S", [{"at": datetime.datetime(2024, 1, 31), "n": 1}])
    assert raised(lambda: engine.advance(time)).code == "K521"


def test_an_integer_clock_takes_only_ticks(engine: keuka.Engine):
    assert "integers" in str(raised(lambda: engine.advance("2024-01-31")))


def test_an_engine_without_streams_has_no_clock():
    assert raised(lambda: keuka.Engine().advance(5)).code == "K505"


def test_rows_may_be_late_by_exactly_the_lateness():
    engine = keuka.Engine({"S": keuka.Stream(SCHEMA, time="t", lateness=3)})
    engine.add(ALL)
    assert numbers(engine.push("S", ticks(10, 7, 6, 12))) == [7]
    assert engine.late == {"S": 1}
    assert numbers(engine.close()) == [10, 12]


def test_order_inside_a_batch_counts_so_that_splitting_it_changes_nothing(engine: keuka.Engine):
    engine.add(ALL)
    engine.push("S", ticks(5, 3))
    assert engine.late["S"] == 1
    assert numbers(engine.close()) == [5]


def test_late_rows_are_counted_kept_on_request_and_warned_of_once(caplog: pytest.LogCaptureFixture):
    engine = keuka.Engine({"S": SCHEMA}, time="t", keep_late=True)
    engine.add(ALL)
    engine.push("S", ticks(5))
    with caplog.at_level(logging.WARNING, "keuka"):
        engine.push("S", rows((3, "x", 30), (6, "a", 6), (4, "y", 40)))
        engine.push("S", rows((1, "z", 10)))
    assert engine.late == {"S": 3}
    assert [record.getMessage() for record in caplog.records] == [
        "rows come too late to be used, the first with the time 3 (stream `S`, row 2); `engine.late` counts them, `lateness=` allows them"
    ]
    assert engine.take_late("S").to_pylist() == rows((3, "x", 30), (4, "y", 40), (1, "z", 10))
    assert engine.take_late("S").num_rows == 0
    assert engine.late == {"S": 3}
    assert numbers(engine.close()) == [6]


def test_late_rows_are_not_kept_unasked(engine: keuka.Engine):
    engine.add(ALL)
    engine.push("S", ticks(5, 4))
    assert engine.take_late("S").num_rows == 0
    assert engine.take_late("S").schema == SCHEMA


def test_a_big_push_is_processed_in_pieces_with_the_same_result(engine: keuka.Engine):
    engine.add("SELECT n_1 AS a, n AS b FROM FILTER {n = 7} (S) NEXT {$2.n = 7} S", name="sevens")
    times = list(range(200_000))
    table = pa.table({"t": times, "k": ["a"] * len(times), "n": [t % 1000 for t in times]}, schema=SCHEMA)
    matches = engine.push("S", table)
    found = matches.table
    assert found.num_rows == 199
    assert found["_end"].to_pylist() == list(range(1007, 200_000, 1000))


# ---- several streams

PAIRS = "SELECT n_1 AS s, n AS t FROM S NEXT T"


def test_time_waits_for_the_slowest_stream_that_rules_read(engine: keuka.Engine):
    engine.add(PAIRS, name="pairs")
    assert len(engine.push("S", ticks(1, 2, 3))) == 0
    assert len(engine.push("T", ticks(2))) == 0
    assert [row["t"] for row in engine.push("T", ticks(5)).to_pylist()] == [2]
    assert engine.time == 3


def test_a_stream_that_no_rule_reads_holds_nothing_back(engine: keuka.Engine):
    engine.add(ALL)
    engine.push("T", ticks(1))
    assert numbers(engine.push("S", ticks(1, 2, 3))) == [1, 2]


def test_waiting_names_the_stream_that_holds_time_back_and_since_when():
    clock = HandMovedClock()
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", _clock=clock)
    assert engine.waiting() is None
    engine.add(PAIRS)
    engine.push("T", ticks(2))
    clock.now = 60.0
    engine.push("S", ticks(1, 5, 6))
    before = datetime.datetime.now().astimezone()
    waiting = engine.waiting()
    assert (waiting.stream, waiting.time, waiting.n_events) == ("T", 2, 3)
    assert abs(before - datetime.timedelta(seconds=60) - waiting.since) < datetime.timedelta(seconds=5)
    engine.advance(10)
    assert engine.waiting() is None


def test_waiting_names_a_stream_of_which_nothing_was_heard():
    engine = keuka.Engine(time="t")
    engine.add("SELECT n_1 AS n FROM S NEXT Never")
    engine.push("S", ticks(1, 2, 3))
    assert (engine.waiting().stream, engine.waiting().time, engine.waiting().n_events) == ("Never", None, 3)


def test_an_idle_stream_holds_nothing_back_and_what_it_then_brings_is_late():
    clock = HandMovedClock()
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", idle_after="10 s", _clock=clock)
    engine.add(f"{ALL} PUBLISH Mine; {PAIRS} PUBLISH Pairs")
    engine.push("T", ticks(1))
    clock.now = 9.0
    assert len(engine.push("S", ticks(1, 2, 3))) == 0
    clock.now = 10.0
    assert len(engine.poll()) == 2  # S at 1 and 2; T is idle
    assert len(engine.push("T", ticks(2, 4))) == 0
    assert engine.late == {"S": 0, "T": 1}
    assert engine.waiting().stream == "S"
    clock.now = 30.0
    assert engine.poll().of("rule_1.Mine")["n"].to_pylist() == [3]  # both are idle: time goes as far as the one ahead
    assert sorted(engine.close().of("rule_1.Pairs")["s"].to_pylist()) == [1, 2, 3]


def test_a_silent_stream_is_not_idle_unless_asked_for():
    clock = HandMovedClock()
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", _clock=clock)
    engine.add(PAIRS)
    engine.push("S", ticks(1, 2, 3))
    clock.now = 1e9
    assert len(engine.poll()) == 0
    assert engine.time is None


def test_streams_of_one_engine_share_one_clock():
    clocks = keuka.Engine({"S": keuka.Stream(SCHEMA, time="t")})
    assert raised(lambda: clocks.push("U", [{"at": datetime.datetime(2024, 1, 1)}])).code == "K511"
    assert raised(lambda: clocks.take_late("U")).code == "K505"


def test_results_are_in_the_zone_of_the_streams_a_rule_reads():
    zoned = {zone: pa.schema({"t": pa.timestamp("us", zone), "n": pa.int64()}) for zone in ("Europe/Berlin", "Asia/Tokyo")}
    engine = keuka.Engine({"S": zoned["Europe/Berlin"], "T": zoned["Asia/Tokyo"]})
    engine.add(ALL, name="berlin")
    engine.add("SELECT n FROM T", name="tokyo")
    engine.add("SELECT n_1 AS n FROM S NEXT T", name="both")
    matches = engine.poll()
    found = {name: matches.of(name).schema.field("_end").type.tz for name in ("berlin", "tokyo", "both")}
    assert found == {"berlin": "Europe/Berlin", "tokyo": "Asia/Tokyo", "both": "UTC"}
    for stream in ("S", "T"):
        engine.push(stream, [{"t": datetime.datetime(2024, 1, 31, hour, tzinfo=datetime.UTC), "n": hour} for hour in (1, 2, 3)])
    assert [engine.rules[name].matches for name in found] == [2, 2, 1]


# ---- rules


def test_a_rule_sees_events_that_wait_and_later_ones_only(engine: keuka.Engine):
    engine.push("S", ticks(1, 2, 3))
    engine.add(ALL, name="late-comer")
    assert numbers(engine.push("S", ticks(4))) == [3]


def test_events_of_a_stream_that_was_ahead_are_seen_by_a_rule_added_later(engine: keuka.Engine):
    engine.add("SELECT n FROM T", name="slow")
    engine.push("T", ticks(1, 2))
    engine.push("S", ticks(1, 2, 3, 4))
    engine.add(ALL, name="all")
    assert engine.push("T", ticks(4)).of("all")["n"].to_pylist() == [2, 3]


def test_columns_that_only_a_later_rule_reads_are_there_for_waiting_events():
    schema = pa.schema({"t": pa.int64(), "n": pa.int32(), "word": pa.dictionary(pa.int8(), pa.string())})
    engine = keuka.Engine({"S": schema}, time="t")
    engine.add("SELECT t FROM S", name="times")
    engine.push("S", pa.table({"t": [1, 1], "n": pa.array([5, 6], pa.int32()), "word": pa.array(["x", "y"]).dictionary_encode()}))
    engine.add("SELECT n + 1 AS m, word FROM S", name="words")
    found = engine.close().of("words")
    assert found.to_pylist() == [
        {"m": 6, "word": "x", "_start": 1, "_end": 1},
        {"m": 7, "word": "y", "_start": 1, "_end": 1},
    ]


def test_a_removed_rule_finds_nothing_more_and_keeps_its_count(engine: keuka.Engine):
    rule = engine.add(ALL, name="all")
    engine.push("S", ticks(1, 2, 3))
    rule.remove()
    assert len(engine.push("S", ticks(4, 5))) == 0
    assert (rule.matches, rule.live_instances, rule.bytes) == (2, 0, 0)
    assert engine.rules == {}
    assert raised(rule.remove).code == "K307"


def test_a_name_can_be_used_again_after_its_rule_is_removed(engine: keuka.Engine):
    old = engine.add(ALL, name="one")
    engine.push("S", ticks(1, 2))
    engine.remove("one")
    new = engine.add("SELECT n + 100 AS n FROM S", name="one")
    assert numbers(engine.push("S", ticks(3))) == [102]
    assert (old.matches, new.matches) == (1, 1)
    assert raised(old.remove).code == "K307"


def test_partial_matches_of_a_removed_rule_go(engine: keuka.Engine):
    rule = engine.add(RISES)
    engine.push("S", rows((1, "a", 5), (2, "b", 5), (3, "c", 5)))
    assert rule.live_instances == 2
    assert rule.bytes > 0
    rule.remove()
    again = engine.add(RISES)
    engine.push("S", rows((4, "a", 9), (5, "b", 9)))
    assert again.live_instances == 2
    assert again.matches == 0


def test_rules_are_named_by_what_they_publish_or_by_number(engine: keuka.Engine):
    names = [engine.add(q).name for q in (ALL, "SELECT n FROM S PUBLISH Numbers", ALL, "FROM S PUBLISH A; FROM S PUBLISH B")]
    assert names == ["rule_1", "Numbers", "rule_3", "rule_4"]
    assert list(engine.rules) == names


def test_each_output_of_a_rule_has_its_own_name(engine: keuka.Engine):
    engine.add("SELECT n FROM S PUBLISH Numbers; SELECT k FROM S PUBLISH Words; SELECT n FROM FILTER {n > 1} (S)", name="set")
    matches = engine.push("S", ticks(1, 2, 3))
    assert {name: matches.of(name).num_rows for name in matches.queries} == {"set.Numbers": 2, "set.query_3": 1, "set.Words": 2}
    error = raised(lambda: matches.of("set"))
    assert "`set.Numbers`, `set.query_3`, `set.Words`" in str(error)


def test_outputs_choose_what_is_delivered(engine: keuka.Engine):
    text = "SELECT n FROM S PUBLISH Numbers; SELECT n_1 AS a, n AS b FROM Numbers NEXT Numbers PUBLISH Pairs"
    engine.add(text, outputs=["Pairs"], name="p")
    assert engine.push("S", ticks(1, 2, 3)).to_pylist() == [{"_query": "p", "a": 1, "b": 2, "_start": 1, "_end": 2}]
    assert raised(lambda: engine.add(ALL, outputs=["Nothing"])).code == "K202"


def test_the_same_query_twice_gives_its_matches_twice(engine: keuka.Engine):
    engine.add(ALL, name="one")
    engine.add(ALL, name="two")
    assert [(row["_query"], row["n"]) for row in engine.push("S", ticks(1, 2, 3)).to_pylist()] == [
        ("one", 1),
        ("two", 1),
        ("one", 2),
        ("two", 2),
    ]


def test_a_query_is_a_query_a_text_or_a_path(engine: keuka.Engine, tmp_path: Any):
    path = tmp_path / "all.cel"
    path.write_text(ALL)
    for query in (keuka.cel(ALL), ALL, path, str(path)):
        engine.add(query)
    assert len(engine.push("S", ticks(1, 2))) == 4


def test_mistakes_of_a_query_are_said_when_it_is_added(engine: keuka.Engine):
    assert raised(lambda: engine.add("SELECT prise FROM S")).code == "K201"
    assert raised(lambda: engine.add("SELEKT n FROM S")).code == "K101"
    assert raised(lambda: engine.add("SELECT n FROM FILTER {n > :v} (S)")).code == "K207"
    assert raised(lambda: engine.add("SELECT n AS _query FROM S")).code == "K208"
    assert engine.rules == {}
    assert engine.add(ALL).name == "rule_1"


def test_mistakes_are_said_by_the_push_that_makes_the_streams_known():
    engine = keuka.Engine(time="t")
    engine.add(ALL, name="good")
    engine.add("SELECT prise FROM S", name="bad")
    engine.add("SELECT n + k AS m FROM S PUBLISH Sums", name="worse")
    error = raised(lambda: engine.push("S", ticks(1, 2)))
    assert [finding.code for finding in error.diagnostics] == ["K201", "K205"]
    assert "rule `bad`: " in str(error)
    assert "rule `worse`: " in str(error)
    assert list(engine.rules) == ["good"]
    assert engine.counters()["events"] == 0
    assert numbers(engine.push("S", ticks(1, 2))) == [1]
    engine.add("SELECT n FROM S PUBLISH Sums")


def test_a_rule_with_unknown_streams_sees_all_that_came_since_it_was_added():
    engine = keuka.Engine(time="t")
    engine.add("SELECT n_1 AS s, n AS t FROM S NEXT T", name="pairs")
    engine.add(ALL, name="all")
    assert len(engine.push("S", ticks(1, 2))) == 0
    assert engine.push("T", ticks(2, 3)).of("all")["n"].to_pylist() == [1]
    assert engine.close().of("pairs").to_pylist() == [
        {"s": 1, "t": 2, "_start": 1, "_end": 2},
        {"s": 2, "t": 3, "_start": 2, "_end": 3},
    ]


def test_a_rule_that_never_ran_is_named_at_the_end(caplog: pytest.LogCaptureFixture):
    engine = keuka.Engine(time="t")
    engine.add("SELECT n FROM Never", name="idle")
    engine.push("S", ticks(1))
    with caplog.at_level(logging.WARNING, "keuka"):
        engine.close()
    assert caplog.messages == ["no events came of `Never`, so `idle` never ran"]


# ---- rules that read rules


def test_a_rule_reads_what_an_earlier_one_publishes(engine: keuka.Engine):
    engine.add("SELECT n FROM FILTER {n > 1} (S) PUBLISH Large")
    engine.add("SELECT n_1 AS a, n AS b FROM Large NEXT Large", name="pairs")
    assert engine.push("S", ticks(1, 2, 3, 4)).of("pairs").to_pylist() == [{"a": 2, "b": 3, "_start": 2, "_end": 3}]
    assert engine.close().of("pairs").num_rows == 1


def test_a_rule_over_a_published_stream_and_an_input_sees_both_in_one_epoch(engine: keuka.Engine):
    engine.add("SELECT n_1 AS a, n AS b FROM S NEXT S PUBLISH Steps", name="steps")
    engine.add("SELECT b, n FROM Steps NEXT T", name="after")
    engine.add("SELECT n, b FROM T NEXT {$2.b > $1.n} Steps", name="before")
    engine.push("S", ticks(1, 2, 3))
    matches = engine.push("T", ticks(2, 3, 4))
    last = engine.close()
    assert [row["b"] for row in matches.of("after").to_pylist() + last.of("after").to_pylist()] == [2, 3]
    assert matches.of("before").num_rows + last.of("before").num_rows == 0  # no step of S follows T's ticks: all overlap them


def test_a_reader_sees_results_of_later_epochs_also_if_they_began_before_it_came(engine: keuka.Engine):
    engine.add("SELECT n_1 AS a, n AS b FROM S NEXT S PUBLISH Steps", name="steps")
    engine.push("S", ticks(1, 2, 3))
    engine.add("SELECT a, b FROM Steps", name="reader")
    assert engine.push("S", ticks(4)).of("reader").to_pylist() == [{"a": 2, "b": 3, "_start": 2, "_end": 3}]


def test_contributors_of_a_reader_are_the_events_behind_what_it_read():
    engine = keuka.Engine({"S": keuka.Stream(SCHEMA, time="t", id="n")}, contributors=True)
    engine.add("SELECT n FROM FILTER {n > 1} (S) PUBLISH Large")
    engine.add("SELECT n_1 AS a, n AS b FROM Large NEXT Large", name="pairs")
    engine.push("S", ticks(1, 2, 3))
    (pair,) = engine.close().of("pairs").to_pylist()
    assert pair["_contributors"] == [{"stream": "S", "id": "2"}, {"stream": "S", "id": "3"}]


def test_contributors_need_a_publisher_that_shows_them(engine: keuka.Engine):
    engine.add("SELECT n FROM S PUBLISH Large")
    error = raised(lambda: engine.add("SELECT n FROM Large", contributors=True))
    assert error.code == "K307"
    assert "add the rule that publishes `Large` with `contributors=True`" in str(error)


def test_a_rule_that_others_read_stays_until_they_are_gone(engine: keuka.Engine):
    source = engine.add("SELECT n FROM S PUBLISH Large")
    reader = engine.add("SELECT n FROM Large", name="reader")
    error = raised(source.remove)
    assert (error.code, "`reader` read" in str(error)) == ("K307", True)
    reader.remove()
    source.remove()
    assert engine.rules == {}


def test_published_names_and_input_streams_do_not_mix(engine: keuka.Engine):
    engine.add("SELECT n FROM S PUBLISH Large")
    assert raised(lambda: engine.add("SELECT n FROM T PUBLISH Large", name="other")).code == "K306"
    assert raised(lambda: engine.add("SELECT n FROM S PUBLISH T")).code == "K306"
    assert raised(lambda: engine.push("Large", ticks(1))).code == "K306"
    engine.add("SELECT n FROM Unknown", name="waits")
    assert raised(lambda: engine.add("SELECT n FROM S PUBLISH Unknown")).code == "K306"


def test_a_circle_of_rules_is_refused(engine: keuka.Engine):
    assert raised(lambda: engine.add("FROM A PUBLISH B; FROM B PUBLISH A")).code == "K305"


# ---- what is pushed


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: table.to_pandas(),
        lambda table: pl.from_arrow(table),
        lambda table: table.to_pylist(),
        lambda table: pl.from_arrow(table).lazy(),
        lambda table: [table.to_batches()[0]],
        lambda table: Foreign(table),
    ],
    ids=["table", "batch", "pandas", "polars", "dicts", "lazy", "batches", "other library"],
)
@pytest.mark.parametrize("declared", [False, True])
def test_events_may_come_as_any_table_in_memory(make: Callable[[pa.Table], Any], declared: bool):
    engine = keuka.Engine({"S": SCHEMA} if declared else None, time="t")
    engine.add(RISES)
    first, second = (pa.Table.from_pylist(found, SCHEMA) for found in (rows((1, "a", 5)), rows((2, "a", 6), (3, "b", 1))))
    engine.push("S", make(first))
    assert len(engine.push("S", make(second))) == 1
    assert len(engine.close()) == 0


class Foreign:
    """A table of a library that Keuka has never heard of."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_what_must_be_read_first_is_refused(engine: keuka.Engine):
    engine.add(ALL)
    table = pa.Table.from_pylist(ticks(1, 2), SCHEMA)
    for data in ("ticks.csv", table.to_reader(), iter(table.to_batches()), 5, None):
        for stream in ("S", "New"):
            assert raised(lambda s=stream, d=data: engine.push(s, d)).code == "K512"
    assert engine.counters()["events"] == 0


def test_batches_may_have_other_types_of_the_same_meaning_and_another_order_of_columns(engine: keuka.Engine):
    engine.add(RISES)
    engine.push("S", pa.table({"n": pa.array([5], pa.uint8()), "t": pa.array([1], pa.int32()), "k": pa.array(["a"]).dictionary_encode()}))
    engine.push("S", pa.table({"t": [2], "k": pa.array(["a"], pa.large_string()), "n": [6]}))
    engine.push("S", pa.table({"t": [3], "k": pa.nulls(1), "n": [7]}))
    assert engine.advance(3).of("rule_1").num_rows == 0
    assert engine.rules["rule_1"].matches == 1


def test_a_dictionary_column_takes_plain_text_and_other_words():
    schema = pa.schema({"t": pa.int64(), "k": pa.dictionary(pa.int8(), pa.string())})
    engine = keuka.Engine({"S": schema}, time="t", lateness=10)
    engine.add("SELECT k FROM S")
    engine.push("S", pa.table({"t": [1], "k": pa.array(["a"]).dictionary_encode()}))
    engine.push("S", pa.table({"t": [2], "k": ["b"]}))
    engine.push("S", [{"t": 3, "k": "c"}])
    assert engine.close().table["k"].to_pylist() == ["a", "b", "c"]


def test_words_of_waiting_batches_need_not_fit_the_dictionary_of_one():
    schema = pa.schema({"t": pa.int64(), "k": pa.dictionary(pa.int8(), pa.string()), "i": pa.dictionary(pa.int8(), pa.int64())})
    engine = keuka.Engine({"S": schema}, time="t", lateness=1000)
    engine.add("SELECT t FROM S")
    for first in range(0, 500, 50):
        numbers = list(range(first, first + 50))
        words = pa.array([f"word {n}" for n in numbers]).dictionary_encode()
        batch = pa.table({"t": numbers, "k": words, "i": pa.array(numbers).dictionary_encode()}).cast(schema)
        engine.push("S", pa.concat_tables([batch.slice(0, 20), batch.slice(20)]))
    engine.add("SELECT k, i FROM S", name="words")
    assert [row["k"] for row in engine.close().of("words").to_pylist()] == [f"word {n}" for n in range(500)]


def test_a_column_that_cannot_wait_is_refused_with_its_name():
    run_ends = pa.run_end_encoded(pa.int32(), pa.int64())
    error = raised(lambda: keuka.Engine({"S": pa.schema({"t": pa.int64(), "runs": run_ends})}, time="t"))
    assert (error.code, "column `runs`" in str(error)) == ("K512", True)


def test_rows_as_dicts_take_the_types_the_stream_has():
    engine = keuka.Engine(time="t")
    engine.add("SELECT x, word FROM S")
    engine.push("S", [{"t": 1, "x": 1.5, "word": None}])
    engine.push("S", [{"t": 2, "x": 2}])
    engine.push("S", [{"t": 3, "x": None, "word": "w"}])
    assert engine.advance(3).to_pylist() == [{"_query": "rule_1", "x": None, "word": "w", "_start": 3, "_end": 3}]
    assert raised(lambda: engine.push("S", [{"t": 4, "x": "text"}])).code == "K509"
    assert raised(lambda: engine.push("S", [{"t": 4, "y": 1}])).code == "K509"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pa.table({"t": [1], "k": ["a"]}), "column `n` is missing"),
        (pa.table({"t": [1], "k": ["a"], "n": [1.5]}), "column `n` is double, which was int64 before"),
        (pa.table({"t": [1], "k": ["a"], "n": [1], "more": [1]}), "column `more` was not there before"),
        (pa.table({"t": [1], "k": ["a"], "n": pa.array([2**63], pa.uint64())}), "column `n` is uint64, which was int64 before"),
    ],
)
def test_other_columns_are_refused_and_nothing_is_taken(engine: keuka.Engine, data: pa.Table, said: str):
    engine.add(ALL)
    error = raised(lambda: engine.push("S", data))
    assert error.code == "K509"
    assert said in str(error)
    assert engine.counters()["events"] == 0
    assert numbers(engine.push("S", ticks(1, 2))) == [1]


def test_a_row_without_time_is_refused_with_its_number_and_the_engine_goes_on(engine: keuka.Engine):
    engine.add(ALL)
    engine.push("S", ticks(1, 2))
    bad = pa.table({"t": pa.array([3, None]), "k": ["a", "a"], "n": [3, 4]}, schema=SCHEMA)
    error = raised(lambda: engine.push("S", bad))
    assert (error.code, "stream `S`, row 4, column `t`" in str(error)) == ("K502", True)
    assert numbers(engine.push("S", ticks(3))) == [2]


def test_an_interval_that_ends_before_it_starts_is_refused():
    engine = keuka.Engine(time=("a", "b"))
    engine.add("SELECT a FROM S")
    engine.push("S", [{"a": 1, "b": 2}])
    assert raised(lambda: engine.push("S", [{"a": 5, "b": 4}])).code == "K503"
    assert len(engine.push("S", [{"a": 1, "b": 3}])) == 1


def test_a_value_that_does_not_fit_is_refused_before_anything_is_taken():
    engine = keuka.Engine({"S": pa.schema({"t": pa.int64(), "at": pa.timestamp("ns")})}, time="t")
    engine.add("SELECT at FROM S")
    good, bad = (pa.table({"t": [1], "at": pa.array([ns], pa.timestamp("ns"))}) for ns in (1000, 1001))
    assert raised(lambda: engine.push("S", bad)).code == "K510"
    engine.push("S", good)
    assert engine.close().table.num_rows == 1


@pytest.mark.parametrize("n_rows", [3, 5_000])
def test_text_that_is_not_utf_8_refuses_the_batch_and_the_engine_goes_on(engine: keuka.Engine, n_rows: int):
    engine.add("SELECT k FROM S")
    words = pa.array([b"ab"] * (n_rows - 1) + [b"a\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), n_rows, words.buffers())
    for column in (text, pa.DictionaryArray.from_arrays(pa.array(range(n_rows), pa.int32()), text)):
        batch = pa.record_batch({"t": range(n_rows), "k": column, "n": range(n_rows)})
        error = raised(lambda b=batch: engine.push("S", b))
        assert (error.code, f"row {n_rows}, column `k`" in str(error)) == ("K514", True)
    assert engine.push("S", ticks(1, 2)).table["k"].to_pylist() == ["a"]


def test_a_rule_that_cannot_read_waiting_events_is_refused_and_the_engine_goes_on():
    engine = keuka.Engine({"S": pa.schema({"t": pa.int64(), "at": pa.timestamp("ns")})}, time="t")
    engine.add("SELECT t FROM S", name="times")
    engine.push("S", pa.table({"t": [1], "at": pa.array([1001], pa.timestamp("ns"))}))
    assert raised(lambda: engine.add("SELECT at FROM S", name="more")).code == "K510"
    assert list(engine.rules) == ["times"]
    assert len(engine.close()) == 1


def test_empty_batches_make_a_stream_known(engine: keuka.Engine):
    fresh = keuka.Engine(time="t")
    fresh.add(ALL)
    assert len(fresh.push("S", SCHEMA.empty_table())) == 0
    assert len(fresh.push("S", [])) == 0
    assert numbers(fresh.push("S", ticks(1, 2))) == [1]
    assert raised(lambda: keuka.Engine(time="t").push("S", [])).code == "K512"


def test_columns_that_only_pass_through_and_many_columns_do(engine: keuka.Engine):
    schema = pa.schema([("t", pa.int64()), ("list", pa.list_(pa.int64())), *[(f"c{i}", pa.int64()) for i in range(20)]])
    wide = keuka.Engine({"S": schema}, time="t")
    wide.add("SELECT list, c7 FROM S NEXT S".replace("list, c7", "list_1, c7"))
    for t in range(5):
        wide.push("S", pa.table({"t": [t], "list": [[t]], **{f"c{i}": [t * i] for i in range(20)}}, schema=schema))
    assert wide.rules["rule_1"].matches == 3


@pytest.mark.parametrize(
    "declared",
    [SCHEMA, SCHEMA.empty_table(), SCHEMA.empty_table().to_pandas(), keuka.Stream(SCHEMA, time="t"), keuka.Stream(SCHEMA.empty_table())],
)
def test_streams_are_declared_by_schema_or_empty_table(declared: object):
    engine = keuka.Engine({"S": declared}, time="t")
    engine.add("SELECT t FROM S")
    assert engine.late == {"S": 0}


def test_declarations_that_make_no_sense_are_refused():
    assert raised(lambda: keuka.Engine({"S": pa.table({"t": [1]})}, time="t")).code == "K512"
    assert raised(lambda: keuka.Engine({"S": "ticks.csv"}, time="t")).code == "K512"
    assert raised(lambda: keuka.Engine({"S": keuka.Stream(SCHEMA, time="t", sort=True)})).code == "K515"
    assert raised(lambda: keuka.Engine({"S": SCHEMA})).code == "K501"
    assert raised(lambda: keuka.Engine(memory_limit="a lot")).code == "K515"
    assert raised(lambda: keuka.Engine(memory_limit=0)).code == "K515"
    assert raised(lambda: keuka.Engine(idle_after="soon")).code == "K515"
    assert raised(lambda: keuka.Engine(idle_after=0)).code == "K515"
    with pytest.raises(TypeError, match="streams must be a dict"):
        keuka.Engine(["S"])


# ---- Matches


def test_matches_have_one_table_per_schema_also_when_empty(engine: keuka.Engine):
    engine.add(ALL, name="numbers")
    engine.add("SELECT n FROM FILTER {n > 1} (S)", name="large")
    engine.add("SELECT k FROM S", name="words")
    nothing = engine.poll()
    assert [table.column_names for table in nothing] == [["_query", "n", "_start", "_end"], ["_query", "k", "_start", "_end"]]
    assert (len(nothing), nothing.num_rows, nothing.to_pylist(), repr(nothing)) == (0, 0, [], "<0 matches>")
    assert not nothing
    matches = engine.push("S", ticks(1, 2, 3))
    assert matches.tables[0].schema == nothing.tables[0].schema
    assert matches.tables[0].column("_query").type == pa.dictionary(pa.int32(), pa.string())
    assert len(matches) == 5
    assert repr(matches) == "<5 matches: 2 of `numbers`, 1 of `large`, 2 of `words`>"
    assert [row["_end"] for row in matches.to_pylist()] == [1, 1, 2, 2, 2]
    assert raised(lambda: matches.table).code == "K307"
    assert matches.of("large").to_pylist() == [{"n": 2, "_start": 2, "_end": 2}]
    assert matches.of(engine.rules["words"]).column_names == ["k", "_start", "_end"]
    assert "did you mean `words`?" in str(raised(lambda: matches.of("word")))


def test_one_table_can_be_used_as_one(engine: keuka.Engine):
    engine.add(ALL, name="numbers")
    matches = engine.push("S", ticks(1, 2, 3))
    assert matches.table.num_rows == 2
    frame = matches.to_pandas()
    assert frame["n"].tolist() == [1, 2]
    assert frame["_query"].tolist() == ["numbers", "numbers"]
    assert pa.table(matches).equals(matches.table)
    assert pl.DataFrame(matches)["n"].to_list() == [1, 2]
    assert keuka.Engine().poll().table.column_names == ["_query"]


def test_results_of_several_rules_come_in_the_order_of_their_end(engine: keuka.Engine):
    engine.add("SELECT n FROM S", name="points")
    engine.add("SELECT n FROM S NEXT S".replace("SELECT n", "SELECT n_1 AS n"), name="steps")
    found = engine.push("S", ticks(*range(50))).table
    assert found["_end"].to_pylist() == sorted(found["_end"].to_pylist())
    assert found["_query"].to_pylist()[:4] == ["points", "points", "steps", "points"]


def test_matches_of_a_removed_rule_that_were_found_are_delivered():
    engine = keuka.Engine({"S": SCHEMA}, time="t", memory_limit="4 MB")
    rule = engine.add("SELECT n FROM S NEXT {$2.n = $1.n + 1 AND $2.k = $1.k} S".replace("SELECT n", "SELECT n_1 AS n"), name="hungry")
    many = [{"t": t, "k": f"key {t}", "n": t} for t in range(100_000)]
    assert raised(lambda: engine.push("S", rows((0, "x", 1), (1, "x", 2)) + [{**row, "t": row["t"] + 2} for row in many])).code == "K518"
    assert rule.matches == 1
    rule.remove()
    assert engine.poll().of("hungry").to_pylist() == [{"n": 1, "_start": 0, "_end": 1}]
    assert raised(lambda: engine.poll().of("hungry")).code == "K307"


# ---- memory


def hungry(limit: str | int | None) -> keuka.Engine:
    engine = keuka.Engine({"S": SCHEMA}, time="t", memory_limit=limit)
    engine.add("SELECT k FROM S NEXT {$2.k = $1.k} S", name="hungry")
    engine.add(ALL, name="modest")
    return engine


def unique(n: int, first: int = 0) -> list[dict[str, Any]]:
    return rows(*[(t, f"key {t}", t) for t in range(first, first + n)])


def test_the_limit_names_the_rule_that_holds_most_and_what_would_help():
    engine = hungry("4 MB")
    error = raised(lambda: engine.push("S", unique(100_000)))
    assert error.code == "K518"
    said = str(error)
    assert "its memory_limit is 4 MB" in said
    assert "rule `hungry` holds most: " in said
    assert "partial matches" in said
    assert "bound how long its matches may take" in said
    assert "the events that were pushed are kept" in said


def test_after_the_limit_nothing_is_lost_and_the_engine_goes_on():
    engine = hungry("4 MB")
    raised(lambda: engine.push("S", unique(100_000)))
    counters = engine.counters()
    assert counters["events"] == counters["processed"] + counters["waiting"] == 100_000
    assert counters["waiting"] > 1
    assert raised(engine.poll).code == "K518"
    refused = raised(lambda: engine.push("S", unique(10, 100_000)))
    assert "the batch was not taken" in str(refused)
    assert engine.counters()["events"] == 100_000
    engine.memory_limit = "1 GB"
    assert engine.memory_limit == 10**9
    assert engine.poll().of("modest")["n"].to_pylist() == list(range(99_999))
    assert numbers(engine.push("S", unique(1, 100_000))) == [99_999]


def test_removing_the_rule_makes_room():
    engine = hungry("4 MB")
    raised(lambda: engine.push("S", unique(100_000)))
    engine.rules["hungry"].remove()
    assert engine.poll().of("modest").num_rows == 99_999


def test_a_bound_on_duration_keeps_a_rule_below_the_limit():
    engine = keuka.Engine({"S": SCHEMA}, time="t", memory_limit="20 MB")
    rule = engine.add("SELECT k FROM S NEXT {$2.k = $1.k AND DUR <= 100} S", name="bounded")
    for first in range(0, 200_000, 10_000):
        engine.push("S", unique(10_000, first))
    assert rule.live_instances <= 5_000


def test_events_that_wait_count_too_and_the_stream_they_wait_for_may_still_come():
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", memory_limit="100 kB")
    engine.add("SELECT n FROM S UNION T")
    engine.push("T", ticks(1))
    error = raised(lambda: engine.push("S", ticks(*range(1, 10_000))))
    assert "stream `S` holds most: " in str(error)
    assert "the events that were pushed are kept" in str(error)
    assert raised(lambda: engine.push("S", ticks(10_000))).code == "K518"
    assert engine.counters()["streams"]["S"]["events"] == 9_999
    assert engine.push("T", ticks(20_000)).num_rows == 9_999
    assert engine.push("S", ticks(10_000)).num_rows == 1
    assert engine.counters()["waiting"] <= 3


@pytest.mark.parametrize(("written", "n_bytes"), [("4 GB", 4 * 10**9), ("1.5MB", 1_500_000), ("2 GiB", 2**31), (1234, 1234), (None, None)])
def test_a_limit_is_written_with_a_unit_or_as_bytes(written: str | int | None, n_bytes: int | None):
    assert keuka.Engine(memory_limit=written).memory_limit == n_bytes


# ---- counters


def test_counters_add_up(engine: keuka.Engine):
    engine.add(ALL, name="all")
    engine.add(RISES, name="rises")
    engine.push("S", rows((1, "a", 1), (2, "a", 2), (1, "a", 3), (3, "b", 3)))
    engine.push("T", ticks(1))
    counters = engine.counters()
    assert counters["streams"] == {
        "S": {"events": 4, "processed": 2, "waiting": 1, "late": 1},
        "T": {"events": 1, "processed": 1, "waiting": 0, "late": 0},
    }
    assert {key: counters[key] for key in ("events", "processed", "waiting", "late", "matches", "live_instances")} == {
        "events": 5,
        "processed": 3,
        "waiting": 1,
        "late": 1,
        "matches": 3,
        "live_instances": 1,
    }
    assert counters["rules"]["all"] == {"matches": 2, "live_instances": 0, "bytes": counters["rules"]["all"]["bytes"]}
    assert counters["bytes"] > 0


def test_counters_can_be_read_after_the_end(engine: keuka.Engine):
    rule = engine.add(ALL)
    engine.push("S", ticks(1, 2))
    engine.close()
    assert (rule.matches, engine.late["S"], engine.counters()["processed"], engine.time) == (2, 0, 2, None)


# ---- the end, and what goes wrong


def test_a_closed_engine_says_so(engine: keuka.Engine):
    engine.add(ALL)
    engine.push("S", ticks(1))
    assert numbers(engine.close()) == [1]
    for call in (lambda: engine.push("S", ticks(2)), engine.close, engine.poll, engine.snapshot, lambda: engine.add(ALL)):
        error = raised(call)
        assert (error.code, "is closed" in str(error)) == ("K523", True)


def test_leaving_an_engine_with_events_that_wait_is_warned_of(engine: keuka.Engine, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "keuka"), engine:
        engine.add(ALL)
        engine.push("S", ticks(1, 2))
    assert caplog.messages == ["the engine was left while 1 events wait; `close()` would have returned their matches"]
    assert raised(engine.poll).code == "K523"


def test_an_error_in_the_middle_of_a_batch_ends_the_engine_until_it_is_restored(engine: keuka.Engine):
    engine.add("SELECT n * n AS square FROM S", name="squares")
    engine.push("S", ticks(1, 2))
    snapshot = engine.snapshot()
    assert raised(lambda: engine.push("S", rows((3, "a", 2**62), (4, "a", 4)))).code == "K507"
    error = raised(lambda: engine.push("S", ticks(5)))
    assert error.code == "K523"
    assert "the result of `n * n` does not fit into 64 bits" in str(error)
    assert engine.counters()["rules"]["squares"]["matches"] == 1
    engine.restore(snapshot)
    assert [row["square"] for row in engine.push("S", ticks(3, 4)).to_pylist()] == [4, 9]


def test_an_interrupt_inside_the_kernel_ends_the_engine_with_a_clear_message(engine: keuka.Engine, monkeypatch: pytest.MonkeyPatch):
    engine.add(ALL)
    engine.push("S", ticks(1))

    def interrupted(step: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine._live.runner, "process", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.push("S", ticks(2))
    assert "KeyboardInterrupt" in str(raised(engine.poll))


def test_an_engine_cannot_be_pickled_and_says_what_can(engine: keuka.Engine):
    rule = engine.add(ALL)
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        for thing in (engine, rule):
            with pytest.raises(TypeError, match=r"send `engine\.snapshot\(\)`"):
                make(thing)


def test_a_forked_child_is_told_to_make_its_own(engine: keuka.Engine):
    engine.add(ALL)
    engine.push("S", ticks(1))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            engine.push("S", ticks(2))
            said = "nothing"
        except keuka.KeukaError as error:
            said = f"{error.code}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reading, 10_000).decode()
    assert said.startswith("K523")
    assert "forked" in said
    assert numbers(engine.push("S", ticks(2))) == [1]


def test_calls_of_several_threads_come_one_after_the_other(engine: keuka.Engine):
    engine.add(ALL, name="all")
    found: list[int] = []

    def push(stream: str) -> None:
        for t in range(200):
            found.append(len(engine.push(stream, rows((t, "a", t)))))

    threads = [threading.Thread(target=push, args=(stream,)) for stream in ("S", "T", "T2", "T3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(found) + len(engine.close()) == 200
    assert engine.counters()["events"] == 800


def test_an_engine_called_from_inside_its_own_call_refuses(engine: keuka.Engine, monkeypatch: pytest.MonkeyPatch):
    engine.add(ALL)
    monkeypatch.setattr(engine._live.runner, "process", lambda step: engine.poll())
    error = raised(lambda: engine.push("S", ticks(1, 2)))
    assert "from inside one of its own calls" in str(error)


# ---- snapshots


def found_by(engine: keuka.Engine, *batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in engine.push("S", batch).to_pylist()] + engine.close().to_pylist()


BATCHES = (rows((1, "a", 5), (2, "b", 1)), rows((3, "a", 7), (4, "b", 0)), rows((5, "b", 3), (6, "a", 9)))


def halfway(**options: Any) -> keuka.Engine:
    engine = keuka.Engine({"S": SCHEMA}, time="t", **options)
    engine.add(RISES, name="rises")
    for batch in BATCHES[:2]:
        engine.push("S", batch)
    return engine


def test_a_snapshot_restores_rules_partial_matches_and_waiting_events():
    engine = halfway()
    snapshot = engine.snapshot()
    resumed = keuka.Engine()
    resumed.restore(snapshot)
    assert list(resumed.rules) == ["rises"]
    assert resumed.rules["rises"].matches == engine.rules["rises"].matches == 1
    assert resumed.counters()["streams"] == engine.counters()["streams"]
    assert (resumed.time, resumed.waiting().stream) == (4, "S")
    assert found_by(resumed, BATCHES[2]) == found_by(engine, BATCHES[2])


def test_a_snapshot_restores_in_a_new_process(tmp_path: Any):
    engine = halfway(contributors=True)
    (tmp_path / "snapshot").write_bytes(engine.snapshot())
    program = (
        "import sys, keuka\n"
        "engine = keuka.Engine()\n"
        "engine.restore(open(sys.argv[1], 'rb').read())\n"
        f"matches = engine.push('S', {BATCHES[2]!r}).to_pylist() + engine.close().to_pylist()\n"
        "print(matches)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "snapshot")], capture_output=True, text=True, check=True)
    assert done.stdout == f"{found_by(engine, BATCHES[2])}\n"


def test_restoring_goes_back_in_time():
    engine = halfway()
    snapshot = engine.snapshot()
    first = engine.push("S", BATCHES[2]).to_pylist()
    assert len(first) == 2
    engine.restore(snapshot)
    assert engine.push("S", BATCHES[2]).to_pylist() == first


def test_own_rules_of_the_same_name_and_meaning_go_on_and_others_begin_anew(caplog: pytest.LogCaptureFixture):
    snapshot = halfway().snapshot()
    engine = keuka.Engine({"S": SCHEMA}, time="t")
    same = engine.add(RISES.replace("SELECT k", "SELECT  k"), name="rises")
    new = engine.add(RISES, name="new")
    engine.restore(snapshot)
    assert list(engine.rules.values()) == [same, new]
    assert (same.matches, new.matches) == (1, 0)
    matches = engine.push("S", BATCHES[2])
    assert sorted(matches.of("rises")["_start"].to_pylist()) == [2, 4]
    assert matches.of("new")["_start"].to_pylist() == [4]  # which waited when the snapshot was taken
    last = engine.close()
    assert [last.of(name)["_start"].to_pylist() for name in ("rises", "new")] == [[3], []]
    other = keuka.Engine({"S": SCHEMA}, time="t")
    other.add(ALL, name="rises")
    with caplog.at_level(logging.WARNING, "keuka"):
        other.restore(snapshot)
    assert caplog.messages == ["rule `rises` is another than in the snapshot, so it begins anew"]
    assert other.rules["rises"].matches == 0


def test_rules_of_the_snapshot_that_the_engine_does_not_have_are_left_out():
    engine = halfway()
    engine.add(ALL, name="gone")
    resumed = keuka.Engine({"S": SCHEMA}, time="t")
    resumed.add(RISES, name="rises")
    resumed.restore(engine.snapshot())
    assert list(resumed.rules) == ["rises"]
    assert {row["_query"] for row in found_by(resumed, BATCHES[2])} == {"rises"}


def test_a_snapshot_keeps_rules_that_read_rules_and_rules_that_wait():
    engine = keuka.Engine({"S": SCHEMA}, time="t")
    engine.add("SELECT n FROM FILTER {n > 1} (S) PUBLISH Large")
    engine.add("SELECT n_1 AS a, n AS b FROM Large NEXT Large", name="pairs")
    engine.push("S", ticks(1, 2, 3))
    engine.add("SELECT n FROM FILTER {n > :least} (Later)", name="waits", params={"least": 1})
    resumed = keuka.Engine(time="t")
    resumed.restore(engine.snapshot())
    assert raised(lambda: resumed.remove("Large")).code == "K307"
    resumed.push("S", ticks(4))
    matches = resumed.push("Later", ticks(2, 5))
    assert matches.of("pairs").to_pylist() == [{"a": 2, "b": 3, "_start": 2, "_end": 3}]
    assert resumed.close().of("waits")["n"].to_pylist() == [5]
    assert resumed.late["Later"] == 1  # 2 is before the time at which the rule was added


def test_parameters_of_every_kind_survive():
    at = datetime.datetime(2024, 1, 31, 9, 30, tzinfo=datetime.UTC)
    minute, day = datetime.timedelta(minutes=1), datetime.date(2024, 1, 1)
    params = {"a": 1, "b": 1.5, "c": "text", "d": True, "e": None, "f": at, "g": minute, "h": day}
    engine = keuka.Engine()
    engine.add("SELECT :a AS a, :b AS b, :c AS c, :d AS d, n + :e AS e, :f AS f, :h AS h FROM FILTER {DUR < :g} (S)", params=params)
    resumed = keuka.Engine()
    resumed.restore(engine.snapshot())
    assert resumed.rules["rule_1"].spec.params == params
    for one in (engine, resumed):
        one.push("S", [{"at": at, "n": 1}])
    assert engine.close().to_pylist() == resumed.close().to_pylist() != []


def test_late_rows_limits_and_matches_not_yet_delivered_survive():
    engine = keuka.Engine({"S": keuka.Stream(SCHEMA, time="t", lateness=2)}, memory_limit="4 MB", keep_late=True)
    engine.add("SELECT k FROM S NEXT {$2.k = $1.k} S", name="hungry")
    engine.add(ALL, name="modest")
    engine.push("S", ticks(5, 1))
    raised(lambda: engine.push("S", unique(100_000, 10)))
    resumed = keuka.Engine(keep_late=True)
    resumed.restore(engine.snapshot())
    assert resumed.take_late("S").to_pylist() == ticks(1)
    assert resumed.late == {"S": 1}
    assert resumed.poll().of("modest")["n"].to_pylist() == [5, *range(10, 100_007)]


def test_waiting_events_of_every_type_survive():
    words = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema({"t": pa.timestamp("ms", "Europe/Berlin"), "d": words, "list": pa.list_(pa.int64()), "i": pa.int16()})
    engine = keuka.Engine({"S": keuka.Stream(schema, lateness="1 hour")})
    engine.add("SELECT d, list, i FROM S")
    batch = pa.table({"t": [2, 1], "d": pa.array(["x", "y"]).dictionary_encode(), "list": [[1], None], "i": [1, 2]}, schema=None)
    engine.push("S", batch.cast(schema))
    resumed = keuka.Engine()
    resumed.restore(engine.snapshot())
    for one in (engine, resumed):
        one.push("S", batch.cast(schema))
    assert resumed.close().table.equals(engine.close().table)


def test_damaged_snapshots_are_refused_and_change_nothing():
    snapshot = halfway().snapshot()
    engine = halfway()
    for place in range(0, len(snapshot), 7):
        damaged = bytearray(snapshot)
        damaged[place] ^= 1 << place % 8
        assert raised(lambda d=bytes(damaged): engine.restore(d)).code == "K519"
    for n in (0, 7, 20, 100, len(snapshot) - 1):
        assert raised(lambda n=n: engine.restore(snapshot[:n])).code == "K519"
    assert raised(lambda: engine.restore(snapshot + b"x")).code == "K519"
    assert len(found_by(engine, BATCHES[2])) == 3


def test_sections_that_do_not_fit_together_are_refused():
    snapshot = halfway().snapshot()
    sections = checkpoints.unpack(snapshot)
    assert checkpoints.pack(sections) == snapshot
    for name in sections:
        for content in (None, b"", b"{}", b"nonsense"):
            changed = {key: value for key, value in sections.items() if key != name}
            if content is not None:
                changed[name] = content
            if name.startswith("kernel/"):
                continue  # the runner's own
            assert raised(lambda c=changed: keuka.Engine().restore(checkpoints.pack(c))).code in ("K519", "K402")


def test_a_snapshot_restores_only_into_streams_of_the_same_columns():
    snapshot = halfway().snapshot()
    other = keuka.Engine({"S": pa.schema({"t": pa.int64(), "k": pa.string(), "n": pa.float64()})}, time="t")
    assert raised(lambda: other.restore(snapshot)).code == "K522"
    later = keuka.Engine({"S": keuka.Stream(SCHEMA, time="t", lateness=5), "T": SCHEMA}, time="t")
    later.restore(snapshot)
    assert set(later.late) == {"S", "T"}
    later.push("S", rows((4, "x", 0)))
    assert later.late["S"] == 0
