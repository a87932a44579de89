"""The public calls as users make them: kinds of data in and out, streams by name, parameters, outputs, contributors."""

from __future__ import annotations

import datetime as dt
import decimal
import logging
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keuka
from keuka.query import prepare
from keuka.run.embedded import run

RISES = "SELECT name, price_1 AS low, price AS high FROM S NEXT {$2.name = $1.name AND $2.price > $1.price} S"
ROWS = [
    {"t": 1, "name": "a", "price": 10.0},
    {"t": 2, "name": "b", "price": 5.0},
    {"t": 3, "name": "a", "price": 9.0},
    {"t": 4, "name": "a", "price": 12.0},
]
FOUND = [
    {"name": "a", "low": 9.0, "high": 12.0, "_start": 3, "_end": 4},
    {"name": "a", "low": 10.0, "high": 12.0, "_start": 1, "_end": 4},
]


def by_start(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: (row["_end"], -row["_start"]))  # type: ignore[operator]


def test_arrow_tables_give_arrow_tables():
    result = keuka.match(RISES, pa.Table.from_pylist(ROWS), time="t")
    assert isinstance(result, pa.Table)
    assert by_start(result.to_pylist()) == FOUND


def test_pandas_frames_give_pandas_frames():
    result = keuka.match(RISES, pd.DataFrame(ROWS), time="t")
    assert isinstance(result, pd.DataFrame)
    assert by_start(result.to_dict("records")) == FOUND


def test_polars_frames_give_polars_frames():
    result = keuka.match(RISES, pl.DataFrame(ROWS), time="t")
    assert isinstance(result, pl.DataFrame)
    assert by_start(result.to_dicts()) == FOUND


def test_lists_readers_and_paths_give_arrow_tables(tmp_path: Path):
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "s.parquet")
    for data in (ROWS, table.to_reader(max_chunksize=1), tmp_path / "s.parquet", str(tmp_path / "s.parquet")):
        assert by_start(keuka.match(RISES, data, time="t").to_pylist()) == FOUND


def test_different_kinds_together_give_arrow():
    query = "SELECT price_1, price FROM S NEXT R"
    result = keuka.match(query, {"S": pd.DataFrame(ROWS), "R": pl.DataFrame(ROWS)}, time="t")
    assert isinstance(result, pa.Table)


def test_a_query_comes_as_text_path_or_object(tmp_path: Path):
    (tmp_path / "rises.cel").write_text(RISES)
    for query in (RISES, keuka.cel(RISES), tmp_path / "rises.cel", str(tmp_path / "rises.cel"), keuka.query(RISES, language="cel")):
        assert by_start(keuka.match(query, ROWS, time="t").to_pylist()) == FOUND


def test_times_may_be_given_by_stream_and_in_streams():
    query = "SELECT price_1, price FROM S NEXT R"
    other = [{"when": 5, "price": 1.0}]
    expected = keuka.match(query, {"S": keuka.Stream(ROWS, time="t"), "R": keuka.Stream(other, time="when")}).to_pylist()
    assert expected == keuka.match(query, {"S": ROWS, "R": other}, time={"S": "t", "R": "when"}).to_pylist()
    assert len(expected) == 4


def test_interval_streams_have_a_start_and_an_end():
    visits = [{"a": 1, "b": 3, "who": "x"}, {"a": 2, "b": 5, "who": "y"}, {"a": 4, "b": 6, "who": "z"}]
    result = keuka.match("SELECT who_1, who FROM V NEXT V", visits, time=("a", "b"))
    assert result.to_pylist() == [{"who_1": "x", "who": "z", "_start": 1, "_end": 6}]


def test_parameters_are_filled_in_and_named():
    query = keuka.cel("SELECT * FROM FILTER {price > :least AND name = :name} (S)")
    assert query.parameters == ("least", "name")
    assert query.inputs == ("S",)
    result = keuka.match(query, ROWS, time="t", params={"least": 9.5, "name": "a"})
    assert result["t"].to_pylist() == [1, 4]


TWO = "SELECT * FROM FILTER {price > 9} (S) PUBLISH High; SELECT name FROM High NEXT High PUBLISH Pair;"


