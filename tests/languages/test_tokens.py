"""The smallest pieces of the text: names, numbers, strings, durations, comments, keywords (docs/semantics.md, 1)."""

from __future__ import annotations

import pytest

from keuka.expressions import Literal
from keuka.schema import Type

from .cel import condition, mistake, names, operator, outline, value


def constant(text: str) -> tuple[object, Type]:
    found = value(text)
    assert isinstance(found, Literal)
    return found.value, found.type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", (0, Type.INTEGER)),
        ("007", (7, Type.INTEGER)),
        ("-5", (-5, Type.INTEGER)),
        ("9223372036854775807", (2**63 - 1, Type.INTEGER)),
        ("-9223372036854775808", (-(2**63), Type.INTEGER)),
        ("1.5", (1.5, Type.DOUBLE)),
        ("1.", (1.0, Type.DOUBLE)),
        (".5", (0.5, Type.DOUBLE)),
        ("-.5e-3", (-0.0005, Type.DOUBLE)),
        ("2E3", (2000.0, Type.DOUBLE)),
        ("TRUE", (True, Type.BOOLEAN)),
        ("false", (False, Type.BOOLEAN)),
        ("'it''s'", ("it's", Type.STRING)),
        ('"say ""hi"" -- now"', ('say "hi" -- now', Type.STRING)),
        ("''", ("", Type.STRING)),
        ("'/* no comment */'", ("/* no comment */", Type.STRING)),
    ],
)
def test_literals(text, expected):
    assert constant(text) == expected


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "9" * 5000, "1e999", "-1e999"])
def test_numbers_that_do_not_fit_are_refused(text):
    assert mistake(f"SELECT {text} AS x FROM Stock").code == "K102"


@pytest.mark.parametrize(
    "text", ["select Name from Stock", "Select Name From Stock", "SELECT\n\tName\r\nFROM Stock", "SELECT`Name`FROM`Stock`"]
)
def test_keywords_in_any_case_and_any_blanks(text):
    assert outline(operator(text)) == "map Name\n  Stock"


def test_names_are_case_sensitive():
    finding = mistake("SELECT name FROM Stock")
    assert finding.code == "K201"
    assert finding.help[0] == "names are case-sensitive; did you mean `Name`?"


def test_keywords_are_whole_words():
    text = "SELECT Name AS fromage, Price AS ordinal, Volume AS NOTE, ts AS AS_ FROM Stock"
    assert names(text) == "fromage ordinal NOTE AS_"
    assert names(f"SELECT fromage, ordinal, NOTE, AS_ FROM ({text})") == "fromage ordinal NOTE AS_"


def test_names_in_backticks_may_be_anything():
    assert names("SELECT Name AS `select`, Price AS `a b`, Volume AS `it``s` FROM Stock") == "select a b it`s"
    assert names("SELECT `a b` FROM (SELECT Name AS `a b` FROM Stock)") == "a b"


def test_stream_names_may_contain_dashes():
    assert outline(operator("FROM SHELF-READING NEXT {TRUE} SHELF-READING")) == "next TRUE\n  SHELF-READING\n  SHELF-READING"
    assert outline(operator("FROM Stock PUBLISH next-stock; FROM next-stock")) == "published next-stock\n  Stock"


def test_a_dash_in_an_expression_subtracts():
    assert outline(operator("SELECT Price-Volume AS d FROM Stock")) == "map d = Price - Volume\n  Stock"


def test_comments_are_blanks():
    text = "/* first /* - */ SELECT Name -- the name's\n FROM -- 'x\n Stock/**/--"
    assert outline(operator(text)) == "map Name\n  Stock"


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1 us", 1),
        ("2 ms", 2_000),
        ("2 msec", 2_000),
        ("3 s", 3_000_000),
        ("3SEC", 3_000_000),
        ("10 min", 600_000_000),
        ("1 minute", 60_000_000),
        ("1.5 hours", 5_400_000_000),
        ("0.5 ms", 500),
        ("1e3 us", 1_000),
        ("2 Days", 172_800_000_000),
        ("1 week", 604_800_000_000),
        ("0 weeks", 0),
        ("42", 42),
    ],
)
def test_durations_are_ticks(text, microseconds):
    comparison = condition(f"DUR >= {text}")
    assert comparison.args[1] == Literal(microseconds, Type.INTEGER)


def test_a_duration_follows_the_unit_of_an_integer_clock():
    assert condition("DUR < 10 min", "Seconds").args[1] == Literal(600, Type.INTEGER)


@pytest.mark.parametrize(
    ("text", "stream", "message"),
    [
        ("10 min", "Ticks", "the time column of this stream has no unit"),
        ("1.5 s", "Seconds", "this duration is not a whole number of ticks"),
        ("0.5 us", "Stock", "this duration is not a whole number of ticks"),
        ("99999999999 weeks", "Stock", "this duration does not fit into 64 bits of ticks"),
        ("1e999999999 s", "Stock", "this duration does not fit into 64 bits of ticks"),
        ("1e-999999999 s", "Stock", "this duration does not fit into 64 bits of ticks"),
    ],
)
def test_durations_that_are_no_ticks_are_refused(text, stream, message):
    finding = mistake(f"FROM FILTER {{DUR < {text}}} ({stream})")
    assert (finding.code, finding.message, finding.span.text) == ("K210", message, text)


def test_units_can_be_names():
    assert names("SELECT s, min FROM (SELECT Price AS s, Volume AS min FROM Stock)") == "s min"


@pytest.mark.parametrize("text", ["00000" * 1000 + "1", "-" + "00000" * 1000 + "1"])
def test_any_number_of_zeros_may_stand_before_an_integer(text):
    assert constant(text) == (-1 if text.startswith("-") else 1, Type.INTEGER)


@pytest.mark.parametrize("unit", ["ſ", "mſ", "mın", "mİn", "wee\u212as", "dayſ", "²", "٣"])
def test_letters_that_only_resemble_ascii_are_no_units(unit):
    assert mistake(f"SELECT * FROM FILTER {{DUR < 3 {unit}}} Stock").code in ("K101", "K102")


@pytest.mark.parametrize("text", ["ſELECT Name FROM Stock", "SELECT Name FROM Stock UNıON Stock", "SELECT Name LİKE 'a' AS x FROM Stock"])
def test_letters_that_only_resemble_ascii_make_no_keywords(text):
    assert mistake(text).code == "K101"


def test_a_word_that_resembles_a_keyword_is_a_name():
    assert names("SELECT Name AS FALſE FROM Stock") == "FALſE"
