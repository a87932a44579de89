"""Sequences of all combinations in a live engine: deadlines, memory, snapshots, rules that read each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import keuka
from keuka.algebra.semantics import Event, evaluate
from keuka.languages.sets import lower_texts
from keuka.schema import StreamType, TimeAxis, schema_of

from .live import SCHEMA, raised, rows, ticks

UNANSWERED = "SEQ(S a, !T b) WHERE [k] WITHIN 10 RETURN a.n AS n"
WORDS = pa.schema({"t": pa.int64(), "k": pa.int64()})
MILLION = 1_000_000


def ends(matches: keuka.Matches) -> list[int]:
    return [row["_end"] for row in matches.to_pylist()]


# -- deadlines ---------------------------------------------------------------------------------------------------------------


def test_what_nothing_followed_is_known_at_the_last_tick_of_its_window_and_not_a_tick_earlier(engine: keuka.Engine):
    engine.add(UNANSWERED, language="sase")
    engine.push("S", rows((5, "a", 1), (6, "b", 2)))
    assert ends(engine.advance(13)) == []
    assert engine.advance(14).to_pylist() == [{"_query": "rule_1", "n": 1, "_start": 5, "_end": 14}]
    assert ends(engine.advance(15)) == [15]
    assert ends(engine.close()) == []


def test_what_nothing_followed_is_known_when_the_engine_is_closed(engine: keuka.Engine):
    engine.add(UNANSWERED, language="sase")
    engine.push("S", rows((5, "a", 1)))
    assert ends(engine.close()) == [14]


@pytest.mark.parametrize(("answered_at", "n_matches"), [(5, 1), (6, 0), (14, 0), (15, 1)])
def test_an_event_of_the_last_tick_is_in_the_way_and_simultaneous_or_later_ones_are_not(
    engine: keuka.Engine, answered_at: int, n_matches: int
):
    engine.add(UNANSWERED, language="sase")
    engine.push("S", rows((5, "a", 1)))
    engine.push("T", rows((answered_at, "a", 0)))
    found = [*ends(engine.advance(14)), *ends(engine.close())]
    assert found == [14] * n_matches


def test_a_deadline_waits_for_the_slowest_stream(engine: keuka.Engine):
    engine.add(UNANSWERED, language="sase")
    engine.push("S", rows((5, "a", 1), (100, "a", 2)))
    assert ends(engine.advance(13, stream="T")) == []
    assert ends(engine.push("T", rows((14, "a", 0)))) == []
    assert ends(engine.advance(20, stream="T")) == []
    assert ends(engine.close()) == [109]


# -- memory ------------------------------------------------------------------------------------------------------------------


def words(first: int, n: int, keys: Any) -> pa.Table:
    """Events at one tick after the other."""
    return pa.table([pa.array(np.arange(first, first + n)), pa.array(np.asarray(keys, np.int64))], schema=WORDS)


def test_keys_whose_time_is_over_hold_nothing():
    engine = keuka.Engine({"S": WORDS, "T": WORDS}, time="t")
    rule = engine.add("SEQ(!T x, S a, !T b) WHERE [k] WITHIN 50", language="sase")
    engine.push("S", words(0, 20_000, range(20_000)))
    assert len(engine.advance(19_999)) == 20_000 - 49
    assert (rule.live_instances, rule.bytes > 0) == (49, True)
    assert len(engine.advance(19_999 + 49)) == 49
    assert (rule.live_instances, rule.bytes) == (0, 0)


def test_two_million_keys_of_a_moment_each_keep_memory_flat():
    engine = keuka.Engine({"S": WORDS}, time="t")
    rule = engine.add("SEQ(S a, S b) WHERE [k] WITHIN 1000", language="sase")
    held, n_matches = [], 0
    for first in range(0, 2 * MILLION, 100_000):
        n_matches += len(engine.push("S", words(first, 100_000, np.arange(first, first + 100_000) // 2)))
        held.append((rule.live_instances, rule.bytes))
    assert n_matches >= MILLION - 1
    assert max([n for n, _ in held]) <= 1_000
    assert max([n for _, n in held[1:]]) <= 2 * held[0][1] < 1_000_000


def test_twenty_windows_hold_no_more_than_two():
    engine = keuka.Engine({"S": WORDS, "T": WORDS}, time="t")
    rule = engine.add("SEQ(!T x, S a, !T y, S b, !T z) WHERE [k] WITHIN 5000", language="sase")
    held = []
    for first in range(0, 100_000, 5_000):
        engine.push("T", words(first, 5_000, np.arange(5_000) % 3_000))
        engine.push("S", words(first, 5_000, 10_000 + np.arange(first, first + 5_000) // 2 % 5_000))
        held.append(rule.bytes)
    assert len(engine.close()) > 0
    assert max(held[4:]) <= max(held[:4])
    assert rule.bytes == 0


def test_of_a_window_of_two_million_events_only_those_that_matter_are_held():
    engine = keuka.Engine({"S": WORDS}, time="t")
    rule = engine.add(f"SEQ(S a (k = 7), S b (k = -1)) WITHIN {2 * MILLION}", language="sase")
    for first in range(0, 2 * MILLION, 500_000):
        engine.push("S", words(first, 500_000, np.arange(500_000) % 50_000))
    assert rule.live_instances == 40
    assert rule.bytes < 10_000


# -- snapshots ---------------------------------------------------------------------------------------------------------------

KINDS = {
    "plain": "SEQ(S a, T b, S c) WHERE a.n < c.n WITHIN 6",
    "by key": "SEQ(S a, T b) WHERE [k] WITHIN 6",
    "absent before": "SEQ(!T x, S a, S b) WHERE [k] WITHIN 6",
    "absent between": "SEQ(S a, !T x, S b) WHERE x.n > a.n WITHIN 6",
    "absent after": "SEQ(!T x, S a, S b, !T y) WHERE [k] AND (y.n > a.n OR a.n = b.n) WITHIN 6 RETURN a.k AS k, a.n + b.n AS n",
    "never before": "SEQ(!T x (k = 'b'), S a) WHERE [k]",
    "unordered": "UNORDERED(S a, T b, S c) WHERE a.n <> c.n WITHIN 5",
    "any": "SEQ(ANY(S, T) a, !S x (n = 3), ANY(S, T) b) WHERE a.n = b.n WITHIN 6",
    "published": "SEQ(S a, !T x (n > 2)) WHERE [k] WITHIN 4 PUBLISH Alone; SEQ(S a, Alone b, T c) WHERE [n] OR a.n < 3 WITHIN 9",
}


def events(first: int, n: int, keys: str = "abc") -> list[dict[str, Any]]:
    return rows(*[(t // 2, keys[t * t % len(keys)], t * 7 % 5) for t in range(first, first + n)])


def second_half(*engines: keuka.Engine) -> list[str]:
    """What several engines give together."""
    found = []
    for first in (20, 30):
        for stream, shift in (("S", 0), ("T", 1)):
            found += [row for engine in engines for row in engine.push(stream, events(first + shift, 10)).to_pylist()]
    return sorted([str(row) for row in found + [row for engine in engines for row in engine.close().to_pylist()]])


def halfway(query: str) -> keuka.Engine:
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", contributors=True)
    engine.add(query, name="rule", language="sase")
    for stream, shift in (("S", 0), ("T", 1)):
        engine.push(stream, events(shift, 20))
    return engine


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_in_mid_window_goes_on_in_another_engine(kind: str):
    engine, resumed = halfway(KINDS[kind]), keuka.Engine()
    resumed.restore(engine.snapshot())
    assert resumed.rules["rule"].live_instances == engine.rules["rule"].live_instances > 0
    assert second_half(resumed) == (expected := second_half(engine))
    assert len(expected) > 1


def test_a_snapshot_with_pass_through_values_and_texts_goes_on():
    engine, resumed = keuka.Engine(time="t"), keuka.Engine()
    engine.add("SEQ(S a, S b, !S x (k = 'x')) WHERE a.k = b.k WITHIN 100", name="rule", language="sase")
    engine.push("S", [{"t": t, "k": f"key {t % 3}", "tags": [t]} for t in range(6)])
    resumed.restore(engine.snapshot())
    found = resumed.close().to_pylist()
    assert [(row["a_tags"], row["b_tags"], row["b_k"]) for row in found] == [([t], [t + 3], f"key {t}") for t in range(3)]
    assert found == engine.close().to_pylist()


# -- rules that read each other ----------------------------------------------------------------------------------------------

CHAIN = (
    ("sase", "SEQ(S a, !T x) WHERE [k] WITHIN 4 RETURN a.k AS k, a.n AS n PUBLISH Quiet"),
    ("cel", "SELECT k, n_1 AS low, n AS high FROM S NEXT {$2.k = $1.k} Quiet PUBLISH Raised"),
    ("sase", "SEQ(Quiet a, !Raised x, ANY(S, Quiet) b) WHERE a.n <= b.n WITHIN 5 RETURN a.n AS n, b.n AS m PUBLISH Pairs"),
    ("sase", "UNORDERED(Pairs a, Raised b) WITHIN 3 RETURN a.n AS n, a.m AS m, b.high AS high"),
)


@pytest.mark.parametrize("n_rows", [1, 3, 100])
def test_rules_see_what_others_publish_at_deadlines_in_the_order_of_epochs(engine: keuka.Engine, n_rows: int):
    for language, text in CHAIN:
        engine.add(text, language=language)
    data = {"S": events(0, 40), "T": [row for row in events(3, 37, "abcd") if row["n"] > 2]}
    found = []
    for first in range(0, 40, n_rows):
        for stream, stream_rows in data.items():
            found += engine.push(stream, stream_rows[first : first + n_rows]).to_pylist()
    found += engine.close().to_pylist()
    expected = by_reference(data)
    for name in ("Quiet", "Raised", "Pairs", "rule_4"):
        own = [{column: value for column, value in row.items() if column != "_query"} for row in found if row["_query"] == name]
        assert [row["_end"] for row in own] == sorted([row["_end"] for row in own])
        assert sorted([str([v for v in row.values() if v is not None]) for row in own]) == expected[name]
        assert len(own) > 5


def by_reference(data: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    type_ = StreamType(schema_of(SCHEMA), TimeAxis(None, pa.int64()))
    query = keuka.query([keuka.sase(text) if language == "sase" else keuka.cel(text) for language, text in CHAIN])
    program = lower_texts(query.texts, {"S": type_, "T": type_}, {})
    streams = {s: [Event(tuple(row.values()), row["t"], row["t"], ((s, i),)) for i, row in enumerate(data[s])] for s in data}
    return {
        name or "rule_4": sorted([str([*e.payload, e.start, e.end]) for e in evaluate(operator, streams)])
        for name, operator in program.outputs
    }


# -- mistakes ----------------------------------------------------------------------------------------------------------------


def test_an_overflow_in_where_or_return_names_the_row_that_completes_the_match(engine: keuka.Engine):
    engine.add("SEQ(S a, S b) WHERE a.n * b.n > 0", language="sase")
    error = raised(lambda: engine.push("S", rows((1, "a", 2**62), (2, "a", 4), (3, "a", 1))))
    assert error.code == "K507"
    assert "stream `S`, row 2" in str(error)


def test_an_overflow_at_a_deadline_names_its_time(engine: keuka.Engine):
    engine.add("SEQ(S a, !T b) WITHIN 5 RETURN a.n * 2 AS n", language="sase")
    engine.push("S", rows((1, "a", 2**62)))
    error = raised(lambda: engine.advance(10))
    assert error.code == "K507"
    assert "5" in str(error)


def test_several_copies_of_a_rule_share_their_stacks_and_live_on_alone(engine: keuka.Engine):
    first = engine.add(UNANSWERED, name="first", language="sase")
    second = engine.add(UNANSWERED, name="second", language="sase")
    engine.push("S", ticks(1, 2, 3))
    engine.advance(3)
    assert first.bytes == second.bytes > 0
    first.remove()
    assert ends(engine.close()) == [10, 11, 12]


@pytest.mark.parametrize(
    ("before", "contributors"),
    [("SELECT k, n FROM S", False), ("SELECT n FROM S", False), ("SELECT n FROM S", True), ("SELECT n, k, t FROM S", False)],
)
def test_a_sequence_in_the_place_of_a_removed_rule_has_room_of_its_own(before: str, contributors: bool):
    """The output of a removed rule had other columns, or no contributors; a sequence must not count on its buffers."""
    engine = keuka.Engine(time="t")
    engine.add(before, name="before")
    engine.push("S", ticks(6, 44))
    engine.remove("before")
    engine.add(keuka.sase("SEQ(!S, S) WITHIN 5 RETURN $2.n AS n"), name="after", contributors=contributors)
    assert [row["n"] for row in engine.close().of("after").to_pylist()] == [44]
