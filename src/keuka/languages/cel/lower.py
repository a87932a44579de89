"""CEL syntax trees to the event algebra (docs/semantics.md, 4): streams and attributes are looked up, types checked, names given."""

from __future__ import annotations

from keuka.algebra import operators as algebra
from keuka.diagnostics import Span
from keuka.expressions import TRUE
from keuka.languages.cel import syntax
from keuka.languages.cel.combine import lower_fold, lower_next, lower_union
from keuka.languages.cel.context import Context, Lowered
from keuka.languages.cel.naming import fresh
from keuka.languages.cel.published import needs, outputs
from keuka.languages.cel.scopes import in_filter
from keuka.languages.cel.select import lower_select
from keuka.languages.language import Files, Language
from keuka.languages.published import unknown_stream
from keuka.languages.typing import predicate
from keuka.languages.values import Name


def _query(query: syntax.Query, context: Context) -> Lowered | None:
    lowered = _stream(query.stream, context)
    return None if lowered is None else lower_select(query, lowered, context)


def _stream(stream: syntax.Stream, context: Context) -> Lowered | None:
    """The operator of a stream, or None after noting why there is none. The only recursion here: one frame per level of nesting."""
    while isinstance(stream, syntax.Parenthesised):
        stream = stream.inner
    match stream:
        case syntax.Read():
            return _read(stream, context)
        case syntax.Filter():
            lowered = _stream(stream.input, context)
            return None if lowered is None else _filter(stream, lowered, context)
        case syntax.Next() | syntax.Fold():
            first, second = _stream(stream.first, context), _stream(stream.second, context)
            if first is None or second is None:
                return None
            if isinstance(stream, syntax.Next):
                return lower_next(stream, first, second, context)
            return lower_fold(stream, first, second, context)
        case syntax.Union():
            sides = []
            for part in stream.inputs:
                sides.append(_stream(part, context))
            known = [side for side in sides if side is not None]
            return lower_union(stream, known, context) if len(known) == len(sides) else None
        case syntax.Query(publish=None):
            lowered = _stream(stream.stream, context)
            return None if lowered is None else lower_select(stream, lowered, context)
        case syntax.Query():
            return _output(stream, stream.span, context)


def _read(stream: syntax.Read, context: Context) -> Lowered | None:
    name = stream.name.text
    if name in context.streams:
        given = context.streams[name]
        return Lowered(algebra.Source(name, given.schema, stream.span, given.meaning), fresh(given.schema.names), given.axis)
    if name in context.published.by_name:
        return _output(context.published.by_name[name], stream.span, context)
    context.findings.append(unknown_stream(stream.name, (*context.streams, *context.published.by_name)))
    return None


def _output(query: syntax.Query, span: Span, context: Context) -> Lowered | None:
    """The stream another query publishes; None if that query was wrong, which has been noted."""
    lowered = context.outputs.get(id(query))
    if lowered is None or query.publish is None:
        return None
    operator = algebra.Published(query.publish.text, lowered.operator, span)
    return Lowered(operator, fresh(operator.schema.names), lowered.axis)


def _filter(stream: syntax.Filter, lowered: Lowered, context: Context) -> Lowered:
    condition = predicate(stream.predicate, context.scope(in_filter(lowered.schema), lowered.axis), "FILTER")
    return Lowered(algebra.Filter(lowered.operator, condition or TRUE, stream.span), lowered.chain, lowered.axis)


def _reads(files: Files) -> list[Name]:
    return [node.name for file in files for query in file.queries for node in query.inside if isinstance(node, syntax.Read)]


LANGUAGE = Language(".cel", syntax.parse, outputs, _reads, needs, _query)
