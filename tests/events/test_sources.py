"""Every kind of data a stream can be made of: its schema, its clock, its rows."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest

from keuka.errors import DataError
from keuka.events import formats
from keuka.events.order import in_order
from keuka.events.sources import OpenStream, Stream, open_stream, read
from keuka.schema import Type

Write = Callable[[str, str | bytes], str]

AT = [datetime(2024, 1, 1, 9, 30, 0), datetime(2024, 1, 1, 9, 30, 1, 500_000)]
TABLE = pa.table({"ts": pa.array(AT, pa.timestamp("us")), "name": ["IBM", None], "price": [90.5, None], "volume": [100, None]})
ROWS = TABLE.to_pylist()


def opened(data: Any, **options: Any) -> OpenStream:
    return open_stream("S", Stream(data, **options))


def rows(stream: OpenStream, columns: list[str] | None = None) -> list[dict[str, Any]]:
    wanted = list(stream.type.schema.names) if columns is None else columns
    return [row for step in in_order([stream], {"S": wanted}) for row in step["S"].table.to_pylist()]


def types(stream: OpenStream) -> dict[str, Type]:
    return {attribute.name: attribute.type for attribute in stream.type.schema.attributes}


class Foreign:
    """Some other library's table, known only by the Arrow C interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("data", "kind", "in_memory"),
    [
        (TABLE, "arrow", True),
        (TABLE.to_batches()[0], "arrow", True),
        (TABLE.to_batches(max_chunksize=1), "arrow", True),
        (TABLE.to_pylist(), "arrow", True),
        (TABLE.to_reader(), "arrow", False),
        (iter(TABLE.to_batches(max_chunksize=1)), "arrow", False),
        (Foreign(), "arrow", False),
        (pl.from_arrow(TABLE), "polars", True),
        (pl.from_arrow(TABLE).lazy(), "polars", True),  # type: ignore[union-attr]
        (TABLE.to_pandas().astype({"volume": "Int64"}), "pandas", True),
    ],
    ids=["table", "batch", "batches", "dicts", "reader", "iterator", "foreign", "polars", "lazy polars", "pandas"],
)
def test_every_kind_of_data_gives_the_same_rows(data: Any, kind: str, in_memory: bool) -> None:
    stream = opened(data)
    assert (stream.kind, stream.in_memory, stream.time, stream.lateness) == (kind, in_memory, ("ts",), 0)
    assert types(stream) == {"ts": Type.TIMESTAMP, "name": Type.STRING, "price": Type.DOUBLE, "volume": Type.INTEGER}
    assert stream.type.axis.tick_us == 1
    assert stream.n_rows == (2 if in_memory else None)
    assert rows(stream) == ROWS


def write_as(suffix: str, table: pa.Table) -> str:
    path = f"events{suffix}"
    if suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif suffix == ".csv.gz":
        buffer = io.BytesIO()
        pa.csv.write_csv(table, buffer)
        Path(path).write_bytes(gzip.compress(buffer.getvalue()))
    elif suffix in (".ndjson", ".jsonl", ".json"):
        Path(path).write_text("".join(json.dumps(row, default=datetime.isoformat) + "\n" for row in table.to_pylist()))
    elif suffix in (".parquet", ".pq"):
        pa.parquet.write_table(table, path)
    elif suffix == ".arrows":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


SUFFIXES = [".csv", ".csv.gz", ".ndjson", ".jsonl", ".json", ".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_file_format_gives_the_same_rows(write: Write, suffix: str) -> None:
    stream = opened(Path(write_as(suffix, TABLE)))
    assert (stream.kind, stream.in_memory) == ("arrow", False)
    assert rows(stream) == ROWS
    assert rows(opened(f"events{suffix}"), ["volume", "name"]) == [{"volume": r["volume"], "name": r["name"]} for r in ROWS]


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".arrow", ".arrows"])
@pytest.mark.parametrize("n_copies", [1, 3000])
def test_standard_input_is_recognised_by_its_first_bytes(
    write: Write, small_blocks: None, monkeypatch: pytest.MonkeyPatch, suffix: str, n_copies: int
) -> None:
    table = pa.concat_tables([TABLE] * n_copies).sort_by("ts")
    with open(write_as(suffix, table)) as content:
        monkeypatch.setattr("sys.stdin", content)
        stream = opened("-")
        assert stream.n_rows is None
        assert rows(stream) == table.to_pylist()


