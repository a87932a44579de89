"""Decimals: exact where they are compared, added and subtracted, doubles in all other arithmetic (docs/semantics.md, 1)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import keuka

D = Decimal
PRICES = pa.table(
    {
        "at": [1, 2, 3, 4],
        "p": pa.array([D("0.10"), D("0.30"), None, D("-7.25")], pa.decimal128(10, 2)),
        "q": pa.array([D("0.1000"), D("0.3001"), D("1.0000"), D("-7.2500")], pa.decimal128(38, 4)),
        "n": [0, 1, 2, -7],
        "x": [0.1, 0.3, 1.0, -7.25],
    }
)


def values(expression: str, **params: Any) -> list[Any]:
    return keuka.match(f"SELECT {expression} AS v FROM S", PRICES, time="at", params=params)["v"].to_pylist()


def type_of(expression: str) -> str:
    return str(keuka.match(f"SELECT {expression} AS v FROM S", PRICES, time="at")["v"].type)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("p = 0.1", [True, False, None, False]),
        ("p = 0.10", [True, False, None, False]),
        ("p = 0.1000000000000000000001", [True, False, None, False]),  # more digits than a decimal has: compared as doubles
        ("p = 0.1001", [False, False, None, False]),
        ("p = q", [True, False, None, True]),
        ("p < q", [False, True, None, False]),
        ("p >= n", [True, False, None, False]),
        ("p = x", [True, True, None, True]),
        ("p < 1e30", [True, True, None, True]),
        ("p < 1e-9999999999223372036854775808", [False, False, None, True]),  # an exponent that Python has no decimal for
        ("p > -9223372036854775807", [True, True, None, True]),
        ("p IN (0.1, -7.25)", [True, False, None, True]),
        ("p IN (0.1001, 0.3, q)", [True, True, None, True]),
        ("p NOT IN (1, NULL)", [None, None, None, None]),
        ("n IN (p, q)", [False, False, None, False]),
        ("p BETWEEN 0.1 AND 0.3", [True, True, None, False]),
        ("p BETWEEN q AND x", [True, False, None, True]),
        ("p IS NULL", [False, False, True, False]),
        ("CASE p WHEN 0.1 THEN 1 WHEN -7.25 THEN 2 END = 2", [False, None, None, True]),
    ],
)
def test_comparisons_are_exact(condition: str, expected: list[Any]):
    assert values(condition) == expected


@pytest.mark.parametrize(
    ("expression", "type", "expected"),
    [
        ("p + q", "decimal128(18, 4)", [D("0.2000"), D("0.6001"), None, D("-14.5000")]),
        ("p - n", "decimal128(18, 2)", [D("0.10"), D("-0.70"), None, D("-0.25")]),
        ("1 - p", "decimal128(18, 2)", [D("0.90"), D("0.70"), None, D("8.25")]),
        ("p + 0.2", "decimal128(18, 2)", [D("0.30"), D("0.50"), None, D("-7.05")]),
        ("p + 0.125", "decimal128(18, 3)", [D("0.225"), D("0.425"), None, D("-7.125")]),
        ("-p", "decimal128(18, 2)", [D("-0.10"), D("-0.30"), None, D("7.25")]),
        ("abs(p)", "decimal128(18, 2)", [D("0.10"), D("0.30"), None, D("7.25")]),
        ("coalesce(p, 0)", "decimal128(18, 2)", [D("0.10"), D("0.30"), D("0.00"), D("-7.25")]),
        ("least(p, q, 0.2)", "decimal128(18, 4)", [D("0.1000"), D("0.2000"), D("0.2000"), D("-7.2500")]),
        ("CASE WHEN n > 0 THEN p ELSE n END", "decimal128(18, 2)", [D("0.00"), D("0.30"), None, D("-7.00")]),
        ("p", "decimal128(18, 2)", [D("0.10"), D("0.30"), None, D("-7.25")]),
        ("q", "decimal128(18, 4)", [D("0.1000"), D("0.3001"), D("1.0000"), D("-7.2500")]),
        ("p * 2", "double", [0.2, 0.6, None, -14.5]),
        ("p / 2", "double", [0.05, 0.15, None, -3.625]),
        ("p % 2", "double", [0.1, 0.3, None, -1.25]),
        ("p + x", "double", [0.2, 0.6, None, -14.5]),
        ("round(p, 1)", "double", [0.1, 0.3, None, -7.3]),
        ("floor(p)", "int64", [0, 0, None, -8]),
        ("cast(p AS BIGINT)", "int64", [0, 0, None, -7]),
        ("cast(p AS STRING)", "string", ["0.10", "0.30", None, "-7.25"]),
        ("cast(p AS BOOLEAN)", "bool", [True, True, None, True]),
        ("cast(p AS DECIMAL(10, 1))", "decimal128(18, 1)", [D("0.1"), D("0.3"), None, D("-7.3")]),
        ("cast(p AS DECIMAL(4, 4))", "decimal128(18, 4)", [D("0.1000"), D("0.3000"), None, None]),
        ("cast(x AS DECIMAL(3, 2)) + p", "decimal128(18, 2)", [D("0.20"), D("0.60"), None, D("-14.50")]),
        ("cast(n AS DECIMAL(2, 1))", "decimal128(18, 1)", [D("0.0"), D("1.0"), D("2.0"), D("-7.0")]),
        (
            "cast(concat(cast(q AS STRING), '5') AS DECIMAL(5, 4))",
            "decimal128(18, 4)",
            [D("0.1001"), D("0.3002"), D("1.0001"), D("-7.2501")],
        ),
        ("cast(n > 0 AS DECIMAL)", "decimal128(18, 0)", [D(0), D(1), D(1), D(0)]),
        ("cast(NULL AS DECIMAL(5, 2))", "decimal128(18, 2)", [None] * 4),
        ("cast(0.125 AS DECIMAL(5, 2))", "decimal128(18, 2)", [D("0.13")] * 4),
    ],
)
def test_values_and_their_types(expression: str, type: str, expected: list[Any]):
    assert (type_of(expression), values(expression)) == (type, expected)


def test_decimals_of_many_digits_behind_the_point_can_be_cast():
    many = pa.table({"at": [1, 2], "p": pa.array([D("5e-21"), D("-0.99999999999999999e-20")], pa.decimal128(38, 38))})
    query = "SELECT cast(p AS STRING) AS s, cast(p AS BIGINT) AS n, cast(p AS DECIMAL(18, 18)) AS d FROM S"
    first, second = keuka.match(query, many, time="at").to_pylist()
    assert (first["s"], first["n"], first["d"]) == ("0.00000000000000000000500000000000000000", 0, D(0))
    assert second["s"] == "-0.00000000000000000000999999999999999990"


def test_a_comparison_with_a_far_larger_number_does_not_overflow():
    small = pa.table({"at": [1, 2], "p": pa.array([D("0.5"), D("-0.5")], pa.decimal128(38, 18)), "n": [2**63 - 1, -(2**63)]})
    found = keuka.match("SELECT p < n AS less, p = n AS same FROM S", small, time="at").to_pylist()
    assert [(row["less"], row["same"]) for row in found] == [(True, False), (False, False)]
    large = pa.table({"at": [1, 2], "p": pa.array([D(10**17), D(-(10**17))], pa.decimal128(18, 0)), "n": [10**17, 1]})
    query = "SELECT p = n AS same, p > 0.000000000000000001 AS more, p IN (0.125, 900000000000000000) AS one FROM S"
    found = keuka.match(query, large, time="at").to_pylist()
    assert [(row["same"], row["more"], row["one"]) for row in found] == [(True, True, False), (False, False, False)]


def test_parameters_are_decimals_too():
    assert values("p = :v", v=D("0.1")) == [True, False, None, False]
    assert values("n + :v", v=D("0.25")) == [D("0.25"), D("1.25"), D("2.25"), D("-6.75")]
    assert values("x > :v", v=D("0.25")) == [False, True, True, False]


def test_sums_of_a_run_stay_exact():
    query = "SELECT total FROM (SELECT *, p AS total FROM S) FOLD {TRUE, TRUE, $.total + $2.p AS total} S"
    table = pa.table({"at": [1, 2, 3], "p": pa.array([D("0.1")] * 3, pa.decimal128(4, 1))})
    found = keuka.match(query, table, time="at")
    assert found["total"].type == pa.decimal128(18, 1)
    assert sorted(found["total"].to_pylist()) == [D("0.2"), D("0.2"), D("0.3")]


def test_a_fold_keeps_the_digits_behind_the_point():
    query = "FROM (SELECT *, p AS total FROM S) FOLD {TRUE, TRUE, $.total + $2.q AS total} S"
    with pytest.raises(keuka.QueryError, match="`total` has 2 digits behind the point and cannot be assigned 4"):
        keuka.match(query, PRICES, time="at")


@pytest.mark.parametrize("expression", ["p + 9999999999999999.99", "coalesce(p, 99999999999999999)", "-9999999999999999.99 - q"])
def test_a_decimal_of_more_digits_is_an_error_of_the_row(expression: str):
    with pytest.raises(keuka.DataError, match="does not fit into the 18 digits of a decimal") as raised:
        keuka.match(f"SELECT {expression} AS v FROM S", PRICES, time="at")
    assert raised.value.code == "K507"


def test_the_largest_decimal_fits():
    assert values("p + 9999999999999999.69")[1] == D("9999999999999999.99")


@pytest.mark.parametrize("scale", [2, 3])
def test_keys_of_one_or_two_scales_join(scale: int):
    other = pa.table({"at": [5, 6], "k": pa.array([D("0.3"), D("0.1")], pa.decimal128(20, scale))})
    query = "SELECT p, k FROM S NEXT {$2.k = $1.p} T"
    found = keuka.match(query, {"S": PRICES, "T": other}, time={"S": "at", "T": "at"}).to_pylist()
    assert [(row["p"], row["k"]) for row in found] == [(D("0.30"), D("0.3")), (D("0.10"), D("0.1"))]
    both = keuka.sase("SEQ(S a, T b) WHERE a.p = b.k RETURN a.p AS p, b.k AS k")
    assert keuka.match(both, {"S": PRICES, "T": other}, time={"S": "at", "T": "at"}).num_rows == 2
    assert keuka.match(keuka.sase("SEQ(S a, S b) WHERE [q] WITHIN 9"), PRICES, time="at").num_rows == 0


def test_a_key_of_decimals_divides_the_work():
    query = keuka.cel("SELECT at, q FROM S NEXT {$2.q = $1.q} S")
    many = pa.concat_tables([PRICES, PRICES.set_column(0, "at", pa.array([5, 6, 7, 8]))])
    assert "partitioned by q" in query.explain(many, time="at")
    expected = sorted(keuka.match(query, many, time="at").to_pylist(), key=str)
    assert len(expected) == 4
    assert sorted(keuka.match(query, many, time="at", threads=2).to_pylist(), key=str) == expected


@pytest.mark.parametrize("encode", [pa.Array.dictionary_encode, lambda array: array.cast(pa.decimal256(50, 2))])
def test_other_encodings_are_the_same_decimals(encode: Any):
    table = PRICES.set_column(1, "p", encode(PRICES["p"].combine_chunks()))
    assert keuka.match("SELECT at FROM FILTER {p = 0.3} S", table, time="at")["at"].to_pylist() == [2]


def test_frames_of_pandas_and_polars():
    rows = {"at": [1, 2], "p": [D("1.50"), None]}
    found = keuka.match("SELECT p + 1 AS v FROM S", pd.DataFrame(rows), time="at")
    assert found["v"].tolist() == [D("2.50"), None]
    found = keuka.match("SELECT p + 1 AS v FROM S", pl.DataFrame(rows, schema_overrides={"p": pl.Decimal(12, 2)}), time="at")
    assert found["v"].to_list() == [D("2.50"), None]


def test_ids_count_decimals_by_their_text():
    """A column of another precision, or one that was only passed on once, gives the same ids."""
    query = "SELECT p FROM S"
    wide = PRICES.set_column(1, "p", PRICES["p"].cast(pa.decimal128(30, 2)))
    ids = [keuka.match(query, table, time="at", contributors=True)["_id"].to_pylist() for table in (PRICES, wide)]
    assert ids[0] == ids[1]


def test_a_union_needs_one_scale():
    with pytest.raises(keuka.QueryError, match=r"`v` is a decimal128\(18, 2\) on the first side and a decimal128\(18, 4\) here"):
        keuka.match("FROM (SELECT p AS v FROM S) UNION (SELECT q AS v FROM S)", PRICES, time="at")
