"""Decimals, dates and fields of structs in the engine are worth what the reference evaluator says, one by one and between two events."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import keuka
from keuka.algebra.semantics import Event, evaluate
from keuka.languages.sets import lower_texts
from keuka.schema import StreamType, TimeAxis, schema_of

from .expressions import day, exact, exact_condition

KINDS = {"m": "decimal", "w": "decimal", "u": "decimal", "n": "integer", "x": "double", "d": "date", "e": "date"}
STRUCT = pa.struct([("n", pa.int64()), ("m", pa.decimal128(10, 2)), ("in", pa.struct([("d", pa.date32())]))])
SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        *[("m", pa.decimal128(10, 2)), ("w", pa.decimal128(38, 4)), ("u", pa.decimal128(18, 0))],
        *[("n", pa.int64()), ("x", pa.float64()), ("d", pa.date32()), ("e", pa.date32()), ("r", STRUCT)],
    ]
)
FIELDS = {"r.n": "integer", "r.m": "decimal", "r.`in`.d": "date"}


def _decimals(scale: int, *texts: str) -> st.SearchStrategy[Decimal | None]:
    unit = Decimal((0, (1,), -scale))
    return st.sampled_from([None, *[Decimal(text).quantize(unit) for text in texts]])


_SMALL = ("0", "0.1", "0.3", "1", "-7.25", "12")
_NEAR = [19783, 19784, 19782, 0, -1, None]  # days since 1970, around 2024-03-01
_DATES = st.sampled_from([*_NEAR, 106_000_000])
_INTEGERS = st.sampled_from([0, 1, 2, -7, None, 2**63 - 1, -(2**63)])
_INNER = st.one_of(st.none(), st.fixed_dictionaries({"d": st.sampled_from(_NEAR)}))
_STRUCTS = st.one_of(
    st.none(),
    st.fixed_dictionaries({"n": _INTEGERS, "m": _decimals(2, *_SMALL), "in": _INNER}),
)
_ROWS = st.tuples(
    _decimals(2, *_SMALL, "99999999.99"),
    _decimals(4, *_SMALL, "0.3001", "99999999999999.9999", "-99999999999999.9999"),
    _decimals(0, "0", "1", "12", "999999999999999999", "-999999999999999999"),
    _INTEGERS,
    st.sampled_from([0.1, 0.3, 1.0, -7.25, None, float("nan")]),
    _DATES,
    _DATES,
    _STRUCTS,
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[tuple[Any, ...]]]:
    own = list((KINDS | FIELDS).items())
    sided = [(f"{side}{name}", kind) for side in ("$1.", "$2.") for name, kind in own]
    key = draw(st.sampled_from(["m", "w", "d", "r.m", "r.`in`.d", "r.n"]))
    other = draw(st.sampled_from([key, *[name for name, kind in own if kind == dict(own)[key]]]))
    texts = [
        f"SELECT t, {exact(draw, own)} AS v FROM T PUBLISH exact",
        f"SELECT t, {day(draw, own)} AS v FROM T PUBLISH day",
        f"SELECT t, {exact_condition(draw, own)} AS v FROM T PUBLISH condition",
        f"FROM FILTER {{{exact_condition(draw, own)}}} T PUBLISH kept",
        f"SELECT t_1, t, m, d, r.n AS f, r_1 FROM T NEXT {{$2.{key} = $1.{other} AND ({exact_condition(draw, sided)})}} T PUBLISH pairs",
        f"FROM (SELECT *, m AS total FROM T) FOLD {{$2.{key} = $.{other}, TRUE, $.total + $2.m AS total}} T PUBLISH runs",
    ]
    rows = draw(st.lists(_ROWS, min_size=3, max_size=8))
    return "; ".join(texts), [(t // 2, *row) for t, row in enumerate(rows)]


_NEARLY_NUMBERS = st.from_regex(r"[ \t]?[+-]?[0-9]{0,22}\.?[0-9]{0,22}(e[+-]?[0-9]{1,11})?[ \x7f]?", fullmatch=True)
_NEARLY_DATES = st.from_regex(r"[ ]?[+-]?[0-9]{3,8}(-[0-9]{1,3}(-[0-3]?[0-9]([ T].?)?)?)?", fullmatch=True)
_TYPES = ["DATE", "TIMESTAMP", "DOUBLE", "BIGINT", "DECIMAL", "DECIMAL(18)", "DECIMAL(18, 18)", "DECIMAL(7, 3)", "DECIMAL(18, 9)"]
CASTS = {
    "s": _TYPES,
    "x": [*_TYPES[3:], "TIMESTAMP"],
    "n": [*_TYPES[4:], "STRING"],
    "m": [*_TYPES[2:], "STRING", "BOOLEAN"],
    "d": ["STRING", "TIMESTAMP"],
    "t": ["DATE", "STRING"],
}
CAST_SCHEMA = pa.schema(
    [
        *[("at", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("n", pa.int64()), ("m", pa.decimal128(18, 9))],
        *[("d", pa.date32()), ("t", pa.timestamp("us", "Asia/Kathmandu"))],
    ]
)
_CAST_ROWS = st.tuples(
    st.one_of(_NEARLY_NUMBERS, _NEARLY_DATES),
    st.one_of(st.floats(), st.floats(-1e9, 1e9), st.integers(-(10**9), 10**9).map(lambda n: n / 2_000)),
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-(10**4), 10**4)),
    st.one_of(st.integers(-(10**18) + 1, 10**18 - 1), st.integers(-(10**11), 10**11)).map(lambda n: Decimal(n).scaleb(-9)),
    st.integers(-106_751_991, 106_751_991),
    st.integers(-(2**63), 2**63 - 1),
)


@given(st.lists(_CAST_ROWS, min_size=1, max_size=12))
def test_casts_agree_with_the_reference(drawn: list[tuple[Any, ...]]):
    rows = [(at, *row) for at, row in enumerate(drawn)]
    table = pa.table([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(CAST_SCHEMA)], schema=CAST_SCHEMA)
    texts = [f"cast({name} AS {type})" for name, types in CASTS.items() for type in types]
    query = keuka.cel("SELECT " + ", ".join([f"{text} AS r{i}" for i, text in enumerate(texts)]) + " FROM T")
    ((_, operator),) = lower_texts(query.texts, {"T": StreamType(schema_of(CAST_SCHEMA), TimeAxis(None, pa.int64()))}, {}).outputs
    expected = [tuple(map(plain, e.payload)) for e in evaluate(operator, {"T": [Event(row, row[0], row[0], ()) for row in rows]})]
    found = [tuple(map(plain, row.values()))[: len(texts)] for row in python_rows(keuka.match(query, table, time="at"))]
    for row, mine, theirs in zip(rows, found, expected, strict=True):
        assert dict(zip(texts, mine, strict=True)) == dict(zip(texts, theirs, strict=True)), row


def plain(value: Any) -> Any:
    """As the reference has it; NaN as a text, because it does not equal itself."""
    if isinstance(value, date):
        return value.toordinal() - date(1970, 1, 1).toordinal()
    if isinstance(value, dict):
        return tuple([(name, plain(value[name])) for name in sorted(value)])
    return "NaN" if value != value else value


@given(cases())
def test_the_engine_agrees_with_the_reference(case: tuple[str, list[tuple[Any, ...]]]):
    text, rows = case
    table = pa.table([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)], schema=SCHEMA)
    query = keuka.cel(text)
    program = lower_texts(query.texts, {"T": StreamType(schema_of(SCHEMA), TimeAxis(None, pa.int64()))}, {})
    events = [Event(row, row[0], row[0], (("T", i),)) for i, row in enumerate(rows)]
    for name, operator in program.outputs:
        try:
            expected: Any = Counter([(*map(plain, e.payload), e.start, e.end) for e in evaluate(operator, {"T": events})])
        except keuka.DataError as error:
            expected = error.code
        try:
            found: Any = Counter([tuple(map(plain, row.values())) for row in python_rows(keuka.match(query, table, time="t", output=name))])
        except keuka.DataError as error:
            found = error.code
        assert found == expected, f"{name} of {text}\n{rows}"


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Dates as days, and times as microseconds: Python has no names for those far away."""
    columns = [column.cast(pa.int32()) if pa.types.is_date(column.type) else column for column in table.columns]
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns]
    return list(pa.table(columns, names=table.column_names).to_pylist())
