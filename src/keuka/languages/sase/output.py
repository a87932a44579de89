"""What a match returns: the attributes of its events under names of their own, or the columns of RETURN (docs/semantics.md, 5)."""

from __future__ import annotations

from keuka.algebra import operators as algebra
from keuka.errors import QueryError
from keuka.expressions import FIRST, Expression
from keuka.languages.columns import column_of, named_column
from keuka.languages.sase import syntax
from keuka.languages.sase.context import Context, Part
from keuka.languages.sase.scopes import component_of, in_return, returned
from keuka.languages.values import Name, Reference, ungrouped
from keuka.schema import Attribute, Schema


def sequence_schema(parts: tuple[Part, ...], context: Context) -> Schema | None:
    """The attributes of the positive components one after the other, `name_attr` or `x1_attr`; None after noting that two are one."""
    attributes: dict[str, Attribute] = {}
    n_findings = len(context.findings)
    for part in _positive(parts):
        for attribute in part.operator.schema.attributes:
            name = f"{part.label}_{attribute.name}"
            if name in attributes:
                help = "give one of the components another variable"
                context.note("K208", f"two attributes would be named `{name}` here", part.component.span, "the second one", help)
            attributes[name] = attribute.renamed(name)
    return Schema(tuple(attributes.values())) if len(context.findings) == n_findings else None


def lower_return(query: syntax.Query, sequence: algebra.Sequence, parts: tuple[Part, ...], context: Context) -> algebra.Map:
    columns: dict[str, tuple[Attribute, Expression]] = {}
    for item in query.items or (syntax.Item(None, "", None, span=query.span),):
        for attribute, expression in _columns(item, sequence.schema, parts, context):
            if attribute.name in columns:
                help = "rename one of them with `AS`"
                context.note("K209", f"two columns are named `{attribute.name}`", item.span, "the second one", help)
            columns.setdefault(attribute.name, (attribute, expression))
    schema = Schema(tuple([attribute for attribute, _ in columns.values()]))
    return algebra.Map(sequence, tuple([expression for _, expression in columns.values()]), schema, query.span)


def _positive(parts: tuple[Part, ...]) -> list[Part]:
    return [part for part in parts if not part.component.negated]


def _offsets(parts: tuple[Part, ...]) -> dict[int, int]:
    """By component, where its attributes begin in the schema of the sequence."""
    offsets, n_attributes = {}, 0
    for part in _positive(parts):
        offsets[part.index] = n_attributes
        n_attributes += len(part.operator.schema)
    return offsets


def _columns(item: syntax.Item, schema: Schema, parts: tuple[Part, ...], context: Context) -> list[tuple[Attribute, Expression]]:
    """The columns of one item: all attributes for `*` and `s.*`, none for an item that names no component."""
    offsets = _offsets(parts)
    try:
        if item.value is None:
            of = [returned(component_of(item.variable, item.span, parts), item.span)] if item.variable else _positive(parts)
            indices = [offsets[part.index] + i for part in of for i in range(len(part.attributes))]
            return [(schema[index], column_of(schema, FIRST, index, item.span)) for index in indices]
        scope = context.scope(in_return(parts, offsets, schema), parts[0].axis)
        name = item.name or _default_name(item, parts)
        return [named_column(item.value, name, item.span, schema, scope)]
    except QueryError as error:
        context.findings.extend(error.diagnostics)
        return []


def _default_name(item: syntax.Item, parts: tuple[Part, ...]) -> Name:
    """`s.id` is called `s_id`, as it is without a RETURN. A plain name is wrong, which is noted when it is looked up."""
    assert item.value is not None
    reference = ungrouped(item.value)
    assert isinstance(reference, Reference)
    if not reference.qualifier:
        return Name(reference.last_name, reference.span)
    return Name(f"{component_of(reference.qualifier, reference.span, parts).label}_{reference.last_name}", reference.span)