def test_output_chooses_a_published_stream_and_the_last_is_the_default():
    assert keuka.match(TWO, ROWS, time="t", output="High")["t"].to_pylist() == [1, 4]


def test_match_all_returns_every_published_stream(tmp_path: Path):
    (tmp_path / "1.cel").write_text("SELECT * FROM FILTER {price > 9} (S) PUBLISH High;")
    (tmp_path / "2.cel").write_text("SELECT price_1 AS a, price AS b FROM High NEXT High PUBLISH Pair;")
    results = keuka.match_all(tmp_path, {"S": ROWS}, time="t")
    assert list(results) == ["High", "Pair"]
    assert results["Pair"].to_pylist() == [{"a": 10.0, "b": 12.0, "_start": 1, "_end": 4}]


def test_a_type_column_splits_one_table_into_streams():
    readings = [
        {"t": 1, "kind": "SHELF", "tag": 7},
        {"t": 2, "kind": "SHELF", "tag": 8},
        {"t": 3, "kind": "COUNTER", "tag": 8},
        {"t": 4, "kind": "EXIT", "tag": 7},
    ]
    query = "SELECT tag_1, tag FROM SHELF NEXT {$2.tag = $1.tag} EXIT"
    result = keuka.match(query, readings, time="t", type_column="kind")
    assert result.to_pylist() == [{"tag_1": 7, "tag": 7, "_start": 1, "_end": 4}]


def test_columns_of_other_types_pass_through():
    rows = [{"t": i, "k": i % 2, "paid": decimal.Decimal(f"{i}.5"), "tags": [str(i)] if i != 3 else None} for i in range(6)]

    query = "SELECT paid_1, tags_1, paid, tags FROM S NEXT {$2.k = $1.k} S"
    result = keuka.match(query, pa.Table.from_pylist(rows), time="t").to_pylist()
    expected = [
        {"paid_1": rows[i]["paid"], "tags_1": rows[i]["tags"], "paid": rows[i + 2]["paid"], "tags": rows[i + 2]["tags"]} for i in range(4)
    ]
    assert [{k: v for k, v in row.items() if not k.startswith("_")} for row in result] == expected


def test_other_columns_of_two_streams_meet_in_a_union():
    left = pa.table({"t": [1, 3], "x": [[1], [3]]})
    right = pa.table({"t": [2, 4], "y": [[2], None]}, schema=pa.schema([("t", pa.int64()), ("y", pa.list_(pa.int64()))]))
    result = keuka.match("SELECT * FROM (SELECT x FROM A) UNION (SELECT y AS x FROM B)", {"A": left, "B": right}, time="t")
    assert result["x"].to_pylist() == [[1], [2], [3], None]


def test_contributors_are_the_events_behind_a_match_in_order():
    rows = [{**row, "id": f"e{i}"} for i, row in enumerate(ROWS)]
    stream = keuka.Stream(pa.Table.from_pylist(rows), time="t", id="id")
    result = keuka.match(RISES, {"S": stream}, contributors=True).to_pylist()
    assert [[c["id"] for c in row["_contributors"]] for row in by_start(result)] == [["e2", "e3"], ["e0", "e3"]]
    assert {c["stream"] for row in result for c in row["_contributors"]} == {"S"}
    assert len({row["_id"] for row in result}) == 2


def test_ids_do_not_depend_on_batches_or_on_other_queries():
    rows = pa.Table.from_pylist(ROWS)
    whole = keuka.match(RISES, rows, time="t", contributors=True)
    split = keuka.match(RISES, rows.to_reader(max_chunksize=1), time="t", contributors=True)
    among = keuka.match_all(
        f"SELECT * FROM FILTER {{price > 9}} (S) PUBLISH High; {RISES} PUBLISH Rises", rows, time="t", contributors=True
    )
    assert sorted(whole["_id"].to_pylist()) == sorted(split["_id"].to_pylist()) == sorted(among["Rises"]["_id"].to_pylist())


# The same events may be split between the two runs in several ways.
NESTED_RUNS = "SELECT first, middle, t FROM (SELECT t_1 AS first, t AS middle, t FROM S FOLD {TRUE, TRUE} S) FOLD {TRUE, TRUE} S"


