"""Values brought to a common type, and literals to their 64-bit values (docs/semantics.md, 1). Mistakes are raised as QueryError."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import MAX_PREC, Context, Decimal, InvalidOperation
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc

from keuka.diagnostics import Diagnostic, Span
from keuka.errors import QueryError
from keuka.expressions import Call, Expression, Literal, scale_of, zone_of
from keuka.schema import MAX_TICK, MICROSECONDS, MOST_DIGITS, MOST_SCALE, Attribute, Type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=MAX_PREC)
DAY = MICROSECONDS["day"]
NUMERIC = frozenset([Type.INTEGER, Type.DOUBLE, Type.DECIMAL])
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_QUOTED = re.compile(rf"(['\"])\s*({_NUMBER}(?:\s*([a-z]+))?)\s*\1", re.IGNORECASE)


def wrong_type(message: str, at: Expression, *help: str) -> QueryError:
    return QueryError(Diagnostic("K205", message, at.span, f"this is {described(at.type)}", help))


def described(type: Type) -> str:
    """The type with its article, for messages."""
    special = {Type.NULL: "NULL", Type.OTHER: "of a type that is only passed on", Type.INTEGER: "an integer"}
    return special.get(type, f"a {type.value}")


def described_attribute(attribute: Attribute) -> str:
    """The type of a column with its article; as in tables where there are several of one kind."""
    return f"a {attribute.arrow}" if attribute.type in (Type.OTHER, Type.DECIMAL) else described(attribute.type)


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
    return Literal(value, Type.DOUBLE, span, written=as_decimal(digits))


def as_decimal(digits: str | Decimal) -> Decimal | None:
    """The number with its digits behind the point as a decimal has them; None if it needs more than a decimal has."""
    # 1e999999999 would fill the memory if it were written out, so its size is looked at first.
    try:
        sign, figures, exponent = Decimal(digits).as_tuple()
    except InvalidOperation:  # an exponent of more than 18 digits
        return None
    if not isinstance(exponent, int) or not -MOST_SCALE <= exponent <= MOST_DIGITS or len(figures) + max(0, exponent) > MOST_DIGITS:
        return None
    return Decimal((sign, figures, exponent)) if exponent <= 0 else Decimal(int(Decimal((sign, figures, exponent))))


def ticks(digits: str, unit_us: int, tick_us: int | None, span: Span, shown: str) -> Literal:
    """A duration, a number of units of so many microseconds, as a number of ticks of a clock; `shown` is how people write it."""
    if tick_us is None:
        help = ('declare what one tick of the time column is, for example `unit="s"`', "or write plain ticks, a number without a unit")
        raise QueryError(Diagnostic("K210", "the time column of this stream has no unit", span, "how many ticks is this?", help))
    is_zero = not digits.lower().split("e")[0].strip("-.0")
    # 1e-999999999 as a fraction would fill the memory, so its size is looked at first.
    if not is_zero and (not 1e-30 < abs(float(digits)) < 1e30 or len(digits) > 60):
        raise QueryError(Diagnostic("K210", "this duration does not fit into 64 bits of ticks", span))
    count = Fraction(0) if is_zero else Fraction(digits) * unit_us / tick_us
    if count.denominator != 1:
        size = "a microsecond" if tick_us == 1 else "a day" if tick_us == DAY else f"{Decimal(tick_us) / 1_000_000:f} s"
        message = "this duration is not a whole number of ticks"
        raise QueryError(Diagnostic("K210", message, span, help=(f"one tick is {size} here",)))
    if abs(count) > MAX_TICK:
        raise QueryError(Diagnostic("K210", "this duration does not fit into 64 bits of ticks", span))
    return Literal(int(count), Type.INTEGER, span, shown)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970; a time without a zone is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def days(day: date) -> int:
    """Days since 1970."""
    return day.toordinal() - _EPOCH.toordinal()


def to_double(expression: Expression) -> Expression:
    if expression.type not in (Type.INTEGER, Type.DECIMAL):
        return retype(expression, Type.DOUBLE)
    if isinstance(expression, Literal):
        return Literal(None if expression.value is None else float(expression.value), Type.DOUBLE, expression.span)
    if expression.type is Type.DECIMAL:
        scale = Literal(scale_of(expression), Type.INTEGER, expression.span)
        return Call("decimal_to_double", (expression, scale), Type.DOUBLE, expression.span)
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
    if expression.type in (Type.INTEGER, Type.DECIMAL) and type is Type.DOUBLE:
        return to_double(expression)
    if expression.type is Type.DATE and type is Type.TIMESTAMP:
        return _in_zone(expression, None)
    if expression.type is Type.STRING and type in (Type.TIMESTAMP, Type.DATE) and isinstance(expression, Literal):
        return _timestamp(expression, None) if type is Type.TIMESTAMP else _date(expression)
    return expression if expression.type is type else None


def as_attribute(expression: Expression, attribute: Attribute) -> Expression | None:
    """The expression as a value of the attribute, or None if it cannot be one."""
    if attribute.type is not Type.DECIMAL:
        return None if attribute.type is Type.OTHER else as_type(expression, attribute.type)
    if not is_exact(expression) or scale_of(_as_exact(expression)) > attribute.arrow.scale:
        return None
    return with_scale(_as_exact(expression), attribute.arrow.scale)


# -- decimals --------------------------------------------------------------------------------------------------------------


def is_exact(expression: Expression) -> bool:
    """Does it count as a decimal beside one: integers, decimals, and numbers that are written with a point in the query?"""
    written = isinstance(expression, Literal) and isinstance(expression.written, Decimal)
    return expression.type in (Type.INTEGER, Type.DECIMAL, Type.NULL) or written


def are_decimals(expressions: Sequence[Expression]) -> bool:
    """Is there a decimal, and nothing that makes all of them doubles?"""
    return any(e.type is Type.DECIMAL for e in expressions) and all(is_exact(e) for e in expressions)


def aligned(expressions: Sequence[Expression], op: str) -> tuple[Expression, ...]:
    """Decimals, and what counts as one beside them, with as many digits behind the point as the one with most.

    `op` is what is done to the others: `scale_up` to compare two of them, or to compute with them, else `rescale`.
    """
    exact = [_as_exact(e) for e in expressions]
    scale = max([scale_of(e) for e in exact])
    return tuple([with_scale(e, scale, op) for e in exact])


def with_scale(expression: Expression, scale: int, op: str = "rescale") -> Expression:
    """A number that has no more digits behind the point, with so many."""
    more = scale - scale_of(expression)
    if isinstance(expression, Literal):
        if expression.value is None:
            return replace(expression, type=Type.DECIMAL)
        value = Decimal(expression.value).quantize(Decimal((0, (1,), -scale)), context=_EXACT)
        if op == "scale_up" or len(value.as_tuple().digits) <= MOST_DIGITS:
            return Literal(value, Type.DECIMAL, expression.span)
    if expression.type is Type.DECIMAL and more == 0:
        return expression
    return Call(op, (expression, Literal(more, Type.INTEGER, expression.span)), Type.DECIMAL, expression.span)


def _as_exact(expression: Expression) -> Expression:
    if isinstance(expression, Literal) and isinstance(expression.written, Decimal):
        return Literal(expression.written, Type.DECIMAL, expression.span)
    return retype(expression, Type.DECIMAL)


# -- common types ----------------------------------------------------------------------------------------------------------


def comparable(left: Expression, right: Expression) -> tuple[Expression, ...]:
    """Two values as such of one type, whose kernel values compare as they do."""
    if are_decimals((left, right)):
        return aligned((left, right), "scale_up")
    return tuple([retype(e, Type.INTEGER) for e in unify((left, right), "compare")])


def unify(expressions: Sequence[Expression], task: str) -> tuple[Expression, ...]:
    """The expressions with one common type; all NULL stay NULL. `task` completes the message: "cannot {task} ..."."""
    types = {e.type for e in expressions} - {Type.NULL}
    if not types:
        return tuple(expressions)
    if are_decimals(expressions):
        return aligned(expressions, "rescale")
    if types <= {Type.DATE, Type.TIMESTAMP, Type.STRING} and types != {Type.STRING}:
        return _unify_times(expressions, task)
    if types <= NUMERIC:
        common = Type.INTEGER if types == {Type.INTEGER} else Type.DOUBLE
    elif types & {Type.TIMESTAMP, Type.DATE}:
        common = Type.TIMESTAMP if Type.TIMESTAMP in types else Type.DATE
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


def _unify_times(expressions: Sequence[Expression], task: str) -> tuple[Expression, ...]:
    """Dates, timestamps and texts that are one of them. A date among timestamps is its midnight in their zone."""
    read = [_time(e, expressions) if e.type is Type.STRING and isinstance(e, Literal) else e for e in expressions]
    text = next((e for e in read if e.type is Type.STRING), None)
    if text is not None:
        raise _no_common_type(task, text, next(e for e in read if e.type in (Type.DATE, Type.TIMESTAMP)))
    if all(e.type is not Type.TIMESTAMP for e in read):
        return tuple([retype(e, Type.DATE) for e in read])
    zone = next((zone for e in read if (zone := zone_of(e)) is not None), None)
    if zone not in (None, "UTC") and any(e.type is Type.DATE and not isinstance(e, Literal) for e in read):
        return tuple([_as_shown(e, str(zone)) for e in read])
    return tuple([_in_zone(e, zone) for e in read])


def _as_shown(expression: Expression, zone: str) -> Expression:
    """A timestamp as the clocks of the zone showed it, which a column of dates is compared with; a date is its midnight."""
    is_known = isinstance(expression, Literal) and (expression.type is not Type.TIMESTAMP or expression.written is not None)
    if expression.type is not Type.TIMESTAMP or is_known:
        return _in_zone(expression, None)
    return Call("local", (expression, Literal(zone, Type.STRING, expression.span)), Type.TIMESTAMP, expression.span)


def _time(literal: Literal, beside: Sequence[Expression]) -> Literal:
    """The text as a date beside nothing but dates, else as a timestamp."""
    if all(e.type is not Type.TIMESTAMP for e in beside) and re.fullmatch(r"\s*[0-9]{4}-?[0-9]{2}-?[0-9]{2}\s*", str(literal.value)):
        return _date(literal)
    return _timestamp(literal, "date" if all(e.type is not Type.TIMESTAMP for e in beside) else None)


def _in_zone(expression: Expression, zone: str | None) -> Expression:
    """A timestamp among timestamps of this zone: a date is its midnight there, and a time that is written without a zone is meant there."""
    if isinstance(expression, Literal) and isinstance(expression.value, int):
        is_date = expression.type is Type.DATE
        moment_us = int(expression.value) * (DAY if is_date else 1)
        if zone is not None and (is_date or expression.written is not None):
            moment_us = _local(moment_us, zone, expression.span)
        return Literal(moment_us, Type.TIMESTAMP, expression.span)
    if expression.type is Type.DATE:
        return Call("to_timestamp", (expression,), Type.TIMESTAMP, expression.span)
    return retype(expression, Type.TIMESTAMP)


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
    elif {expression.type, other.type} == {Type.DATE, Type.STRING}:
        help = ("only a text written in the query can be read as a date: `'2024-05-01'`",)
    elif {expression.type, other.type} == {Type.DATE, Type.INTEGER}:
        help = ("a date is written `'2024-05-01'`; the difference of two dates is an integer, in days",)
    elif {expression.type, other.type} == {Type.TIMESTAMP, Type.INTEGER}:
        help = ("a time is written `'2024-05-01T09:30:00'`; the difference of two timestamps is an integer",)
    elif {expression.type, other.type} - NUMERIC == {Type.STRING}:
        text, number = (expression, other) if expression.type is Type.STRING else (other, expression)
        help = without_quotes(text) or _with_quotes(number) or ("text and numbers are not converted into each other",)
    return wrong_type(f"cannot {task} {described(other.type)} and {described(expression.type)}", expression, *help)


def _with_quotes(expression: Expression) -> tuple[str, ...]:
    written = "" if expression.span is None else expression.span.text
    return (f"as text it stands in quotes: `'{written}'`",) if re.fullmatch(_NUMBER, written) else ()


def _timestamp(literal: Literal, beside: str | None) -> Literal:
    """A text as a timestamp. Beside a date it is what a clock in its own zone shows: the date is its midnight in that zone."""
    assert isinstance(literal.value, str)
    try:
        moment = datetime.fromisoformat(literal.value.strip())
    except ValueError:
        help = "write the time like `'2024-05-01T09:30:00'` or `'2024-05-01 09:30:00+02:00'`; without a zone it is in that of the column"
        what = f"taken together with a {beside or 'timestamp'}"
        raise QueryError(Diagnostic("K205", f"`{literal.value}` is not a time", literal.span, what, (help,))) from None
    if beside == "date":
        moment = moment.replace(tzinfo=None)
    return Literal(microseconds(moment), Type.TIMESTAMP, literal.span, written=moment if moment.tzinfo is None else None)


def _date(literal: Literal) -> Literal:
    try:
        return Literal(days(date.fromisoformat(str(literal.value).strip())), Type.DATE, literal.span)
    except ValueError:
        help = "write the date like `'2024-05-01'`"
        finding = Diagnostic("K205", f"`{literal.value}` is not a date", literal.span, "taken together with a date", (help,))
        raise QueryError(finding) from None


def _local(shown_us: int, zone: str, span: Span | None) -> int:
    """The instant at which clocks in the zone show this: the first one if there are two, and that of the jump if they jump over it."""
    try:
        shown = pa.array([shown_us], pa.timestamp("us"))
        instant = pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="latest")
    except pa.ArrowInvalid:
        help = "write the time with its zone: `'2024-05-01 09:30:00+02:00'`"
        raise QueryError(Diagnostic("K205", f"the zone `{zone}` of the column is not known here", span, help=(help,))) from None
    return int(instant.cast(pa.int64())[0].as_py())
