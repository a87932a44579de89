"""Functions: their names, how many arguments they take, the types they give."""

from __future__ import annotations

import pytest

from keuka.expressions import OPERATIONS, Call, Literal, show
from keuka.languages.functions import FUNCTIONS
from keuka.schema import Type

from .cel import mistake, value


@pytest.mark.parametrize(
    ("text", "meaning", "type"),
    [
        ("abs(Volume)", "abs(Volume)", "integer"),
        ("ABS(Price)", "abs(Price)", "double"),
        ("round(Price)", "round(Price, 0)", "double"),
        ("round(Price, 2)", "round(Price, 2)", "double"),
        ("round(Volume, -2)", "round(Volume, -2)", "integer"),
        ("floor(Price)", "floor(Price)", "integer"),
        ("ceiling(Price)", "ceil(Price)", "integer"),
        ("ceil(Volume)", "Volume", "integer"),
        ("least(Volume, 2.5, NULL)", "least(Volume, 2.5, NULL)", "double"),
        ("greatest(Name, 'x')", "greatest(Name, 'x')", "string"),
        ("greatest(ts, '2024-01-01')", "greatest(ts, 1704067200000000)", "timestamp"),
        ("coalesce(Price)", "coalesce(Price)", "double"),
        ("lower(Name)", "lower(Name)", "string"),
        ("Upper(NULL)", "upper(NULL)", "string"),
        ("length(Name)", "length(Name)", "integer"),
        ("substring(Name, 2, 3)", "substring(Name, 2, 3)", "string"),
        ("substr(Name, -2)", "substring(Name, -2, 2147483647)", "string"),
        ("concat(Name, '-', Name)", "concat(Name, '-', Name)", "string"),
    ],
)
def test_functions(text, meaning, type):
    found = value(text)
    assert (show(found), found.type.value) == (meaning, type)


def test_every_function_is_an_operation():
    assert set(FUNCTIONS) <= set(OPERATIONS)


def test_arguments_share_one_type():
    assert [a.type for a in value("least(Volume, 2.5, NULL)").args] == [Type.DOUBLE] * 3


def test_the_digits_of_round_are_a_constant():
    assert value("round(Price, :digits)", digits=2) == Call("round", (value("Price"), Literal(2, Type.INTEGER)), Type.DOUBLE)
    finding = mistake("SELECT round(Price, Volume) AS x FROM Stock")
    assert (finding.code, finding.span.text) == ("K205", "Volume")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("abs(Name)", "Name"),
        ("round(ts)", "ts"),
        ("round(Price, 1.5)", "1.5"),
        ("floor('x')", "'x'"),
        ("least(Price, Name)", "Name"),
        ("coalesce(Price > 1, 2)", "2"),
        ("lower(Price)", "Price"),
        ("length(1)", "1"),
        ("substring(Name, 'a')", "'a'"),
        ("substring(Name, 1, 2.0)", "2.0"),
        ("concat(Name, 1)", "1"),
    ],
)
def test_arguments_of_a_wrong_type(text, at):
    finding = mistake(f"SELECT {text} AS x FROM Stock")
    assert (finding.code, finding.span.text) == ("K205", at)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abs()", "`abs` takes 1 argument, not 0"),
        ("Abs(1, 2)", "`Abs` takes 1 argument, not 2"),
        ("round(1, 2, 3)", "`round` takes 1 or 2 arguments, not 3"),
        ("least(1)", "`least` takes 2 or more arguments, not 1"),
        ("substr('x')", "`substr` takes 2 or 3 arguments, not 1"),
        ("concat()", "`concat` takes 1 or more arguments, not 0"),
        ("rond(1)", "there is no function `rond`"),
    ],
)
def test_wrong_calls(text, message):
    finding = mistake(f"SELECT {text} AS x FROM Stock")
    assert (finding.code, finding.message) == ("K206", message)


def test_similar_functions_are_offered():
    assert mistake("SELECT rond(1) AS x FROM Stock").help[0] == "did you mean `round`?"


@pytest.mark.parametrize(("name", "word"), [("min", "least"), ("count", "FOLD"), ("IF", "CASE"), ("nvl", "coalesce"), ("cast", "floor")])
def test_functions_of_sql_are_explained(name, word):
    assert word in mistake(f"SELECT {name}(Price) AS x FROM Stock").help[0]
