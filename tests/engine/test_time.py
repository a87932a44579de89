"""Events, epochs and promises: when matches come, and which rows are late."""

from __future__ import annotations

import datetime
import logging

import pandas as pd
import pyarrow as pa
import pytest

import keuka

from .live import ALL, RISES, SCHEMA, HandMovedClock, numbers, raised, rows, ticks


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
    local = keuka.Engine(time="at")  # the integer beside the date could be the time, too
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


@pytest.mark.parametrize("query", ["SELECT n FROM S UNION Slow", "SELECT n_1 AS n FROM Slow NEXT S"])
def test_time_does_not_go_back_for_a_rule_that_reads_a_slower_stream(query: str):
    """The events that wait for the end of a window stay."""
    engine = keuka.Engine({name: keuka.Stream(SCHEMA, lateness=1) for name in ("S", "T", "Slow")}, time="t")
    engine.add(keuka.sase("SEQ(S a, !T b) WITHIN 5 RETURN a.n AS n"), name="alone")
    engine.push("Slow", ticks(1))
    engine.push("S", ticks(2, 5))
    engine.advance(6, stream="T")
    engine.add(query, name="slower")
    assert len(engine.poll()) == 0
    assert engine.rules["alone"].live_instances == 1
    assert [row["_end"] for row in engine.close().of("alone").to_pylist()] == [6, 9]


def test_time_does_not_go_back_for_a_stream_that_was_idle():
    clock = HandMovedClock()
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", idle_after="10 s", _clock=clock)
    engine.add(keuka.sase("SEQ(S a, !T b) WITHIN 5 RETURN a.n AS n"), name="alone")
    engine.push("T", ticks(1))
    clock.now = 10.0
    engine.push("S", ticks(4, 6))
    engine.push("T", ticks(2))
    assert engine.rules["alone"].live_instances == 1
    assert [row["_end"] for row in engine.close().to_pylist()] == [8, 10]
