"""The functions of value expressions and their type rules; names are not case-sensitive, meanings are Spark SQL's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from keuka.algebra.conversions import CASTS, LENGTHS, MONTHS, zone_named
from keuka.diagnostics import Diagnostic, Span, listing, similar
from keuka.errors import QueryError
from keuka.expressions import SQL_NAMES, Call, Expression, Literal, scale_of, zone_of
from keuka.languages.coercion import NUMERIC, as_type, described, retype, to_double, unify, without_quotes, wrong_type
from keuka.languages.values import Name
from keuka.schema import MOST_DIGITS, Type

Arguments = tuple[Expression, ...]
_WHOLE_STRING = 2**31 - 1  # no string is longer, so this length never cuts


@dataclass(frozen=True)
class Function:
    """`apply` gets the operation's name, the typed arguments and the span of the call."""

    fewest: int
    most: int | None
    apply: Callable[[str, Arguments, Span], Expression]


def apply_function(name: Name, arguments: Arguments, span: Span) -> Expression:
    operation = _SYNONYMS.get(name.text.lower(), name.text.lower())
    return FUNCTIONS[operation].apply(operation, arguments, span)


def check_function(name: Name, n_arguments: int, span: Span) -> None:
    """Does the function exist and take so many arguments?"""
    operation = _SYNONYMS.get(name.text.lower(), name.text.lower())
    if operation not in FUNCTIONS:
        known = {*FUNCTIONS, *_SYNONYMS}
        help = ADVICE.get(operation) or (*similar(name.text.lower(), known), f"functions: {listing(sorted(known), 20)}")
        raise QueryError(Diagnostic("K206", f"there is no function `{name.text}`", name.span, help=help))
    function = FUNCTIONS[operation]
    if n_arguments < function.fewest or (function.most is not None and n_arguments > function.most):
        message = f"`{name.text}` takes {_count(function)}, not {n_arguments}"
        raise QueryError(Diagnostic("K206", message, span))


def _count(function: Function) -> str:
    if function.most is None:
        return f"{function.fewest} or more arguments"
    numbers = " or ".join([str(n) for n in range(function.fewest, function.most + 1)])
    return f"{numbers} argument{'' if numbers == '1' else 's'}"


def number(expression: Expression, task: str) -> Expression:
    """The expression if it is a number; NULL counts as an integer."""
    if expression.type in NUMERIC:
        return expression
    if expression.type is Type.NULL:
        return retype(expression, Type.INTEGER)
    raise wrong_type(f"{task} needs a number", expression, *without_quotes(expression))


def string(expression: Expression, task: str) -> Expression:
    converted = as_type(expression, Type.STRING)
    if converted is None:
        raise wrong_type(f"{task} needs a string", expression)
    return converted


def _integer(expression: Expression, task: str) -> Expression:
    converted = as_type(expression, Type.INTEGER)
    if converted is None:
        raise wrong_type(f"{task} needs an integer", expression)
    return converted


def _absolute(operation: str, arguments: Arguments, span: Span) -> Expression:
    argument = number(arguments[0], "`abs`")
    return Call(operation, (argument,), argument.type, span)


def _to_integer(operation: str, arguments: Arguments, span: Span) -> Expression:
    argument = number(arguments[0], f"`{operation}`")
    if argument.type is Type.INTEGER:
        return replace(argument, span=span)
    return Call(operation, (to_double(argument),), Type.INTEGER, span)


def _round(operation: str, arguments: Arguments, span: Span) -> Expression:
    argument = number(arguments[0], "`round`")
    argument = to_double(argument) if argument.type is Type.DECIMAL else argument
    digits = _integer(arguments[1], "the number of digits of `round`") if len(arguments) == 2 else Literal(0, Type.INTEGER, span)
    if not isinstance(digits, Literal):
        message = "the number of digits of `round` must be a constant"
        raise QueryError(Diagnostic("K205", message, digits.span, help=("write a number or a parameter: `round(Price, 2)`",)))
    return Call(operation, (argument, digits), argument.type, span)


def _common(operation: str, arguments: Arguments, span: Span) -> Expression:
    united = unify(arguments, "choose from")
    return Call(operation, united, united[0].type, span)


def _of_string(operation: str, arguments: Arguments, span: Span) -> Expression:
    type = Type.INTEGER if operation == "length" else Type.STRING
    return Call(operation, (string(arguments[0], f"`{operation}`"),), type, span)


