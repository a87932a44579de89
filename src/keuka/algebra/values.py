"""What an expression means, in plain Python: SQL's three-valued logic, Spark's functions, integers of 64 bits.

A value is None, a bool, an int (a timestamp in microseconds, a date in days, too), a float, a Decimal whose exponent says how many
digits it has behind the point, a str, or ERROR, the result of integer arithmetic that does not fit.
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

import pyarrow as pa
import pyarrow.compute as pc

from keuka.algebra import conversions
from keuka.algebra.conversions import CASTS
from keuka.expressions import Call, Column, Expression, Literal, exponent_of
from keuka.schema import MICROSECONDS, MOST_DAYS, MOST_DIGITS, Type

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
        return functools.reduce(_field, expression.path, sides[expression.side][expression.index])
    if not isinstance(expression, Call):
        return duration
    if expression.op == "case":
        return _case(expression.args, lambda argument: evaluate(argument, sides, duration))
    values = [evaluate(argument, sides, duration) for argument in expression.args]
    if expression.op in _LENIENT:
        return _LENIENT[expression.op](values)
    if expression.op == "cast":
        return _apply(CASTS[expression.args[0].type, expression.type], values)
    value = _apply(_STRICT[expression.op], values)
    return ERROR if expression.type is Type.DATE and isinstance(value, int) and abs(value) > MOST_DAYS else value


def _field(value: Value, name: str) -> Value:
    """A field of a struct, which is a dict; NULL has none."""
    return None if value is None else value[name]


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
    if isinstance(value, decimal.Decimal):
        return ERROR if len(value.as_tuple().digits) > MOST_DIGITS else value
    return ERROR if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _sum(x: Value, y: Value) -> Value:
    return _fits(_EXACT.add(x, y) if isinstance(x, decimal.Decimal) else x + y)


def _difference(x: Value, y: Value) -> Value:
    return _fits(_EXACT.subtract(x, y) if isinstance(x, decimal.Decimal) else x - y)


def _scale_up(x: Value, digits: int) -> decimal.Decimal:
    """The same number with so many more digits behind the point."""
    exact = decimal.Decimal(x)
    return exact.quantize(decimal.Decimal((0, (1,), exponent_of(exact) - digits)), context=_EXACT)


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


def _regexp_like(text: str, pattern: str) -> bool:
    """RE2, as the kernel has it, finds the pattern somewhere in the text."""
    return bool(pc.match_substring_regex(pa.array([text], pa.large_string()), pattern)[0].as_py())


# Mathematics, with Java's meaning where it differs from C's.


def _sqrt(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _ln(x: float) -> float | None:
    return None if x <= 0 else math.log(x)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _pow(x: float, y: float) -> float:
    if math.isnan(y) or (abs(x) == 1 and math.isinf(y)):
        return math.nan
    is_odd = math.isfinite(y) and y % 2 == 1
    if x == 0 and y < 0:
        return -math.inf if is_odd and math.copysign(1, x) < 0 else math.inf
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and is_odd else math.inf
    except ValueError:
        return math.nan


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
    "add": _sum,
    "sub": _difference,
    "mul": lambda x, y: _fits(x * y),
    "neg": lambda x: _fits(-x),
    "abs": lambda x: _fits(abs(x)),
    "div": _divide,
    "mod": _remainder,
    "to_double": float,
    "decimal_to_double": lambda x, scale: float(x),
    "decimal_to_integer": lambda x, scale: int(x),
    "decimal_to_string": lambda x, scale: f"{x:f}",
    "to_decimal": lambda x, own_scale, precision, scale: conversions.to_decimal(x, precision, scale),
    "scale_up": _scale_up,
    "rescale": lambda x, digits: _fits(_scale_up(x, digits)),
    "to_timestamp": lambda days: days * MICROSECONDS["day"],
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
    "trim": lambda text: text.strip(" "),
    "regexp_like": _regexp_like,
    "sqrt": _sqrt,
    "ln": _ln,
    "exp": _exp,
    "pow": _pow,
    "to_int": lambda x: x if -(2**31) <= x < 2**31 else None,
    "local": conversions.to_local,
    **{name: conversions.part_of(name) for name in ("year", "month", "day", "hour", "minute", "second", "dayofweek")},
    "date_trunc": conversions.truncate,
}
