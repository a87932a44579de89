"""Writes golden.jsonl: what Spark SQL says our expressions are worth. One expression a line; a row is its arguments, then its value.

Run by hand, with pyspark 4.3 and Java 17 in an environment of its own (neither is needed to run the tests):

    python tests/golden/spark_values/make.py

Left out, because there Keuka departs from Spark on purpose: integer overflow (Spark raises, and so do we, but for the row
as a whole), floor and ceil of NaN and of doubles outside 64 bits (Spark wraps or saturates), a backslash in LIKE before an
ordinary character (Spark raises), doubles of 2^63 as integers (Spark takes the largest), hexadecimal texts as doubles, and in times
texts without a date and zones by name (NULL here), digits of other scripts in decimals (NULL here), and doubles that Java 17 writes
with more digits than they need, in decimals. Casts ask Spark for `try_cast`. Spark's `exp`, `ln` and `pow` may differ from C's in
the last bit, so what is asked is rounded or compared.
Division by zero is NULL here, so those rows ask Spark for `try_divide` and `try_mod`.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
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
    "m": "decimal(10,2)",
    "w": "decimal(18,4)",
    "d": "date",
    "e": "date",
}
NAMES = {"bigint": "integer", "int": "integer", "double": "double", "string": "string", "boolean": "boolean", "date": "date"}

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")

PARTS = ("year", "month", "day", "hour", "minute", "second", "dayofweek")
UNITS = ("year", "YYYY", "quarter", "month", "mon", "week", "day", "dd", "hour", "minute", "second")
CASTS_OF_INTEGERS = [f"cast(i AS {type})" for type in ("INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN")]
D, day = Decimal, date.fromisoformat

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
    # Times are made of seconds, because JSON has none: of the year 1, before and after 1970, on leap days, beyond the year 9999.
    (
        "i",
        [
            *[(seconds,) for seconds in (0, -1, 951782399, 951782400, 1709290230, -2208988800, -62135596800, 253402300800, 1735603200)],
            (None,),
        ],
        [
            *[f"{part}(cast(i AS TIMESTAMP))" for part in PARTS],
            *[f"cast(date_trunc('{unit}', cast(i AS TIMESTAMP)) AS BIGINT)" for unit in UNITS],
            "cast(cast(i AS TIMESTAMP) AS DOUBLE)",
            "cast(cast(i AS TIMESTAMP) AS INT)",
        ],
    ),
    (
        "i",
        [(0,), (-1,), (951782399,), (1709290230,), (-2208988800,), (-62135596800,), (None,)],
        ["cast(cast(i AS TIMESTAMP) AS STRING)", "cast(date_trunc('WEEK', cast(i AS TIMESTAMP)) AS STRING)"],
    ),
    (
        "x",
        [(0.5,), (-0.5,), (1709290230.25,), (-2208988800.000001,), (NAN,), (INF,), (None,)],
        [
            *[f"{part}(cast(x AS TIMESTAMP))" for part in PARTS],
            "cast(cast(x AS TIMESTAMP) AS STRING)",
            "cast(cast(x AS TIMESTAMP) AS DOUBLE)",
            "cast(date_trunc('millisecond', cast(x AS TIMESTAMP)) AS STRING)",
            "cast(date_trunc('second', cast(x AS TIMESTAMP)) AS STRING)",
        ],
    ),
    ("i", [(0,), (1,), (-5,), (LARGEST,), (-LARGEST - 1,), (2**31,), (-(2**31),), (None,)], CASTS_OF_INTEGERS),
    ("p", [(True,), (False,), (None,)], [f"cast(p AS {type})" for type in ("INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN")]),
    (
        "x",
        [(0.0,), (-0.0,), (2.9,), (-2.9,), (9.2e18,), (-9.3e18,), (1e300,), (2147483647.5,), (2147483648.0,), (NAN,), (-INF,), (None,)],
        [f"cast(x AS {type})" for type in ("INT", "BIGINT", "BOOLEAN", "DOUBLE")],
    ),
    (
        "s",
        [
            *[
                (text,)
                for text in ("12", " 12\t", "+12", "-12", "1.5", "", "-", "1e3", "abc", "9223372036854775807", "9223372036854775808")
            ],
            *[(text,) for text in ("-9223372036854775808", "2147483648", "0x10", "٣", "1 2", "\x00 7 \x1f", "7\x7f", "\u00a07", "--1")],
            *[(text,) for text in ("true", "T", " yes ", "y", "1", "0", "No", "FALSE", "f", "tru", "on", "t\x7f")],
            (None,),
        ],
        ["cast(s AS BIGINT)", "cast(s AS INT)", "cast(s AS BOOLEAN)", "cast(s AS STRING)"],
    ),
    (
        "s",
        [
            *[
                (text,)
                for text in ("1.5", " 1.5 ", "1e3", "1E-3", ".5", "5.", "+.5e1", "-0", "1d", "1.5F", "", ".", "e5", "1e", "1_0", "1,5")
            ],
            *[(text,) for text in ("inf", "-Infinity", "+INF", "NaN", "nan", "-NaN", "-nan", "1e999", "-1e999", "1e-999", "4.9e-324")],
            *[(text,) for text in ("0.1", "123456789012345678901234567890", "1.7976931348623157e308", "2.2250738585072011e-308", "1\x7f")],
            (None,),
        ],
        ["cast(s AS DOUBLE)"],
    ),
    (
        "s",
        [
            *[
                (text,)
                for text in ("2024-03-01 09:10:30.25", "2024-03-01T09:10:30Z", "2024-03-01 09:10:30+02:00", "2024-03-01", "2024", "2024-3")
            ],
            *[
                (text,)
                for text in ("2024-3-1 9:1:3", "2024-03-01 09", "2024-03-01 09:10", "2024-02-30", "2024-13-01", "2024-03-01 25:00:00")
            ],
            *[
                (text,)
                for text in (" 2024-03-01 09:10:30 \t", "2024-03-01 09:10:30.1234567", "2024-03-01 09:10:30.", "24-03-01", "01/03/2024")
            ],
            *[
                (text,)
                for text in ("2024-03-01 09:10:30-0230", "2024-03-01 09:10:30 +2", "2024-03-01 09:10Z", "2024-03-01T", "0001-01-01", "")
            ],
            *[
                (text,)
                for text in ("2024-03-01 09:10:30+18:00", "2024-03-01 09:10:30+18:01", "2024-03-01 09:10:60", "2024-02-29", "2023-02-29")
            ],
            (None,),
        ],
        ["cast(cast(s AS TIMESTAMP) AS DOUBLE)", "cast(cast(s AS TIMESTAMP) AS STRING)"],
    ),
    ("s", [("  a b ",), (" ",), ("",), ("\ta ",), ("\u00a0a ",), ("é ",), (None,)], ["trim(s)", "length(trim(s))"]),
    (
        "s",
        [("abc",), ("ABC",), ("a.c",), ("",), ("xaby",), ("a\nc",), ("é",), ("a1b22",), ("[]",), (None,)],
        [
            "regexp_like(s, 'abc')",
            "regexp_like(s, '^a.c$')",
            "regexp_like(s, '[0-9]{2}')",
            "regexp_like(s, '')",
            r"regexp_like(s, 'a\.c')",
            "regexp_like(s, '(?i)^abc$')",
            "regexp_like(s, '^(a|b)*c?$')",
            "regexp_like(s, '^.$')",
            r"regexp_like(s, '\d\w+\d')",
            r"regexp_like(s, '^[\[\]]+$')",
            "NOT regexp_like(s, 'b+?')",
        ],
    ),
    (
        "x y",
        [
            *[
                (4.0, 0.5),
                (2.0, -1.0),
                (-8.0, 3.0),
                (-8.0, 0.5),
                (0.0, 0.0),
                (-0.0, -3.0),
                (-0.0, -2.0),
                (1.0, NAN),
                (1.0, INF),
                (-1.0, -INF),
            ],
            *[
                (0.5, INF),
                (2.0, -INF),
                (NAN, 0.0),
                (NAN, 1.0),
                (INF, -1.0),
                (-INF, 3.0),
                (1e200, 2.0),
                (-1e200, 3.0),
                (1e-200, 2.0),
                (None, 1.0),
            ],
        ],
        ["sqrt(x)", "pow(x, y)", "sqrt(y)"],
    ),
    ("x", [(0.0,), (-1e300,), (-0.0,), (NAN,), (INF,), (-INF,), (None,)], ["ln(x)", "exp(x)", "ln(x) > 0.5", "exp(x) > 2.7"]),
    ("x", [(710.0,), (-746.0,), (0.5,), (2.0,), (10.0,)], ["exp(x) > 1.0", "ln(x) > 0.0", "round(exp(x), 6)", "round(ln(x), 12)"]),
    ("i", [(4,), (0,), (None,)], ["sqrt(i)", "pow(i, 2)", "round(pow(i, 0.5), 9)", "ln(i) IS NULL"]),
    (
        "m w",
        [
            *[(D("0.10"), D("0.1000")), (D("0.30"), D("0.3001")), (D("-7.25"), D("7.25")), (D("0.00"), D("0.0000")), (None, D("1.0000"))],
            *[(D("99999999.99"), D("9999999999999.9999")), (D("-99999999.99"), None), (D("12.34"), D("-0.0001"))],
        ],
        [
            *["m + w", "m - w", "-m", "abs(m)", "coalesce(m, w)", "least(m, w)", "greatest(m, w)", "m IS NULL"],
            *[f"m {c} w" for c in COMPARISONS],
            *[("m = 0.1", "m = 0.1BD"), ("m < 0.305", "m < 0.305BD"), ("m + 0.125", "m + 0.125BD"), ("w - 1", "w - 1L")],
            *[("m IN (0.1, 12.34)", "m IN (0.1BD, 12.34BD)"), ("w IN (m, 0.3001)", "w IN (m, 0.3001BD)")],
            *[("m BETWEEN 0.1 AND w", "m BETWEEN 0.1BD AND w"), ("CASE WHEN m > 0 THEN m ELSE w END", "CASE WHEN m > 0 THEN m ELSE w END")],
            *[("m * w", "double(m) * double(w)"), ("m / w", "try_divide(double(m), double(w))"), ("m % 7", "try_mod(double(m), 7D)")],
            ("round(m, 1)", "round(double(m), 1)"),
        ],
    ),
    (
        "m i",
        [(D("3.00"), 3), (D("2.99"), 3), (D("-0.01"), 0), (D("0.00"), LARGEST), (None, 1), (D("1.00"), None), (D("5.50"), -LARGEST)],
        [*[f"m {c} i" for c in COMPARISONS], "i IN (m, 3)"],
    ),
    ("m i", [(D("3.25"), 3), (D("-0.01"), -7), (None, 1)], ["m + i", "i - m", "coalesce(m, i)", "greatest(m, i)"]),
    ("m x", [(D("0.10"), 0.1), (D("0.30"), 0.1 + 0.2), (D("1.50"), NAN), (None, 1.0)], [*[f"m {c} x" for c in COMPARISONS], "m + x"]),
    (
        "d e",
        [
            (day("2024-03-01"), day("2024-02-29")),
            (day("1969-12-31"), day("1970-01-01")),
            (day("0001-01-01"), day("9999-12-31")),
            (None, day("2024-03-01")),
        ],
        [
            *[f"d {c} e" for c in COMPARISONS],
            *["coalesce(d, e)", "least(d, e)", "greatest(d, e)", "d IS NULL", ("d - e", "date_diff(d, e)")],
            *[("d + 3", "date_add(d, 3)"), ("e - 31 days", "date_sub(e, 31)"), ("d >= '2024-03-01'", "d >= DATE'2024-03-01'")],
            *[
                ("d IN ('2024-03-01', e)", "d IN (DATE'2024-03-01', e)"),
                ("d < '2024-03-01 00:00:01'", "d < TIMESTAMP_NTZ'2024-03-01 00:00:01'"),
            ],
        ],
    ),
    (
        "d",
        [(day("2024-03-01"),), (day("1969-12-31"),), (day("0001-01-01"),), (day("9999-12-31"),), (None,)],
        [
            "cast(d AS STRING)",
            "cast(d AS DATE)",
            "cast(cast(d AS TIMESTAMP) AS BIGINT)",
            "cast(cast(cast(d AS TIMESTAMP) AS DATE) AS STRING)",
        ],
    ),
    (
        "i",
        [*[(seconds,) for seconds in (0, -1, 86399, 86400, 951782399, 1709290230, -62135596800, 253402300799)], (None,)],
        ["cast(cast(i AS TIMESTAMP) AS DATE)"],
    ),
    (
        "s",
        [
            *[(text,) for text in ("2024-03-01", " 2024-03-01\t", "2024-3-1", "2024-03", "2024", "2024-03-01 09:10:30", "2024-03-01Tx")],
            *[(text,) for text in ("2024-03-01T", "2024-03-01 x", "2024-03-01Z", "2024-02-30", "2023-02-29", "2024-02-29", "2024-13-01")],
            *[
                (text,)
                for text in ("+2024-03-01", "- 2024", "24-03-01", "01/03/2024", "", "2024-", "2024-03-", "2024 x", "2024-03 x", "now")
            ],
            *[
                (text,)
                for text in ("2024-003-01", "2024-03-011", "2024-00-01", "2024-01-00", "today", "epoch", "2024-03-01\x7f", "0002024")
            ],
            *[(text,) for text in ("00002024", "9999-12-31", "0001-01-01", "٢٠٢٤-01-01")],
            (None,),
        ],
        ["cast(s AS DATE)", "cast(cast(s AS DATE) AS STRING)"],
    ),
    # Python has no names for these days.
    (
        "s",
        [(text,) for text in ("0000-01-01", "-0001-12-31", "-9999", "10000-01-01", "+294247-01-10", "-290308-12-23", "0294247-01-10")],
        ["cast(cast(s AS DATE) AS STRING)", "cast(cast(cast(s AS DATE) AS TIMESTAMP) AS BIGINT)"],
    ),
    (
        "m",
        [(D("0.00"),), (D("2.50"),), (D("-2.50"),), (D("2.45"),), (D("-0.05"),), (D("-0.99"),), (D("99999999.99"),), (None,)],
        [
            *[
                f"cast(m AS {type})"
                for type in ("STRING", "BIGINT", "INT", "DOUBLE", "BOOLEAN", "DECIMAL", "DECIMAL(10, 2)", "DECIMAL(2, 1)")
            ],
            *[f"cast(m AS {type})" for type in ("DECIMAL(1)", "DECIMAL(18, 2)", "DECIMAL(18, 10)", "DECIMAL(18, 11)", "dec(8, 0)")],
            *["cast(cast(m AS DECIMAL(12, 1)) AS STRING)", "cast(m AS DECIMAL(10, 1)) = m", "cast(m AS DECIMAL(18, 3)) + m"],
        ],
    ),
    (
        "w",
        [(D("99999999999999.9999"),), (D("-99999999999999.9999"),), (D("0.0001"),), (D("-0.0005"),), (D("2147483647.9999"),), (None,)],
        [
            f"cast(w AS {type})"
            for type in ("STRING", "BIGINT", "INT", "DOUBLE", "BOOLEAN", "DECIMAL(18, 4)", "DECIMAL(18, 3)", "DECIMAL(14)")
        ],
    ),
    (
        "i",
        [(0,), (7,), (-7,), (99,), (100,), (999999999999999999,), (10**18,), (-(10**18),), (LARGEST,), (-LARGEST - 1,), (None,)],
        [
            *[
                f"cast(i AS {type})"
                for type in ("DECIMAL", "DECIMAL(18)", "DECIMAL(18, 2)", "DECIMAL(3, 1)", "NUMERIC(18, 18)", "DECIMAL(4, 2)")
            ],
            *["cast(cast(i AS DECIMAL(18, 3)) AS STRING)", "cast(cast(i AS DECIMAL(18, 3)) AS BIGINT)"],
        ],
    ),
    ("p", [(True,), (False,), (None,)], [f"cast(p AS {type})" for type in ("DECIMAL", "DECIMAL(3, 2)", "DECIMAL(1, 1)")]),
    (
        "x",
        [
            *[(x,) for x in (0.0, -0.0, 0.1, 0.125, 2.675, 1.005, -0.005, 0.1 + 0.2, 1e-10, 5e-324, 0.5, -0.5, 1.5, 2.5, 1e17, 1e18)],
            *[(x,) for x in (123456789012345680.0, 9007199254740992.0, 1e300, -1e300, 99.995, 0.045, 4.35, 1234567.8915, NAN, INF, -INF)],
            (None,),
        ],
        [
            f"cast(x AS {type})"
            for type in ("DECIMAL", "DECIMAL(18)", "DECIMAL(18, 2)", "DECIMAL(18, 17)", "DECIMAL(4, 2)", "DECIMAL(18, 3)")
        ],
    ),
    (
        "s",
        [
            *[
                (text,)
                for text in ("1.5", " 1.5\t", "1e3", "1E-3", ".5", "5.", "+.5e1", "-0", "1d", "1.5F", "", ".", "e5", "1e", "1_0", "1,5")
            ],
            *[
                (text,)
                for text in ("inf", "NaN", "0x10", "1e15", "1e16", "1e17", "1e18", "1e999999999", "1e-999999999", "1e99999999999", "+")
            ],
            *[
                (text,)
                for text in (
                    "0e99999999999",
                    "0e999999999",
                    "0e-99999999999",
                    "0e2147483647",
                    "0.0e2147483648",
                    "0e-2147483647",
                    "0.0e-2147483647",
                )
            ],
            *[
                (text,)
                for text in (
                    "0.125",
                    "-0.125",
                    "0.124999999999999999999999999999999999999999999",
                    "0.005",
                    "0.00499",
                    "-0.0",
                    "1e0000000000003",
                )
            ],
            *[
                (text,)
                for text in ("123456789012345678901234567890123456789012", "9999999999999999.99", "9999999999999999.995", "1\x7f", "--1")
            ],
            *[
                (text,)
                for text in ("1 2", "1e+2", "1e-2", "1.e1", "000000000000000000000000000000000000000000000001.5", "1.2.3", "1e1.5", "1e+")
            ],
            *[(text,) for text in ("0." + "0" * 60 + "1", "1." + "0" * 100, "100000000000000000000e-10", "5e-3", "4.99e-3", "\x00 7 \x1f")],
            (None,),
        ],
        [f"cast(s AS {type})" for type in ("DECIMAL", "DECIMAL(18, 2)", "DECIMAL(18, 18)", "DECIMAL(3, 1)")],
    ),
]


def main() -> None:
    builder = SparkSession.builder.master("local[1]").appName("golden values").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
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
            "arguments": {n: name_of(TYPES[n]) for n in names},
            "result": kind,
            "rows": [[encoded(v) for v in (*row, value)] for row, value in zip(rows, values, strict=True)],
        }


def as_spark(expression: str) -> str:
    """Our text in Spark's dialect: string literals without escapes, numbers with a point are doubles."""
    raw = re.sub(r"'([^']*)'", r"r'\1'", expression)
    return re.sub(r"\b(\d+\.\d+)\b", r"\1D", raw.replace("cast(", "try_cast("))


def ask(frame: DataFrame, expression: str) -> tuple[str, list[Any]]:
    result = frame.selectExpr(f"{expression} AS r")
    return name_of(result.schema["r"].dataType.simpleString()), [row["r"] for row in result.collect()]


def name_of(type: str) -> str:
    """What we call the type; of a decimal only the digits behind the point count."""
    return f"decimal {type.split(',')[1][:-1]}" if type.startswith("decimal") else NAMES[type]


def encoded(value: Any) -> Any:
    """JSON has no NaN, infinities, decimals and dates; they become strings, which the type beside them tells from text."""
    if isinstance(value, Decimal | date):
        return str(value)
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    main()