def test_a_file_without_a_known_suffix_is_recognised_too(write: Write) -> None:
    for suffix in (".csv", ".ndjson", ".parquet", ".arrow", ".arrows"):
        Path(write_as(suffix, TABLE)).rename("events")
        assert rows(opened("events")) == ROWS


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet", ".arrow"])
def test_files_are_streamed_in_batches(write: Write, small_blocks: None, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 70_000 if suffix == ".parquet" else 2_000
    table = pa.table({"n": np.arange(n), "p": np.arange(n) / 2 + 0.25, "s": [f"text {i}" for i in range(n)]})
    path = write_as(suffix, table)
    if suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=500)
    sizes = []
    read_file = formats.read_file

    def counting(file: Any, columns: Any) -> Iterator[pa.RecordBatch]:
        for batch in read_file(file, columns):
            sizes.append(batch.num_rows)
            yield batch

    monkeypatch.setattr("keuka.events.tables.read_file", counting)
    stream = opened(path, time="n")
    assert stream.n_rows is not None
    assert 0.7 * n <= stream.n_rows <= 1.3 * n
    assert rows(stream) == table.to_pylist()
    assert len(sizes) > 1
    assert sum(sizes) == n


def test_reading_gives_numbers_and_canonical_columns_in_order_of_arrival() -> None:
    table = pa.table({"n": pa.array([3, 1, 2], pa.uint8()), "p": pa.array([1, 2, 3], pa.float32())})
    (first, second) = read(opened(table, time="n"), ["p"], chunk_rows=2)
    assert (first[0].tolist(), second[0].tolist()) == ([0, 1], [2])
    assert first[1].schema == pa.schema([("p", pa.float64())])


# ---- directories and patterns


def test_a_directory_is_read_in_the_order_of_names(write: Write) -> None:
    Path("day").mkdir()
    for name, n in (("b.csv", 3), ("a.csv", 1), ("c.parquet", 5)):
        table = pa.table({"n": [n, n + 1], "p": [1, 2]})
        (pa.csv.write_csv if name.endswith("csv") else pa.parquet.write_table)(table, f"day/{name}")
    Path("day/_SUCCESS").touch()
    Path("day/notes.txt").touch()
    stream = opened("day", time="n")
    assert [row["n"] for row in rows(stream)] == [1, 2, 3, 4, 5, 6]
    assert stream.where((2 << 40) + 1, "p") == "stream `S`, file `day/c.parquet`, row 2, column `p`"
    assert [row["n"] for row in rows(opened("day/[ab].csv", time="n"))] == [1, 2, 3, 4]


def test_a_text_file_without_rows_among_others_says_nothing_about_types(write: Write) -> None:
    write("part-1.csv", "n,p\n")
    write("part-2.csv", "n,p\n1,2.5\n")
    write("part-3.csv", "n,p\n")
    assert rows(opened("part-*.csv", time="n")) == [{"n": 1, "p": 2.5}]


def test_a_later_text_file_has_the_types_of_the_first(write: Write) -> None:
    write("part-1.ndjson", '{"n": 1, "p": 2.5, "s": "a"}\n')
    write("part-2.ndjson", '{"n": 2, "p": 3}\n')
    assert rows(opened("part-*.ndjson", time="n")) == [{"n": 1, "p": 2.5, "s": "a"}, {"n": 2, "p": 3.0, "s": None}]


# ---- text formats


def test_csv_null_is_the_empty_field_and_nothing_else(write: Write) -> None:
    write("a.csv", 'n,s,p\n1,,\n2,"",NaN\n3,NA,1.5\n4,null,inf\n')
    got = rows(opened("a.csv", time="n"))
    assert [row["s"] for row in got] == [None, "", "NA", "null"]
    assert repr([row["p"] for row in got]) == "[None, nan, 1.5, inf]"


