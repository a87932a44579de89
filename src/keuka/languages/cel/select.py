"""SELECT: the columns of a query as a Map, with their names and types (SEMANTICS 4)."""

from __future__ import annotations

import pyarrow as pa

from keuka.algebra import operators as algebra
from keuka.diagnostics import Diagnostic
from keuka.errors import QueryError
from keuka.expressions import FIRST, Column, Expression, Literal, walk
from keuka.languages.cel import syntax
from keuka.languages.cel.context import Context, Lowered, column_of
from keuka.languages.cel.hints import DUR_IN_SELECT
from keuka.languages.cel.naming import fresh
from keuka.languages.cel.scopes import in_select
from keuka.languages.typing import Scope, typed
from keuka.languages.values import Reference, ungrouped
from keuka.schema import ARROW_OF, Attribute, Schema, Type


def lower_select(query: syntax.Query, lowered: Lowered, context: Context) -> Lowered:
    """The stream of a query with its columns selected. Names start afresh here, with `SELECT *` or without a SELECT as well."""
    schema = lowered.schema
    if query.items is None or [item.name for item in query.items] == [None]:
        return Lowered(lowered.operator, fresh(schema.names), lowered.axis)
    scope = context.scope(in_select(schema), lowered.axis, DUR_IN_SELECT)
    columns: dict[str, tuple[Attribute, Expression]] = {}
    for item in query.items:
        for attribute, expression in _item(item, schema, scope):
            name = attribute.name
            if name in columns:
                context.note("K209", f"two columns are named `{name}`", item.span, "the second one", "rename one of them with `AS`")
            columns.setdefault(name, (attribute, expression))
    selected = Schema(tuple([attribute for attribute, _ in columns.values()]))
    operator = algebra.Map(lowered.operator, tuple([expression for _, expression in columns.values()]), selected, query.span)
    return Lowered(operator, fresh(selected.names), lowered.axis)


def _item(item: syntax.Item, schema: Schema, scope: Scope) -> list[tuple[Attribute, Expression]]:
    """The columns of one item: all attributes for `*`. A wrong item becomes a NULL, which fits everywhere, so that checking can go on."""
    if item.value is None or item.name is None:
        return [(attribute, column_of(schema, FIRST, index, item.span)) for index, attribute in enumerate(schema.attributes)]
    value = ungrouped(item.value)
    if isinstance(value, Reference):
        try:
            column = scope.column(value)
            return [(schema[column.index].renamed(item.name.text), column)]
        except QueryError as error:
            scope.findings.extend(error.diagnostics)
            expression: Expression | None = None
    else:
        expression = typed(value, scope)
        if expression is not None and expression.type is Type.NULL:
            help = "a column needs a type; `CASE WHEN FALSE THEN 0 END` is a NULL among integers"
            scope.findings.append(Diagnostic("K205", f"`{item.name.text}` would have no type", value.span, "always NULL", (help,)))
    if expression is None:
        expression = Literal(None, Type.NULL, item.span)
    return [(Attribute(item.name.text, expression.type, _arrow_type(expression, schema)), expression)]


def _arrow_type(expression: Expression, schema: Schema) -> pa.DataType:
    """The type in result tables; a computed time keeps the zone of the first timestamp it is computed from."""
    if expression.type is Type.TIMESTAMP:
        for node in walk(expression):
            if isinstance(node, Column) and node.type is Type.TIMESTAMP:
                return schema[node.index].arrow
    return ARROW_OF[expression.type]
