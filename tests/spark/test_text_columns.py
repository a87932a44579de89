"""The same text has the same value on Spark and in this process, in every type and time format, whatever the zone of the session."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from keuka.events.text_values import Csv, convert
from keuka.spark import text_columns

from ..events.test_text_values import TEXTS

TYPES = (
    *[pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.float64(), pa.float32(), pa.bool_(), pa.date32()],
    *[
        pa.timestamp("us"),
        pa.timestamp("us", tz="UTC"),
        pa.decimal128(10, 2),
        pa.decimal128(18, 4),
        pa.decimal128(5, 0),
        pa.string(),
        pa.binary(),
    ],
)
ZONES = ("UTC", "America/New_York", "Asia/Kathmandu", "+02:30")
FORMATS = ("%d/%m/%Y %H:%M", "%m/%d/%y %I:%M:%S %p", "%d %b %Y %H:%M:%S.%f", "%Y%m%d %H%M%S%z", "%Y-%j", "%d.%m.%Y", "(%Y) %m|%d")
ODD = [
    *["", " ", "n/a", "-", "NULL", "1", "0", "-0", "007", "+7", " 7", "7\t", "7\n", "7\u00a0", "\u0667", "1_000"],
    *["1,5", "1.0", "1e3", "0x1F", "127", "128", "-128", "-129", "255", "256", "0xff", "0xffff", "0xffffffff"],
    *["0xfffffffff", "0xffffffffffffffff", "0x10000000000000000", "32768", "2147483648", "9223372036854775807"],
    *["9223372036854775808", "-9223372036854775808", "00000000000000000000000000001", "1.", ".5", ".", "1e400"],
    *["-1e400", "1e-400", "4.9e-324", "2.4e-324", "1e39", "3.4028236e38", "1e-46", "1e", "1d", "1f", "0x1p3"],
    *["nan", "NaN", "-nan", "nan(x1)", "nan(", "inf", "-inf", "+Infinity", "INFINITY", "infinit", "true", "TRUE"],
    *["tRUE", "t", "yes", "1.5", "1.500", "1.505", "-12345678.25", "123456789.25", "1.5e2", "1.5e-1", "15e-1"],
    *["0.001e1", "1e8", "99999999.99", "+1.5", "--1", "2024-02-29", "2023-02-29", "2000-02-29", "1900-02-29"],
    *["2024-04-31", "2024-1-1", "0000-01-01", "0001-01-01", "9999-12-31", " 2024-01-01", "2024-01-01 "],
    *["10000-01-01", "2024-01-01 09", "2024-01-01T09:30", "2024-01-01 09:30:15", "2024-01-01 09:30:15."],
    *["2024-01-01 24:00:00", "2024-01-01 09:30:15.1", "2024-01-01 09:30:15.123456", "2024-01-01 09:30:15.1234567"],
    *["2024-01-01 09:30:15.123456000", "2024-01-01 09:30:60", "2024-01-01 09:30:15Z", "2024-01-01 09:30:15 Z"],
    *["2024-01-01T09:30:15+05:45", "2024-01-01 09+05", "2024-01-01Z", "2024-01-01 09:30:15-0330"],
    *["2024-01-01 09:30:15+23:59", "2024-01-01 09:30:15+24:00", "2024-01-01 09:30:15 America/New_York"],
    *["2024-03-10 02:30:00", "2024-03-10 01:59:59.999999", "2024-11-03 01:30:00", "1986-01-01 00:10:00"],
    *["1883-11-18 12:00:00", "0000-01-01 00:00:00", "0001-01-01 00:00:00+23:00"],
    *["9999-12-31 23:59:59.999999-23:00", "2024-01-01T09:30:15.5+01", "03/01/2024 09:10", "3/1/2024 9:10"],
    *["31/02/2024 09:10", "29/02/2024 24:00", "12/31/99 12:00:00 am", "12/31/68 1:5:9 PM", "1/1/00 13:00:00 AM"],
    *["05 mar 2024 1:2:3.4", "05 Mai 2024 1:2:3.4", "29 FEB 2023 00:00:00.0", "20240310 023000-0500"],
    *["20240310 023000Z", "2024-366", "2023-366", "2024-0", "2024-1", "2024-070", "10.03.2024", "(2024) 03|10"],
    *["(2024)03|10", "2024-01-01T00:00:00,5", "today", "now", "epoch"],
]  # fmt: skip


@pytest.fixture(scope="module", params=["Asia/Kathmandu", "America/New_York"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def drawn(n_texts: int) -> list[str]:
    texts: list[str] = []

    @settings(max_examples=n_texts, database=None)
    @given(TEXTS)
    def draw(text: str) -> None:
        texts.append(text)

    draw()
    return sorted({*texts})


def different(session: SparkSession, texts: Sequence[str], cases: Sequence[tuple[pa.DataType, Csv]]) -> list[tuple[object, ...]]:
    """The texts that Spark takes for other values than `convert`, computed in one job."""
    rows = session.createDataFrame([(text,) for text in texts], "text string").coalesce(1)
    columns = [text_columns.convert(text_columns.drop_null_texts(sf.col("text"), own), arrow, own) for arrow, own in cases]
    found = rows.select("text", *[column.alias(f"v{i}") for i, column in enumerate(columns)]).toArrow()
    in_order = found["text"].combine_chunks()
    wrong: list[tuple[object, ...]] = []
    for i, (arrow, own) in enumerate(cases):
        there, here = values(found[f"v{i}"].cast(arrow)), values(convert(in_order, arrow, own).values)
        wrong += [
            (text, arrow, own, a, b)
            for text, a, b in zip(in_order.to_pylist(), here, there, strict=True)
            if not same(a, b) and not (pa.types.is_decimal(arrow) and is_tiny(text))
        ]
    return wrong


def values(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """Times as numbers, because Python has no year 0."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return list((column.cast(pa.int32()) if pa.types.is_date(column.type) else column).to_pylist())


def is_tiny(text: str) -> bool:
    """Arrow takes some decimals with an exponent of three digits for zero, and wraps others."""
    return re.search("[eE][+-]?[0-9]{3}", text) is not None


def same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return a == b


def test_texts_have_the_same_values_on_spark(session):
    cases = [(arrow, Csv()) for arrow in TYPES] + [(arrow, Csv(nulls=("n/a", "0"))) for arrow in (pa.int64(), pa.string())]
    assert different(session, [*ODD, *drawn(1_000)], cases) == []


def test_times_in_zones_and_formats_have_the_same_values_on_spark(session):
    types = (pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
    cases = [(types[1], Csv(zone=zone)) for zone in (*ZONES, None)]
    cases += [(arrow, Csv(zone=zone, time_format=form)) for arrow, zone in zip(types, ZONES, strict=False) for form in FORMATS]
    assert different(session, ODD, cases) == []  # fixed texts: Arrow and Java disagree on summers of the far future
