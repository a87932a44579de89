"""Value expressions as written: the syntax tree that all languages share, and the functions that build it from parse trees.

Names are not resolved and nothing has a type yet; `typing.py` turns these nodes into `keuka.expressions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from keuka.diagnostics import SourceText, Span

if TYPE_CHECKING:
    from lark import Token


@dataclass(frozen=True)
class Name:
    """A name as the user means it: without backticks."""

    text: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Node:
    """A part of a syntax tree. The parts inside it are in its fields, in the order of the text; names do not count."""

    span: Span = field(compare=False, repr=False, kw_only=True)

    @cached_property
    def inside(self) -> tuple[Any, ...]:
        """Everything inside it, in the order of the text: several questions about a query go through all of it."""
        return tuple(walk(self))[1:]  # without itself, so that a query is no garbage that has to be collected


def children(node: Node) -> list[Any]:
    found: list[Any] = []
    names: tuple[str, ...] = node.__match_args__  # its fields without the span
    for name in names:
        part = getattr(node, name)
        found += [each for each in (part if isinstance(part, tuple) else (part,)) if isinstance(each, Node)]
    return found


def walk(node: Node) -> Iterator[Any]:
    """The node and everything inside it in the order of the text, without recursion."""
    stack: list[Node] = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


@dataclass(frozen=True)
class Constant(Node):
    """A string, TRUE, FALSE or NULL."""

    value: bool | str | None


@dataclass(frozen=True)
class Number(Node):
    """A number in its digits: whether it fits 64 bits can be said only once a minus before it is known."""

    digits: str
    is_integer: bool


@dataclass(frozen=True)
class Timespan(Node):
    """A duration with a unit, `10 min`; how many ticks that is depends on the clock of the stream."""

    digits: str
    unit: str


@dataclass(frozen=True)
class Parameter(Node):
    name: str


@dataclass(frozen=True)
class Dur(Node):
    """How long a match lasts."""


@dataclass(frozen=True)
class Reference(Node):
    """An attribute; `qualifier` is what the language puts before it (CEL: `$1.`, `$2.`, `$.` or nothing).

    `fields` lead from a struct to a value in it: `payload.user.id`.
    """

    qualifier: str
    name: str
    fields: tuple[str, ...] = ()

    @property
    def last_name(self) -> str:
        """What a column of it is called."""
        return (self.name, *self.fields)[-1]


@dataclass(frozen=True)
class Operation(Node):
    """An operator with its operands: a sign, or one of and, or, not, minus, is null, like, in, in list, between, case, case of.

    `in list` has a parameter with many values in its second place, `in` may have some among the others.
    `case` is condition, value, ..., and at the end perhaps the value of ELSE; `case of` has the compared value in front.
    """

    operator: str
    operands: tuple[Value, ...]


@dataclass(frozen=True)
class FunctionCall(Node):
    name: Name
    arguments: tuple[Value, ...]


@dataclass(frozen=True)
class Cast(Node):
    """`cast(value AS type)`; the numbers in parentheses behind a type are `digits`."""

    value: Value
    type: Name
    digits: tuple[Name, ...]


@dataclass(frozen=True)
class Group(Node):
    """An expression in parentheses."""

    inner: Value


Value = Constant | Number | Timespan | Parameter | Dur | Reference | Operation | FunctionCall | Cast | Group


def ungrouped(value: Value) -> Value:
    """The expression inside any parentheses around it."""
    while isinstance(value, Group):
        value = value.inner
    return value


class ValueBuilder:
    """One method per rule of `values.lark`: from the rule's parts (tokens, None for what is left out, nodes) to its node."""

    def __init__(self, source: SourceText) -> None:
        self._source = source

    def token_span(self, first: Token, last: Token | None = None) -> Span:
        start, end = first.start_pos, (last or first).end_pos
        assert start is not None
        assert end is not None
        return Span(self._source, start, end)

    def name(self, parts: list[Token]) -> Name:
        text = str(parts[0])
        if text.startswith("`"):
            text = text[1:-1].replace("``", "`")
        return Name(text, self.token_span(parts[0]))

    dashed_name = name

    def path(self, parts: list[Any]) -> list[Name]:
        """The names between the dots."""
        return parts[::2]

    def disjunction(self, parts: list[Any]) -> Value:
        return _operation("or", parts[::2])

    def conjunction(self, parts: list[Any]) -> Value:
        return _operation("and", parts[::2])

    def negation(self, parts: list[Any]) -> Value:
        return Operation("not", (parts[1],), span=self.token_span(parts[0]).to(parts[1].span))

    def comparison(self, parts: list[Any]) -> Value:
        operator = str(parts[1])
        return _operation("<>" if operator == "!=" else operator, parts[::2])

    arithmetic = comparison

    def minus(self, parts: list[Any]) -> Value:
        return Operation("minus", (parts[1],), span=self.token_span(parts[0]).to(parts[1].span))

    def null_test(self, parts: list[Any]) -> Value:
        value, _, negated, null = parts
        return _perhaps_not(negated, Operation("is null", (value,), span=value.span.to(self.token_span(null))))

    def like(self, parts: list[Any]) -> Value:
        value, negated, _, pattern = parts
        return _perhaps_not(negated, _operation("like", (value, pattern)))

    def membership(self, parts: list[Any]) -> Value:
        value, negated, _, _, *candidates, close = parts
        span = value.span.to(self.token_span(close))
        return _perhaps_not(negated, Operation("in", (value, *candidates[::2]), span=span))

    def listed(self, parts: list[Any]) -> Value:
        value, negated, _, token = parts
        return _perhaps_not(negated, _operation("in list", (value, self.parameter([token]))))

    def between(self, parts: list[Any]) -> Value:
        value, negated, _, low, _, high = parts
        return _perhaps_not(negated, _operation("between", (value, low, high)))

    def number(self, parts: list[Token]) -> Value:
        return Number(str(parts[0]), parts[0].type.endswith("INTEGER"), span=self.token_span(parts[0]))

    def timespan(self, parts: list[Token]) -> Value:
        return Timespan(str(parts[0]), parts[1].lower(), span=self.token_span(parts[0], parts[1]))

    def text(self, parts: list[Token]) -> Value:
        quote = parts[0][0]
        return Constant(parts[0][1:-1].replace(quote * 2, quote), span=self.token_span(parts[0]))

    def word(self, parts: list[Token]) -> Value:
        return Constant({"TRUE": True, "FALSE": False, "NULL": None}[parts[0].upper()], span=self.token_span(parts[0]))

    def parameter(self, parts: list[Token]) -> Value:
        return Parameter(str(parts[0][1:]), span=self.token_span(parts[0]))

    def dur(self, parts: list[Token]) -> Value:
        return Dur(span=self.token_span(parts[0]))

    def function(self, parts: list[Any]) -> Value:
        name, _, *arguments, close = parts
        span = self.token_span(name, close)
        return FunctionCall(Name(str(name), self.token_span(name)), tuple([a for a in arguments[::2] if a is not None]), span=span)

    def cast(self, parts: list[Any]) -> Value:
        name, _, value, _, type, *behind, close = parts
        digits = [Name(str(token), self.token_span(token)) for token in behind if token is not None and token.type == "INTEGER"]
        return Cast(value, Name(str(type), self.token_span(type)), tuple(digits), span=self.token_span(name, close))

    def case(self, parts: list[Any]) -> Value:
        first, compared, *branches, _, default, last = parts
        operands = [b for i, b in enumerate(branches) if i % 4 in (1, 3)]
        if default is not None:
            operands.append(default)
        span = self.token_span(first, last)
        if compared is None:
            return Operation("case", tuple(operands), span=span)
        return Operation("case of", (compared, *operands), span=span)

    def group(self, parts: list[Any]) -> Value:
        return Group(parts[1], span=self.token_span(parts[0], parts[2]))


def _operation(operator: str, operands: Sequence[Value]) -> Operation:
    return Operation(operator, tuple(operands), span=operands[0].span.to(operands[-1].span))


def _perhaps_not(negated: Token | None, value: Operation) -> Operation:
    return value if negated is None else Operation("not", (value,), span=value.span)