def test_csv_values_may_span_lines(write: Write) -> None:
    write("a.csv", 'n,s\n1,"two\nlines"\n2,"say ""hi"""\n')
    assert [row["s"] for row in rows(opened("a.csv", time="n"))] == ["two\nlines", 'say "hi"']


def test_csv_types_are_not_inferred_from_a_row_cut_by_the_block(write: Write, small_blocks: None) -> None:
    write("a.csv", "n,s\n" + "".join(f'{i},"line\n{i}"\n' for i in range(2_000)))
    got = rows(opened("a.csv", time="n"))
    assert [row["s"] for row in got] == [f"line\n{i}" for i in range(2_000)]


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_text_times_may_have_fractions_later_and_zones(write: Write, suffix: str) -> None:
    times = ["2024-01-01T09:30:00Z", "2024-01-01T11:30:00.25+02:00"]
    write("a.csv", "ts\n" + "\n".join(times) + "\n")
    write("a.ndjson", "".join(json.dumps({"ts": time}) + "\n" for time in times))
    stream = opened(f"a.{suffix}")
    assert stream.type.axis.arrow == pa.timestamp("us", "UTC")
    assert [row["ts"] for row in rows(stream)] == [
        datetime(2024, 1, 1, 9, 30, tzinfo=UTC),
        datetime(2024, 1, 1, 9, 30, 0, 250_000, tzinfo=UTC),
    ]


def test_csv_fractions_of_seconds_may_begin_in_a_later_block(write: Write, small_blocks: None) -> None:
    begin = datetime(2024, 1, 1)
    times = [begin + timedelta(seconds=i) for i in range(500)] + [begin + timedelta(seconds=500, microseconds=5)]
    write("a.csv", "ts\n" + "\n".join(str(time) for time in times) + "\n")
    assert [row["ts"] for row in rows(opened("a.csv"))] == times


def test_a_line_of_json_longer_than_a_block(write: Write, small_blocks: None) -> None:
    write("a.ndjson", "".join(json.dumps({"n": i, "s": "x" * (20_000 if i == 50 else 10)}) + "\n" for i in range(100)))
    got = rows(opened("a.ndjson", time="n"))
    assert [len(row["s"]) for row in got] == [20_000 if i == 50 else 10 for i in range(100)]


def test_json_lines_may_leave_fields_out_and_add_unknown_ones(write: Write, small_blocks: None) -> None:
    lines = [{"n": i, "p": i / 2} for i in range(500)]
    write("a.ndjson", "".join(json.dumps(line) + "\n\n" for line in lines) + '{"n": 500, "new": [1]}')
    assert rows(opened("a.ndjson", time="n")) == [*lines, {"n": 500, "p": None}]


# ---- columns


def test_columns_that_expressions_cannot_use_pass_through() -> None:
    table = pa.table(
        {
            "n": [1],
            "day": [date(2024, 1, 1)],
            "list": [[1, 2]],
            "record": [{"a": 1}],
            "raw": [b"\xff"],
            "coded": pa.array(["a"]).dictionary_encode(),
        }
    )
    stream = opened(table, time="n")
    assert types(stream) == {
        "n": Type.INTEGER,
        "day": Type.DATE,
        "list": Type.OTHER,
        "record": Type.OTHER,
        "raw": Type.OTHER,
        "coded": Type.STRING,
    }
    assert rows(stream) == table.to_pylist()


def test_a_column_without_values_is_text() -> None:
    stream = opened([{"n": 1, "x": None}], time="n")
    assert types(stream)["x"] is Type.STRING
    assert rows(stream) == [{"n": 1, "x": None}]


def test_dicts_may_leave_fields_out_and_nan_stays_nan() -> None:
    got = rows(opened([{"n": 1, "p": float("nan")}, {"n": 2, "s": "x"}], time="n"))
    assert repr(got) == "[{'n': 1, 'p': nan, 's': None}, {'n': 2, 'p': None, 's': 'x'}]"


# ---- pandas


def frame() -> pd.DataFrame:
    return pd.DataFrame({"p": [1.5, np.nan]}, index=pd.DatetimeIndex(["2024-01-01", "2024-01-02"], name="at"))


