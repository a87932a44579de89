"""Parameters `:name` and the Python values they take."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import keuka
from keuka.expressions import Literal, show, walk
from keuka.schema import Type

from .cel import condition, mistake, mistakes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (True, Literal(True, Type.BOOLEAN)),
        (5, Literal(5, Type.INTEGER)),
        (-(2**63), Literal(-(2**63), Type.INTEGER)),
        (2.5, Literal(2.5, Type.DOUBLE)),
        ("IBM", Literal("IBM", Type.STRING)),
        (datetime(1970, 1, 1, 0, 0, 1), Literal(1_000_000, Type.TIMESTAMP)),
        (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), Literal(0, Type.TIMESTAMP)),
        (date(1970, 1, 2), Literal(1, Type.DATE)),
        (Decimal("1.50"), Literal(Decimal("1.50"), Type.DECIMAL)),
        (Decimal("1E+3"), Literal(Decimal("1000"), Type.DECIMAL)),
        (timedelta(milliseconds=1), Literal(1_000, Type.INTEGER)),
        (np.int32(5), Literal(5, Type.INTEGER)),
        (np.float64(2.5), Literal(2.5, Type.DOUBLE)),
        (np.bool_(True), Literal(True, Type.BOOLEAN)),
        (np.str_("x"), Literal("x", Type.STRING)),
        (np.datetime64("1970-01-01T00:00:01", "ns"), Literal(1_000_000, Type.TIMESTAMP)),
        (np.timedelta64(3, "ns") * 1000, Literal(3, Type.INTEGER)),
        (pd.Timestamp("1970-01-01", tz=UTC), Literal(0, Type.TIMESTAMP)),
    ],
)
def test_values(given, expected):
    found = condition(":p = :p", p=given).args[0]
    assert found == expected
    assert type(found.value) is type(expected.value)
    assert found.span.text == ":p"


@pytest.mark.parametrize("given", [None, pd.NaT, np.datetime64("NaT")])
def test_missing_values_are_null(given):
    assert condition("Name = :p", p=given).args[1] == Literal(None, Type.STRING)


def test_a_timedelta_is_ticks_of_the_stream():
    assert condition("DUR < :p", "Seconds", p=timedelta(minutes=2)).args[1] == Literal(120, Type.INTEGER)
    assert condition("seen - seen < :p", "Seconds", p=timedelta(seconds=2)).args[1] == Literal(2_000_000, Type.INTEGER)
    assert condition("DUR > :p", p=timedelta(microseconds=-5)).args[1] == Literal(-5, Type.INTEGER)
    assert mistake("FROM FILTER {DUR < :p} (Ticks)", p=timedelta(minutes=2)).code == "K210"


def test_a_string_can_be_a_time():
    assert condition("ts > :p", p="1970-01-01").args[1] == Literal(0, Type.TIMESTAMP)


def test_a_parameter_without_a_value_is_reported_once():
    finding = mistake("FROM FILTER {Price > :low AND Volume > :low} (Stock)")
    assert (finding.code, finding.span.text, finding.span.start) == ("K207", ":low", 21)


@pytest.mark.parametrize(
    "given", [2**63, Decimal("1234567890123456789"), Decimal("NaN"), Decimal("1e-40"), [1], object(), np.array([1, 2]), b"x", 1j]
)
def test_values_of_no_type_are_refused(given):
    finding = mistake("FROM FILTER {Price > :p} (Stock)", p=given)
    assert (finding.code, finding.span.text) == ("K207", ":p")


def test_parameters_the_query_does_not_have_are_refused():
    findings = mistakes("FROM FILTER {Price > :low} (Stock)", params={"lo": 1})
    assert [(f.code, f.message) for f in findings] == [
        ("K207", "the parameter `:low` has no value"),
        ("K207", "the query has no parameter `:lo`"),
    ]
    assert findings[0].help[0] == "did you mean `lo`?"
    assert mistake("FROM Stock", v=1).help == ("it has none",)


@pytest.mark.parametrize("given", [[1, 2], (2, 1, 1), {1, 2}, frozenset([2, 1]), np.array([2, 1]), pa.array([1, 2]), pd.Series([1, 2])])
def test_a_list_is_a_set_of_values_in_one_order(given):
    expected = condition("Volume IN (1, 2)")
    assert condition("Volume IN :p", p=given) == expected
    assert condition("Volume IN (:p)", p=given) == expected
    assert condition("Volume NOT IN :p", p=given).args[0] == expected


def test_lists_are_converted_like_values_of_the_query():
    assert condition("Price IN :p", p=[1, 2.5, None]) == condition("Price IN (2.5, 1, NULL)")
    assert condition("ts IN :p", p=[datetime(1970, 1, 1, tzinfo=UTC)]).args[1] == Literal(0, Type.TIMESTAMP)
    assert condition("ts IN :p", p=["1970-01-01"]).args[1] == Literal(0, Type.TIMESTAMP)
    assert condition("Name IN ('x', :p, :q)", p=["y"], q="z") == condition("Name IN ('x', 'y', 'z')")


def test_nothing_is_in_an_empty_list():
    assert condition("Name IN :p", p=[]) == Literal(False, Type.BOOLEAN)


@pytest.mark.parametrize(
    ("text", "given"),
    [("Name IN :p", "a,b"), ("Name = :p", ["a"]), ("Name IN :p", [b"a"]), ("DUR IN :p", [timedelta(1)]), ("Name IN :p", [[1]])],
)
def test_lists_and_values_are_not_mixed_up(text, given):
    finding = mistake(f"FROM FILTER {{{text}}} (Stock)", p=given)
    assert (finding.code, finding.span.text) == ("K207", ":p")


def test_a_list_with_null_never_excludes():
    rows = [{"t": 1, "n": 1}, {"t": 2, "n": 5}, {"t": 3, "n": None}]
    for text, expected in (("n IN :p", [1]), ("NOT n IN :p", []), ("(n IN :p) IS NULL", [5, None])):
        found = keuka.match(f"FROM FILTER {{{text}}} (S)", rows, time="t", params={"p": [*range(3), None]})
        assert found["n"].to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "stream", "ticks"),
    [
        *[("DUR < :p", "Stock", 600_000_000), ("DUR < :p", "Seconds", 600), (":p >= DUR", "Seconds", 600)],
        *[("seen - seen < :p", "Seconds", 600_000_000), ("DUR BETWEEN 1 s AND :p", "Seconds", 600), ("DUR < 1 s + :p", "Seconds", 600)],
        *[("seen + :p > seen", "Seconds", 600_000_000), ("seen > seen - :p", "Seconds", 600_000_000)],
    ],
)
def test_a_text_is_a_duration_where_one_is_wanted(text, stream, ticks):
    for given in ("10 min", "10m", " 10.0 MIN "):
        assert Literal(ticks, Type.INTEGER) in list(walk(condition(text, stream, p=given)))


def test_a_text_stays_text_beside_texts():
    assert condition("Name = :p", p="10 min").args[1] == Literal("10 min", Type.STRING)
    assert condition("concat(Name, :p) = Name", p="10 min").args[0].args[1] == Literal("10 min", Type.STRING)
    assert mistake("FROM FILTER {DUR < :p} (Stock)", p="10 parsecs").code == "K205"
    assert mistake("FROM FILTER {DUR < :p} (Ticks)", p="10 min").code == "K210"
    assert mistake("FROM FILTER {ts < :p} (Stock)", p="10 min").code == "K205"


def test_sums_of_durations_have_the_clock_of_what_they_are_compared_with():
    found = condition("seen - seen <= 1 min + 1 us", "Seconds").args[1]
    assert found.args == (Literal(60_000_000, Type.INTEGER), Literal(1, Type.INTEGER))
    assert show(found) == "1 min + 1 us"
    assert condition("DUR <= 1 h - 1 m", "Seconds").args[1].args == (Literal(3_600, Type.INTEGER), Literal(60, Type.INTEGER))
