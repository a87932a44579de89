"""CEL syntax trees to the event algebra (SEMANTICS 4): streams and attributes are looked up, types checked, names given.

In: the files that are to see each other's published streams, the types of the input streams, the parameters.
Out: a Program, or one QueryError with every mistake of names, types and meaning that was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from keuka.algebra import operators as algebra
from keuka.algebra.operators import Program
from keuka.diagnostics import Diagnostic, Span, listing, similar
from keuka.errors import QueryError
from keuka.expressions import CANDIDATE, FIRST, LAST, TRUE, Column, Expression, Literal, walk
from keuka.languages.cel import syntax
from keuka.languages.cel.naming import Chain, chained, collisions, folded, fresh
from keuka.languages.cel.published import Publications, check_names, evaluation_order, publications
from keuka.languages.cel.scopes import Lookup, in_filter, in_fold, in_next, in_select
from keuka.languages.coercion import as_type, described
from keuka.languages.parameters import read_parameters
from keuka.languages.typing import Scope, predicate, typed
from keuka.languages.values import Parameter, Reference, ungrouped
from keuka.schema import ARROW_OF, Attribute, Schema, StreamType, TimeAxis, Type


@dataclass(frozen=True)
class _Lowered:
    """An operator, how its attributes came by their names, and the clock its events run by."""

    operator: algebra.Operator
    chain: Chain
    axis: TimeAxis


@dataclass(frozen=True)
class _Context:
    streams: Mapping[str, StreamType]
    parameters: Mapping[str, Literal | timedelta]
    published: Publications
    outputs: dict[int, _Lowered]  # the outputs lowered so far, by the identity of their query
    findings: list[Diagnostic]

    def scope(self, column: Lookup, axis: TimeAxis, no_duration: str = "") -> Scope:
        return Scope(column, self.parameters, axis.tick_us, no_duration, self.findings)

    def note(self, code: str, message: str, span: Span, label: str = "", *help: str) -> None:
        self.findings.append(Diagnostic(code, message, span, label, help))


def lower(files: tuple[syntax.CelFile, ...], streams: Mapping[str, StreamType], params: Mapping[str, object]) -> Program:
    findings: list[Diagnostic] = []
    published = publications(files, streams)
    check_names(published.outputs, streams, findings)
    given = read_parameters(_parameters(files), params, findings)
    context = _Context(streams, given, published, {}, findings)
    for query in evaluation_order(published, findings):
        lowered = _query(query, context)
        if lowered is not None:
            context.outputs[id(query)] = lowered
    if findings:
        raise QueryError(*sorted(findings, key=_place))
    return Program(tuple([(q.publish.text if q.publish else "", context.outputs[id(q)].operator) for q in published.outputs]))


def inputs(files: tuple[syntax.CelFile, ...]) -> tuple[str, ...]:
    """The streams that are read but published by no query, in the order of first use."""
    published = publications(files, ()).by_name
    read = [node.name.text for node in _nodes(files) if isinstance(node, syntax.Read)]
    return tuple(dict.fromkeys([name for name in read if name not in published]))


def parameters(files: tuple[syntax.CelFile, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([parameter.name for parameter in _parameters(files)]))


def _nodes(files: tuple[syntax.CelFile, ...]) -> list[syntax.Node]:
    return [node for file in files for query in file.queries for node in syntax.walk(query)]


def _parameters(files: tuple[syntax.CelFile, ...]) -> list[Parameter]:
    return [node for node in _nodes(files) if isinstance(node, Parameter)]


def _place(finding: Diagnostic) -> tuple[str, int]:
    return ("\uffff", 0) if finding.span is None else (finding.span.source.name, finding.span.start)


def _stream(stream: syntax.Stream, context: _Context) -> _Lowered | None:
    """The operator of a stream, or None after noting why there is none."""
    while isinstance(stream, syntax.Parenthesised):
        stream = stream.inner
    match stream:
        case syntax.Read():
            return _read(stream, context)
        case syntax.Filter():
            return _filter(stream, context)
        case syntax.Next():
            return _next(stream, context)
        case syntax.Fold():
            return _fold(stream, context)
        case syntax.Union():
            return _union(stream, context)
        case syntax.Query(publish=None):
            return _query(stream, context)
        case syntax.Query():
            return _output(stream, stream.span, context)


def _read(stream: syntax.Read, context: _Context) -> _Lowered | None:
    name = stream.name.text
    if name in context.streams:
        given = context.streams[name]
        return _Lowered(algebra.Source(name, given.schema, stream.span), fresh(given.schema.names), given.axis)
    if name in context.published.by_name:
        return _output(context.published.by_name[name], stream.span, context)
    known = (*context.streams, *context.published.by_name)
    help = (*similar(name, known), f"streams: {listing(known)}" if known else "no streams are given")
    context.note("K202", f"there is no stream `{name}`", stream.span, "", *help)
    return None


def _output(query: syntax.Query, span: Span, context: _Context) -> _Lowered | None:
    """The stream another query publishes; None if that query was wrong, which has been noted."""
    lowered = context.outputs.get(id(query))
    if lowered is None or query.publish is None:
        return None
    operator = algebra.Published(query.publish.text, lowered.operator, span)
    return _Lowered(operator, fresh(operator.schema.names), lowered.axis)


def _query(query: syntax.Query, context: _Context) -> _Lowered | None:
    lowered = _stream(query.stream, context)
    if lowered is None:
        return None
    schema = lowered.operator.schema
    if query.items is None or [item.name for item in query.items] == [None]:
        return _Lowered(lowered.operator, fresh(schema.names), lowered.axis)
    no_duration = "DUR is for the conditions of FILTER, NEXT and FOLD; every result has `_start` and `_end`"
    scope = context.scope(in_select(schema), lowered.axis, no_duration)
    columns: list[tuple[Attribute, Expression]] = []
    for item in query.items:
        columns.extend(_item(item, schema, scope))
    _check_distinct(query.items, schema, context)
    selected = Schema(tuple([attribute for attribute, _ in columns]))
    operator = algebra.Map(lowered.operator, tuple([expression for _, expression in columns]), selected, query.span)
    return _Lowered(operator, fresh(selected.names), lowered.axis)


def _item(item: syntax.Item, schema: Schema, scope: Scope) -> list[tuple[Attribute, Expression]]:
    """The columns of one item: all attributes for `*`. A wrong item becomes a NULL, which fits everywhere, so that checking can go on."""
    if item.value is None or item.name is None:
        return [(attribute, _column(FIRST, index, schema, item.span)) for index, attribute in enumerate(schema.attributes)]
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


def _arrow_type(expression: Expression, schema: Schema) -> object:
    """The type in result tables; a computed time keeps the zone of the first timestamp it is computed from."""
    if expression.type is Type.TIMESTAMP:
        for node in walk(expression):
            if isinstance(node, Column) and node.type is Type.TIMESTAMP:
                return schema[node.index].arrow
    return ARROW_OF[expression.type]


def _check_distinct(items: tuple[syntax.Item, ...], schema: Schema, context: _Context) -> None:
    seen: set[str] = set()
    for item in items:
        names = set(schema.names) if item.name is None else {item.name.text}
        for name in sorted(names & seen):
            context.note("K209", f"two columns are named `{name}`", item.span, "the second one", "rename one of them with `AS`")
        seen |= names


def _column(side: int, index: int, schema: Schema, span: Span) -> Column:
    return Column(side, index, schema[index].type, schema[index].name, span)


def _filter(stream: syntax.Filter, context: _Context) -> _Lowered | None:
    lowered = _stream(stream.input, context)
    if lowered is None:
        return None
    condition = predicate(stream.predicate, context.scope(in_filter(lowered.operator.schema), lowered.axis), "FILTER")
    operator = algebra.Filter(lowered.operator, condition or TRUE, stream.span)
    return _Lowered(operator, lowered.chain, lowered.axis)


def _next(stream: syntax.Next, context: _Context) -> _Lowered | None:
    first, second = _stream(stream.first, context), _stream(stream.second, context)
    if first is None or second is None:
        return None
    _check_clocks(first, second, stream.keyword, context)
    one, two = first.operator.schema, second.operator.schema
    condition: Expression | None = TRUE
    if stream.predicate is not None:
        condition = predicate(stream.predicate, context.scope(in_next(one, two), first.axis), "NEXT")
    chain = chained(first.chain, second.chain)
    _check_collisions(chain, stream.keyword, context)
    schema = _named((*one.attributes, *two.attributes), chain.names)
    operator = algebra.Next(first.operator, second.operator, condition or TRUE, condition or TRUE, schema, stream.span)
    return _Lowered(operator, chain, first.axis)


def _fold(stream: syntax.Fold, context: _Context) -> _Lowered | None:
    first, second = _stream(stream.first, context), _stream(stream.second, context)
    if first is None or second is None:
        return None
    _check_clocks(first, second, stream.keyword, context)
    one, two = first.operator.schema, second.operator.schema
    _check_fold_schema(one, two, stream, context)
    assigned = {assignment.name.text for assignment in stream.assignments}
    lookup = in_fold(one, two, assigned)
    scope = context.scope(lookup, first.axis)
    skip, step = predicate(stream.skip, scope, "FOLD"), predicate(stream.step, scope, "FOLD")
    update = _update(stream, one, two, context.scope(lookup, first.axis, "DUR is for the two conditions of FOLD, not for what it assigns"))
    names = folded(first.chain, second.chain, assigned | set(two.names))
    _check_collisions(names.chain, stream.keyword, context)
    # A copy that is left out below needs a name up to there.
    latest = [label.name if label else f"{one[i].name}_{names.n_inputs}" for i, label in enumerate(names.latest)]
    schema = _named((*one.attributes, *one.attributes), (*[label.name for label in names.start], *latest))
    operator: algebra.Operator = algebra.Fold(first.operator, second.operator, skip or TRUE, step or TRUE, update, schema, stream.span)
    if None in names.latest:
        kept = [*range(len(one)), *[len(one) + i for i, label in enumerate(names.latest) if label]]
        items = tuple([_column(FIRST, i, schema, stream.span) for i in kept])
        operator = algebra.Map(operator, items, Schema(tuple([schema[i] for i in kept])), stream.span)
    return _Lowered(operator, names.chain, first.axis)


def _check_fold_schema(one: Schema, two: Schema, stream: syntax.Fold, context: _Context) -> None:
    """Every attribute of the second input must be one of the first: each step overwrites it there."""
    missing = [a.name for a in two.attributes if one.index(a.name) is None]
    differing = [(a, b) for a in two.attributes for b in one.attributes if a.name == b.name and not _same_type(a, b)]
    if not missing and not differing:
        return
    help = []
    if missing:
        help.append(f"the first input lacks {listing(missing)}")
    help += [f"`{b.name}` is {described(b.type)} in the first input and {described(a.type)} in the second" for a, b in differing]
    help.append("select what both have: `FOLD {...} (SELECT Name, Price FROM ...)`")
    message = "the first input of FOLD must have every attribute of the second"
    context.note("K301", message, stream.second.span, "the second input", *help)


def _update(stream: syntax.Fold, one: Schema, two: Schema, scope: Scope) -> tuple[Expression, ...]:
    """For every attribute of the first input its value after a step."""
    update: list[Expression] = []
    for index, attribute in enumerate(one.attributes):
        candidate = two.index(attribute.name)
        update.append(_column(LAST, index, one, stream.span) if candidate is None else _column(CANDIDATE, candidate, two, stream.span))
    for assignment in stream.assignments:
        value, position = typed(assignment.value, scope), one.index(assignment.name.text)
        if position is None:
            name = assignment.name.text
            help = (*similar(name, one.names), f"introduce it there: `(SELECT *, 0 AS {name} FROM ...) FOLD {{...}} ...`")
            message = f"the first input has no attribute `{name}` to assign to"
            scope.findings.append(Diagnostic("K302", message, assignment.name.span, "", help))
        elif value is not None:
            update[position] = _assigned(assignment, value, one[position], scope)
    for name, count in Counter([assignment.name.text for assignment in stream.assignments]).items():
        if count > 1:
            last = [a.name for a in stream.assignments if a.name.text == name][-1]
            scope.findings.append(Diagnostic("K302", f"FOLD assigns to `{name}` {count} times", last.span, "the last one"))
    return tuple(update)


def _assigned(assignment: syntax.Assignment, value: Expression, attribute: Attribute, scope: Scope) -> Expression:
    if attribute.type is Type.NULL:
        return value
    converted = as_type(value, attribute.type) if attribute.type is not Type.OTHER else None
    if converted is not None:
        return converted
    message = f"`{attribute.name}` is {described(attribute.type)} and cannot be assigned {described(value.type)}"
    help: tuple[str, ...] = ()
    if (attribute.type, value.type) == (Type.INTEGER, Type.DOUBLE):
        help = ("start it as a double (`0.0 AS ...`), or round here with `floor(...)` or `ceil(...)`",)
    scope.findings.append(Diagnostic("K205", message, assignment.value.span, f"this is {described(value.type)}", help))
    return value


def _union(stream: syntax.Union, context: _Context) -> _Lowered | None:
    every = [_stream(part, context) for part in stream.inputs]
    sides = [side for side in every if side is not None]
    if len(sides) < len(every):
        return None
    first = sides[0]
    schema = first.operator.schema
    ordered = [first.operator]
    for part, side in zip(stream.inputs[1:], sides[1:], strict=True):
        _check_clocks(first, side, part.span, context)
        if not _check_union_schema(schema, side.operator.schema, part.span, context):
            continue
        ordered.append(_reordered(side.operator, schema, part.span))
    return _Lowered(algebra.Union(tuple(ordered), schema, stream.span), fresh(schema.names), first.axis)


def _check_union_schema(first: Schema, other: Schema, span: Span, context: _Context) -> bool:
    missing = [name for name in first.names if other.index(name) is None]
    extra = [name for name in other.names if first.index(name) is None]
    differing = [(a, b) for a in first.attributes for b in other.attributes if a.name == b.name and not _same_type(a, b)]
    help = [f"it lacks {listing(missing)}"] if missing else []
    help += [f"only it has {listing(extra)}"] if extra else []
    help += [f"`{a.name}` is {described(a.type)} on the first side and {described(b.type)} here" for a, b in differing]
    if not help:
        return True
    help.append("select the same names and types on every side: `(SELECT Name, Price FROM ...)`")
    context.note("K303", "the sides of UNION have different attributes", span, "differs from the first side", *help)
    return False


def _reordered(operator: algebra.Operator, schema: Schema, span: Span) -> algebra.Operator:
    """The operator with its attributes in the order of `schema`."""
    own = operator.schema
    if own.names == schema.names:
        return operator
    positions = [own.names.index(name) for name in schema.names]
    items = tuple([_column(FIRST, position, own, span) for position in positions])
    return algebra.Map(operator, items, Schema(tuple([own[position] for position in positions])), span)


def _check_clocks(first: _Lowered, second: _Lowered, span: Span, context: _Context) -> None:
    if first.axis != second.axis:
        help = "give every stream of a query the same kind of time: timestamps, or integers of one unit"
        context.note("K511", "these streams do not share one clock", span, "joined here", help)


def _check_collisions(chain: Chain, span: Span, context: _Context) -> None:
    for name in collisions(chain):
        help = f"rename it in a SELECT before: `(SELECT ..., {name} AS other FROM ...)`"
        context.note("K208", f"two attributes would be named `{name}` here", span, "names what both inputs have", help)


def _named(attributes: tuple[Attribute, ...], names: tuple[str, ...]) -> Schema:
    return Schema(tuple([attribute.renamed(name) for attribute, name in zip(attributes, names, strict=True)]))


def _same_type(one: Attribute, other: Attribute) -> bool:
    """NULL is the type of an item that was wrong, and has been noted."""
    return one.same_type(other) or Type.NULL in (one.type, other.type)
