"""Rules that read what other rules publish."""

from __future__ import annotations

import keuka

from .live import SCHEMA, raised, ticks


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
