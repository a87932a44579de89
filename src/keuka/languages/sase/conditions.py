"""Conditions as formulas: AND and OR of typed terms, NOT pushed into the terms, equivalence tests written out (docs/semantics.md, 5).

A term about an attribute that its event's type does not have is true. Where only some types of an ANY have it, the term says so itself:
"the event is of another type, or ...". It stays one term then: the alternatives of a condition with negated components are judged one
by one, and "of another type" is none of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from keuka.diagnostics import Diagnostic, Span
from keuka.errors import QueryError
from keuka.expressions import TRUE, Call, Column, Expression, Literal, conjunction, conjuncts
from keuka.languages.coercion import NUMERIC, described
from keuka.languages.sase.components import MARK
from keuka.languages.sase.context import Context, Part
from keuka.languages.sase.scopes import Found, Resolve, no_component_has
from keuka.languages.sase.syntax import EQUIVALENCE
from keuka.languages.typing import predicate, with_field
from keuka.languages.values import Operation, Reference, Value, ungrouped
from keuka.schema import TimeAxis, Type


@dataclass(frozen=True)
class Term:
    expression: Expression


@dataclass(frozen=True)
class Every:
    """All parts hold."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Either:
    """One of the parts holds."""

    parts: tuple[Formula, ...]
    span: Span


Formula = Term | Every | Either


@dataclass(frozen=True)
class Place:
    """Where a condition stands. `parts` are the components of the query.

    `lacking` collects the attributes whose terms are true because no type of the component has them.
    """

    name: str
    resolve: Resolve
    parts: tuple[Part, ...]
    axis: TimeAxis
    context: Context
    lacking: dict[str, Found]


_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def formula_of(value: Value, place: Place, negated: bool = False) -> Formula:
    """The formula of a condition, or of its negation."""
    value = ungrouped(value)
    operator = value.operator if isinstance(value, Operation) else ""
    if isinstance(value, Operation) and operator == EQUIVALENCE:
        tests = tuple([_equivalence(operand, value.span, place, negated) for operand in value.operands])
        return Either(tests, value.span) if negated else Every(tests)
    if isinstance(value, Operation) and operator == "not":
        return formula_of(value.operands[0], place, not negated)
    if isinstance(value, Operation) and operator in ("and", "or"):
        parts = []
        for operand in value.operands:
            parts.append(formula_of(operand, place, negated))
        return Every(tuple(parts)) if (operator == "and") != negated else Either(tuple(parts), value.span)
    return Term(_term(value, place, negated))


def expression_of(formula: Formula) -> Expression:
    """The formula as one expression, without parts that are always true."""
    if isinstance(formula, Term):
        return formula.expression
    parts = [expression_of(part) for part in formula.parts]
    if isinstance(formula, Every):
        return conjunction(tuple([term for part in parts for term in conjuncts(part)]))
    if TRUE in parts:
        return TRUE
    if not parts:  # NOT of an equivalence test that compares nothing
        return Literal(False, Type.BOOLEAN, formula.span)
    return parts[0] if len(parts) == 1 else Call("or", tuple(parts), Type.BOOLEAN, formula.span)


def _comparison(value: Value, place: Place, attempt: int = 0) -> tuple[Expression, list[Found]] | None:
    """The comparison and the attributes it reads, or None after noting what is wrong with it.

    An attribute that its event's type lacks is a NULL at the first attempt, then of each type that it has in other components: the
    comparison will be true, so it is a mistake only if it is one with all of these types.
    """
    found: list[Found] = []
    findings: list[Diagnostic] = []

    def column(reference: Reference) -> Column:
        one = place.resolve(reference)
        found.append(one)
        return replace(one.column, type=(Type.NULL, *one.elsewhere)[min(attempt, len(one.elsewhere))]) if one.elsewhere else one.column

    expression = predicate(value, replace(place.context.scope(column, place.axis), findings=findings), place.name)
    if expression is not None:
        _check_negated(value, found, place.context)
        return expression, found
    if attempt < max([len(one.elsewhere) for one in found], default=0):
        return _comparison(value, place, attempt + 1)
    place.context.findings.extend(findings)
    return None


def _term(value: Value, place: Place, negated: bool) -> Expression:
    """TRUE for a term that is wrong, which has been noted."""
    # The opposite of a comparison is its negation in three-valued logic too: both are unknown beside a NULL.
    if negated and isinstance(value, Operation) and value.operator in _OPPOSITE:
        value, negated = replace(value, operator=_OPPOSITE[value.operator]), False
    typed = _comparison(value, place)
    if typed is None:
        return TRUE
    expression, found = typed
    return _guarded(_not(expression) if negated else expression, found, place)


def _check_negated(value: Value, found: list[Found], context: Context) -> None:
    negated = {one.part.index: one.part.variable for one in found if one.part.component.negated}
    if len(negated) > 1:
        message = f"a comparison names two events that must not occur, {' and '.join([f'`{name}`' for name in negated.values()])}"
        help = "each of them is looked for by itself; compare each with events that do occur"
        context.note("K308", message, value.span, "", help)


def _guarded(expression: Expression, found: list[Found], place: Place) -> Expression:
    """The term, true for events of types that lack an attribute it reads."""
    for one in found:
        if not one.having:
            place.lacking.setdefault(one.column.name, one)
    guards = []
    for part, side in {one.part.index: (one.part, one.column.side) for one in found}.values():
        having = set.intersection(*[set(one.having) for one in found if one.part is part])
        if not having:
            return TRUE
        if len(having) < len(part.types):
            guards.append(_not(_is_of(part, side, having, expression.span)))
    return Call("or", (*guards, expression), Type.BOOLEAN, expression.span) if guards else expression