def _substring(operation: str, arguments: Arguments, span: Span) -> Expression:
    text = string(arguments[0], "`substring`")
    position = _integer(arguments[1], "the position of `substring`")
    length = _integer(arguments[2], "the length of `substring`") if len(arguments) == 3 else Literal(_WHOLE_STRING, Type.INTEGER, span)
    return Call(operation, (text, position, length), Type.STRING, span)


def _concat(operation: str, arguments: Arguments, span: Span) -> Expression:
    return Call(operation, tuple([string(a, "`concat`") for a in arguments]), Type.STRING, span)


def _mathematics(operation: str, arguments: Arguments, span: Span) -> Expression:
    doubles = [to_double(number(a, f"`{operation}`")) for a in arguments]
    return Call(operation, tuple(doubles), Type.DOUBLE, span)


def _regexp_like(operation: str, arguments: Arguments, span: Span) -> Expression:
    text, pattern = [string(a, "`regexp_like`") for a in arguments]
    if not isinstance(pattern, Literal):
        help = "write it in quotes or as a parameter: `regexp_like(name, '^A[0-9]+$')`"
        raise QueryError(Diagnostic("K205", "the pattern of `regexp_like` must be a constant", pattern.span, help=(help,)))
    if isinstance(pattern.value, str):
        _check_pattern(pattern.value, pattern.span)
    return Call(operation, (text, pattern), Type.BOOLEAN, span)


# What Spark's Java reads otherwise than RE2: sets in sets (`[a[b]]`, `[a&&b]`, `[[:alpha:]]`), \\v and \\C. RE2 itself refuses the rest.
_READ_OTHERWISE = re.compile(
    r"(?P<escape>\\[vC])|\\.|(?P<set>\[\^?\]?(?:\\.|[^\]\\[&]|&(?!&))*(?P<nested>\[|&&))|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL
)


def _check_pattern(pattern: str, span: Span | None) -> None:
    """Refuse what RE2 cannot search for, and what Spark would search for otherwise."""
    for found in _READ_OTHERWISE.finditer(pattern):
        wrong = found["escape"] or found["nested"]
        if wrong is not None:
            help = (
                "in a class write `\\[` and `\\&` for these characters"
                if found["nested"]
                else "write the characters as a class, `[\\n\\r]`"
            )
            message = f"`{wrong}` means something else in other regular expressions"
            raise QueryError(Diagnostic("K230", message, span, help=(help, _SYNTAX)))
    try:
        pc.match_substring_regex(pa.array([""], pa.large_string()), pattern)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise QueryError(Diagnostic("K230", f"the pattern is no regular expression: {reason}", span, help=(_SYNTAX,))) from None


_SYNTAX = "patterns have the syntax of RE2: classes, repetitions, groups, `|`, `^`, `$`, `(?i)`; no lookaheads, no references to groups"


def _time(expression: Expression, task: str) -> Expression:
    converted = as_type(expression, Type.TIMESTAMP)
    if converted is None:
        raise wrong_type(f"{task} needs a time", expression, "for seconds since 1970 write `cast(x AS TIMESTAMP)`")
    return converted


def _zone(expression: Expression) -> Literal | None:
    """The zone in which the parts of the time are asked for; None for UTC."""
    name = zone_of(expression)
    if name is None or name in ("UTC", "Etc/UTC", "Z", "+00:00"):
        return None
    try:
        zone_named(name)
    except (KeyError, ValueError, OSError):
        message = f"the time zone `{name}` is not known here"
        raise QueryError(
            Diagnostic("K514", message, expression.span, help=("convert the column to UTC, or install the data of zones",))
        ) from None
    return Literal(name, Type.STRING, expression.span)


def _local(time: Expression) -> Expression:
    zone = _zone(time)
    return time if zone is None else Call("local", (time, zone), Type.TIMESTAMP, time.span)


def _part_of_time(operation: str, arguments: Arguments, span: Span) -> Expression:
    return Call(operation, (_local(_time(arguments[0], f"`{operation}`")),), Type.INTEGER, span)


# Spark's names for the units of date_trunc.
_UNITS = {name: name for name in (*LENGTHS, *MONTHS)}
_UNITS |= {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}


