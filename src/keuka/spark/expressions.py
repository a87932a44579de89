"""Our expressions as columns of Spark, where both are known to be worth the same: with ANSI on and off, in every time zone.

In comes an expression over the attributes of one event, out comes a Column or None. The table has only what
tests/spark/test_expressions.py compares value by value. Left out: what can overflow, because Spark raises or wraps where we have an error
of the whole row; `lower`, `upper` (they depend on the version of Unicode) and `round` (on how a Java writes doubles); `exp`, `ln` and
`pow`, whose last bit Java and C may decide differently; `regexp_like`, because Java's patterns are not RE2's; `date_trunc`.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf
from pyspark.sql.types import DecimalType

from keuka.expressions import FIRST, Call, Column, Expression, Literal, integer_of, overflows, scale_of
from keuka.schema import MOST_DAYS, MOST_DIGITS, Type

_NAMES = {Type.BOOLEAN: "boolean", Type.INTEGER: "bigint", Type.DOUBLE: "double", Type.STRING: "string", Type.TIMESTAMP: "bigint"}
_NAMES |= {Type.DATE: "date"}
_FIRST_DATE, _LAST_DATE = -719_162, 2_932_896  # from the year 1 to 9999
_UNITS = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}  # in microseconds
_MOST_WILDCARDS = 2  # a `%` more and Spark tries every place for each of them; the time grows by another power
_LONGEST = 2**30  # no text has more characters; Spark counts them in 32 bits

Columns = Sequence[SparkColumn]


def weakened(expression: Expression, columns: Columns) -> SparkColumn | None:
    """A column that is TRUE wherever the predicate is: what is not known to be equal is left out of conjunctions."""
    if isinstance(expression, Call) and expression.op in ("and", "or"):
        terms = [weakened(term, columns) for term in expression.args]
        known = [term for term in terms if term is not None]
        if not known or (expression.op == "or" and len(known) < len(terms)):
            return None
        return functools.reduce(operator.and_ if expression.op == "and" else operator.or_, known)
    return as_column(expression, columns)


def as_column(expression: Expression, columns: Columns) -> SparkColumn | None:
    """The expression with `columns[i]` for attribute i, or None where it is not known to be worth the same.

    Timestamps are microseconds. Dates and decimals are Spark's own, which sources can search for; the caller sees to it that decimals
    have at most 18 digits (`fitting`).
    """
    if isinstance(expression, Literal):
        return _constant(expression)
    if isinstance(expression, Column):
        return _attribute(columns[expression.index], expression.type) if expression.side == FIRST else None
    if not isinstance(expression, Call) or expression.op not in _OPERATIONS or overflows(expression):
        return None
    arguments = [as_column(argument, columns) for argument in expression.args]
    known = [argument for argument in arguments if argument is not None]
    return _OPERATIONS[expression.op](expression, known) if len(known) == len(arguments) else None


def _constant(literal: Literal) -> SparkColumn | None:
    if literal.value is not None and literal.type is Type.DATE:
        return sf.date_from_unix_date(sf.lit(literal.value)) if _FIRST_DATE <= int(literal.value) <= _LAST_DATE else None
    if isinstance(literal.value, Decimal):
        return sf.lit(literal.value) if len(literal.value.as_tuple().digits) <= MOST_DIGITS and _is_narrow(literal) else None
    if literal.type is Type.DECIMAL:
        return sf.lit(None).cast(DecimalType(MOST_DIGITS, 0))
    # NULL without a type stands beside nothing but others of its kind.
    return sf.lit(literal.value).cast(_NAMES.get(literal.type, "boolean"))


def _is_narrow(expression: Expression) -> bool:
    """Has it so few digits behind the point that Spark's decimals have room for those of another one before it?"""
    return scale_of(expression) <= MOST_DIGITS


def _attribute(column: SparkColumn, type: Type) -> SparkColumn | None:
    """The column with the values that the kernel would see."""
    if type is Type.TIMESTAMP:
        return microseconds(column)
    if type is Type.DOUBLE:
        # Files and cached frames are searched by the least and the largest value of a column, which say nothing of NaN and count -0.0
        # as less than 0.0: rows would be missing. This changes no value, but no source is asked for it.
        return sf.nanvl(column.cast("double"), sf.lit(float("nan")))
    if type is Type.DECIMAL:
        return column
    # As text a column has no collation and is not padded (CHAR). Spark removes casts that change nothing.
    return column.cast(_NAMES[type]) if type in _NAMES else None