def test_equal_contributors_through_different_inputs_have_different_ids():
    both = keuka.match("SELECT * FROM S UNION S", ROWS[:1], time="t", contributors=True)
    assert both.num_rows == 2
    assert len(set(both["_id"].to_pylist())) == 2
    found = keuka.match(NESTED_RUNS, [{"t": i} for i in range(1, 5)], time="t", contributors=True)
    assert len(set(found["_id"].to_pylist())) == found.num_rows


def test_timestamps_keep_their_zone():
    moment = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    table = pa.table({"at": pa.array([moment, moment + dt.timedelta(minutes=1)], pa.timestamp("ms", tz="Europe/Paris")), "x": [1, 2]})
    result = keuka.match("SELECT x_1, x FROM S NEXT S", table)
    assert result.schema.field("_end").type == pa.timestamp("us", tz="Europe/Paris")
    assert result["_start"].to_pylist() == [moment]


def test_output_schema_is_known_without_running():
    schema = keuka.cel(RISES).output_schema(pa.Table.from_pylist(ROWS), time="t")
    assert schema == keuka.match(RISES, ROWS, time="t").schema


def test_an_empty_table_gives_an_empty_result_with_the_right_columns():
    empty = pa.Table.from_pylist(ROWS).slice(0, 0)
    result = keuka.match(RISES, empty, time="t", contributors=True)
    assert result.num_rows == 0
    assert result.column_names == ["name", "low", "high", "_start", "_end", "_id", "_contributors"]


def test_runs_are_logged_under_keuka(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, logger="keuka"):
        keuka.match(RISES, ROWS, time="t")
    assert [record.name for record in caplog.records] == ["keuka", "keuka"]
    assert "2 matches" in caplog.records[1].getMessage()


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ({}, "error[K505]: no data was given for `S`, `R`, which the query reads\n = help: give a dict from stream name to data"),
        (
            {"s": ROWS, "R": ROWS},
            "error[K505]: no data was given for `S`, which the query reads\n"
            " = help: names are case-sensitive; did you mean `s`?\n"
            " = help: data was given for `s`, `R`",
        ),
        (
            ROWS,
            "error[K505]: the query reads 2 streams, `S`, `R`, but one was given\n"
            " = help: give a dict from stream name to data\n"
            " = help: if the table has the events of all, say which column names their streams: `type_column=`",
        ),
    ],
)
def test_missing_streams_are_named(streams: object, message: str):
    with pytest.raises(keuka.DataError) as raised:
        keuka.match("SELECT price_1 FROM S NEXT R", streams, time="t")
    assert str(raised.value) == message


def test_an_unknown_output_is_refused_with_what_there_is():
    with pytest.raises(keuka.QueryError) as raised:
        keuka.match(TWO, ROWS, time="t", output="high")
    assert str(raised.value) == (
        "error[K202]: no query publishes `high`\n"
        " = help: names are case-sensitive; did you mean `High`?\n"
        " = help: the query set publishes `High`, `Pair`"
    )


def test_integer_overflow_names_stream_and_row():
    rows = [{"t": 1, "n": 1}, {"t": 2, "n": 2**62}, {"t": 3, "n": 3}]
    with pytest.raises(keuka.DataError) as raised:
        keuka.match("SELECT n * 4 AS m FROM S", rows, time="t")
    assert str(raised.value) == (
        "error[K507]: the result of `n * 4` does not fit into 64 bits\n"
        "  stream `S`, row 2\n"
        " = help: make one operand a double (for example `1.0 * a`) to calculate in floating point"
    )


def test_overflow_in_an_intermediate_stream_names_its_end():
    rows = [{"t": 1, "n": 2**62}, {"t": 2, "n": 2**62}, {"t": 3, "n": 3}]
    query = "SELECT * FROM S NEXT {$1.n + m > 0} (SELECT n_1 AS m FROM S NEXT S)"
    with pytest.raises(
        keuka.DataError,
        match=r"the result of `\$1.n \+ \$2.m` does not fit into 64 bits\n  an event of a subquery of `query_1` that ends at 3",
    ):
        keuka.match(query, rows, time="t")


