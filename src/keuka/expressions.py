"""Typed expressions over the attributes of one or two events, after names are resolved.

A column is a side and an index. Side 0 is the input of Filter and Map, and the first input of Next and Fold; side 1 is
the candidate, the second input of Next and Fold (`$2.`); side 2 is the last iteration of a Fold (`$.`).
Everything else is a Call of an operation in OPERATIONS. Spans never count in comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from keuka.diagnostics import Span
from keuka.schema import Type

FIRST, CANDIDATE, LAST = 0, 1, 2


@dataclass(frozen=True)
class Literal:
    """A constant. Timestamps are microseconds since 1970 UTC; NULL has value None."""

    value: bool | int | float | str | None
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Column:
    side: int
    index: int
    type: Type
    name: str = field(compare=False)  # for explain only
    span: Span | None = field(default=None, compare=False, repr=False)


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
    """Can the operation itself overflow? Arithmetic on doubles cannot; floor and ceil of a double can."""
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


def substitute(expression: Expression, replacement: Callable[[Column], Expression]) -> Expression:
    """The expression with every column replaced."""
    if isinstance(expression, Column):
        return replacement(expression)
    if isinstance(expression, Call):
        return replace(expression, args=tuple([substitute(a, replacement) for a in expression.args]))
    return expression


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
        if isinstance(expression.value, str):
            return "'" + expression.value.replace("'", "''") + "'"
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
        return f"{show(args[0], sided, 5)} IN ({', '.join([show(a, sided) for a in args[1:]])})"
    if expression.op == "to_double":
        return show(args[0], sided, outer)
    if expression.op == "case":
        pairs = [f"WHEN {show(c, sided)} THEN {show(v, sided)}" for c, v in zip(args[:-1:2], args[1:-1:2], strict=True)]
        return f"CASE {' '.join(pairs)} ELSE {show(args[-1], sided)} END"
    return f"{expression.op}({', '.join([show(a, sided) for a in args])})"