def fitting(column: SparkColumn, arrow: pa.DataType) -> SparkColumn:
    """A decimal column in the type that all decimals of its scale have here; null where a value has more digits."""
    return column.try_cast(DecimalType(max(MOST_DIGITS, arrow.scale), arrow.scale)) if pa.types.is_decimal(arrow) else column


def microseconds(column: SparkColumn) -> SparkColumn:
    """Since 1970 UTC, whatever the session's time zone is. Of a time without a zone, which is UTC for us, Spark 4.1 cannot tell them."""
    since = column.cast("timestamp_ntz") - sf.lit("1970-01-01").cast("timestamp_ntz")
    parts = [
        sf.extract(sf.lit(unit), since).cast("decimal(18, 6)") * sf.lit(length).cast("decimal(12, 0)") for unit, length in _UNITS.items()
    ]
    without_zone = functools.reduce(operator.add, parts).cast("bigint")
    return sf.when(sf.typeof(column) == "timestamp_ntz", without_zone).otherwise(sf.unix_micros(column.cast("timestamp")))


# -- operations: each gets the call and its arguments as columns -----------------------------------------------------------------

_Operation = Callable[[Call, list[SparkColumn]], SparkColumn | None]


def _plain(function: Callable[..., SparkColumn]) -> _Operation:
    return lambda call, arguments: function(*arguments)


def _all(function: Callable[[SparkColumn, SparkColumn], SparkColumn]) -> _Operation:
    return lambda call, arguments: functools.reduce(function, arguments)


def _in(call: Call, arguments: list[SparkColumn]) -> SparkColumn:
    # Spark looks long lists up in a table of hashes; doubles are compared, so that -0.0 is 0.0.
    value, *candidates = arguments
    if call.args[0].type in (Type.DOUBLE, Type.DECIMAL):
        return functools.reduce(operator.or_, [value == candidate for candidate in candidates])
    return value.isin(*candidates)


def _case(call: Call, arguments: list[SparkColumn]) -> SparkColumn:
    found = sf.when(arguments[0], arguments[1])
    for condition, value in zip(arguments[2:-1:2], arguments[3:-1:2], strict=True):
        found = found.when(condition, value)
    return found.otherwise(arguments[-1])


