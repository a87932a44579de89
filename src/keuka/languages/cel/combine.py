"""NEXT, FOLD and UNION of inputs that are lowered already: their schemas are checked, their conditions typed, their results named."""

from __future__ import annotations

from collections import Counter

from keuka.algebra import operators as algebra
from keuka.diagnostics import Diagnostic, Span, listing, similar
from keuka.expressions import CANDIDATE, FIRST, LAST, TRUE, Expression, Literal, scale_of
from keuka.languages.cel import syntax
from keuka.languages.cel.context import Context, Lowered
from keuka.languages.cel.naming import Chain, FoldNames, chained, collisions, folded, fresh
from keuka.languages.cel.scopes import in_fold, in_next
from keuka.languages.coercion import as_attribute, described, described_attribute
from keuka.languages.columns import column_of
from keuka.languages.typing import Scope, predicate, typed
from keuka.schema import ARROW_OF, Attribute, Schema, Type

_DUR_IN_ASSIGNMENT = "DUR is for the two conditions of FOLD; what it assigns subtracts times: `$2.ts - $1.ts`"


def lower_next(stream: syntax.Next, first: Lowered, second: Lowered, context: Context) -> Lowered:
    _check_clocks(first, second, stream.keyword, context)
    condition: Expression | None = TRUE
    if stream.predicate is not None:
        condition = predicate(stream.predicate, context.scope(in_next(first.schema, second.schema), first.axis), "NEXT")
    chain = chained(first.chain, second.chain)
    _check_collisions(chain, stream.keyword, context)
    schema = _named((*first.schema.attributes, *second.schema.attributes), chain.names)
    # skip = take: the first event that satisfies the condition is looked for, and it completes the pair.
    operator = algebra.Next(first.operator, second.operator, condition or TRUE, condition or TRUE, schema, stream.span)
    return Lowered(operator, chain, first.axis)


def lower_fold(stream: syntax.Fold, first: Lowered, second: Lowered, context: Context) -> Lowered:
    _check_clocks(first, second, stream.keyword, context)
    first = _with_assigned(stream, first, context)
    one, two = first.schema, second.schema
    _check_fold_schema(one, two, stream, context)
    assigned = {assignment.name.text for assignment in stream.assignments}
    lookup = in_fold(one, two, assigned)
    scope = context.scope(lookup, first.axis)
    skip, step = predicate(stream.skip, scope, "FOLD"), predicate(stream.step, scope, "FOLD")
    update = _update(stream, one, two, context.scope(lookup, first.axis, _DUR_IN_ASSIGNMENT))
    names = folded(first.chain, second.chain, assigned | set(two.names))
    _check_collisions(names.chain, stream.keyword, context)
    operator = algebra.Fold(first.operator, second.operator, skip or TRUE, step or TRUE, update, _fold_schema(one, names), stream.span)
    return Lowered(_without_copies(operator, names, stream.span), names.chain, first.axis)


def lower_union(stream: syntax.Union, sides: list[Lowered], context: Context) -> Lowered:
    first = sides[0]
    inputs = [first.operator]
    for part, side in zip(stream.inputs[1:], sides[1:], strict=True):
        _check_clocks(first, side, part.span, context)
        if _check_union_schema(first.schema, side.schema, part.span, context):
            inputs.append(_reordered(side.operator, first.schema, part.span))
    operator = algebra.Union(tuple(inputs), first.schema, stream.span)
    return Lowered(operator, fresh(first.schema.names), first.axis)


def _check_fold_schema(one: Schema, two: Schema, stream: syntax.Fold, context: Context) -> None:
    """Every attribute of the second input must be one of the first: each step overwrites it there."""
    missing = [a.name for a in two.attributes if one.index(a.name) is None]
    differing = [(a, b) for a in two.attributes for b in one.attributes if a.name == b.name and not _same_type(a, b)]
    if not missing and not differing:
        return
    help = []
    if missing:
        help.append(f"the first input lacks {listing(missing)}")
    help += [f"`{b.name}` is {described_attribute(b)} in the first input and {described_attribute(a)} in the second" for a, b in differing]
    help.append("select what both have: `FOLD {...} (SELECT Name, Price FROM ...)`")
    message = "the first input of FOLD must have every attribute of the second"
    context.note("K301", message, stream.second.span, "the second input", *help)


def _with_assigned(stream: syntax.Fold, first: Lowered, context: Context) -> Lowered:
    """The first input, with a NULL for every name it should have introduced: so the name is reported once, and not where it is used."""
    missing: dict[str, Expression] = {}
    for name in [a.name for a in stream.assignments if first.schema.index(a.name.text) is None]:
        if name.text not in missing:
            help = (
                *similar(name.text, first.schema.names),
                f"introduce it there: `(SELECT *, 0 AS {name.text} FROM ...) FOLD {{...}} ...`",
            )
            context.note("K302", f"the first input has no attribute `{name.text}` to assign to", name.span, "", *help)
            missing[name.text] = Literal(None, Type.NULL, name.span)
    if not missing:
        return first
    schema = Schema((*first.schema.attributes, *[Attribute(name, Type.NULL, ARROW_OF[Type.NULL]) for name in missing]))
    own = [column_of(first.schema, FIRST, index, stream.span) for index in range(len(first.schema.names))]
    operator = algebra.Map(first.operator, (*own, *missing.values()), schema, stream.span)
    labels = (*first.chain.labels, *fresh(missing).labels)
    return Lowered(operator, Chain(labels, first.chain.n_inputs), first.axis)


