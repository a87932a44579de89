"""SASE syntax trees to the event algebra (docs/semantics.md, 5): looks up streams and attributes, checks types, divides conditions."""

from __future__ import annotations

import logging

from keuka.algebra import operators as algebra
from keuka.algebra.operators import Alternative
from keuka.diagnostics import Span
from keuka.errors import QueryError
from keuka.expressions import TRUE
from keuka.languages.language import Files, Language
from keuka.languages.published import Publications
from keuka.languages.sase import syntax
from keuka.languages.sase.alternatives import alternatives_of
from keuka.languages.sase.components import read_components
from keuka.languages.sase.conditions import Place, expression_of, formula_of
from keuka.languages.sase.context import Context, Lowered, Part
from keuka.languages.sase.hints import NO_DUR
from keuka.languages.sase.output import lower_return, sequence_schema
from keuka.languages.sase.scopes import Found, in_component, in_where
from keuka.languages.sase.shape import check_equivalences, check_negations, check_size, check_variables, window_of
from keuka.languages.values import Name

log = logging.getLogger("keuka")


def _needs(query: syntax.Query, published: Publications[syntax.Query]) -> list[tuple[syntax.Query, Span]]:
    types = [name for component in query.components for name in component.types]
    return [(published.by_name[name.text], name.span) for name in reversed(types) if name.text in published.by_name]


def _query(query: syntax.Query, context: Context) -> Lowered | None:
    check_negations(query, context)
    if not check_size(query, context):
        return None
    parts = read_components(query, context)
    is_clear = check_variables(query, context) and check_equivalences(query, context)
    if parts is None or not is_clear:
        return None
    lacking: dict[str, Found] = {}
    components = tuple([_component(part, parts, lacking, context) for part in parts])
    alternatives = _alternatives(query, parts, lacking, context)
    within = window_of(query, parts[0].axis, context)
    schema = sequence_schema(parts, context)
    if schema is None:
        return None
    window = None if query.window is None else query.window.span
    sequence = algebra.Sequence(components, alternatives, within, schema, query.ordered, query.span, window)
    for name, found in lacking.items():
        types = " and ".join([f"`{type.text}`" for type in found.part.component.types])
        log.warning("a condition on `%s` is always true: %s has no such attribute", name, types)
    return Lowered(lower_return(query, sequence, parts, context), parts[0].axis)


def _component(part: Part, parts: tuple[Part, ...], lacking: dict[str, Found], context: Context) -> algebra.Component:
    """The component's stream, filtered by its own condition."""
    operator, condition = part.operator, part.component.predicate
    if condition is not None:
        place = Place(f"`{part.variable}`", in_component(part, parts), parts, part.axis, context, lacking)
        predicate = expression_of(formula_of(condition, place))
        if predicate != TRUE:
            operator = algebra.Filter(operator, predicate, condition.span)
    return algebra.Component(operator, part.label, part.component.negated)


def _alternatives(query: syntax.Query, parts: tuple[Part, ...], lacking: dict[str, Found], context: Context) -> tuple[Alternative, ...]:
    negated = tuple([part.index for part in parts if part.component.negated])
    if query.where is None:
        return (Alternative((), tuple([() for _ in negated])),)
    formula = formula_of(query.where, Place("WHERE", in_where(parts), parts, parts[0].axis, context, lacking))
    try:
        return alternatives_of(formula, negated, query.where.span)
    except QueryError as error:
        context.findings.extend(error.diagnostics)
        return ()


def _queries(files: Files) -> tuple[syntax.Query, ...]:
    return tuple([query for file in files for query in file.queries])


def _reads(files: Files) -> list[Name]:
    return [name for query in _queries(files) for component in query.components for name in component.types]


LANGUAGE = Language(".sase", syntax.parse, _queries, _reads, _needs, _query, NO_DUR)
