"""Conditions as formulas: AND and OR of typed terms, NOT pushed into the terms, equivalence tests written out (SEMANTICS 5).

A term about an attribute that its event's type does not have is true. Where only some types of an ANY have it, the term says so itself:
"the event is of another type, or ...". It stays one term then: the alternatives of a condition with negated components are judged one
by one, and "of another type" is none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from keuka.diagnostics import Span
from keuka.expressions import TRUE, Call, Column, Expression, Literal, conjunction, conjuncts
from keuka.languages.coercion import NUMERIC, described
from keuka.languages.sase.components import MARK
from keuka.languages.sase.context import Context, Part
from keuka.languages.sase.scopes import Found, Resolve, no_component_has
from keuka.languages.sase.syntax import EQUIVALENCE
from keuka.languages.typing import predicate
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
        return formula_of(_written_out(value, place), place, negated)
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


def _term(value: Value, place: Place, negated: bool) -> Expression:
    """TRUE for a term that is wrong, which has been noted."""
    found: list[Found] = []

    def column(reference: Reference) -> Column:
        found.append(place.resolve(reference))
        return found[-1].column

    # The opposite of a comparison is its negation in three-valued logic too: both are unknown beside a NULL.
    if negated and isinstance(value, Operation) and value.operator in _OPPOSITE:
        value, negated = replace(value, operator=_OPPOSITE[value.operator]), False
    expression = predicate(value, place.context.scope(column, place.axis), place.name)
    if expression is None:
        return TRUE
    _check_negated(value, found, place.context)
    return _guarded(Call("not", (expression,), Type.BOOLEAN, value.span) if negated else expression, found, place)


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
            mark = Column(side, len(part.attributes), MARK.type, f"{part.variable}.{MARK.name}", expression.span)
            positions = [Literal(position, MARK.type, expression.span) for position in sorted(having)]
            is_one = Call("in", (mark, *positions), Type.BOOLEAN, expression.span)
            guards.append(Call("not", (is_one,), Type.BOOLEAN, expression.span))
    return Call("or", (*guards, expression), Type.BOOLEAN, expression.span) if guards else expression


def _written_out(test: Operation, place: Place) -> Value:
    """An equivalence test as the comparisons it stands for. They name components by position, which always works."""
    comparisons: list[Value] = []
    for operand in test.operands:
        reference = operand.operands[0] if isinstance(operand, Operation) else operand
        assert isinstance(reference, Reference)
        having = [part for part in place.parts if part.having(reference.name)]
        if not having:
            place.context.findings.extend(no_component_has(reference.name, reference.span, place.parts).diagnostics)
        elif isinstance(operand, Operation):
            comparisons += [replace(operand, operands=(_attribute(part, reference), operand.operands[1])) for part in having]
        elif _check_comparable(reference, having, place.context):
            pairs = [(one, other) for i, one in enumerate(having) for other in having[i + 1 :]]
            comparisons += [
                Operation("=", (_attribute(one, reference), _attribute(other, reference)), test.span)
                for one, other in pairs
                if not (one.component.negated and other.component.negated)
            ]
    return Operation("and", tuple(comparisons), test.span)


def _attribute(part: Part, reference: Reference) -> Reference:
    return replace(reference, qualifier=f"$x{part.index + 1}")


def _check_comparable(reference: Reference, having: list[Part], context: Context) -> bool:
    types = {part.attributes[part.names.index(reference.name)].type: part for part in having}
    if set(types) == {Type.OTHER}:
        context.note("K205", f"the values of `{reference.name}` cannot be compared", reference.span, "of a type that is only passed on")
        return False
    if len(types) == 1 or set(types) <= NUMERIC | {Type.NULL}:
        return True
    kinds = [f"{described(type)} in `{part.variable}`" for type, part in types.items()]
    help = "compare in WHERE what can be compared; values are not converted"
    context.note("K205", f"the values of `{reference.name}` cannot be equal", reference.span, f"{', '.join(kinds)}", help)
    return False
