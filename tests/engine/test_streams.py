"""Several streams in one engine: the slowest, the silent, the idle."""

from __future__ import annotations

import datetime

import pyarrow as pa

import keuka

from .live import ALL, PAIRS, SCHEMA, HandMovedClock, numbers, raised, ticks


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


def test_late_rows_of_a_type_that_arrow_cannot_pick_from_are_kept():
    schema = pa.schema({"t": pa.int64(), "s": pa.string_view()})
    engine = keuka.Engine({"S": keuka.Stream(schema, time="t")}, keep_late=True)
    engine.add("SELECT t FROM S", name="all")
    for times in ([5], [6, 2, 3, 7, 1], [9]):
        engine.push("S", pa.record_batch([pa.array(times), pa.array([f"{t}" for t in times], pa.string_view())], schema=schema))
    assert engine.take_late("S").to_pylist() == [{"t": t, "s": f"{t}"} for t in (2, 3, 1)]
    assert engine.counters()["late"] == 3
