"""Algebra over a stream of stock quotes, built by hand: what these tests say must not depend on any language."""

from __future__ import annotations

from collections.abc import Sequence

from keuka.algebra.operators import Filter, Fold, Map, Next, Operator, Source
from keuka.algebra.semantics import Event, evaluate
from keuka.expressions import CANDIDATE, FIRST, LAST, TRUE, Call, Column, Expression, Literal
from keuka.schema import ARROW_OF, Attribute, Schema, Type

STOCK = Schema(tuple([Attribute(n, t, ARROW_OF[t]) for n, t in (("name", Type.STRING), ("price", Type.INTEGER), ("volume", Type.INTEGER))]))
STREAM = Source("Stock", STOCK)

_RESULT = {"add": Type.INTEGER, "sub": Type.INTEGER, "mul": Type.INTEGER, "to_double": Type.DOUBLE, "div": Type.DOUBLE}


def call(op: str, *args: Expression | int | float | str) -> Expression:
    """An operation whose type is that of the numbers it makes, or a truth value."""
    return Call(op, tuple([constant(a) if isinstance(a, int | float | str) else a for a in args]), _RESULT.get(op, Type.BOOLEAN))


def constant(value: int | float | str) -> Literal:
    return Literal(value, {int: Type.INTEGER, float: Type.DOUBLE, str: Type.STRING}[type(value)])


def first(name: str, schema: Schema = STOCK) -> Column:
    return _column(FIRST, name, schema)


def candidate(name: str, schema: Schema = STOCK) -> Column:
    return _column(CANDIDATE, name, schema)


def last(name: str, schema: Schema = STOCK) -> Column:
    return _column(LAST, name, schema)


def _column(side: int, name: str, schema: Schema) -> Column:
    index = schema.index(name)
    assert index is not None, name
    return Column(side, index, schema[index].type, name)


SAME_NAME = call("eq", candidate("name"), first("name"))


def where(operator: Operator, predicate: Expression) -> Filter:
    return Filter(operator, predicate)


def followed_by(one: Operator, other: Operator, skip: Expression = TRUE, take: Expression = TRUE) -> Next:
    renamed = [a.renamed(f"{a.name}_1") if a.name in other.schema.names else a for a in one.schema.attributes]
    return Next(one, other, skip, take, Schema((*renamed, *other.schema.attributes)))


def run_of(one: Operator, other: Operator, skip: Expression, step: Expression, update: Sequence[Expression] | None = None) -> Fold:
    """A Fold; unless told otherwise each attribute takes the candidate's value."""
    renamed = [a.renamed(f"{a.name}_1") for a in one.schema.attributes]
    latest = tuple([candidate(n, other.schema) if n in other.schema.names else last(n, one.schema) for n in one.schema.names])
    return Fold(one, other, skip, step, tuple(update or latest), Schema((*renamed, *one.schema.attributes)))


def only(operator: Operator, **items: str | Expression) -> Map:
    """The attributes `items` names, each another attribute or an expression."""
    expressions = [first(i, operator.schema) if isinstance(i, str) else i for i in items.values()]
    return Map(
        operator,
        tuple(expressions),
        Schema(tuple([Attribute(n, e.type, ARROW_OF[e.type]) for n, e in zip(items, expressions, strict=True)])),
    )


def quotes(*rows: tuple[int, str, int] | tuple[int, str, int, int]) -> list[Event]:
    """Point events from (tick, name, price[, volume])."""
    return [intervals((row[0], *row))[0] for row in rows]


def intervals(*rows: tuple[int, int, str, int] | tuple[int, int, str, int, int]) -> list[Event]:
    """Interval events from (start, end, name, price[, volume])."""
    return [Event((name, price, *(volume or [0])), start, end) for start, end, name, price, *volume in rows]


def run(operator: Operator, events: Sequence[Event], **others: Sequence[Event]) -> list[tuple[object, ...]]:
    """The results over `events` as stream Stock, as (payload..., start, end), sorted."""
    numbered = {
        stream: [Event(e.payload, e.start, e.end, ((stream, i),)) for i, e in enumerate(rows)]
        for stream, rows in {"Stock": events, **others}.items()
    }
    return sorted([(*e.payload, e.start, e.end) for e in evaluate(operator, numbered)])