def test_a_named_time_index_is_the_time_if_asked_for_or_the_only_one() -> None:
    for stream in (opened(frame()), opened(frame(), time="at")):
        assert stream.time == ("at",)
        assert rows(stream)[1] == {"at": datetime(2024, 1, 2), "p": None}


def test_any_other_index_is_ignored() -> None:
    stream = opened(frame().assign(ts=pd.to_datetime(["2024-02-01", "2024-02-02"])))
    assert (stream.time, stream.type.schema.names) == (("ts",), ("p", "ts"))
    assert opened(frame().reset_index().set_index("p")).type.schema.names == ("at",)


def test_pandas_categories_and_zones() -> None:
    data = pd.DataFrame({"ts": pd.to_datetime(["2024-01-01"]).tz_localize("Europe/Berlin"), "c": pd.Categorical(["x"])})
    stream = opened(data)
    assert stream.type.axis.arrow == pa.timestamp("us", "Europe/Berlin")
    assert rows(stream)[0]["c"] == "x"


# ---- time


def test_a_date_is_the_time_if_there_is_no_timestamp() -> None:
    stream = opened(pa.table({"day": [date(2024, 1, 2)], "price": [1.5], "name": ["a"], "format": ["x"]}))
    assert (stream.time, stream.type.axis.arrow, stream.type.axis.tick_us) == (("day",), pa.date32(), 1)
    assert opened(pa.table({"day": [date(2024, 1, 2)], "ts": pa.array(AT[:1])})).time == ("ts",)


@pytest.mark.parametrize(
    ("name", "values"), [("n", [1]), ("ts", ["03/01/2024 09:10"]), ("createdAt", [1.7e9]), ("hour", pa.array([3600], pa.time32("s")))]
)
def test_a_date_is_not_the_time_where_another_column_could_be_meant(name: str, values: object) -> None:
    table = pa.table({"day": [date(2024, 1, 2)], name: values})
    with pytest.raises(DataError, match=f"`day` holds days, and `{name}` could be the time of events, too") as raised:
        opened(table)
    assert raised.value.diagnostics[0].help == (f"say which: `time='day'` or `time='{name}'`",)
    assert opened(table, time="day").time == ("day",)


def test_a_time_that_is_not_there_offers_columns_that_could_be_it() -> None:
    table = pa.table({"price": [1.5], "ts": pa.array(AT[:1])})
    with pytest.raises(DataError) as raised:
        opened(table, time="occurred")
    assert raised.value.diagnostics[0].help[0] == "`ts` can be the time: `time='ts'`"


@pytest.mark.parametrize(
    ("lateness", "ticks"),
    [
        (None, 0),
        (7, 7),
        ("5 s", 5_000_000),
        ("1.5 s", 1_500_000),
        (" 2min ", 120_000_000),
        (timedelta(milliseconds=3), 3_000),
        ("1 week", 604_800_000_000),
    ],
)
def test_lateness_in_every_form(lateness: Any, ticks: int) -> None:
    assert opened(TABLE, lateness=lateness).lateness == ticks


def test_an_integer_time_may_have_a_unit() -> None:
    stream = opened(pa.table({"n": [1]}), time="n", unit="ms", lateness="2 s")
    assert (stream.type.axis.tick_us, stream.lateness) == (1_000, 2_000)
    assert opened(pa.table({"n": [1]}), time=["n"]).type.axis.tick_us is None


# ---- what is not imported


def test_pandas_and_polars_are_not_imported_for_files(write: Write) -> None:
    write("a.csv", "n,p\n2,1\n1,2\n")
    code = (
        "import sys\n"
        "from keuka.events.sources import Stream, open_stream\n"
        "from keuka.events.order import in_order\n"
        "from keuka.events.matches import convert\n"
        "(step,) = in_order([open_stream('S', Stream('a.csv', time='n', sort=True))], {'S': ['n', 'p']})\n"
        "assert convert(step['S'].table, 'arrow').to_pylist() == [{'n': 1, 'p': 2}, {'n': 2, 'p': 1}]\n"
        "assert not {'pandas', 'polars', 'pyspark'} & set(sys.modules), 'an optional library was imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
