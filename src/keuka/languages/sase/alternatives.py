"""WHERE as the alternatives of a Sequence (docs/semantics.md, 5): disjunctive normal form, as far as negated components ask for it.

"There is no such event" is asked for each alternative by itself, so a disjunction that names a negated component is split. Whatever names
none means the same either way and stays one term.
"""

from __future__ import annotations

import itertools
import math

from keuka.algebra.operators import MOST_ALTERNATIVES, Alternative
from keuka.diagnostics import Diagnostic, Span
from keuka.errors import QueryError
from keuka.expressions import Call, Expression, conjuncts, sides
from keuka.languages.sase.conditions import Either, Every, Formula, Term, expression_of

_MIRRORED = {"gt": "lt", "ge": "le"}


def alternatives_of(formula: Formula, negated: tuple[int, ...], span: Span) -> tuple[Alternative, ...]:
    """`negated` are the numbers of the negated components, `span` is that of WHERE."""
    n_alternatives = _count(formula, negated)
    if n_alternatives > MOST_ALTERNATIVES:
        message = f"this condition has {n_alternatives} alternatives, more than {MOST_ALTERNATIVES}"
        help = ("each OR about a component that must not occur multiplies them; write several queries, or join values with IN",)
        raise QueryError(Diagnostic("K401", message, span, help=help))
    found: dict[frozenset[object], tuple[Expression, ...]] = {}
    for disjunct in _disjuncts(formula, negated):
        terms: dict[object, Expression] = {}
        for term in disjunct:
            terms.setdefault(_key(term), term)
        found.setdefault(frozenset(terms), tuple(terms.values()))
    return tuple([_alternative(terms, negated) for terms in found.values()])


def _alternative(terms: tuple[Expression, ...], negated: tuple[int, ...]) -> Alternative:
    absent = tuple([tuple([term for term in terms if side in sides(term)]) for side in negated])
    return Alternative(tuple([term for term in terms if not sides(term) & set(negated)]), absent)


def _names(formula: Formula, negated: tuple[int, ...]) -> bool:
    """Does it name a negated component?"""
    if isinstance(formula, Term):
        return not sides(formula.expression).isdisjoint(negated)
    return any(_names(part, negated) for part in formula.parts)


def _parts(formula: Every | Either, negated: tuple[int, ...]) -> tuple[Formula, ...]:
    """The parts of a formula; those of a disjunction that name no negated component are one, for they ask for the same absences."""
    plain = tuple([part for part in formula.parts if not _names(part, negated)])
    if isinstance(formula, Every) or len(plain) < 2:
        return formula.parts
    return (Either(plain, formula.span), *[part for part in formula.parts if _names(part, negated)])


def _count(formula: Formula, negated: tuple[int, ...]) -> int:
    if isinstance(formula, Term) or not _names(formula, negated):
        return 1
    counts = [_count(part, negated) for part in _parts(formula, negated)]
    return math.prod(counts) if isinstance(formula, Every) else sum(counts)


def _disjuncts(formula: Formula, negated: tuple[int, ...]) -> list[tuple[Expression, ...]]:
    """The alternatives of a formula, each as its terms."""
    if isinstance(formula, Term) or not _names(formula, negated):
        return [_terms(expression_of(formula), negated)]
    parts = [_disjuncts(part, negated) for part in _parts(formula, negated)]
    if isinstance(formula, Every):
        return [tuple(itertools.chain.from_iterable(choice)) for choice in itertools.product(*parts)]
    return list(itertools.chain.from_iterable(parts))


def _terms(expression: Expression, negated: tuple[int, ...]) -> tuple[Expression, ...]:
    """The terms of a conjunction. BETWEEN is one comparison, so both of its bounds belong to the absence that one of them names."""
    terms = conjuncts(expression)
    named = [not sides(term).isdisjoint(negated) for term in terms]
    return (expression,) if any(named) and not all(named) else terms


def _key(term: Expression) -> object:
    """Terms with equal keys say the same: `a < b` and `b > a`, `a = b` and `b = a`."""
    if isinstance(term, Call) and term.op in ("eq", "ne"):
        return term.op, frozenset(term.args)
    if isinstance(term, Call) and term.op in ("lt", "le"):
        return term.op, term.args
    if isinstance(term, Call) and term.op in _MIRRORED:
        return _MIRRORED[term.op], term.args[::-1]
    return term
