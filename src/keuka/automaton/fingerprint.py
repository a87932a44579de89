"""128 bits that say what a query means, for the ids of its matches (docs/semantics.md, 1). They are written down in other people's data.

What counts is the algebra as lowered, before any rule. Spans do not count, nor the names a query gives, nor the order of the columns
of its inputs: a column is known by the column of a source or by the expression that it comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as List

from keuka.algebra.operators import Filter, Fold, Map, Next, Operator, Published, Sequence, Source, Union, inputs
from keuka.automaton.build import count_leaves
from keuka.automaton.signatures import digest
from keuka.expressions import Call, Column, Expression, Literal
from keuka.schema import Meaning, Type

Columns = tuple[bytes, ...]  # what each column of a stream means; no two are the same
_ID_TYPES = {Type.DATE: "other", Type.DECIMAL: "other"}  # they could only be passed on once, and the ids of such queries are written down


def fingerprint(operator: Operator) -> bytes:
    return _meaning(operator, _expanded, {})[0]


def meaning(operator: Operator) -> Meaning:
    """For the rules that read the output of a query as a stream."""
    return Meaning(*_meaning(operator, _expanded, {}), count_leaves(operator))


def stream_identity(operator: Operator) -> bytes:
    """What the events mean, and what stands in each of their columns: for those who know a column by its index."""
    return digest(_meaning(operator, _by_name, {}))


def _by_name(source: Source) -> tuple[bytes, Columns]:
    """A stream is known by its name: two rules may publish the same, and their readers read different streams."""
    columns = tuple([_digest("column", a.name, _ID_TYPES.get(a.type, a.type.value)) for a in source.schema.attributes])
    if source.meaning is None:
        return _digest("source", source.stream), columns
    return _digest("published", source.stream, source.meaning.fingerprint), columns


def _expanded(source: Source) -> tuple[bytes, Columns]:
    """What another rule publishes means what that rule reads."""
    return _by_name(source) if source.meaning is None else (source.meaning.fingerprint, source.meaning.columns)


def _meaning(
    operator: Operator, of_source: Callable[[Source], tuple[bytes, Columns]], published: dict[str, tuple[bytes, Columns]]
) -> tuple[bytes, Columns]:
    """Of an operator and of its columns. A published stream means what it reads, and is looked at once."""
    if isinstance(operator, Source):
        return of_source(operator)
    if isinstance(operator, Published):
        if operator.name not in published:
            published[operator.name] = _meaning(operator.input, of_source, published)
        return published[operator.name]
    found = [_meaning(part, of_source, published) for part in inputs(operator)]
    read, sides = [meaning for meaning, _ in found], [columns for _, columns in found]
    if isinstance(operator, Filter):
        return _digest("filter", *read, _expression(operator.predicate, sides)), sides[0]
    if isinstance(operator, Map):
        items = _apart([_digest(_expression(item, sides)) for item in operator.items])
        return _digest("map", *read, *sorted(items)), items
    if isinstance(operator, Union):
        columns = tuple([_digest("union", *same) for same in zip(*sides, strict=True)])
        return _digest("union", *read, *sorted(columns)), columns
    if isinstance(operator, Next):
        conditions = [_expression(e, sides) for e in (operator.skip, operator.take)]
        return _digest("next", *read, *conditions, *_order(operator)), _side("first", sides[0]) + _side("second", sides[1])
    if isinstance(operator, Sequence):
        columns = tuple([column for i in operator.positive for column in _side(f"component {i}", sides[i])])
        return _digest("sequence", *read, *_combinations(operator, sides)), columns
    steps = [*_steps(operator, [*sides, sides[0]]), *_order(operator)]
    return _digest("fold", *read, *steps), _side("first", sides[0]) + _side("last", sides[0])


def _combinations(operator: Sequence, sides: List[Columns]) -> list[object]:
    """Terms count whatever their order."""
    alternatives = []
    for alternative in operator.alternatives:
        parts = (alternative.terms, *alternative.absent)
        alternatives.append([sorted([_expression(term, sides) for term in terms], key=repr) for terms in parts])
    return [operator.negated, operator.within, operator.ordered, sorted(alternatives, key=repr)]


def _order(operator: Next | Fold) -> list[object]:
    """In the history model it matters which parts of the second input are read by name."""
    return [("history", _shape(operator.second))] if operator.by_history else []


def _shape(operator: Operator) -> object:
    if isinstance(operator, Source) or (isinstance(operator, Published) and operator.named):
        return "primitive"
    return (type(operator).__name__, *[_shape(part) for part in inputs(operator)])


def _steps(fold: Fold, sides: List[Columns]) -> list[object]:
    updates = [(column, _expression(update, sides)) for column, update in zip(sides[0], fold.update, strict=True)]
    return [_expression(fold.skip, sides), _expression(fold.step, sides), sorted(updates, key=repr)]


def _expression(expression: Expression, sides: List[Columns]) -> object:
    if isinstance(expression, Column):
        return ("column", expression.side, sides[expression.side][expression.index], *expression.path)
    if isinstance(expression, Literal):
        return ("literal", expression.type.value, repr(expression.value))
    if isinstance(expression, Call):
        return (expression.op, expression.type.value, *[_expression(a, sides) for a in expression.args])
    return ("dur",)


def _side(side: str, columns: Columns) -> Columns:
    return tuple([_digest(side, column) for column in columns])


def _apart(columns: list[bytes]) -> Columns:
    """Columns that begin with the same value may go different ways in a FOLD, so the second one of a kind is not the first."""
    seen: Counter[bytes] = Counter()
    found = []
    for column in columns:
        found.append(_digest(column, seen[column]))
        seen[column] += 1
    return tuple(found)


def _digest(*parts: object) -> bytes:
    return digest(parts)
