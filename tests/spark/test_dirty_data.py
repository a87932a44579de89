"""The same dirty files through `match`, the command, an embedded pipeline and one on Spark: the same rows, rejected rows and instants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
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
]


@pytest.fixture(params=["UTC", "Asia/Kathmandu", "America/New_York"])
def zone(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def run(stream: Input, *sinks: Sink, query: str = QUERY, embedded: bool) -> keuka.pipelines.Report:
    pipeline = keuka.Pipeline({"S": stream}, [Queries(text=query)], sinks, spark=SparkSettings(shards=2))
    return pipeline.run(embedded=embedded)


def rows_of(folder: str, files: str = "part-*") -> list[tuple[str, ...]]:
    """What is in the files of a sink; NaN is equal to itself here, and times are shown with their zone."""
    rows = [json.loads(line) for file in sorted(Path(folder).glob(files)) for line in file.read_text().splitlines()]
    return sorted([tuple([f"{name}={value!r}" for name, value in row.items()]) for row in rows])


def through_all(format: str, path: str, time: str | tuple[str, str], query: str = QUERY, **said: Any) -> tuple[list[Any], list[Any]]:
    """The rows and the rejected rows, if they are the same everywhere."""
    found = []
    for embedded in (True, False):
        place = f"{format}-{'here' if embedded else 'there'}"
        sinks = [Sink("json", path=f"{place}/rows"), Sink("json", of="rejected", path=f"{place}/bad")]
        report = run(Input(format, path=path, time=time, **said), *sinks, query=query, embedded=embedded)
        found.append((rows_of(f"{place}/rows"), rows_of(f"{place}/bad"), report.read, report.rejected))
    assert found[0] == found[1]
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
    assert len(rows) == 8
    assert len(bad) == 15


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
