"""Values brought to a common type, and literals to their 64-bit values (SEMANTICS 1). Mistakes are raised as QueryError."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from keuka.diagnostics import Diagnostic, Span
from keuka.errors import QueryError
from keuka.expressions import Call, Expression, Literal
from keuka.schema import MAX_TICK, MICROSECONDS, Type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
NUMERIC = frozenset([Type.INTEGER, Type.DOUBLE])
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_QUOTED = re.compile(rf"(['\"])\s*({_NUMBER}(?:\s*([a-z]+))?)\s*\1", re.IGNORECASE)


def wrong_type(message: str, at: Expression, *help: str) -> QueryError:
    return QueryError(Diagnostic("K205", message, at.span, f"this is {described(at.type)}", help))


def described(type: Type) -> str:
    """The type with its article, for messages."""
    special = {Type.NULL: "NULL", Type.OTHER: "of a type that is only passed on", Type.INTEGER: "an integer"}
    return special.get(type, f"a {type.value}")


def integer_literal(digits: str, span: Span) -> Literal:
    """An integer of 64 bits. The length is tested first because Python refuses to convert thousands of digits."""
    significant = digits.lstrip("-0")
    value = int(significant or "0") * (-1 if digits[0] == "-" else 1) if len(significant) <= 19 else MAX_TICK + 1
    if not -MAX_TICK - 1 <= value <= MAX_TICK:
        help = f"integers reach from {-MAX_TICK - 1} to {MAX_TICK}; with a decimal point it is a double"
        raise QueryError(Diagnostic("K102", "this integer does not fit into 64 bits", span, help=(help,)))
    return Literal(value, Type.INTEGER, span)


def double_literal(digits: str, span: Span) -> Literal:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise QueryError(Diagnostic("K102", "this number is too large for a double", span, help=("doubles reach to about 1.8e308",)))
    return Literal(value, Type.DOUBLE, span)


def ticks(digits: str, unit_us: int, tick_us: int | None, span: Span) -> Literal:
    """A duration, a number of units of so many microseconds, as a number of ticks of a clock."""
    if tick_us is None:
        help = ('declare what one tick of the time column is, for example `unit="s"`', "or write plain ticks, a number without a unit")
        raise QueryError(Diagnostic("K210", "the time column of this stream has no unit", span, "how many ticks is this?", help))
    is_zero = not digits.lower().split("e")[0].strip("-.0")
    # 1e-999999999 as a fraction would fill the memory, so its size is looked at first.
    if not is_zero and (not 1e-30 < abs(float(digits)) < 1e30 or len(digits) > 60):
        raise QueryError(Diagnostic("K210", "this duration does not fit into 64 bits of ticks", span))
    count = Fraction(0) if is_zero else Fraction(digits) * unit_us / tick_us
    if count.denominator != 1:
        size = "a microsecond" if tick_us == 1 else f"{Decimal(tick_us) / 1_000_000:f} s"
        message = "this duration is not a whole number of ticks"
        raise QueryError(Diagnostic("K210", message, span, help=(f"one tick of this stream is {size}",)))
    if abs(count) > MAX_TICK:
        raise QueryError(Diagnostic("K210", "this duration does not fit into 64 bits of ticks", span))
    return Literal(int(count), Type.INTEGER, span)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970; a time without a zone is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def to_double(expression: Expression) -> Expression:
    if expression.type is not Type.INTEGER:
        return retype(expression, Type.DOUBLE)
    if isinstance(expression, Literal):
        return Literal(None if expression.value is None else float(expression.value), Type.DOUBLE, expression.span)
    return Call("to_double", (expression,), Type.DOUBLE, expression.span)


def retype(expression: Expression, type: Type) -> Expression:
    """NULL as a value of the type; anything else as it is."""
    if expression.type is not Type.NULL:
        return expression
    if isinstance(expression, Call):
        is_value = [expression.op != "case" or i % 2 == 1 or i == len(expression.args) - 1 for i in range(len(expression.args))]
        args = tuple([retype(arg, type) if chosen else arg for arg, chosen in zip(expression.args, is_value, strict=True)])
        return replace(expression, args=args, type=type)
    return replace(expression, type=type) if isinstance(expression, Literal) else expression


def as_type(expression: Expression, type: Type) -> Expression | None:
    """The expression as a value of exactly this type, or None if it cannot be one."""
    if expression.type is Type.NULL:
        return retype(expression, type)
    if expression.type is Type.INTEGER and type is Type.DOUBLE:
        return to_double(expression)
    if expression.type is Type.STRING and type is Type.TIMESTAMP and isinstance(expression, Literal):
        return _timestamp(expression)
    return expression if expression.type is type else None


def unify(expressions: Sequence[Expression], task: str) -> tuple[Expression, ...]:
    """The expressions with one common type; all NULL stay NULL. `task` completes the message: "cannot {task} ..."."""
    types = {e.type for e in expressions} - {Type.NULL}
    if not types:
        return tuple(expressions)
    if types <= NUMERIC:
        common = Type.DOUBLE if Type.DOUBLE in types else Type.INTEGER
    elif Type.TIMESTAMP in types:
        common = Type.TIMESTAMP
    else:
        common = next(e.type for e in expressions if e.type is not Type.NULL)
    united: list[Expression] = []
    for expression in expressions:
        converted = as_type(expression, common)
        if converted is None:
            other = next(e for e in expressions if e.type is not expression.type and e.type is not Type.NULL)
            raise _no_common_type(task, expression, other)
        united.append(converted)
    return tuple(united)


def without_quotes(expression: Expression) -> tuple[str, ...]:
    """A help line if this is a number or a duration that someone wrote in quotes."""
    quoted = None if expression.span is None else _QUOTED.fullmatch(expression.span.text)
    if quoted is None or (quoted[3] is not None and quoted[3].lower() not in MICROSECONDS):
        return ()
    return (f"write `{quoted[2]}`, without quotes",)


def _no_common_type(task: str, expression: Expression, other: Expression) -> QueryError:
    help: tuple[str, ...] = ()
    if {expression.type, other.type} == {Type.TIMESTAMP, Type.STRING}:
        help = ("only a text written in the query can be read as a time: `'2024-05-01T09:30:00'`",)
    elif {expression.type, other.type} == {Type.TIMESTAMP, Type.INTEGER}:
        help = ("a time is written `'2024-05-01T09:30:00'`; the difference of two timestamps is an integer",)
    elif {expression.type, other.type} - NUMERIC == {Type.STRING}:
        text, number = (expression, other) if expression.type is Type.STRING else (other, expression)
        help = without_quotes(text) or _with_quotes(number) or ("text and numbers are not converted into each other",)
    return wrong_type(f"cannot {task} {described(other.type)} and {described(expression.type)}", expression, *help)


def _with_quotes(expression: Expression) -> tuple[str, ...]:
    written = "" if expression.span is None else expression.span.text
    return (f"as text it stands in quotes: `'{written}'`",) if re.fullmatch(_NUMBER, written) else ()


def _timestamp(literal: Literal) -> Literal:
    assert isinstance(literal.value, str)
    try:
        return Literal(microseconds(datetime.fromisoformat(literal.value.strip())), Type.TIMESTAMP, literal.span)
    except ValueError:
        help = "write the time like `'2024-05-01T09:30:00'` or `'2024-05-01 09:30:00+02:00'`; without a zone it is UTC"
        finding = Diagnostic("K205", f"`{literal.value}` is not a time", literal.span, "taken together with a timestamp", (help,))
        raise QueryError(finding) from None