def _update(stream: syntax.Fold, one: Schema, two: Schema, scope: Scope) -> tuple[Expression, ...]:
    """For every attribute of the first input its value after a step."""
    update: list[Expression] = []
    for index, attribute in enumerate(one.attributes):
        candidate = two.index(attribute.name)
        update.append(column_of(one, LAST, index, stream.span) if candidate is None else column_of(two, CANDIDATE, candidate, stream.span))
    for assignment in stream.assignments:
        value, position = typed(assignment.value, scope), one.names.index(assignment.name.text)
        if value is not None:
            update[position] = _assigned(assignment, value, one[position], scope)
    for name, count in Counter([assignment.name.text for assignment in stream.assignments]).items():
        if count > 1:
            last = [a.name for a in stream.assignments if a.name.text == name][-1]
            scope.findings.append(Diagnostic("K302", f"FOLD assigns to `{name}` {count} times", last.span, "the last one"))
    return tuple(update)


def _assigned(assignment: syntax.Assignment, value: Expression, attribute: Attribute, scope: Scope) -> Expression:
    if attribute.type is Type.NULL:
        return value
    converted = as_attribute(value, attribute)
    if converted is not None:
        return converted
    message = f"`{attribute.name}` is {described(attribute.type)} and cannot be assigned {described(value.type)}"
    help: tuple[str, ...] = ()
    if (attribute.type, value.type) == (Type.INTEGER, Type.DOUBLE):
        help = ("start it as a double (`0.0 AS ...`), or round here with `floor(...)` or `ceil(...)`",)
    elif (attribute.type, value.type) == (Type.INTEGER, Type.DECIMAL):
        help = ("start it as a decimal: `Price - Price AS ...` is 0 with the digits of Price",)
    elif (attribute.type, value.type) == (Type.DECIMAL, Type.DECIMAL):
        message = f"`{attribute.name}` has {attribute.arrow.scale} digits behind the point and cannot be assigned {scale_of(value)}"
        help = ("start it with as many digits as it will have",)
    scope.findings.append(Diagnostic("K205", message, assignment.value.span, f"this is {described(value.type)}", help))
    return value


def _fold_schema(one: Schema, names: FoldNames) -> Schema:
    # A copy that `_without_copies` takes out needs a name up to there.
    latest = [label.name if label else f"{one[i].name}_{names.n_inputs}" for i, label in enumerate(names.latest)]
    return _named((*one.attributes, *one.attributes), (*[label.name for label in names.start], *latest))


def _without_copies(operator: algebra.Fold, names: FoldNames, span: Span) -> algebra.Operator:
    if None not in names.latest:
        return operator
    n_first = len(names.start)
    kept = [*range(n_first), *[n_first + i for i, label in enumerate(names.latest) if label]]
    items = tuple([column_of(operator.schema, FIRST, i, span) for i in kept])
    return algebra.Map(operator, items, Schema(tuple([operator.schema[i] for i in kept])), span)


def _check_union_schema(first: Schema, other: Schema, span: Span, context: Context) -> bool:
    missing = [name for name in first.names if other.index(name) is None]
    extra = [name for name in other.names if first.index(name) is None]
    differing = [(a, b) for a in first.attributes for b in other.attributes if a.name == b.name and not _same_type(a, b)]
    help = [f"it lacks {listing(missing)}"] if missing else []
    help += [f"only it has {listing(extra)}"] if extra else []
    help += [f"`{a.name}` is {described_attribute(a)} on the first side and {described_attribute(b)} here" for a, b in differing]
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
    items = tuple([column_of(own, FIRST, position, span) for position in positions])
    return algebra.Map(operator, items, Schema(tuple([own[position] for position in positions])), span)


def _check_clocks(first: Lowered, second: Lowered, span: Span, context: Context) -> None:
    if first.axis != second.axis:
        help = "give every stream of a query the same kind of time: timestamps, or integers of one unit"
        context.note("K511", "these streams do not share one clock", span, "joined here", help)


def _check_collisions(chain: Chain, span: Span, context: Context) -> None:
    """Notes names of two attributes. After many steps there can be thousands of them, so they are one mistake."""
    names = list(collisions(chain))
    if names:
        help = f"rename it in a SELECT before: `(SELECT ..., {names[0]} AS other FROM ...)`"
        others = [f"so would {listing(names[1:], 4)}"] if names[1:] else []
        context.note("K208", f"two attributes would be named `{names[0]}` here", span, "names what both inputs have", help, *others)


def _named(attributes: tuple[Attribute, ...], names: tuple[str, ...]) -> Schema:
    return Schema(tuple([attribute.renamed(name) for attribute, name in zip(attributes, names, strict=True)]))


def _same_type(one: Attribute, other: Attribute) -> bool:
    """NULL is the type of an item that was wrong, and has been noted."""
    return one.same_type(other) or Type.NULL in (one.type, other.type)
