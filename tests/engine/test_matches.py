"""What comes back: one table per schema, and counters."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

import keuka

from .live import ALL, RISES, SCHEMA, raised, rows, ticks


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
