"""The same dirty files through `match`, the command, an embedded pipeline and one on Spark: the same rows, rejected rows and instants."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import keuka
from keuka.events.sinks import json_value
from keuka.pipelines import Input, Queries, Sink, SparkSettings

SCHEMA = "t BIGINT, name STRING, at TIMESTAMP, x DOUBLE, ok BOOLEAN, day DATE, code STRING, unread INT"
QUERY = "SELECT t, name, at, x, ok, day, code FROM S"
# Each line is one kind of dirt, or something that looks like dirt and is none.
CSV = """t,name,at,x,ok,day,code,unread
1,clean,2024-03-10 02:30:00,1.5,true,2024-03-10,007,1
2,a text among numbers,2024-03-10 02:30:00,n/a,true,2024-03-10,1,2
3,a comma for a point,2024-03-10 02:30:00,"1,5",true,2024-03-10,1,3
4,no such day,2024-02-30 00:00:00,1,true,2024-03-10,1,4
5,another form,10/03/2024 02:30,1,true,2024-03-10,1,5
6,a zone,2024-03-10T08:15:00+05:45,1,false,2024-03-10,1,6
7,microseconds,2024-03-10 02:30:00.123456,1,false,2024-03-10,1,7
8,nanoseconds,2024-03-10 02:30:00.1234567,1,false,2024-03-10,1,8
9,not a truth value,2024-03-10 02:30:00,1,yes,2024-03-10,1,9
10,not a date,2024-03-10 02:30:00,1,true,10.03.2024,1,10
11,too few fields,2024-03-10
12,too many,2024-03-10 02:30:00,1,true,2024-03-10,1,12,13

