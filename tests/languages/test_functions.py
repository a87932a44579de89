"""Functions: their names, how many arguments they take, the types they give."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import keuka
from keuka.algebra.conversions import CASTS, offsets_of
from keuka.algebra.values import evaluate
from keuka.automaton import assembler
from keuka.diagnostics import SourceText
from keuka.expressions import OPERATIONS, SQL_NAMES, Call, Literal, show
from keuka.languages.cel.lower import LANGUAGE
from keuka.languages.cel.syntax import parse
from keuka.languages.functions import FUNCTIONS
from keuka.schema import StreamType, TimeAxis, Type, schema_of

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
        ("trim(Name)", "trim(Name)", "string"),
        ("regexp_like(Name, '^I')", "regexp_like(Name, '^I')", "boolean"),
        ("sqrt(Volume)", "sqrt(Volume)", "double"),
        ("LN(Price)", "ln(Price)", "double"),
        ("exp(1)", "exp(1.0)", "double"),
        ("power(Price, Volume)", "pow(Price, Volume)", "double"),
        ("year(ts)", "year(ts)", "integer"),
        ("dayofweek('2024-01-01')", "dayofweek(1704067200000000)", "integer"),
        ("date_trunc('MM', ts)", "date_trunc('month', ts)", "timestamp"),
        ("cast(Name AS BIGINT)", "cast(Name AS BIGINT)", "integer"),
        ("try_cast(Name AS double)", "cast(Name AS DOUBLE)", "double"),
        ("cast(Price AS int)", "cast(cast(Price AS BIGINT) AS INT)", "integer"),
        ("cast(Volume AS BIGINT)", "Volume", "integer"),
        ("CAST (NULL AS STRING)", "NULL", "string"),
        ("cast(ts AS STRING)", "cast(ts AS STRING)", "string"),
        ("cast(Name AS date)", "cast(Name AS DATE)", "date"),
        ("cast(ts AS DATE)", "cast(ts AS DATE)", "date"),
        ("cast(cast(ts AS DATE) AS STRING)", "cast(cast(ts AS DATE) AS STRING)", "string"),
        ("cast(Volume AS DECIMAL)", "cast(Volume AS DECIMAL(10, 0))", "decimal"),
        ("cast(Price AS Numeric(5))", "cast(Price AS DECIMAL(5, 0))", "decimal"),
        ("cast(Name AS dec( 5 , 2 ))", "cast(Name AS DECIMAL(5, 2))", "decimal"),
        ("cast(cast(Name AS DECIMAL(18, 2)) AS DECIMAL(18, 2))", "cast(Name AS DECIMAL(18, 2))", "decimal"),
        ("cast(NULL AS DECIMAL(5, 2))", "cast(NULL AS DECIMAL(5, 2))", "decimal"),
        ("cast(1.25 AS DECIMAL(5, 1))", "cast(1.25 AS DECIMAL(5, 1))", "decimal"),
        ("cast(cast(Name AS DECIMAL) AS INT)", "cast(cast(cast(Name AS DECIMAL(10, 0)) AS BIGINT) AS INT)", "integer"),
    ],
)
def test_functions(text, meaning, type):
    found = value(text)
    assert (show(found), found.type.value) == (meaning, type)


def test_every_function_is_an_operation():
    assert set(FUNCTIONS) <= set(OPERATIONS)


def test_every_cast_can_be_compiled():
    """Doubles, and truth values of numbers, are made by instructions that exist for other purposes."""
    composed = {(a, b) for a, b in CASTS if b in (Type.DOUBLE, Type.BOOLEAN) and a is not Type.STRING} | {(Type.DOUBLE, Type.TIMESTAMP)}
    assert set(assembler._CASTS) | composed == set(CASTS)
    assert {target for _, target in CASTS} <= set(SQL_NAMES)


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
        ("trim(1)", "1"),
        ("sqrt(Name)", "Name"),
        ("pow(2, 'x')", "'x'"),
        ("hour(Volume)", "Volume"),
        ("year('soon')", "'soon'"),
        ("date_trunc('hours', ts)", "'hours'"),
        ("date_trunc(ts, 'hour')", "'hour'"),
        ("regexp_like(Name, Name)", "Name"),
        ("regexp_like(Volume, '1')", "Volume"),
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


@pytest.mark.parametrize(("name", "word"), [("min", "least"), ("count", "FOLD"), ("IF", "CASE"), ("nvl", "coalesce"), ("convert", "AS")])
def test_functions_of_sql_are_explained(name, word):
    assert word in mistake(f"SELECT {name}(Price) AS x FROM Stock").help[0]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("cast(Price AS STRING)", "Price"),
        ("cast(Name AS NUMBER)", "NUMBER"),
        ("cast(ts AS BOOLEAN)", "ts"),
        ("cast(ts AS DECIMAL(18, 6))", "ts"),
        ("cast(Volume AS DATE)", "Volume"),
        ("cast(Price AS DATE)", "Price"),
        ("cast(Price > 1 AS DATE)", "Price > 1"),
        *[(f"cast(cast(ts AS DATE) AS {type})", "cast(ts AS DATE)") for type in ("BIGINT", "INT", "DOUBLE", "BOOLEAN", "DECIMAL")],
        *[(f"cast(cast(Price AS DECIMAL) AS {type})", "cast(Price AS DECIMAL)") for type in ("TIMESTAMP", "DATE")],
        ("cast(Name AS DECIMAL(19))", "19"),
        ("cast(Name AS DECIMAL(0, 0))", "0"),
        ("cast(Name AS DECIMAL(99999999999999999999, 2))", "99999999999999999999"),
        ("cast(Name AS DECIMAL(5, 6))", "6"),
        ("cast(Name AS BIGINT(5))", "5"),
    ],
)
def test_casts_that_are_refused(text, at):
    finding = mistake(f"SELECT {text} AS x FROM Stock")
    assert (finding.code, finding.span.text) == ("K231", at)


def test_a_refused_decimal_names_the_digits_that_there_are():
    assert "`DECIMAL(18, 4)`" in mistake("SELECT cast(Price AS DECIMAL(38, 4)) AS x FROM Stock").help[0]


def test_a_word_before_its_parenthesis_is_a_cast_and_a_name_elsewhere():
    rows = [{"t": 1, "cast": "7"}]
    assert keuka.match("SELECT cast, cast(cast AS INT) AS n FROM S", rows, time="t").to_pylist() == [
        {"cast": "7", "n": 7, "_start": 1, "_end": 1}
    ]


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "a**", "[b", "a++", r"\v", "[a&&b]", "[a[b]]", "[[:alpha:]]", "a{2000}"])
def test_patterns_that_are_refused(pattern):
    finding = mistake(f"SELECT regexp_like(Name, '{pattern}') AS x FROM Stock")
    assert (finding.code, finding.span.text) == ("K230", f"'{pattern}'")


@pytest.mark.parametrize("pattern", [r"\[a&b\]", "[a&b]", r"[\[\]]", "a&&b", "^[^^]]$", "(?i)x", r"\Qa\E"])
def test_patterns_that_are_taken(pattern):
    assert value(f"regexp_like(Name, '{pattern}')").type is Type.BOOLEAN


def test_a_pattern_can_be_a_parameter():
    assert show(value("regexp_like(Name, :p)", p="^I")) == "regexp_like(Name, '^I')"


ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "America/Havana", "Australia/Lord_Howe", "+05:30", "UTC", None]


@pytest.mark.parametrize("zone", ZONES)
def test_times_have_the_parts_that_clocks_of_their_zone_showed(zone):
    """Around every change of the clocks in the zone, and far away; the reference evaluator knows zones by Python's data."""
    changes = [since for since, _ in offsets_of(zone)[-1_200::40]] if zone else []
    moments = [c * 1_000_000 + d for c in changes for d in (-1, 0, 1, -1_800_000_000, 1_799_999_999, 5_400_000_000, 86_399_000_000)]
    moments += [0, -(10**15), 10**16, 253_402_300_800_000_000, -(2**63), 2**63 - 1, 4 * 10**17]
    times = pa.array(moments, pa.int64()).cast(pa.timestamp("us", zone))
    texts = [f"{part}(ts)" for part in ("year", "month", "day", "hour", "minute", "second", "dayofweek")]
    texts += [f"date_trunc('{unit}', ts)" for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")]
    texts += ["cast(ts AS STRING)", "cast(ts AS DATE)"]
    table = pa.table({"t": range(len(moments)), "ts": times})
    query = "SELECT " + ", ".join([f"{text} AS r{i}" for i, text in enumerate(texts)]) + " FROM S"
    result = keuka.match(query, table, time="t")
    type_ = StreamType(schema_of(table.schema), TimeAxis(None, pa.int64()))
    ((_, operator),) = LANGUAGE.lower((parse(SourceText("<query>", query)),), {"S": type_}, {}).outputs
    for i, expression in enumerate(operator.items):
        column = result[f"r{i}"]
        if pa.types.is_timestamp(column.type):
            assert column.type.tz == zone
            column = column.cast(pa.int64())
        elif pa.types.is_date(column.type):
            column = column.cast(pa.int32())
        assert column.to_pylist() == [evaluate(expression, ((0, moment),)) for moment in moments], texts[i]


def test_an_hour_that_the_clocks_showed_twice_begins_twice():
    moments = ["2024-10-27 00:30:00+00:00", "2024-10-27 01:30:00+00:00", "2024-03-31 01:10:00+00:00"]
    times = pa.array([datetime.fromisoformat(moment) for moment in moments], pa.timestamp("us", "Europe/Berlin"))
    query = "SELECT hour(ts) AS h, date_trunc('hour', ts) AS hour, date_trunc('day', ts) AS day FROM S"
    rows = keuka.match(query, pa.table({"t": [1, 2, 3], "ts": times}), time="t").to_pylist()
    assert [row["h"] for row in rows] == [2, 2, 3]
    assert [row["hour"].isoformat() for row in rows] == [
        "2024-10-27T02:00:00+02:00",
        "2024-10-27T02:00:00+01:00",
        "2024-03-31T03:00:00+02:00",
    ]
    assert [row["day"].isoformat() for row in rows] == ["2024-10-27T00:00:00+02:00"] * 2 + ["2024-03-31T00:00:00+01:00"]


def test_a_computed_time_keeps_the_zone_for_the_next_query():
    ts = pa.array([datetime(2024, 7, 1, 10, 30, tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin"))
    query = "SELECT hour(u) AS h FROM (SELECT ts + 1 hour AS u FROM S)"
    assert keuka.match(query, pa.table({"ts": ts})).to_pylist()[0]["h"] == 13


def test_patterns_judge_texts_that_are_made_of_two_events():
    rows = [{"t": i, "k": i % 5, "s": f"item {i % 7}"} for i in range(2_000)]
    query = (
        "SELECT a, s FROM FILTER {regexp_like(concat(s, '/', a), '[13]/item [024]$')} ((SELECT s AS a, k, t FROM S) NEXT {$2.k = $1.k} S)"
    )
    found = keuka.match(query, rows, time="t")
    expected = [(f"item {i % 7}", f"item {(i + 5) % 7}") for i in range(1_995) if i % 7 in (0, 2, 4) and (i + 5) % 7 in (1, 3)]
    assert list(zip(found["a"].to_pylist(), found["s"].to_pylist(), strict=True)) == expected
