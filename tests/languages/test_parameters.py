"""Parameters `:name` and the Python values they take."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from keuka.expressions import Literal
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
        (date(1970, 1, 2), Literal(86_400_000_000, Type.TIMESTAMP)),
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


@pytest.mark.parametrize("given", [2**63, Decimal("1.5"), [1], object(), np.array([1, 2]), b"x", 1j])
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
