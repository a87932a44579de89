"""The streams that components read: inputs or outputs of other queries, several of them as one for ANY (docs/semantics.md, 5)."""

from __future__ import annotations

from keuka.algebra import operators as algebra
from keuka.algebra.operators import Operator
from keuka.expressions import FIRST, Expression, Literal
from keuka.languages.coercion import described_attribute
from keuka.languages.columns import column_of
from keuka.languages.published import unknown_stream
from keuka.languages.sase import syntax
from keuka.languages.sase.context import Context, Lowered, Part
from keuka.languages.values import Name
from keuka.schema import ARROW_OF, Attribute, Schema, Type

# Says which of ANY's types an event has. No query can name it: it is not among the attributes of a Part.
MARK = Attribute("#type", Type.INTEGER, ARROW_OF[Type.INTEGER])


def read_components(query: syntax.Query, context: Context) -> tuple[Part, ...] | None:
    """The components with their streams, before their own conditions; None after noting which stream there is not."""
    found = []
    for index, component in enumerate(query.components):
        found.append(_part(index, component, context))
    parts = tuple([part for part in found if part is not None])
    if len(parts) < len(found):
        return None
    for part in parts:
        _check_clock(parts[0], part.axis, part.component.types[0], context)
    return parts


def _part(index: int, component: syntax.Component, context: Context) -> Part | None:
    streams = []
    for name in component.types:
        streams.append(_read(name, context))
    known = [stream for stream in streams if stream is not None]
    if len(known) < len(streams):
        return None
    types = tuple([stream.operator.schema for stream in known])
    first = Part(index, component, known[0].operator, known[0].axis, types[:1])
    if len(known) == 1:
        return first
    reserved = [name for name, schema in zip(component.types, types, strict=True) if MARK.name in schema.names]
    for name in reserved:
        context.note("K208", f"`{name.text}` has an attribute `{MARK.name}`, a name that ANY needs", name.span, "", "rename it")
    if reserved:
        return None
    _check_types(component, types, context)
    for stream, name in zip(known, component.types, strict=True):
        _check_clock(first, stream.axis, name, context)
    return Part(index, component, _any(component, known), first.axis, types)


def _read(name: Name, context: Context) -> Lowered | None:
    if name.text in context.streams:
        given = context.streams[name.text]
        return Lowered(algebra.Source(name.text, given.schema, name.span, given.meaning), given.axis)
    if name.text in context.published.by_name:
        # Nothing is there if that query was wrong, which has been noted.
        lowered = context.outputs.get(id(context.published.by_name[name.text]))
        return None if lowered is None else Lowered(algebra.Published(name.text, lowered.operator, name.span), lowered.axis)
    context.findings.append(unknown_stream(name, (*context.streams, *context.published.by_name)))
    return None


def _any(component: syntax.Component, streams: list[Lowered]) -> Operator:
    """The events of all types, with the attributes of all of them: NULL where an event's type lacks one."""
    schemas = [stream.operator.schema for stream in streams]
    merged = {attribute.name: attribute for schema in reversed(schemas) for attribute in reversed(schema.attributes)}
    ordered = tuple([merged[name] for name in dict.fromkeys([name for schema in schemas for name in schema.names])])
    is_marked = any(len(schema) < len(ordered) for schema in schemas)
    schema = Schema((*ordered, MARK) if is_marked else ordered)
    inputs = []
    for position, stream in enumerate(streams):
        mark = (Literal(position, Type.INTEGER, component.span),) if is_marked else ()
        items = (*[_value(attribute, stream.operator.schema, component) for attribute in ordered], *mark)
        is_same = stream.operator.schema.names == schema.names
        inputs.append(stream.operator if is_same else algebra.Map(stream.operator, items, schema, component.span))
    return algebra.Union(tuple(inputs), schema, component.span)


def _value(attribute: Attribute, schema: Schema, component: syntax.Component) -> Expression:
    index = schema.index(attribute.name)
    return Literal(None, attribute.type, component.span) if index is None else column_of(schema, FIRST, index, component.span)


def _check_types(component: syntax.Component, types: tuple[Schema, ...], context: Context) -> None:
    """Names that several types have must mean values of one type, and no type may be listed twice."""
    for position, name in enumerate(component.types):
        if name.text in [earlier.text for earlier in component.types[:position]]:
            context.note("K312", f"`{name.text}` is listed twice in ANY", name.span, "the second one", "list every type once")
    known: dict[str, tuple[Attribute, str]] = {}
    for name, schema in zip(component.types, types, strict=True):
        for attribute in schema.attributes:
            one, stream = known.setdefault(attribute.name, (attribute, name.text))
            if not one.same_type(attribute) and Type.NULL not in (one.type, attribute.type):
                message = f"the types of ANY disagree about `{attribute.name}`"
                help = f"it is {described_attribute(one)} in `{stream}` and {described_attribute(attribute)} in `{name.text}`"
                context.note("K303", message, name.span, "", help, "publish one of them with another type, and list that here")


def _check_clock(part: Part, axis: object, name: Name, context: Context) -> None:
    if part.axis != axis:
        help = "give every stream of a query the same kind of time: timestamps, or integers of one unit"
        context.note("K511", "these streams do not share one clock", name.span, "another clock than the first", help)
