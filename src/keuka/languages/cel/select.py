"""SELECT: the columns of a query as a Map, with their names and types (docs/semantics.md, 4)."""

from __future__ import annotations

from keuka.algebra import operators as algebra
from keuka.expressions import FIRST, Expression
from keuka.languages.cel import syntax
from keuka.languages.cel.context import Context, Lowered
from keuka.languages.cel.hints import DUR_IN_SELECT
from keuka.languages.cel.naming import fresh
from keuka.languages.cel.scopes import in_select
from keuka.languages.columns import column_of, named_column
from keuka.languages.typing import Scope
from keuka.schema import Attribute, Schema


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
    """The columns of one item: all attributes for `*`."""
    if item.value is None or item.name is None:
        return [(attribute, column_of(schema, FIRST, index, item.span)) for index, attribute in enumerate(schema.attributes)]
    return [named_column(item.value, item.name, item.span, schema, scope)]
