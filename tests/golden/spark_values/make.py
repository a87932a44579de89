"""Writes golden.jsonl: what Spark SQL says our expressions are worth. One expression a line; a row is its arguments, then its value.

Run by hand, with pyspark 4.3 and Java 17 in an environment of its own (neither is needed to run the tests):

    python tests/golden/spark_values/make.py

Left out, because there Keuka departs from Spark on purpose: integer overflow (Spark raises, and so do we, but for the row
as a whole), floor and ceil of NaN and of doubles outside 64 bits (Spark wraps or saturates), a backslash in LIKE before an
ordinary character (Spark raises). Division by zero is NULL here, so those rows ask Spark for `try_divide` and `try_mod`.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

NAN, INF = math.nan, math.inf
LARGEST = 2**63 - 1

# A column's type follows from its name.
TYPES = {
    "i": "bigint",
    "j": "bigint",
    "k": "bigint",
    "x": "double",
    "y": "double",
    "s": "string",
    "t": "string",
    "p": "boolean",
    "q": "boolean",
}
NAMES = {"bigint": "integer", "int": "integer", "double": "double", "string": "string", "boolean": "boolean"}

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")

# (columns, rows, expressions): every expression on every row. An expression may be a pair: ours, and what Spark is asked.
Case = tuple[str, list[tuple[Any, ...]], list[str | tuple[str, str]]]

CASES: list[Case] = [
    (
        "i j",
        [(7, 2), (-7, 2), (7, -2), (5, None), (None, None), (LARGEST - 1, 1), (-LARGEST, -1)],
        ["i + j", "i - j", "i * j", "i / j", "i % j", *[f"i {c} j" for c in COMPARISONS]],
    ),
    (
        "x y",
        [(1.5, 0.25), (-7.5, 2.0), (NAN, NAN), (NAN, INF), (-INF, NAN), (INF, -INF), (-0.0, 0.5), (None, NAN), (1e308, 1e-308)],
        ["x + y", "x - y", "x * y", "x / y", "x % y", *[f"x {c} y" for c in COMPARISONS]],
    ),
    ("x y", [(0.0, -0.0), (-0.0, 0.0)], [f"x {c} y" for c in COMPARISONS]),
    (
        "i x",
        [(3, 0.5), (LARGEST, 9.2e18), (2**53 + 1, 2.0**53), (None, 1.0), (1, NAN)],
        ["i + x", "i * x", "i / x", "x % i", "i = x", "i < x"],
    ),
    ("i j", [(1, 0), (0, 0), (None, 0)], [("i / j", "try_divide(i, j)"), ("i % j", "try_mod(i, j)")]),
    ("x y", [(1.0, 0.0), (1.0, -0.0), (0.0, 0.0), (NAN, 0.0), (INF, 0.0)], [("x / y", "try_divide(x, y)"), ("x % y", "try_mod(x, y)")]),
    (
        "p q",
        list(itertools.product([True, False, None], repeat=2)),
        ["p AND q", "p OR q", "p = q", "NOT p AND q", "NOT (p OR q)", "p OR q AND NOT q"],
    ),
    ("p", [(True,), (False,), (None,)], ["NOT p", "p IS NULL", "p IS NOT NULL", "p = TRUE", "p <> FALSE", "NULL AND p", "NULL OR p"]),
    (
        "s t",
        [("a", "B"), ("", "a"), ("é", "z"), ("\U0001f600", "\uffee"), ("a", "a "), ("a", None), ("ab", "abc")],
        [f"s {c} t" for c in ("=", "<>", "<", ">=")],
    ),
    (
        "s",
        [("abc",), ("a%c",), ("a_c",), ("",), (None,), ("a\nc",), ("a\U0001f600c",), ("ABC",), ("aéc",)],
        [
            "s LIKE 'abc'",
            "s LIKE 'a%'",
            "s LIKE 'a_c'",
            "s LIKE '%'",
            "s LIKE ''",
            r"s LIKE 'a\%c'",
            r"s LIKE 'a\_c'",
            "s NOT LIKE '%c'",
            "s LIKE '_%_'",
        ],
    ),
    ("s", [("a\\b",), ("ab",), ("a.b",)], [r"s LIKE 'a\\b'", "s LIKE 'a.b'", "s LIKE '%%b'", "s LIKE 'a[b]'"]),
    (
        "s t",
        [("a_c", "a\\_c"), ("abc", "a\\_c"), ("abc", "%b%"), ("a\\c", "a\\\\c"), ("a", None), (None, "%")],
        ["s LIKE t", "s NOT LIKE t"],
    ),
    (
        "i j",
        [(1, 2), (2, None), (3, 3), (None, 1)],
        ["i IN (1, 2)", "i IN (1, NULL)", "i NOT IN (1, NULL)", "i NOT IN (1, 2)", "i IN (j, 7)", "i IN (NULL)"],
    ),
    ("s", [("a",), ("c",), ("",), (None,)], ["s IN ('a', 'b')", "s NOT IN ('a', '')", "s IN ('a', NULL)"]),
    ("x y", [(NAN, NAN), (-0.0, 0.0), (1.0, 2.0)], ["x IN (y)", "x NOT IN (y, 1.0)"]),
    (
        "i j k",
        [(2, 1, 3), (1, 1, 1), (0, 1, 3), (2, 3, 1), (None, 1, 3), (5, None, 3), (2, None, 3)],
        ["i BETWEEN j AND k", "i NOT BETWEEN j AND k", "i BETWEEN 1 AND 2 AND j = 1"],
    ),
    (
        "i j",
        [(5, 1), (0, None), (-5, 2), (None, 3)],
        [
            "CASE WHEN i > 0 THEN 'positive' WHEN i = 0 THEN 'zero' ELSE 'other' END",
            "CASE WHEN i > 0 THEN i WHEN j > 2 THEN j END",
            "CASE WHEN i IS NULL THEN -1 ELSE i / 2 END",
            "CASE WHEN i < 0 AND j = 2 THEN TRUE ELSE FALSE END",
            "CASE WHEN i = NULL THEN 1 ELSE 2 END",
            "CASE i WHEN 5 THEN 'five' WHEN j - 7 THEN 'seven below' WHEN NULL THEN 'never' ELSE 'other' END",
        ],
    ),
    (
        "i j k",
        [(7, 3, 2), (-7, 3, 2), (1, None, 4)],
        ["i - j - k", "i + j * k", "(i + j) * k", "i / j * k", "-i % j", "i * -j", "- (i - j)", "NOT i = j"],
    ),
    ("i", [(5,), (-5,), (0,), (None,), (LARGEST,), (-LARGEST,)], ["abs(i)", "-i", "floor(i)", "ceil(i)", "round(i)", "i IS NULL"]),
    ("i", [(15,), (25,), (-15,), (149,), (None,)], ["round(i, -1)", "round(i, -2)", "round(i, -20)", "round(i, 2)"]),
    (
        "x",
        [(2.5,), (-2.5,), (0.5,), (-0.5,), (1.005,), (-0.4,), (NAN,), (INF,), (None,), (1e300,), (0.1 + 0.2,)],
        ["abs(x)", "-x", "round(x)", "round(x, 1)", "round(x, 2)", "round(x, -1)", "x IS NULL", "x IS NOT NULL"],
    ),
    (
        "x",
        [(2.675,), (1234567.891,), (5e-324,), (123456789012345680.0,), (0.15,), (0.25,), (0.35,)],
        ["round(x, 2)", "round(x, 1)", "round(x, -3)", "round(x, 300)"],
    ),
    ("x", [(2.5,), (-2.5,), (-0.4,), (-0.0,), (9.2e18,), (None,)], ["floor(x)", "ceil(x)"]),
    (
        "i j k",
        [(3, 1, 2), (None, 2, 1), (None, None, None), (LARGEST, -LARGEST, 0)],
        ["least(i, j, k)", "greatest(i, j, k)", "coalesce(i, j, k)", "coalesce(i, j, 0)"],
    ),
    ("x y", [(1.0, NAN), (NAN, None), (-INF, 0.0), (None, None)], ["least(x, y)", "greatest(x, y)", "coalesce(x, y, 1.5)"]),
    ("i x", [(2, 1.5), (None, 1.5), (2, NAN)], ["least(i, x)", "greatest(i, x)", "coalesce(i, x)"]),
    ("s t", [("b", "a"), ("", None), ("é", "z"), (None, None)], ["least(s, t)", "greatest(s, t)", "coalesce(s, t, 'none')"]),
    ("p q", [(True, False), (None, True)], ["least(p, q)", "greatest(p, q)", "coalesce(p, q)"]),
    (
        "s",
        [("Straße",), ("ÀÉÎ",), ("",), (None,), ("ΟΔΟΣ",), ("\U0001f600e\u0301",), ("İI",), ("abc DEF 12",)],
        ["lower(s)", "upper(s)", "length(s)"],
    ),
    (
        "s i j",
        [
            *[("abcdef", 2, 3), ("abcdef", 0, 2), ("abcdef", 1, 0), ("abcdef", -2, 5), ("abcdef", -9, 5), ("abcdef", 9, 1)],
            *[("abcdef", 2, -1), ("a\U0001f600c", 2, 1), ("", 1, 1), ("abc", None, 1), (None, 1, 1), ("abc", -3, 2)],
        ],
        [("substring(s, i, j)", "substring(s, int(i), int(j))"), ("substring(s, i)", "substring(s, int(i))")],
    ),
    (
        "s t",
        [("ab", "cd"), ("", "é"), ("ab", None), (None, None)],
        ["concat(s, t)", "concat(s, '-', t)", "concat(s)", "length(concat(s, t))"],
    ),
]


def main() -> None:
    spark = SparkSession.builder.master("local[1]").appName("golden values").config("spark.ui.enabled", "false").getOrCreate()
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    path = Path(__file__).with_name("golden.jsonl")
    with path.open("w", encoding="utf-8") as out:
        for case in CASES:
            for line in lines(spark, case):
                out.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    spark.stop()


def lines(spark: SparkSession, case: Case) -> Iterator[dict[str, Any]]:
    columns, rows, expressions = case
    names = columns.split()
    schema = ", ".join([f"{n} {TYPES[n]}" for n in names])
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    for expression in expressions:
        ours, theirs = expression if isinstance(expression, tuple) else (expression, as_spark(expression))
        kind, values = ask(frame, theirs)
        yield {
            "expression": ours,
            "arguments": {n: NAMES[TYPES[n]] for n in names},
            "result": kind,
            "rows": [[encoded(v) for v in (*row, value)] for row, value in zip(rows, values, strict=True)],
        }


def as_spark(expression: str) -> str:
    """Our text in Spark's dialect: string literals without escapes, numbers with a point are doubles."""
    raw = re.sub(r"'([^']*)'", r"r'\1'", expression)
    return re.sub(r"\b(\d+\.\d+)\b", r"\1D", raw)


def ask(frame: DataFrame, expression: str) -> tuple[str, list[Any]]:
    result = frame.selectExpr(f"{expression} AS r")
    return NAMES[result.schema["r"].dataType.simpleString()], [row["r"] for row in result.collect()]


def encoded(value: Any) -> Any:
    """JSON has no NaN and no infinities; they become strings, which the type beside them tells from text."""
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    main()
