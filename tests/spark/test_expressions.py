"""Expressions as columns of Spark are worth what the reference evaluator says, or they are not made into columns at all.

Expressions of the golden values and random ones, hundreds of columns in one job. Predicates are filters over Parquet files, too: what
Spark leaves to a source may be answered otherwise than by Spark itself.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from keuka.algebra.operators import Map
from keuka.algebra.values import ERROR, evaluate, same
from keuka.diagnostics import SourceText
from keuka.expressions import OPERATIONS, Call, Expression, walk
from keuka.languages.cel.lower import LANGUAGE
from keuka.languages.cel.syntax import parse
from keuka.schema import ARROW_OF, StreamType, TimeAxis, Type, decimal_type, schema_of
from keuka.spark.expressions import as_column, weakened

from ..laws import expressions

Row = tuple[Any, ...]

# A column's type follows from its name, as in the golden values.
TYPES = {"i": "integer", "j": "integer", "k": "integer", "x": "double", "y": "double", "s": "string", "t": "string", "p": "boolean"}
TYPES |= {"q": "boolean", "m": "decimal 2", "w": "decimal 4", "d": "date", "e": "date"}
SCHEMA = pa.schema([(n, decimal_type(int(t[-1])) if t.startswith("decimal") else ARROW_OF[Type(t)]) for n, t in TYPES.items()])
N_RANDOM = 400

# Not in the golden values, because each departs from Spark's own spelling.
OTHERS = [
    r"s LIKE 'a\bc'",
    r"s LIKE '\a\%c'",
    r"s LIKE 'a\\\%%'",
    "s LIKE 'abc\\'",
    r"s LIKE '\%%%'",
    "s LIKE '%%%_'",
    "s LIKE '.*'",
    "substring(s, 2)",
    "substring(s, -2)",
    "substring(s, 0, 2) = substring(s, 1, 2)",
    "substring(s, 1000000, 3)",
    "x IN (0.0, 1.5)",
    "x IN (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0)",
    "i IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, NULL, 9223372036854775807)",
    "s IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'É')",
    "i = -9223372036854775808",
    "NULL = NULL",
    "coalesce(NULL, NULL) IS NULL",
    "-x < 0.0",
    "abs(x) = 0",
    "m = 0.1",
    "m IN (0.1, 0.30, -7.25, NULL)",
    "m IN (0.125, w, i)",
    "m BETWEEN 0.1 AND w",
    "m < i",
    "m = 9223372036854775807",
    "m = x",
    "m * 2",
    "-m",
    "abs(w) = w",
    "greatest(m, 0.5) = 0.5",
    "w <> 99999999999999.9999",
    "d = '2024-03-01'",
    "d - e",
    "d - e < 3 days",
    "d IN ('2024-03-01', e)",
    "d < '2024-03-01 12:00'",
    "coalesce(d, e) = e",
]


def golden() -> list[dict[str, Any]]:
    path = Path(__file__).parents[1] / "golden" / "spark_values" / "golden.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def decoded(value: Any, kind: str) -> Any:
    if value is None or kind.startswith(("integer", "string", "boolean")):
        return value
    if kind == "date":
        return date.fromisoformat(value).toordinal() - date(1970, 1, 1).toordinal()
    return Decimal(value) if kind.startswith("decimal") else float(value)


def rows() -> list[Row]:
    """The rows of the golden values; an attribute that one has not takes its values in turn."""
    pools = {
        "integer": [0, 1, 2, 3, -7, None, 2**53 + 1, 2**63 - 1, -(2**63)],
        "double": [0.0, -0.0, 1.5, 1.0, math.nan, math.inf, -math.inf, None, 1e300, 5e-324],
        "string": ["a", "b", "ab", "", "É", "it's", None, "a%b", "abc\\", "a\nc", "\U0001f600", "\uffee", "a\\%c"],
        "boolean": [True, False, None],
        "decimal 2": [Decimal(text) for text in ("0.10", "0.30", "-7.25", "0.00", "9999999999999999.99")] + [None],
        "decimal 4": [Decimal(text) for text in ("0.1000", "0.3001", "-7.2500", "99999999999999.9999")] + [None],
        "date": [0, 19783, -719162, 2932896, None],  # days since 1970
    }
    cycles = {name: itertools.cycle(pools[kind]) for name, kind in TYPES.items()}
    found: dict[str, dict[str, Any]] = {}
    for entry in golden():
        for *values, _ in entry["rows"]:
            given = {n: decoded(v, t) for (n, t), v in zip(entry["arguments"].items(), values, strict=True)}
            found[repr(given)] = given
    chosen = [tuple([row[name] if name in row else next(cycles[name]) for name in TYPES]) for row in found.values()]
    mixed = [tuple([next(cycles[name]) for name in TYPES]) for _ in range(100)]
    return [*chosen, *mixed]


ROWS = rows()


def random_texts(n: int) -> list[str]:
    """Always the same ones, half of them truth values."""
    references = [(name, kind.split()[0]) for name, kind in TYPES.items()]
    found: list[str] = []

    @st.composite
    def texts(draw: st.DrawFn) -> str:
        kind = draw(st.sampled_from(["boolean", "boolean", "boolean", "double", "string", "integer", "exact", "exact"]))
        if kind == "exact":
            return expressions.exact_condition(draw, references)
        if kind == "boolean" and draw(st.booleans()):
            return " AND ".join([expressions.predicate(draw, references, 2) for _ in range(draw(st.integers(1, 3)))])
        return expressions.of_type(draw, kind, references, 3)

    @settings(max_examples=n, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(texts())
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return list(dict.fromkeys(found))


def lowered(texts: Sequence[str], schema: pa.Schema = SCHEMA) -> list[Expression]:
    """The expressions in CEL, over a stream with these columns; `ts` is there for the time, behind them."""
    type_ = StreamType(schema_of(schema.append(pa.field("ts", pa.int64()))), TimeAxis(None, pa.int64()))
    query = "SELECT " + ", ".join([f"{text} AS r{i}" for i, text in enumerate(texts)]) + " FROM S"
    ((_, operator),) = LANGUAGE.lower((parse(SourceText("<query>", query)),), {"S": type_}, {}).outputs
    assert isinstance(operator, Map)
    return list(operator.items)


@functools.cache
def cases() -> list[tuple[str, Expression]]:
    texts = [*dict.fromkeys([entry["expression"] for entry in golden()]), *OTHERS, *random_texts(N_RANDOM)]
    return list(zip(texts, lowered(texts), strict=True))


@contextmanager
def configured(spark: SparkSession, **values: str) -> Iterator[None]:
    """Settings of `spark.sql` (dots as underscores) while it lasts."""
    keys = {"spark.sql." + key.replace("_", "."): value for key, value in values.items()}
    before = {key: spark.conf.get(key) for key in keys}
    for key, value in keys.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            assert value is not None
            spark.conf.set(key, value)


def written(folder: Path, table: pa.Table) -> str:
    """As Parquet, in row groups of four, each with statistics of its own."""
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / "rows.parquet", row_group_size=4)
    return str(folder)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    columns = [pa.array([row[i] for row in ROWS], field.type) for i, field in enumerate(SCHEMA)]
    table = pa.table(columns, schema=SCHEMA).append_column("number", pa.array(range(len(ROWS)), pa.int64()))
    return written(tmp_path_factory.mktemp("rows") / "parquet", table)


def values_of(frame: DataFrame, columns: Sequence[Any]) -> list[Row]:
    """The values of the columns, in the order of `number`."""
    chosen = frame.select("number", *[column.alias(f"c{i}") for i, column in enumerate(columns)])
    return [tuple(row)[1:] for row in sorted(chosen.collect(), key=lambda row: row[0])]


def agrees(value: Any, expected: Any) -> bool:
    if isinstance(value, date):
        value = value.toordinal() - date(1970, 1, 1).toordinal()
    return type(value) is type(expected) and (value is None or same(value, expected))


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_column_has_the_values_of_its_expression(spark: SparkSession, path: str, ansi: str):
    attributes = [sf.col(name) for name in TYPES]
    with configured(spark, ansi_enabled=ansi):
        made = [(text, e, column) for text, e in cases() if (column := as_column(e, attributes)) is not None]
        found = values_of(spark.read.parquet(path), [column for _, _, column in made])
    assert len(made) > 200
    wrong = [
        f"{text} on {row}: Spark {value!r}, expected {expected!r}"
        for row, values in zip(ROWS, found, strict=True)
        for (text, expression, _), value in zip(made, values, strict=True)
        if not agrees(value, expected := evaluate(expression, (row,)))
    ]
    assert wrong == []


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_weakened_predicate_is_true_where_the_predicate_is(spark: SparkSession, path: str, ansi: str):
    attributes = [sf.col(name) for name in TYPES]
    predicates = [(text, e) for text, e in cases() if e.type is Type.BOOLEAN]
    with configured(spark, ansi_enabled=ansi):
        made = [(text, e, column) for text, e in predicates if (column := weakened(e, attributes)) is not None]
        found = values_of(spark.read.parquet(path), [column for _, _, column in made])
    assert len(made) > sum([as_column(e, attributes) is not None for _, e in predicates])
    wrong = [
        f"{text} on {row}"
        for row, values in zip(ROWS, found, strict=True)
        for (text, expression, _), value in zip(made, values, strict=True)
        if evaluate(expression, (row,)) is True and value is not True
    ]
    assert wrong == []


FILTERS = [
    *["x > 1.0", "x >= 1.5", "x <> 1.5", "NOT x = 1.5", "NOT x <= 1.0", "x = 0.0", "x <= 0.0", "x >= 0.0", "x < 0.5", "x IN (0.0, 7.5)"],
    *["x NOT IN (1.5)", "x > y", "x IS NULL", "x IS NOT NULL", "NOT x IS NULL AND x > 0.5"],
    *["i > 1", "i = 9223372036854775807", "i IN (1, 2, 3)", "i NOT IN (1, 2)", "i <> 0", "i < -9223372036854775807", "i % 2 = 1"],
    *["s = 'a'", "s <> 'a'", "s IN ('a', 'É')", "s > 'a'", "s LIKE 'a%'", "s LIKE '%c'", "s LIKE '%b%'", "s >= '\uffee'", "s = ''"],
    *["m = 0.1", "m > 0.05", "m <> w", "m IN (0.1, 0.3)", "m IS NULL", "w >= 0.3001", "d = '2024-03-01'", "d > e", "d <= '1970-01-01'"],
    *["p", "NOT p", "p = q", "p IS NULL", "p <> FALSE", "i > 0 AND s = 'a' OR x > 1.0", "i > 0 AND lower(s) = 'a'"],
]


@pytest.mark.parametrize("cached", [False, True])
def test_a_filter_over_a_file_keeps_what_the_predicate_is_true_of(spark: SparkSession, path: str, cached: bool):
    attributes = [sf.col(name) for name in TYPES]
    frame = spark.read.parquet(path)
    if cached:
        frame = frame.cache()
        frame.count()
    kept = []
    for number, (text, expression) in enumerate(zip(FILTERS, lowered(FILTERS), strict=True)):
        column = weakened(expression, attributes)
        assert column is not None, text
        kept.append(frame.filter(column).select(sf.lit(number).alias("filter"), "number"))
    found = {tuple(row) for row in functools.reduce(DataFrame.unionAll, kept).collect()}
    if cached:
        frame.unpersist()
    for number, (text, expression) in enumerate(zip(FILTERS, lowered(FILTERS), strict=True)):
        expected = {i for i, row in enumerate(ROWS) if evaluate(expression, (row,)) is True}
        actual = {i for of, i in found if of == number}
        assert expected <= actual, f"{text}: {[ROWS[i] for i in expected - actual]} are missing"
        assert actual == expected or "lower" in text, f"{text}: {[ROWS[i] for i in actual - expected]} are kept"


def test_every_operation_of_the_table_is_compared(spark: SparkSession):
    """The session is there because a column cannot be made without one."""
    attributes = [sf.col(name) for name in TYPES]
    made = [e for _, e in cases() if as_column(e, attributes) is not None]
    compared = {node.op for e in made for node in walk(e) if isinstance(node, Call)}
    assert set(OPERATIONS) - compared == {
        *("floor", "ceil", "round", "lower", "upper", "exp", "ln", "pow", "regexp_like", "date_trunc", "local", "rescale"),
        "decimal_to_string",
        # Those of a time: `test_times_are_moments_in_every_time_zone_of_the_session`.
        *("year", "month", "day", "hour", "minute", "second", "dayofweek"),
    }


def test_what_can_overflow_is_no_column(spark: SparkSession):
    attributes = [sf.col(name) for name in TYPES]
    texts = ["i + 1 > 0", "i * j = 0", "-i < 0", "abs(i) = 1", "floor(x) = 1", "ceil(x) = 1", "round(i, -1) = 0", "i - j > 0"]
    texts += ["m + w > 0", "m - 1 = 0", "coalesce(m, w) = 0", "d + i > e"]
    assert [as_column(e, attributes) for e in lowered(texts)] == [None] * len(texts)


def test_what_is_not_known_to_be_equal_weakens_a_conjunction_and_undoes_a_disjunction(spark: SparkSession):
    attributes = [sf.col(name) for name in TYPES]
    both, one, neither = lowered(["i > 0 AND upper(s) = 'A'", "i > 0 OR upper(s) = 'A'", "NOT (i > 0 AND upper(s) = 'A')"])
    assert str(weakened(both, attributes)) == str(as_column(lowered(["i > 0"])[0], attributes))
    assert weakened(one, attributes) is None
    assert weakened(neither, attributes) is None


TIMES = pa.schema([("l", pa.timestamp("us", tz="UTC")), ("m", pa.timestamp("us", tz="UTC")), ("n", pa.timestamp("us"))])
MOMENTS = [
    *["2024-03-31T02:30:00", "2024-03-31T01:30:00", "2024-10-27T02:30:00", "2024-10-27T01:30:00", "2024-11-03T01:30:00"],
    *["1970-01-01T00:00:00", "1969-12-31T23:59:59.999999", "1900-01-01T00:00:00.000001", "0001-01-03T00:00:00", "9999-12-30T23:59:59"],
]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])
def test_times_are_moments_in_every_time_zone_of_the_session(spark: SparkSession, tmp_path: Path, zone: str):
    texts = [f"{name} {sign} '{moment}'" for name in "ln" for sign in ("=", "<", ">=") for moment in MOMENTS]
    texts += [
        "l = n",
        "l < n",
        "l = m",
        "coalesce(l, n) = m",
        "l IN (n, m)",
        "greatest(l, n) > m",
        "l IS NULL",
        "n IN (NULL, '1970-01-01')",
        *[f"{part}({name})" for part in ("year", "month", "day", "hour", "minute", "second", "dayofweek") for name in "ln"],
        *["cast(l AS BIGINT)", "cast(n AS INT)", "cast(l AS DATE)", "cast(n AS DATE)"],
    ]
    made = lowered(texts, TIMES)
    of = lowered([f"coalesce(l, '{moment}')" for moment in MOMENTS], TIMES)
    ticks = [*[e.args[1].value for e in of if isinstance(e, Call)], None]  # type: ignore[union-attr]
    triples = [
        (ticks[a], ticks[b], ticks[c]) for a, b, c in itertools.product(range(len(ticks)), range(0, len(ticks), 3), range(len(ticks)))
    ]
    table = pa.table([pa.array([row[i] for row in triples], field.type) for i, field in enumerate(TIMES)], schema=TIMES)
    folder = written(tmp_path / "times", table.append_column("number", pa.array(range(len(triples)), pa.int64())))
    with configured(spark, session_timeZone=zone):
        frame = spark.read.parquet(folder)
        assert [field.dataType.simpleString() for field in frame.schema][:3] == ["timestamp", "timestamp", "timestamp_ntz"]
        columns = [as_column(expression, [sf.col(name) for name in "lmn"]) for expression in made]
        found = values_of(frame, columns)
    wrong = [
        f"{text} on {row}: {value}"
        for row, values in zip(triples, found, strict=True)
        for text, expression, value in zip(texts, made, values, strict=True)
        if not agrees(value, evaluate(expression, (row,)))
    ]
    assert wrong == []


def test_narrow_numbers_are_compared_as_wide_ones(spark: SparkSession, tmp_path: Path):
    schema = pa.schema([("b", pa.int8()), ("h", pa.int16()), ("i", pa.int32()), ("f", pa.float32())])
    numbers = [(1, 1, 1, 0.1), (-128, -32768, -(2**31), math.nan), (127, 32767, 2**31 - 1, -0.0), (None, None, None, None), (5, 5, 5, 1.5)]
    table = pa.table([pa.array([row[i] for row in numbers], field.type) for i, field in enumerate(schema)], schema=schema)
    folder = written(tmp_path / "narrow", table.append_column("number", pa.array(range(len(numbers)), pa.int64())))
    texts = ["b = 128", "b < 200", "h > 40000", "h >= -40000", "i < 3000000000", "i <> 3000000000", "b = h", "b IN (1, 300)", "i % b = 0"]
    texts += ["f = 0.1", "f < 0.1", "f > 0.1", "f >= 1.5", "f = 0.0", "f > 1e300", "f / 3 < 0.5", "b / h = 1.0", "f IN (0.1, 1.5)"]
    made = lowered(texts, schema)
    found = values_of(spark.read.parquet(folder), [as_column(expression, [sf.col(name) for name in schema.names]) for expression in made])
    wide = [tuple(row.values()) for row in table.to_pylist()]
    for row, values in zip(wide, found, strict=True):
        assert list(values) == [evaluate(expression, (row,)) for expression in made], row


def test_neither_collations_nor_padding_change_a_comparison(spark: SparkSession, tmp_path: Path):
    spark.sql(f"CREATE TABLE padded (c CHAR(3), v STRING COLLATE UTF8_LCASE) USING parquet LOCATION '{tmp_path / 'padded'}'")
    try:
        spark.sql("INSERT INTO padded VALUES ('a', 'A'), ('abc', 'a'), ('ABC', 'ab')")
        frame = spark.table("padded")
        texts = ["c = 'a'", "c = 'a  '", "c <> 'a'", "c IN ('a', 'abc')", "v = 'a'", "v IN ('a', 'AB')", "v LIKE 'a%'", "v < 'a'", "c = v"]
        schema = pa.schema([("c", pa.string()), ("v", pa.string())])
        made = lowered(texts, schema)
        columns = [as_column(expression, [sf.col("c"), sf.col("v")]) for expression in made]
        found = {tuple(row)[:2]: tuple(row)[2:] for row in frame.select("c", "v", *columns).collect()}  # type: ignore[list-item]
    finally:
        spark.sql("DROP TABLE padded")
    assert set(found) == {("a  ", "A"), ("abc", "a"), ("ABC", "ab")}
    for row, values in found.items():
        assert list(values) == [evaluate(expression, (row,)) for expression in made], row


def test_columns_that_differ_only_in_case_are_told_apart_by_position(spark: SparkSession):
    frame = spark.createDataFrame([(1, 2), (2, 1), (2, 2)], "n bigint, m bigint").toDF("n", "N")
    (expression,) = lowered(["N > n"], pa.schema([("n", pa.int64()), ("N", pa.int64())]))
    renamed = frame.toDF("_0", "_1")
    column = as_column(expression, [sf.col("_0"), sf.col("_1")])
    assert column is not None
    assert [tuple(row) for row in renamed.filter(column).collect()] == [(1, 2)]


def test_an_error_is_never_compared():
    """Where the reference evaluator fails there is no column, so no value of it is in the comparisons above."""
    assert not any(
        evaluate(expression, (row,)) is ERROR
        for text, expression in cases()
        if not any(isinstance(node, Call) and OPERATIONS[node.op][1] and node.type is not Type.DOUBLE for node in walk(expression))
        for row in ROWS
    )