def _is_of(part: Part, side: int, types: set[int], span: Span | None) -> Expression:
    """Is the event of an ANY one of these of its types?"""
    mark = Column(side, len(part.attributes), MARK.type, f"{part.variable}.{MARK.name}", span)
    return Call("in", (mark, *[Literal(position, MARK.type, span) for position in sorted(types)]), Type.BOOLEAN, span)


def _not(expression: Expression) -> Expression:
    return Call("not", (expression,), Type.BOOLEAN, expression.span)


# -- equivalence tests -------------------------------------------------------------------------------------------------------


def _equivalence(test: Value, span: Span, place: Place, negated: bool) -> Formula:
    """`[a]` or `[a = c]`, or the opposite. `span` is that of the brackets."""
    reference = test.operands[0] if isinstance(test, Operation) else test
    assert isinstance(reference, Reference)
    having = [part for part in place.parts if part.having(reference.name)]
    if not having:
        error = no_component_has(reference.name, reference.span, place.parts)
        if reference.fields and reference.name in [part.variable for part in place.parts]:
            help = f"an equivalence test is about all events, so its attributes have no variable: `[{'.'.join(reference.fields)}]`"
            error = QueryError(replace(error.diagnostics[0], help=(help,)))
        place.context.findings.extend(error.diagnostics)
    elif isinstance(test, Operation) or _check_comparable(reference, having, place.context):
        comparisons = _each(test, reference, having) if isinstance(test, Operation) else _pairs(reference, having, span)
        if not negated:
            return Every(tuple([Term(_term(value, place, False)) for _, value in comparisons]))
        return _opposite(comparisons, reference, having, isinstance(test, Operation), place)
    return Every(())


_Comparisons = list[tuple[tuple[Part, ...], Operation]]  # with the components it compares


def _each(test: Operation, reference: Reference, having: list[Part]) -> _Comparisons:
    """`[a = c]`: every event with the constant."""
    return [((part,), replace(test, operands=(_attribute(part, reference), test.operands[1]))) for part in having]


def _pairs(reference: Reference, having: list[Part], span: Span) -> _Comparisons:
    """`[a]`: every two events, those of negated components only with those that occur."""
    return [
        ((one, other), Operation("=", (_attribute(one, reference), _attribute(other, reference)), span=span))
        for one, other in itertools.combinations(having, 2)
        if not (one.component.negated and other.component.negated)
    ]


def _opposite(comparisons: _Comparisons, reference: Reference, having: list[Part], alone: bool, place: Place) -> Formula:
    """The test is false: a comparison is, of events that have the attribute, and no NULL makes the test unknown.

    `alone`: the test asks something of a single event, too.
    """
    alternatives = []
    for compared, value in comparisons:
        typed = _comparison(replace(value, operator="<>"), place)
        if typed is not None:
            alternatives.append(Every(tuple([Term(term) for term in (*[_has(part, reference) for part in compared], typed[0])])))
    occurring = [part for part in having if not part.component.negated]
    known = [_is_known(part, occurring, reference, alone) for part in occurring] if len(comparisons) > 1 else []
    return Every((*[Term(term) for term in known], Either(tuple(alternatives), reference.span)))


def _is_known(part: Part, occurring: list[Part], reference: Reference, alone: bool) -> Expression:
    """Is the component's value no NULL that makes the test unknown? If the test compares two, a single event may have one."""
    others = [_has(other, reference) for other in occurring if other is not part]
    if not alone and not others:
        return TRUE
    excuses = [] if _has(part, reference) == TRUE else [_not(_has(part, reference))]
    if not alone and TRUE not in others:
        excuses.append(conjunction(tuple([_not(has) for has in others])))
    has_value = _not(Call("is_null", (_column(part, reference),), Type.BOOLEAN, reference.span))
    return Call("or", (*excuses, has_value), Type.BOOLEAN, reference.span) if excuses else has_value


def _column(part: Part, reference: Reference) -> Column:
    """What the reference means in a component that has the attribute."""
    index = part.names.index(reference.name)
    attribute = part.attributes[index]
    column = Column(part.index, index, attribute.type, f"{part.variable}.{reference.name}", reference.span, attribute.arrow)
    return with_field(column, reference) if reference.fields else column


def _has(part: Part, reference: Reference) -> Expression:
    """Does the component's event have the attribute?"""
    having = set(part.having(reference.name))
    return TRUE if len(having) == len(part.types) else _is_of(part, part.index, having, reference.span)


def _attribute(part: Part, reference: Reference) -> Reference:
    return replace(reference, qualifier=f"$x{part.index + 1}")


def _check_comparable(reference: Reference, having: list[Part], context: Context) -> bool:
    try:
        types = {_column(part, reference).type: part for part in having}
    except QueryError as error:
        context.findings.extend(error.diagnostics)
        return False
    if set(types) == {Type.OTHER}:
        context.note("K205", f"the values of `{reference.name}` cannot be compared", reference.span, "of a type that is only passed on")
        return False
    if len(types) == 1 or set(types) <= NUMERIC | {Type.NULL} or set(types) <= {Type.DATE, Type.TIMESTAMP, Type.NULL}:
        return True
    kinds = [f"{described(type)} in `{part.variable}`" for type, part in types.items()]
    help = "compare in WHERE what can be compared; values are not converted"
    context.note("K205", f"the values of `{reference.name}` cannot be equal", reference.span, f"{', '.join(kinds)}", help)
    return False
