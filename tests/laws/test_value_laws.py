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
    """Dates as days: Python has no names for those far away."""
    columns = [column.cast(pa.int32()) if pa.types.is_date(column.type) else column for column in table.columns]
    return list(pa.table(columns, names=table.column_names).to_pylist())
