"""The type rules of value expressions, shared by all languages: syntax tree in, typed `keuka.expressions` out (SEMANTICS 1).

How a reference becomes a column is the language's affair and comes in with the Scope. Mistakes are noted in the Scope, and
an expression with a mistake in it is None, so that one wrong name is reported once and the rest is still checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from keuka.diagnostics import Diagnostic, Span
from keuka.errors import QueryError
from keuka.expressions import Call, Column, Duration, Expression, Literal
from keuka.languages.coercion import as_type, double_literal, integer_literal, retype, ticks, to_double, unify, wrong_type
from keuka.languages.functions import apply_function, check_function, number, string
from keuka.languages.values import (
    Constant,
    Dur,
    FunctionCall,
    Number,
    Operation,
    Parameter,
    Reference,
    Timespan,
    Value,
    children,
    ungrouped,
)
from keuka.schema import MICROSECONDS, Type


@dataclass(frozen=True)
class Scope:
    """Where an expression stands: what its names mean, what a tick is, and the list that collects mistakes.

    `column` raises a QueryError for a name it cannot place. `no_duration` says why DUR cannot stand here; empty if it can.
    """

    column: Callable[[Reference], Column]
    parameters: Mapping[str, Literal | timedelta]
    tick_us: int | None
    no_duration: str
    findings: list[Diagnostic]


def typed(value: Value, scope: Scope) -> Expression | None:
    """The expression with names resolved and types checked, or None after noting what is wrong with it."""
    value = ungrouped(value)
    try:
        if not isinstance(value, Operation | FunctionCall):
            return _leaf(value, scope)
        if isinstance(value, Operation) and value.operator == "minus" and isinstance(value.operands[0], Number):
            return _number(value.operands[0], "-", value.span)
        # One Python frame per level of nesting: operands are typed here and only combined elsewhere.
        found: list[Expression | None] = []
        for operand in children(value):
            found.append(None if _is_timespan(operand, scope) else typed(operand, scope))
        operands = _with_timespans(children(value), found, scope)
        if isinstance(value, FunctionCall):
            check_function(value.name, len(value.arguments), value.span)
        if operands is None:
            return None
        if isinstance(value, FunctionCall):
            return apply_function(value.name, operands, value.span)
        return _OPERATIONS[value.operator](value.operator, operands, value.span)
    except QueryError as error:
        scope.findings.extend(error.diagnostics)
        return None


def predicate(value: Value, scope: Scope, place: str) -> Expression | None:
    """The expression as a condition; `place` names it in the message ("FILTER")."""
    expression = typed(value, scope)
    if expression is None:
        return None
    try:
        return _boolean(expression, f"the condition of {place}")
    except QueryError as error:
        scope.findings.extend(error.diagnostics)
        return None


def misplaced_duration(value: Dur, help: str) -> QueryError:
    return QueryError(Diagnostic("K211", "DUR cannot stand here", value.span, help=(help,)))


def _leaf(value: Value, scope: Scope) -> Expression | None:
    match value:
        case Constant():
            type = {bool: Type.BOOLEAN, str: Type.STRING}.get(value.value.__class__, Type.NULL)
            return Literal(value.value, type, value.span)
        case Number():
            return _number(value, "", value.span)
        case Parameter() | Timespan():
            return _given(value, scope, scope.tick_us)
        case Dur():
            if scope.no_duration:
                raise misplaced_duration(value, scope.no_duration)
            return Duration(value.span)
        case Reference():
            column = scope.column(value)
            if column.type is Type.OTHER:
                help = "a query can pass it on; it cannot be compared or computed with"
                raise wrong_type(f"the values of `{value.name}` cannot be used in an expression", column, help)
            return column
        case _:
            raise AssertionError(value)


def _number(value: Number, sign: str, span: Span) -> Literal:
    return integer_literal(sign + value.digits, span) if value.is_integer else double_literal(sign + value.digits, span)


def _given(value: Parameter | Timespan, scope: Scope, tick_us: int | None) -> Literal | None:
    """A parameter or a duration. A parameter without a value was reported when the parameters were read."""
    if isinstance(value, Timespan):
        return ticks(value.digits, MICROSECONDS[value.unit], tick_us, value.span)
    given = scope.parameters.get(value.name)
    if isinstance(given, timedelta):
        return ticks(str(given // timedelta(microseconds=1)), 1, tick_us, value.span)
    return None if given is None else Literal(given.value, given.type, value.span)


def _is_timespan(value: Value, scope: Scope) -> bool:
    value = ungrouped(value)
    return isinstance(value, Timespan) or (isinstance(value, Parameter) and isinstance(scope.parameters.get(value.name), timedelta))


def _with_timespans(values: tuple[Value, ...], found: list[Expression | None], scope: Scope) -> tuple[Expression, ...] | None:
    """The operands, durations among them in ticks: microseconds beside a timestamp or a difference of two, else the stream's ticks."""
    tick_us = 1 if any(_is_temporal(e) for e in found if e is not None) else scope.tick_us
    operands: list[Expression] = []
    for value, expression in zip(values, found, strict=True):
        inner = ungrouped(value)
        if expression is None and isinstance(inner, Timespan | Parameter) and _is_timespan(inner, scope):
            expression = _given(inner, scope, tick_us)
        if expression is not None:
            operands.append(expression)
    return tuple(operands) if len(operands) == len(values) else None


