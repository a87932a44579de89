"""Rules that read what other rules publish."""

from __future__ import annotations

import pytest

import keuka

from .live import SCHEMA, raised, rows, ticks


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


# Queries of one set, in the order they read each other.
SETS = {
    "both sides of a union": ["FROM S UNION S PUBLISH P", "FROM P UNION S PUBLISH Q"],
    "a rule that reads a rule that reads a rule": [
        "SELECT t, k, n FROM S UNION S PUBLISH P",
        "SELECT t, k, n FROM P UNION S PUBLISH Q",
        "SELECT t, k, n FROM Q UNION P PUBLISH R",
    ],
    "a stream read twice": ["FROM S UNION T PUBLISH P", "SELECT n_1 AS a, n AS b FROM P NEXT P PUBLISH Q"],
    "a published stream on the right": ["FROM S UNION S PUBLISH P", "SELECT n_1 AS a, n AS b FROM S NEXT P PUBLISH Q"],
    "runs": ["FROM S UNION S PUBLISH P", "SELECT n_1 AS a, n AS b FROM P FOLD {TRUE, $2.n > $.n} P PUBLISH Q"],
    "a sequence": ["FROM S UNION T PUBLISH P", "SEQ(P a, !T, P b) WHERE [k] WITHIN 3 RETURN a.n AS a, b.n AS b PUBLISH Q"],
    "a query over a sequence": ["SEQ(S a, T b) WITHIN 4 RETURN a.n AS a, b.n AS b PUBLISH P", "FROM P UNION P PUBLISH Q"],
    "two readers of one stream": [
        "FROM S UNION S PUBLISH P",
        "FROM P UNION T PUBLISH Q",
        "FROM T UNION P PUBLISH R",
        "SELECT n_1 AS a, n AS b FROM Q NEXT R PUBLISH Z",
    ],
    "a reader with columns renamed": ["SELECT n AS m, k FROM S UNION S PUBLISH P", "SELECT m + 1 AS z FROM P UNION P PUBLISH Q"],
}


def add(engine: keuka.Engine, query: str) -> None:
    engine.add(keuka.sase(query) if query.startswith("SEQ") else keuka.cel(query))


def rules(queries: list[str]) -> keuka.Engine:
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", contributors=True)
    for query in queries:
        add(engine, query)
    return engine


def events(first: int) -> list[dict[str, object]]:
    return rows(*[(t, "ab"[t % 2], t) for t in range(first, first + 3)], (first + 2, "a", 0))


def ids(matches: list[keuka.Matches]) -> dict[str, list[str]]:
    """By published stream, sorted; no two matches of one have the same."""
    found: dict[str, list[str]] = {}
    for row in [row for one in matches for row in one.to_pylist()]:
        found.setdefault(row["_query"].rpartition(".")[2], []).append(row["_id"])
    assert all(len({*of_query}) == len(of_query) for of_query in found.values())
    return {name: sorted(found[name]) for name in sorted(found)}


def finish(engine: keuka.Engine, first: int) -> list[keuka.Matches]:
    return [engine.push("S", events(first)), engine.push("T", events(first)), engine.close()]


def ids_of_set(queries: list[str]) -> dict[str, list[str]]:
    engine = keuka.Engine({"S": SCHEMA, "T": SCHEMA}, time="t", contributors=True)
    parsed = [keuka.sase(query) if query.startswith("SEQ") else keuka.cel(query) for query in queries]
    engine.add(keuka.query(parsed), name="set")
    return ids([engine.push("S", events(1)), engine.push("T", events(1)), *finish(engine, 4)])


@pytest.mark.parametrize("queries", SETS.values(), ids=SETS.keys())
def test_matches_of_queries_have_the_same_ids_as_rules_and_as_one_set(queries: list[str]):
    engine = rules(queries)
    found = [engine.push("S", events(1)), engine.push("T", events(1))]
    expected = ids_of_set(queries)
    assert {*expected} == {query.rpartition(" ")[2] for query in queries}
    assert ids([*found, *finish(engine, 4)]) == expected


@pytest.mark.parametrize("queries", SETS.values(), ids=SETS.keys())
@pytest.mark.parametrize("has_rules", [False, True])
def test_ids_are_the_same_after_a_snapshot(queries: list[str], has_rules: bool, caplog: pytest.LogCaptureFixture):
    engine = rules(queries)
    found = [engine.push("S", events(1)), engine.push("T", events(1))]
    resumed = rules(queries) if has_rules else keuka.Engine()
    resumed.restore(engine.snapshot())
    assert ids([*found, *finish(resumed, 4)]) == ids_of_set(queries)
    assert caplog.messages == []


def test_a_reader_added_after_a_snapshot_has_the_ids_of_one_set():
    queries = SETS["both sides of a union"]
    engine = keuka.Engine()
    engine.restore(rules(queries[:1]).snapshot())
    engine.add(queries[1], contributors=True)
    found = [engine.push("S", events(1)), engine.push("T", events(1))]
    assert ids([*found, *finish(engine, 4)]) == ids_of_set(queries)


def test_a_reader_has_the_ids_of_the_publisher_that_is_there():
    """The first one under the name had another meaning."""
    queries = SETS["both sides of a union"]
    engine = rules(["SELECT n FROM FILTER {n > 2} T PUBLISH P", "FROM P UNION P PUBLISH Q"])
    engine.push("T", events(-5))
    engine.remove("Q")
    engine.remove("P")
    engine.advance(0)
    for query in queries:
        add(engine, query)
    found = [engine.push("S", events(1)), engine.push("T", events(1))]
    assert ids([*found, *finish(engine, 4)]) == ids_of_set(queries)


def test_a_rule_without_publish_leaves_the_stream_of_another_that_has_its_default_name(engine: keuka.Engine):
    engine.add("SELECT n FROM S PUBLISH query_1", name="publisher")
    engine.add("SELECT n FROM S", name="unnamed")
    engine.remove("unnamed")
    engine.add("SELECT n FROM query_1", name="reader")
    engine.push("S", ticks(1))
    assert engine.close().of("reader")["n"].to_pylist() == [1]
