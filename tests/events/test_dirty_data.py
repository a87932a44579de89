"""Dirty data: types that are guessed strictly, what can be declared of files, and rows that are rejected."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keuka

Write = Callable[[str, str | bytes], str]
LARGE = "SELECT name, price FROM FILTER {price > 7} (S)"
TICKS = """at,name,price
2024-03-01 09:10,IBM,7
2024-03-01 09:11,IBM,n/a
2024-03-01 09:12,Dell,8
2024-03-01 09:13,Dell,9
"""


def names(found: Any) -> list[object]:
    return [row["name"] for row in found.to_pylist()]


def rejected(query: str, data: Any, **options: Any) -> list[dict[str, Any]]:
    tables: list[pa.Table] = []
    keuka.match(query, data, rejected=tables, **options)
    assert len(tables) == 1
    rows: list[dict[str, Any]] = tables[0].to_pylist()
    return rows


def places(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["_line"], row["_reason"], row["_text"]) for row in rows]


# ---- guesses


def test_an_odd_value_is_an_error_only_if_the_query_reads_the_column(write: Write):
    path = write("ticks.csv", TICKS)
    with pytest.raises(keuka.DataError) as raised:
        keuka.match(LARGE, path)
    assert raised.value.code == "K536"
    assert names(keuka.match("SELECT name FROM S", path)) == ["IBM", "IBM", "Dell", "Dell"]
    with pytest.raises(keuka.DataError, match="K536"):
        keuka.match("SELECT name FROM S", path, contributors=True)  # events are known by all columns
    assert keuka.match("SELECT name FROM S", keuka.Stream(path, id="at"), contributors=True).num_rows == 4


def test_an_odd_value_is_found_in_a_file_whose_columns_have_other_letters(write: Write):
    path = write("relevés.csv", 'journée,prénom,größe\n1,"a\nb",7\n2,c,n/a\n3,d,8\n4,e,9\n')
    with pytest.raises(keuka.DataError) as raised:
        keuka.match("SELECT `größe` FROM S", path, time="journée")
    assert "error[K536]: `n/a` stands in column `größe` among integers" in str(raised.value)
    assert "line 4, column `größe`" in str(raised.value)


def test_each_remedy_for_an_odd_value_works(write: Write):
    path = write("ticks.csv", TICKS)
    text = keuka.match("SELECT name, price FROM S", keuka.Stream(path, schema="price STRING"))
    assert text["price"].to_pylist() == ["7", "n/a", "8", "9"]
    nulls = keuka.match("SELECT name, price FROM S", keuka.Stream(path, csv=keuka.Csv(nulls=("n/a",))))
    assert nulls["price"].to_pylist() == [7, None, 8, 9]
    assert keuka.match(LARGE, path, on_bad_row="reject")["price"].to_pylist() == [8, 9]


def test_a_column_with_leading_zeros_is_text(write: Write):
    path = write("codes.csv", "t,code,n\n1,10,1\n2,007,-0.5\n3,11,0\n")
    found = keuka.match("SELECT code, n FROM S", path, time="t")
    assert found["code"].to_pylist() == ["10", "007", "11"]
    assert found["n"].to_pylist() == [1.0, -0.5, 0.0]


def test_an_odd_value_after_the_first_rows_is_found_where_it_is(write: Write, small_blocks: None):
    rows = "".join([f'{i},"a\nb",{i}\n' for i in range(1000)])
    path = write("long.csv", "t,name,price\n" + rows + "1000,x,n/a\n")
    with pytest.raises(keuka.DataError, match=r"row 1001, column `price`"):
        keuka.match("SELECT price FROM S", path, time="t")
    assert places(rejected("SELECT price FROM S", path, time="t")) == [(2002, "`price` is `n/a`, not an integer", None)]


# ---- declarations


def test_a_schema_declares_the_columns_it_names_and_keeps_the_others(write: Write):
    path = write("ticks.csv", "at,name,price\n2024-03-01 09:10,007,7\n")
    found = keuka.match("SELECT name, price FROM S", keuka.Stream(path, schema="price DOUBLE"))
    assert found.schema.field("price").type == pa.float64()
    assert found["name"].to_pylist() == ["007"]
    pa.parquet.write_table(pa.table({"t": [1], "n": pa.array([1], pa.int32()), "m": ["5"]}), "t.parquet")
    found = keuka.match("SELECT n, m FROM S", keuka.Stream("t.parquet", time="t", schema=pa.schema([("m", pa.int64())])))
    assert found.select(["n", "m"]).to_pylist() == [{"n": 1, "m": 5}]


def test_a_declared_time_is_the_same_instant_with_and_without_a_zone(write: Write):
    path = write("zones.csv", "at,n\n2024-03-01 09:10,1\n2024-03-01T09:11Z,2\n2024-03-01 10:12+01:00,3\n")
    found = keuka.match("SELECT n FROM S", keuka.Stream(path, schema="at TIMESTAMP"))
    assert [at.isoformat() for at in found["_end"].to_pylist()] == [f"2024-03-01T09:1{i}:00+00:00" for i in range(3)]
    local = keuka.Stream(write("local.csv", "at,n\n2024-03-01 09:10,1\n"), schema="at TIMESTAMP", csv={"zone": "Asia/Kathmandu"})
    assert keuka.match("SELECT n FROM S", local)["_end"].to_pylist()[0].isoformat() == "2024-03-01T03:25:00+00:00"


def test_other_separators_and_files_without_a_header_can_be_declared(write: Write):
    path = write("semicolons.csv", "at;name;price\n2024-03-01 09:10;IBM, Inc.;7.5\n")
    assert names(keuka.match(LARGE, keuka.Stream(path, csv={"separator": ";"}))) == ["IBM, Inc."]
    path = write("tabs.csv", "2024-03-01 09:10\tIBM\t8\n")
    schema = "at TIMESTAMP, name STRING, price DOUBLE"
    assert names(keuka.match(LARGE, keuka.Stream(path, csv={"separator": "\t", "header": False}, schema=schema))) == ["IBM"]
    named = {"separator": "\t", "header": ["at", "name", "price"]}
    assert names(keuka.match(LARGE, keuka.Stream(path, csv=named))) == ["IBM"]


def test_null_texts_are_null_quoted_or_not_and_the_empty_field_only_without_quotes(write: Write):
    path = write("nulls.csv", 't,name,n\n1,"n/a",1\n2,n/a,"n/a"\n3,"",\n4,,4\n')
    found = keuka.match("SELECT name, n FROM S", keuka.Stream(path, time="t", csv={"nulls": ["n/a"]}))
    assert found["name"].to_pylist() == [None, None, "", None]
    assert found["n"].to_pylist() == [1, None, None, 4]


def test_times_in_a_declared_format_are_the_time_of_events(write: Write):
    path = write("dates.csv", "at,name,price\n03/01/2024 09:10,IBM,8\n")
    for format, day in (("%d/%m/%Y %H:%M", "2024-01-03"), ("%m/%d/%Y %H:%M", "2024-03-01")):
        found = keuka.match(LARGE, keuka.Stream(path, csv={"time_format": format}))
        assert found["_end"].to_pylist()[0].isoformat() == f"{day}T09:10:00"


@pytest.mark.parametrize(
    ("stream", "problem"),
    [
        ({"csv": 5}, "`csv=` must be a keuka.Csv"),
        ({"csv": {"seperator": ";"}}, "CSV has no option `seperator`"),
        ({"csv": {"separator": ";;"}}, "the separator must be one ASCII character"),
        ({"csv": {"nulls": "n/a"}}, "`nulls` must be a list of texts"),
        ({"csv": {"header": 1}}, "`header` must be True, False or a list of names"),
        ({"csv": {"header": ["a", "a"]}}, "`header` names two columns `a`"),
        ({"csv": {"zone": "Mars"}}, "'Mars' is not a time zone"),
        ({"csv": {"time_format": "%d"}}, "the time format '%d' cannot be understood: it must say the year once"),
        ({"csv": {"time_format": 5}}, "the time format 5 cannot be understood"),
        ({"schema": 5}, "`schema=` must be a text"),
        ({"schema": "price"}, "the schema cannot be read: `price` is not a column and its type"),
        ({"on_bad_row": "skip"}, "`on_bad_row=` must be `error`, `reject`"),
    ],
)
def test_declarations_that_cannot_be_understood(write: Write, stream: dict[str, Any], problem: str):
    with pytest.raises(keuka.DataError) as raised:
        keuka.match(LARGE, keuka.Stream(write("ticks.csv", TICKS), **stream))
    assert raised.value.code == "K535"
    assert problem in str(raised.value)


def test_options_of_files_are_refused_for_tables_and_those_of_csv_for_other_files(write: Write):
    rows = [{"t": 1, "name": "a", "price": 8}]
    for said in ({"schema": "price DOUBLE"}, {"csv": {"separator": ";"}}):
        with pytest.raises(keuka.DataError, match="is for files, but the data is a `list`"):
            keuka.match(LARGE, keuka.Stream(rows, time="t", **said))
    path = write("ticks.ndjson", '{"t": 1, "name": "a", "price": 8}\n')
    with pytest.raises(keuka.DataError, match="but the data is JSON"):
        keuka.match(LARGE, keuka.Stream(path, time="t", csv={"separator": ";"}))


def test_a_header_of_years_is_a_header(write: Write):
    path = write("pivot.csv", "at,2020,2021\n2024-03-01 09:10,1,2\n")
    assert keuka.match("SELECT `2020` FROM S", path)["2020"].to_pylist() == [1]


# ---- bad rows

BAD_ROWS = """at,name,price
2024-03-01 09:10,"I
BM",8
2024-03-01 09:11,IBM
,IBM,9
2024-03-01 09:12,"x
y",z,4
2024-03-01 09:11,Dell,10
2024-03-01 09:14,Dell,5
soon,IBM,4
2024-03-01 09:15,IBM,?
2024-03-01 09:16,IBM,11
2024-03-01 09:17,IBM,12,13
"""
REASONS = [
    (4, "2 fields instead of 3", "2024-03-01 09:11,IBM"),
    (5, "no time", None),
    (6, "4 fields instead of 3", '2024-03-01 09:12,"x\ny",z,4'),
    (10, "`at` is `soon`, not a time", None),
    (11, "`price` is `?`, not an integer", None),
    (13, "4 fields instead of 3", "2024-03-01 09:17,IBM,12,13"),
]


def test_bad_rows_of_a_csv_file_are_rejected_with_reason_and_place(write: Write):
    rows = rejected(LARGE, write("bad.csv", BAD_ROWS))
    assert places(rows) == REASONS
    assert {row["_file"] for row in rows} == {"bad.csv"}
    assert {row["_stream"] for row in rows} == {"S"}
    assert (rows[3]["at"], rows[3]["name"], rows[3]["price"]) == ("soon", "IBM", "4")
    assert names(keuka.match(LARGE, "bad.csv", on_bad_row="reject")) == ["I\nBM", "Dell", "IBM"]


def test_rows_are_good_where_nothing_that_is_read_is_bad(write: Write):
    rows = rejected("SELECT name FROM S", write("bad.csv", BAD_ROWS))
    assert [reason for _, reason, _ in places(rows)] == [reason for _, reason, _ in REASONS if "price" not in reason]


def test_lines_are_right_however_the_file_is_cut_into_blocks(write: Write, small_blocks: None):
    good = "".join([f'2024-03-01 09:10,"two\nlines",{i}\n' for i in range(300)])
    path = write("long.csv", "at,name,price\n" + good + BAD_ROWS.partition("\n")[2])
    rows = rejected(LARGE, path)
    assert places(rows) == [(line + 600, reason, text) for line, reason, text in REASONS]
    lines = Path(path).read_text().split("\n")
    assert lines[rows[3]["_line"] - 1] == "soon,IBM,4"


def test_text_that_is_not_utf8_is_rejected(write: Write):
    path = write("latin.csv", b"t,name,price\n1,caf\xe9,8\n2,IBM,9\n3,IBM,10\n")
    assert places(rejected(LARGE, path, time="t")) == [(2, "`name` is not UTF-8", None)]


def test_bad_lines_of_json_are_rejected(write: Write):
    text = (
        '{"at": "2024-03-01 09:10", "name": "A", "price": 8, "more": [{"a": 2.50}]}\n\n'
        '{"at": "2024-03-01 09:10", "name": "B", "price": "n/a", "more": []}\n'
        '{"at":\n{"at": "2024-03-01 09:11", "name": "C", "price": 8.50}\n'
        '{"at": null, "name": "D", "price": 8.50, "more": [{"a": 2.50}]}\nnull\n"\xff\n'
        '{"at": "2024-03-01 09:12", "name": "E", "price": 9}\n'
    ).encode("latin-1")
    path = write("bad.ndjson", text)
    rows = rejected(LARGE, path)
    assert places(rows) == [
        (3, "`price` is `n/a`, not a number", None),
        (4, "not a JSON object", '{"at":'),
        (6, "no time", None),
        (7, "not a JSON object", "null"),
        (8, "not a JSON object", '"\ufffd'),
    ]
    assert (rows[2]["name"], rows[2]["price"], rows[2]["more"]) == ("D", "8.50", '[{"a": 2.5}]')
    assert names(keuka.match(LARGE, path, on_bad_row="reject")) == ["A", "C", "E"]


GOOD_LINES = "".join([f'{{"t": {t}, "name": "a", "n": {t}, "list": [1]}}\n' for t in range(3)])


@pytest.mark.parametrize(
    "line",
    ['"n": 9223372036854775808', '"n": 1e400', '"n": 1, "n": 2', '"list": [1, "a"]', '"n": "a"', '"deep": {"a": 1, "a": 2}', '"t": 3'],
)
def test_an_unread_column_of_json_cannot_fail_a_row(write: Write, line: str):
    path = write("s.ndjson", GOOD_LINES + f'{{"t": 3, "name": "b", {line}}}\n')
    assert rejected("SELECT name FROM S", path, time="t") == []
    assert keuka.match("SELECT name FROM S", path, time="t", on_bad_row="reject")["name"].to_pylist() == ["a", "a", "a", "b"]


def test_a_list_of_mixed_values_in_every_row_of_json_is_no_obstacle_to_reading_other_columns(write: Write):
    path = write("s.ndjson", "".join([f'{{"t": {t}, "mixed": [1, "a"]}}\n' for t in range(3)]))
    assert keuka.match("SELECT t FROM S", path, time="t", on_bad_row="reject")["t"].to_pylist() == [0, 1, 2]
    assert [row["_reason"] for row in rejected("SELECT mixed FROM S", path, time="t")] == ['`mixed` is `[1, "a"]`, not a string'] * 3


def test_a_read_value_of_json_that_is_too_large_is_rejected_alone(write: Write):
    path = write("s.ndjson", GOOD_LINES + '{"t": 9223372036854775808, "n": 1}\n{"t": 4, "n": 9223372036854775808}\n')
    found = [(row["_line"], row["_reason"]) for row in rejected("SELECT n FROM S", path, time="t")]
    large = "is `9223372036854775808`, not an integer"
    assert found == [(4, f"`t` {large}"), (5, f"`n` {large}")]


def test_of_a_key_that_occurs_twice_in_json_the_last_value_counts(write: Write):
    path = write("s.ndjson", GOOD_LINES + '{"t": "x", "t": 3, "name": "b", "name": "c"}\n{"t": 4, "name": "d", "name": 5}\n')
    assert keuka.match("SELECT name FROM S", path, time="t", on_bad_row="reject")["name"].to_pylist() == ["a", "a", "a", "c"]
    assert [row["_reason"] for row in rejected("SELECT name FROM S", path, time="t")] == ["`name` is `5`, not a string"]
    path = write("good.ndjson", GOOD_LINES + '{"t": 3, "name": "b", "name": "c"}\n')
    assert keuka.match("SELECT name FROM S", path, time="t")["name"].to_pylist() == ["a", "a", "a", "c"]


def test_many_bad_lines_in_many_blocks_of_json(write: Write, small_blocks: None):
    lines = [f'{{"t": {i}, "name": "a", "price": {i}}}' if i % 7 else f"broken {i}" for i in range(1000)]
    rows = rejected("SELECT price FROM S", write("long.ndjson", "\n".join(lines)), time="t")
    assert [(row["_line"], row["_text"]) for row in rows] == [(i + 1, f"broken {i}") for i in range(0, 1000, 7)]
    assert keuka.match("SELECT price FROM S", "long.ndjson", time="t", on_bad_row="reject").num_rows == 857


INTERVALS = pa.table({"s": [1, 5, None, 7], "e": [3, 4, 3, 8], "name": ["a", "b", "c", "d"]})


@pytest.mark.parametrize("kind", ["table", "pandas", "reader", "parquet", "arrow"])
def test_null_times_and_reversed_intervals_are_rejected_from_any_source(kind: str, write: Write):
    write("x", "")
    pa.parquet.write_table(INTERVALS, "i.parquet")
    with pa.ipc.new_file("i.arrow", INTERVALS.schema) as sink:
        sink.write(INTERVALS)
    sources = {
        "table": lambda: INTERVALS,
        "pandas": lambda: INTERVALS.to_pandas().astype({"s": "Int64"}),
        "reader": lambda: INTERVALS.to_reader(),
        "parquet": lambda: "i.parquet",
        "arrow": lambda: "i.arrow",
    }
    tables: list[Any] = []
    found = keuka.match("SELECT name FROM S", sources[kind](), time=("s", "e"), rejected=tables)
    rows = (pa.Table.from_pandas(tables[0], preserve_index=False) if kind == "pandas" else tables[0]).to_pylist()
    assert list(found["name"].tolist() if kind == "pandas" else found["name"].to_pylist()) == ["a", "d"]
    assert [(row["name"], row["_reason"]) for row in rows] == [("b", "starts after its end"), ("c", "no time")]
    assert [row["_file"] for row in rows] == [f"i.{kind}" if kind in ("parquet", "arrow") else None] * 2


def test_values_that_do_not_fit_are_rejected_from_tables():
    times = pa.array([0, 1_500, 2_000], pa.timestamp("ns"))
    rows = rejected("SELECT n FROM S", pa.table({"t": times, "n": pa.array([1, 2, 2**64 - 1], pa.uint64())}))
    assert [row["n"] for row in rows] == [2, 2**64 - 1]
    assert all(row["_reason"] for row in rows)


def test_values_of_parquet_that_are_not_of_the_declared_type_are_rejected(write: Write):
    write("x", "")
    pa.parquet.write_table(pa.table({"t": [1, 2, 3], "n": ["5", "x", None]}), "t.parquet")
    stream = keuka.Stream("t.parquet", time="t", schema="n BIGINT")
    assert [(row["n"], row["_reason"]) for row in rejected("SELECT n FROM S", stream)] == [("x", "`n` is `x`, not an integer")]
    with pytest.raises(keuka.DataError, match="values cannot be read as the declared int64"):
        keuka.match("SELECT n FROM S", stream)


def test_every_stream_gets_a_table_also_without_rejected_rows(write: Write):
    write("a.csv", "t,n\n1,1\n,2\n")
    write("b.csv", "t,m\n1,1\n2,5\n")
    tables: list[pa.Table] = []
    keuka.match("SELECT n, m FROM A NEXT B", {"A": "a.csv", "B": "b.csv"}, time="t", rejected=tables)
    assert [(table.num_rows, table.column_names[:2]) for table in tables] == [(1, ["t", "n"]), (0, ["t", "m"])]


def test_rejected_rows_that_nobody_wants_are_a_warning(write: Write, caplog: pytest.LogCaptureFixture):
    path = write("bad.csv", BAD_ROWS)
    with caplog.at_level(logging.WARNING, logger="keuka"):
        keuka.match(LARGE, keuka.Stream(path, on_bad_row="reject"))
    assert [record.getMessage() for record in caplog.records] == [
        "6 of 10 rows of stream `S` were rejected; the first: bad.csv, line 4: 2 fields instead of 3"
    ]


def test_rows_keep_their_numbers_when_others_are_rejected(write: Write):
    path = write("overflow.csv", "t,n\n1,1\nx,2\n2,1\n3,9223372036854775807\n4,1\n")
    with pytest.raises(keuka.DataError, match=r"K507.*\n.*row 4"):
        keuka.match("SELECT n + 1 AS m FROM S", path, time="t", on_bad_row="reject")


def test_a_wrong_kind_of_list_for_rejected_rows():
    with pytest.raises(TypeError, match="rejected must be a list"):
        keuka.match("SELECT n FROM S", [{"t": 1, "n": 1}], time="t", rejected=())  # type: ignore[arg-type]


FIELDS = st.sampled_from(["1", "2", "3.5", "n/a", "", '""', '"a\nb"', "x", "2024-03-01"])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(FIELDS, min_size=1, max_size=3), min_size=1, max_size=30))
def test_a_row_is_either_an_event_or_rejected(write: Write, rows: list[list[str]]):
    text = "t,n\n" + "".join([",".join([str(i), *fields]) + "\n" for i, fields in enumerate(rows)])
    stream = keuka.Stream(write("random.csv", text), time="t", schema="t BIGINT, n DOUBLE", on_bad_row="reject")
    tables: list[pa.Table] = []
    n_events = keuka.match("SELECT n FROM S", stream, rejected=tables).num_rows
    assert n_events + tables[0].num_rows == len(rows)
    lines = text.split("\n")
    for row in tables[0].to_pylist():
        assert lines[row["_line"] - 1].startswith(row["t"] if row["_text"] is None else row["_text"].split("\n")[0])
