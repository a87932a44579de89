"""Type rules of operators, literals and NULL (docs/semantics.md, 1)."""

from __future__ import annotations

import pytest

from keuka.expressions import Call, Literal
from keuka.schema import Type

from .cel import condition, mistake, mistakes, operator, value


def typed(text: str, stream: str = "Stock") -> str:
    return value(text, stream).type.value


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("Volume + 1", "integer"),
        ("Volume + 1.0", "double"),
        ("Price * Volume", "double"),
        ("Volume / 2", "double"),
        ("Volume % 2", "integer"),
        ("Price % 2", "double"),
        ("-Price", "double"),
        ("-Volume", "integer"),
        ("NULL + NULL", "integer"),
        ("NULL / 1", "double"),
        ("-NULL", "integer"),
        ("Volume + NULL", "integer"),
        ("ts - ts", "integer"),
        ("ts - 1", "timestamp"),
        ("ts + 10 min", "timestamp"),
        ("10 min + ts", "timestamp"),
        ("Price > Volume", "boolean"),
        ("CASE WHEN Price > 1 THEN 1 ELSE 2.5 END", "double"),
        ("CASE WHEN Price > 1 THEN NULL ELSE 'x' END", "string"),
        ("CASE Volume WHEN 1.5 THEN ts END", "timestamp"),
        ("coalesce(NULL, Volume, 1.5)", "double"),
    ],
)
def test_result_types(text, type):
    assert typed(text) == type


def test_integers_meet_doubles_as_doubles():
    assert condition("Price > Volume").args[1] == Call("to_double", (condition("Volume > 0").args[0],), Type.DOUBLE)
    assert condition("Price > 3").args[1] == Literal(3.0, Type.DOUBLE)
    assert [a.type for a in condition("Volume IN (1, 2.5, NULL)").args] == [Type.DOUBLE] * 4


def test_division_is_always_of_doubles():
    assert [a.type for a in value("7 / Volume").args] == [Type.DOUBLE, Type.DOUBLE]


def test_a_moved_time_has_the_time_first():
    assert [a.type for a in value("5 + ts").args] == [Type.TIMESTAMP, Type.INTEGER]


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("ts > '2024-05-01T09:30:00'", 1_714_555_800_000_000),
        ("ts > '2024-05-01 09:30:00.25+02:00'", 1_714_548_600_250_000),
        ("ts > '2024-05-01'", 1_714_521_600_000_000),
        ("ts > '1969-12-31T23:59:59.999999Z'", -1),
        ("ts IN ('1970-01-01')", 0),
    ],
)
def test_text_beside_a_timestamp_is_a_time(text, microseconds):
    assert condition(text).args[1] == Literal(microseconds, Type.TIMESTAMP)


def test_text_that_is_no_time_is_refused():
    finding = mistake("FROM FILTER {ts > 'yesterday'} (Stock)")
    assert (finding.code, finding.span.text) == ("K205", "'yesterday'")


def test_durations_beside_timestamps_are_microseconds_whatever_the_clock():
    assert value("seen + 1 s", "Seconds").args[1] == Literal(1_000_000, Type.INTEGER)
    assert condition("seen - seen < 1 s", "Seconds").args[1] == Literal(1_000_000, Type.INTEGER)
    assert condition("t - t < 60 s", "Seconds").args[1] == Literal(60, Type.INTEGER)


def test_null_takes_the_type_it_is_needed_in():
    assert condition("Name = NULL").args[1] == Literal(None, Type.STRING)
    assert condition("NULL") == Literal(None, Type.BOOLEAN)
    assert condition("Price > 1 AND NULL").args[1] == Literal(None, Type.BOOLEAN)
    assert [a.type for a in condition("NULL = NULL").args] == [Type.INTEGER, Type.INTEGER]
    case = condition("CASE WHEN Price > 1 THEN NULL END = 'x'").args[0]
    assert (case.type, [a.type for a in case.args]) == (Type.STRING, [Type.BOOLEAN, Type.STRING, Type.STRING])


def test_between_is_two_comparisons():
    both = condition("Price BETWEEN 1 AND Volume")
    assert (both.op, [part.op for part in both.args]) == ("and", ["ge", "le"])
    assert [part.args[1].type for part in both.args] == [Type.DOUBLE, Type.DOUBLE]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Name + 1 = 2", "Name"),
        ("Price > 'x'", "'x'"),
        ("Name = 1", "1"),
        ("Price AND TRUE", "Price"),
        ("NOT Volume", "Volume"),
        ("Volume", "Volume"),
        ("DUR", "DUR"),
        ("Price LIKE 'x'", "Price"),
        ("Name LIKE 3", "3"),
        ("ts > 5", "5"),
        ("ts = Name", "Name"),
        ("ts + ts = ts", "ts"),
        ("ts * 2 = ts", "2"),
        ("1 - ts = 2", "1"),
        ("ts + 1.5 = ts", "1.5"),
        ("ts + 'x' = ts", "'x'"),
        ("-Name = 'x'", "Name"),
        ("Name IN ('a', 2)", "2"),
        ("Volume BETWEEN 1 AND 'z'", "'z'"),
        ("CASE WHEN Volume THEN TRUE END", "Volume"),
        ("CASE WHEN TRUE THEN 1 ELSE 'x' END = 1", "'x'"),
        ("CASE Name WHEN 1 THEN TRUE END", "1"),
        ("TRUE + 1 = 2", "TRUE"),
        ("TRUE = 1", "1"),
    ],
)
def test_wrong_types_are_refused_at_the_wrong_part(text, at):
    finding = mistake(f"FROM FILTER {{{text}}} (Stock)")
    assert (finding.code, finding.span.text) == ("K205", at)
    assert finding.label.startswith("this is ")


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("Price > '50'", "write `50`, without quotes"),
        ("'-1.5' < Price", "write `-1.5`, without quotes"),
        ("Volume + '5' > 7", "write `5`, without quotes"),
        ("DUR <= '10 min'", "write `10 min`, without quotes"),
        ('ts - ts < "2 Hours"', "write `2 Hours`, without quotes"),
        ("Name = 50", "as text it stands in quotes: `'50'`"),
        ("Price = '50 euros'", "text and numbers are not converted into each other"),
        ("Name = Price", "text and numbers are not converted into each other"),
    ],
)
def test_quotes_too_many_or_too_few_are_pointed_out(text, help):
    assert mistake(f"FROM FILTER {{{text}}} (Stock)").help == (help,)


def test_several_wrong_parts_are_several_findings():
    assert len(mistakes("FROM FILTER {Name + 1 = 2 AND Price LIKE 'x' OR NOT Volume} (Stock)")) == 3


def test_predicates_stand_wherever_a_boolean_may():
    found = operator("SELECT Price > 1 AND Name LIKE 'I%' AS both, coalesce(Name IN ('a'), FALSE) AS known FROM Stock")
    assert [a.type for a in found.schema.attributes] == [Type.BOOLEAN, Type.BOOLEAN]
