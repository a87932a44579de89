"""Rules that come and go, with streams that are known or not yet."""

from __future__ import annotations

import datetime
import logging
from typing import Any

import pyarrow as pa
import pytest

import keuka

from .live import ALL, RISES, numbers, raised, rows, ticks


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
    assert "`engine.remove('bad')`" in str(error)
    assert list(engine.rules) == ["good", "bad", "worse"]
    assert engine.counters()["events"] == 0
    engine.remove("bad")
    assert raised(lambda: engine.push("S", ticks(1, 2))).code == "K205"
    engine.remove("worse")
    assert numbers(engine.push("S", ticks(1, 2))) == [1]
    engine.add("SELECT n FROM S PUBLISH Sums")


def test_a_first_batch_that_fits_no_rule_leaves_nothing_behind():
    """Neither the columns of the wrong batch, nor its clock, nor what rules that fit it had begun."""
    engine = keuka.Engine(time="t", contributors=True)
    engine.add("SELECT n FROM S PUBLISH Small", name="small")
    engine.add("SELECT n, tags FROM Small NEXT S", name="pairs")
    at = datetime.datetime(2026, 1, 1)
    wrong = [{"t": at, "n": 1.5, "tag": ["x"]}, {"t": at + datetime.timedelta(1), "n": 2.5, "tag": ["x"]}]
    assert raised(lambda: engine.push("S", wrong)).code == "K201"
    assert (engine.counters()["streams"], engine.time) == ({}, None)
    found = [engine.push("S", [{"t": i, "n": i, "tags": [f"{i}"]} for i in (1, 2, 3)]), engine.close()]
    assert [row["tags"] for matches in found for row in matches.of("pairs").to_pylist()] == [["2"], ["3"]]


def test_names_of_streams_that_are_nearly_right_are_warned_of(caplog: pytest.LogCaptureFixture):
    engine = keuka.Engine(time="t")
    engine.add("SELECT n FROM Logins", name="good")
    with caplog.at_level(logging.WARNING, "keuka"):
        engine.push("Logins", ticks(1))
        engine.push("logins", ticks(1))
        engine.add("SELECT n FROM Loginz", name="typo")
    assert caplog.messages == [
        "no rule reads `logins`, of which events were pushed; names are case-sensitive; did you mean `Logins`?",
        "rule `typo` reads `Loginz`, of which nothing came yet, and time waits for it; did you mean `Logins`?",
    ]
    with pytest.raises(TypeError, match="push\\(stream, data\\)"):
        engine.push(ticks(1), "Logins")  # type: ignore[arg-type]


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
