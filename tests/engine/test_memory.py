"""The memory limit: who is named, and that nothing is lost."""

from __future__ import annotations

import os

import pytest

import keuka

from .live import ALL, SCHEMA, numbers, raised, ticks, unique


def hungry(limit: str | int | None) -> keuka.Engine:
    engine = keuka.Engine({"S": SCHEMA}, time="t", memory_limit=limit)
    engine.add("SELECT k FROM S NEXT {$2.k = $1.k} S", name="hungry")
    engine.add(ALL, name="modest")
    return engine


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


@pytest.mark.parametrize(("written", "n_bytes"), [("4 GB", 4 * 10**9), ("1.5MB", 1_500_000), ("2 GiB", 2**31), (1234, 1234)])
def test_a_limit_is_written_with_a_unit_or_as_bytes(written: str | int, n_bytes: int):
    assert keuka.Engine(memory_limit=written).memory_limit == n_bytes


def test_without_a_limit_half_the_memory_of_the_machine_is_allowed():
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < keuka.Engine().memory_limit <= machine // 2


def test_a_step_that_takes_far_more_than_the_limit_is_stopped_in_the_middle_and_the_engine_can_be_restored():
    engine = keuka.Engine({"S": SCHEMA}, time="t", memory_limit="20 MB")
    engine.add(ALL, name="modest")
    engine.add("SELECT n FROM S FOLD {TRUE, TRUE} S", name="explosive")
    engine.push("S", unique(3))
    snapshot = engine.snapshot()
    simultaneous = [{"t": 10 + i // 10, "k": "a", "n": i} for i in range(120)]
    error = raised(lambda: engine.push("S", simultaneous))
    assert error.code == "K518"
    assert "rule `explosive` holds most" in str(error)
    assert "engine.restore(snapshot)" in str(error)
    assert raised(engine.poll).code == "K523"
    engine.restore(snapshot)
    engine.remove("explosive")
    assert engine.push("S", simultaneous).of("modest").num_rows + engine.close().of("modest").num_rows == 121


def test_more_matches_than_the_limit_holds_come_in_turns_and_none_is_lost():
    engine = keuka.Engine(time="t", memory_limit="2 MB")
    engine.add(keuka.sase("SEQ(S a, S b) RETURN a.t AS first"), name="pairs")
    error = raised(lambda: engine.push("S", [{"t": i} for i in range(1_500)]))
    assert error.code == "K518"
    assert "more matches than its memory_limit of 2 MB holds" in str(error)
    assert "rule `pairs` has had " in str(error)
    assert raised(engine.snapshot).code == raised(lambda: engine.remove("pairs")).code == "K518"
    assert raised(lambda: engine.add("FROM S", name="more")).code == "K518"
    turns = []
    while matches := engine.poll():
        turns.append(len(matches))
    assert max(turns) < 2 * 131_072
    assert sum(turns) + len(engine.close()) == 1_500 * 1_499 // 2


def test_a_query_without_any_condition_is_answered_within_the_limit():
    """Six components over 200 events have 82 billion combinations: they come in turns, for as long as somebody takes them."""
    engine = keuka.Engine(time="t", memory_limit="20 MB")
    rule = engine.add(keuka.sase("SEQ(S a, S b, S c, S d, S e, S f)"), name="all")
    assert "[id]" in str(raised(lambda: engine.push("S", [{"t": i} for i in range(200)])))
    assert all(0 < len(engine.poll()) < 1_000_000 for _ in range(5))
    assert rule.bytes < 1_000_000


def test_an_engine_with_matches_left_cannot_be_closed():
    engine = keuka.Engine(time="t", memory_limit="2 MB")
    engine.add(keuka.sase("SEQ(S a, S b) RETURN a.t AS first"), name="pairs")
    raised(lambda: engine.push("S", [{"t": i} for i in range(1_000)]))
    assert raised(engine.close).code == raised(engine.close).code == "K518"
    n = 0
    while matches := engine.poll():
        n += len(matches)
    assert n + len(engine.close()) == 1_000 * 999 // 2


def test_very_many_matches_of_several_rules_are_in_one_order():
    engine = keuka.Engine(time="t")
    engine.add(keuka.sase("SEQ(S a, S b) RETURN a.t AS first"), name="pairs")
    engine.add(keuka.sase("SEQ(S a, S b) WHERE a.t < b.t - 1 RETURN a.t AS first"), name="apart")
    ends = engine.push("S", [{"t": i} for i in range(800)]).table.column("_end").to_pylist()
    assert len(ends) > 4 * 131_072
    assert ends == sorted(ends)
