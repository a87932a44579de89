"""The type rules of value expressions, shared by all languages: syntax tree in, typed `keuka.expressions` out (docs/semantics.md, 1).

How a reference becomes a column is the language's affair and comes in with the Scope. Mistakes are noted in the Scope, and
an expression with a mistake in it is None, so that one wrong name is reported once and the rest is still checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from keuka.diagnostics import Diagnostic, Span, listing, similar
from keuka.errors import QueryError
from keuka.expressions import Call, Column, Duration, Expression, Literal
from keuka.languages.coercion import (
    DAY,
    NUMERIC,
    aligned,
    are_decimals,
    as_type,
    comparable,
    described,
    double_literal,
    integer_literal,
    retype,
    ticks,
    to_double,
    unify,
    wrong_type,
)
from keuka.languages.functions import apply_function, cast, check_function, number, string
from keuka.languages.parameters import Given
from keuka.languages.values import (
    Cast,
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
from keuka.schema import MICROSECONDS, Attribute, Type, field_at, read_duration, write_duration


@dataclass(frozen=True)
class Scope:
    """Where an expression stands: what its names mean, what a tick is, and the list that collects mistakes.

    `column` raises a QueryError for a name it cannot place. `no_duration` says why DUR cannot stand here; empty if it can.
    """

    column: Callable[[Reference], Column]
    parameters: Mapping[str, Given]
    tick_us: int | None
    no_duration: str
    findings: list[Diagnostic]


def typed(value: Value, scope: Scope) -> Expression | None:
    """The expression with names resolved and types checked, or None after noting what is wrong with it."""
    value = ungrouped(value)
    try:
        if not isinstance(value, Operation | FunctionCall | Cast):
            return _leaf(value, scope)
        if isinstance(value, Operation) and value.operator == "minus" and isinstance(value.operands[0], Number):
            return _number(value.operands[0], "-", value.span)
        # One Python frame per level of nesting: operands are typed here and only combined elsewhere.
        found: list[Expression | None] = []
        parts = _with_lists(value, scope)
        for operand in parts:
            is_typed = isinstance(operand, Literal) or not _is_timespan(operand, scope)
            found.append(operand if isinstance(operand, Literal) else typed(operand, scope) if is_typed else None)
        operands = _with_timespans(value, parts, found, scope)
        if isinstance(value, FunctionCall):
            check_function(value.name, len(value.arguments), value.span)
        if operands is None:
            return None
        if isinstance(value, FunctionCall):
            return apply_function(value.name, operands, value.span)
        if isinstance(value, Cast):
            return cast(operands[0], value.type, value.digits, value.span)
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
            column = referred(value, scope.column)
            if column.type is Type.OTHER:
                help = ["a query can pass it on; it cannot be compared or computed with"]
                if fields := _fields(column.arrow):
                    help.insert(0, f"name one of its fields: `{value.span.text}.{fields[0]}`")
                name = ".".join((value.name, *value.fields))
                raise wrong_type(f"the values of `{name}` cannot be used in an expression", column, *help)
            return column
        case _:
            raise AssertionError(value)


def referred(reference: Reference, column_of: Callable[[Reference], Column]) -> Column:
    """The column of a reference, or the field of it that the reference leads to."""
    column = column_of(reference)
    return with_field(column, reference) if reference.fields and not column.path else column


def _fields(arrow: pa.DataType | None) -> list[str]:
    return [arrow.field(i).name for i in range(arrow.num_fields)] if arrow is not None and pa.types.is_struct(arrow) else []


def with_field(column: Column, reference: Reference) -> Column:
    if column.type is Type.NULL:  # the event has no such attribute
        return column
    arrow, names = column.arrow, [reference.name]
    for name in reference.fields:
        known = _fields(arrow)
        if known.count(name) != 1:
            type = f"a {arrow}" if column.type is Type.OTHER else described(column.type)
            help = (*similar(name, known), f"it has {listing(known)}") if known else (f"it is {type}",)
            raise QueryError(Diagnostic("K201", f"`{'.'.join(names)}` has no field `{name}`", reference.span, help=help))
        assert arrow is not None
        arrow = arrow.field(known.index(name)).type
        names.append(name)
    attribute = field_at(Attribute(reference.name, Type.OTHER, column.arrow), reference.fields)
    shown = ".".join((column.name, *reference.fields))
    return replace(column, type=attribute.type, arrow=attribute.arrow, path=reference.fields, name=shown)


def _number(value: Number, sign: str, span: Span) -> Literal:
    return integer_literal(sign + value.digits, span) if value.is_integer else double_literal(sign + value.digits, span)


def _given(value: Parameter | Timespan, scope: Scope, tick_us: int | None) -> Literal | None:
    """A parameter or a duration. A parameter without a value was reported when the parameters were read."""
    if isinstance(value, Timespan):
        return ticks(value.digits, MICROSECONDS[value.unit], tick_us, value.span, f"{value.digits} {value.unit}")
    given = scope.parameters.get(value.name)
    if isinstance(given, timedelta):
        n_us = given // timedelta(microseconds=1)
        return ticks(str(n_us), 1, tick_us, value.span, write_duration(n_us))
    if isinstance(given, tuple):
        raise QueryError(
            Diagnostic("K207", f"the parameter `:{value.name}` is a list", value.span, help=("a list stands after IN: `x IN :ids`",))
        )
    return None if given is None else replace(given, span=value.span)


def _with_lists(value: Operation | FunctionCall | Cast, scope: Scope) -> list[Value | Literal]:
    """The operands; where parameters of an IN are lists, the values of the lists."""
    operator = value.operator if isinstance(value, Operation) else ""
    if operator not in ("in", "in list"):
        return children(value)
    first, *candidates = children(value)
    parts: list[Value | Literal] = [first]
    for candidate in candidates:
        inner = ungrouped(candidate)
        given = scope.parameters.get(inner.name) if isinstance(inner, Parameter) else None
        if operator == "in list" and given is not None and not isinstance(given, tuple):
            message = f"`IN {candidate.span.text}` needs a list, but the parameter is one value"
            help = f"give it a list: `params={{{inner.name!r}: [...]}}`, on the command line `--params {inner.name}='[1, 2]'`"  # type: ignore[union-attr]
            raise QueryError(Diagnostic("K207", message, candidate.span, help=(help, f"or write `IN ({candidate.span.text})`")))
        parts += [replace(literal, span=candidate.span) for literal in given] if isinstance(given, tuple) else [candidate]
    return parts


def duration_text(value: Value, scope: Scope) -> tuple[str, int] | None:
    """The digits and the unit of a parameter that is a text such as `10 min`."""
    inner = ungrouped(value)
    given = scope.parameters.get(inner.name) if isinstance(inner, Parameter) else None
    return read_duration(given.value) if isinstance(given, Literal) and isinstance(given.value, str) else None


def _is_timespan(value: Value, scope: Scope) -> bool:
    """Is it a duration, or a sum of durations? How many ticks it has depends on what stands beside it."""
    has_unit = False
    stack = [value]
    while stack:
        part = ungrouped(stack.pop())
        if isinstance(part, Operation) and part.operator in ("+", "-"):
            stack.extend(part.operands)
        elif isinstance(part, Timespan) or (isinstance(part, Parameter) and isinstance(scope.parameters.get(part.name), timedelta)):
            has_unit = True
        elif duration_text(part, scope) is None:
            return False
    return has_unit


def timespan(value: Value, scope: Scope, tick_us: int | None) -> Expression | None:
    """A duration, a sum of them, or a text that is one, in ticks of so many microseconds."""
    value = ungrouped(value)
    text = duration_text(value, scope)
    if text is not None and isinstance(value, Parameter):
        return ticks(*text, tick_us, value.span, str(getattr(scope.parameters[value.name], "value", "")).strip())
    if isinstance(value, Timespan | Parameter):
        return _given(value, scope, tick_us)
    assert isinstance(value, Operation)
    left, right = [timespan(operand, scope, tick_us) for operand in value.operands]
    return (
        None if left is None or right is None else Call("add" if value.operator == "+" else "sub", (left, right), Type.INTEGER, value.span)
    )


def _with_timespans(
    whole: Value, values: Sequence[Value | Literal], found: list[Expression | None], scope: Scope
) -> tuple[Expression, ...] | None:
    """The operands, durations among them in ticks.

    These are microseconds beside a timestamp or a difference of two, days beside a date or a difference of two, else the stream's own.
    """
    beside = [tick for e in found if e is not None and (tick := _tick_beside(e)) is not None]
    tick_us = beside[0] if beside else scope.tick_us
    has_timespan = any(not isinstance(value, Literal) and _is_timespan(value, scope) for value in values)
    takes_texts = isinstance(whole, Operation) and _takes_durations(whole.operator, found, has_timespan)
    operands: list[Expression] = []
    for value, expression in zip(values, found, strict=True):
        is_text = takes_texts and not isinstance(value, Literal) and duration_text(value, scope) is not None
        if not isinstance(value, Literal) and (is_text or (expression is None and _is_timespan(value, scope))):
            expression = timespan(value, scope, tick_us)
        if expression is not None:
            operands.append(expression)
    return tuple(operands) if len(operands) == len(values) else None


def _takes_durations(operator: str, found: list[Expression | None], has_timespan: bool) -> bool:
    """Would a text be wrong here, and a duration right?"""
    if operator not in ("=", "<>", "<", "<=", ">", ">=", "+", "-", "in", "between"):
        return False
    others = [e.type for e in found if e is not None and e.type is not Type.STRING]
    is_time = {*others} & {Type.TIMESTAMP, Type.DATE} and operator in ("+", "-")
    return any(type in NUMERIC for type in others) or bool(is_time) or has_timespan


def _tick_beside(expression: Expression) -> int | None:
    """How many microseconds a tick has beside a time, a date or a difference of two; None beside anything else."""
    type = expression.args[0].type if isinstance(expression, Call) and expression.op == "sub" else expression.type
    return {Type.TIMESTAMP: 1, Type.DATE: DAY}.get(type)


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
    return Call(op, comparable(operands[0], operands[1]), Type.BOOLEAN, span)


def _arithmetic(operator: str, operands: Operands, span: Span) -> Expression:
    op = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod"}[operator]
    if Type.DATE in (operands[0].type, operands[1].type):
        return _date_arithmetic(op, operator, operands, span)
    if Type.TIMESTAMP in (operands[0].type, operands[1].type):
        return _time_arithmetic(op, operator, operands, span)
    if op in ("add", "sub") and are_decimals(operands):
        return Call(op, aligned(operands, "scale_up"), Type.DECIMAL, span)
    left, right = [number(o, f"`{operator}`") for o in operands]
    if op == "div" or {left.type, right.type} != {Type.INTEGER}:
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


def _date_arithmetic(op: str, operator: str, operands: Operands, span: Span) -> Expression:
    """A difference of dates in days, or a date moved by a number of days."""
    left, right = operands
    if op == "sub":
        texts = [as_type(o, Type.DATE) if isinstance(o, Literal) else o for o in operands]
        if all(o is not None and o.type is Type.DATE for o in texts):
            return Call(op, tuple([o for o in texts if o is not None]), Type.INTEGER, span)
    if op == "add" and right.type is Type.DATE:
        left, right = right, left
    moved_by = as_type(right, Type.INTEGER)
    if op not in ("add", "sub") or left.type is not Type.DATE or moved_by is None:
        help = "dates can be subtracted, which gives days, and moved by whole days: `d + 3 days`, `d + 3`"
        raise wrong_type(f"`{operator}` does not work on these types", right if left.type is Type.DATE else left, help)
    return Call(op, (left, moved_by), Type.DATE, span)


def _minus(operator: str, operands: Operands, span: Span) -> Expression:
    operand = number(operands[0], "`-`")
    return Call("neg", (operand,), operand.type, span)


def _null_test(operator: str, operands: Operands, span: Span) -> Expression:
    return Call("is_null", (retype(operands[0], Type.INTEGER),), Type.BOOLEAN, span)


def _like(operator: str, operands: Operands, span: Span) -> Expression:
    return Call("like", tuple([string(o, "each side of `LIKE`") for o in operands]), Type.BOOLEAN, span)


def _membership(operator: str, operands: Operands, span: Span) -> Expression:
    value, *candidates = operands
    if not candidates:
        return Literal(False, Type.BOOLEAN, span)  # nothing is in an empty list
    if any(e.type is Type.DECIMAL for e in operands):
        return _decimal_membership(value, candidates, span)
    return Call("in", tuple([retype(o, Type.INTEGER) for o in unify(operands, "compare")]), Type.BOOLEAN, span)


def _decimal_membership(value: Expression, candidates: Sequence[Expression], span: Span) -> Expression:
    """Values with different digits behind the point are compared two by two; constants with no more than the value are a set."""
    pairs = [comparable(value, candidate) for candidate in candidates]
    if all(pair[0] == pairs[0][0] for pair in pairs):
        return Call("in", (pairs[0][0], *[candidate for _, candidate in pairs]), Type.BOOLEAN, span)
    return Call("or", tuple([Call("eq", pair, Type.BOOLEAN, span) for pair in pairs]), Type.BOOLEAN, span)


def _between(operator: str, operands: Operands, span: Span) -> Expression:
    value, low, high = operands
    if not any(e.type is Type.DECIMAL for e in operands):
        value, low, high = [retype(o, Type.INTEGER) for o in unify(operands, "compare")]
    bounds = (Call("ge", comparable(value, low), Type.BOOLEAN, span), Call("le", comparable(value, high), Type.BOOLEAN, span))
    return Call("and", bounds, Type.BOOLEAN, span)


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
    "in list": _membership,
    "between": _between,
    "case": _case,
    "case of": _case_of,
}
