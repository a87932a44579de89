"""The functions of value expressions and their type rules; names are not case-sensitive, meanings are Spark SQL's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from keuka.diagnostics import Diagnostic, Span, listing, similar
from keuka.errors import QueryError
from keuka.expressions import Call, Expression, Literal
from keuka.languages.coercion import NUMERIC, as_type, retype, unify, without_quotes, wrong_type
from keuka.languages.values import Name
from keuka.schema import Type

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
    return Call(operation, (argument,), Type.INTEGER, span)


def _round(operation: str, arguments: Arguments, span: Span) -> Expression:
    argument = number(arguments[0], "`round`")
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
}
_SYNONYMS = {"ceiling": "ceil", "substr": "substring"}
_FOLDS = (
    "functions work on the values of one event; sums and counts over events are kept by a FOLD: `$.cnt + 1 AS cnt`",
    "its first condition keeps groups apart, as GROUP BY does: `FOLD {$2.key = $.key, TRUE, $.cnt + 1 AS cnt} stream`",
)
_COALESCE = ("`coalesce(a, b)` is the first value that is not NULL",)
_CASE = ("write `CASE WHEN condition THEN value ELSE other END`",)
_CAST = ("values are not cast: integers become doubles by themselves, `floor(x)` and `ceil(x)` make integers of doubles",)
# How to write what functions of SQL do that are none here.
ADVICE = {
    "min": ("`least(a, b)` is the smaller of two values; over events: `least($.low, $2.Price) AS low` in a FOLD",),
    "max": ("`greatest(a, b)` is the larger of two values; over events: `greatest($.high, $2.Price) AS high` in a FOLD",),
    **dict.fromkeys(["count", "sum", "avg"], _FOLDS),
    **dict.fromkeys(["if", "iff", "iif"], _CASE),
    **dict.fromkeys(["ifnull", "nvl"], _COALESCE),
    **dict.fromkeys(["cast", "convert"], _CAST),
}