,no time,2024-03-10 02:30:00,1,true,2024-03-10,1,14
15,,,,,,,
"16","quoted ""and""
broken",2024-03-10,"2",true,2024-03-10,"",16
17, blanks , 2024-03-10 02:30:00, 3 ,true, 2024-03-10 , 1 ,17
18,too large,2024-03-10 02:30:00,1e400,true,2024-03-10,1,18
9223372036854775808,a time that is too large,2024-03-10 02:30:00,1,true,2024-03-10,1,19
1.0,a time that is no integer,2024-03-10 02:30:00,1,true,2024-03-10,1,20
21,names of numbers,2024-03-10 02:30:00,NaN,true,2024-03-10,1,21
22,unread,2024-03-10 02:30:00,-inf,true,2024-03-10,1,not read
0x17,hexadecimal,2024-03-10 02:30,+1.,0,0001-01-01,1,1
24,text,2024-03-10 02,.5,TRUE,9999-12-31,Ünï ☃,1
"""
JSON = [
    '{"t": 1, "name": "clean", "at": "2024-03-10 02:30:00", "x": 1.5, "ok": true, "day": "2024-03-10", "code": "007", "unread": 1}',
    '{"t": 2, "name": "a text among numbers", "x": "n/a"}',
    '{"t": 3, "name": "a number in quotes", "x": "1.5"}',
    '{"t": 4, "name": "no such day", "at": "2024-02-30 00:00:00"}',
    '{"t": 5, "name": "another form", "at": "10/03/2024 02:30"}',
    '{"t": 6, "name": "a zone", "at": "2024-03-10T08:15:00+05:45", "x": 3}',
    '{"t": 7, "name": "microseconds", "at": "2024-03-10 02:30:00.123456", "x": 1e3}',
    '{"t": 8, "name": "nanoseconds", "at": "2024-03-10 02:30:00.1234567"}',
    '{"t": 9, "name": "not a truth value", "ok": "yes"}',
    '{"t": 10, "name": "not a date", "day": "10.03.2024"}',
    '{"t": 11, "name": "cut"',
    "[1, 2]",
    "",
    '{"name": "no time"}',
    '{"t": null, "name": "null"}',
    '{"t": 15}',
    '{"t": 16, "name": "escaped \\"and\\"\\nbroken", "code": ""}',
    '{"t": 17, "name": 17}',
    '{"t": "18", "name": "a time in quotes"}',
    '{"t": 1.5, "name": "a time that is no integer"}',
    "{}",
    '{"t": 22, "name": "more columns", "other": [1, 2]}',
    '{"t": 23, "name": "unread", "unread": 1}',
    '  {"t": 24, "name": "Ünï ☃", "x": -0.25}  ',
    '{"t": 9223372036854775808, "name": "a time that is too large"}',
    '{"t": 26, "name": "twice", "name": "the last value counts"}',
    '{"t": 27, "name": "twice", "name": 27}',
    '{"t": "28", "t": 28, "name": "twice"}',
    '{"t": 29, "name": "unread", "unread": 9223372036854775808, "unread": "x", "mixed": [1, "a"], "large": 1e400}',
    '{"t": 31, "name": "twice inside", "deep": {"a": 1, "a": 2}}',
    '{"t": 32, "name": "12"}',
    '{"t": 33, "name": "\\u0031", "code": "true", "deep": {"code": 1}}',
]


@pytest.fixture(params=["UTC", "Asia/Kathmandu", "America/New_York"])
def zone(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", "UTC")


Alike = Callable[[str], str | None]


def run(stream: Input, *sinks: Sink, query: str = QUERY, embedded: bool) -> keuka.pipelines.Report:
    pipeline = keuka.Pipeline({"S": stream}, [Queries(text=query)], sinks, spark=SparkSettings(shards=2))
    return pipeline.run(embedded=embedded)


def rows_of(folder: str, files: str = "part-*") -> list[tuple[str, ...]]:
    """What is in the files of a sink; NaN is equal to itself here, and times are shown with their zone."""
    rows = [json.loads(line) for file in sorted(Path(folder).glob(files)) for line in file.read_text().splitlines()]
    return sorted([tuple([f"{name}={value!r}" for name, value in row.items()]) for row in rows])


def through_all(
    format: str, path: str, time: str | tuple[str, str], query: str = QUERY, *, alike: Alike = str, **said: Any
) -> tuple[list[Any], list[Any]]:
    """The rows and the rejected rows, if they are the same everywhere. `alike`: a value as both engines can show it."""
    found = []
    for embedded in (True, False):
        place = f"{format}-{'here' if embedded else 'there'}"
        sinks = [Sink("json", path=f"{place}/rows"), Sink("json", of="rejected", path=f"{place}/bad")]
        report = run(Input(format, path=path, time=time, **said), *sinks, query=query, embedded=embedded)
        found.append((rows_of(f"{place}/rows"), rows_of(f"{place}/bad"), report.read, report.rejected))
    both = [(*[sorted([tuple(filter(None, map(alike, row))) for row in rows]) for rows in each[:2]], *each[2:]) for each in found]
    assert both[0] == both[1]
    kept: list[pa.Table] = []
    table = keuka.match(query, {"S": keuka.Stream(str(Path(path).absolute()), time=time, **said)}, rejected=kept)
    assert [shown(table), shown(kept[0])] == list(found[0][:2])
    assert by_command(path, time, query, said.get("schema")) == found[0][:2]
    return found[0][0], found[0][1]


def by_command(path: str, time: str | tuple[str, str], query: str, schema: str | None = None) -> tuple[list[Any], list[Any]]:
    """The rows and the rejected rows that `keuka match` writes, in a process of its own that lives in the zone of the session."""
    Path("query.cel").write_text(query, encoding="utf-8")
    place = Path(f"{Path(path).suffix.removeprefix('.') or 'directory'}-command")
    place.mkdir(exist_ok=True)
    command = [sys.executable, "-c", "from keuka.cli import run; run()", "match", "query.cel", str(Path(path).absolute())]
    command += ["--time", time if isinstance(time, str) else ",".join(time), *(["--schema", schema] if schema is not None else [])]
    command += ["--on-bad-row", "reject", "--rejected", f"{place}/part-bad.ndjson", "--out", f"{place}/part-rows.ndjson"]
    here = SparkSession.active().conf.get("spark.sql.session.timeZone")
    done = subprocess.run(command, env={**os.environ, "TZ": str(here)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return rows_of(str(place), "part-rows*"), rows_of(str(place), "part-bad*")


def shown(table: pa.Table) -> list[tuple[str, ...]]:
    return sorted([tuple([f"{name}={json_value(value)!r}" for name, value in row.items()]) for row in table.to_pylist()])


def test_csv_with_twenty_kinds_of_dirt(zone):
    Path("s.csv").write_text(CSV, encoding="utf-8")
    rows, bad = through_all("csv", "s.csv", "t", schema=SCHEMA)
    assert len(rows) == 10
    assert len(bad) == 13


def test_json_with_twenty_kinds_of_dirt(zone):
    Path("s.json").write_text("\n".join(JSON), encoding="utf-8")
    rows, bad = through_all("json", "s.json", "t", schema=SCHEMA)
    assert len(rows) == 14
    assert len(bad) == 17


def test_parquet_with_times_that_are_none(zone):
    begin = [0, 5_000_000, None, 7_000_000, 1_710_037_800_123_456]
    table = pa.table(
        {
            "a": pa.array(begin, pa.timestamp("us", "UTC")),
            "b": pa.array([1, 4_000_000, 3, None, 1_710_037_800_123_457], pa.timestamp("us", "UTC")),
            "n": [1, 2, 3, 4, 5],
        }
    )
    pa.parquet.write_table(table, "s.parquet")
    rows, bad = through_all("parquet", "s.parquet", ("a", "b"), "SELECT n FROM S")
    assert len(rows) == 2
    assert len(bad) == 3


NOON = 1_710_072_000_000_000_000  # 2024-03-10 12:00, in nanoseconds
UTC_NS = pa.timestamp("ns", "UTC")
N_ROWS = 16


def column(arrow: pa.DataType, usual: Any, **others: Any) -> pa.Array:
    """The same value in every row, but for those that are named `n5`."""
    return pa.array([others.get(f"n{i}", usual) for i in range(1, N_ROWS + 1)], arrow)


def parquet_dirt() -> pa.Table:
    """Each row and each column is a kind of dirt, or something that looks like dirt and is none."""
    not_utf8 = column(pa.binary(), b"\xff\xfe").view(pa.string())
    return pa.table(
        {
            # No start, no end, a start after the end, a fraction of a microsecond, and nanoseconds without one.
            "a": column(UTC_NS, NOON, n2=None, n4=NOON + 2_000, n5=NOON + 1, n6=NOON + 1_000),
            "b": column(UTC_NS, NOON + 1_000, n3=None),
            "n": pa.array(range(1, N_ROWS + 1), pa.int16()),
            "unsigned": column(pa.uint64(), 7, n7=2**64 - 1, n8=2**63 - 1, n9=2**63),
            "byte": column(pa.uint8(), 255, n10=None),
            "single": column(pa.float32(), 0.1, n9=float("nan"), n10=float("-inf")),
            "money": column(
                pa.decimal128(30, 2),
                decimal.Decimal("1.50"),
                n11=decimal.Decimal("12345678901234567.00"),
                n12=decimal.Decimal("-9999999999999999.99"),
            ),
            "word": column(pa.string(), "Ünï ☃", n13="", n14=None).dictionary_encode(),
            "long": column(pa.large_string(), "text"),
            "view": column(pa.string_view(), "text"),
            "york": column(pa.timestamp("ms", "America/New_York"), NOON // 1_000_000, n15=None),
            "local": column(pa.timestamp("us"), NOON // 1_000),
            "local_ns": column(pa.timestamp("ns"), NOON, n16=NOON + 999),
            "day": column(pa.date64(), 86_400_000),
            "nothing": pa.nulls(N_ROWS),
            "bytes": column(pa.binary(), b"\xff"),
            "while": column(pa.duration("us"), 5),
            # No query reads these.
            "large": column(pa.decimal128(38, 0), decimal.Decimal(10**30)),
            "not_utf8": not_utf8,
            "struct": column(pa.struct([("f", pa.int32())]), {"f": 1}),
            "list": column(pa.list_(pa.int8()), [1]),
            "map": column(pa.map_(pa.string(), pa.int64()), [("k", 1)]),
            "half": column(pa.float16(), 0.5),
            "wide": column(pa.decimal256(50, 2), decimal.Decimal("1.5")),
            "clock": column(pa.time64("us"), 5),
            "uuid": column(pa.uuid(), b"0123456789abcdef"),
            "inside": column(pa.struct([("f", pa.timestamp("ns"))]), {"f": 1}),
            "Twin": column(pa.int64(), 1),
            "twin": column(pa.string(), "text"),
        }
    )


READ = ("n", "unsigned", "byte", "single", "money", "word", "long", "view", "york", "local", "local_ns", "day", "nothing", "bytes", "while")
WITHOUT_TYPE = ("half", "wide", "clock", "uuid", "inside", "Twin", "twin")  # in Spark


def on_both(cell: str) -> str | None:
    """Instants in UTC and in microseconds; rejected integers of 64 bits without a sign are decimals in Spark, which JSON shows as text."""
    name, _, value = cell.partition("=")
    if name in WITHOUT_TYPE:
        return None
    if re.match(r"'\d{4}-\d\d-\d\dT", value):
        time = datetime.datetime.fromisoformat(value[1:-1])
        return f"{name}={time if time.tzinfo is None else time.astimezone(datetime.UTC)}"
    return cell.replace("'", "") if name == "unsigned" else cell


def test_parquet_with_twenty_kinds_of_dirt(zone):
    pa.parquet.write_table(parquet_dirt(), "s.parquet")
    rows, bad = through_all("parquet", "s.parquet", ("a", "b"), f"SELECT {', '.join(READ)} FROM S", alike=on_both)
    assert [row[0] for row in rows] == sorted([f"n={n}" for n in (1, 6, 8, 10, 12, 13, 14, 15)])
    reasons = {row[2]: next(cell for cell in row if cell.startswith("_reason=")) for row in bad}
    assert reasons == {
        "n=2": "_reason='no time'",
        "n=3": "_reason='no time'",
        "n=4": "_reason='starts after its end'",
        "n=5": f"_reason='`a`: {NOON + 1} ns since 1970 has a fraction of a microsecond'",
        "n=7": f"_reason='`unsigned`: {2**64 - 1} does not fit a signed 64-bit integer'",
        "n=9": f"_reason='`unsigned`: {2**63} does not fit a signed 64-bit integer'",
        "n=11": "_reason='`money`: 12345678901234567.00 has more than 18 digits'",
        "n=16": f"_reason='`local_ns`: {NOON + 999} ns since 1970 has a fraction of a microsecond'",
    }


def test_times_of_96_bits_are_instants_of_all_years(zone):
    times = [datetime.datetime(1970, 1, 1), None, datetime.datetime(3024, 3, 10, 2, 30, 0, 123_456)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us")), "n": [1, 2, 3]})
    pa.parquet.write_table(table, "s.parquet", use_deprecated_int96_timestamps=True)
    rows, bad = through_all("parquet", "s.parquet", "t", "SELECT n FROM S")
    assert [row[1] for row in rows] == ["_start='1970-01-01T00:00:00+00:00'", "_start='3024-03-10T02:30:00.123456+00:00'"]
    assert len(bad) == 1


@pytest.mark.parametrize("zone", ["Asia/Kathmandu"], indirect=True)
@pytest.mark.parametrize(("wanted", "code"), [("n", "K510"), ("unsigned", "K514"), ("money", "K514"), ("local_ns", "K510")])
def test_a_value_of_parquet_without_room_is_the_same_error(zone, wanted, code):
    pa.parquet.write_table(parquet_dirt().drop_columns(["b", "view"]).filter(pa.compute.field("a").is_valid()), "s.parquet")
    time, messages = "a" if wanted == "n" else "local", []
    for embedded in (True, False):
        stream = Input("parquet", path="s.parquet", time=time)
        with pytest.raises(keuka.DataError, match=code) as raised:
            run(stream, Sink("console"), query=f"SELECT {wanted} FROM S", embedded=embedded)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("zone", ["UTC"], indirect=True)
@pytest.mark.parametrize("name", WITHOUT_TYPE)
def test_a_column_that_spark_cannot_read_is_named_with_a_remedy(zone, name):
    pa.parquet.write_table(parquet_dirt(), "s.parquet")
    with pytest.raises(keuka.DataError) as raised:
        run(Input("parquet", path="s.parquet", time="local"), Sink("console"), query=f"SELECT {name} FROM S", embedded=False)
    (found,) = raised.value.diagnostics
    assert (found.code, f"column `{name}`" in found.message) == ("K608", True)
    assert ("spark.sql.caseSensitive" if name in ("Twin", "twin") else "--embedded") in found.help[0]


FIRST = {"t": pa.array([1, None]), "n": pa.array([1, 2]), "x": pa.array(["a", "b"])}
LATER = {"t": pa.array([3, None]), "n": pa.array([3, 4]), "x": pa.array(["c", "d"])}


@pytest.mark.parametrize("zone", ["America/New_York"], indirect=True)
@pytest.mark.parametrize(
    ("later", "read"),
    [
        (LATER, "x"),
        ({name: LATER[name] for name in ("x", "n", "t")}, "x"),
        ({name: values.slice(0, 0) for name, values in LATER.items()}, "x"),
        ({name: LATER[name] for name in ("t", "n")}, "n"),
        ({**LATER, "more": pa.array([1, 2])}, "x"),
    ],
    ids=["alike", "in another order", "no rows", "an unread column is missing", "a further column"],
)
def test_directories_of_parquet_files_that_differ(zone, later, read):
    Path("d").mkdir()
    pa.parquet.write_table(pa.table(FIRST), "d/0.parquet")
    pa.parquet.write_table(pa.table(later), "d/1.parquet")
    rows, bad = through_all("parquet", "d", "t", f"SELECT {read} FROM S")
    assert (len(rows), len(bad)) == ((1, 1) if len(later["t"]) == 0 else (2, 2))


@pytest.mark.parametrize("zone", ["UTC"], indirect=True)
@pytest.mark.parametrize(
    ("later", "code", "message"),
    [
        ({name: LATER[name] for name in ("t", "n")}, "K509", "column `x` is missing, which was there before"),
        ({**LATER, "x": pa.array([1, 2])}, "K509", "column `x` is int64, which was string before"),
        ({**LATER, "t": pa.array([3, 4], pa.int32())}, "K509", "column `t` is int32, which was int64 before"),
        (None, "K506", "it is damaged, cut short, or of another format"),
    ],
)
def test_files_without_what_is_read_are_the_same_error(zone, later, code, message):
    Path("d").mkdir()
    pa.parquet.write_table(pa.table(FIRST), "d/0.parquet")
    if later is None:
        Path("d/1.parquet").write_bytes(b"")
    else:
        pa.parquet.write_table(pa.table(later), "d/1.parquet")
    for embedded in (True, False):
        with pytest.raises(keuka.DataError, match=f"{code}.*{message}"):
            run(Input("parquet", path="d", time="t", on_bad_row="reject"), Sink("console"), query="SELECT x FROM S", embedded=embedded)
        unread = {**FIRST, **(later or FIRST), "t": LATER["t"]}
    if later is not None and code == "K509" and "x" in message:
        pa.parquet.write_table(pa.table(unread), "d/1.parquet")
        reports = [
            run(Input("parquet", path="d", time="t", on_bad_row="reject"), Sink("console"), query="SELECT n FROM S", embedded=embedded)
            for embedded in (True, False)
        ]
        assert reports[0].matches == reports[1].matches == {"query_1": 2}


@pytest.mark.parametrize("zone", ["Asia/Kathmandu"], indirect=True)
@pytest.mark.parametrize("on_bad_row", ["error", "reject"])
def test_a_quote_that_is_never_closed_is_an_error_everywhere(zone, on_bad_row):
    Path("s").mkdir()
    Path("s/a.csv").write_text('t,name\n1,a\n2,"b"\n')
    Path("s/b.csv").write_text('t,name\n3,c\n4,"d\n5,e\n')
    messages = []
    for embedded in (True, False):
        with pytest.raises(keuka.DataError, match="K506") as raised:
            run(Input("csv", path="s", time="t", on_bad_row=on_bad_row), Sink("console"), query="SELECT name FROM S", embedded=embedded)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("zone", ["Asia/Kathmandu"], indirect=True)
@pytest.mark.parametrize("dirt", ["2,b,n/a\n", "2,b\n", "2,b,1,1\n", ",b,1\n"])
def test_without_a_place_for_bad_rows_the_error_is_the_same(zone, dirt):
    Path("s.csv").write_text("t,name,x\n1,a,1.5\n" + dirt)
    messages = []
    for embedded in (True, False):
        stream = Input("csv", path="s.csv", time="t", schema="t BIGINT, name STRING, x DOUBLE")
        with pytest.raises(keuka.DataError) as raised:
            run(stream, Sink("console"), query="SELECT x FROM S", embedded=embedded)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("zone", ["Asia/Kathmandu"], indirect=True)
def test_odd_values_and_options_are_the_same_on_spark(zone):
    Path("s.csv").write_text("1;a;1\n2;b;2\n3;c;-\n4;d;4\n")
    said: dict[str, Any] = {"csv": {"separator": ";", "header": ["t", "name", "x"]}}
    messages = []
    for embedded in (True, False):
        with pytest.raises(keuka.DataError, match="K536") as raised:
            run(Input("csv", path="s.csv", time="t", **said), Sink("console"), query="SELECT x FROM S", embedded=embedded)
        messages.append(str(raised.value))
        assert run(
            Input("csv", path="s.csv", time="t", **said), Sink("console"), query="SELECT name FROM S", embedded=embedded
        ).rejected == {"S": 0}
        said_more = {"csv": {**said["csv"], "nulls": ["-"]}}
        report = run(Input("csv", path="s.csv", time="t", **said_more), Sink("console"), query="SELECT x FROM S", embedded=embedded)
        assert report.shown["query_1"][0]["x"].to_pylist() == [1, 2, None, 4]
        report = run(
            Input("csv", path="s.csv", time="t", on_bad_row="reject", **said), Sink("console"), query="SELECT x FROM S", embedded=embedded
        )
        assert report.rejected == {"S": 1}
    assert messages[0] == messages[1]


# -- files that Keuka cannot read itself: Spark sends the head of the first one


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Text files are treated as those of a bucket or of a cluster's disks are."""
    with monkeypatch.context() as patch:
        patch.setattr("keuka.spark.inputs.files_of", lambda stream, here: None)
        yield


