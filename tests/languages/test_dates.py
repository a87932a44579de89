"""Dates: compared with dates, times and texts, subtracted to days, moved by days; and times without a zone (docs/semantics.md, 1)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import keuka

DAYS = [date(2024, 3, 1), date(2024, 3, 31), None, date(1969, 12, 31)]
TIMES = [datetime(2024, 3, 1), datetime(2024, 3, 31, 12, 30), datetime(2024, 1, 1), None]
EVENTS = pa.table(
    {
        "at": [1, 2, 3, 4],
        "d": pa.array(DAYS, pa.date32()),
        "e": pa.array([date(2024, 3, 1), date(2024, 3, 2), date(2024, 3, 3), date(2024, 3, 4)], pa.date32()),
        "ts": pa.array(TIMES, pa.timestamp("us")),
        "paris": pa.array(
            [datetime(2024, 2, 29, 23, tzinfo=UTC), datetime(2024, 3, 30, 23, tzinfo=UTC)] + [None] * 2, pa.timestamp("us", "Europe/Paris")
        ),
        "n": [1, 2, 3, 4],
    }
)


def values(expression: str, **params: Any) -> list[Any]:
    return keuka.match(f"SELECT {expression} AS v FROM S", EVENTS, time="at", params=params)["v"].to_pylist()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("d = e", [True, False, None, False]),
        ("d >= '2024-03-31'", [False, True, None, False]),
        ("'2024-03-02' > d", [True, False, None, True]),
        ("d = ts", [True, False, None, None]),
        ("d < ts", [False, True, None, None]),
        ("d < '2024-03-31 00:00:01'", [True, True, None, True]),
        ("d > '2024-03-30T23:59:59+09:00'", [False, True, None, False]),
        ("d IN ('2024-03-01', '1969-12-31')", [True, False, None, True]),
        ("d BETWEEN '2024-03-01' AND e", [True, False, None, False]),
        ("ts >= '2024-03-01'", [True, True, False, None]),
        ("d - e = 0", [True, False, None, False]),
        ("d - e < 3 days", [True, False, None, True]),
        ("d - '2024-02-28' = 2", [True, False, None, False]),
        ("d + 1 day > e", [True, True, None, False]),
        ("d IS NULL", [False, False, True, False]),
    ],
)
def test_comparisons(condition: str, expected: list[Any]):
    assert values(condition) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("d - e", [0, 29, None, -19787]),
        ("d + n", [date(2024, 3, 2), date(2024, 4, 2), None, date(1970, 1, 4)]),
        ("1 + d", [date(2024, 3, 2), date(2024, 4, 1), None, date(1970, 1, 1)]),
        ("d - 1 week", [date(2024, 2, 23), date(2024, 3, 24), None, date(1969, 12, 24)]),
        ("greatest(d, e)", [date(2024, 3, 1), date(2024, 3, 31), date(2024, 3, 3), date(2024, 3, 4)]),
        ("coalesce(d, '1970-01-01')", [date(2024, 3, 1), date(2024, 3, 31), date(1970, 1, 1), date(1969, 12, 31)]),
    ],
)
def test_values(expression: str, expected: list[Any]):
    assert values(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cast(d AS STRING)", ["2024-03-01", "2024-03-31", None, "1969-12-31"]),
        ("cast(ts AS DATE)", [date(2024, 3, 1), date(2024, 3, 31), date(2024, 1, 1), None]),
        ("cast(paris AS DATE)", [date(2024, 3, 1), date(2024, 3, 31), None, None]),
        ("cast(paris AS DATE) = d", [True, True, None, None]),
        ("cast(paris AS DATE) = paris", [True, True, None, None]),
        ("hour(cast(cast(paris AS DATE) AS TIMESTAMP))", [0, 0, None, None]),
        ("cast(concat('2024-1-', cast(n AS STRING), 'T?') AS DATE)", [date(2024, 1, n) for n in (1, 2, 3, 4)]),
        ("cast('2024-02-30' AS DATE)", [None] * 4),
        ("cast('1970-01-01' AS DATE) + n", [date(1970, 1, n) for n in (2, 3, 4, 5)]),
        ("d - cast('2024-03-01' AS DATE)", [0, 30, None, -19784]),
    ],
)
def test_casts(expression: str, expected: list[Any]):
    assert values(expression) == expected


def test_a_time_that_is_made_of_a_date_has_no_zone():
    found = keuka.match("SELECT cast(cast(paris AS DATE) AS TIMESTAMP) AS v FROM S", EVENTS, time="at")["v"]
    assert found.type == pa.timestamp("us")
    assert found.to_pylist() == [datetime(2024, 3, 1), datetime(2024, 3, 31), None, None]


def test_a_date_whose_midnight_does_not_fit_is_null():
    times = pa.array([-(2**63), 2**63 - 1], pa.int64()).cast(pa.timestamp("us"))
    table = pa.table({"at": [1, 2], "ts": times, "s": ["294247-01-11", "-290308-12-20"]})
    found = keuka.match("SELECT cast(ts AS DATE) AS d, cast(s AS DATE) AS e FROM S", table, time="at")
    assert [column.cast(pa.int32()).to_pylist() for column in (found["d"], found["e"])] == [[None, 106751991], [None, None]]


def test_parameters_are_dates_too():
    assert values("d = :v", v=date(2024, 3, 1)) == [True, False, None, False]
    assert values("ts >= :v", v=date(2024, 3, 1)) == [True, True, False, None]
    assert values("d - :v", v=date(2024, 3, 1)) == [0, 30, None, -19784]
    assert values("d + :v", v=timedelta(days=1))[0] == date(2024, 3, 2)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("d + d", "`+` does not work on these types"),
        ("d * 2", "`*` does not work on these types"),
        ("ts - d", "`-` does not work on these types"),
        ("d + 0.5", "`+` does not work on these types"),
        ("-d", "`-` needs a number"),
        ("d > 3", "cannot compare a date and an integer"),
        ("d = '2024-13-01'", "`2024-13-01` is not a date"),
        ("d = 'soon'", "`soon` is not a time"),
        ("d < 36 hours", "this duration is not a whole number of ticks"),
    ],
)
def test_what_dates_cannot_do(expression: str, message: str):
    with pytest.raises(keuka.QueryError) as raised:
        values(expression)
    assert raised.value.diagnostics[0].message == message


def test_a_date_too_far_away_is_an_error_of_its_row():
    with pytest.raises(keuka.DataError, match="row 2") as raised:
        keuka.match("SELECT d FROM S", pa.table({"at": [1, 2], "d": pa.array([0, 2**31 - 1], pa.date32())}), time="at")
    assert raised.value.code == "K514"
    with pytest.raises(keuka.DataError, match="does not fit") as raised:
        values("d + 200000000")
    assert raised.value.code == "K507"


def test_dates_of_milliseconds_are_dates():
    table = EVENTS.set_column(1, "d", EVENTS["d"].cast(pa.date64()))
    assert keuka.match("SELECT d FROM FILTER {d = '2024-03-01'} S", table, time="at")["d"].to_pylist() == [date(2024, 3, 1)]


def test_frames_of_pandas_and_polars():
    rows = {"at": [1, 2], "d": [date(2024, 3, 1), None]}
    assert keuka.match("SELECT d + 1 AS v FROM S", pd.DataFrame(rows), time="at")["v"].tolist() == [date(2024, 3, 2), None]
    assert keuka.match("SELECT d + 1 AS v FROM S", pl.DataFrame(rows), time="at")["v"].to_list() == [date(2024, 3, 2), None]


def test_dates_are_keys():
    pairs = keuka.match(keuka.sase("SEQ(S a, S b) WHERE a.e = b.d OR [d]"), EVENTS, time="at")
    assert pairs.num_rows == 0
    again = pa.concat_tables([EVENTS, EVENTS.set_column(0, "at", pa.array([5, 6, 7, 8]))])
    query = keuka.cel("SELECT at, d FROM S NEXT {$2.d = $1.d} S")
    assert "partitioned by d" in query.explain(again, time="at")
    assert sorted(keuka.match(query, again, time="at", threads=2)["at"].to_pylist()) == [5, 6, 8]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("year(d)", [2024, 2024, None, 1969]),
        ("month(d)", [3, 3, None, 12]),
        ("day(d)", [1, 31, None, 31]),
        ("dayofweek(d)", [6, 1, None, 4]),
        ("hour(d)", [0, 0, None, 0]),
        ("date_trunc('month', d) = '2024-03-01'", [True, True, None, False]),
        ("cast(d AS TIMESTAMP) = d", [True, True, None, True]),
    ],
)
def test_functions_of_times_take_dates(expression: str, expected: list[Any]):
    assert values(expression) == expected


def test_a_date_is_its_midnight_in_the_zone_of_a_timestamp():
    assert values("paris = d") == [True, True, None, None]
    assert values("paris < d + 1 day AND paris >= d") == [True, True, None, None]
    assert values("d BETWEEN paris AND '2024-03-02'") == [True, False, None, None]


# -- times without a zone ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("paris = '2024-03-01 00:00'", [True, False, None, None]),
        ("paris = '2024-03-01'", [True, False, None, None]),
        ("paris = '2024-03-01T00:00+01:00'", [True, False, None, None]),
        ("paris = '2024-02-29T23:00Z'", [True, False, None, None]),
        ("paris + 1 hour = '2024-03-01 01:00'", [True, False, None, None]),
        ("paris IN ('2024-03-31 00:00', '2024-01-01')", [False, True, None, None]),
        ("ts = '2024-03-01 00:00'", [True, False, False, None]),
    ],
)
def test_a_time_without_a_zone_is_in_that_of_the_column(condition: str, expected: list[Any]):
    assert values(condition) == expected


def test_a_parameter_without_a_zone_is_in_that_of_the_column():
    assert values("paris = :v", v=datetime(2024, 3, 1)) == [True, False, None, None]
    assert values("paris = :v", v=date(2024, 3, 31)) == [False, True, None, None]
    assert values("paris = :v", v=datetime(2024, 2, 29, 23, tzinfo=UTC)) == [True, False, None, None]


def test_clocks_that_jump():
    """Half past two does not exist in Paris on March 31st and is there twice on October 27th: the jump, and the first of the two."""
    noon = [datetime(2024, 3, 31, 1, tzinfo=UTC), datetime(2024, 10, 27, 0, 30, tzinfo=UTC)]
    table = pa.table({"at": [1, 2], "paris": pa.array(noon, pa.timestamp("us", "Europe/Paris"))})
    query = "SELECT paris = '2024-03-31 02:30' AS jump, paris = '2024-10-27 02:30' AS first FROM S"
    assert [(row["jump"], row["first"]) for row in keuka.match(query, table, time="at").to_pylist()] == [(True, False), (False, True)]


def test_an_unknown_zone_needs_times_with_one():
    table = pa.table({"at": [1], "ts": pa.array([0], pa.timestamp("us", "Mars/Olympus"))})
    with pytest.raises(keuka.QueryError, match="the zone `Mars/Olympus` of the column is not known here"):
        keuka.match("FROM FILTER {ts > '2024-01-01'} S", table, time="at")
    assert keuka.match("FROM FILTER {ts < '2024-01-01Z'} S".replace("01Z", "01T00:00Z"), table, time="at").num_rows == 1
