"""NULL, ERROR and 64 bits: what Spark's golden table cannot say, because Spark raises or wraps there."""

from __future__ import annotations

import math

import pytest

from keuka.algebra.values import ERROR, Value, evaluate
from keuka.expressions import Call, Expression, Literal
from keuka.schema import Type

_TYPES = {bool: Type.BOOLEAN, int: Type.INTEGER, float: Type.DOUBLE, str: Type.STRING, type(None): Type.NULL}
LARGEST, SMALLEST = 2**63 - 1, -(2**63)


def expression(value: Value) -> Expression:
    if value is ERROR:
        return Call("add", (Literal(LARGEST, Type.INTEGER), Literal(1, Type.INTEGER)), Type.INTEGER)
    return value if isinstance(value, Literal | Call) else Literal(value, _TYPES[type(value)])


def apply(op: str, *args: Value) -> Value:
    return evaluate(Call(op, tuple([expression(a) for a in args]), Type.INTEGER), ())


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("add", (LARGEST, 1)),
        ("sub", (SMALLEST, 1)),
        ("mul", (2**32, 2**31)),
        ("neg", (SMALLEST,)),
        ("abs", (SMALLEST,)),
        ("floor", (2.0**63,)),
        ("ceil", (-1e300,)),
        ("floor", (math.inf,)),
        ("ceil", (math.nan,)),
        ("round", (LARGEST, -1)),
        ("round", (LARGEST, -19)),
    ],
)
def test_integers_that_do_not_fit_are_errors(op: str, args: tuple[Value, ...]):
    assert apply(op, *args) is ERROR


def test_integers_at_the_edge_fit():
    assert apply("add", LARGEST - 1, 1) == LARGEST
    assert apply("floor", -(2.0**63)) == SMALLEST
    assert apply("mod", SMALLEST, -1) == 0
    assert apply("round", LARGEST, -20) == 0


@pytest.mark.parametrize(
    ("op", "args", "result"),
    [
        ("add", (None, ERROR), None),
        ("add", (1, ERROR), ERROR),
        ("eq", (ERROR, None), None),
        ("is_null", (ERROR,), ERROR),
        ("not", (ERROR,), ERROR),
        ("and", (False, None, ERROR), False),
        ("and", (True, None, ERROR), None),
        ("and", (True, ERROR), ERROR),
        ("or", (True, None, ERROR), True),
        ("or", (False, None, ERROR), None),
        ("or", (False, ERROR), ERROR),
        ("in", (1, ERROR, 1), True),
        ("in", (1, ERROR, None), None),
        ("in", (1, ERROR, 2), ERROR),
        ("in", (ERROR, 1), ERROR),
        ("in", (None, ERROR), None),
        ("coalesce", (None, 1, ERROR), 1),
        ("coalesce", (None, ERROR, 1), ERROR),
        ("least", (None, ERROR), ERROR),
        ("greatest", (1, None, ERROR), ERROR),
        ("case", (True, 1, ERROR), 1),
        ("case", (False, ERROR, 2), 2),
        ("case", (None, ERROR, False, ERROR, 2), 2),
        ("case", (ERROR, 1, 2), ERROR),
        ("case", (True, 1, ERROR, 2, 3), 1),
    ],
)
def test_errors_spread_like_nulls_but_give_way_to_them(op: str, args: tuple[Value, ...], result: Value):
    assert apply(op, *args) is result or apply(op, *args) == result


def test_a_backslash_before_any_character_takes_it_literally():
    assert apply("like", "a%b", r"a\%b")
    assert not apply("like", "axb", r"a\%b")
    assert apply("like", "ab", r"a\b")
    assert apply("like", "a\\", "a\\")