@pytest.mark.parametrize("zone", ["Asia/Kathmandu"], indirect=True)
@pytest.mark.parametrize(("format", "text"), [("csv", CSV), ("json", "\n".join(JSON))], ids=["csv", "json"])
def test_files_elsewhere_have_the_same_rows_and_rejected_rows(zone, format, text, elsewhere):
    Path(f"s.{format}").write_text(text, encoding="utf-8")
    through_all(format, f"s.{format}", "t", schema=SCHEMA)


@pytest.mark.parametrize("zone", ["Asia/Kathmandu"], indirect=True)
def test_types_and_options_of_files_elsewhere_are_those_of_files_here(zone, elsewhere, monkeypatch):
    monkeypatch.setattr("keuka.spark.text_streams.HEAD_LINES", 3)  # which ends inside quotes
    for day in ("2024-03-01", "2024-03-02"):
        Path(f"two words/day={day}").mkdir(parents=True)
        Path(f"two words/day={day}/a b.csv").write_text('t;code;x\n1;007;1\n2;"0\n8";-\n3;009;2.5\n')
    said = Input("csv", path="two words", time="t", schema="x DOUBLE", csv={"separator": ";", "nulls": ["-"]})
    shown = [
        run(said, Sink("console"), query="SELECT t, code, x, day FROM S", embedded=embedded).shown["query_1"][0]
        for embedded in (True, False)
    ]
    assert shown[0].schema == shown[1].schema
    assert sorted(shown[0].to_pylist(), key=str) == sorted(shown[1].to_pylist(), key=str)


@pytest.mark.parametrize("zone", ["Asia/Kathmandu"], indirect=True)
def test_odd_values_in_files_elsewhere_are_errors_that_name_the_file(zone, elsewhere, monkeypatch):
    Path("s.csv").write_text("t,x\n1,1\n2,2\n3,n/a\n4,4\n")
    with pytest.raises(keuka.DataError, match=r"(?s)K536.*`n/a`.*file `file:/+[^`]*/s.csv`, line 4, column `x`"):
        run(Input("csv", path="s.csv", time="t"), Sink("console"), query="SELECT x FROM S", embedded=False)
    monkeypatch.setattr("keuka.spark.text_streams.HEAD_LINES", 3)
    Path("s.csv").write_text("t,x\n1,1\n2,2\n3,3\n4,?\n5,!\n")
    with pytest.raises(keuka.DataError, match=r"(?s)K509.*`x` is `\?`, not an integer, and 1 more row is bad.*file `[^`]*/s.csv`"):
        run(Input("csv", path="s.csv", time="t"), Sink("console"), query="SELECT x FROM S", embedded=False)
