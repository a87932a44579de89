"""What an expression means, in plain Python: SQL's three-valued logic, Spark's functions, integers of 64 bits.

A value is None, a bool, an int (timestamps too), a float, a str or ERROR, the result of integer arithmetic that does not fit.
A strict operation is NULL if an argument is NULL, else ERROR if one is ERROR. `semantics.py` decides where an ERROR is raised.
"""

from __future__ import annotations

import decimal
import enum
import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from keuka.expressions import Call, Column, Expression, Literal

# Values of OTHER columns are whatever came in, and Python's operators do the rest; a union type would buy nothing but casts.
Value = Any


class Overflow(enum.Enum):
    ERROR = "integer overflow"


ERROR: Final = Overflow.ERROR


def evaluate(expression: Expression, sides: Sequence[Sequence[Value]], duration: int | None = None) -> Value:
    """The expression's value where side i has the attributes `sides[i]` and DUR is `duration`."""
    if isinstance(expression, Literal):
        return expression.value
    if isinstance(expression, Column):
        return sides[expression.side][expression.index]
    if not isinstance(expression, Call):
        return duration
    if expression.op == "case":
        return _case(expression.args, lambda argument: evaluate(argument, sides, duration))
    values = [evaluate(argument, sides, duration) for argument in expression.args]
    if expression.op in _LENIENT:
        return _LENIENT[expression.op](values)
    return _apply(_STRICT[expression.op], values)


def _case(args: tuple[Expression, ...], value_of: Callable[[Expression], Value]) -> Value:
    """The value of the first true condition; conditions behind it and values not chosen are not looked at."""
    for condition, value in zip(args[:-1:2], args[1:-1:2], strict=True):
        satisfied = value_of(condition)
        if satisfied is ERROR:
            return ERROR
        if satisfied:
            return value_of(value)
    return value_of(args[-1])


def _apply(operation: Callable[..., Value], values: Sequence[Value]) -> Value:
    if any(value is None for value in values):
        return None
    if any(value is ERROR for value in values):
        return ERROR
    return operation(*values)


# Comparisons. NaN equals itself and is larger than every number; -0.0 equals 0.0; strings compare by code point.


def same(x: Value, y: Value) -> bool:
    return bool(x == y or (x != x and y != y))


def precedes(x: Value, y: Value) -> bool:
    if x != x:
        return False
    return bool(y != y or x < y)


# Logic.


def _and(values: Sequence[Value]) -> Value:
    return _first_of((False, None, ERROR), values, otherwise=True)


def _or(values: Sequence[Value]) -> Value:
    return _first_of((True, None, ERROR), values, otherwise=False)


def _first_of(ranking: tuple[Value, ...], values: Sequence[Value], otherwise: bool) -> Value:
    for ranked in ranking:
        if any(value is ranked for value in values):
            return ranked
    return otherwise


def _in(values: Sequence[Value]) -> Value:
    return _or([_apply(same, (values[0], candidate)) for candidate in values[1:]])


def _is_null(values: Sequence[Value]) -> Value:
    return ERROR if values[0] is ERROR else values[0] is None


def _coalesce(values: Sequence[Value]) -> Value:
    return next((value for value in values if value is not None), None)


def _least(values: Sequence[Value]) -> Value:
    return _extreme(values, precedes)


def _greatest(values: Sequence[Value]) -> Value:
    return _extreme(values, lambda x, y: precedes(y, x))


def _extreme(values: Sequence[Value], better: Callable[[Value, Value], bool]) -> Value:
    if any(value is ERROR for value in values):
        return ERROR
    known = [value for value in values if value is not None]
    if not known:
        return None
    return functools.reduce(lambda best, value: value if better(value, best) else best, known)


# Arithmetic.


def _fits(value: Value) -> Value:
    return ERROR if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _divide(x: float, y: float) -> float | None:
    return None if y == 0 else x / y


def _remainder(x: Value, y: Value) -> Value:
    """The remainder with the sign of the dividend."""
    if y == 0:
        return None
    if isinstance(x, float):
        return math.nan if math.isinf(x) else math.fmod(x, y)
    return abs(x) % abs(y) * (-1 if x < 0 else 1)


def _floor(x: Value) -> Value:
    return _fits(math.floor(x)) if math.isfinite(x) else ERROR


def _ceil(x: Value) -> Value:
    return _fits(math.ceil(x)) if math.isfinite(x) else ERROR


# Enough for every digit of a double (309 before the point) at every scale that can matter (400 behind it).
_EXACT = decimal.Context(prec=800)


def _round(x: Value, digits: int) -> Value:
    """Half up on the shortest decimal form; negative digits round before the point."""
    if not math.isfinite(x):
        return x
    unit = decimal.Decimal(1).scaleb(-max(-400, min(digits, 400)))
    if isinstance(x, int):
        return x if digits >= 0 else _fits(int(decimal.Decimal(x).quantize(unit, decimal.ROUND_HALF_UP, _EXACT)))
    # Adding zero turns -0.0 into 0.0: Spark rounds in decimals, which have no negative zero.
    return float(decimal.Decimal(repr(x)).quantize(unit, decimal.ROUND_HALF_UP, _EXACT)) + 0.0


# Text.


def _like(text: str, pattern: str) -> bool:
    return _like_expression(pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=1024)
def _like_expression(pattern: str) -> re.Pattern[str]:
    """`%` is any text, `_` any character, `\\` takes the next character literally (itself at the very end)."""
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    return re.compile("".join([{"%": ".*", "_": "."}.get(piece, re.escape(piece[-1])) for piece in pieces]), re.DOTALL)


def _substring(text: str, position: int, length: int) -> str:
    """`length` characters from `position`: counted from 1, from the end if negative, 0 like 1.

    A position before the beginning still counts the characters that are not there, as in Spark: substring('abc', -5, 3) = 'a'.
    """
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)]


# Operations that see NULL and ERROR themselves.
_LENIENT: dict[str, Callable[[Sequence[Value]], Value]] = {
    "and": _and,
    "or": _or,
    "in": _in,
    "is_null": _is_null,
    "coalesce": _coalesce,
    "least": _least,
    "greatest": _greatest,
}

_STRICT: dict[str, Callable[..., Value]] = {
    "add": lambda x, y: _fits(x + y),
    "sub": lambda x, y: _fits(x - y),
    "mul": lambda x, y: _fits(x * y),
    "neg": lambda x: _fits(-x),
    "abs": lambda x: _fits(abs(x)),
    "div": _divide,
    "mod": _remainder,
    "to_double": float,
    "floor": _floor,
    "ceil": _ceil,
    "round": _round,
    "eq": same,
    "ne": lambda x, y: not same(x, y),
    "lt": precedes,
    "le": lambda x, y: not precedes(y, x),
    "gt": lambda x, y: precedes(y, x),
    "ge": lambda x, y: not precedes(x, y),
    "not": lambda x: not x,
    "like": _like,
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
    "substring": _substring,
    "concat": lambda *texts: "".join(texts),
}
