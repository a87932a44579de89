"""A pipeline gives the same instants and writes the same texts in this process, on Spark, and in sessions of other time zones."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import keuka
from keuka.pipelines import Input, Queries, Sink, SparkSettings

# In New York 02:30 on this day did not exist; in Kathmandu days begin at 18:15 UTC.
DAY = "2024-03-10"
ZONES = ["UTC", "Asia/Kathmandu", "America/New_York"]
AT = [0, 1, -1, None, 1_710_037_800_000_000, 1_710_037_800_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999]
ODD = pa.table(
    {
        "t": pa.array(range(8), pa.int64()),
        "ltz": pa.array(AT, pa.timestamp("us", "UTC")),
        "ntz": pa.array(AT, pa.timestamp("us")),
        "day": pa.array([0, 1, -1, None, 19_792, 10, -719_162, 2_932_896], pa.date32()),
        "x": [1.0, 0.1, 1e20, None, float("nan"), float("-inf"), -0.0, 5e-324],
        "y": [1e-7, 2.0**-44, 123_456_789.0, 1e15, 1e16, 2.2250738585072014e-308, 1.7976931348623157e308, 0.001],
        "n": [1, None, 2**63 - 1, -(2**63), 0, 1, 2, 3],
        "b": [True, False, None, True, True, True, True, True],
        "s": ["a", "", None, "  x ", '"', 'say "a, b"', "two\nlines\r\nand \\ \t", "Ünï ☃ 𝄞"],
        "money": pa.array([Decimal("1.50"), None, *[Decimal("-0.01")] * 6], pa.decimal128(10, 2)),
    }
)
NESTED = {
    "times": pa.array([[0, None], [], None, [1_710_037_800_123_456], [1], [1], [1], [1]], pa.list_(pa.timestamp("us", "UTC"))),
    "both": pa.array(
        [{"at": 1, "x": float("nan"), "s": "é"}, None, *[{"at": None, "x": 0.5, "s": None}] * 6],
        pa.struct([("at", pa.timestamp("us")), ("x", pa.float64()), ("s", pa.string())]),
    ),
}


IN_KATHMANDU = pytest.mark.parametrize("zone", ["Asia/Kathmandu"], indirect=True)


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    assert spark.conf.get("spark.sql.session.timeZone") == request.param  # the user's session is left as it is
    spark.conf.set("spark.sql.session.timeZone", before or "UTC")


def run(stream: Input, query: str, *sinks: Sink, embedded: bool = False) -> keuka.pipelines.Report:
    pipeline = keuka.Pipeline({"S": stream}, [Queries(text=query)], sinks, spark=SparkSettings(shards=2))
    return pipeline.run(embedded=embedded)


def written(folder: str) -> list[str]:
    return [file.read_bytes().decode() for file in sorted(Path(folder).glob("part-*"))]


def csv_rows(folder: str) -> list[tuple[str, ...]]:
    """All rows, without the header that every file has."""
    files = [list(csv.reader(io.StringIO(text, newline=""))) for text in written(folder)]
    return sorted([tuple(row) for rows in files for row in rows[1:]])


def json_rows(folder: str) -> list[Any]:
    rows = [json.loads(line) for text in written(folder) for line in text.split("\n") if line]
    return sorted(rows, key=lambda row: str(row["t"]))


def test_csv_and_json_sinks_write_what_embedded_sinks_write(zone):
    pa.parquet.write_table(ODD, "flat.parquet")
    nested = ODD
    for name, column in NESTED.items():
        nested = nested.append_column(name, column)
    pa.parquet.write_table(nested, "nested.parquet")
    for embedded in (True, False):
        place = "here" if embedded else "there"
        run(Input("parquet", path="flat.parquet", time="t"), "SELECT * FROM S", Sink("csv", path=f"{place}/csv"), embedded=embedded)
        run(Input("parquet", path="nested.parquet", time="t"), "SELECT * FROM S", Sink("json", path=f"{place}/json"), embedded=embedded)
    assert csv_rows("there/csv") == csv_rows("here/csv")
    assert len(csv_rows("here/csv")) == 8
    there, here = json_rows("there/json"), json_rows("here/json")
    assert there == here
    assert [list(row) for row in there] == [list(row) for row in here]
    assert there[5]["ltz"] == "2024-03-10T02:30:00.123456+00:00"
    # An empty text and null are different values of a CSV file.
    assert any(',false,"",,' in text for text in written("there/csv"))


@IN_KATHMANDU
def test_a_sink_with_a_form_of_times_of_its_own_is_written_by_spark_in_utc(zone):
    pa.parquet.write_table(ODD.slice(4, 1), "s.parquet")
    options = {"timestampFormat": "dd.MM.yyyy HH:mm"}
    run(Input("parquet", path="s.parquet", time="t"), "SELECT ltz FROM S", Sink("csv", path="out", options=options))
    assert csv_rows("out") == [("10.03.2024 02:30", "4", "4")]


@IN_KATHMANDU
def test_lists_in_a_csv_sink_are_the_same_error_as_in_this_process(zone):
    pa.parquet.write_table(pa.table({"t": [1], "l": [[1]]}), "s.parquet")
    messages = []
    for embedded in (True, False):
        with pytest.raises(keuka.DataError, match="K517") as raised:
            run(Input("parquet", path="s.parquet", time="t"), "SELECT l FROM S", Sink("csv", path="out"), embedded=embedded)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@IN_KATHMANDU
def test_the_console_shows_times_in_utc(zone):
    pa.parquet.write_table(ODD.select(["t", "ltz", "ntz"]), "s.parquet")
    shown = [
        run(Input("parquet", path="s.parquet", time="t"), "SELECT * FROM S", Sink("console"), embedded=embedded).shown["query_1"][0]
        for embedded in (True, False)
    ]
    assert shown[0].schema.equals(shown[1].schema)
    assert shown[0].equals(shown[1])


def test_times_in_the_names_of_directories_are_in_utc(zone):
    for at in ("2024-03-10 02%3A30%3A00", "2024-03-10 18%3A15%3A00"):
        Path(f"in/at={at}").mkdir(parents=True)
        pa.parquet.write_table(pa.table({"t": [1]}), f"in/at={at}/x.parquet")
    table = run(Input("parquet", path="in", time="t"), "SELECT at FROM S", Sink("console")).shown["query_1"][0]
    assert sorted(table["at"].cast(pa.int64()).to_pylist()) == [1_710_037_800_000_000, 1_710_094_500_000_000]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_times_in_text_are_the_same_instants_everywhere(zone, format):
    texts = [f"{DAY} 02:30:00", f"{DAY} 02:30:00.5", f"{DAY}T18:15:00.123456", f"{DAY}T08:15:00+05:45", f"{DAY} 02:30:00Z"]
    if format == "csv":
        Path("s.csv").write_text("t,at\n" + "".join([f"{t},{text}\n" for t, text in enumerate(texts)]))
    else:
        Path("s.json").write_text("".join([json.dumps({"t": t, "at": text}) + "\n" for t, text in enumerate(texts)]))
    stream = Input(format, path=f"s.{format}", schema="t BIGINT, at TIMESTAMP", time="t")
    table = run(stream, "SELECT at FROM S", Sink("console")).shown["query_1"][0]
    begin = 1_710_037_800_000_000
    assert table["at"].type == pa.timestamp("us", "UTC")
    assert table["at"].cast(pa.int64()).to_pylist() == [begin, begin + 500_000, begin + 56_700_123_456, begin, begin]
