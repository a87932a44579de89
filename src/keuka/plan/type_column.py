"""One table of all events instead of a stream each: every stream a query reads becomes a filter on the column of types."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from keuka.algebra.operators import Filter, Operator, Program, Published, Source, inputs, with_inputs
from keuka.diagnostics import Span
from keuka.expressions import FIRST, Call, Column, Literal
from keuka.plan.rules import every_operator
from keuka.schema import Schema, Type


@dataclass(frozen=True)
class TypeColumn:
    """The one stream of all events that an engine gets, and its column that says of which type each is."""

    column: str
    stream: str


def sources_of(program: Program) -> dict[str, Span | None]:
    """The streams that a program reads, in the order of first use, and where it names them."""
    found: dict[str, Span | None] = {}
    for operator in every_operator(program):
        if isinstance(operator, Source):
            found.setdefault(operator.stream, operator.span)
    return found


def split_by_type(program: Program, table: str, schema: Schema, index: int, types: Collection[str]) -> Program:
    """The program over the one stream `table`, where `Source[A]` of these types was: its events whose attribute `index` is 'A'."""
    column = Column(FIRST, index, Type.STRING, schema[index].name)
    published: dict[str, Operator] = {}

    def reads(operator: Operator) -> Operator:
        if isinstance(operator, Source) and operator.stream not in types:
            return operator
        if isinstance(operator, Source):
            named = Literal(operator.stream, Type.STRING)
            return Filter(Source(table, schema, operator.span), Call("eq", (column, named), Type.BOOLEAN), operator.span)
        if isinstance(operator, Published):
            if operator.name not in published:
                published[operator.name] = reads(operator.input)
            return replace(operator, input=published[operator.name])
        return with_inputs(operator, [reads(i) for i in inputs(operator)])

    return Program(tuple([(name, reads(operator)) for name, operator in program.outputs]))
