"""One table of all events instead of a stream each: every stream a query reads becomes a filter on the column of types."""

from __future__ import annotations

from dataclasses import replace

from keuka.algebra.operators import Filter, Operator, Program, Published, Source, inputs, with_inputs
from keuka.expressions import FIRST, Call, Column, Literal
from keuka.schema import Schema, Type


def split_by_type(program: Program, table: str, schema: Schema, index: int) -> Program:
    """The program over the one stream `table`, where `Source[A]` was: its events whose attribute `index` is 'A'."""
    column = Column(FIRST, index, Type.STRING, schema[index].name)
    published: dict[str, Operator] = {}

    def reads(operator: Operator) -> Operator:
        if isinstance(operator, Source):
            named = Literal(operator.stream, Type.STRING)
            return Filter(Source(table, schema, operator.span), Call("eq", (column, named), Type.BOOLEAN), operator.span)
        if isinstance(operator, Published):
            if operator.name not in published:
                published[operator.name] = reads(operator.input)
            return replace(operator, input=published[operator.name])
        return with_inputs(operator, [reads(i) for i in inputs(operator)])

    return Program(tuple([(name, reads(operator)) for name, operator in program.outputs]))
