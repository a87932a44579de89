"""Typed expressions over the attributes of one or two events, after names are resolved.

A column is a side and an index. Side 0 is the input of Filter and Map, and the first input of Next and Fold; side 1 is
the candidate, the second input of Next and Fold (`$2.`); side 2 is the last iteration of a Fold (`$.`).
Everything else is a Call of an operation in OPERATIONS. Spans never count in comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

from keuka.diagnostics import Span
from keuka.schema import Type

FIRST, CANDIDATE, LAST = 0, 1, 2


@dataclass(frozen=True)
class Literal:
    """A constant. Timestamps are microseconds since 1970 UTC, dates are days since then; NULL has value None.

    The exponent of a decimal says how many digits it has behind the point. `written` is kept where the value depends on what stands
    beside it: the digits of a number with a point, and a time without a zone.
    """

    value: bool | int | float | str | Decimal | None
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)
    shown: str | None = field(default=None, compare=False, repr=False)  # a duration with its unit
    written: Decimal | datetime | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Column:
    side: int
    index: int
    type: Type
    name: str = field(compare=False)  # for explain only
    span: Span | None = field(default=None, compare=False, repr=False)
    arrow: pa.DataType | None = field(default=None, compare=False, repr=False)  # for the type rules: a zone, a scale
    path: tuple[str, ...] = ()  # leads to a field, if the attribute is a struct; `plan/fields.py` makes columns of such


@dataclass(frozen=True)
class Duration:
    """DUR: `end - start + 1` of the event, or of the concatenation with the candidate."""

    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def type(self) -> Type:
        return Type.INTEGER


@dataclass(frozen=True)
class Call:
    """An operation. Arguments already have the types the operation wants (`to_double` is inserted where needed)."""

    op: str
    args: tuple[Expression, ...]
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)


Expression = Literal | Column | Duration | Call

# op -> (number of arguments or None for any, does the result of integers overflow?)
# Arguments of one comparison or of least / greatest / coalesce / case share one type. `in` is value, then candidates.
# `case` is condition, value, condition, value, ..., else. `and`, `or` take two or more. substring takes (s, position, length).
OPERATIONS: dict[str, tuple[int | None, bool]] = {
    "add": (2, True),
    "sub": (2, True),
    "mul": (2, True),
    "neg": (1, True),
    "abs": (1, True),
    "div": (2, False),  # doubles only; x/0 is null
    "mod": (2, False),  # sign of the dividend; x%0 is null
    "to_double": (1, False),
    "decimal_to_double": (2, False),  # a decimal, and its scale
    "decimal_to_integer": (2, False),  # the same; without its fraction
    "decimal_to_string": (2, False),  # the same; with all digits behind the point
    "to_decimal": (4, False),  # a value, its scale if it is a decimal, precision and scale of the result; null if it does not fit
    "scale_up": (
        2,
        False,
    ),  # a decimal or an integer with so many more digits behind the point; beyond 64 bits the largest, for comparisons
    "rescale": (2, True),  # the same, but an error beyond 18 digits
    "to_timestamp": (1, False),  # midnight UTC of a date
    "floor": (1, True),  # of a double: an integer, an error outside 64 bits
    "ceil": (1, True),
    "round": (2, True),  # half up, digits as second argument; the type of the first
    "eq": (2, False),
    "ne": (2, False),
    "lt": (2, False),
    "le": (2, False),
    "gt": (2, False),
    "ge": (2, False),
    "and": (None, False),
    "or": (None, False),
    "not": (1, False),
    "is_null": (1, False),
    "like": (2, False),
    "in": (None, False),
    "case": (None, False),
    "coalesce": (None, False),
    "least": (None, False),
    "greatest": (None, False),
    "lower": (1, False),
    "upper": (1, False),
    "length": (1, False),
    "substring": (3, False),
    "concat": (None, False),
    "trim": (1, False),  # blanks alone
    "regexp_like": (2, False),  # the pattern is a constant in RE2's syntax
    "sqrt": (1, False),
    "ln": (1, False),  # of what is not positive: null
    "exp": (1, False),
    "pow": (2, False),
    "cast": (1, False),  # from the type of its argument to its own; what cannot be converted is null
    "to_int": (1, False),  # an integer; null outside 32 bits
    "local": (2, False),  # the time that clocks of a zone showed, as if they were in UTC; the zone is a constant
    "year": (1, False),  # the parts of a time are those of UTC
    "month": (1, False),
    "day": (1, False),
    "hour": (1, False),
    "minute": (1, False),
    "second": (1, False),
    "dayofweek": (1, False),  # 1 is Sunday
    "date_trunc": (None, False),  # the unit, a time, and its zone if it is not UTC; unit and zone are constants
}

TRUE = Literal(True, Type.BOOLEAN)


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything inside it, without recursion."""
    stack: list[Expression] = [expression]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(node.args)


