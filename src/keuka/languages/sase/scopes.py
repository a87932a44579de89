"""What a reference means in WHERE, in the condition of a component and in RETURN (docs/semantics.md, 5).

Each function here makes a look-up, which raises a QueryError for a name it cannot place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from keuka.diagnostics import Diagnostic, Span, listing, similar
from keuka.errors import QueryError
from keuka.expressions import FIRST, Column
from keuka.languages.sase.context import Part
from keuka.languages.typing import with_field
from keuka.languages.values import Reference
from keuka.schema import RESULT, Schema, Type

_POSITION = re.compile(r"\$x?([1-9][0-9]{0,5})")
_LIKE_A_POSITION = re.compile(r"x([1-9][0-9]{0,5})")


@dataclass(frozen=True)
class Found:
    """An attribute of a component, and which of its types have it.

    If none has it, but a type of another component does, the column is of the type NULL and none that exists; `elsewhere` are then the
    types of the attribute in other components.
    """

    part: Part
    column: Column
    having: tuple[int, ...]
    elsewhere: tuple[Type, ...] = ()


Resolve = Callable[[Reference], Found]


def in_where(parts: tuple[Part, ...]) -> Resolve:
    def resolve(reference: Reference) -> Found:
        if not reference.qualifier:
            raise _without_variable(reference, parts, f"if all events are to agree on it, that is `[{reference.name}]`")
        part = component_of(reference.qualifier, reference.span, parts)
        return _attribute(reference, part, part.index, parts)

    return resolve


def in_component(part: Part, parts: tuple[Part, ...]) -> Resolve:
    """The component's event is side 0 there: its condition is a filter of its stream."""

    def resolve(reference: Reference) -> Found:
        if part.having(reference.qualifier) and reference.qualifier not in [other.variable for other in parts]:
            reference = replace(reference, qualifier="", name=reference.qualifier, fields=(reference.name, *reference.fields))
            found = _attribute(reference, part, FIRST, parts)
            return replace(found, column=with_field(found.column, reference))
        if reference.qualifier and component_of(reference.qualifier, reference.span, parts) is not part:
            help = f"compare it in WHERE: `WHERE {reference.span.text} = {part.variable}.{reference.name}`"
            message = f"`{reference.qualifier}` is another component"
            raise QueryError(Diagnostic("K204", message, reference.span, "this condition is about one event alone", (help,)))
        return _attribute(reference, part, FIRST, parts)

    return resolve


def in_return(parts: tuple[Part, ...], offsets: Mapping[int, int], schema: Schema) -> Callable[[Reference], Column]:
    """`offsets` are the places in the sequence's schema where the attributes of the positive components begin."""

    def column(reference: Reference) -> Column:
        if not reference.qualifier:
            raise _without_variable(reference, tuple([part for part in parts if not part.component.negated]))
        part = returned(component_of(reference.qualifier, reference.span, parts), reference.span)
        if not part.having(reference.name):
            raise _no_attribute(reference, part)
        index = offsets[part.index] + part.names.index(reference.name)
        return Column(FIRST, index, schema[index].type, schema[index].name, reference.span, schema[index].arrow)

    return column


def returned(part: Part, span: Span) -> Part:
    """The component, if its event is there to be returned."""
    if part.component.negated:
        help = "return the events that do occur; what a match must not contain has no values"
        raise QueryError(Diagnostic("K312", f"`{part.variable}` must not occur, so it cannot be returned", span, help=(help,)))
    return part


def component_of(variable: str, span: Span, parts: tuple[Part, ...]) -> Part:
    """The component a variable names: `$x1` and `$1` by position, anything else by the name it was given."""
    position = _POSITION.fullmatch(variable)
    if position is not None and int(position[1]) <= len(parts):
        return parts[int(position[1]) - 1]
    for part in parts:
        if part.variable == variable:
            return part
    known = [part.variable for part in parts]
    help = [*similar(variable, known)]
    like_position = _LIKE_A_POSITION.fullmatch(variable)
    if like_position is not None and int(like_position[1]) <= len(parts):
        help = [f"by position it is `${variable}`"]
    elif variable in [name.text for part in parts for name in part.component.types]:
        help = [f"that is a type; give it a variable, `{variable} a`, and write `a.`"]
    raise QueryError(Diagnostic("K204", f"no component is named `{variable}`", span, help=(*help, f"the components are {listing(known)}")))


def _attribute(reference: Reference, part: Part, side: int, parts: tuple[Part, ...]) -> Found:
    having = part.having(reference.name)
    name = f"{part.variable}.{reference.name}"
    if having:
        index = part.names.index(reference.name)
        attribute = part.attributes[index]
        return Found(part, Column(side, index, attribute.type, name, reference.span, attribute.arrow), having)
    elsewhere = [attribute.type for other in parts for attribute in other.attributes if attribute.name == reference.name]
    if elsewhere:
        types = tuple(dict.fromkeys([type for type in elsewhere if type is not Type.OTHER]))
        return Found(part, Column(side, -1, Type.NULL, name, reference.span), (), types)
    raise _no_attribute(reference, part)


def _no_attribute(reference: Reference, part: Part) -> QueryError:
    types = part.component.types
    subject = f"`{types[0].text}` has no" if len(types) == 1 else f"none of {listing([name.text for name in types])} has an"
    help = _start_or_end(reference) or (*similar(reference.name, part.names), f"it has {listing(part.names)}")
    return QueryError(Diagnostic("K201", f"{subject} attribute `{reference.name}`", reference.span, help=help))


def _without_variable(reference: Reference, parts: tuple[Part, ...], *more: str) -> QueryError:
    """A plain name belongs to no component. Only in the condition of one is there no doubt."""
    name = reference.name
    having = [part for part in parts if part.having(name)]
    if not having:
        return no_component_has(name, reference.span, parts)
    choices = " or ".join([f"`{part.variable}.{name}`" for part in having])
    help = (f"write {choices}", *more)
    return QueryError(Diagnostic("K203", f"`{name}` does not say which event it is of", reference.span, help=help))


def no_component_has(name: str, span: Span, parts: tuple[Part, ...]) -> QueryError:
    known = tuple(dict.fromkeys([name for part in parts for name in part.names]))
    help = (*similar(name, known), f"they have {listing(known)}")
    return QueryError(Diagnostic("K201", f"no component has an attribute `{name}`", span, help=help))


def _start_or_end(reference: Reference) -> tuple[str, ...]:
    return ("results get this column; a query uses the time column, `e.ts - s.ts`",) if reference.name in RESULT.names else ()
