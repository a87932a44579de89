"""Decimals, dates and fields of structs: Spark finds what one process finds, and gets the conditions and the fields alone."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import keuka
from keuka.errors import KeukaError

D = Decimal
ROW = pa.struct([("user", pa.struct([("id", pa.int64()), ("name", pa.string())])), ("paid", pa.decimal128(10, 2))])
EVENTS = pa.table(
    {
        "at": pa.array(range(1, 9), pa.int64()),
        "m": pa.array([D("0.10"), D("0.30"), None, D("0.10"), D("5.00"), D("0.30"), D("0.10"), D("-1.00")], pa.decimal128(10, 2)),
        "w": pa.array([D("0.1"), D("0.3"), D("0.1"), None, D("5"), D("0.3"), D("7"), D("-1")], pa.decimal128(38, 4)),
        "d": pa.array([date(2024, 3, day) if day else None for day in (1, 2, 0, 1, 3, 2, 1, 9)], pa.date32()),
        "r": pa.array(
            [
                *[{"user": {"id": 1, "name": "a"}, "paid": D("1.50")}, None, {"user": None, "paid": D("2.00")}],
                *[{"user": {"id": n % 2, "name": "b"}, "paid": D(n)} for n in range(5)],
            ],
            ROW,
        ),
    }
)
SCHEMA = (
    "at bigint, m decimal(10,2), w decimal(38,4), d date, "
    "r struct<user: struct<id: bigint, name: string>, paid: decimal(10,2)>"
)  # fmt: skip
QUERIES = [
    "SELECT at, m FROM FILTER {m = 0.1 OR m > 4.99} S",
    "SELECT at_1, at, m + w AS total FROM S NEXT {$2.m = $1.m} S",
    "SELECT at_1, at, w FROM S NEXT {$2.w = $1.w AND $2.m >= $1.m} S",
    "SELECT at_1, at, d - d_1 AS gap, d + 1 AS later FROM S NEXT {$2.d = $1.d} S",
    "SELECT at, d FROM FILTER {d >= '2024-03-02' AND d < '2024-03-03 12:00'} S",
    "SELECT at_1, at, r.user.name AS name, r FROM S NEXT {$2.r.user.id = $1.r.user.id} S",
    "SELECT r.paid, r.user FROM FILTER {r.paid > 1.5 AND r.user.name = 'b'} S",
]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    rows = [tuple(row.values()) for row in EVENTS.to_pylist()]
    return spark.createDataFrame(rows, SCHEMA)


@pytest.mark.parametrize("contributors", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_spark_finds_what_one_process_finds(frame: DataFrame, query: str, contributors: bool):
    here = keuka.match(query, EVENTS, time="at", contributors=contributors)
    there = keuka.match(query, frame, time="at", contributors=contributors)
    assert [field.dataType.simpleString() for field in there.schema][: len(here.schema) - 2][:1] == [_spark_name(here.schema.field(0).type)]
    assert sorted([repr(row) for row in here.to_pylist()]) == sorted([repr(row.asDict(recursive=True)) for row in there.collect()])


def _spark_name(arrow: pa.DataType) -> str:
    return f"decimal({arrow.precision},{arrow.scale})" if pa.types.is_decimal(arrow) else "bigint"


def plan_of(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[operator]


def test_a_key_of_decimals_dates_or_fields_divides(frame: DataFrame, caplog: pytest.LogCaptureFixture):
    for key in ("m", "w", "d", "r.user.id"):
        keuka.match(f"SELECT at FROM S NEXT {{$2.{key} = $1.{key}}} S", frame, time="at")
    assert "runs on one worker" not in caplog.text


def test_only_the_field_is_sent(frame: DataFrame):
    found = plan_of(keuka.match("SELECT r.user.id AS id FROM FILTER {r.user.name = 'b' AND m < 3.5} S", frame, time="at"))
    assert "Filter" in found
    sent = next(line for line in found.splitlines() if "MapInArrow" in line)
    assert "struct" not in sent.lower()


def test_a_decimal_of_too_many_digits_is_an_error_there_too(spark: SparkSession):
    wide = spark.createDataFrame([(1, D("12345678901234567.89")), (2, D(1))], "at bigint, m decimal(38,2)")
    with pytest.raises(Exception, match="has more than 18 digits"):
        keuka.match("SELECT m FROM FILTER {m < 0} S", wide, time="at").collect()
    assert issubclass(keuka.DataError, KeukaError)