def columns(expression: Expression) -> set[tuple[int, int]]:
    """The (side, index) pairs the expression reads."""
    return {(n.side, n.index) for n in walk(expression) if isinstance(n, Column)}


def sides(expression: Expression) -> set[int]:
    """The sides it reads; DUR spans the first input and the candidate, so it counts as both."""
    found = {n.side for n in walk(expression) if isinstance(n, Column)}
    if any(isinstance(n, Duration) for n in walk(expression)):
        found |= {FIRST, CANDIDATE}
    return found


def can_fail(expression: Expression) -> bool:
    """Could evaluating it overflow? Such expressions are never moved to where they would be evaluated more or less often."""
    return any(isinstance(node, Call) and overflows(node) for node in walk(expression))


def overflows(call: Call) -> bool:
    """Can the operation itself overflow? Arithmetic on doubles cannot; floor and ceil of a double can.

    Decimals have as much room below zero as above, and a difference of dates fits always.
    """
    if call.type is Type.DECIMAL and call.op in ("neg", "abs"):
        return False
    if call.op == "sub" and call.type is Type.INTEGER and call.args[0].type is Type.DATE:
        return False
    floating = call.type is Type.DOUBLE or (call.op in ("floor", "ceil") and call.args[0].type is not Type.DOUBLE)
    return OPERATIONS[call.op][1] and not floating


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The terms of a conjunction, flattened; none for TRUE."""
    found: list[Expression] = []
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Call) and node.op == "and":
            stack.extend(reversed(node.args))
        elif node != TRUE:
            found.append(node)
    return tuple(found)


def conjunction(terms: tuple[Expression, ...]) -> Expression:
    if not terms:
        return TRUE
    return terms[0] if len(terms) == 1 else Call("and", terms, Type.BOOLEAN, terms[0].span)


def scale_of(expression: Expression) -> int:
    """How many digits a number has behind the point, as far as the type rules go: columns know their Arrow types there."""
    stack = [(expression, 0)]
    while stack:
        node, more = stack.pop()
        if node.type is not Type.DECIMAL:
            return more
        if isinstance(node, Column):
            return more if node.arrow is None else int(node.arrow.scale) + more
        if isinstance(node, Literal) and isinstance(node.value, Decimal):
            return more - exponent_of(node.value)
        if isinstance(node, Call):
            if node.op == "to_decimal":
                return more + integer_of(node.args[3])
            n_more = node.args[1].value if node.op in ("scale_up", "rescale") and isinstance(node.args[1], Literal) else None
            if isinstance(n_more, int):
                stack.append((node.args[0], more + n_more))
            else:
                values = (*node.args[1::2], node.args[-1]) if node.op == "case" else node.args
                stack.extend([(value, more) for value in reversed(values)])
    return 0  # nothing but NULL


def zone_of(expression: Expression) -> str | None:
    """The zone of the first timestamp column that the expression is computed from. What is made of a date has none."""
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Column) and node.type is Type.TIMESTAMP and node.arrow is not None:
            return None if node.arrow.tz is None else str(node.arrow.tz)
        if isinstance(node, Call) and node.type is not Type.DATE:
            stack.extend(node.args)
    return None


def integer_of(expression: Expression) -> int:
    """The number that an operation takes as a constant."""
    assert isinstance(expression, Literal)
    assert isinstance(expression.value, int)
    return expression.value


def exponent_of(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def show_date(days: int) -> str:
    """A date as text; one that Python has no name for as days since 1970."""
    try:
        return str(date(1970, 1, 1) + timedelta(days=days))
    except OverflowError:
        return f"{days} days since 1970"


def substitute(expression: Expression, replacement: Callable[[Column], Expression]) -> Expression:
    """The expression with every column replaced."""
    if isinstance(expression, Column):
        return replacement(expression)
    if isinstance(expression, Call):
        return replace(expression, args=tuple([substitute(a, replacement) for a in expression.args]))
    return expression


# How a query writes the types that values can be cast to.
SQL_NAMES = {
    Type.BOOLEAN: "BOOLEAN",
    Type.INTEGER: "BIGINT",
    Type.DOUBLE: "DOUBLE",
    Type.STRING: "STRING",
    Type.TIMESTAMP: "TIMESTAMP",
    Type.DATE: "DATE",
    Type.DECIMAL: "DECIMAL",
}

_MOST_SHOWN = 20  # values of a list
_INFIX = {
    "add": ("+", 6), "sub": ("-", 6), "mul": ("*", 7), "div": ("/", 7), "mod": ("%", 7),
    "eq": ("=", 4), "ne": ("<>", 4), "lt": ("<", 4), "le": ("<=", 4), "gt": (">", 4), "ge": (">=", 4),
    "like": ("LIKE", 4), "and": ("AND", 2), "or": ("OR", 1),
}  # fmt: skip


def meaning(value: Expression | tuple[Expression, ...]) -> object:
    """What an expression says, without names and spans, as tuples whose text can be hashed. Ids depend on it: it never changes."""
    if isinstance(value, tuple):
        return [meaning(e) for e in value]
    if isinstance(value, Column):
        return ("column", value.side, value.index)
    if isinstance(value, Literal):
        return ("literal", value.type.value, repr(value.value))
    if isinstance(value, Duration):
        return ("Duration",)
    return ("Call", value.op, meaning(value.args), value.type.value)


def show(expression: Expression, sided: bool = False, outer: int = 0) -> str:
    """The expression as text, stable. `sided` writes `$1.`, `$2.` and `$.` before columns."""
    if isinstance(expression, Literal):
        if expression.shown is not None:
            return expression.shown
        if isinstance(expression.value, str):
            return "'" + expression.value.replace("'", "''") + "'"
        if isinstance(expression.value, Decimal):
            return f"{expression.value:f}"
        if expression.type is Type.DATE and expression.value is not None:
            return f"'{show_date(int(expression.value))}'"
        return (
            {None: "NULL", True: "TRUE", False: "FALSE"}.get(expression.value, repr(expression.value))
            if expression.value is None or isinstance(expression.value, bool)
            else repr(expression.value)
        )
    if isinstance(expression, Duration):
        return "DUR"
    if isinstance(expression, Column):
        return (("$1.", "$2.", "$.")[expression.side] if sided else "") + expression.name
    args = expression.args
    if expression.op in _INFIX:
        sign, level = _INFIX[expression.op]
        # A comparison beside a comparison needs brackets on either side.
        text = f" {sign} ".join([show(a, sided, level + (i > 0 or level == 4)) for i, a in enumerate(args)])
        return f"({text})" if level < outer else text
    if expression.op == "not":
        return f"NOT ({show(args[0], sided)})"
    if expression.op == "neg":
        return f"-({show(args[0], sided)})"
    if expression.op == "is_null":
        return f"({show(args[0], sided)}) IS NULL"
    if expression.op == "in":
        more = f", ... {len(args) - 1 - _MOST_SHOWN} more" if len(args) - 1 > _MOST_SHOWN else ""
        return f"{show(args[0], sided, 5)} IN ({', '.join([show(a, sided) for a in args[1 : _MOST_SHOWN + 1]])}{more})"
    if expression.op in ("to_double", "decimal_to_double", "scale_up", "rescale", "to_timestamp"):
        return show(args[0], sided, outer)
    if expression.op == "case":
        pairs = [f"WHEN {show(c, sided)} THEN {show(v, sided)}" for c, v in zip(args[:-1:2], args[1:-1:2], strict=True)]
        return f"CASE {' '.join(pairs)} ELSE {show(args[-1], sided)} END"
    if expression.op == "to_decimal":
        return f"cast({show(args[0], sided)} AS DECIMAL({show(args[2])}, {show(args[3])}))"
    if expression.op in ("cast", "to_int", "decimal_to_integer", "decimal_to_string"):
        return f"cast({show(args[0], sided)} AS {'INT' if expression.op == 'to_int' else SQL_NAMES[expression.type]})"
    return f"{expression.op}({', '.join([show(a, sided) for a in args])})"