def test_division_by_zero_is_null():
    result = keuka.match("SELECT n / 0 AS q, n % 0 AS r, 1.5 / (n - n) AS s FROM S", [{"t": 1, "n": 5}], time="t")
    assert result.to_pylist() == [{"q": None, "r": None, "s": None, "_start": 1, "_end": 1}]


def test_ten_thousand_terms_are_accepted():
    terms = " AND ".join([f"n <> {i}" for i in range(10_000)])
    rows = [{"t": 1, "n": 5}, {"t": 2, "n": 20_000}]
    assert keuka.match(f"SELECT n FROM FILTER {{{terms}}} (S)", rows, time="t")["n"].to_pylist() == [20_000]
    pairs = " AND ".join([f"$2.n <> $1.n + {i}" for i in range(10_000)])
    assert keuka.match(f"SELECT n FROM S NEXT {{{pairs}}} S", rows, time="t").num_rows == 1


def test_five_thousand_levels_of_nesting_are_refused_clearly():
    for text in (
        f"SELECT * FROM FILTER {{{'(' * 5000}n = 1{')' * 5000}}} (S)",
        "SELECT * FROM " + "(" * 5000 + "S" + ")" * 5000,
        f"SELECT {' - '.join(['n'] * 5000)} AS m FROM S",
        "SELECT * FROM " + "FILTER {n = 1} (" * 5000 + "S" + ")" * 5000,
    ):
        with pytest.raises(keuka.QueryError) as raised:
            keuka.match(text, [{"t": 1, "n": 5}], time="t")
        assert raised.value.code == "K103"


def test_columns_named_like_the_header_must_be_renamed():
    first = keuka.match(RISES, ROWS, time="t")
    with pytest.raises(keuka.QueryError) as raised:
        keuka.match("SELECT * FROM Rise", first, time=("_start", "_end"))
    assert raised.value.code == "K208"
    again = keuka.match("SELECT name FROM Rise", first, time=("_start", "_end"))
    assert again["_start"].to_pylist() == first["_start"].to_pylist()


def test_queries_that_double_each_other_are_planned_in_reasonable_time():
    queries = ["SELECT t FROM S PUBLISH Q0"] + [f"SELECT * FROM Q{i} UNION Q{i} PUBLISH Q{i + 1}" for i in range(12)]
    assert keuka.match("; ".join(queries), ROWS[:1], time="t").num_rows == 2**12
    queries += [f"SELECT * FROM FILTER {{t < 0}} (Q{i} UNION Q{i}) PUBLISH Q{i + 1}" for i in range(12, 40)]
    with pytest.raises(keuka.QueryError) as raised:
        keuka.match("; ".join(queries), ROWS[:1], time="t")
    assert raised.value.code == "K401"