def _date_trunc(operation: str, arguments: Arguments, span: Span) -> Expression:
    unit, time = arguments[0], _time(arguments[1], "`date_trunc`")
    name = unit.value.lower() if isinstance(unit, Literal) and isinstance(unit.value, str) else None
    if name not in _UNITS:
        help = f"units: {listing((*LENGTHS, *MONTHS), 20)}; the unit comes first: `date_trunc('hour', ts)`"
        raise QueryError(Diagnostic("K205", "the first argument of `date_trunc` must be a unit of time", unit.span, help=(help,)))
    zone = _zone(time) if _UNITS[name] not in ("microsecond", "millisecond", "second") else None
    args = (Literal(_UNITS[name], Type.STRING, unit.span), time, *([] if zone is None else [zone]))
    return Call(operation, args, Type.TIMESTAMP, span)


# The names of types in a cast. INT has 32 bits in Spark: what does not fit is NULL.
TYPES = {
    "boolean": Type.BOOLEAN,
    "int": Type.INTEGER,
    "integer": Type.INTEGER,
    "bigint": Type.INTEGER,
    "long": Type.INTEGER,
    "double": Type.DOUBLE,
    "string": Type.STRING,
    "timestamp": Type.TIMESTAMP,
    "date": Type.DATE,
    "decimal": Type.DECIMAL,
    "dec": Type.DECIMAL,
    "numeric": Type.DECIMAL,
}
_PLAIN_DECIMAL = (10, 0)  # digits of a DECIMAL alone, in Spark


def cast(value: Expression, type: Name, digits: tuple[Name, ...], span: Span) -> Expression:
    """The value as one of the type; NULL where it cannot be converted, as Spark's try_cast has it."""
    target = TYPES.get(type.text.lower())
    if target is None:
        help = (*similar(type.text.lower(), TYPES), f"types: {listing((*SQL_NAMES.values(), 'INT'), 20)}")
        raise QueryError(Diagnostic("K231", f"values cannot be cast to `{type.text}`", type.span, help=help))
    if target is Type.DECIMAL:
        return _decimal(value, *_digits(digits), span)
    if digits:
        message = f"`{type.text}` has no number of digits"
        raise QueryError(
            Diagnostic("K231", message, digits[0].span, help=(f"write `{type.text}`; only DECIMAL has digits: `DECIMAL(10, 2)`",))
        )
    converted = _converted(value, target, span)
    return Call("to_int", (converted,), target, span) if type.text.lower() in ("int", "integer") else converted


def _digits(digits: tuple[Name, ...]) -> tuple[int, int]:
    """Precision and scale."""
    if not digits:
        return _PLAIN_DECIMAL
    # Python refuses to convert thousands of digits, and no number of three is right.
    precision, scale = [int(d.text) if len(d.text.lstrip("0")) < 3 else 99 for d in digits] + [0] * (2 - len(digits))
    if not 1 <= precision <= MOST_DIGITS:
        help = f"decimals have up to {MOST_DIGITS} digits here: `DECIMAL({MOST_DIGITS}, {min(scale, MOST_DIGITS)})`"
        raise QueryError(Diagnostic("K231", f"a decimal cannot have {digits[0].text} digits", digits[0].span, help=(help,)))
    if scale > precision:
        message = f"a decimal of {precision} digits cannot have {digits[1].text} of them behind the point"
        help = "the first number counts all digits, the second one those behind the point: `DECIMAL(10, 2)`"
        raise QueryError(Diagnostic("K231", message, digits[1].span, help=(help,)))
    return precision, scale


def _decimal(value: Expression, precision: int, scale: int, span: Span) -> Expression:
    """The value as a decimal; a number that is written with a point is one already, as in Spark."""
    exact = Literal(value.written, Type.DECIMAL, value.span) if isinstance(value, Literal) and isinstance(value.written, Decimal) else value
    exact = retype(exact, Type.INTEGER)
    if exact.type not in (Type.BOOLEAN, Type.INTEGER, Type.DOUBLE, Type.STRING, Type.DECIMAL):
        raise _no_cast(value, Type.DECIMAL)
    own_scale = scale_of(exact)
    if exact.type is Type.DECIMAL and (own_scale, precision) == (scale, MOST_DIGITS):
        return replace(exact, span=span)
    numbers = [Literal(n, Type.INTEGER, span) for n in (own_scale, precision, scale)]
    return Call("to_decimal", (exact, *numbers), Type.DECIMAL, span)