def _is_temporal(expression: Expression) -> bool:
    if isinstance(expression, Call) and expression.op == "sub":
        return expression.args[0].type is Type.TIMESTAMP
    return expression.type is Type.TIMESTAMP


def _boolean(expression: Expression, task: str) -> Expression:
    converted = as_type(expression, Type.BOOLEAN)
    if converted is None:
        raise wrong_type(f"{task} must be true or false", expression, "compare it with something: `Price > 10`")
    return converted


Operands = tuple[Expression, ...]


def _logical(operator: str, operands: Operands, span: Span) -> Expression:
    return Call(operator, tuple([_boolean(o, f"each side of `{operator.upper()}`") for o in operands]), Type.BOOLEAN, span)


def _negation(operator: str, operands: Operands, span: Span) -> Expression:
    return Call(operator, (_boolean(operands[0], "what follows `NOT`"),), Type.BOOLEAN, span)


def _comparison(operator: str, operands: Operands, span: Span) -> Expression:
    op = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[operator]
    return Call(op, _comparable(operands), Type.BOOLEAN, span)


def _comparable(operands: Operands) -> Operands:
    return tuple([retype(o, Type.INTEGER) for o in unify(operands, "compare")])


def _arithmetic(operator: str, operands: Operands, span: Span) -> Expression:
    op = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}[operator]
    if Type.TIMESTAMP in (operands[0].type, operands[1].type):
        return _time_arithmetic(op, operator, operands, span)
    left, right = [number(o, f"`{operator}`") for o in operands]
    if op == "div" or Type.DOUBLE in (left.type, right.type):
        return Call(op, (to_double(left), to_double(right)), Type.DOUBLE, span)
    return Call(op, (left, right), Type.INTEGER, span)


def _time_arithmetic(op: str, operator: str, operands: Operands, span: Span) -> Expression:
    """A difference of times, or a time moved by a number of ticks."""
    left, right = operands
    if op == "sub" and left.type is right.type:
        return Call(op, operands, Type.INTEGER, span)
    if op == "add" and right.type is Type.TIMESTAMP:
        left, right = right, left
    moved_by = as_type(right, Type.INTEGER)
    if op not in ("add", "sub") or left.type is not Type.TIMESTAMP or moved_by is None:
        help = "timestamps can be subtracted, and moved by a duration: `ts + 10 min`"
        raise wrong_type(f"`{operator}` does not work on these types", right if left.type is Type.TIMESTAMP else left, help)
    return Call(op, (left, moved_by), Type.TIMESTAMP, span)


def _minus(operator: str, operands: Operands, span: Span) -> Expression:
    operand = number(operands[0], "`-`")
    return Call("neg", (operand,), operand.type, span)


def _null_test(operator: str, operands: Operands, span: Span) -> Expression:
    return Call("is_null", (retype(operands[0], Type.INTEGER),), Type.BOOLEAN, span)


def _like(operator: str, operands: Operands, span: Span) -> Expression:
    return Call("like", tuple([string(o, "each side of `LIKE`") for o in operands]), Type.BOOLEAN, span)


def _membership(operator: str, operands: Operands, span: Span) -> Expression:
    return Call("in", _comparable(operands), Type.BOOLEAN, span)


def _between(operator: str, operands: Operands, span: Span) -> Expression:
    value, low, high = _comparable(operands)
    return Call("and", (Call("ge", (value, low), Type.BOOLEAN, span), Call("le", (value, high), Type.BOOLEAN, span)), Type.BOOLEAN, span)


def _case(operator: str, operands: Operands, span: Span) -> Expression:
    has_else = len(operands) % 2 == 1
    conditions = [_boolean(c, "what follows `WHEN`") for c in operands[: len(operands) - has_else : 2]]
    default = operands[-1] if has_else else Literal(None, Type.NULL, span)
    results = unify((*operands[1 : len(operands) - has_else : 2], default), "choose between")
    args = [part for pair in zip(conditions, results, strict=False) for part in pair]
    return Call("case", (*args, results[-1]), results[0].type, span)


def _case_of(operator: str, operands: Operands, span: Span) -> Expression:
    """`CASE x WHEN v THEN ...`: each v becomes the condition x = v."""
    compared, *rest = operands
    n_branches = len(rest) // 2
    for i in range(n_branches):
        rest[2 * i] = _comparison("=", (compared, rest[2 * i]), rest[2 * i].span or span)
    return _case("case", tuple(rest), span)


_OPERATIONS: dict[str, Callable[[str, Operands, Span], Expression]] = {
    **dict.fromkeys(["and", "or"], _logical),
    "not": _negation,
    **dict.fromkeys(["=", "<>", "<", "<=", ">", ">="], _comparison),
    **dict.fromkeys(["+", "-", "*", "/", "%"], _arithmetic),
    "minus": _minus,
    "is null": _null_test,
    "like": _like,
    "in": _membership,
    "between": _between,
    "case": _case,
    "case of": _case_of,
}