def test_streams_on_different_clocks_are_refused_as_data():
    other = pa.table({"t": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us"))})
    with pytest.raises(keuka.DataError) as raised:
        keuka.match("SELECT * FROM S NEXT R", {"S": ROWS, "R": other}, time="t")
    assert raised.value.code == "K511"


def test_names_of_users_and_of_plans_do_not_meet():
    rows = pa.table({"t": [1, 2, 3, 4, 5], "n": [1, 2, 3, 4, 5]})
    query = (
        "SELECT n AS a FROM FILTER {{n = 3}} S PUBLISH `{0}`; "
        "SELECT p, a FROM (SELECT n_1 AS p FROM S NEXT (SELECT n FROM S NEXT S)) NEXT `{0}` PUBLISH X"
    )
    assert keuka.match(query.format("X#1"), rows, time="t") == keuka.match(query.format("Y"), rows, time="t")
    both = keuka.match_all("SELECT n AS z FROM S PUBLISH query_2; SELECT n + 100 AS w FROM S", rows, time="t")
    assert [table.column_names[0] for table in both.values()] == ["z", "w"]
    assert keuka.match("SELECT n AS z FROM query_1", {"query_1": rows}, time="t").num_rows == 5


def test_the_table_of_all_events_keeps_its_name():
    rows = pa.table({"t": [1, 2], "kind": ["A", "B"], "n": [1, 2]})
    with pytest.raises(keuka.QueryError) as raised:
        keuka.match("SELECT n_1, n FROM A NEXT B PUBLISH events", rows, time="t", type_column="kind")
    assert raised.value.code == "K306"
    doubling = [f"SELECT n FROM P{i} UNION P{i} PUBLISH P{i + 1}" for i in range(24)]
    queries = ["SELECT n FROM FILTER {n < 0} A PUBLISH P0", *doubling]
    assert keuka.match("; ".join(queries), rows, time="t", type_column="kind").num_rows == 0


@pytest.mark.parametrize("bound", ["DUR <= NULL", "DUR = NULL", "DUR <= 5 % 0", "DUR < -9223372036854775807 - 1", "DUR < 0.5"])
def test_a_bound_that_nothing_meets_gives_nothing(bound: str):
    assert keuka.match(f"SELECT t FROM S NEXT {{{bound}}} S", ROWS, time="t").num_rows == 0


@pytest.mark.parametrize("bound", ["DUR <= 2", "DUR < 3", "DUR <= 2.5", "NOT DUR > 2", "NOT (2.9 < DUR)", "3 > DUR"])
def test_every_way_to_write_a_bound_expires_instances(bound: str):
    query = f"SELECT t FROM S NEXT {{{bound}}} S"
    assert "expires beyond: DUR 2" in keuka.cel(query).explain(pa.Table.from_pylist(ROWS), time="t")
    assert keuka.match(query, ROWS, time="t").num_rows == 3


def test_a_backslash_at_the_end_of_a_pattern_means_itself():
    table = pa.table({"t": [1, 2], "k": ["a\\", "a"]})
    assert keuka.match("SELECT k LIKE 'a\\' AS r FROM S", table, time="t")["r"].to_pylist() == [True, False]


def test_rounding_to_nothing_gives_zero():
    result = keuka.match("SELECT round(x, :p) AS r FROM S", [{"t": 1, "x": -0.4}], time="t", params={"p": 0})
    assert str(result["r"].to_pylist()) == "[0.0]"
    result = keuka.match("SELECT round(x, :p) AS r FROM S", [{"t": 1, "x": 5e300}], time="t", params={"p": -(2**63)})
    assert result["r"].to_pylist() == [0.0]


def test_many_more_matches_than_events_come_in_bounded_pieces():
    n = 6_000
    table = pa.table({"t": range(n)})
    prepared = prepare("SELECT t_1, t FROM S FOLD {TRUE, TRUE} S", table, time="t")
    sizes = [batch.rows.num_rows for batch in run(prepared.tables, prepared.opened)]
    assert sum(sizes) == n * (n - 1) // 2
    assert max(sizes) < 9_000_000


def test_explain_without_streams_says_what_the_text_says():
    query = keuka.cel("SELECT * FROM FILTER {price > :least} (S)")
    assert query.explain() == "reads S\nparameters least\ngive the streams to see algebra, rules and automata\n"
    with pytest.raises(keuka.DataError):
        query.explain(format="dot")


def test_a_query_that_reads_only_itself_is_a_circle():
    with pytest.raises(keuka.QueryError) as raised:
        keuka.match("SELECT * FROM Q PUBLISH Q", ROWS, time="t")
    assert raised.value.code == "K305"


def test_rounding_does_not_depend_on_the_locale():
    program = (
        "import locale, keuka\n"
        "for name in ('de_DE.UTF-8', 'fr_FR.UTF-8', 'C.UTF-8'):\n"
        "    try:\n        locale.setlocale(locale.LC_ALL, name)\n        break\n"
        "    except locale.Error:\n        pass\n"
        "print(keuka.match('SELECT round(x, 2) AS r FROM S', [{'t': 1, 'x': 2.675}], time='t')['r'].to_pylist())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[2.68]\n"


def test_an_overflow_concerns_only_the_outputs_that_need_it():
    queries = "SELECT n * 4 AS m FROM S PUBLISH Large; SELECT n FROM S PUBLISH Plain;"
    rows = [{"t": 1, "n": 2**62}]
    assert keuka.match(queries, rows, time="t", output="Plain")["n"].to_pylist() == [2**62]
    with pytest.raises(keuka.DataError, match="K507"):
        keuka.match_all(queries, rows, time="t")