def _converted(value: Expression, target: Type, span: Span) -> Expression:
    if value.type is Type.NULL:
        return retype(value, target)
    if value.type is target:
        return replace(value, span=span)
    if (value.type, target) in ((Type.DATE, Type.TIMESTAMP), (Type.DECIMAL, Type.DOUBLE)):
        converted = as_type(value, target)
        assert converted is not None
        return replace(converted, span=span)
    if value.type is Type.DECIMAL and target in (Type.INTEGER, Type.STRING):
        scale = Literal(scale_of(value), Type.INTEGER, span)
        return Call("decimal_to_integer" if target is Type.INTEGER else "decimal_to_string", (value, scale), target, span)
    if (value.type, target) not in CASTS:
        raise _no_cast(value, target)
    return Call("cast", (_local(value) if target in (Type.STRING, Type.DATE) else value,), target, span)


_DAYS = "`d - '1970-01-01'` is the number of days since 1970"
_SECONDS = "for seconds since 1970 cast it to DOUBLE first"
_INSTEAD = {
    (Type.DOUBLE, Type.STRING): "programs write doubles in different ways; an integer is written in one: `cast(floor(x) AS STRING)`",
    **dict.fromkeys([(Type.DATE, Type.INTEGER), (Type.DATE, Type.DOUBLE), (Type.DATE, Type.DECIMAL)], _DAYS),
    (Type.INTEGER, Type.DATE): "`cast('1970-01-01' AS DATE) + n` is the day n days after 1970-01-01",
    (Type.TIMESTAMP, Type.DECIMAL): _SECONDS,
    (Type.DECIMAL, Type.TIMESTAMP): _SECONDS,
}


def _no_cast(value: Expression, target: Type) -> QueryError:
    message = f"{described(value.type)} cannot be cast to {SQL_NAMES[target]}"
    help = _INSTEAD.get((value.type, target))
    return QueryError(Diagnostic("K231", message, value.span, help=() if help is None else (help,)))


FUNCTIONS = {
    "abs": Function(1, 1, _absolute),
    "round": Function(1, 2, _round),
    "floor": Function(1, 1, _to_integer),
    "ceil": Function(1, 1, _to_integer),
    "least": Function(2, None, _common),
    "greatest": Function(2, None, _common),
    "coalesce": Function(1, None, _common),
    "lower": Function(1, 1, _of_string),
    "upper": Function(1, 1, _of_string),
    "length": Function(1, 1, _of_string),
    "substring": Function(2, 3, _substring),
    "concat": Function(1, None, _concat),
    "trim": Function(1, 1, _of_string),
    "regexp_like": Function(2, 2, _regexp_like),
    "sqrt": Function(1, 1, _mathematics),
    "ln": Function(1, 1, _mathematics),
    "exp": Function(1, 1, _mathematics),
    "pow": Function(2, 2, _mathematics),
    **{part: Function(1, 1, _part_of_time) for part in ("year", "month", "day", "hour", "minute", "second", "dayofweek")},
    "date_trunc": Function(2, 2, _date_trunc),
}
_SYNONYMS = {"ceiling": "ceil", "substr": "substring", "power": "pow"}
_FOLDS = (
    "functions work on the values of one event; sums and counts over events are kept by a FOLD: `$.cnt + 1 AS cnt`",
    "its first condition keeps groups apart, as GROUP BY does: `FOLD {$2.key = $.key, TRUE, $.cnt + 1 AS cnt} stream`",
)
_COALESCE = ("`coalesce(a, b)` is the first value that is not NULL",)
_CASE = ("write `CASE WHEN condition THEN value ELSE other END`",)
_CAST = ("write the type after `AS`: `cast(x AS BIGINT)`",)
# How to write what functions of SQL do that are none here.
ADVICE = {
    "min": ("`least(a, b)` is the smaller of two values; over events: `least($.low, $2.Price) AS low` in a FOLD",),
    "max": ("`greatest(a, b)` is the larger of two values; over events: `greatest($.high, $2.Price) AS high` in a FOLD",),
    **dict.fromkeys(["count", "sum", "avg"], _FOLDS),
    **dict.fromkeys(["if", "iff", "iif"], _CASE),
    **dict.fromkeys(["ifnull", "nvl"], _COALESCE),
    **dict.fromkeys(["cast", "try_cast", "convert"], _CAST),
}
