"""An engine whose events come in one stream, with a column that says of which type each is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keuka

SEQUENCE = "SEQ(A a, !B b, C c) WHERE [u] WITHIN 6 RETURN a.t AS first, c.t AS last"
NEXT = "SELECT t_1 AS first, t AS last FROM A NEXT {$2.u = $1.u} B"
PUBLISHED = "SELECT * FROM FILTER {u = 1} (A) PUBLISH First"
READER = "SELECT t_1 AS first, t AS last FROM First NEXT {$2.u = $1.u} C"
SCHEMA = pa.schema([("t", pa.int64()), ("kind", pa.string()), ("u", pa.int64())])


def rows_of(events: list[tuple[int, str | None, int]]) -> pa.Table:
    return pa.Table.from_pylist([{"t": t, "kind": kind, "u": u} for t, kind, u in sorted(events, key=lambda e: e[0])], SCHEMA)


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted([str({name: value for name, value in row.items() if name != "_query"}) for row in rows])


def add_rules(engine: keuka.Engine) -> None:
    engine.add(keuka.sase(SEQUENCE), name="sequence")
    engine.add(NEXT, name="next")
    engine.add(PUBLISHED, name="published")
    engine.add(READER, name="reader")


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["A", "B", "C", "D", None]), st.integers(0, 1)), min_size=1, max_size=14),
    st.integers(0, 14),
)
def test_an_engine_finds_what_match_finds_also_across_a_snapshot(events: list[tuple[int, str | None, int]], cut: int):
    table = rows_of(events)
    engine = keuka.Engine(time="t", type_column="kind")
    add_rules(engine)
    found = [engine.push("events", table.slice(0, cut))]
    restored = keuka.Engine(time="t")
    restored.restore(engine.snapshot())
    found += [restored.push("events", table.slice(cut)), restored.close()]
    for rule, query in (
        ("sequence", keuka.sase(SEQUENCE)),
        ("next", NEXT),
        ("reader", keuka.query([keuka.cel(PUBLISHED), keuka.cel(READER)])),
    ):
        expected = keuka.match(query, table, time="t", type_column="kind").to_pylist()
        assert in_order([row for matches in found for row in matches.of(rule).to_pylist()]) == in_order(expected)


def test_a_type_that_does_not_come_is_warned_of_once_and_at_the_end(caplog: pytest.LogCaptureFixture):
    engine = keuka.Engine(time="t", type_column="kind")
    engine.add(keuka.sase("SEQ(view v, !purchases p) WHERE [u] WITHIN 5"))
    for n in range(0, 24_000, 4_000):
        rows = [{"t": n + i, "kind": ("view", "purchase")[i % 2], "u": 1} for i in range(4_000)]
        engine.push("events", pa.Table.from_pylist(rows, SCHEMA))
        assert len(caplog.messages) == (1 if n >= 8_000 else 0)
    assert caplog.messages[0].startswith("warning[K545]: no row has the type `purchases`\n --> <query>:1:14")
    assert "did you mean `purchase`?" in caplog.messages[0]
    engine.close()
    assert caplog.messages[1:] == caplog.messages[:1]


def test_types_that_come_late_or_before_a_snapshot_are_no_warning(caplog: pytest.LogCaptureFixture):
    engine = keuka.Engine(time="t", type_column="kind")
    add_rules(engine)
    engine.push("events", rows_of([(1, "A", 1), (2, "B", 1)]))
    other = keuka.Engine(time="t", type_column="kind")
    other.restore(engine.snapshot())
    other.push("events", rows_of([(3, "C", 1)]))
    other.close()
    assert caplog.messages == []


def test_the_stream_may_have_another_name_if_it_is_declared(caplog: pytest.LogCaptureFixture):
    engine = keuka.Engine({"Readings": SCHEMA}, time="t", type_column="kind")
    rule = engine.add(NEXT, name="next")
    assert rule.streams == ("Readings",)
    assert rule.types == ("A", "B")
    assert len(engine.push("Readings", rows_of([(1, "A", 1), (2, "B", 1), (3, "C", 1)]))) == 1
    assert engine.late == {"Readings": 0}
    engine.remove("next")
    engine.close()
    assert caplog.messages == []


def test_another_stream_is_refused_and_the_engine_goes_on():
    engine = keuka.Engine(time="t", type_column="kind")
    engine.add(NEXT, name="next")
    with pytest.raises(keuka.DataError, match="all events come in one stream, `events`, not in `A`") as raised:
        engine.push("A", rows_of([(1, "A", 1)]))
    assert raised.value.code == "K505"
    with pytest.raises(keuka.DataError, match="all events come in one stream"):
        keuka.Engine({"A": SCHEMA, "B": SCHEMA}, time="t", type_column="kind")
    assert len(engine.push("events", rows_of([(1, "A", 1), (2, "B", 1), (3, "C", 1)]))) == 1


def test_a_column_that_is_not_there_or_no_text_is_refused_before_anything_is_taken():
    for column, problem in (("sort", "does not exist"), ("u", "holds integer values, not text")):
        engine = keuka.Engine(time="t", type_column=column)
        engine.add(NEXT, name="next")
        with pytest.raises(keuka.KeukaError, match=f"the type column `{column}` {problem}"):
            engine.push("events", rows_of([(1, "A", 1)]))
        assert engine.counters()["events"] == 0
    with pytest.raises(TypeError, match="type_column must be the name of a column"):
        keuka.Engine(type_column=3)  # type: ignore[arg-type]


def test_a_rule_cannot_publish_a_type_that_another_reads():
    engine = keuka.Engine({"events": SCHEMA}, time="t", type_column="kind")
    engine.add(NEXT, name="next")
    with pytest.raises(keuka.QueryError, match="publishes `B`, which is the name of an input stream"):
        engine.add("SELECT * FROM C PUBLISH B")


def test_a_snapshot_of_another_type_column_is_refused():
    engine = keuka.Engine({"events": SCHEMA}, time="t", type_column="kind")
    engine.add(NEXT, name="next")
    other = keuka.Engine({"events": SCHEMA}, time="t")
    for one, snapshot in ((other, engine.snapshot()), (engine, other.snapshot())):
        with pytest.raises(keuka.DataError, match="`type_column`") as raised:
            one.restore(snapshot)
        assert raised.value.code == "K522"
