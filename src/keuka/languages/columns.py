"""Columns of a result, for every language: an expression, the name it gets, and the type it has in tables."""

from __future__ import annotations

import pyarrow as pa

from keuka.diagnostics import Diagnostic, Span
from keuka.errors import QueryError
from keuka.expressions import Column, Expression, Literal, scale_of, zone_of
from keuka.languages.functions import check_function
from keuka.languages.typing import Scope, misplaced_duration, referred, typed
from keuka.languages.values import Constant, Dur, FunctionCall, Name, Reference, Value, ungrouped, walk
from keuka.schema import ARROW_OF, Attribute, Schema, Type, decimal_type


def column_of(schema: Schema, side: int, index: int, span: Span) -> Column:
    return Column(side, index, schema[index].type, schema[index].name, span, schema[index].arrow)


def named_column(item: Value, name: Name, span: Span, schema: Schema, scope: Scope) -> tuple[Attribute, Expression]:
    """The column an item makes of the schema. A wrong one becomes a NULL, which fits everywhere, so that checking can go on."""
    value = ungrouped(item)
    if isinstance(value, Reference):
        try:
            column = referred(value, scope.column)
            if not column.path:
                return schema[column.index].renamed(name.text), column
            assert column.arrow is not None
            return Attribute(name.text, column.type, column.arrow), column
        except QueryError as error:
            scope.findings.extend(error.diagnostics)
            expression: Expression | None = None
    else:
        expression = typed(value, scope)
        if expression is not None and expression.type is Type.NULL:
            help = "a column needs a type; `CASE WHEN FALSE THEN 0 END` is a NULL among integers"
            scope.findings.append(Diagnostic("K205", f"`{name.text}` would have no type", value.span, "always NULL", (help,)))
    if expression is None:
        expression = Literal(None, Type.NULL, span)
    return Attribute(name.text, expression.type, _arrow_type(expression)), expression


def unnamed(value: Value, no_duration: str) -> QueryError:
    """Why a column that is no plain attribute is refused without a name: first for what a name would not repair."""
    for node in walk(value):
        if isinstance(node, Dur):
            return misplaced_duration(node, no_duration)
        if isinstance(node, FunctionCall):
            check_function(node.name, len(node.arguments), node.span)
    help = [f"write `{_shortened(value.span.text)} AS name`"]
    text = ungrouped(value)
    if isinstance(text, Constant) and isinstance(text.value, str) and text.value:
        help.insert(0, f"text in quotes is a string; a name stands in backticks: `{text.value}`")
    return QueryError(Diagnostic("K101", "a computed column needs a name", value.span, "not a plain attribute", tuple(help)))


def _arrow_type(expression: Expression) -> pa.DataType:
    """The type in result tables; a computed time keeps the zone of the first timestamp it is computed from."""
    if expression.type is Type.DECIMAL:
        return decimal_type(scale_of(expression))
    if expression.type is Type.TIMESTAMP:
        return pa.timestamp("us", tz=zone_of(expression))
    return ARROW_OF[expression.type]


def _shortened(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else "..."