def _like(call: Call, arguments: list[SparkColumn]) -> SparkColumn | None:
    pattern = call.args[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    pieces = [_piece(piece) for piece in re.findall(r"%+|\\.|.", pattern.value, re.DOTALL)]
    return sf.like(arguments[0], sf.lit("".join(pieces))) if pieces.count("%") <= _MOST_WILDCARDS else None


def _piece(piece: str) -> str:
    """A piece of a pattern as Spark wants it: a backslash only before `%`, `_` and itself. For us it takes whatever follows literally."""
    if piece[0] == "%":
        return "%"
    if piece[0] == "\\" and piece[-1] not in "%_\\":
        return piece[-1]
    return "\\\\" if piece == "\\" else piece


def _substring(call: Call, arguments: list[SparkColumn]) -> SparkColumn | None:
    position, length = [arg.value if isinstance(arg, Literal) else None for arg in call.args[1:]]
    if not isinstance(position, int) or not isinstance(length, int) or abs(position) > _LONGEST:
        return None
    return sf.substring(arguments[0], position, max(-_LONGEST, min(length, _LONGEST)))


def _quotient(dividend: SparkColumn, divisor: int) -> SparkColumn:
    """Rounded down. Spark's `div` rounds towards zero; neither overflows."""
    divided = sf.call_function("div", dividend, sf.lit(divisor).cast("bigint"))
    return sf.when(dividend % sf.lit(divisor).cast("bigint") < 0, divided - 1).otherwise(divided)


def _part(of: int, unit: int) -> _Operation:
    """How many whole units of so many microseconds have passed of the last, longer one."""
    return lambda call, arguments: _quotient(sf.pmod(arguments[0], sf.lit(of).cast("bigint")), unit)


def _date_part(function: Callable[[SparkColumn], SparkColumn]) -> _Operation:
    """Of a date, so that the zone of the session has no part in it."""
    return lambda call, arguments: function(sf.date_from_unix_date(_quotient(arguments[0], _UNITS["DAY"]).cast("int"))).cast("bigint")


# Not doubles as integers (Spark takes 2^63 for the largest), not texts as doubles (Spark reads hexadecimal ones), no times as texts, no
# texts as dates (of a constant Spark takes `today` for one), no decimals as texts (without ANSI Spark writes some with an exponent).
_CASTS = {
    *itertools.product([Type.BOOLEAN], [Type.INTEGER, Type.DOUBLE, Type.STRING]),
    *itertools.product([Type.INTEGER], [Type.BOOLEAN, Type.DOUBLE, Type.STRING]),
    *[(Type.DOUBLE, Type.BOOLEAN), (Type.STRING, Type.BOOLEAN), (Type.STRING, Type.INTEGER)],
    *[(Type.DATE, Type.STRING), (Type.DECIMAL, Type.BOOLEAN)],
}


def _cast(call: Call, arguments: list[SparkColumn]) -> SparkColumn | None:
    source, target = call.args[0].type, call.type
    if (source, target) == (Type.TIMESTAMP, Type.INTEGER):
        return _quotient(arguments[0], _UNITS["SECOND"])
    if (source, target) == (Type.TIMESTAMP, Type.DATE):
        days = _quotient(arguments[0], _UNITS["DAY"])
        return sf.when(days >= -MOST_DAYS, sf.date_from_unix_date(days.cast("int")))
    return arguments[0].try_cast(_NAMES[target]) if (source, target) in _CASTS else None


def _scale_up(call: Call, arguments: list[SparkColumn]) -> SparkColumn | None:
    """Spark aligns decimals itself, as far as 38 digits are enough."""
    if not _is_narrow(call):
        return None
    return arguments[0].cast(DecimalType(19, 0)) if call.args[0].type is Type.INTEGER else arguments[0]


def _to_decimal(call: Call, arguments: list[SparkColumn]) -> SparkColumn | None:
    """Not of texts (Java reads digits of every script) and doubles (Java writes some with more digits than they need)."""
    if call.args[0].type in (Type.STRING, Type.DOUBLE) or not _is_narrow(call.args[0]):
        return None
    return arguments[0].try_cast(DecimalType(integer_of(call.args[2]), integer_of(call.args[3])))


def _sub(call: Call, arguments: list[SparkColumn]) -> SparkColumn:
    left, right = arguments
    return sf.date_diff(left, right).cast("bigint") if call.args[0].type is Type.DATE else left - right


_OPERATIONS: dict[str, _Operation] = {
    "add": _plain(operator.add),  # these five of doubles only, see `overflows`
    "sub": _sub,
    "mul": _plain(operator.mul),
    "neg": _plain(operator.neg),
    "abs": _plain(sf.abs),
    "div": _plain(sf.try_divide),
    "mod": _plain(sf.try_mod),
    "to_double": lambda call, arguments: arguments[0].cast("double"),
    "decimal_to_double": lambda call, arguments: arguments[0].cast("double"),
    "decimal_to_integer": lambda call, arguments: arguments[0].try_cast("bigint") if _is_narrow(call.args[0]) else None,
    "to_decimal": _to_decimal,
    "scale_up": _scale_up,
    "to_timestamp": lambda call, arguments: sf.unix_date(arguments[0]).cast("bigint") * sf.lit(_UNITS["DAY"]),
    "eq": _plain(operator.eq),
    "ne": _plain(operator.ne),
    "lt": _plain(operator.lt),
    "le": _plain(operator.le),
    "gt": _plain(operator.gt),
    "ge": _plain(operator.ge),
    "and": _all(operator.and_),
    "or": _all(operator.or_),
    "not": _plain(operator.invert),
    "is_null": lambda call, arguments: arguments[0].isNull(),
    "like": _like,
    "in": _in,
    "case": _case,
    "coalesce": _plain(sf.coalesce),
    "least": _plain(sf.least),
    "greatest": _plain(sf.greatest),
    "length": lambda call, arguments: sf.length(arguments[0]).cast("bigint"),
    "substring": _substring,
    "concat": _plain(sf.concat),
    "trim": _plain(sf.trim),
    "sqrt": _plain(sf.sqrt),
    "cast": _cast,
    "to_int": lambda call, arguments: sf.when(arguments[0].between(-(2**31), 2**31 - 1), arguments[0]),
    "year": _date_part(sf.year),
    "month": _date_part(sf.month),
    "day": _date_part(sf.dayofmonth),
    "dayofweek": _date_part(sf.dayofweek),
    "hour": _part(_UNITS["DAY"], _UNITS["HOUR"]),
    "minute": _part(_UNITS["HOUR"], _UNITS["MINUTE"]),
    "second": _part(_UNITS["MINUTE"], _UNITS["SECOND"]),
}
