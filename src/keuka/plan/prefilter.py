"""Which events of a source can matter to a plan, so that the others can be dropped before the kernel.

In comes a plan; out comes, by source, a predicate over its raw events. An event of which it is not TRUE changes no result and raises no
error. A source is read in places: by starts, by states that wait for candidates, by components of sequences. Each place has terms that
hold of every event that gets past it, and of every event that fails in it; an event matters if it can matter in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from keuka.automaton.contract import Plan
from keuka.automaton.model import Bind, Keep, Step
from keuka.expressions import (
    Call,
    Column,
    Duration,
    Expression,
    Literal,
    can_fail,
    columns,
    conjunction,
    conjuncts,
    substitute,
    walk,
)
from keuka.schema import Schema, Type

MOST_ALTERNATIVES = 64  # testing more of them for every event costs more than the events that are dropped
MOST_CONSTANTS = 1024  # that a column is compared with
MOST_NODES = 256  # of a term: values computed from computed values grow without bound when written out

Terms = tuple[Expression, ...]


def needed(plan: Plan) -> dict[str, Expression]:
    """By source: what is TRUE of every event that can matter. Sources are left out if all of their events can, or too many things do.

    Equal rows stay or go together, so an id that counts them counts the same.
    """
    schemas = {source.stream: source.schema for source in plan.sources}
    places: dict[str, list[Terms]] = {stream: [] for stream in schemas}
    for stage in plan.stages:
        for stream, steps in stage.physical.places():
            if stream in places:
                places[stream].append(_terms(steps))
    found = {stream: _any_of(each) for stream, each in places.items()}
    return {stream: _named(predicate, schemas[stream]) for stream, predicate in found.items() if predicate is not None}


def _named(predicate: Expression, schema: Schema) -> Expression:
    """With the names that the source gives its attributes."""
    return substitute(predicate, lambda column: replace(column, name=schema[column.index].name))


def _terms(steps: Sequence[Step]) -> Terms:
    """What holds of a raw event that passes the steps or fails in one of them.

    A term that is false or unknown makes up for others of its conjunction that fail, so it counts even beside them; but what stands
    behind something that can fail is never reached by an event that fails there.
    """
    found: list[Expression] = []
    values: Sequence[Expression | None] | None = None  # what the steps so far made of the event; None while it is the event itself
    for step in steps:
        if isinstance(step, Keep):
            known = [_on_the_event(term, values) for term in conjuncts(step.predicate) if not can_fail(term)]
            found += [term for each in known if each is not None for term in conjuncts(each)]
        if any(can_fail(e) for e in ((step.predicate,) if isinstance(step, Keep) else step.items)):
            break
        if isinstance(step, Bind):
            values = [_on_the_event(item, values) for item in step.items]
    return tuple(dict.fromkeys(found))


def _on_the_event(expression: Expression, values: Sequence[Expression | None] | None) -> Expression | None:
    """The expression over the attributes of the raw event; None if it is not one of these alone, or too long."""
    if any(isinstance(node, Duration) for node in walk(expression)):
        return None
    if values is None:
        return expression
    known = {index: value for _, index in columns(expression) if (value := values[index]) is not None}
    if len(known) < len(columns(expression)):
        return None
    written_out = substitute(expression, lambda column: known[column.index])
    return written_out if sum(1 for _ in walk(written_out)) <= MOST_NODES else None


# -- alternatives ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Alternative:
    """Terms that hold together. One that says which constants a column may equal stands apart, so that alternatives can share it."""

    column: Column | None
    constants: tuple[Literal, ...]
    others: Terms

    @property
    def predicate(self) -> Expression:
        if self.column is None:
            return conjunction(self.others)
        op = "eq" if len(self.constants) == 1 else "in"
        return conjunction((Call(op, (self.column, *self.constants), Type.BOOLEAN), *self.others))

    def covers(self, other: _Alternative) -> bool:
        """Does it hold wherever the other does?"""
        is_wider = self.column is None or (self.column == other.column and set(self.constants) >= set(other.constants))
        return is_wider and set(self.others) <= set(other.others)


def _any_of(places: Sequence[Terms]) -> Expression | None:
    """What is TRUE wherever the terms of one place are; None if that says nothing or takes too long to say."""
    # Constants among the terms are FALSE or NULL: nothing gets past there.
    possible = [terms for terms in places if not any(isinstance(term, Literal) for term in terms)]
    if not possible:
        return Literal(False, Type.BOOLEAN)
    if () in possible:
        return None
    alternatives = _united([_alternative(terms) for terms in possible])
    if len(alternatives) > MOST_ALTERNATIVES:
        # Hundreds of queries over one table still read few types of events.
        alternatives = _united([replace(alternative, others=()) for alternative in alternatives])
    if len(alternatives) > MOST_ALTERNATIVES or any(_says_too_little(alternative) for alternative in alternatives):
        return None
    widest = [one for one in alternatives if not any(other.covers(one) for other in alternatives if other is not one)]
    predicates = tuple([alternative.predicate for alternative in widest])
    return predicates[0] if len(predicates) == 1 else Call("or", predicates, Type.BOOLEAN)


def _says_too_little(alternative: _Alternative) -> bool:
    """Nothing, or more constants than are worth comparing."""
    return (alternative.column is None and not alternative.others) or len(alternative.constants) > MOST_CONSTANTS


def _alternative(terms: Terms) -> _Alternative:
    for term in terms:
        choice = _choice(term)
        if choice is not None:
            return _Alternative(*choice, tuple([other for other in terms if other is not term]))
    return _Alternative(None, (), terms)


def _choice(term: Expression) -> tuple[Column, tuple[Literal, ...]] | None:
    """The column and the constants of `column = constant` and `column IN (constants)`."""
    if not isinstance(term, Call) or term.op not in ("eq", "in"):
        return None
    first, *others = term.args
    if term.op == "eq" and isinstance(first, Literal):
        first, others = others[0], [first]
    constants = tuple([other for other in others if isinstance(other, Literal)])
    return (first, constants) if isinstance(first, Column) and len(constants) == len(others) else None


def _united(alternatives: Sequence[_Alternative]) -> list[_Alternative]:
    """Those that differ only in the constants as one."""
    found: dict[tuple[Column | None, frozenset[Expression]], _Alternative] = {}
    for alternative in alternatives:
        key = (alternative.column, frozenset(alternative.others))
        before = found.get(key, alternative)
        found[key] = replace(before, constants=tuple(dict.fromkeys([*before.constants, *alternative.constants])))
    return list(found.values())
